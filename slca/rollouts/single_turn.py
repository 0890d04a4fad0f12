"""One assistant turn for each of many prompts: what single-turn benchmarks ask for. Same sampler and parser as rollouts."""

from collections.abc import Callable, Sequence

from slca.policy.model import Policy
from slca.rollouts.sampler import TransformersGenerator

_ROWS = 16


def answer(
    policy: Policy, prompts: Sequence[Sequence[int]], max_tokens: int, progress: Callable[[int], None]
) -> list[str | None]:
    """Greedy replies, markers included; None for a prompt that leaves no room in the policy's context."""
    texts: list[str | None] = [None] * len(prompts)
    generator = TransformersGenerator(policy.model, policy.format.stop_ids, 0.0, _ROWS)
    fitting = [index for index, prompt in enumerate(prompts) if len(prompt) < policy.max_positions]
    progress(len(prompts) - len(fitting))
    # Prompts of similar length are computed together, so that little of that is padding.
    for index in sorted(fitting, key=lambda index: (len(prompts[index]), index)):
        generator.add(index, prompts[index], min(max_tokens, policy.max_positions - len(prompts[index])), 0)
    waiting = len(fitting)
    while waiting:
        for index, turn in generator.step():
            texts[index] = policy.format.turn_text(turn.ids)
            generator.drop(index)
            waiting -= 1
            progress(1)
    return texts
