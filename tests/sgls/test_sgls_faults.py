"""Faults: at the set rate, labelled, the same in every rerun, and a retry can succeed."""

import random
import time
from collections.abc import Sequence
from typing import Any

import jsonschema

from slca.files import canonical_json
from slca.params import Simulator
from slca.records import CallError, Json, State
from slca.sgls.faults import Fault, draw_fault
from slca.sgls.simulator import Session
from slca.sgls.tool import load_tools

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = load_tools(
    [
        {"name": "forecast", "parameters": CITY},
        {
            "name": "find",
            "parameters": CITY,
            "behaviour": {"kind": "search", "entity": "shop", "id_field": "shop_id", "result": "shops"},
        },
        {
            "name": "open_shop",
            "parameters": CITY,
            "behaviour": {"kind": "create", "entity": "shop", "id_field": "shop_id", "fields": {"city": "city"}},
        },
    ],
    "test",
)
STATE: State = {"shop": {"S1": {"city": "Oslo"}}}


KINDS = ("timeout", "rate_limit", "server_error", "empty_page")


def drawn(
    rate: float, arguments: Json, kinds: Sequence[str] = KINDS, seed: int = 0, session: str = "s", tool: str = "t", made: int = 0
) -> Fault | None:
    return draw_fault(rate, kinds, seed, session, tool, arguments, made, searches=True)


def test_the_rate_is_met_and_every_kind_occurs() -> None:
    faults = [drawn(0.2, n) for n in range(2000)]
    # Binomial(2000, 0.2): mean 400, deviation 17.9; five deviations either side.
    assert 310 < sum(fault is not None for fault in faults) < 490
    assert {fault.kind for fault in faults if fault} == set(KINDS)


def test_a_tool_that_is_no_search_has_no_empty_page() -> None:
    faults = [draw_fault(1.0, KINDS, 0, "s", "t", n, 0, searches=False) for n in range(200)]
    assert {fault.kind for fault in faults if fault} == {"timeout", "rate_limit", "server_error"}
    assert draw_fault(1.0, ("empty_page",), 0, "s", "t", 0, 0, searches=False) is None
    assert draw_fault(1.0, (), 0, "s", "t", 0, 0, searches=True) is None


def test_each_kind_tells_a_server_what_to_do() -> None:
    faults = {kind: [fault for n in range(100) if (fault := drawn(1.0, n, (kind,)))] for kind in (*KINDS, "slow")}
    assert {fault.status for fault in faults["server_error"]} == {500, 502, 503}
    assert {fault.status for fault in faults["rate_limit"]} == {429} and {fault.status for fault in faults["timeout"]} == {504}
    assert {fault.retry_after for fault in faults["rate_limit"]} == set(range(1, 11))
    assert all(0.5 <= fault.delay <= 10 for fault in faults["slow"]) and len({fault.delay for fault in faults["slow"]}) > 50
    assert {fault.status for kind in ("slow", "empty_page") for fault in faults[kind]} == {200}
    limited = faults["rate_limit"][0]
    assert limited.message == f"rate_limit: too many requests, retry after {limited.retry_after} s."


def test_every_part_moves_the_faults() -> None:
    def pattern(**parts: Any) -> list[Fault | None]:
        return [drawn(0.5, n, **parts) for n in range(40)]

    assert pattern() == pattern()
    others = [pattern(seed=1), pattern(session="r"), pattern(tool="u"), pattern(made=1)]
    assert all(other != pattern() for other in others)


def test_faults_are_labelled_counted_and_change_no_state() -> None:
    service = Session(TOOLS, STATE, Simulator(fault_rate=1.0), "s")
    results = [service.call("open_shop", {"city": str(n)}) for n in range(5)]
    assert all(attempt.error is CallError.FAULT and attempt.well_formed for attempt in results)
    assert all(attempt.result["error"]["type"] == "fault" for attempt in results)
    assert service.faults == 5 and service.state == STATE and not service.failed


def test_an_empty_page_looks_like_an_empty_page_and_is_labelled() -> None:
    service = Session(TOOLS, STATE, Simulator(fault_rate=1.0), "s")
    attempts = [service.call("find", {"city": str(n)}) for n in range(40)]
    empty = [attempt for attempt in attempts if attempt.result == {"shops": []}]
    assert empty and all(attempt.error is CallError.FAULT for attempt in attempts)


def test_a_retry_can_succeed_and_reruns_are_equal() -> None:
    def outcomes(session: str) -> list[bool]:
        service = Session(TOOLS, STATE, Simulator(fault_rate=0.5), session)
        return [service.call("forecast", {"city": "Oslo"}).error is None for _ in range(20)]

    assert outcomes("s") == outcomes("s") != outcomes("r")
    assert {True, False} == set(outcomes("s"))


def test_an_invalid_call_meets_no_fault() -> None:
    service = Session(TOOLS, STATE, Simulator(fault_rate=1.0), "s")
    assert service.call("forecast", {}).error is CallError.INVALID_ARGUMENTS and service.faults == 0


def test_without_a_rate_there_are_none() -> None:
    service = Session(TOOLS, STATE, Simulator(), "s")
    assert all(service.call("forecast", {"city": str(n)}).error is None for n in range(50))


def test_rates_by_tool_stand_before_the_common_one_and_may_name_other_tools() -> None:
    rates = {"forecast": 0.0, "find": 1.0, "tool_of_another_task": 1.0}
    service = Session(TOOLS, STATE, Simulator(fault_rate=1.0, fault_rates=rates), "s")
    assert all(service.call("forecast", {"city": str(n)}).error is None for n in range(10))
    assert service.call("open_shop", {"city": "Rome"}).error is CallError.FAULT
    only = Session(TOOLS, STATE, Simulator(fault_rates={"find": 1.0}), "s")
    assert only.call("find", {"city": "Oslo"}).error is CallError.FAULT and only.call("open_shop", {"city": "Rome"}).error is None


def test_a_slow_answer_is_valid_executed_and_labelled_and_nobody_waits() -> None:
    service = Session(TOOLS, STATE, Simulator(fault_rate=1.0, fault_kinds=("slow",)), "s")
    plain = Session(TOOLS, STATE, Simulator(), "s")
    begin = time.perf_counter()
    for n in range(20):
        answer = service.answer("open_shop", {"city": str(n)})
        assert answer.attempt == plain.call("open_shop", {"city": str(n)})
        assert answer.fault is not None and answer.fault.kind == "slow" and answer.fault.delay >= 0.5
    assert time.perf_counter() - begin < 20 * 0.5
    assert service.faults == 20 and service.counts.faults == {"slow": 20} and service.end_state() == plain.end_state()


def test_the_faults_of_calls_do_not_depend_on_the_calls_between_them() -> None:
    calls = [(tool, {"city": str(n % 7)}) for n in range(30) for tool in ("forecast", "find")]

    def faults(order: Sequence[int]) -> dict[str, list[Fault | None]]:
        service = Session(TOOLS, STATE, Simulator(fault_rate=0.5), "s")
        met: dict[str, list[Fault | None]] = {}
        for index in order:
            met.setdefault(canonical_json(calls[index]), []).append(service.answer(*calls[index]).fault)
        return met

    shuffled = list(range(len(calls)))
    random.Random(1).shuffle(shuffled)
    assert faults(range(len(calls))) == faults(shuffled)


def test_empty_pages_of_every_shape_validate() -> None:
    row = {"type": "object", "properties": {"shop_id": {"type": "string"}}, "required": ["shop_id"]}
    total = {"type": "object", "properties": {"shops": {"type": "array", "items": row}, "note": {"type": "string"}}}
    shapes = {
        "shops": {**total, "required": ["shops", "note"]},
        "": {"type": "array", "items": row},
    }
    for result, output in shapes.items():
        behaviour = {"kind": "search", "entity": "shop", "id_field": "shop_id", "result": result}
        tools = load_tools([{"name": "find", "parameters": CITY, "output": output, "behaviour": behaviour}], "test")
        service = Session(tools, STATE, Simulator(fault_rate=1.0, fault_kinds=("empty_page",)), "s")
        attempt = service.call("find", {"city": "Oslo"})
        jsonschema.validate(attempt.result, output)
        assert attempt.error is CallError.FAULT and (attempt.result["shops"] if result else attempt.result) == []


def test_a_search_that_must_find_something_has_no_empty_page() -> None:
    output = {"type": "object", "properties": {"shops": {"type": "array", "minItems": 1}}, "required": ["shops"]}
    definition = {**TOOLS[1].to_json(), "output": output}
    service = Session(load_tools([definition], "t"), STATE, Simulator(fault_rate=1.0, fault_kinds=("empty_page",)), "s")
    attempt = service.call("find", {"city": "Oslo"})
    assert attempt.error is None and attempt.result["shops"] and service.faults == 0
