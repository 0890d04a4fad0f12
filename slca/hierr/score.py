"""HierR: both rewards of one rollout, and everything measured on the way (method section 3).

Masking: a rollout whose simulator or judge failed, or whose score is not finite, gets no score at all (both None) and a reason in
``masked``. It never counts as reward 0. (``hierr: paper`` keeps the published 0.0 for a judge failure alone.)

``judge_noise`` adds Gaussian noise of that deviation to scores that a judge gave, seeded by the rollout's id. The noisy score is
not clipped to 0..1, since clipping would bias it. Success is measured without noise.
"""

import math
import random

from slca.files import derive_seed
from slca.hierr.calls import call_scores
from slca.hierr.judges import Judge, JudgeFailure, judge_of
from slca.hierr.outcome import outcome_score
from slca.hierr.process import Process, process_score
from slca.hierr.redundancy import redundancy, repeats
from slca.hierr.summary import is_judged, summary_score, visible_reply
from slca.params import Rewards
from slca.records import Reward, Rollout, Task


def score(task: Task, rollout: Rollout, params: Rewards, judge: Judge | None = None) -> Reward:
    """The reward of ``rollout``, which belongs to ``task``. ``judge`` takes the place of the one that ``params`` names.

    success: process (``strict``) or the mean of process and summary (``paper``) reaches ``success_threshold``; False if masked.
    Raises ToolError for a tool whose ``x-compare`` is unusable.
    """
    process = process_score(task, rollout.steps, params.hierr)
    outcome = outcome_score(task, rollout)
    calls = call_scores(task, rollout.steps)
    masked, summary = "", 0.0
    if rollout.simulator_failure:
        masked = "simulator failure"
    else:
        try:
            summary = summary_score(task, rollout, params.hierr, judge or judge_of(params))
        except JudgeFailure as failure:
            masked = f"judge failure: {failure}"
    tool = {"process": process.process, "outcome": outcome, "none": 0.0}[params.tool_reward]
    noisy = summary + _noise(task, rollout, params)
    if not masked and not (math.isfinite(tool) and math.isfinite(noisy)):
        masked = "score is not finite"
    return Reward(
        rollout_id=rollout.rollout_id,
        task_id=rollout.task_id,
        member=rollout.member,
        kind=task.kind,
        tool_score=None if masked else tool,
        summary_score=None if masked else noisy,
        masked=masked,
        needs_call=task.needs_call,
        opened_call=bool(rollout.attempts),
        has_reply=bool(visible_reply(rollout)),
        format=process.format,
        name=process.name,
        key=process.key,
        value=process.value,
        parallel=process.parallel,
        process=process.process,
        outcome=outcome,
        success=not masked and _succeeds(process, summary, params),
        call_steps=calls.steps,
        call_scores=calls.scores,
        correct=calls.correct,
        completeness=calls.completeness,
        errors=calls.errors,
        malformed=calls.malformed,
        calls=len(rollout.attempts),
        redundancy=redundancy(task.gold, rollout),
        repeats=repeats(rollout),
        tool_turns=sum(bool(step.attempts) for step in rollout.steps),
        sampled_tokens=rollout.sampled_tokens,
        finish_reason=rollout.finish_reason,
    )


def _noise(task: Task, rollout: Rollout, params: Rewards) -> float:
    if not params.judge_noise or not is_judged(task, rollout, params.hierr):
        return 0.0
    return random.Random(derive_seed(rollout.rollout_id)).gauss(0.0, params.judge_noise)


def _succeeds(process: Process, summary: float, params: Rewards) -> bool:
    measured = process.process if params.hierr == "strict" else (process.process + summary) / 2
    return measured >= params.success_threshold
