"""The frozen summariser of ``rltr`` (method section 4): the reply is written by the warm start, not by the trained policy.

A rollout that ended in a turn without a call has its last turn sampled again by another policy from the very same history:
prompt and completion ids up to that turn, nothing tokenised twice. Other rollouts have no reply to write, and stay as they are.
Training needs none of this: SUMMARY tokens get no credit there.
"""

from collections.abc import Sequence
from dataclasses import replace

from slca import params as p
from slca.files import derive_seed
from slca.policy.model import Policy
from slca.records import FinishReason, Rollout, Segment, Step
from slca.rollouts.generator import Turn, context, new_generator


def with_replies_of(policy: Policy, rollouts: Sequence[Rollout], params: p.Params) -> list[Rollout]:
    """The rollouts, in their order, with replies by ``policy``.

    A call that it writes is not executed: the markers stand in the reply, where the judge sees them. Hence every fact of the
    calls, and so the process score, is as it was.
    """
    result = list(rollouts)
    replied = [place for place, rollout in enumerate(rollouts) if rollout.steps and not rollout.steps[-1].attempts]
    temperature = params.evaluate.temperature
    generator = new_generator(policy, params.rollouts, temperature, params.rollouts.max_rows)
    for place in replied:
        ids = [*rollouts[place].prompt_ids, *history(rollouts[place])]
        limit = min(params.rollouts.max_turn_tokens, context(policy, params.rollouts) - len(ids))
        generator.add(place, ids, limit, derive_seed("summariser", params.evaluate.seed, rollouts[place].rollout_id))
    waiting = len(replied)
    while waiting:
        for place, turn in generator.step():
            result[place] = _with_turn(policy, rollouts[place], turn)
            generator.drop(place)
            waiting -= 1
    return result


def history(rollout: Rollout) -> tuple[int, ...]:
    """Completion ids before the last assistant turn, which begins behind the last token that was not sampled."""
    environment = [place for place, label in enumerate(rollout.labels) if label == Segment.ENV]
    return rollout.completion_ids[: environment[-1] + 1 if environment else 0]


def _with_turn(policy: Policy, rollout: Rollout, turn: Turn) -> Rollout:
    kept = len(history(rollout))
    return replace(
        rollout,
        policy_version=f"{rollout.policy_version}, reply by {policy.version}",
        completion_ids=(*rollout.completion_ids[:kept], *turn.ids),
        labels=(*rollout.labels[:kept], *[int(Segment.SUMMARY)] * len(turn.ids)),
        logprobs=(*rollout.logprobs[:kept], *turn.logprobs),
        call_of=(*rollout.call_of[:kept], *[-1] * len(turn.ids)),
        steps=(*rollout.steps[:-1], Step(policy.format.turn_text(turn.ids))),
        finish_reason=FinishReason.STOP if turn.ended else FinishReason.LENGTH,
    )
