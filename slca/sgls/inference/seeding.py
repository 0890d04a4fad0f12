"""Records to begin with: what a service might hold before the first call.

Read from the behaviours alone, so that edited ones count. Each record is drawn under the schema of the answer that is likeliest
to show all of it, parents before what is inside them; a field that is called like another entity's id names one of its records.
"""

from collections.abc import Sequence
from typing import Any

from slca.files import derive_seed
from slca.records import Json, State
from slca.sgls import record_ids, shapes, validation
from slca.sgls.backends.base import Request
from slca.sgls.backends.schema import SchemaBackend
from slca.sgls.completion import record_schema
from slca.sgls.inference.names import norm
from slca.sgls.tool import Behaviour, Tool

_SHOW_RECORDS = ("look_up", "create", "update", "search")
"""Whose answers say what a record looks like, the likeliest first."""


def seed_state(tools: Sequence[Tool], count: int, seed: int) -> State:
    """``count`` plausible records of each entity that the tools keep; of those that are alone, one for each parent.

    Pure: the same tools, count and seed give the same state in any process.
    """
    waiting: dict[str, list[Tool]] = {}
    for tool in tools:
        if tool.behaviour is not None and tool.behaviour.entity is not None:
            waiting.setdefault(tool.behaviour.entity, []).append(tool)
    state: State = {}
    while waiting:
        ready = [entity for entity, found in waiting.items() if not _above(found) & (waiting.keys() - {entity})]
        for entity in ready or list(waiting)[:1]:
            state[entity] = _records(entity, waiting.pop(entity), state, count, seed)
    return state


def _above(tools: Sequence[Tool]) -> set[str]:
    return {copy.entity for tool in tools if tool.behaviour is not None for copy in tool.behaviour.copies}


def _records(entity: str, tools: Sequence[Tool], state: State, count: int, seed: int) -> dict[str, dict[str, Json]]:
    source, inside = _source(tools), _inside(tools)
    naming, within = _behaviour(source), _behaviour(inside)
    naming = naming.model_copy(update={"prefix": within.prefix, "scope": within.scope})
    records: dict[str, dict[str, Json]] = {}
    for index in range(count):
        subject = ["seed", entity, index]
        above = above_of(inside, state, index, seed)
        record = _drawn(source, subject, seed)
        record.pop(str(naming.id_field), None)
        record |= _references(record, state, subject)
        record |= {one.field: above[one.argument] for one in within.where if one.op == "id" and one.argument in above}
        if naming.only is not None:
            records.setdefault(record_ids.scoped(naming.only, naming.scope, above), record)
            continue
        record_id = record_ids.new_id(naming, [record, index, seed], above, records)
        if record_id is not None:
            records[record_id] = record
    return {record_id: records[record_id] for record_id in sorted(records)}


def _behaviour(tool: Tool) -> Behaviour:
    assert tool.behaviour is not None  # only tools with one are grouped
    return tool.behaviour


def _inside(tools: Sequence[Tool]) -> Tool:
    """The tool that says most of what the records are inside."""

    def rank(tool: Tool) -> int:
        behaviour = _behaviour(tool)
        return len(_names_above(tool)) + len(behaviour.copies)

    return max(tools, key=rank)


def _names_above(tool: Tool) -> list[str]:
    """The arguments that name what a record is inside, outermost first."""
    behaviour = _behaviour(tool)
    names = [condition.argument for condition in behaviour.where if condition.op == "id"]
    if behaviour.prefix is not None:
        names += [name for name in tool.properties if f"{{{name}}}" in behaviour.prefix]
    return list(dict.fromkeys((*behaviour.scope, *names)))


def _source(tools: Sequence[Tool]) -> Tool:
    """The tool whose answer says most of a record."""

    def rank(tool: Tool) -> tuple[bool, int]:
        schema = record_schema(tool) or {}
        kind = tool.behaviour.kind if tool.behaviour is not None else ""
        silent = not shapes.properties(shapes.flat(schema, schema))
        return silent, _SHOW_RECORDS.index(kind) if kind in _SHOW_RECORDS else len(_SHOW_RECORDS)

    return min(tools, key=rank)


def above_of(tool: Tool, state: State, index: int, seed: int) -> dict[str, Json]:
    """A value for each argument that names what a record is inside: records in turn where they are kept, else one value.

    Innermost first: what that is inside itself follows from it.
    """
    behaviour = _behaviour(tool)
    kept = {copy.argument: copy for copy in behaviour.copies}
    fields = {condition.argument: condition.field for condition in behaviour.where if condition.op == "id"}
    values: dict[str, Json] = {}
    for name in reversed(_names_above(tool)):
        copy = kept.get(name)
        known = list(state.get(copy.entity, {})) if copy is not None else []
        if name in values:
            continue
        if copy is None or not known:
            values[name] = _value(tool, name, seed)
            continue
        chosen = known[index % len(known)]
        parts = record_ids.parts(chosen) if copy.scope else [chosen]
        for argument, part in zip((*copy.scope, name), parts, strict=False):
            values.setdefault(argument, as_given(tool, argument, part))
        record = state[copy.entity][chosen]
        values = {**{argument: record[field] for argument, field in fields.items() if field in record}, **values}
    return values


def as_given(tool: Tool, argument: str, own: str) -> Json:
    """An id as a call would give it: a number where the argument is one."""
    kinds = shapes.types(shapes.flat(tool.properties[argument], tool.parameters))
    return int(own) if "integer" in kinds and own.isdecimal() and own.isascii() else own


def _value(tool: Tool, argument: str, seed: int) -> Json:
    schema = {**shapes.definitions(tool.parameters), "allOf": [tool.properties[argument]]}
    pattern = shapes.flat(schema, schema).get("pattern", "")
    # Whole resource names, ^projects/[^/]+$, read better with a word than with any characters that are no slash.
    name = pattern.removeprefix("^").removesuffix("$").replace("[^/]+", "main")
    if "[^/]+" in pattern and validation.fault(validation.validator(schema), name, argument) is None:
        return name
    return _fill(schema, ["seed", argument], seed)


def _drawn(tool: Tool, subject: Json, seed: int) -> dict[str, Json]:
    """A whole record; of one too large to be drawn whole, its plain values."""
    schema = record_schema(tool) or {}
    shape = shapes.flat(schema, schema)
    if not shapes.properties(shape):
        return {}
    plain = {name: part for name, part in shapes.properties(shape).items() if shapes.is_scalar(shapes.flat(part, schema))}
    for wanted in (schema, {**shapes.definitions(schema), "type": "object", "properties": plain, "required": sorted(plain)}):
        value = _fill(wanted, subject, seed)
        if isinstance(value, dict) and validation.fault(validation.validator(wanted), value, "record") is None:
            return value
    return {}


def _references(record: dict[str, Json], state: State, subject: Json) -> dict[str, Json]:
    """Ids of records that are there, for fields that are called like them (``owner_id``)."""
    entities = {f"{norm(entity)}id": entity for entity in state}
    found: dict[str, Json] = {}
    for name, value in record.items():
        known = sorted(state[entities[norm(name)]]) if norm(name) in entities else []
        chosen = known[derive_seed(subject, name) % len(known)] if known else ""
        if chosen and isinstance(value, str):
            found[name] = chosen
        elif chosen.isdecimal() and isinstance(value, int) and not isinstance(value, bool):
            found[name] = int(chosen)
    return found


def _fill(schema: dict[str, Any], subject: Json, seed: int) -> Json:
    return SchemaBackend().fill(Request(schema, subject, {}, None, seed))
