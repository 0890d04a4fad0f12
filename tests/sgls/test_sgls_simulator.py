"""What a policy reads: typed errors, results under the output schema, the same in every process, and never an exception."""

import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sgls.schema_strategies import accepts, schemas

from slca.errors import ToolError
from slca.files import canonical_json, digest
from slca.params import Simulator
from slca.records import Attempt, CallError, Json, State
from slca.sgls import validation
from slca.sgls.backends import BACKENDS, BackendFailure, Request, Unreadable
from slca.sgls.cache import Cache
from slca.sgls.simulator import Counts, Session, error_result, render_result
from slca.sgls.tool import Tool, load_tools

TABLES: State = {"table": {"T1": {"city": "東京", "seats": 4}, "T2": {"city": "São Paulo", "seats": 2}}}
DEFINITIONS: list[dict[str, Json]] = [
    {
        "name": "book_table",
        "parameters": {
            "type": "object",
            "properties": {
                "table_id": {"type": "string"},
                "guests": {"type": "integer", "minimum": 1, "maximum": 8},
                "date": {"type": "string", "format": "date"},
                "room": {"enum": ["inside", "garden"]},
            },
            "required": ["table_id", "guests"],
            "additionalProperties": False,
        },
        "output": {
            "type": "object",
            "properties": {"booking_id": {"type": "string"}, "guests": {"type": "integer"}, "phone": {"type": "string"}},
            "required": ["booking_id", "phone"],
        },
        "behaviour": {
            "kind": "create",
            "entity": "booking",
            "id_field": "booking_id",
            "fields": {"guests": "guests", "date": "day"},
        },
    },
    {
        "name": "find_tables",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "output": {
            "type": "object",
            "properties": {
                "tables": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "table_id": {"type": "string"},
                            "city": {"type": "string"},
                            "view": {"enum": ["sea", "yard"]},
                        },
                        "required": ["table_id", "view"],
                    },
                }
            },
        },
        "behaviour": {
            "kind": "search",
            "entity": "table",
            "id_field": "table_id",
            "result": "tables",
            "where": [{"argument": "city", "field": "city"}],
        },
    },
    {"name": "forecast", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
    {
        "name": "divide",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}, "operation": {"const": "divide"}},
        },
        "behaviour": {"kind": "compute", "function": "calculate"},
    },
]
TOOLS = load_tools(DEFINITIONS, "test")


def session(**params: Json) -> Session:
    return Session(TOOLS, TABLES, Simulator(**params), "s")


def test_every_refusal_is_a_short_typed_error_that_names_the_field() -> None:
    good = {"table_id": "T1", "guests": 2}
    cases: list[tuple[Json, Json, CallError, str]] = [
        (None, good, CallError.MALFORMED, "name"),
        ({}, good, CallError.MALFORMED, "name"),
        ("cancel_table", good, CallError.UNKNOWN_TOOL, "cancel_table"),
        ("book_table", json.dumps(good), CallError.INVALID_ARGUMENTS, "arguments must be an object, not string"),
        ("book_table", [good], CallError.INVALID_ARGUMENTS, "arguments must be an object, not array"),
        ("book_table", None, CallError.INVALID_ARGUMENTS, "arguments must be an object, not null"),
        ("book_table", {}, CallError.INVALID_ARGUMENTS, "guests is missing"),
        ("book_table", {"guests": 2}, CallError.INVALID_ARGUMENTS, "table_id is missing"),
        ("book_table", {**good, "colour": 1}, CallError.INVALID_ARGUMENTS, "colour is not allowed"),
        ("book_table", {**good, "guests": "2"}, CallError.INVALID_ARGUMENTS, "guests must be of type integer, not string"),
        ("book_table", {**good, "guests": True}, CallError.INVALID_ARGUMENTS, "guests must be of type integer, not boolean"),
        ("book_table", {**good, "guests": 2.5}, CallError.INVALID_ARGUMENTS, "guests must be of type integer, not number"),
        ("book_table", {**good, "guests": 0}, CallError.INVALID_ARGUMENTS, "guests must be at least 1"),
        ("book_table", {**good, "guests": float("nan")}, CallError.INVALID_ARGUMENTS, "NaN"),
        ("book_table", {**good, "table_id": "\ud800"}, CallError.INVALID_ARGUMENTS, "broken text"),
        ("book_table", {**good, "date": "2026-02-30"}, CallError.INVALID_ARGUMENTS, "date must be a date like"),
        ("book_table", {**good, "room": "roof"}, CallError.INVALID_ARGUMENTS, "room must be one of inside, garden"),
        ("divide", {"a": 1, "b": 0, "operation": "divide"}, CallError.INVALID_ARGUMENTS, "b must not be 0"),
    ]
    service = session()
    for name, arguments, error, message in cases:
        attempt = service.call(name, arguments)
        assert attempt.error is error, (name, arguments)
        told = attempt.result["error"]
        assert told["type"] == error.value and message in told["message"] and len(told["message"]) <= 160
    assert service.state == TABLES and not service.failed


def test_a_whole_float_is_an_integer_as_json_schema_says() -> None:
    attempt = session().call("book_table", {"table_id": "T1", "guests": 2.0})
    assert attempt.error is None and attempt.result["guests"] == 2


def test_the_fault_told_does_not_depend_on_the_order_of_the_schemas_keys() -> None:
    turned = json.loads(json.dumps(DEFINITIONS, sort_keys=True))
    for arguments in ({}, {"guests": "2", "room": 1, "date": 5}):
        results = [
            Session(tools, TABLES, Simulator(), "s").call("book_table", arguments) for tools in (TOOLS, load_tools(turned, "t"))
        ]
        assert results[0].result == results[1].result


def test_results_hold_what_the_output_schema_lists_and_required_values_are_filled() -> None:
    service = session()
    booking = service.call("book_table", {"table_id": "T1", "guests": 2, "date": "2026-03-01"})
    assert list(booking.result) == ["booking_id", "guests", "phone"]
    assert service.state["booking"] == {booking.result["booking_id"]: {"guests": 2, "day": "2026-03-01"}}
    found = service.call("find_tables", {})
    assert [(table["table_id"], table["city"]) for table in found.result["tables"]] == [("T1", "東京"), ("T2", "São Paulo")]
    assert all(table["view"] in ("sea", "yard") for table in found.result["tables"])
    # What the service says of a table is the same whichever search found it.
    assert service.call("find_tables", {"city": "São Paulo"}).result["tables"] == found.result["tables"][1:]


def test_a_tool_without_behaviour_answers_the_same_whatever_was_called_before() -> None:
    first, second = session(), session()
    second.call("book_table", {"table_id": "T1", "guests": 2})
    answers = [service.call("forecast", {"city": "Łódź"}).result for service in (first, second, second)]
    assert answers[0] == answers[1] == answers[2] and isinstance(answers[0]["result"], str)
    assert session(seed=1).call("forecast", {"city": "Łódź"}).result != answers[0]
    assert first.call("forecast", {"city": "Oslo"}).result != answers[0]


def test_non_ascii_survives_and_is_not_escaped() -> None:
    text = render_result(session().call("find_tables", {"city": "東京"}).result, 2048)
    assert '"city":"東京"' in text and "\\u" not in text


WORKER = """
import json, random, sys
from pathlib import Path
from slca.params import Simulator
from slca.sgls.cache import Cache
from slca.sgls.simulator import Session
from slca.sgls.tool import load_tools
tools, state, calls, seed, folder = json.load(sys.stdin)
random.Random(seed).shuffle(calls)
service = Session(load_tools(tools, "t"), state, Simulator(fault_rate=0.3, cache_folder=folder), "s")
for call in calls:
    before = service.end_state()
    attempt = service.call(*call)
    print(json.dumps([before, call, attempt.error, attempt.result]))
print(json.dumps(service.end_state()))
"""


def test_the_same_call_in_the_same_state_answers_the_same_in_any_process_and_order(tmp_path: Path) -> None:
    calls: list[Json] = [["forecast", {"city": city}] for city in ("Oslo", "Łódź", "Rome")]
    calls += [["find_tables", {}], ["find_tables", {"city": "東京"}], ["divide", {"a": 1, "b": 3, "operation": "divide"}]]
    calls += [["book_table", {"table_id": "T1", "guests": guests}] for guests in (2, 3)]
    calls *= 3
    command = [sys.executable, "-c", WORKER]
    runs = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = []
    for seed, run in enumerate(runs):
        folder = str(tmp_path) if seed < 3 else ""  # the last one without the others' cache
        outputs.append(run.communicate(json.dumps([DEFINITIONS, TABLES, calls, seed, folder]), timeout=60)[0].splitlines())
    assert [run.returncode for run in runs] == [0] * 4
    answers: dict[str, set[str]] = {}
    states: set[str] = set()
    for output in outputs:
        for state, call, error, result in map(json.loads, output[:-1]):
            if error != "fault":  # faults depend on how often the call was made, too
                answers.setdefault(canonical_json([state, call]), set()).add(canonical_json(result))
        states.add(output[-1])
    assert len(answers) > 20 and {len(results) for results in answers.values()} == {1}
    assert len(outputs[0]) == 25 and outputs[0][:-1] != outputs[1][:-1]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5) | st.sampled_from(["city", "guests", "a"]), inner, max_size=4)
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([tool.name for tool in TOOLS]) | values, values)
@example("divide", {"a": 1, "b": 5e-324, "operation": "divide"})
@example("divide", {"a": 10**4400, "b": 1, "operation": "divide"})
@example("forecast", {"city": "x" * 10_000})
def test_no_call_raises_and_every_attempt_can_be_stored(name: Json, arguments: Json) -> None:
    attempt = session().call(name, arguments)
    text = json.dumps(attempt.to_json(), allow_nan=False, ensure_ascii=False)
    text.encode()
    assert Attempt.from_json(json.loads(text)) == attempt
    assert attempt.error is None or attempt.result == error_result(attempt.error, attempt.result["error"]["message"])


def test_arguments_nested_without_end_are_refused() -> None:
    nested: list[Json] = []
    for _ in range(100_000):
        nested = [nested]
    attempt = session().call("forecast", {"city": nested})
    assert attempt.error is CallError.INVALID_ARGUMENTS and attempt.arguments is None


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ToolError, match="forecast"):
        Session((*TOOLS, TOOLS[2]), {}, Simulator(), "s")


@dataclass
class Scripted:
    """A backend that answers from a list, and keeps what it was asked."""

    answers: list[Json]
    asked: list[Request]
    name: str = "scripted"
    model: str = ""
    prompt_version: str = "1"
    remembers: bool = False

    def fill(self, request: Request) -> Json:
        self.asked.append(request)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def scripted(monkeypatch: pytest.MonkeyPatch, *answers: Json) -> tuple[Session, Scripted]:
    backend = Scripted(list(answers), [])
    monkeypatch.setitem(BACKENDS, "schema", lambda params: backend)
    return session(), backend


def test_a_bad_answer_is_repaired_at_most_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    service, backend = scripted(monkeypatch, {}, {"result": 5}, "rain", {"result": "rain"})
    attempt = service.call("forecast", {"city": "Oslo"})
    assert attempt.error is None and attempt.result == {"result": "rain"} and not service.failed
    assert [request.repair for request in backend.asked] == [0, 1, 2, 3]
    assert backend.asked[1].problem == "result is missing." and "result" in backend.asked[2].problem


def test_after_the_last_repair_the_rollout_is_marked_and_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    service, backend = scripted(monkeypatch, {"phone": 5})
    attempt = service.call("book_table", {"table_id": "T1", "guests": 2})
    assert attempt.error is CallError.SIMULATOR_FAILURE and service.failed and len(backend.asked) == 4
    assert service.state == TABLES and service.end_state() == digest(TABLES)


def test_an_answer_that_is_no_json_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bad: list[Json] = [float("nan"), Unreadable("the answer is cut short."), {"result": "\ud800"}, {"result": "rain"}]
    service, backend = scripted(monkeypatch, *bad)
    assert service.call("forecast", {"city": "Oslo"}).result == {"result": "rain"}
    assert [request.problem for request in backend.asked[1:]] == [
        "result: NaN or infinity, which JSON does not have.",
        "the answer is cut short.",
        "result: broken text, a lone surrogate.",
    ]


def test_a_backend_that_fails_marks_the_rollout_and_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    service, backend = scripted(monkeypatch, BackendFailure("the server is down."))
    attempt = service.call("forecast", {"city": "Oslo"})
    assert attempt.error is CallError.SIMULATOR_FAILURE and "the server is down." in attempt.result["error"]["message"]
    assert service.failed and len(backend.asked) == 1


def test_a_backend_is_told_the_tool_and_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    service, backend = scripted(monkeypatch, {"result": "rain"}, {"phone": "555"})
    service.call("forecast", {"city": "Oslo"})
    service.call("book_table", {"table_id": "T1", "guests": 2})
    whole, part = backend.asked
    assert whole.tool["name"] == "forecast" and whole.state == TABLES and whole.arguments == {"city": "Oslo"}
    assert part.tool["name"] == "book_table" and part.state["guests"] == 2
    # What is filled into a record is a matter of the record, not of the call that shows it first.
    assert part.arguments == {} and part.subject[0] == "booking"


@dataclass
class Remembering:
    """A backend whose answers depend on what it answered before."""

    asked: list[Request]
    name: str = "remembering"
    model: str = ""
    prompt_version: str = "1"
    remembers: bool = True

    def fill(self, request: Request) -> Json:
        self.asked.append(request)
        return {"result": f"after {[answer['result'] for _, _, answer in request.earlier]} {request.arguments['city']}"}


def remembering(monkeypatch: pytest.MonkeyPatch) -> Remembering:
    backend = Remembering([])
    monkeypatch.setitem(BACKENDS, "schema", lambda params: backend)
    return backend


def forecasts(service: Session, *cities: str) -> list[str]:
    return [service.call("forecast", {"city": city}).result["result"] for city in cities]


def test_a_backend_that_remembers_is_given_distinct_earlier_answers_in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = remembering(monkeypatch)
    # Each of these answers is the first of its session, so both sessions come to remember the same two.
    first, second = session(), session()
    shared = Cache("readwrite")
    for city in ("Oslo", "Rome"):
        forecasts(Session(TOOLS, TABLES, Simulator(), "s", shared), city)
    assert forecasts(first, "Oslo", "Oslo") == ["after [] Oslo"] * 2 and len(backend.asked) == 3
    assert forecasts(first, "Rome") == ["after ['after [] Oslo'] Rome"]
    assert backend.asked[-1].earlier == (["forecast", {"city": "Oslo"}, {"result": "after [] Oslo"}],)
    assert forecasts(second, "Rome", "Oslo") == ["after [] Rome", "after ['after [] Rome'] Oslo"]
    third, fourth = session(), session()
    for service, cities in ((third, ("Lima", "Oslo")), (fourth, ("Oslo", "Lima"))):
        service._remembered = {city: (canonical_json(["forecast", {"city": city}, {"result": city}]), "{}") for city in cities}
    assert forecasts(third, "Rome") == forecasts(fourth, "Rome") == ["after ['Lima', 'Oslo'] Rome"]


def test_what_was_answered_before_enters_the_key_of_backends_that_remember_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = remembering(monkeypatch)
    cache = Cache("readwrite")

    def answers(*cities: str) -> list[str]:
        return forecasts(Session(TOOLS, TABLES, Simulator(), "s", cache), *cities)

    one = answers("Oslo", "Rome")
    assert answers("Oslo", "Rome") == one and len(backend.asked) == 2  # the same history: all from the cache
    assert answers("Rome")[0] != one[1] and len(backend.asked) == 3
    backend.remembers = False
    assert answers("Oslo", "Rome")[1] == answers("Rome")[0] == "after [] Rome"


def test_in_one_session_a_call_is_answered_alike_until_the_state_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    remembering(monkeypatch)
    creating = load_tools([{**DEFINITIONS[0], "output": None}, DEFINITIONS[2]], "t")
    service = Session(creating, TABLES, Simulator(), "s")
    before = forecasts(service, "Oslo", "Rome", "Oslo")
    assert before[0] == before[2]
    service.call("book_table", {"table_id": "T1", "guests": 2})
    assert forecasts(service, "Oslo") != before[:1]


def test_a_fork_goes_on_alone_and_a_reset_begins_anew() -> None:
    service = session(fault_rate=0.4)
    calls: list[tuple[str, Json]] = [("book_table", {"table_id": "T1", "guests": n}) for n in (2, 2, 3, 2, 3, 4)]
    first = [service.answer(*call) for call in calls[:3]]
    fork = service.fork()
    assert fork.state == service.state and fork.faults == 0
    rest = [service.answer(*call) for call in calls[3:]]
    assert [fork.answer(*call) for call in calls[3:]] == rest and fork.end_state() == service.end_state()
    for guests in (5, 6, 7, 8):
        fork.call("book_table", {"table_id": "T1", "guests": guests})
    assert fork.end_state() != service.end_state()
    service.reset()
    assert service.state == TABLES and [service.answer(*call) for call in calls] == first + rest
    fork.reset()
    assert fork.state == TABLES


def test_counts_tell_what_a_session_did(monkeypatch: pytest.MonkeyPatch) -> None:
    service, _ = scripted(monkeypatch, 5, {"result": "rain"}, {"result": "snow"})
    for city in ("Oslo", "Oslo", "Rome"):
        service.call("forecast", {"city": city})
    service.call("forecast", {})
    service.call("nothing", {})
    service.call("forecast", [])
    counts = service.counts
    assert (counts.calls, counts.hits, counts.misses, counts.questions, counts.repairs) == (6, 1, 2, 3, 1)
    assert counts.errors == {"invalid_arguments": 2, "unknown_tool": 1} and counts.faults == {}
    service.reset()
    assert service.counts == counts and service.fork().counts == Counts(0, {}, {}, 0, 0, 0, 0)
    faulty = session(fault_rate=1.0, fault_kinds=("rate_limit",))
    answer = faulty.answer("forecast", {"city": "Oslo"})
    assert answer.fault is not None and answer.fault.status == 429
    assert faulty.counts.faults == {"rate_limit": 1} and faulty.counts.errors == {"fault": 1} and faulty.faults == 1


def test_calls_from_many_threads_lose_nothing() -> None:
    service = session()

    def book(thread: int) -> None:
        for n in range(25):
            service.call("book_table", {"table_id": f"{thread}-{n}", "guests": 1 + n % 8, "date": f"2026-01-{1 + thread:02d}"})

    threads = [threading.Thread(target=book, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(service.state["booking"]) == service.counts.calls == 200


@settings(max_examples=200, deadline=None)
@given(schemas, st.integers(0, 3))
def test_every_answer_validates_against_its_output_schema(schema: dict[str, Json], seed: int) -> None:
    tool = Tool(name="any", parameters={"type": "object", "properties": {"city": {"type": "string"}}}, output=schema)
    service = Session([tool], {}, Simulator(seed=seed), "s")
    attempt = service.call("any", {"city": "Oslo"})
    # The share of satisfiable schemas for which nothing is found is small (tests/benches measures it), and never a wrong answer.
    if attempt.error is None:
        assert (
            accepts(schema, attempt.result) and validation.fault(validation.validator(schema), attempt.result, "result") is None
        )
    else:
        assert attempt.error is CallError.SIMULATOR_FAILURE and service.failed


def test_a_schema_that_cannot_be_evaluated_is_the_simulators_fault() -> None:
    definition = {"name": "odd", "parameters": {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}}}
    service = Session(load_tools([definition], "t"), {}, Simulator(), "s")
    assert service.call("odd", {"a": 1}).error is CallError.SIMULATOR_FAILURE and service.failed


def test_draft_07_is_validated_as_draft_07() -> None:
    # In draft-07 a list of items is positional; in 2020-12 it is no schema at all.
    parameters = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}},
    }
    service = Session(load_tools([{"name": "old", "parameters": parameters}], "t"), {}, Simulator(), "s")
    assert service.call("old", {"pair": ["a", 1]}).error is None
    assert "pair[1]" in service.call("old", {"pair": ["a", "b"]}).result["error"]["message"]


@given(st.text(max_size=400), st.integers(64, 300))
def test_rendering_keeps_the_limit_and_says_what_it_cut(text: str, limit: int) -> None:
    whole = json.dumps({"text": text}, ensure_ascii=False, separators=(",", ":"))
    shown = render_result({"text": text}, limit)
    if len(whole) <= limit:
        assert shown == whole
        return
    assert len(shown) == limit
    head, _, rest = shown.partition("...[")
    number, _, tail = rest.partition(" characters cut]...")
    if "...[" not in text:
        assert whole.startswith(head) and whole.endswith(tail) and int(number) == len(whole) - len(head) - len(tail)


def test_a_result_of_2100_characters_at_limit_2048() -> None:
    # {"a":"..."} adds 8 characters: 2100 in all. The marker has 25 (23 and two digits): 2023 are kept, 2100 - 2023 = 77 cut.
    shown = render_result({"a": "x" * 2092}, 2048)
    assert len(shown) == 2048 and "...[77 characters cut]..." in shown
