"""The stage ``rewards``: scores the rollouts that the warm start made.

Reads data/rollouts and data/tasks (train first, the other splits only for task ids that are not in it). Writes
data/rewards.parquet, reports/rewards.json (flat metrics) and reports/rewards/components.csv (per kind and component).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.progress import track

from slca.credit import Settings, groups_from_rewards
from slca.errors import DataError, RunStopped
from slca.files import write_json, write_text
from slca.hierr.calibration import calibration, components_csv
from slca.hierr.judges import judge_of
from slca.hierr.many import score_all
from slca.hierr.process import Variant
from slca.params import Params
from slca.records import Reward, Rollout, Task
from slca.tables import read_rollouts, read_tasks, write_rewards

ROLLOUTS = Path("data/rollouts")
TASKS = Path("data/tasks")
SPLITS = ("train", "test", "unseen_tools")
_WINDOW = 256
VARIANTS: tuple[Variant, ...] = ("strict", "paper")


def run(params: Params, root: Path = Path(".")) -> None:
    """Score all rollouts. Raises DataError for an unknown task id, RunStopped when too many rollouts cannot be scored."""
    tasks = _Tasks(root)
    judge = judge_of(params.rewards)
    variants = {variant: params.rewards.model_copy(update={"hierr": variant}) for variant in VARIANTS}
    rewards: list[Reward] = []
    labels: list[Sequence[int]] = []
    success: dict[Variant, list[bool]] = {variant: [] for variant in VARIANTS}
    console = Console(stderr=True)
    in_log = not console.is_terminal  # which would keep an empty line
    rollouts = track(read_rollouts(root / ROLLOUTS), "scoring", console=console, transient=True, disable=in_log)
    for window in _windows(rollouts):
        pairs = [(tasks.of(rollout.task_id, rollout.rollout_id), rollout) for rollout in window]
        by_variant = {variant: score_all(pairs, chosen, judge) for variant, chosen in variants.items()}
        chosen_rewards = by_variant[params.rewards.hierr]
        rewards += chosen_rewards
        labels += [sorted(set(rollout.labels)) for rollout in window]  # which segments there are; credit asks for no more
        for variant in VARIANTS:
            scored = zip(by_variant[variant], chosen_rewards, strict=True)
            success[variant] += [reward.success for reward, chosen in scored if not chosen.masked]
    _refuse_unscorable(rewards, params.rewards.max_unscorable)
    groups = groups_from_rewards(rewards, labels)
    metrics = calibration(rewards, groups, Settings.from_params(params.train), success)
    write_rewards(root / "data/rewards.parquet", rewards)
    write_text(root / "reports/rewards/components.csv", components_csv(rewards))
    write_json(root / "reports/rewards.json", metrics)


def _windows(rollouts: Iterable[Rollout]) -> Iterator[list[Rollout]]:
    """A few at a time: as many as a judge on a server can be asked about at once, and no more than memory holds."""
    going = iter(rollouts)
    while window := list(islice(going, _WINDOW)):
        yield window


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
