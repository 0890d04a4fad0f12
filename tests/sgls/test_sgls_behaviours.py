"""Behaviours against an independent model of the service: a plain dict of bookings."""

import copy
import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slca.errors import ToolError
from slca.params import Simulator
from slca.records import CallError, Json, State
from slca.sgls.behaviours import Refusal, check_behaviour, execute
from slca.sgls.simulator import Session
from slca.sgls.tool import Behaviour, Condition, Tool, load_tools

TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def tool(name: str, properties: dict[str, Json], behaviour: dict[str, Json]) -> dict[str, Json]:
    parameters: dict[str, Json] = {"type": "object", "properties": properties, "additionalProperties": False}
    if "key" in behaviour:
        parameters["required"] = [behaviour["key"]]
    return {"name": name, "parameters": parameters, "behaviour": behaviour}


NOTE = {"entity": "note", "id_field": "note_id"}
TOOLS = load_tools(
    [
        tool("read", {"note_id": TEXT}, {"kind": "look_up", "key": "note_id", **NOTE}),
        tool("add", {"title": TEXT, "size": NUMBER}, {"kind": "create", "fields": {"title": "title", "size": "pages"}, **NOTE}),
        tool(
            "edit", {"note_id": TEXT, "title": TEXT}, {"kind": "update", "key": "note_id", "fields": {"title": "title"}, **NOTE}
        ),
        tool("drop", {"note_id": TEXT}, {"kind": "delete", "key": "note_id", **NOTE}),
        tool(
            "find",
            {"title": TEXT, "part": TEXT, "least": NUMBER, "most": NUMBER},
            {
                "kind": "search",
                "result": "notes",
                "where": [
                    {"argument": "title", "field": "title"},
                    {"argument": "part", "field": "title", "op": "contains"},
                    {"argument": "least", "field": "pages", "op": "ge"},
                    {"argument": "most", "field": "pages", "op": "le"},
                ],
                **NOTE,
            },
        ),
        tool(
            "pay",
            {"source": TEXT, "target": TEXT, "amount": NUMBER},
            {
                "kind": "create",
                "entity": "payment",
                "id_field": "payment_id",
                "fields": {"amount": "amount"},
                "defaults": {"status": "paid"},
                "copies": [{"argument": "target", "entity": "account", "fields": {"owner": "to"}}],
                "adjusts": [
                    {"entity": "account", "key": "source", "field": "balance", "argument": "amount", "sign": -1},
                    {"entity": "account", "key": "target", "field": "balance", "argument": "amount", "sign": 1},
                ],
            },
        ),
    ],
    "test",
)
NAMED = {tool.name: tool for tool in TOOLS}
ACCOUNTS: State = {"account": {"A": {"owner": "Ada", "balance": 100}, "B": {"owner": "Ben", "balance": 0.5}}}

titles = st.sampled_from(["tea", "Tea", "東京", "São", ""])
sizes = st.sampled_from([1, 2.0, 2.5, 3])
commands = st.one_of(
    st.tuples(st.just("add"), titles, sizes),
    st.tuples(st.sampled_from(["read", "drop"]), st.integers(0, 5)),
    st.tuples(st.just("edit"), st.integers(0, 5), titles),
    st.tuples(st.just("find"), titles, titles, sizes),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(commands, max_size=12))
def test_reads_and_writes_agree_with_a_dict(script: list[tuple[Json, ...]]) -> None:
    session = Session(TOOLS, {}, Simulator(), "s")
    model: dict[str, dict[str, Json]] = {}
    ids = ["nothing"]
    for name, *values in script:
        match name:
            case "add":
                attempt = session.call("add", {"title": values[0], "size": values[1]})
                note_id = attempt.result["note_id"]
                assert note_id not in model
                model[note_id] = {"title": values[0], "pages": values[1]}
                ids.append(note_id)
                assert attempt.result == {"note_id": note_id, **model[note_id]}
            case "find":
                attempt = session.call("find", {"part": values[1], "least": values[2]})
                assert attempt.result["notes"] == [
                    {"note_id": key, **note}
                    for key, note in sorted(model.items())
                    if values[1].lower() in note["title"].lower() and note["pages"] >= values[2]
                ]
                exact = session.call("find", {"title": values[0], "most": values[2]}).result["notes"]
                expected = {key for key, note in model.items() if note["title"] == values[0] and note["pages"] <= values[2]}
                assert {note["note_id"] for note in exact} == expected
            case _:
                note_id = ids[values[0] % len(ids)]
                arguments = {"note_id": note_id, **({"title": values[1]} if name == "edit" else {})}
                attempt = session.call(name, arguments)
                if note_id not in model:
                    assert attempt.error is CallError.NOT_FOUND
                    continue
                if name == "edit":
                    model[note_id] = {**model[note_id], "title": values[1]}
                assert attempt.result == {"note_id": note_id, **model[note_id]}
                if name == "drop":
                    del model[note_id]
    assert session.state.get("note", {}) == model


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(titles, sizes), min_size=2, max_size=4))
def test_parallel_creations_end_in_the_same_state_in_any_order(notes: list[tuple[str, float]]) -> None:
    ends = set()
    firsts = [Session(TOOLS, {}, Simulator(), "s").call("add", {"title": t, "size": s}).result["note_id"] for t, s in notes]
    assume(len(set(firsts)) == len({(t, float(s)) for t, s in notes}))  # first ids of different content that meet: 1 in 10,000
    for order in itertools.permutations(notes):
        session = Session(TOOLS, {}, Simulator(), "s")
        for title, size in order:
            session.call("add", {"title": title, "size": size})
        assert len(session.state["note"]) == len(notes)
        ends.add(session.end_state())
    assert len(ends) == 1


def test_equal_calls_in_other_spellings_end_in_the_same_state() -> None:
    first, second = (Session(TOOLS, ACCOUNTS, Simulator(), "s") for _ in range(2))
    first.call("pay", {"source": "A", "target": "B", "amount": 10})
    second.call("pay", {"source": "A", "target": "B", "amount": 10.0})
    assert first.end_state() == second.end_state()
    composed, decomposed = (Session(TOOLS, {}, Simulator(), "s") for _ in range(2))
    composed.call("add", {"title": "S\u00e3o"})
    decomposed.call("add", {"title": "Sa\u0303o"})
    assert composed.end_state() == decomposed.end_state()


def test_a_taken_id_is_never_overwritten() -> None:
    plain = execute(NAMED["add"], {"title": "tea", "size": 1}, {}).result["note_id"]
    assert plain[:2] == "NO" and plain[2:].isdigit() and len(plain) == 6
    other: State = {"note": {plain: {"title": "older"}}}
    outcome = execute(NAMED["add"], {"title": "tea", "size": 1}, other)
    assert outcome.result["note_id"] != plain
    assert outcome.state["note"][plain] == {"title": "older"}
    assert outcome.result == execute(NAMED["add"], {"title": "tea", "size": 1}, other).result


def test_payment_copies_and_adjusts_without_touching_the_given_state() -> None:
    before = copy.deepcopy(ACCOUNTS)
    outcome = execute(NAMED["pay"], {"source": "A", "target": "B", "amount": 0.2}, ACCOUNTS)
    assert before == ACCOUNTS
    assert {name: record["balance"] for name, record in outcome.state["account"].items()} == {"A": 99.8, "B": 0.7}
    payment = dict(outcome.result)
    assert outcome.state["payment"] == {payment.pop("payment_id"): {"status": "paid", "to": "Ben", "amount": 0.2}}
    assert payment == {"status": "paid", "to": "Ben", "amount": 0.2}


def test_overdrawing_is_a_conflict_and_an_unknown_account_not_found() -> None:
    with pytest.raises(Refusal) as refusal:
        execute(NAMED["pay"], {"source": "B", "target": "A", "amount": 0.6}, ACCOUNTS)
    assert refusal.value.error is CallError.CONFLICT and "amount" in refusal.value.message
    with pytest.raises(Refusal) as refusal:
        execute(NAMED["pay"], {"source": "A", "target": "C", "amount": 1}, ACCOUNTS)
    assert refusal.value.error is CallError.NOT_FOUND and "target" in refusal.value.message


def test_a_payment_to_oneself_needs_the_money_and_changes_no_balance() -> None:
    outcome = execute(NAMED["pay"], {"source": "A", "target": "A", "amount": 100}, ACCOUNTS)
    assert outcome.state["account"] == ACCOUNTS["account"]


def test_search_does_not_take_true_for_one_and_skips_records_without_the_field() -> None:
    behaviour = Behaviour(kind="search", entity="e", id_field="i", result="r", where=(Condition(argument="a", field="f"),))
    search = Tool(name="search", parameters={"type": "object"}, behaviour=behaviour)
    state: State = {"e": {"1": {"f": 1}, "2": {"f": True}, "3": {}, "4": {"f": 1.0}}}
    found = execute(search, {"a": 1}, state).result["r"]
    assert [record["i"] for record in found] == ["1", "4"]


@pytest.mark.parametrize(
    ("behaviour", "fault"),
    [
        ({"kind": "compute", "function": "guess"}, "guess"),
        ({"kind": "look_up", "entity": "e", "id_field": "i", "key": "b"}, "'b' must be a required argument"),
        ({"kind": "create", "entity": "e", "id_field": "i", "fields": {"c": "c"}}, "'c'"),
    ],
)
def test_a_behaviour_about_nothing_is_refused(behaviour: dict[str, Json], fault: str) -> None:
    parameters: dict[str, Json] = {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["a"]}
    with pytest.raises(ToolError, match=fault):
        check_behaviour(Tool(name="t", parameters=parameters, behaviour=Behaviour.model_validate(behaviour)), "test.yaml")
