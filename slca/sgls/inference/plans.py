"""How the records of one entity are kept: what their ids are, where they are shown, and what the service itself writes."""

from dataclasses import dataclass, field
from typing import Any

from slca.records import Json
from slca.sgls import shapes, validation
from slca.sgls.backends.base import Request
from slca.sgls.backends.schema import SchemaBackend
from slca.sgls.inference import answers, names
from slca.sgls.inference.paths import Collection, Parent
from slca.sgls.inference.resources import Entity, Operation, could_be_ids
from slca.sgls.inference.writing import Writes, writes
from slca.sgls.tool import Page, Tool

_OF_IDS = {
    *("type", "format", "pattern", "enum", "const", "minLength", "maxLength"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}


@dataclass
class Plan:
    """What all operations on one entity share.

    scoped: ids are unique within the parents only. upsert: a PUT makes what is not there. stem: what all ids begin with. made: as
    in ``Behaviour``. initial: what new records hold of it. written: by tool.
    """

    entity: Entity
    id_field: str
    id_schema: dict[str, Any] | None
    scoped: bool = False
    upsert: bool = False
    stem: str | None = None
    made: tuple[str, ...] = ()
    initial: dict[str, Json] = field(default_factory=dict)
    written: dict[str, Writes | None] = field(default_factory=dict)


def plan_for(entity: Entity) -> Plan | None:
    """How the entity's records are kept; None where that cannot be told."""
    writes_any = entity.has("create", "replace", "merge", "delete")
    if entity.unclear or not entity.has("read", "list") or not (writes_any or (entity.has("read") and entity.has("list"))):
        return None
    if not entity.alone and not entity.has("create", "list") and not _are_put(entity):
        return None  # nobody could ever learn of a record
    id_field = "" if entity.alone else _id_field(entity)
    plan = Plan(entity, id_field, _id_schema(entity, id_field))
    plan.stem = next((one.target.stem for one in entity.operations if one.target.stem is not None), None)
    for operation in entity.operations:
        fields = [
            parent_field(entity, parent.collection, parent.argument, operation, id_field) for parent in parents_of(operation)
        ]
        one = names.singular(operation.target.last)
        written = writes(operation.tool, operation.route, one, id_field, entity.properties, fields)
        plan.written[operation.tool.name] = written
    creates = [one for one in entity.operations if one.role == "create"]
    if any(plan.written[one.tool.name] is None for one in creates) or not (entity.alone or _ids_are_known(plan)):
        return None
    plan.upsert = not creates
    named_by_client = all(_must_name(one, plan) for one in creates) and (bool(creates) or _are_put(entity))
    plan.scoped = entity.alone or (named_by_client and len({len(one.target.parents) for one in entity.operations}) == 1)
    plan.made = _made(plan)
    plan.initial = _initial(plan)
    return plan


def _are_put(entity: Entity) -> bool:
    """Whether a client can PUT to the path of an item, and so choose its id."""
    return any(one.role == "replace" and one.target.item is not None for one in entity.operations)


def _id_field(entity: Entity) -> str:
    """The property that holds a record's id; where none does, what the paths call it."""
    possible = could_be_ids([one for one in entity.operations if one.role != "delete"])
    given = {_looks(schema) for schema in _given_ids(entity)}
    alike = [name for name, shape in possible.items() if _looks(shape) in given]
    word = names.singular(entity.operations[0].target.last)
    return names.id_property(possible, alike, word, entity.parameter) or entity.parameter or "id"


def _given_ids(entity: Entity) -> list[dict[str, Any]]:
    """The schemas of the arguments that name a record in the path of an item."""
    return [
        shapes.flat(one.tool.properties[one.target.item], one.tool.parameters)
        for one in entity.operations
        if one.target.item is not None and one.by is None
    ]


def _looks(schema: dict[str, Any]) -> tuple[frozenset[str], Json]:
    return frozenset(shapes.types(schema)) - {"null"}, schema.get("format")


def _must_name(operation: Operation, plan: Plan) -> bool:
    """Whether a create has to be told the new record's id."""
    written = plan.written[operation.tool.name]
    if written is None or written.key is None:
        return False
    if written.key == written.record:
        shape = shapes.flat(operation.tool.properties[written.key], operation.tool.parameters)
        return written.key in operation.tool.required and plan.id_field in shape.get("required", ())
    return written.key in operation.tool.required


def _ids_are_known(plan: Plan) -> bool:
    """Whether a client can learn or choose the ids that the paths of items ask for."""
    entity = plan.entity
    if (_are_put(entity) and not entity.has("create")) or not any(one.target.item is not None for one in entity.operations):
        return True
    for one in entity.operations:
        if one.role == "create" and (written := plan.written[one.tool.name]) is not None and written.key is not None:
            return True
        if one.role in ("create", "list") and not one.part.nothing and (not one.part.properties or own_id(one, plan) is not None):
            return True
        if one.role == "create" and one.part.nothing and _is_id_alone(one.tool):
            return True
    return False


def _is_id_alone(tool: Tool) -> bool:
    output = tool.output or {}
    return bool(shapes.types(shapes.flat(output, output)) & {"string", "integer", "number"})


def own_id(operation: Operation, plan: Plan) -> str | None:
    """Where this answer shows the record's id: under the entity's name for it, or under one that says the same."""
    declared = could_be_ids([operation])
    if plan.id_field in declared:
        return plan.id_field
    kind = names.norm(plan.entity.name)
    same = {names.norm(plan.id_field), *(("id", f"{kind}id") if names.norm(plan.id_field) in ("id", f"{kind}id") else ())}
    return next((name for name in declared if names.norm(name) in same), None)


def _id_schema(entity: Entity, id_field: str) -> dict[str, Any] | None:
    """What an id must look like: as the paths' argument and the records' property have it; None for any text."""
    joined: dict[str, Any] = {}
    for operation in entity.operations:
        item = operation.target.item
        if item is not None and operation.by is None and not operation.target.whole:
            joined |= _plain(operation.tool.properties[item], operation.tool.parameters, joined)
    for operation in entity.operations:
        if id_field in operation.part.properties and not operation.target.whole:
            joined |= _plain(operation.part.properties[id_field], operation.tool.output or {}, joined)
    return joined if joined and joined != {"type": "string"} else None


def _plain(schema: Json, root: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    shape = shapes.flat(schema, root)
    kinds = shapes.types(shape) - {"null"}
    kind = "integer" if kinds & {"integer", "number"} else "string"
    if not kinds or (known and known["type"] != kind):
        # A number wins over a text: digits are a text as well.
        return {} if kind == "string" else {"type": kind}
    kept = {key: value for key, value in shape.items() if key in _OF_IDS and key not in known}
    return {**kept, "type": kind}


def parents_of(operation: Operation) -> tuple[Parent, ...]:
    """The records that the path goes through, where their ids are no part of the record's own."""
    return () if operation.target.whole else operation.target.parents


def parent_field(entity: Entity, collection: Collection, argument: str, operation: Operation, id_field: str) -> str:
    """The record's field that holds the id of the parent which ``argument`` names."""
    name = operation.route.arguments[argument].name
    parent = names.norm(names.singular(collection[-1])) if collection else ""
    wanted = [names.norm(name), f"{parent}id", f"{parent}{names.norm(name)}"]
    for declared in entity.properties:
        if declared != id_field and names.norm(declared) in wanted:
            return declared
    bare = names.norm(name) in (*names.IDS, *names.NAMES) or name == id_field
    return f"{names.snake(names.singular(collection[-1]))}_{names.snake(name)}" if bare and collection else names.snake(name)


def _made(plan: Plan) -> tuple[str, ...]:
    """Fields that the service itself writes: read-only ones, required ones, and plain values that no call can write."""
    entity = plan.entity
    writable = {name for written in plan.written.values() if written is not None for name in written.names}
    parents = {
        parent_field(entity, parent.collection, parent.argument, one, plan.id_field)
        for one in entity.operations
        for parent in parents_of(one)
    }
    always = _always_written(plan)
    found: list[str] = []
    for one in entity.operations:
        if one.role == "delete" or not _is_like(one, entity):
            continue
        output = one.tool.output or {}
        hidden = {own_id(one, plan), *parents, *constants_of(one, plan)}
        for name, schema in one.part.properties.items():
            if name in hidden or name in found or name in always:
                continue
            shape = shapes.flat(schema, output)
            reads_only = shape.get("readOnly") is True or (isinstance(schema, dict) and schema.get("readOnly") is True)
            unwritten = shapes.is_scalar(shape) and name not in writable
            if name in one.part.schema.get("required", ()) or ((reads_only or unwritten) and _can_be_drawn(name, schema, output)):
                found.append(name)
    return tuple(found)


def _initial(plan: Plan) -> dict[str, Json]:
    """What new records hold of the fields that the service makes and that lists are filtered by, so that filters find them.

    Only where there is a likely first value: of an enumeration the first, of a flag false.
    """
    filtered = {
        names.norm(place.name)
        for one in plan.entity.operations
        for place in one.route.arguments.values()
        if one.role == "list" and place.part == "query"
    }
    found: dict[str, Json] = {}
    for one in plan.entity.operations:
        for name, schema in one.part.properties.items():
            if name in plan.made and name not in found and names.norm(name) in filtered:
                shape = shapes.flat(schema, one.tool.output or {})
                if shape.get("enum"):
                    found[name] = shape["enum"][0]
                elif shapes.types(shape) == {"boolean"}:
                    found[name] = False
    return found


def _is_like(operation: Operation, entity: Entity) -> bool:
    """Whether the answer is a record and not, say, a job that will write one."""
    shown = set(operation.part.properties)
    return operation.role in ("read", "list") or 2 * len(shown & set(entity.properties)) >= len(shown)


def _always_written(plan: Plan) -> set[str]:
    """Fields that no record can be without: every create requires them."""
    creates = [one for one in plan.entity.operations if one.role == "create"]
    found = []
    for one in creates:
        written = plan.written[one.tool.name]
        fields = written.fields if written is not None else {}
        found.append({name for argument, name in fields.items() if argument in one.tool.required})
    return set.intersection(*found) if found and not plan.upsert else set()


def _can_be_drawn(name: str, schema: Json, root: dict[str, Any]) -> bool:
    wanted = {**shapes.definitions(root), "type": "object", "properties": {name: schema}, "required": [name]}
    value = SchemaBackend().fill(Request(wanted, ["made", name], {}, None, 0))
    return validation.fault(validation.validator(wanted), value, name) is None


def constants_of(operation: Operation, plan: Plan) -> dict[str, Json]:
    page = page_of(operation.tool, operation) if operation.role == "list" else None
    own = {name for one in plan.entity.operations if one.role in ("read", "list") for name in one.part.properties}
    if operation.part.result == "":
        return {}
    counted = answers.counts(operation.tool, operation.part, page.token if page else None) if operation.role == "list" else {}
    return answers.constants(operation.tool, operation.part, operation.role == "delete", counted, own)


def page_of(tool: Tool, operation: Operation) -> Page | None:
    """The arguments that choose a page."""
    found: dict[str, Any] = {}
    for argument, place in operation.route.arguments.items():
        if place.part != "query":
            continue
        schema = shapes.flat(tool.properties[argument], tool.parameters)
        word, kinds = names.norm(place.name), shapes.types(schema)
        whole = bool(kinds & {"integer", "number"})
        if word in names.LIMIT and whole and "limit" not in found:
            size = schema.get("default")
            found |= {"limit": argument, "size": size if isinstance(size, int) and size > 0 else None}
        elif word in names.OFFSET and whole:
            found.setdefault("offset", argument)
        elif word in names.NUMBER and whole and "number" not in found:
            found |= {"number": argument, "first": 0 if schema.get("default", schema.get("minimum", 1)) == 0 else 1}
        elif word in names.TOKEN and "string" in kinds:
            found.setdefault("token", argument)
    return Page(**found) if found else None
