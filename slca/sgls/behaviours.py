"""What a call does to the state: the Behaviour of a tool, executed in code (method section 5, step 2).

Pure: (tool, arguments, state) -> Outcome, or Refusal (not_found, conflict, invalid_arguments); the given state is never changed.
The kinds are defined in ``slca.sgls.tool.Behaviour``; fixed here beyond that:

* Record ids are strings, the keys of the state; a record need not hold its own id. A whole number as key names the record of
  its digits.
* A record is built from defaults, over them copies, over them fields; absent optional arguments set, copy and adjust nothing.
* ``delete`` answers with the record as it was, over it ``defaults`` (a status, say).
* Search: ``eq`` is JSON equality (1 equals 1.0, not true); ``contains`` ignores case and looks into a string or a list;
  ``le`` and ``ge`` order numbers, or strings (ISO dates); a record without the field does not match.
* A created id is two letters of the entity and 4 digits drawn from entity and content. While an id is taken, the next one of the
  same drawn sequence is tried: equal records get distinct ids, the same ones in any order. Creations of *different* content
  end in the same state in any order unless two of their first ids meet: 1 in 10,000 for a pair.
* Adjusted numbers are added in decimal, so that no order of calls leaves a trace of rounding; a whole sum is an int.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from slca.errors import ToolError
from slca.files import derive_seed
from slca.records import CallError, Json, State
from slca.sgls.compute import FUNCTIONS, LARGEST
from slca.sgls.tool import Adjust, Behaviour, Condition, Tool


@dataclass(frozen=True)
class Outcome:
    """The whole answer, not yet cut down to the output schema, and the state afterwards."""

    result: dict[str, Json]
    state: State


class Refusal(Exception):
    """A valid call that cannot be carried out; the policy reads its kind and message."""

    def __init__(self, error: CallError, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def execute(tool: Tool, arguments: Mapping[str, Json], state: State) -> Outcome:
    """The outcome of a call whose arguments validate. Raises Refusal."""
    behaviour = _behaviour(tool)
    match behaviour.kind:
        case "compute":
            return Outcome(_compute(behaviour, arguments), state)
        case "look_up":
            record_id, record = _find(state, behaviour, arguments)
            return Outcome(_answer(behaviour, record_id, record), state)
        case "search":
            return Outcome(_search(behaviour, arguments, state), state)
        case "create":
            record = _written(behaviour, arguments, state)
            state = _adjusted(behaviour, arguments, state)
            entity = str(behaviour.entity)
            record_id = _new_id(entity, record, state.get(entity, {}))
            return Outcome(_answer(behaviour, record_id, record), _with_record(state, entity, record_id, record))
        case "update":
            record_id, _ = _find(state, behaviour, arguments)
            written = _written(behaviour, arguments, state)
            state = _adjusted(behaviour, arguments, state)
            record = {**state[str(behaviour.entity)][record_id], **written}  # read anew: an adjust may touch the same record
            return Outcome(_answer(behaviour, record_id, record), _with_record(state, str(behaviour.entity), record_id, record))
        case "delete":
            record_id, _ = _find(state, behaviour, arguments)
            state = _adjusted(behaviour, arguments, state)
            kept = dict(state[str(behaviour.entity)])
            record = {**kept.pop(record_id), **behaviour.defaults}
            return Outcome(_answer(behaviour, record_id, record), {**state, str(behaviour.entity): kept})


def check_behaviour(tool: Tool, where: str) -> None:
    """Refuse a behaviour that names no known function or no argument of its tool. Raises ToolError."""
    behaviour = tool.behaviour
    if behaviour is None:
        return
    if behaviour.function is not None and behaviour.function not in FUNCTIONS:
        known = ", ".join(sorted(FUNCTIONS))
        raise ToolError(f"{where}: tool {tool.name!r}: there is no function {behaviour.function!r}; the functions are: {known}.")
    if behaviour.key is not None and behaviour.key not in tool.required:
        raise ToolError(f"{where}: tool {tool.name!r}: key {behaviour.key!r} must be a required argument.")
    named = [condition.argument for condition in behaviour.where] + list(behaviour.fields)
    named += [copy.argument for copy in behaviour.copies]
    named += [name for adjust in behaviour.adjusts for name in (adjust.key, adjust.argument)]
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


def _record_id(value: Json) -> str:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value if isinstance(value, str) else ""


def _record(state: State, entity: str, argument: str, value: Json) -> tuple[str, dict[str, Json]]:
    record_id = _record_id(value)
    record = state.get(entity, {}).get(record_id)
    if record is None:
        raise Refusal(CallError.NOT_FOUND, f"{argument}: there is no {entity} {record_id[:40]!r}.")
    return record_id, record


def _find(state: State, behaviour: Behaviour, arguments: Mapping[str, Json]) -> tuple[str, dict[str, Json]]:
    key = str(behaviour.key)
    return _record(state, str(behaviour.entity), key, arguments.get(key))


def _answer(behaviour: Behaviour, record_id: str, record: dict[str, Json]) -> dict[str, Json]:
    return {**record, str(behaviour.id_field): record_id}


def _search(behaviour: Behaviour, arguments: Mapping[str, Json], state: State) -> dict[str, Json]:
    records = sorted(state.get(str(behaviour.entity), {}).items())
    conditions = [condition for condition in behaviour.where if condition.argument in arguments]
    found = []
    for record_id, record in records:
        whole = _answer(behaviour, record_id, record)
        if all(_meets(condition, whole, arguments[condition.argument]) for condition in conditions):
            found.append(whole)
    return {str(behaviour.result): found}


def _meets(condition: Condition, record: Mapping[str, Json], wanted: Json) -> bool:
    if condition.field not in record:
        return False
    value = record[condition.field]
    match condition.op:
        case "eq":
            return _equal(value, wanted)
        case "contains":
            if isinstance(value, list):
                return any(_equal(_folded(item), _folded(wanted)) for item in value)
            return isinstance(value, str) and isinstance(wanted, str) and wanted.casefold() in value.casefold()
        case "le":
            return _comparable(value, wanted) and bool(value <= wanted)
        case "ge":
            return _comparable(value, wanted) and bool(value >= wanted)


def _equal(left: Json, right: Json) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _folded(value: Json) -> Json:
    return value.casefold() if isinstance(value, str) else value


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _comparable(left: Json, right: Json) -> bool:
    return (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str))


def _written(behaviour: Behaviour, arguments: Mapping[str, Json], state: State) -> dict[str, Json]:
    """The fields that a create or update writes."""
    written = dict(behaviour.defaults)
    for copy in behaviour.copies:
        if copy.argument in arguments:
            _, source = _record(state, copy.entity, copy.argument, arguments[copy.argument])
            written.update({target: source[field] for field, target in copy.fields.items() if field in source})
    written.update({target: arguments[name] for name, target in behaviour.fields.items() if name in arguments})
    return written


def _adjusted(behaviour: Behaviour, arguments: Mapping[str, Json], state: State) -> State:
    for adjust in behaviour.adjusts:
        if adjust.key in arguments and adjust.argument in arguments:
            record_id, record = _record(state, adjust.entity, adjust.key, arguments[adjust.key])
            total = _total(adjust, record, arguments[adjust.argument])
            state = _with_record(state, adjust.entity, record_id, {**record, adjust.field: total})
    return state


def _total(adjust: Adjust, record: Mapping[str, Json], amount: Json) -> int | float:
    value = record.get(adjust.field, 0)
    if not _is_number(value) or not _is_number(amount):
        raise Refusal(CallError.CONFLICT, f"{adjust.argument}: {adjust.field} is not a number.")
    total = Decimal(str(value)) + adjust.sign * Decimal(str(amount))
    if total < 0:
        raise Refusal(CallError.CONFLICT, f"{adjust.argument}: {adjust.field} is only {value}.")
    if total > LARGEST:
        raise Refusal(CallError.CONFLICT, f"{adjust.argument}: {adjust.field} would exceed {LARGEST}.")
    return int(total) if total == total.to_integral_value() else float(total)


def _with_record(state: State, entity: str, record_id: str, record: dict[str, Json]) -> State:
    return {**state, entity: {**state.get(entity, {}), record_id: record}}


def _new_id(entity: str, record: dict[str, Json], taken: Mapping[str, Json]) -> str:
    prefix = "".join(letter for letter in entity.upper() if letter.isalpha())[:2]
    attempt = 0
    while True:
        # Beyond 100 tries the space of 4 digits is all but full, and longer numbers are drawn.
        digits = 4 + attempt // 100
        record_id = f"{prefix}{derive_seed('record', entity, record, attempt) % 10**digits:0{digits}d}"
        if record_id not in taken:
            return record_id
        attempt += 1
