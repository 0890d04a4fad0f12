"""The `evaluate` stage: one checkpoint on the held-out splits and on BFCL."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slca import params as p
from slca.bars import Bars
from slca.benchmarks import in_domain
from slca.benchmarks.bfcl import harness
from slca.chat import Parsed
from slca.files import write_json
from slca.policy.model import Policy, load_policy, prepare_torch
from slca.records import Call, Reward
from slca.rollouts.single_turn import answer
from slca.tables import read_tasks, write_rewards

SPLITS = ("test", "unseen_tools")


def run(params: p.Params, method: str, seed: int | None = None, root: Path = Path(".")) -> None:
    """models/<run> -> reports/evaluation/<run>.json and data/evaluation/<run>.parquet; <run> is <method>-<seed> or warmstart."""
    name = method if seed is None else f"{method}-{seed}"
    prepare_torch(params.execution.threads)
    policy = load_policy(root / "models" / name)
    report: dict[str, Any] = {"method": method, "seed": seed, "splits": {}}
    rewards: list[Reward] = []
    with Bars() as bars:
        for split in SPLITS:
            tasks = read_tasks(root / "data" / "tasks" / f"{split}.parquet")[: params.evaluate.tasks]
            advance = bars.add(f"evaluate {name}: {split}", len(tasks))
            rollouts = in_domain.roll_out(policy, tasks, params, advance)
            scored = in_domain.score_all(tasks, rollouts, params.rewards)
            report["splits"][split] = in_domain.metrics(scored)
            rewards += scored
        report["bfcl"] = _bfcl(policy, name, params, root, bars)
    write_rewards(root / "data" / "evaluation" / f"{name}.parquet", rewards)
    write_json(root / "reports" / "evaluation" / f"{name}.json", report)


def _bfcl(policy: Policy, name: str, params: p.Params, root: Path, bars: Bars) -> dict[str, Any]:
    """BFCL by its official checker, in its own environment and process."""

    def generate(questions: Sequence[harness.Question]) -> list[list[Call]]:
        prompts = [policy.format.prompt_ids(q.messages, [tool.to_json() for tool in q.tools]) for q in questions]
        texts = answer(policy, params.rollouts, prompts, bars.add(f"evaluate {name}: BFCL", len(questions)))
        return [_calls(policy.format.parse(text or "")) for text in texts]

    evaluate = params.evaluate
    return harness.evaluate(generate, evaluate.bfcl_categories, evaluate.bfcl_limit, root).to_json()


def _calls(parsed: Sequence[Parsed]) -> list[Call]:
    """Every call that could be read, valid for its schema or not: the checker decides."""
    return [
        Call(call.name, call.arguments)
        for call in parsed
        if call.error is None and call.name and isinstance(call.arguments, dict)
    ]
