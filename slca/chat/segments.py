"""Which segment a sampled token belongs to (method section 1).

* ``label_turn`` (``segments: structural``, ours): decided turn by turn, while generating, from what was sampled. A turn
  that opens a call is TOOL, whether the call is closed, parseable or neither; a turn without one is SUMMARY. Reasoning goes with
  what it leads to: TOOL before a call, SUMMARY before a reply.
* ``relabel_last_run`` (``segments: last_run``, the paper's rule): applied to a finished rollout. The last contiguous run of
  learnable tokens is SUMMARY, every earlier run TOOL. It has two faults, which the tests show: a rollout that was
  cut off ends on a call, and this labels it SUMMARY; a malformed first call leaves a single run, so no token is TOOL.

What was not sampled (tool results, template glue) is ENV. No rule makes an ENV token learnable, or the reverse.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slca.chat.reading import Reading
from slca.records import Segment

MixedTurns = Literal["tool", "split"]


def label_turn(tokens: int, reading: Reading, mixed_turns: MixedTurns, token_of: Callable[[int], int]) -> NDArray[np.int8]:
    """Labels (tokens,) of the sampled tokens of one assistant turn, its end-of-turn token included.

    reading: what the turn's text says. token_of: the token that holds a character of that text. mixed_turns decides about text
    before the first call: ``tool`` labels the whole turn TOOL; ``split`` labels what the user reads of it SUMMARY. A token
    that holds a character of both, such as one in which a call marker starts, is TOOL: it was sampled to call.
    """
    if not reading.calls:
        return np.full(tokens, Segment.SUMMARY, dtype=np.int8)
    labels = np.full(tokens, Segment.TOOL, dtype=np.int8)
    if mixed_turns == "split":
        for start, end in reading.visible:
            labels[token_of(start - 1) + 1 if start else 0 : token_of(end)] = Segment.SUMMARY
    return labels


def token_of(decode: Callable[[Sequence[int]], str], ids: Sequence[int], text: str, character: int) -> int:
    """The first token of ``ids`` that completes ``text[character]``, where text is what ids decode to; len(ids) behind the end.

    Exact for tokens that are parts of characters: bytes that do not yet form a character decode to U+FFFD, one or several, which
    do not agree with the text. Each question takes a few decodings of a prefix, by bisection: the agreement only grows.
    """
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        if _agreement(decode(ids[: middle + 1]), text) > character:
            high = middle
        else:
            low = middle + 1
    return low


def _agreement(prefix: str, text: str) -> int:
    """Length of the common prefix."""
    if text.startswith(prefix):
        return len(prefix)
    return next(place for place, (a, b) in enumerate(zip(prefix, text, strict=False)) if a != b)


def relabel_last_run(labels: Sequence[int] | NDArray[np.int8]) -> NDArray[np.int8]:
    """The paper's labels (T,) of one rollout, from any labels (T,) of it: only which tokens are ENV is taken over."""
    learnable = np.asarray(labels, dtype=np.int8) != Segment.ENV
    relabelled = np.where(learnable, Segment.TOOL, Segment.ENV).astype(np.int8)
    starts = np.flatnonzero(learnable & ~np.concatenate(([False], learnable[:-1])))  # learnable, after ENV or nothing
    if starts.size:
        last_run = relabelled[starts[-1] :]
        last_run[last_run == Segment.TOOL] = Segment.SUMMARY
    return relabelled
