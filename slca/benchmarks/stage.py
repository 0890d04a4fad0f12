"""The `evaluate` stage: one checkpoint on the held-out splits, on BFCL and on tau2."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slca import params as p
from slca.bars import Bars
from slca.benchmarks import in_domain
from slca.benchmarks.bfcl import harness
from slca.benchmarks.tau2 import harness as tau2
from slca.chat import Parsed
from slca.files import write_json
from slca.policy.model import Policy, load_policy, prepare_torch
from slca.records import Call, Reward, Trace
from slca.rollouts.single_turn import answer
from slca.tables import read_tasks, write_rewards, write_traces

SPLITS = ("test", "unseen_tools")


def run(params: p.Params, method: str, seed: int | None = None, root: Path = Path(".")) -> None:
    """models/<run> -> reports/evaluation/<run>.json and data/evaluation/<run>.parquet; <run> is <method>-<seed> or warmstart."""
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
        report["bfcl"] = _bfcl(policy, name, params, root, bars)
        report["tau2"], traces_of_tau2 = _tau2(policy, name, params, root, bars)
        traces += traces_of_tau2
    write_rewards(root / "data" / "evaluation" / f"{name}.parquet", rewards)
    write_traces(root / "data" / "traces" / f"{name}.parquet", traces)
    write_json(root / "reports" / "evaluation" / f"{name}.json", report)
    tau2.forget(root, name)


def _bfcl(policy: Policy, name: str, params: p.Params, root: Path, bars: Bars) -> dict[str, Any]:
    """BFCL by its official checker, in its own environment and process."""

    def generate(questions: Sequence[harness.Question]) -> list[list[Call]]:
        prompts = [policy.format.prompt_ids(q.messages, [tool.to_json() for tool in q.tools]) for q in questions]
        texts = answer(policy, prompts, params.rollouts.max_turn_tokens, bars.add(f"evaluate {name}: BFCL", len(questions)))
        return [_calls(policy.format.parse(text or "")) for text in texts]

    evaluate = params.evaluate
    return harness.evaluate(generate, evaluate.bfcl_categories, evaluate.bfcl_limit, root).to_json()


def _tau2(policy: Policy, name: str, params: p.Params, root: Path, bars: Bars) -> tuple[dict[str, Any], Sequence[Trace]]:
    """tau2 by its official orchestrator and evaluator, in processes of its own; nothing where no domain is asked for."""
    settings = tau2.Settings.of(params)
    if not settings.domains:
        return {}, ()
    report = tau2.evaluate(policy, settings, name, root, bars)
    return dict(report.to_json()), report.traces


def _calls(parsed: Sequence[Parsed]) -> list[Call]:
    """Every call that could be read, valid for its schema or not: the checker decides."""
    return [
        Call(call.name, call.arguments)
        for call in parsed
        if call.error is None and call.name and isinstance(call.arguments, dict)
    ]
