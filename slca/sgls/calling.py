"""Calls that a client might make: arguments under the parameters' schema that name records which exist.

Deterministic: everything is drawn from a seed. Used where a service is exercised (``slca.sgls.fidelity``) and where tasks are
made from imported tools (``slca.tasks.generic``).
"""

from collections.abc import Mapping

from slca.records import Json, State
from slca.sgls import record_ids, validation
from slca.sgls.backends.base import Request
from slca.sgls.backends.schema import SchemaBackend
from slca.sgls.inference.seeding import above_of, as_given
from slca.sgls.tool import Behaviour, Tool


def draw_arguments(tool: Tool, state: State, seed: int, index: int = 0) -> dict[str, Json] | None:
    """Arguments of the ``index``-th call drawn with ``seed``; None where none that validate are found.

    A call that names a record names one in ``state``, in turn, where there is one; a create names what it makes by itself; a list
    is asked for from its beginning, since tokens of later pages cannot be made up.
    """
    drawn = SchemaBackend().fill(Request(tool.parameters, ["call", tool.name, index], {}, None, seed))
    if not isinstance(drawn, dict):
        return None
    behaviour = tool.behaviour
    if behaviour is not None and behaviour.kind != "compute":
        entity = str(behaviour.entity)
        ids = _within_reach(tool, behaviour, state)
        if behaviour.kind in ("look_up", "update", "delete") and ids:
            record_id = ids[index % len(ids)]
            drawn |= naming(tool, record_id, state[entity][record_id])
        else:
            drawn |= naming_parents(tool, state, index, seed)
        if behaviour.page is not None and behaviour.page.token not in tool.required:
            drawn.pop(str(behaviour.page.token), None)
    return drawn if validation.fault(validation.validator(tool.parameters), drawn, "arguments") is None else None


def _within_reach(tool: Tool, behaviour: Behaviour, state: State) -> list[str]:
    """Ids of the records that a call can name: those whose parents have not been deleted; if there are none, of all."""
    records = state.get(str(behaviour.entity), {})
    found = []
    for record_id in sorted(records):
        named = naming(tool, record_id, records[record_id])
        above = [(one, record_ids.as_id(named[one.argument])) for one in behaviour.copies if one.argument in named]
        if all(record_ids.scoped(own, one.scope, named) in state.get(one.entity, {}) for one, own in above):
            found.append(record_id)
    return found or sorted(records)


def naming_parents(tool: Tool, state: State, index: int, seed: int) -> dict[str, Json]:
    """The arguments that name what a new record is inside, or what a listing lists: records of ``state`` in turn."""
    behaviour = tool.behaviour
    if behaviour is None:
        return {}
    named = above_of(tool, state, index, seed)
    for copy in behaviour.copies:
        known = sorted(state.get(copy.entity, {}))
        if known and copy.argument not in named:
            chosen = known[index % len(known)]
            parts = record_ids.parts(chosen) if copy.scope else [chosen]
            named |= {name: as_given(tool, name, part) for name, part in zip((*copy.scope, copy.argument), parts, strict=True)}
    return named


def naming(tool: Tool, record_id: str, record: Mapping[str, Json]) -> dict[str, Json]:
    """The arguments by which ``tool`` names the record that the state keeps under ``record_id``, and what that is inside."""
    behaviour = tool.behaviour
    if behaviour is None:
        return {}
    parts = record_ids.parts(record_id) if behaviour.scope else [record_id]
    names = (*behaviour.scope, behaviour.key) if behaviour.key is not None else behaviour.scope
    named: dict[str, Json] = {
        name: as_given(tool, name, part) for name, part in zip(names, parts, strict=False) if name in tool.properties
    }
    for condition in behaviour.where:
        if condition.op == "id" and condition.argument not in named and condition.field in record:
            named[condition.argument] = record[condition.field]
    if behaviour.by is not None and behaviour.key is not None:
        named[behaviour.key] = record.get(behaviour.by)
    return named
