"""The stage ``rewards``: scores the rollouts that the warm start made.

Reads data/rollouts and data/tasks (train first, the other splits only for task ids that are not in it). Writes
data/rewards.parquet, reports/rewards.json (flat metrics) and reports/rewards/components.csv (per kind and component).
"""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track

from slca.credit import Settings, groups_from_rewards
from slca.errors import DataError, RunStopped
from slca.files import write_json, write_text
from slca.hierr.calibration import calibration, components_csv
from slca.hierr.judges import JUDGES, Judge
from slca.hierr.process import Variant
from slca.hierr.score import score
from slca.params import Params
from slca.records import Json, Reward, Task
from slca.tables import read_rollouts, read_tasks, write_rewards

ROLLOUTS = Path("data/rollouts")
TASKS = Path("data/tasks")
SPLITS = ("train", "test", "unseen_tools")
VARIANTS: tuple[Variant, ...] = ("strict", "paper")


def run(params: Params, root: Path = Path(".")) -> None:
    """Score all rollouts. Raises DataError for an unknown task id, RunStopped when too many rollouts cannot be scored."""
    tasks = _Tasks(root)
    judge = _LastAnswer(JUDGES[params.rewards.judge])
    variants = {variant: params.rewards.model_copy(update={"hierr": variant}) for variant in VARIANTS}
    rewards: list[Reward] = []
    labels: list[Sequence[int]] = []
    success: dict[Variant, list[bool]] = {variant: [] for variant in VARIANTS}
    console = Console(stderr=True)
    in_log = not console.is_terminal  # which would keep an empty line
    rollouts = track(read_rollouts(root / ROLLOUTS), "scoring", console=console, transient=True, disable=in_log)
    for rollout in rollouts:
        task = tasks.of(rollout.task_id, rollout.rollout_id)
        by_variant = {variant: score(task, rollout, chosen, judge) for variant, chosen in variants.items()}
        reward = by_variant[params.rewards.hierr]
        rewards.append(reward)
        labels.append(sorted(set(rollout.labels)))  # which segments there are; credit asks for no more
        if not reward.masked:
            for variant in VARIANTS:
                success[variant].append(by_variant[variant].success)
    _refuse_unscorable(rewards, params.rewards.max_unscorable)
    groups = groups_from_rewards(rewards, labels)
    metrics = calibration(rewards, groups, Settings.from_params(params.train), success)
    write_rewards(root / "data/rewards.parquet", rewards)
    write_text(root / "reports/rewards/components.csv", components_csv(rewards))
    write_json(root / "reports/rewards.json", metrics)


class _Tasks:
    """Tasks by id; splits are read when an id asks for them."""

    def __init__(self, root: Path) -> None:
        self._files = [root / TASKS / f"{split}.parquet" for split in SPLITS]
        self._tasks: dict[str, Task] = {}

    def of(self, task_id: str, rollout_id: str) -> Task:
        while task_id not in self._tasks:
            if not self._files:
                raise DataError(
                    f"{ROLLOUTS}: rollout {rollout_id!r} belongs to task {task_id!r}, which no file in {TASKS} holds; "
                    "run the stage 'rollouts' again."
                )
            self._tasks |= {task.task_id: task for task in read_tasks(self._files.pop(0))}
        return self._tasks[task_id]


class _LastAnswer:
    """A judge that is not asked the same thing twice in a row: both variants of HierR need the same rating."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._last: tuple[str, float] | None = None

    def rate(self, question: str, results: Sequence[Json], reply: str, facts: Sequence[str]) -> float:
        asked = repr((question, results, reply, facts))
        if self._last is None or self._last[0] != asked:
            self._last = (asked, self._judge.rate(question, results, reply, facts))
        return self._last[1]


def _refuse_unscorable(rewards: Sequence[Reward], limit: float) -> None:
    if not rewards:
        raise DataError(f"{ROLLOUTS} holds no rollouts; run the stage 'rollouts' again.")
    masked = [reward for reward in rewards if reward.masked]
    share = len(masked) / len(rewards)
    if share > limit or len(masked) == len(rewards):
        raise RunStopped(
            f"{len(masked)} of {len(rewards)} rollouts cannot be scored (rewards.max_unscorable = {limit:g}); the first is "
            f"{masked[0].rollout_id} ({masked[0].masked}). Mend the simulator or the judge and run again."
        )
