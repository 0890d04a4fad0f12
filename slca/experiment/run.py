"""Makes a plan's runs, several at once, and keeps the finished ones: ``.slca/experiment/<plan>/<cell>/<method>-<seed>``.

A run is trained by the stage ``train`` (which continues after a kill) and evaluated on held-out tasks by the stage ``evaluate``'s
in-domain half. What is kept appears by rename and carries a fingerprint of parameters, inputs and code; what only the report
depends on has no part in it, so rewording the report trains nothing. Processes take the next run that is neither made nor being
made; one that was stopped by its own alarm counts as made, and the report gives the reason.
"""

import fcntl
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console

from slca import params as p
from slca.bars import Bars
from slca.benchmarks import in_domain
from slca.credit import Settings, contamination_of, groups_of, member_of
from slca.errors import DataError, ParamsError, RunStopped
from slca.experiment import collect, figures, text
from slca.experiment.plan import Cell, Plan, load
from slca.experiment.summariser import with_replies_of
from slca.files import file_digest, read_json, replacing, write_json, write_text
from slca.policy.model import load_policy, prepare_torch
from slca.records import Reward
from slca.side_by_side import beside
from slca.tables import read_rewards, read_rollouts, read_tasks, write_rewards
from slca.training import stage
from slca.training.runs import Run
from slca.work import clear, fingerprint, work_folder

SPLITS = ("test", "unseen_tools")
FROZEN_SUMMARISER = ("rltr",)
"""Methods whose replies are the warm start's."""

_REPORT = ("collect", "figures", "prototype", "text")
_BENCHMARKS = ("bfcl/", "tau2/", "stage.py", "references.py")
_DRY_RUN = ("dry_run.py", "missing.py", "budget.py")
NOT_PART = (
    *("cli.py", "diagnosis/", "report/", "figures.py"),
    *(f"experiment/{name}.py" for name in _REPORT),
    *(f"benchmarks/{name}" for name in _BENCHMARKS),
    *(f"training/{name}" for name in _DRY_RUN),
)
"""Code that no run depends on: its evaluation is the in-domain half alone."""


@dataclass(frozen=True)
class Kept:
    """What is kept of one run. Run None is the warm start, which is evaluated as it is."""

    plan: Plan
    params: p.Params
    root: Path
    cell: Cell | None = None
    run: Run | None = None

    @property
    def name(self) -> str:
        return f"{self.cell.name}/{self.run.name}" if self.cell and self.run else "warmstart"

    @property
    def folder(self) -> Path:
        return self.root / ".slca" / "experiment" / self.plan.name / self.name

    @property
    def training(self) -> Path:
        return self.folder / "training"

    @property
    def evaluation(self) -> Path:
        return self.folder / "evaluation"

    @property
    def model(self) -> Path:
        return self.training / "model" if self.run else self.root / "models" / "warmstart"

    @property
    def training_params(self) -> p.Params:
        return self.plan.params_of(self.cell, self.params) if self.cell else self.params

    @property
    def stopped(self) -> str:
        """Why the run stopped itself; empty if it did not."""
        file = self.training / "stopped.json"
        return str(read_json(file)) if file.exists() else ""

    def is_trained(self) -> bool:
        return self.run is None or _carries(self.training, self.training_mark())

    def is_made(self) -> bool:
        if not self.is_trained():
            return False
        return bool(self.stopped) or _carries(self.evaluation, self.evaluation_mark())

    def training_mark(self) -> str:
        assert self.run is not None
        return self.run.fingerprint(self.training_params, self.root, NOT_PART)

    def evaluation_mark(self) -> str:
        chosen = self.plan.common(self.params)
        sections = [getattr(chosen, name).model_dump() for name in ("simulator", "rollouts", "rewards")]
        settings = [*sections, chosen.evaluate.seed, chosen.evaluate.temperature, self.plan.evaluate.model_dump()]
        writer = [self.root / "models" / "warmstart"] if self.run and self.run.method in FROZEN_SUMMARISER else []
        inputs = [self.model, *(_task_file(self.root, split) for split in SPLITS), *writer]
        return fingerprint([self.name, settings, chosen.execution.threads], inputs, NOT_PART)


def run(params: p.Params, plan_name: str, only: Sequence[str], limit_minutes: float | None, root: Path = Path(".")) -> None:
    """Makes the runs of the plan (with ``only``: of these cells) and writes reports/experiment from all that are made.

    limit_minutes: no run is begun after that time; those under way are finished. Raises ParamsError for an unknown plan or cell,
    DataError for missing inputs.
    """
    plan = load(plan_name, params)
    unknown = [name for name in only if name not in [cell.name for cell in plan.cells]]
    if unknown:
        raise ParamsError(f"--only {unknown[0]!r}: there is no such cell; the cells are {', '.join(c.name for c in plan.cells)}.")
    _check_inputs(plan, root)
    console = Console(stderr=True)
    minutes = plan.expected_seconds(params) / 60
    console.print(
        f"Plan {plan.name}: {len(plan.runs())} runs, {params.execution.processes} at a time. From nothing: about {minutes:.0f} "
        f"minutes, at {plan.seconds.step:g} s a step and {plan.seconds.task:g} s an evaluated task.",
        highlight=False,
        soft_wrap=True,
    )
    deadline = time.monotonic() + 60 * limit_minutes if limit_minutes is not None else None
    with beside(make_all, [(plan, params, only, deadline, root, False)] * (params.execution.processes - 1)):
        make_all(plan, params, only, deadline, root)
    # What a process beside this one left undone is done here, where its failure has a voice.
    make_all(plan, params, only, deadline, root)
    report(plan, params, root)


def kept_runs(plan: Plan, params: p.Params, root: Path) -> list[Kept]:
    """What is, or is to be, kept of every run, in the order of making; the warm start first."""
    return [Kept(plan, params, root), *(Kept(plan, params, root, cell, run) for cell, run in plan.runs())]


def make_all(plan: Plan, params: p.Params, only: Sequence[str], deadline: float | None, root: Path, show: bool = True) -> None:
    """Make what is not made and not being made elsewhere, until the deadline (of the machine's monotonic clock)."""
    runs = kept_runs(plan, params, root)
    for number, kept in enumerate(runs):
        if deadline is not None and time.monotonic() > deadline:
            return
        if kept.cell and only and kept.cell.name not in only:
            continue
        with _claimed(kept.folder) as mine:
            if mine and not kept.is_made():
                if show:
                    place = f"run {number} of {len(runs) - 1}" if kept.run else "evaluated as it is"
                    Console(stderr=True).print(f"{kept.name}: {place}", highlight=False)
                make(kept, show)


def make(kept: Kept, show: bool = True) -> None:
    """Train and evaluate one run, or what is missing of that."""
    if kept.run is not None:
        if not kept.is_trained():
            _train(kept, kept.run, show)
        clear(work_folder(kept.root, kept.run.work_name))
    if not kept.stopped:
        _evaluate(kept, show)


def report(plan: Plan, params: p.Params, root: Path) -> None:
    """Write reports/experiment from the runs that are made."""
    warmstart, *runs = kept_runs(plan, params, root)
    if not warmstart.is_made():
        raise DataError("Nothing is evaluated yet, so there is nothing to report; run again with a longer --limit-minutes.")
    finished = [kept for kept in runs if kept.is_made()]
    made = [_made(kept) for kept in finished if not kept.stopped]
    stopped = {kept.name: kept.stopped for kept in finished if kept.stopped}
    sources = {path.relative_to(root).as_posix(): file_digest(path) for path in _inputs(root)}
    results = collect.build(plan, params, made, read_rewards(warmstart.evaluation / "rewards.parquet"), stopped, sources)
    folder = root / "reports" / "experiment"
    with replacing(folder) as new:
        write_json(new / "results.json", results)
        write_text(new / "runs.csv", collect.runs_csv(made))
        write_text(new / "curves.csv", collect.curves_csv(made))
        write_text(new / "results.md", text.render(results))
        figures.write_all(new / "figures", results, made)


def _made(kept: Kept) -> collect.Made:
    assert kept.cell is not None and kept.run is not None
    return collect.Made(
        cell=kept.cell.name,
        method=kept.run.method,
        seed=kept.run.seed,
        rewards=read_rewards(kept.evaluation / "rewards.parquet"),
        curve=pd.read_csv(kept.training / "curve.csv", float_precision="round_trip"),
        contamination=read_json(kept.training / "contamination.json"),
    )


def _train(kept: Kept, run: Run, show: bool) -> None:
    params, mark = kept.training_params, kept.training_mark()
    try:
        work = stage.train(params, run, kept.root, show)
    except RunStopped as reason:
        with replacing(kept.training) as new:
            write_json(new / "stopped.json", str(reason))
            write_json(new / "fingerprint.json", mark)
    else:
        with replacing(kept.training) as new:
            shutil.copytree(work / "model", new / "model")
            shutil.copyfile(run.curve(kept.root), new / "curve.csv")
            write_json(new / "contamination.json", _contamination(work / "records", run, params))
            write_json(new / "fingerprint.json", mark)


def _contamination(records: Path, run: Run, params: p.Params) -> dict[str, float]:
    """Of the credit that the run itself was trained on, over all of its steps."""
    members, names = [], []
    for part in sorted((records / "rewards").glob("*.parquet")):
        rollouts = read_rollouts(records / "rollouts" / part.name)
        for reward, rollout in zip(read_rewards(part), rollouts, strict=True):
            members.append(member_of(reward, rollout.labels))
            names.append((part.name, reward.task_id))
    return contamination_of(run.method, groups_of(members, names), Settings.from_params(params.train))


def _evaluate(kept: Kept, show: bool) -> None:
    chosen, mark = kept.plan.common(kept.params), kept.evaluation_mark()
    prepare_torch(chosen.execution.threads)
    policy = load_policy(kept.model)
    frozen = kept.run is not None and kept.run.method in FROZEN_SUMMARISER
    rewards: list[Reward] = []
    with Bars() as bars:
        for split in SPLITS:
            tasks = read_tasks(_task_file(kept.root, split))[: getattr(kept.plan.evaluate, split)]
            advance = bars.add(f"evaluate {kept.name}: {split}", len(tasks)) if show else lambda more: None
            rollouts = in_domain.roll_out(policy, tasks, chosen, advance)
            if frozen:
                rollouts = with_replies_of(load_policy(kept.root / "models" / "warmstart"), rollouts, chosen)
            rewards += in_domain.score_all(tasks, rollouts, chosen.rewards)
    with replacing(kept.evaluation) as new:
        write_rewards(new / "rewards.parquet", rewards)
        write_json(new / "fingerprint.json", mark)


def _carries(folder: Path, mark: str) -> bool:
    file = folder / "fingerprint.json"
    return file.exists() and read_json(file) == mark


def _task_file(root: Path, split: str) -> Path:
    return root / "data" / "tasks" / f"{split}.parquet"


def _inputs(root: Path) -> dict[Path, str]:
    """What all runs share -> the stage that makes it."""
    tasks = {_task_file(root, split): "tasks" for split in ("train", *SPLITS)}
    return {**tasks, root / "models" / "warmstart" / "model.safetensors": "warmstart"}


def _check_inputs(plan: Plan, root: Path) -> None:
    for path, name in _inputs(root).items():
        if not path.exists():
            raise DataError(f"{path} does not exist; run the stage {name!r} first (slca {name}, or dvc repro {name}).")
    for split, wanted in plan.evaluate:
        path = _task_file(root, split)
        found = len(read_tasks(path))
        if found < wanted:
            raise DataError(f"{path} holds {found} tasks, but the plan's evaluate.{split} asks for {wanted}; lower that.")


@contextmanager
def _claimed(folder: Path) -> Iterator[bool]:
    """Whether this process may work in ``folder``: False while another does. A claim ends with its process, however that ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
