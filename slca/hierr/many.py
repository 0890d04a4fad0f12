"""The rewards of many rollouts, in their order; where a model judges, several replies are under way at once."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from slca.hierr.judges import Judge, judge_of
from slca.hierr.score import score
from slca.params import Rewards
from slca.records import Reward, Rollout, Task


def score_all(pairs: Sequence[tuple[Task, Rollout]], params: Rewards, judge: Judge | None = None) -> list[Reward]:
    """``score`` of each task with its rollout. ``judge`` takes the place of the one that ``params`` names."""
    chosen = judge or judge_of(params)
    if params.judge == "rubric":
        return [score(task, rollout, params, chosen) for task, rollout in pairs]
    with ThreadPoolExecutor(params.judge_concurrency) as pool:
        return list(pool.map(lambda pair: score(pair[0], pair[1], params, chosen), pairs))
