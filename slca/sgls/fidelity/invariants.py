"""What must hold of records, whatever the service: checked through calls alone, as a client sees it.

For each entity that can be created:

* read your writes: what a create sent is what a look-up shows, for every field that the look-up has and whose schema takes it;
* list contains created: a listing without filters shows the new record's id;
* update is read back: likewise for an update;
* delete then not found: after a delete the look-up answers not_found.

A check that a service has no tools for is not counted; one whose call is refused for another reason is counted as refused.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slca.params import Simulator
from slca.records import CallError, Json, State
from slca.sgls import record_ids, shapes, validation
from slca.sgls.behaviours import shown_records
from slca.sgls.calling import draw_arguments, naming
from slca.sgls.completion import record_schema
from slca.sgls.fidelity.calls import Advance
from slca.sgls.simulator import Session
from slca.sgls.tool import Behaviour, Tool

CHECKS = ("read your writes", "list contains created", "update is read back", "delete then not found")


@dataclass
class Tally:
    """Counts by check. broken: a sentence for each violation."""

    held: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    violated: Counter[str] = field(default_factory=Counter)

    def book(self, check: str, problem: str | None) -> None:
        if problem is None:
            self.held[check] += 1
        else:
            self.violated[check] += 1
            self.broken.append(f"{check}: {problem}")


def check_invariants(tools: Sequence[Tool], state: State, params: Simulator, trials: int, advance: Advance) -> Tally:
    """``trials`` records of every entity, each in a session of its own that begins with ``state``."""
    tally = Tally()
    plain = params.model_copy(update={"fault_rate": 0.0, "fault_rates": {}})
    for create in tools:
        if create.behaviour is not None and create.behaviour.kind == "create":
            for index in range(trials):
                _check(create, tools, Session(tools, state, plain, "invariants"), params.seed, index, tally)
                advance(1)
    return tally


def _check(create: Tool, tools: Sequence[Tool], session: Session, seed: int, index: int, tally: Tally) -> None:
    entity = str(_of(create).entity)
    made = draw_arguments(create, session.state, seed, index)
    before = set(session.state.get(entity, {}))
    if made is None or session.call(create.name, made).error is not None:
        tally.refused[CHECKS[0]] += 1
        return
    (record_id,) = set(session.state[entity]) - before
    record = session.state[entity][record_id]
    reads = _naming(_tools(tools, entity, "look_up"), record_id, record)
    for read in reads[:1]:
        _read_back(CHECKS[0], create, read, made, record_id, session, seed, tally)
    for listing in _tools(tools, entity, "search")[:1]:
        _listed(listing, record_id, made, session, tally)
    for update in _naming(_tools(tools, entity, "update"), record_id, record)[:1]:
        changes = draw_arguments(update, session.state, seed, index + 1)
        if changes is None:
            tally.refused[CHECKS[2]] += 1
            continue
        changes |= naming(update, record_id, record)
        if session.call(update.name, changes).error is not None:
            tally.refused[CHECKS[2]] += 1
        else:
            for read in reads[:1]:
                _read_back(CHECKS[2], update, read, changes, record_id, session, seed, tally)
    for delete in _naming(_tools(tools, entity, "delete"), record_id, record)[:1]:
        record = session.state[entity][record_id]
        named = _asking(delete, record_id, record, session, seed)
        if session.call(delete.name, named).error is not None:
            tally.refused[CHECKS[3]] += 1
        else:
            for read in reads[:1]:
                error = session.call(read.name, _asking(read, record_id, record, session, seed)).error
                problem = None if error is CallError.NOT_FOUND else f"{read.name} still answers after {delete.name} {named}"
                tally.book(CHECKS[3], problem)


def _naming(tools: Sequence[Tool], record_id: str, record: Mapping[str, Json]) -> list[Tool]:
    """Those of ``tools`` that can name this very record: a user's key has no repository, as the path of a deploy key asks for."""
    found = []
    for tool in tools:
        behaviour = _of(tool)
        names = {*behaviour.scope, behaviour.key, *(one.argument for one in behaviour.where if one.op == "id")}
        if names & set(tool.required) <= naming(tool, record_id, record).keys():
            found.append(tool)
    return found


def _asking(tool: Tool, record_id: str, record: Mapping[str, Json], session: Session, seed: int) -> dict[str, Json]:
    """Arguments that name the record, and what else the tool requires."""
    drawn = draw_arguments(tool, session.state, seed) or {}
    return {name: value for name, value in drawn.items() if name in tool.required} | naming(tool, record_id, record)


def _read_back(
    check: str, write: Tool, read: Tool, sent: dict[str, Json], record_id: str, session: Session, seed: int, tally: Tally
) -> None:
    entity = str(_of(write).entity)
    named = _asking(read, record_id, session.state[entity][record_id], session, seed)
    shown = session.call(read.name, named)
    if shown.error is not None:
        tally.book(check, f"{read.name} {named} answers {shown.error} after {write.name}")
        return
    record = shown.result[_of(read).result] if _of(read).result else shown.result
    schema = record_schema(read) or {}
    properties = shapes.properties(shapes.flat(schema, schema))
    compiled = validation.validator(schema)
    for argument, target in _of(write).fields.items():
        takes = target in properties and argument in sent
        if takes and validation.fault(compiled.evolve(schema=properties[target]), sent[argument], target) is None:
            told = record.get(target) if isinstance(record, dict) else None
            problem = f"{write.name} sent {target} {sent[argument]!r}, {read.name} shows {told!r}"
            tally.book(check, None if _says(told, sent[argument]) else problem)


def _says(told: Json, sent: Json) -> bool:
    """Whether what is shown holds what was sent; inside an object more may stand than was sent."""
    if isinstance(told, dict) and isinstance(sent, dict):
        return all(key not in told or _says(told[key], value) for key, value in sent.items())
    return bool(told == sent)


def _listed(listing: Tool, record_id: str, made: dict[str, Json], session: Session, tally: Tally) -> None:
    behaviour = _of(listing)
    record = session.state[str(behaviour.entity)][record_id]
    above = {name: value for name, value in {**made, **naming(listing, record_id, record)}.items() if name in listing.required}
    wanted = record_ids.as_id(record_ids.shown(behaviour, record_id))
    page: dict[str, Json] = {}
    for _ in range(50):
        shown = session.call(listing.name, {**above, **page})
        if shown.error is not None:
            tally.refused[CHECKS[1]] += 1
            return
        listed = [row for row in shown_records(behaviour, shown.result) if isinstance(row, dict)]
        ids = [record_ids.as_id(row.get(str(behaviour.id_field))) for row in listed]
        if wanted in ids:
            tally.book(CHECKS[1], None)
            return
        if not all(ids):  # the listing shows no ids
            tally.refused[CHECKS[1]] += 1
            return
        following = _next_page(behaviour, shown.result, page)
        if not ids or following is None:
            break
        page = following
    tally.book(CHECKS[1], f"{listing.name} {above} does not show {wanted}")


def _next_page(behaviour: Behaviour, answer: Json, page: dict[str, Json]) -> dict[str, Json] | None:
    if behaviour.page is None:
        return None
    if behaviour.page.token is not None:
        told = next((name for name, what in behaviour.counts.items() if what == "token"), None)
        token = answer.get(told) if told and isinstance(answer, dict) else None
        return {behaviour.page.token: token} if token else None
    if behaviour.page.number is not None:
        return {behaviour.page.number: page.get(behaviour.page.number, behaviour.page.first) + 1}
    if behaviour.page.offset is not None:
        return {behaviour.page.offset: page.get(behaviour.page.offset, 0) + len(shown_records(behaviour, answer))}
    return None


def _tools(tools: Sequence[Tool], entity: str, kind: str) -> list[Tool]:
    """Tools of ``kind`` on ``entity``, those that name it by its id first."""
    known = [tool for tool in tools if tool.behaviour is not None]
    found = [tool for tool in known if (_of(tool).entity, _of(tool).kind) == (entity, kind)]
    return sorted(found, key=lambda tool: _of(tool).by is not None)


def _of(tool: Tool) -> Behaviour:
    assert tool.behaviour is not None
    return tool.behaviour
