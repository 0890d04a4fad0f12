"""Tools from OpenAPI 3.0, 3.1 and Swagger 2.0 documents: one for each operation.

``Route.path`` is the path as the document has it; the base path of ``servers`` is left to whoever serves it. Where a body has
several content types, JSON comes first, then ``+json`` types, then forms whose schema is an object, then text, then whatever else
there is, as text. The answer is that of the first 2xx response with JSON (of ``default`` only where no 2xx is described, since it
tells errors elsewhere); without JSON a text, without content null. Callbacks, links and webhooks become notes; security schemes
say nothing about arguments.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from slca.errors import DataError
from slca.records import Json
from slca.sgls.importers import swagger
from slca.sgls.importers.base import Imported, Refused
from slca.sgls.importers.dialects import openapi_30, openapi_31
from slca.sgls.importers.document import Document, Fault, plain_json, pointer
from slca.sgls.importers.names import route_name, tool_names
from slca.sgls.importers.rest import (
    METHODS,
    Body,
    Operation,
    Parameter,
    checked_path,
    described,
    path_names,
    reason,
    tool_of,
    with_path,
)
from slca.sgls.importers.schemas import LONGEST_TEXT, Schemas, shortened
from slca.sgls.tool import Place, Tool

_NO_CONTENT = ("204", "205", "304")
_IGNORED_HEADERS = ("accept", "content-type", "authorization")  # OpenAPI: "the parameter definition SHALL be ignored"
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_STYLES = {"spaceDelimited": "space", "pipeDelimited": "pipe", "deepObject": "deep"}
_FORM_PARTS = ("query", "cookie")


@dataclass(frozen=True)
class _Found:
    """An operation as it stands in the document, with the parameters of its path item."""

    place: str
    path: str
    method: str
    shared: Json
    content: Json

    @property
    def original(self) -> str:
        name = self.content.get("operationId")
        return name if isinstance(name, str) and name.strip() else f"{self.method.upper()} {self.path}"

    @property
    def name(self) -> str:
        return self.original if self.original == self.content.get("operationId") else route_name(self.method, self.path)


def from_openapi(document: Json, source: str) -> Imported:
    """The tools of a parsed OpenAPI document. Raises DataError, which names ``source``, where it is none at all."""
    root = plain_json(document, source)
    version = _version(root, source)
    return _Importer(root, version, source).imported()


def _version(root: Json, source: str) -> str:
    version = str(root.get("openapi", root.get("swagger", ""))) if isinstance(root, dict) else ""
    if re.match(r"3\.[0-9]|2\.0$|2$", version) is None:
        found = f"{version:.40}" or "absent"
        raise DataError(f"{source} is no OpenAPI document: field openapi must be 3.0 to 3.2, or swagger 2.0, not {found}.")
    if not isinstance(root.get("paths", {}), dict) or not root.keys() & {"paths", "webhooks", "components"}:
        raise DataError(f"{source}: field paths must be an object that holds the operations.")
    return version


class _Importer:
    def __init__(self, root: dict[str, Json], version: str, source: str) -> None:
        self._root = root
        self._source = source
        self._document = Document(root)
        self._is_swagger = version.startswith("2")
        self._schemas = Schemas(self._document, openapi_30 if version.startswith(("2", "3.0")) else openapi_31)
        self._notes: list[Refused] = []
        self._name = ""

    def imported(self) -> Imported:
        found = [entry for path, item in self._root.get("paths", {}).items() for entry in self._operations(path, item)]
        names = iter(tool_names([entry.name for entry in found if isinstance(entry, _Found)]))
        tools: list[Tool] = []
        refused: list[Refused] = []
        for entry in found:
            if isinstance(entry, Refused):
                refused.append(entry)
                continue
            self._name = next(names)
            try:
                tools.append(tool_of(self._read(entry), self._schemas, self._source))
            except Fault as fault:
                refused.append(Refused(entry.place, entry.original, reason(fault, entry.place)))
        webhooks = self._root.get("webhooks")
        for webhook in webhooks if isinstance(webhooks, dict) else ():
            self._notes.append(Refused(pointer("webhooks", webhook), webhook, "a webhook is a call to the client; it is no tool"))
        return Imported(tuple(tools), tuple(refused), (*self._notes, *self._schemas.notes))

    def _operations(self, path: str, item: Json) -> Iterator[_Found | Refused]:
        place = pointer("paths", path)
        if path.startswith("x-"):
            return
        try:
            content, _ = self._document.follow(item, place)
        except Fault as fault:
            yield Refused(place, path, reason(fault, place))
            return
        if not isinstance(content, dict):
            yield Refused(place, path, "a path item must be an object")
            return
        for method in (key for key in content if key.upper() in METHODS and key.islower()):
            found = _Found(f"{place}/{method}", path, method, content.get("parameters"), content[method])
            yield found if isinstance(found.content, dict) else Refused(found.place, path, "an operation must be an object")

    def _read(self, found: _Found) -> Operation:
        content = found.content
        place = found.place
        if content.get("callbacks"):
            self._note(f"{place}/callbacks", "callbacks are not imported")
        listed = [*self._listed(found.shared, f"{place[: -len(found.method) - 1]}/parameters")]
        listed += self._listed(content.get("parameters"), f"{place}/parameters")
        if self._is_swagger:
            content, listed = swagger.as_30(self._root, content, listed, self._document, place)
        parameters = self._parameters(listed)
        in_path = path_names(found.path)
        declared = [parameter.place.name for parameter in parameters if parameter.place.part == "path"]
        for missing in dict.fromkeys(one for one in in_path if one not in declared):
            self._note(place, f"path parameter {missing} is not declared; it is taken as text")
        for stray in (one for one in declared if one not in in_path):
            self._note(place, f"path parameter {stray} does not occur in the path; it is left out")
        body = self._body(content.get("requestBody"), f"{place}/requestBody")
        output, status = self._answer(content.get("responses"), f"{place}/responses", found.method)
        deprecated = "Deprecated." if content.get("deprecated") is True else None
        return Operation(
            place=place,
            name=self._name,
            original=found.original,
            method=METHODS[found.method.upper()],
            path=checked_path(found.path, place),
            description=described(
                f"{found.method.upper()} {found.path}", deprecated, content.get("summary"), content.get("description")
            ),
            parameters=with_path(parameters, in_path),
            body=body,
            output=output,
            status=status,
        )

    def _listed(self, parameters: Json, place: str) -> Iterator[tuple[dict[str, Json], str]]:
        """Each parameter object of a list, with its place. Raises Fault."""
        if parameters is None:
            return
        if not isinstance(parameters, list):
            raise Fault(place, "parameters must be a list")
        for index, parameter in enumerate(parameters):
            content, where = self._document.follow(parameter, f"{place}/{index}")
            if not isinstance(content, dict) or not isinstance(content.get("name"), str) or not content["name"]:
                raise Fault(f"{place}/{index}", "a parameter must be an object with a name")
            yield content, where

    def _parameters(self, listed: list[tuple[dict[str, Json], str]]) -> tuple[Parameter, ...]:
        """The parameters in the order path, query, header, cookie; of two with the same name and part the later one counts."""
        found: dict[tuple[str, str], Parameter] = {}
        for content, place in listed:
            part, name = content.get("in"), content["name"]
            if part not in ("path", "query", "header", "cookie"):
                raise Fault(place, f"in must be path, query, header or cookie, not {part!r:.40}")
            if part == "header" and name.lower() in _IGNORED_HEADERS:
                continue
            schema, style = self._parameter_schema(content, place, part)
            if isinstance(content.get("description"), str) and isinstance(schema, dict):
                schema = {**schema, "description": shortened(content["description"], LONGEST_TEXT)}
            found[part, name] = Parameter(
                Place.model_validate({"part": part, "name": name, "style": style}), schema, content.get("required") is True
            )
        order = ("path", "query", "header", "cookie")
        return tuple(sorted(found.values(), key=lambda parameter: order.index(parameter.place.part)))

    def _parameter_schema(self, content: dict[str, Json], place: str, part: str) -> tuple[Json, str]:
        """The converted schema, and the style of its place. Raises Fault."""
        media = content.get("content")
        if isinstance(media, dict) and media:
            kind = next(iter(media))
            inner, where = self._document.follow(media[kind], f"{place}/{pointer('content', kind)[2:]}")
            schema = inner.get("schema", {}) if isinstance(inner, dict) else {}
            return self._schemas.convert(schema, f"{where}/schema", "request"), "json" if _is_json(kind) else ""
        style = content.get("style")
        if style in ("label", "matrix"):
            raise Fault(place, f"style {style} of a path parameter is not supported")
        written = _STYLES.get(style, "") if isinstance(style, str) else ""
        if not written and part in _FORM_PARTS and content.get("explode") is False:
            written = "comma"
        schema = content.get("schema", {"type": "string"})
        return self._schemas.convert(schema, f"{place}/schema", "request"), written

    def _body(self, body: Json, place: str) -> Body | None:
        content, place = self._document.follow(body, place)
        if content is None:
            return None
        media = content.get("content") if isinstance(content, dict) else None
        if not isinstance(media, dict):
            raise Fault(place, "a request body must be an object with content")
        if not media:
            self._note(place, "the body names no content type; it is left out")
            return None
        schemas: dict[str, tuple[Json, str]] = {}
        for kind, entry in media.items():
            inner, where = self._document.follow(entry, f"{place}/{pointer('content', kind)[2:]}")
            schemas[kind] = (inner.get("schema", {}) if isinstance(inner, dict) else {}, where)
        kind = min(schemas, key=lambda one: self._rank(one, schemas[one][0]))
        schema, where = schemas[kind]
        required = content.get("required") is True
        if self._rank(kind, schema) <= 2:
            media_type = "application/json" if "*" in kind else _bare(kind)
            return Body(self._schemas.convert(schema, f"{where}/schema", "request"), media_type, required)
        if not _bare(kind).startswith("text/"):
            self._note(where, f"a body of type {kind:.80} is taken as text")
        return Body({"type": "string"}, _bare(kind), required)

    def _rank(self, kind: str, schema: Json) -> int:
        """How well a content type suits, 0 the best. Up to 2 the schema describes the body's value."""
        bare = _bare(kind)
        if bare == "application/json":
            return 0
        if _is_json(kind):
            return 1
        if bare in _FORMS and self._looks_like_object(schema):
            return 2
        return 3 if bare.startswith("text/") else 4

    def _looks_like_object(self, schema: Json) -> bool:
        try:
            target, _ = self._document.follow(schema, "")
        except Fault:
            return True  # converting it will say what is wrong
        return isinstance(target, dict) and bool(target.get("type") == "object" or target.keys() & {"properties", "allOf"})

    def _answer(self, responses: Json, place: str, method: str) -> tuple[Json, int]:
        """The converted schema of the answer to a call that succeeds, and its status."""
        nothing: dict[str, Json] = {"type": "null"}
        if not isinstance(responses, dict) or not responses:
            self._note(place, "no response is described; the answer is null")
            return nothing, 200
        codes = [code for code in responses if re.fullmatch(r"2([0-9][0-9]|[xX][xX])", code)]
        codes = codes or [code for code in responses if code == "default"]
        codes = codes or [code for code in responses if re.fullmatch(r"3[0-9][0-9]", code)]
        if not codes:
            self._note(place, "no successful response is described; the answer is null")
            return nothing, 200
        read: list[tuple[str, Json, int]] = []
        for code in codes:
            kind, schema, where = self._response(responses[code], f"{place}/{code}")
            status = int(code) if code.isdigit() else 200
            if method == "head" or code in _NO_CONTENT:
                kind = ""
            if kind and _is_json(kind):
                return self._schemas.convert(schema, where, "answer"), status
            read.append((kind, schema, status))
        kind, schema, status = read[0]
        return ({"type": "string"} if kind else nothing), status

    def _response(self, response: Json, place: str) -> tuple[str, Json, str]:
        """Content type ("" for none), schema and the schema's place of a response; JSON where it has JSON."""
        content, place = self._document.follow(response, place)
        if not isinstance(content, dict):
            raise Fault(place, "a response must be an object")
        if content.get("links"):
            self._note(f"{place}/links", "links are not imported")
        media = content.get("content")
        if not isinstance(media, dict) or not media:
            return "", {}, place
        kind = min(media, key=lambda one: self._rank(one, None))
        inner, where = self._document.follow(media[kind], f"{place}/{pointer('content', kind)[2:]}")
        return kind, inner.get("schema", {}) if isinstance(inner, dict) else {}, f"{where}/schema"

    def _note(self, place: str, reason: str) -> None:
        self._notes.append(Refused(place, self._name, reason))


def _bare(kind: str) -> str:
    return kind.split(";")[0].strip().lower()


def _is_json(kind: str) -> bool:
    bare = _bare(kind)
    return bare in ("application/json", "text/json", "*/*", "application/*") or bare.endswith("+json")
