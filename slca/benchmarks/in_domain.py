"""In-domain evaluation: held-out tasks rolled out by the same engine and scored by the same HierR as in training.

Judge noise is off whatever training used: what is measured is the quality of a reply, not the noise of its judge.
"""

from collections.abc import Callable, Sequence

import numpy as np

from slca import params as p
from slca.hierr import score_all as score_pairs
from slca.policy.model import Policy
from slca.records import Reward, Rollout, Task
from slca.rollouts.engine import Engine, Request


def roll_out(policy: Policy, tasks: Sequence[Task], params: p.Params, progress: Callable[[int], None]) -> list[Rollout]:
    """One rollout for each task, under ``evaluate.temperature``."""
    engine = Engine(policy, params.rollouts, params.simulator, params.evaluate.seed, params.evaluate.temperature)
    return engine.run([Request(task, 0) for task in tasks], progress)


def score_all(tasks: Sequence[Task], rollouts: Sequence[Rollout], rewards: p.Rewards) -> list[Reward]:
    quiet = rewards.model_copy(update={"judge_noise": 0.0, "tool_reward": "process"})
    return score_pairs(list(zip(tasks, rollouts, strict=True)), quiet)


def metrics(rewards: Sequence[Reward]) -> dict[str, float | None]:
    """Means over the tasks that could be scored; ``masked`` counts those that could not.

    success: process at or above the threshold. argument_match: matched argument values / gold keys. simulated_cost: calls made,
    each standing for one paid call of a real service. tool_turns, sampled_tokens: per task. calls_per_solved, tokens_per_solved:
    all calls made, all tokens sampled, on solved tasks or not / tasks with success; None where none is solved.
    """
    scored = [reward for reward in rewards if not reward.masked]
    columns: dict[str, list[float | None]] = {
        "success": [reward.success for reward in scored],
        "outcome_success": [reward.outcome for reward in scored],
        "process": [reward.process for reward in scored],
        "name_f1": [reward.name for reward in scored],
        "argument_match": [reward.value for reward in scored],
        "summary": [reward.summary_score for reward in scored],
        "redundancy": [reward.redundancy for reward in scored],
        "tool_turns": [reward.tool_turns for reward in scored],
        "sampled_tokens": [reward.sampled_tokens for reward in scored],
        "simulated_cost": [reward.calls for reward in scored],
    }
    for kind in sorted({reward.kind for reward in scored}):
        columns[f"success_{kind}"] = [reward.success for reward in scored if reward.kind == kind]
    means = {name: round(float(np.mean(np.array(values, dtype=float))), 6) for name, values in columns.items() if values}
    solved = sum(reward.success for reward in scored)
    costs = {
        "calls_per_solved": sum(reward.calls for reward in scored),
        "tokens_per_solved": sum(reward.sampled_tokens for reward in scored),
    }
    each = {name: round(cost / solved, 6) if solved else None for name, cost in costs.items()}
    return {"tasks": len(rewards), "masked": len(rewards) - len(scored), **means, **each}
