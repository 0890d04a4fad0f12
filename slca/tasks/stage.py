"""The stage ``tasks``: data/schemas.parquet -> data/tasks/{train,test,unseen_tools}.parquet.

Every task is checked by scoring its own gold plan: HierR has to give it 1.0 throughout. No question with the same gold occurs
twice, in whatever split.

With ``tasks.released_train`` they come from the released splits (``slca.tasks.released``), which have checks of their own.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from slca import params, tables
from slca.errors import DataError
from slca.hierr import score
from slca.params import Params, Rewards
from slca.records import FinishReason, Rollout, Task
from slca.tasks.generate import generate
from slca.tasks.gold import gold_steps
from slca.tasks.phrasing import load_book
from slca.tasks.released import on_unseen_tools, released_tasks
from slca.tasks.world import make_worlds

log = logging.getLogger(__name__)


def run(params: Params, root: Path = Path(".")) -> None:
    """Write the three splits. Raises DataError when the tools allow too few tasks, or a task fails its own check."""
    if params.tasks.released_train:
        _write(_released(params.tasks, root), root)
        return
    tools = tables.read_tools(root / "data/schemas.parquet")
    worlds = make_worlds(tools, load_book(), params.simulator)
    taken: set[str] = set()
    splits = {}
    for split, world in worlds.items():
        if not world.phrased and not world.imported:
            raise DataError(f"data/schemas.parquet has no tool for the split {split}; add tools under 'schemas' in params.yaml.")
        splits[split] = generate(world, getattr(params.tasks, split), params.tasks.kinds, params.tasks.seed, taken)
        check_tasks(splits[split], params)
    _write(splits, root)


def _released(settings: params.Tasks, root: Path) -> dict[str, list[Task]]:
    train = released_tasks(root / settings.released_train, "rl", settings.train)
    test = released_tasks(root / settings.released_eval, "eval", settings.test)
    for split, part in (("train", train), ("test", test)):
        for reason, count in part.refused.most_common():
            log.warning("%s: %d rows left out: %s", split, count, reason)
    unseen = on_unseen_tools(test.tasks, train.tasks)[: settings.unseen_tools]
    return {"train": list(train.tasks), "test": list(test.tasks), "unseen_tools": unseen}


def _write(splits: Mapping[str, Sequence[Task]], root: Path) -> None:
    for split, tasks in splits.items():
        tables.write_tasks(root / f"data/tasks/{split}.parquet", tasks)
        log.info("%s: %d tasks", split, len(tasks))


def check_tasks(tasks: Iterable[Task], parameters: Params) -> None:
    """Raises DataError that names the first task whose own gold plan and reply do not score 1.0, and the component."""
    rewards = Rewards(hierr="strict", tool_reward="process", judge="rubric", judge_noise=0.0)
    for task in tasks:
        reward = score(task, gold_rollout(task, parameters.simulator), rewards)
        scores = {"process": reward.process, "outcome": reward.outcome, "summary": reward.summary_score}
        for component, value in scores.items():
            if value is None or abs(value - 1.0) > 1e-9:
                fault = f"its own gold scores {value} in {component}, not 1.0"
                raise DataError(f"Task {task.task_id}: {fault}; mend the phrasing or the tool.")


def gold_rollout(task: Task, simulator: params.Simulator) -> Rollout:
    """The rollout of a flawless policy, without tokens."""
    steps, end_state = gold_steps(task, simulator)
    return Rollout(
        rollout_id=f"gold-{task.task_id}",
        task_id=task.task_id,
        member=0,
        policy_version="gold",
        prompt_ids=(),
        completion_ids=(),
        labels=(),
        logprobs=(),
        steps=steps,
        finish_reason=FinishReason.STOP,
        end_state=end_state,
    )
