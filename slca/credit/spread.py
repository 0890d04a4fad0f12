"""The one place where advantages are written to tokens.

    out[i, t] = tool[i] where labels[i][t] is TOOL, summary[i] where it is SUMMARY, 0 where it is ENV or padding

TRL's clipped loss takes this (B, T) array in place of its own (B,) advantages. A token with advantage 0 adds nothing to the
numerator of the loss; whether it counts in the denominator is the mask's business, not this module's.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slca.credit.rule import SegmentAdvantages
from slca.errors import DataError
from slca.records import Segment


def spread(
    advantages: SegmentAdvantages, labels: Sequence[Sequence[int]] | NDArray[np.integer], rollout_ids: Sequence[str]
) -> NDArray[np.float32]:
    """Per-token advantages (B, T), float32.

    labels: one row of ``Segment`` values per rollout, either ragged (T is then the longest row) or (B, T) padded with ENV.
    Raises DataError, with lengths and rollout ids, for rows that do not match, labels that are no segment, and advantages that
    are not finite.
    """
    lengths = [len(advantages.tool), len(advantages.summary), len(labels), len(rollout_ids)]
    if len(set(lengths)) != 1:
        raise DataError(
            "Advantages cannot be written to tokens: there are {} TOOL and {} SUMMARY advantages, {} rows of labels and {} "
            "rollout ids ({}); each rollout needs one of each.".format(*lengths, _named(rollout_ids))
        )
    padded = np.zeros((len(labels), max((len(row) for row in labels), default=0)), dtype=np.int64)
    for row, values in enumerate(labels):
        padded[row, : len(values)] = values
    _refuse((padded < min(Segment)) | (padded > max(Segment)), "labels that are no segment", padded.shape, rollout_ids)
    values = np.stack([np.zeros(len(labels)), advantages.tool, advantages.summary], axis=1)  # (B, 3), in the order of Segment
    _refuse(~np.isfinite(values), "advantages that are not finite", padded.shape, rollout_ids)
    written: NDArray[np.float32] = np.take_along_axis(values, padded, axis=1).astype(np.float32)
    return written


def _refuse(wrong: NDArray[np.bool_], fault: str, shape: tuple[int, ...], rollout_ids: Sequence[str]) -> None:
    rows = np.flatnonzero(wrong.any(axis=1))
    if rows.size:
        names = _named([rollout_ids[int(row)] for row in rows])
        raise DataError(f"{rows.size} of {shape[0]} rollouts (of up to {shape[1]} tokens) have {fault}: {names}.")


def _named(rollout_ids: Sequence[str]) -> str:
    more = f" and {len(rollout_ids) - 5} more" if len(rollout_ids) > 5 else ""
    return ", ".join(rollout_ids[:5]) + more
