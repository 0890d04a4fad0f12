"""The stage ``tasks``: data/schemas.parquet -> data/tasks/{train,test,unseen_tools}.parquet.

Every task is checked by scoring its own gold plan: HierR has to give it 1.0 throughout. No question with the same gold occurs
twice, in whatever split.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

from slca import params, tables
from slca.errors import DataError
from slca.hierr import score
from slca.params import Params, Rewards
from slca.records import FinishReason, Rollout, Task
from slca.tasks.generate import generate
from slca.tasks.gold import gold_steps
from slca.tasks.phrasing import load_book
from slca.tasks.world import make_worlds

log = logging.getLogger(__name__)


def run(params: Params, root: Path = Path(".")) -> None:
    """Write the three splits. Raises DataError when the tools allow too few tasks, or a task fails its own check."""
    tools = tables.read_tools(root / "data/schemas.parquet")
    worlds = make_worlds(tools, load_book(), params.simulator)
    taken: set[str] = set()
    splits = {}
    for split, world in worlds.items():
        if not world.phrased and not world.imported:
            raise DataError(f"data/schemas.parquet has no tool for the split {split}; add tools under 'schemas' in params.yaml.")
        splits[split] = generate(world, getattr(params.tasks, split), params.tasks.kinds, params.tasks.seed, taken)
        check_tasks(splits[split], params)
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
