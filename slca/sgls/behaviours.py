"""What a call does to the state: the Behaviour of a tool, executed in code (method section 5, step 2).

Pure: (tool, arguments, state) -> Outcome, or Refusal (not_found, conflict, invalid_arguments); the given state is never changed.
The kinds are defined in ``slca.sgls.tool.Behaviour``, ids in ``slca.sgls.record_ids``, conditions and pages in
``slca.sgls.searching``; fixed here beyond that:

* Record ids are strings, the keys of the state; a record need not hold its own id.
* A record is built from defaults, over them copies, over them the argument that is a whole record, over that fields; absent
  optional arguments set, copy and adjust nothing.
* ``delete`` answers with the record as it was, over it ``defaults`` (a status, say).
* A create whose id is given and taken is a conflict.
* Adjusted numbers are added in decimal, so that no order of calls leaves a trace of rounding; a whole sum is an int.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from slca.errors import ToolError
from slca.records import CallError, Json, State
from slca.sgls import record_ids, shapes
from slca.sgls.compute import FUNCTIONS, LARGEST
from slca.sgls.refusal import Refusal
from slca.sgls.searching import is_number, meets, shown_page
from slca.sgls.tool import Adjust, Behaviour, Condition, Copy, Tool

__all__ = ["Outcome", "Refusal", "check_behaviour", "execute", "nothing_found", "shown_records"]


@dataclass(frozen=True)
class Outcome:
    """The whole answer, not yet cut down to the output schema, and the state afterwards."""

    result: Json
    state: State


def execute(tool: Tool, arguments: Mapping[str, Json], state: State) -> Outcome:
    """The outcome of a call whose arguments validate. Raises Refusal."""
    behaviour = _behaviour(tool)
    entity = str(behaviour.entity)
    match behaviour.kind:
        case "compute":
            return Outcome(_compute(behaviour, arguments), state)
        case "look_up":
            record_id, record = _find(state, behaviour, arguments)
            return _shown(behaviour, record_id, record, state)
        case "search":
            return Outcome(_search(behaviour, arguments, state), state)
        case "create":
            record = _written(behaviour, arguments, state)
            state = _adjusted(behaviour, arguments, state)
            record_id = _id_for(behaviour, record, arguments, state)
            return _shown(behaviour, record_id, record, _with_record(state, entity, record_id, record))
        case "update":
            record_id, _ = _find(state, behaviour, arguments)
            written = _written(behaviour, arguments, state)
            state = _adjusted(behaviour, arguments, state)
            old = state.get(entity, {}).get(record_id, {})  # read anew: an adjust may touch the same record
            record = {**(_kept(tool, behaviour, old) if behaviour.replace else old), **written}
            return _shown(behaviour, record_id, record, _with_record(state, entity, record_id, record))
        case "delete":
            record_id, old = _find(state, behaviour, arguments)
            state = _adjusted(behaviour, arguments, state)
            records = dict(state.get(entity, {}))
            record = {**records.pop(record_id, old), **behaviour.defaults}
            return _shown(behaviour, record_id, record, {**state, entity: records})


def nothing_found(behaviour: Behaviour) -> Json:
    """What a search answers that finds nothing: an empty page, not yet cut down to the output schema."""
    return _page(behaviour, [], {}, {})


def shown_records(behaviour: Behaviour, answer: Json) -> list[dict[str, Json]]:
    """The records that an answer of a search holds; none where its schema has no room for them."""
    records: Json = answer.get(behaviour.result, []) if behaviour.result else answer
    return records if isinstance(records, list) else []


def check_behaviour(tool: Tool, where: str) -> None:
    """Refuse a behaviour that names no known function or no argument of its tool. Raises ToolError."""
    behaviour = tool.behaviour
    if behaviour is None:
        return
    if behaviour.function is not None and behaviour.function not in FUNCTIONS:
        known = ", ".join(sorted(FUNCTIONS))
        raise ToolError(f"{where}: tool {tool.name!r}: there is no function {behaviour.function!r}; the functions are: {known}.")
    of_one = [behaviour.key] if behaviour.key is not None and behaviour.kind in ("look_up", "delete") else []
    for name in [*of_one, *behaviour.scope]:
        if name not in tool.required:
            raise ToolError(f"{where}: tool {tool.name!r}: key {name!r} must be a required argument.")
    named = [condition.argument for condition in behaviour.where] + list(behaviour.fields)
    named += [name for copy in behaviour.copies for name in (copy.argument, *copy.scope)]
    named += [name for adjust in behaviour.adjusts for name in (adjust.key, adjust.argument)]
    named += [name for name in (behaviour.key, behaviour.record, *behaviour.scope) if name is not None]
    page = behaviour.page
    named += [name for name in (page.limit, page.offset, page.number, page.token) if name is not None] if page else []
    for name in named:
        if name not in tool.properties:
            raise ToolError(f"{where}: tool {tool.name!r}: its behaviour names the argument {name!r}, which the parameters lack.")


def _behaviour(tool: Tool) -> Behaviour:
    if tool.behaviour is None:
        raise ValueError(f"tool {tool.name!r} has no behaviour")
    return tool.behaviour


def _compute(behaviour: Behaviour, arguments: Mapping[str, Json]) -> dict[str, Json]:
    try:
        result: dict[str, Json] = FUNCTIONS[str(behaviour.function)](dict(arguments))
    except ValueError as error:
        raise Refusal(CallError.INVALID_ARGUMENTS, str(error)) from None
    return result


def _named(state: State, copy: Copy, arguments: Mapping[str, Json]) -> dict[str, Json]:
    """The record that a copy's argument names. Raises Refusal."""
    own = record_ids.as_id(arguments[copy.argument])
    record = state.get(copy.entity, {}).get(record_ids.scoped(own, copy.scope, arguments))
    if record is None:
        raise _not_found(copy.argument, copy.entity, own)
    return record


def _not_found(argument: str, entity: str, own: str) -> Refusal:
    return Refusal(CallError.NOT_FOUND, f"{argument}: there is no {entity} {own[:40]!r}.")


def _find(state: State, behaviour: Behaviour, arguments: Mapping[str, Json]) -> tuple[str, dict[str, Json]]:
    """Key and record that a call is about; an empty record where it may be missing. Raises Refusal."""
    for copy in behaviour.copies:
        if copy.argument in arguments:
            _named(state, copy, arguments)
    entity, key = str(behaviour.entity), str(behaviour.key)
    if behaviour.only is None and key not in arguments:
        raise Refusal(CallError.INVALID_ARGUMENTS, f"{key} is missing.")
    own = behaviour.only if behaviour.only is not None else _given_id(behaviour, arguments)
    record_id = record_ids.scoped(own, behaviour.scope, arguments)
    if behaviour.by is not None:
        called = Condition(argument=key, field=behaviour.by, op="id")
        records = state.get(entity, {})
        record_id = next((found for found in sorted(records) if meets([called], records[found], arguments)), "")
    record = state.get(entity, {}).get(record_id)
    if record is None and (behaviour.only is not None or behaviour.upsert):
        return record_id, {}
    if record is None or not meets(behaviour.where, _answer(behaviour, record_id, record), arguments):
        raise _not_found(key, entity, own)
    return record_id, record


def _given_id(behaviour: Behaviour, arguments: Mapping[str, Json]) -> str:
    """The id that the call names; "" where it names none."""
    given = arguments.get(behaviour.key) if behaviour.key else None
    if isinstance(given, dict) and behaviour.key == behaviour.record:
        given = given.get(str(behaviour.id_field))
    return record_ids.as_id(given)


def _answer(behaviour: Behaviour, record_id: str, record: dict[str, Json]) -> dict[str, Json]:
    return record if behaviour.id_field is None else {**record, behaviour.id_field: record_ids.shown(behaviour, record_id)}


def _shown(behaviour: Behaviour, record_id: str, record: dict[str, Json], state: State) -> Outcome:
    answer = _answer(behaviour, record_id, record)
    return Outcome({**({behaviour.result: answer} if behaviour.result else answer), **_nested(behaviour.answer)}, state)


def _search(behaviour: Behaviour, arguments: Mapping[str, Json], state: State) -> Json:
    for copy in behaviour.copies:
        if copy.argument in arguments:
            _named(state, copy, arguments)
    records = state.get(str(behaviour.entity), {})
    found = sorted(records, key=record_ids.order(behaviour))
    conditions = [condition for condition in behaviour.where if condition.argument in arguments]
    if conditions:
        found = [one for one in found if meets(conditions, _answer(behaviour, one, records[one]), arguments)]
    return _page(behaviour, found, records, arguments)


def _page(behaviour: Behaviour, found: list[str], records: Mapping[str, dict[str, Json]], arguments: Mapping[str, Json]) -> Json:
    """The answer of a search that found the records ``found``, in order."""
    shown = shown_page(behaviour, found, arguments)
    page = [_answer(behaviour, found[position], records[found[position]]) for position in shown.positions]
    if not behaviour.result:
        return page
    counts = {name: shown.facts[fact] for name, fact in behaviour.counts.items() if fact in shown.facts}
    return {**_nested({**behaviour.answer, **counts}), behaviour.result: page}


def _nested(values: Mapping[str, Json]) -> dict[str, Json]:
    """``values`` with each dotted name led into an object."""
    nested: dict[str, Json] = {}
    for name, value in values.items():
        *path, last = name.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def _written(behaviour: Behaviour, arguments: Mapping[str, Json], state: State) -> dict[str, Json]:
    """The fields that a create or update writes."""
    written = dict(behaviour.defaults)
    for copy in behaviour.copies:
        if copy.argument in arguments:
            source = _named(state, copy, arguments)
            written.update({target: source[field] for field, target in copy.fields.items() if field in source})
    whole = arguments.get(behaviour.record) if behaviour.record else None
    if isinstance(whole, dict):
        written.update({name: value for name, value in whole.items() if name != behaviour.id_field})
    written.update({target: arguments[name] for name, target in behaviour.fields.items() if name in arguments})
    return written


def _kept(tool: Tool, behaviour: Behaviour, old: Mapping[str, Json]) -> dict[str, Json]:
    """What a replacement leaves of the old record: fields that the call has no way to write."""
    written = set(behaviour.fields.values())
    if behaviour.record is not None:
        declared = shapes.properties(shapes.flat(tool.properties[behaviour.record], tool.parameters))
        kept = {*behaviour.made, *(condition.field for condition in behaviour.where)}
        written |= declared.keys() or old.keys() - kept
    return {name: value for name, value in old.items() if name not in written}


def _id_for(behaviour: Behaviour, record: dict[str, Json], arguments: Mapping[str, Json], state: State) -> str:
    """The key of a record to be created: the given one, or a new one. Raises Refusal."""
    taken = state.get(str(behaviour.entity), {})
    own = _given_id(behaviour, arguments)
    if own:
        record_id = record_ids.named(behaviour, own, arguments)
        if record_id in taken:
            raise Refusal(CallError.CONFLICT, f"{behaviour.key}: there is a {behaviour.entity} {own[:40]!r} already.")
        return record_id
    new = record_ids.new_id(behaviour, record, arguments, taken)
    if new is None:
        raise Refusal(CallError.CONFLICT, f"no id is left for a new {behaviour.entity}.")
    return new


def _adjusted(behaviour: Behaviour, arguments: Mapping[str, Json], state: State) -> State:
    for adjust in behaviour.adjusts:
        if adjust.key in arguments and adjust.argument in arguments:
            record_id = record_ids.as_id(arguments[adjust.key])
            record = state.get(adjust.entity, {}).get(record_id)
            if record is None:
                raise _not_found(adjust.key, adjust.entity, record_id)
            total = _total(adjust, record, arguments[adjust.argument])
            state = _with_record(state, adjust.entity, record_id, {**record, adjust.field: total})
    return state


def _total(adjust: Adjust, record: Mapping[str, Json], amount: Json) -> int | float:
    value = record.get(adjust.field, 0)
    if not is_number(value) or not is_number(amount):
        raise Refusal(CallError.CONFLICT, f"{adjust.argument}: {adjust.field} is not a number.")
    total = Decimal(str(value)) + adjust.sign * Decimal(str(amount))
    if total < 0:
        raise Refusal(CallError.CONFLICT, f"{adjust.argument}: {adjust.field} is only {value}.")
    if total > LARGEST:
        raise Refusal(CallError.CONFLICT, f"{adjust.argument}: {adjust.field} would exceed {LARGEST}.")
    return int(total) if total == total.to_integral_value() else float(total)


def _with_record(state: State, entity: str, record_id: str, record: dict[str, Json]) -> State:
    return {**state, entity: {**state.get(entity, {}), record_id: record}}
