"""The `evaluate` stage: one checkpoint on the held-out splits and on BFCL."""

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slca import params as p
from slca.bars import Bars
from slca.benchmarks import in_domain
from slca.benchmarks.bfcl import harness
from slca.benchmarks.bfcl.answering import Answering, answer_all
from slca.benchmarks.bfcl.client import Environment
from slca.benchmarks.bfcl.items import Answer, Question
from slca.files import write_json
from slca.policy.model import Policy, load_policy, prepare_torch
from slca.records import Reward, Trace
from slca.tables import read_tasks, write_rewards, write_traces
from slca.work import fingerprint, open_work, work_folder

SPLITS = ("test", "unseen_tools")


def run(params: p.Params, method: str, seed: int | None = None, root: Path = Path(".")) -> None:
    """models/<run> -> reports/evaluation/<run>.json, data/evaluation/<run>.parquet and data/traces/<run>.parquet.

    <run> is <method>-<seed> or warmstart.
    """
    name = method if seed is None else f"{method}-{seed}"
    prepare_torch(params.execution.threads)
    policy = load_policy(root / "models" / name)
    report: dict[str, Any] = {"method": method, "seed": seed, "splits": {}}
    rewards: list[Reward] = []
    traces: list[Trace] = []
    with Bars() as bars:
        for split in SPLITS:
            tasks = read_tasks(root / "data" / "tasks" / f"{split}.parquet")[: params.evaluate.tasks]
            advance = bars.add(f"evaluate {name}: {split}", len(tasks))
            rollouts = in_domain.roll_out(policy, tasks, params, advance)
            scored = in_domain.score_all(tasks, rollouts, params.rewards)
            report["splits"][split] = in_domain.metrics(scored)
            rewards += scored
        report["bfcl"] = _bfcl(policy, name, params, root, bars, traces)
    write_rewards(root / "data" / "evaluation" / f"{name}.parquet", rewards)
    write_traces(root / "data" / "traces" / f"{name}.parquet", traces)
    write_json(root / "reports" / "evaluation" / f"{name}.json", report)
    shutil.rmtree(work_folder(root, f"bfcl-{name}"))


def _bfcl(policy: Policy, name: str, params: p.Params, root: Path, bars: Bars, traces: list[Trace]) -> dict[str, Any]:
    """BFCL by its official checkers, in their own environment and process. What was answered before a kill is not asked again."""
    evaluate = params.evaluate
    selection = harness.Selection(evaluate.bfcl_categories, evaluate.bfcl_limit, evaluate.bfcl_style)
    mark = fingerprint([asdict(selection), params.rollouts.model_dump(), params.execution.threads], [root / "models" / name])
    folder = open_work(root, f"bfcl-{name}", mark)

    def answer(questions: Sequence[Question]) -> list[Answer]:
        progress = bars.add(f"evaluate {name}: BFCL", len(questions))
        with Environment(root) as environment:
            return answer_all(Answering(policy, params.rollouts, selection.style, environment), questions, folder, progress)

    report = harness.evaluate(answer, selection, evaluate.seed, root)
    traces += report.traces
    return report.to_json()
