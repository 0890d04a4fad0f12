"""Which segment a sampled token belongs to (method section 1).

* ``label_turn`` (``segments: structural``, ours): decided turn by turn, while generating, from the ids that were sampled. A turn
  that opens a call marker is TOOL, whether the call is closed, parseable or neither; a turn without a marker is SUMMARY.
* ``relabel_last_run`` (``segments: last_run``, the paper's rule): applied to a finished rollout. The last contiguous run of
  learnable tokens is SUMMARY, every earlier run TOOL. It has two faults, which the tests show: a rollout that was
  cut off ends on a call, and this labels it SUMMARY; a malformed first call leaves a single run, so no token is TOOL.

What was not sampled (tool results, template glue) is ENV. No rule makes an ENV token learnable, or the reverse.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slca.records import Segment


def label_turn(
    sampled_ids: Sequence[int],
    call_marker_ids: frozenset[int],
    mixed_turns: Literal["tool", "split"],
    blank_ids: frozenset[int] = frozenset(),
) -> NDArray[np.int8]:
    """Labels (n,) of the n sampled tokens of one assistant turn, its end-of-turn token included.

    call_marker_ids: ids of the tokens that open a call. mixed_turns decides about text before the first of them: ``tool``
    labels the whole turn TOOL; ``split`` labels that text SUMMARY, if it shows the user anything, that is, unless all of
    it is in blank_ids (white space). ``split`` cannot tell reasoning from text for the user: a policy that reasons aloud
    before it calls, whose reasoning belongs to TOOL, needs ``tool``.
    """
    labels = np.full(len(sampled_ids), Segment.SUMMARY, dtype=np.int8)
    marker = next((place for place, token in enumerate(sampled_ids) if token in call_marker_ids), None)
    if marker is not None:
        text = sampled_ids[:marker]
        splits = mixed_turns == "split" and any(token not in blank_ids for token in text)
        labels[marker if splits else 0 :] = Segment.TOOL
    return labels


def relabel_last_run(labels: Sequence[int] | NDArray[np.int8]) -> NDArray[np.int8]:
    """The paper's labels (T,) of one rollout, from any labels (T,) of it: only which tokens are ENV is taken over."""
    learnable = np.asarray(labels, dtype=np.int8) != Segment.ENV
    relabelled = np.where(learnable, Segment.TOOL, Segment.ENV).astype(np.int8)
    starts = np.flatnonzero(learnable & ~np.concatenate(([False], learnable[:-1])))  # learnable, after ENV or nothing
    if starts.size:
        last_run = relabelled[starts[-1] :]
        last_run[last_run == Segment.TOOL] = Segment.SUMMARY
    return relabelled
