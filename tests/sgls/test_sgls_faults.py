"""Faults: at the set rate, labelled, the same in every rerun, and a retry can succeed."""

from slca.params import Simulator
from slca.records import CallError, State
from slca.sgls.faults import draw_fault
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


def test_the_rate_is_met_and_every_kind_occurs() -> None:
    drawn = [draw_fault(0.2, 0, "s", "find", {"n": n}, 0, searches=True) for n in range(2000)]
    # Binomial(2000, 0.2): mean 400, deviation 17.9; five deviations either side.
    assert 310 < sum(fault is not None for fault in drawn) < 490
    assert set(drawn) == {None, "timeout", "rate_limit", "server_error", "empty_page"}
    assert "empty_page" not in {draw_fault(1.0, 0, "s", "t", {"n": n}, 0, searches=False) for n in range(200)}


def test_every_part_moves_the_faults() -> None:
    def pattern(seed: int = 0, session: str = "s", tool: str = "t", occurrence: int = 0) -> list[str | None]:
        return [draw_fault(0.5, seed, session, tool, n, occurrence, searches=False) for n in range(40)]

    assert pattern() == pattern()
    others = [pattern(seed=1), pattern(session="r"), pattern(tool="u"), pattern(occurrence=1)]
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
