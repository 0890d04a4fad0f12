"""Behaviours against an independent model of the service: a plain dict of bookings."""

import copy
import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slca.errors import ToolError
from slca.params import Simulator
from slca.records import CallError, Json, State
from slca.sgls import validation
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


def of_kind(kind: str, names: str, **behaviour: Json) -> Tool:
    """A tool on entity ``e`` with the given arguments, of any type, all required but for those with ``?``."""
    required = [name for name in names.split() if not name.endswith("?")]
    parameters: dict[str, Json] = {
        "type": "object",
        "properties": {name.strip("?"): {} for name in names.split()},
        "required": required,
    }
    definition = {"kind": kind, "entity": "e", "id_field": "id", **behaviour}
    made = Tool(name=kind, parameters=parameters, behaviour=Behaviour.model_validate(definition))
    check_behaviour(made, "test")
    return made


def refused(made: Tool, arguments: dict[str, Json], state: State) -> CallError:
    with pytest.raises(Refusal) as refusal:
        execute(made, arguments, state)
    return refusal.value.error


def test_an_id_that_is_given_is_used_once_and_others_are_drawn() -> None:
    create = of_kind("create", "id? size?", key="id", fields={"size": "size"})
    first = execute(create, {"id": "a", "size": 1}, {})
    assert first.result == {"id": "a", "size": 1} and first.state == {"e": {"a": {"size": 1}}}
    assert refused(create, {"id": "a"}, first.state) is CallError.CONFLICT
    assert len(execute(create, {"size": 2}, first.state).state["e"]) == 2


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"type": "integer", "maximum": 9},
        {"type": "string", "format": "uuid"},
        {"type": "string", "pattern": "^cus_[a-z0-9]{8}$"},
        {"type": "string", "maxLength": 2},
        {"type": "string", "pattern": "^[0-9a-f]{24}$"},
    ],
)
def test_drawn_ids_validate_and_stay_distinct(schema: dict[str, Json]) -> None:
    create = of_kind("create", "size?", id_schema=schema, fields={"size": "size"})
    state: State = {}
    for _ in range(5):
        outcome = execute(create, {"size": 1}, state)
        state = outcome.state
        assert isinstance(outcome.result, dict)
        assert validation.fault(validation.validator(schema), outcome.result["id"], "id") is None
        assert (
            outcome.result["id"] == execute(create, {"size": 1}, {**state, "e": dict(list(state["e"].items())[:-1])}).result["id"]
        )
    assert len(state["e"]) == 5


def test_when_no_id_is_left_creating_is_a_conflict() -> None:
    create = of_kind("create", "", id_schema={"type": "string", "enum": ["a", "b"]})
    state = execute(create, {}, execute(create, {}, {}).state).state
    assert set(state["e"]) == {"a", "b"}
    assert refused(create, {}, state) is CallError.CONFLICT


def test_replacing_leaves_what_the_call_cannot_write_and_upsert_makes_what_is_not_there() -> None:
    put = of_kind("update", "id size? tag?", key="id", fields={"size": "size", "tag": "tag"}, replace=True)
    state: State = {"e": {"a": {"size": 1, "tag": "t", "since": 2020}}}
    assert execute(put, {"id": "a", "size": 2}, state).state["e"]["a"] == {"since": 2020, "size": 2}
    assert refused(put, {"id": "b"}, state) is CallError.NOT_FOUND
    upsert = put.model_copy(update={"behaviour": put.behaviour.model_copy(update={"upsert": True})})  # type: ignore[union-attr]
    assert execute(upsert, {"id": "b", "tag": "t"}, state).state["e"]["b"] == {"tag": "t"}
    whole = of_kind("update", "id body", key="id", record="body", made=["since"], replace=True)
    assert execute(whole, {"id": "a", "body": {"id": "x", "tag": "u"}}, state).state["e"]["a"] == {"since": 2020, "tag": "u"}


def test_a_record_alone_is_empty_until_it_is_written_and_again_when_it_is_deleted() -> None:
    read, write = (
        of_kind("look_up", "user", only="s", scope=["user"], id_field=None),
        of_kind("update", "user size", only="s", scope=["user"], id_field=None, fields={"size": "size"}),
    )
    drop = of_kind("delete", "user", only="s", scope=["user"], id_field=None)
    assert execute(read, {"user": "a"}, {}).result == {}
    state = execute(write, {"user": "a/b", "size": 1}, {}).state
    state = execute(write, {"user": "a", "size": 2}, state).state
    assert [execute(read, {"user": user}, state).result for user in ("a/b", "a", "b")] == [{"size": 1}, {"size": 2}, {}]
    assert execute(read, {"user": "a"}, execute(drop, {"user": "a"}, state).state).result == {}


def test_a_record_is_found_only_inside_what_its_path_names() -> None:
    inside = {"where": [{"argument": "owner", "field": "owner_id", "op": "id"}], "copies": [{"argument": "owner", "entity": "o"}]}
    read, drop = of_kind("look_up", "owner id", key="id", **inside), of_kind("delete", "owner id", key="id", **inside)
    listing = of_kind("search", "owner", result="", **inside)
    state: State = {"o": {"1": {}, "2": {}}, "e": {"a": {"owner_id": 1}, "b": {"owner_id": "2"}}}
    assert execute(read, {"owner": "1", "id": "a"}, state).result == {"owner_id": 1, "id": "a"}
    assert execute(listing, {"owner": 2}, state).result == [{"owner_id": "2", "id": "b"}]
    for made, arguments in ((read, {"owner": 2, "id": "a"}), (drop, {"owner": 2, "id": "a"}), (listing, {"owner": 3})):
        assert refused(made, arguments, state) is CallError.NOT_FOUND


def test_a_record_can_be_named_by_a_field() -> None:
    drop = of_kind("delete", "email", key="email", by="email")
    state: State = {"e": {"1": {"email": "a"}, "2": {"email": "b"}}}
    assert execute(drop, {"email": "b"}, state).state == {"e": {"1": {"email": "a"}}}
    assert refused(drop, {"email": "c"}, state) is CallError.NOT_FOUND


PAGED = {
    "page": {"limit": "limit", "offset": "offset", "number": "page", "token": "token", "size": 3},
    "counts": {name: name for name in ("total", "shown", "pages", "page", "limit", "offset", "more")} | {"next": "token"},
}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 8), st.integers(1, 4))
def test_pages_cover_every_record_once_by_offset_number_or_token(count: int, size: int) -> None:
    search = of_kind("search", "limit? offset? page? token?", result="items", id_schema={"type": "integer"}, **PAGED)
    state: State = {"e": {str(number): {} for number in range(7, 7 + count)}}  # 9 before 10: ids are numbers

    def page(**arguments: Json) -> dict[str, Json]:
        return dict(execute(search, {"limit": size, **arguments}, state).result)  # type: ignore[arg-type]

    everyone = list(range(7, 7 + count))
    pages = max(1, -(-count // size))
    for kind in ("offset", "page", "token"):
        found: list[Json] = []
        answer: dict[str, Json] = {}
        for number in range(pages):
            choice = {"offset": number * size, "page": number + 1, "token": answer.get("next", "")}[kind]
            answer = page(**{kind: choice})
            found += [one["id"] for one in answer["items"]]
            assert answer["more"] == ("next" in answer) == (number < pages - 1)
            assert (answer["total"], answer["shown"], answer["page"]) == (count, len(answer["items"]), number + 1)
            assert (answer["limit"], answer["offset"], answer["pages"]) == (size, number * size, -(-count // size))
        assert found == everyone
    assert len(dict(execute(search, {}, state).result)["items"]) == min(3, count)  # type: ignore[arg-type]


def test_a_token_holds_while_records_come_and_go_and_a_wrong_one_is_an_invalid_argument() -> None:
    search = of_kind(
        "search", "token? limit?", result="items", page={"token": "token", "limit": "limit"}, counts={"next": "token"}
    )
    state: State = {"e": {name: {} for name in "abcdef"}}
    first = dict(execute(search, {"limit": 2}, state).result)  # type: ignore[arg-type]
    state = {"e": {name: {} for name in "aacdefz"}}  # b, the last one shown, is gone
    rest = dict(execute(search, {"limit": 9, "token": first["next"]}, state).result)  # type: ignore[arg-type]
    assert [one["id"] for one in rest["items"]] == ["c", "d", "e", "f", "z"] and "next" not in rest
    assert refused(search, {"token": "***"}, state) is CallError.INVALID_ARGUMENTS


def test_conditions_on_lists_and_paths() -> None:
    search = of_kind(
        "search",
        "any? tag? within?",
        result="",
        where=[
            {"argument": "any", "field": "size", "op": "in"},
            {"argument": "tag", "field": "tags", "op": "contains"},
            {"argument": "within", "field": "id", "op": "under"},
        ],
    )
    state: State = {"e": {"p/1/t/1": {"size": 1, "tags": ["x"]}, "p/10/t/2": {"size": True, "tags": []}}}

    def found(**arguments: Json) -> list[Json]:
        return [one["id"] for one in execute(search, arguments, state).result]  # type: ignore[union-attr]

    assert found(any=[1, 2]) == ["p/1/t/1"] == found(tag="X") == found(within="p/1")
    assert found() == ["p/1/t/1", "p/10/t/2"] == found(within="p")


def test_a_property_of_the_answer_is_a_value_or_an_object() -> None:
    with pytest.raises(ValueError, match="'meta' cannot be both"):
        Behaviour(kind="search", entity="e", id_field="i", result="r", counts={"meta.total": "total"}, answer={"meta": 1})


@pytest.mark.parametrize(
    ("behaviour", "fault"),
    [
        ({"kind": "search", "entity": "e", "id_field": "i", "result": "r", "page": {"limit": "d"}}, "'d'"),
        ({"kind": "update", "entity": "e", "id_field": "i", "key": "a", "scope": ["b"]}, "'b' must be a required argument"),
        ({"kind": "compute", "function": "guess"}, "guess"),
        ({"kind": "look_up", "entity": "e", "id_field": "i", "key": "b"}, "'b' must be a required argument"),
        ({"kind": "create", "entity": "e", "id_field": "i", "fields": {"c": "c"}}, "'c'"),
    ],
)
def test_a_behaviour_about_nothing_is_refused(behaviour: dict[str, Json], fault: str) -> None:
    parameters: dict[str, Json] = {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["a"]}
    with pytest.raises(ToolError, match=fault):
        check_behaviour(Tool(name="t", parameters=parameters, behaviour=Behaviour.model_validate(behaviour)), "test.yaml")
