"""A program that evaluates on tau2's mock domain and stops dead, for a test to kill it: ROOT, and the task at which it stops."""

import sys
import time
from pathlib import Path

from slca import params as p
from slca.bars import Bars
from slca.benchmarks.tau2 import harness, parties
from slca.benchmarks.tau2.protocol import Answer, Case, Question, Ruled

SETTINGS = harness.Settings(("mock",), trials=2, rollouts=p.Rollouts(max_rows=2))


def evaluate(root: Path, stop_at: str = "", asked: list[str] | None = None) -> harness.Tau2Report:
    random_call = parties.random_caller(0)

    def says(key: int, case: Case, question: Question) -> Answer:
        if asked is not None:
            asked.append(case.task_id)
        if case.task_id == stop_at:
            print("stopped", flush=True)
            time.sleep(3600)
        return random_call(key, case, question)

    with Bars() as bars:
        return harness.evaluate_party(Ruled(says), parties.scripted_user(), "mark", SETTINGS, "run", root, bars)


if __name__ == "__main__":
    evaluate(Path(sys.argv[1]), sys.argv[2])
