"""The simulator in process: rates of cached calls, memory over 100,000 calls, and how many satisfiable schemas find no value."""

import gc
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from sgls.schema_strategies import random_schema

from slca.params import Simulator
from slca.records import CallError
from slca.sgls.cache import Cache
from slca.sgls.simulator import Session
from slca.sgls.tool import Tool, load_tools

pytestmark = [pytest.mark.slow, pytest.mark.bench]

CITY = {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}, "unit": {"enum": ["C", "F"]}}
DAY = {"date": {"type": "string", "format": "date"}, "high": {"type": "number"}, "sky": {"enum": ["sun", "rain"]}}
DAYS = {"type": "array", "items": {"type": "object", "properties": DAY, "required": list(DAY)}}
SHOP = {"shop_id": {"type": "string"}, "name": {"type": "string"}, "phone": {"type": "string"}}
TOOLS = load_tools(
    [
        {
            "name": "forecast",
            "parameters": {"type": "object", "properties": CITY, "required": ["city"], "additionalProperties": False},
            "output": {"type": "object", "properties": {"city": {"type": "string"}, "days": DAYS}, "required": ["city", "days"]},
        },
        {
            "name": "get_shop",
            "parameters": {"type": "object", "properties": {"shop_id": {"type": "string"}}, "required": ["shop_id"]},
            "output": {"type": "object", "properties": SHOP, "required": list(SHOP)},
            "behaviour": {"kind": "look_up", "entity": "shop", "id_field": "shop_id", "key": "shop_id"},
        },
    ],
    "bench",
)
STATE = {"shop": {f"S{n}": {"name": f"Shop {n}"} for n in range(200)}}
CALLS: dict[str, Callable[[int], tuple[str, dict[str, Any]]]] = {
    "generated": lambda n: ("forecast", {"city": f"City {n}", "days": 3, "unit": "C"}),
    "looked_up_and_filled": lambda n: ("get_shop", {"shop_id": f"S{n}"}),
    "refused": lambda n: ("forecast", {"city": n}),
}


@pytest.mark.benchmark(timer=time.process_time)  # what other processes take of the core does not count
@pytest.mark.parametrize("kind", CALLS)
def test_cached_calls(benchmark: Any, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(TOOLS, STATE, Simulator(), "bench")
    calls = [CALLS[kind](n) for n in range(100)]

    def hundred() -> None:
        for call in calls:
            session.call(*call)

    hundred()
    benchmark(hundred)
    if benchmark.stats is not None:
        best, median = (round(100 / benchmark.stats[name]) for name in ("min", "median"))
        benchmark.extra_info["calls_per_second"] = {"best": best, "median": median}
        with capsys.disabled():
            print(f"\ncached calls, {kind}: {best:,} per second of processor time at best, median {median:,}")


def test_first_calls_with_a_folder(benchmark: Any, tmp_path: Path) -> None:
    """Generated, locked and written: what a miss costs with the schema backend."""
    session = Session(TOOLS, STATE, Simulator(), "bench", Cache("readwrite", tmp_path))
    numbers = iter(range(10**9))
    benchmark(lambda: session.call(*CALLS["generated"](next(numbers))))


@pytest.mark.parametrize("faults", [0.0, 0.1])
def test_memory_over_100_000_calls(benchmark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, faults: float) -> None:
    """Every other call is a new one, so that the cache's share of the memory is full after 20,000."""
    session = Session(TOOLS, STATE, Simulator(fault_rate=faults), "bench")
    process = psutil.Process()
    used: list[int] = []

    def run() -> None:
        for n in range(120_000):
            if n % 20_000 == 0:
                gc.collect()
                used.append(process.memory_info().rss)
            session.call(*CALLS["generated" if n % 2 else "looked_up_and_filled"](n if n % 2 else n % 200))

    benchmark.pedantic(run, rounds=1)
    megabytes = [f"{rss / 2**20:.1f}" for rss in used]
    benchmark.extra_info["rss_mib"] = megabytes
    with capsys.disabled():
        print(f"\nRSS in MiB after 0, 20,000, ... 100,000 calls, fault rate {faults}: {', '.join(megabytes)}")


def test_satisfiable_schemas_that_find_no_value(benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """2,000 random schemas, each built around a value that it accepts (tests/sgls/schema_strategies.py)."""
    outputs = [random_schema(random.Random(seed))[0] for seed in range(2000)]

    def failures() -> int:
        failed = 0
        for seed, output in enumerate(outputs):
            tool = Tool(name="any", parameters={"type": "object"}, output=output)
            failed += Session([tool], {}, Simulator(seed=seed), "bench").call("any", {}).error is CallError.SIMULATOR_FAILURE
        return failed

    failed = benchmark.pedantic(failures, rounds=1)
    benchmark.extra_info["failed"] = failed
    with capsys.disabled():
        print(f"\nsatisfiable schemas for which no value was found: {failed} of {len(outputs)}")
