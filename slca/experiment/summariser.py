"""The frozen summariser of ``rltr`` (method section 4): the reply is written by the warm start, not by the trained policy.

A rollout that ended in a turn without a call has its last turn sampled again by another policy from the very same history:
prompt and completion ids up to that turn, nothing tokenised twice. Other rollouts have no reply to write, and stay as they are.
Training needs none of this: SUMMARY tokens get no credit there.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from slca import params as p
from slca.files import derive_seed
from slca.policy.model import Policy
from slca.records import FinishReason, Rollout, Segment, Step
from slca.rollouts.sampler import TokenBatch, Turn, sample_turns

_BATCH = 32


def with_replies_of(policy: Policy, rollouts: Sequence[Rollout], params: p.Params) -> list[Rollout]:
    """The rollouts, in their order, with replies by ``policy``.

    A call that it writes is not executed: the markers stand in the reply, where the judge sees them. Hence every fact of the
    calls, and so the process score, is as it was.
    """
    finished = [place for place, rollout in enumerate(rollouts) if rollout.steps and not rollout.steps[-1].attempts]
    result = list(rollouts)
    for first in range(0, len(finished), _BATCH):
        places = finished[first : first + _BATCH]
        chosen = [rollouts[place] for place in places]
        for place, rollout, turn in zip(places, chosen, _turns(policy, chosen, params), strict=True):
            result[place] = _with_turn(policy, rollout, turn)
    return result


def history(rollout: Rollout) -> tuple[int, ...]:
    """Completion ids before the last assistant turn, which begins behind the last token that was not sampled."""
    environment = [place for place, label in enumerate(rollout.labels) if label == Segment.ENV]
    return rollout.completion_ids[: environment[-1] + 1 if environment else 0]


@torch.no_grad()
def _turns(policy: Policy, rollouts: Sequence[Rollout], params: p.Params) -> list[Turn]:
    histories = [[*rollout.prompt_ids, *history(rollout)] for rollout in rollouts]
    most = params.rollouts.max_turn_tokens
    limits = [min(most, policy.max_positions - len(ids)) for ids in histories]
    seeds = [derive_seed("summariser", params.evaluate.seed, rollout.rollout_id) for rollout in rollouts]
    uniforms = [np.random.Generator(np.random.Philox(seed)).random(most) for seed in seeds]
    batch = TokenBatch(policy.model, histories)
    return sample_turns(batch, uniforms, limits, params.evaluate.temperature, policy.format.end_id)


def _with_turn(policy: Policy, rollout: Rollout, turn: Turn) -> Rollout:
    kept = len(history(rollout))
    return replace(
        rollout,
        policy_version=f"{rollout.policy_version}, reply by {policy.version}",
        completion_ids=(*rollout.completion_ids[:kept], *turn.ids),
        labels=(*rollout.labels[:kept], *[int(Segment.SUMMARY)] * len(turn.ids)),
        logprobs=(*rollout.logprobs[:kept], *turn.logprobs),
        steps=(*rollout.steps[:-1], Step(policy.format.decode(turn.ids[:-1] if turn.ended else turn.ids))),
        finish_reason=FinishReason.STOP if turn.ended else FinishReason.LENGTH,
    )
