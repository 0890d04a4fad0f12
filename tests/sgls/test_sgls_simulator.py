"""What a policy reads: typed errors, results under the output schema, the same in every process, and never an exception."""

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slca.errors import ToolError
from slca.files import digest
from slca.params import Simulator
from slca.records import Attempt, CallError, Json, State
from slca.sgls.backends import BACKENDS, Request
from slca.sgls.simulator import Session, error_result, render_result
from slca.sgls.tool import load_tools

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


def test_the_same_answers_in_another_process() -> None:
    program = (
        "import json, sys\nfrom slca.params import Simulator\nfrom slca.sgls.simulator import Session, render_result\n"
        "from slca.sgls.tool import load_tools\ntools, state, calls = json.load(sys.stdin)\n"
        "service = Session(load_tools(tools, 't'), state, Simulator(fault_rate=0.5), 's')\n"
        "print(json.dumps([render_result(service.call(*call).result, 2048) for call in calls] + [service.end_state()]))"
    )
    calls: list[Json] = [["forecast", {"city": "Oslo"}], ["find_tables", {}], ["book_table", {"table_id": "T1", "guests": 2}]] * 3
    given_in = json.dumps([DEFINITIONS, TABLES, calls])
    run = subprocess.run([sys.executable, "-c", program], input=given_in, capture_output=True, text=True, check=True)
    service = session(fault_rate=0.5)
    assert json.loads(run.stdout) == [render_result(service.call(*call).result, 2048) for call in calls] + [service.end_state()]


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

    def fill(self, request: Request) -> Json:
        self.asked.append(request)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


def scripted(monkeypatch: pytest.MonkeyPatch, *answers: Json) -> tuple[Session, Scripted]:
    backend = Scripted(list(answers), [])
    monkeypatch.setitem(BACKENDS, "schema", lambda: backend)
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
