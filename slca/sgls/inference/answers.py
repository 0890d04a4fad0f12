"""Where an answer's schema has room for records, and what it says beside them."""

from dataclasses import dataclass
from typing import Any

from slca.records import Json
from slca.sgls import shapes, validation
from slca.sgls.inference import names
from slca.sgls.tool import Counted, Tool

_MOST_BESIDE = 2
"""Properties of unknown meaning that may stand beside a list whose name says nothing."""


@dataclass(frozen=True)
class Part:
    """Records in an answer. result: as in ``Behaviour``. schema: of one record, joined; empty where it is unknown.

    nothing: the answer has no room for a record (204, a message, a flag).
    """

    result: str | None
    schema: dict[str, Any]
    nothing: bool = False

    @property
    def properties(self) -> dict[str, Any]:
        return shapes.properties(self.schema)


def list_part(tool: Tool, collection: str) -> Part | None:
    """The records of a list's answer: the bare list, or the one property that holds it; None where there is no telling."""
    output = tool.output or {}
    shape = shapes.flat(output, output)
    if "array" in shapes.types(shape):
        items = shapes.flat(shape.get("items"), output)
        return Part("", items) if shapes.is_object(items) or not shapes.types(items) else None
    found = {}
    for name, schema in shapes.properties(shape).items():
        inner = shapes.flat(schema, output)
        items = shapes.flat(inner.get("items"), output)
        if "array" in shapes.types(inner) and (shapes.is_object(items) or not shapes.types(items)):
            found[name] = items
    wanted = {names.norm(collection), *names.LISTS}
    named = [name for name in found if names.norm(name) == names.norm(collection)] or [
        name for name in found if names.norm(name) in wanted
    ]
    if named:
        return Part(named[0], found[named[0]])
    known = set().union(*names.COUNTS.values(), names.NEIGHBOURS, {"kind", "etag", "selflink", "links", "meta"})
    beside = [name for name in shapes.properties(shape) if name not in found and names.norm(name) not in known]
    if len(found) == 1 and len(beside) <= _MOST_BESIDE:
        name, items = found.popitem()
        return Part(name, items)
    return None


def record_part(tool: Tool, entity: str) -> Part | None:
    """The record of an answer: the whole, or the one property that wraps it; None where the answer is a list."""
    output = tool.output or {}
    shape = shapes.flat(output, output)
    kinds = shapes.types(shape)
    if "array" in kinds:
        return None
    if shapes.is_scalar(shape):
        return Part(None, {}, nothing=True)
    declared = shapes.properties(shape)
    if not any(names.norm(name) in ("id", "uuid", f"{names.norm(entity)}id") for name in declared):
        for name, schema in declared.items():
            if names.norm(name) in (*names.WRAPPERS, names.norm(entity)):
                inner = shapes.flat(schema, output)
                if shapes.is_object(inner) and shapes.properties(inner):
                    return Part(name, inner)
    return Part(None, shape)


def counts(tool: Tool, part: Part, token: str | None) -> dict[str, Counted]:
    """What the properties beside a list tell of the page. token: the argument that takes one."""
    found: dict[str, Counted] = {}
    for name, (schema, _) in _beside(tool, part, inside=True).items():
        word, kinds = names.norm(name.rsplit(".", 1)[-1]), _types(tool, schema)
        for fact, words in names.COUNTS.items():
            wanted = {"boolean"} if fact == "more" else {"string"} if fact == "token" else {"integer", "number"}
            if word in words and kinds & wanted and fact not in found.values() and (fact != "token" or token is not None):
                found[name] = fact
                break
    return found


def constants(tool: Tool, part: Part, deletes: bool, counted: dict[str, Counted], own: set[str]) -> dict[str, Json]:
    """Properties of the answer that are the same for every record: that it worked, that nothing follows. own: the record's."""
    output = tool.output or {}
    found: dict[str, Json] = {}
    for name, (schema, is_required) in _beside(tool, part, inside=bool(counted)).items():
        word, kinds = names.norm(name), _types(tool, schema)
        value: Json = None
        if part.result is None and name in own and not deletes:
            continue
        if kinds == {"boolean"} and (word in names.WORKED or (deletes and word in names.DELETED)):
            value = True
        elif counted.get(name) == "token":
            value = "" if is_required and "null" not in kinds else None
        elif part.result is None or word not in names.NEIGHBOURS or "null" not in kinds or name in counted:
            continue
        whole = {**shapes.definitions(output), "allOf": [schema]}
        if validation.fault(validation.validator(whole), value, name) is None:
            found[name] = value
    return found


def _types(tool: Tool, schema: Json) -> set[str]:
    return set().union(*(shapes.types(choice) for choice in shapes.choices(schema, tool.output or {})))


def _beside(tool: Tool, part: Part, inside: bool) -> dict[str, tuple[Json, bool]]:
    """Schemas of the answer's properties that are not its records, and whether they are required.

    inside: those in an object that tells of the page as well, under dotted names.
    """
    output = tool.output or {}
    found: dict[str, tuple[Json, bool]] = {}
    waiting = [("", shapes.flat(output, output))]
    for prefix, shape in waiting:
        for name, schema in shapes.properties(shape).items():
            if (not prefix and name == part.result) or "." in name:
                continue
            found[prefix + name] = schema, name in shape.get("required", ())
            if inside and not prefix and names.norm(name) in names.PAGE_INFO:
                waiting.append((f"{name}.", shapes.flat(schema, output)))
    return found
