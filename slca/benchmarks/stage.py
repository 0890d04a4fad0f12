"""The `evaluate` stage: one checkpoint on the held-out splits and on BFCL. Any other model folder, too, on request."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slca import params as p
from slca.bars import Bars
from slca.benchmarks import in_domain, references
from slca.benchmarks.bfcl import harness
from slca.chat import Parsed
from slca.errors import DataError
from slca.files import write_json
from slca.policy.model import Policy, load_policy, prepare_torch
from slca.records import Call, Reward
from slca.rollouts.single_turn import answer
from slca.tables import read_tasks, write_rewards

SPLITS = ("test", "unseen_tools")


def run(params: p.Params, method: str, seed: int | None = None, root: Path = Path(".")) -> None:
    """models/<run> -> reports/evaluation/<run>.json and data/evaluation/<run>.parquet; <run> is <method>-<seed> or warmstart."""
    name = method if seed is None else f"{method}-{seed}"
    head = {"method": method, "seed": seed}
    score_checkpoint(
        root / "models" / name, name, head, params, root, root / "data" / "evaluation", root / "reports" / "evaluation"
    )


def run_checkpoint(params: p.Params, checkpoint: Path, output: Path, root: Path = Path(".")) -> Path:
    """Any model folder, or the name of one in models -> <output>/<name>.json, which is returned, and <output>/<name>.parquet.

    <name> is the folder's. Raises DataError where there is no such folder, and for an output in a folder of the pipeline's.
    """
    found = [path for path in (root / checkpoint, root / "models" / checkpoint) if path.is_dir()]
    if not found or not checkpoint.name:
        raise DataError(f"There is no checkpoint {checkpoint}: neither a folder of that name nor models/{checkpoint} exists.")
    for owned in ("data", "models", *(f"reports/{name}" for name in ("evaluation", "figures", "rewards", "training"))):
        if (root / output).resolve().is_relative_to((root / owned).resolve()):
            raise DataError(f"The output folder {output} lies in {owned}, which the pipeline's stages own; name another.")
    head = {"checkpoint": checkpoint.as_posix(), "profile": params.profile}
    score_checkpoint(found[0], checkpoint.name, head, params, root, root / output, root / output)
    return output / f"{checkpoint.name}.json"


def score_checkpoint(
    folder: Path, name: str, head: dict[str, Any], params: p.Params, root: Path, tables: Path, reports: Path
) -> None:
    """The policy in ``folder`` on every split and benchmark -> ``reports``/<name>.json, begun by ``head``, and ``tables``."""
    prepare_torch(params.execution.threads)
    policy = load_policy(folder)
    size = sum(weights.numel() for weights in policy.model.parameters())
    report: dict[str, Any] = {**head, "policy": policy.version, "parameters": size, "splits": {}}
    rewards: list[Reward] = []
    with Bars() as bars:
        for split in SPLITS:
            tasks = read_tasks(root / "data" / "tasks" / f"{split}.parquet")[: params.evaluate.tasks]
            advance = bars.add(f"evaluate {name}: {split}", len(tasks))
            rollouts = in_domain.roll_out(policy, tasks, params, advance)
            scored = in_domain.score_all(tasks, rollouts, params.rewards)
            report["splits"][split] = in_domain.metrics(scored)
            rewards += scored
            if head.get("seed") is None:  # what all runs are read against is measured once, with the warm start
                report.setdefault("references", {})[split] = references.measure(tasks, params)
        report["bfcl"] = _bfcl(policy, name, params, root, bars)
    write_rewards(tables / f"{name}.parquet", rewards)
    write_json(reports / f"{name}.json", report)


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
