"""Programs of tests/test_rollout_streams.py: rollouts without a model, written and read as the stage does it, by the thousand."""

import sys
from collections.abc import Iterator
from pathlib import Path

from slca.records import Attempt, FinishReason, Rollout, Step
from slca.tables import read_rollouts, write_rollouts


def rollout(number: int) -> Rollout:
    """A small one, different for every number."""
    tokens = 20 + number % 30
    return Rollout(
        rollout_id=f"task-{number // 8}/{number % 8}",
        task_id=f"task-{number // 8}",
        member=number % 8,
        policy_version="synthetic",
        prompt_ids=tuple(range(40)),
        completion_ids=tuple((number * 7 + place) % 2000 for place in range(tokens)),
        labels=(1,) * (tokens - 5) + (2,) * 5,
        logprobs=(-0.5,) * tokens,
        steps=(Step("call", (Attempt("tool", {"city": "Łódź", "number": number}, None, {"sky": "rain"}),)), Step("Rain.")),
        finish_reason=FinishReason.STOP,
        end_state="0" * 64,
    )


def rollouts(first: int, last: int) -> Iterator[Rollout]:
    return (rollout(number) for number in range(first, last))


def peak() -> int:
    """The most memory that this program has had, in MiB. Not getrusage's: that begins with what the parent had."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) // 1024


if __name__ == "__main__":
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    begun = peak()
    write_rollouts(folder / "part-00000.parquet", rollouts(0, count))
    written = peak()
    read = 0
    for number, found in enumerate(read_rollouts(folder)):
        read += found.rollout_id == rollout(number).rollout_id
    print(begun, written, peak(), read)
