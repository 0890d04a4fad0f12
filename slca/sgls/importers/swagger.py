"""Operations of Swagger 2.0, written as OpenAPI 3.0 has them; references stay, since they point into the same document."""

from slca.records import Json
from slca.sgls.importers.document import Document, Fault

Listed = list[tuple[dict[str, Json], str]]

_OWN = ("name", "in", "description", "required", "collectionFormat", "allowEmptyValue")
_STYLES: dict[str, dict[str, Json]] = {
    "csv": {"explode": False},
    "ssv": {"style": "spaceDelimited"},
    "pipes": {"style": "pipeDelimited"},
    "multi": {"explode": True},
}


def as_30(
    root: dict[str, Json], operation: dict[str, Json], listed: Listed, document: Document, place: str
) -> tuple[dict[str, Json], Listed]:
    """The operation with ``requestBody`` and ``content``, and its parameters outside the body, each with a schema.

    listed: all its parameters, path item's first, with their places. Raises Fault.
    """
    by_name = {(str(content.get("in")), content["name"]): (content, where) for content, where in listed}
    outside: Listed = []
    form: list[dict[str, Json]] = []
    new = dict(operation)
    consumed = _kinds(operation.get("consumes"), root.get("consumes"))
    for content, where in by_name.values():
        match content.get("in"):
            case "body":
                media = {"schema": content.get("schema", {})}
                new["requestBody"] = {"content": {kind: media for kind in consumed}, "required": content.get("required") is True}
            case "formData":
                form.append(content)
            case _:
                outside.append((_parameter(content, where), where))
    if form:
        new["requestBody"] = _form(form, consumed)
    produced = _kinds(operation.get("produces"), root.get("produces"))
    responses = operation.get("responses")
    if isinstance(responses, dict):
        where = f"{place}/responses"
        new["responses"] = {code: _response(value, produced, document, f"{where}/{code}") for code, value in responses.items()}
    return new, outside


def _parameter(content: dict[str, Json], place: str) -> dict[str, Json]:
    written = content.get("collectionFormat", "csv")
    if not isinstance(written, str) or written not in _STYLES:
        raise Fault(place, f"collectionFormat {written!r:.40} is not supported; use one of {', '.join(_STYLES)}")
    style = _STYLES[written] if content.get("type") == "array" else {}
    return {**{key: content[key] for key in _OWN if key in content}, **style, "schema": _schema(content)}


def _schema(content: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in content.items() if key not in _OWN or key == "description"}


def _form(fields: list[dict[str, Json]], kinds: list[str]) -> dict[str, Json]:
    """The body that a form's fields make: multipart where one is a file or the operation asks for it."""
    needed = [field["name"] for field in fields if field.get("required") is True]
    schema = {"type": "object", "properties": {field["name"]: _schema(field) for field in fields}, "required": needed}
    multipart, plain = "multipart/form-data", "application/x-www-form-urlencoded"
    is_multipart = any(field.get("type") == "file" for field in fields) or (multipart in kinds and plain not in kinds)
    return {"content": {multipart if is_multipart else plain: {"schema": schema}}, "required": bool(needed)}


def _response(response: Json, kinds: list[str], document: Document, place: str) -> Json:
    content, where = document.follow(response, place)
    if not isinstance(content, dict):
        raise Fault(where, "a response must be an object")
    if "schema" not in content:
        return content
    return {**content, "content": {kind: {"schema": content["schema"]} for kind in kinds}}


def _kinds(*lists: Json) -> list[str]:
    """The first list of content types that is there; JSON where there is none."""
    for kinds in lists:
        if isinstance(kinds, list) and kinds and all(isinstance(kind, str) for kind in kinds):
            return kinds
    return ["application/json"]
