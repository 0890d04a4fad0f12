"""The one place where advantages are written to tokens.

    out[i, t] = tool[i] where labels[i][t] is TOOL, summary[i] where it is SUMMARY, 0 where it is ENV or padding
    out[i, t] += calls[i][j] where token t belongs to call j of rollout i, for rules with credit per call

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
    advantages: SegmentAdvantages,
    labels: Sequence[Sequence[int]] | NDArray[np.integer],
    rollout_ids: Sequence[str],
    call_of: Sequence[Sequence[int]] | None = None,
) -> NDArray[np.float32]:
    """Per-token advantages (B, T), float32.

    labels: one row of ``Segment`` values per rollout, either ragged (T is then the longest row) or (B, T) padded with ENV.
    call_of: like ``labels``, the number of the call that a token belongs to, -1 for none; for rules with credit per call.
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
    written: NDArray[np.float64] = np.take_along_axis(values, padded, axis=1)
    if advantages.calls is not None:
        _add_calls(written, advantages.calls, padded, call_of, rollout_ids)
    return written.astype(np.float32)


def _add_calls(
    written: NDArray[np.float64],
    calls: Sequence[Sequence[float]],
    labels: NDArray[np.int64],
    call_of: Sequence[Sequence[int]] | None,
    rollout_ids: Sequence[str],
) -> None:
    if call_of is None or len(call_of) != len(calls):
        raise DataError("Credit per call needs the call of every token, one row per rollout; pass call_of.")
    for row, numbers in enumerate(call_of):
        places = np.asarray(numbers, dtype=np.int64)
        inside = np.flatnonzero(places >= 0)
        if not inside.size:
            continue
        if inside[-1] >= labels.shape[1] or (labels[row, inside] != Segment.TOOL).any() or places.max() >= len(calls[row]):
            raise DataError(
                f"Rollout {rollout_ids[row]}: {len(numbers)} tokens name calls up to {places.max()}, of {len(calls[row])} calls; "
                "each must be a TOOL token and name a call of the rollout."
            )
        added = np.array(calls[row], dtype=np.float64)[places[inside]]
        _refuse(~np.isfinite(added)[None], "advantages that are not finite", labels.shape, [rollout_ids[row]])
        written[row, inside] += added


def _refuse(wrong: NDArray[np.bool_], fault: str, shape: tuple[int, ...], rollout_ids: Sequence[str]) -> None:
    rows = np.flatnonzero(wrong.any(axis=1))
    if rows.size:
        names = _named([rollout_ids[int(row)] for row in rows])
        raise DataError(f"{rows.size} of {shape[0]} rollouts (of up to {shape[1]} tokens) have {fault}: {names}.")


def _named(rollout_ids: Sequence[str]) -> str:
    more = f" and {len(rollout_ids) - 5} more" if len(rollout_ids) > 5 else ""
    return ", ".join(rollout_ids[:5]) + more
