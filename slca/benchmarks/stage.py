"""The `evaluate` stage: one checkpoint on the held-out splits, on BFCL and on tau2. Any other model folder, too, on request."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slca import params as p
from slca.bars import Bars
from slca.benchmarks import in_domain, references
from slca.benchmarks.bfcl import harness
from slca.benchmarks.bfcl.answering import Answering, answer_all
from slca.benchmarks.bfcl.client import Environment
from slca.benchmarks.bfcl.items import Answer, Question
from slca.benchmarks.tau2 import harness as tau2
from slca.errors import DataError
from slca.files import write_json
from slca.policy.model import Policy, load_policy, prepare_torch
from slca.records import Reward, Trace
from slca.tables import read_tasks, write_rewards, write_traces
from slca.work import clear, fingerprint, open_work, work_folder

SPLITS = ("test", "unseen_tools")


@dataclass(frozen=True)
class Outputs:
    """What an evaluation writes: the score of each held-out task, what happened on each benchmark item, and the figures."""

    rewards: Path
    traces: Path
    report: Path


def run(params: p.Params, method: str, seed: int | None = None, root: Path = Path(".")) -> None:
    """models/<run> -> reports/evaluation/<run>.json, data/{evaluation,traces}/<run>.parquet.

    <run> is <method>-<seed> or warmstart.
    """
    name = method if seed is None else f"{method}-{seed}"
    head = {"method": method, "seed": seed}
    outputs = Outputs(
        root / "data" / "evaluation" / f"{name}.parquet",
        root / "data" / "traces" / f"{name}.parquet",
        root / "reports" / "evaluation" / f"{name}.json",
    )
    score_checkpoint(root / "models" / name, name, head, params, root, outputs)


def run_checkpoint(params: p.Params, checkpoint: Path, output: Path, root: Path = Path(".")) -> Path:
    """Any model folder, or the name of one in models -> <output>/<name>.json, which is returned, <output>/<name>.parquet
    and <output>/<name>-traces.parquet.

    <name> is the folder's. Raises DataError where there is no such folder, and for an output in a folder of the pipeline's.
    """
    found = [path for path in (root / checkpoint, root / "models" / checkpoint) if path.is_dir()]
    if not found or not checkpoint.name:
        raise DataError(f"There is no checkpoint {checkpoint}: neither a folder of that name nor models/{checkpoint} exists.")
    for owned in ("data", "models", *(f"reports/{name}" for name in ("evaluation", "figures", "rewards", "training"))):
        if (root / output).resolve().is_relative_to((root / owned).resolve()):
            raise DataError(f"The output folder {output} lies in {owned}, which the pipeline's stages own; name another.")
    head = {"checkpoint": checkpoint.as_posix(), "profile": params.profile}
    files = (f"{checkpoint.name}{ending}" for ending in (".parquet", "-traces.parquet", ".json"))
    outputs = Outputs(*(root / output / file for file in files))
    score_checkpoint(found[0], checkpoint.name, head, params, root, outputs)
    return output / f"{checkpoint.name}.json"


def score_checkpoint(folder: Path, name: str, head: dict[str, Any], params: p.Params, root: Path, outputs: Outputs) -> None:
    """The policy in ``folder`` on every split and benchmark -> ``outputs``, whose report begins with ``head``."""
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
        report["bfcl"], traces_of_bfcl = _bfcl(policy, folder, name, params, root, bars)
        report["tau2"], traces_of_tau2 = _tau2(policy, name, params, root, bars)
    write_rewards(outputs.rewards, rewards)
    write_traces(outputs.traces, [*traces_of_bfcl, *traces_of_tau2])
    write_json(outputs.report, report)
    # Only now: a kill before this line loses no answer.
    for benchmark in ("bfcl", "tau2"):
        clear(work_folder(root, f"{benchmark}-{name}"))


def _bfcl(
    policy: Policy, model: Path, name: str, params: p.Params, root: Path, bars: Bars
) -> tuple[dict[str, Any], Sequence[Trace]]:
    """BFCL by its official checkers, in their own environment and process. What was answered before a kill is not asked again."""
    evaluate = params.evaluate
    selection = harness.Selection(evaluate.bfcl_categories, evaluate.bfcl_limit, evaluate.bfcl_style)
    mark = fingerprint([asdict(selection), params.rollouts.model_dump(), params.execution.threads], [model])
    folder = open_work(root, f"bfcl-{name}", mark)

    def answer(questions: Sequence[Question]) -> list[Answer]:
        progress = bars.add(f"evaluate {name}: BFCL", len(questions))
        with Environment(root) as environment:
            return answer_all(Answering(policy, params.rollouts, selection.style, environment), questions, folder, progress)

    report = harness.evaluate(answer, selection, evaluate.seed, root)
    return report.to_json(), report.traces


def _tau2(policy: Policy, name: str, params: p.Params, root: Path, bars: Bars) -> tuple[dict[str, Any], Sequence[Trace]]:
    """tau2 by its official orchestrator and evaluator, in processes of its own; nothing where no domain is asked for."""
    settings = tau2.Settings.of(params)
    if not settings.domains:
        return {}, ()
    report = tau2.evaluate(policy, settings, name, root, bars)
    return report.to_json(), report.traces
