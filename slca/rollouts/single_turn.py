"""One assistant turn for each of many prompts: what single-turn benchmarks ask for. Same generator and parser as rollouts."""

from collections.abc import Callable, Sequence

from slca.params import Rollouts
from slca.policy.model import Policy
from slca.rollouts.generator import context, new_generator

_ROWS = 16


def answer(
    policy: Policy, rollouts: Rollouts, prompts: Sequence[Sequence[int]], progress: Callable[[int], None]
) -> list[str | None]:
    """Greedy replies of at most ``rollouts.max_turn_tokens``, markers included; None for a prompt that leaves no room for one."""
    texts: list[str | None] = [None] * len(prompts)
    generator = new_generator(policy, rollouts, 0.0, _ROWS)
    room = context(policy, rollouts)
    fitting = [index for index, prompt in enumerate(prompts) if len(prompt) < room]
    progress(len(prompts) - len(fitting))
    # Prompts of similar length are computed together, so that little of that is padding.
    for index in sorted(fitting, key=lambda index: (len(prompts[index]), index)):
        generator.add(index, prompts[index], min(rollouts.max_turn_tokens, room - len(prompts[index])), 0)
    waiting = len(fitting)
    while waiting:
        for index, turn in generator.step():
            texts[index] = policy.format.turn_text(turn.ids)
            generator.drop(index)
            waiting -= 1
            progress(1)
    return texts
