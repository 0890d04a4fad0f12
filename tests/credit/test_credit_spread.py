"""Advantages on tokens: the right one on each, 0 elsewhere, and refusals that say what does not match."""

import numpy as np
import pytest
from credit_cases import ENV, SUMMARY, TOOL, call_of, ids_of, labels_of, some_groups
from hypothesis import given

from slca.credit import METHODS, SegmentAdvantages, Settings, spread
from slca.errors import DataError

ADVANTAGES = SegmentAdvantages(tool=np.array([1.5, -0.25]), summary=np.array([-2.0, 0.0]))


def test_each_label_gets_its_advantage():
    written = spread(ADVANTAGES, [[ENV, TOOL, ENV, SUMMARY], [TOOL, TOOL]], ["a", "b"])
    assert written.dtype == np.float32
    assert written.tolist() == [[0.0, 1.5, 0.0, -2.0], [-0.25, -0.25, 0.0, 0.0]]


def test_padded_and_ragged_labels_agree():
    ragged = [[ENV, TOOL, ENV, SUMMARY], [TOOL, TOOL]]
    padded = np.array([[ENV, TOOL, ENV, SUMMARY, ENV], [TOOL, TOOL, ENV, ENV, ENV]], dtype=np.int8)
    from_padded = spread(ADVANTAGES, padded, ["a", "b"])
    assert from_padded.shape == (2, 5)
    assert np.array_equal(from_padded[:, :4], spread(ADVANTAGES, ragged, ["a", "b"]))
    assert not from_padded[:, 4].any()


def test_rollouts_without_tokens_are_rows_of_zeros():
    assert spread(ADVANTAGES, [[], [TOOL]], ["a", "b"]).tolist() == [[0.0], [-0.25]]
    assert spread(ADVANTAGES, [[], []], ["a", "b"]).shape == (2, 0)


def test_refusals_name_lengths_and_rollouts():
    with pytest.raises(DataError, match=r"2 TOOL and 2 SUMMARY advantages, 1 rows of labels and 2 rollout ids \(a, b\)"):
        spread(ADVANTAGES, [[TOOL]], ["a", "b"])
    with pytest.raises(DataError, match=r"2 rows of labels and 1 rollout ids \(a\)"):
        spread(ADVANTAGES, [[TOOL], [TOOL]], ["a"])
    with pytest.raises(DataError, match=r"1 of 2 rollouts \(of up to 2 tokens\) have labels that are no segment: b\."):
        spread(ADVANTAGES, [[TOOL], [TOOL, 3]], ["a", "b"])
    with pytest.raises(DataError, match=r"labels that are no segment: a\."):
        spread(ADVANTAGES, [[-100, TOOL], [TOOL]], ["a", "b"])
    broken = SegmentAdvantages(tool=np.array([1.0, np.nan]), summary=np.zeros(2))
    with pytest.raises(DataError, match=r"not finite: b\."):
        spread(broken, [[TOOL], [TOOL]], ["a", "b"])


def test_a_long_list_of_rollouts_is_cut():
    ids = [f"r{number}" for number in range(7)]
    zeros = SegmentAdvantages(np.zeros(7), np.zeros(7))
    with pytest.raises(DataError, match="r0, r1, r2, r3, r4 and 2 more"):
        spread(zeros, [[9]] * 7, ids)


@given(some_groups())
def test_a_token_holds_exactly_what_the_rule_says_of_its_segment(groups):
    for rule in METHODS.values():
        advantages = rule(groups, Settings())
        written = spread(advantages, labels_of(groups), ids_of(groups), call_of(groups))
        for row, (labels, numbers) in enumerate(zip(labels_of(groups), call_of(groups), strict=True)):
            worth = {ENV: 0.0, TOOL: advantages.tool[row], SUMMARY: advantages.summary[row]}
            added = [advantages.calls[row][number] if advantages.calls and number >= 0 else 0.0 for number in numbers]
            expected = [np.float32(worth[label] + more) for label, more in zip(labels, added, strict=True)]
            assert written[row, : len(labels)].tolist() == expected
            assert not written[row, len(labels) :].any()


PER_CALL = SegmentAdvantages(tool=np.array([1.0]), summary=np.array([3.0]), calls=((0.5, -0.25),))


def test_the_credit_of_a_call_is_added_on_its_tokens_alone():
    written = spread(PER_CALL, [[TOOL, TOOL, TOOL, ENV, SUMMARY]], ["a"], [[0, 1, -1, -1, -1]])
    assert written.tolist() == [[1.5, 0.75, 1.0, 0.0, 3.0]]


@pytest.mark.parametrize(
    ("call_of", "fault"),
    [(None, "pass call_of"), ([[0, 2, -1, -1, -1]], "calls up to 2, of 2"), ([[-1, -1, -1, -1, 0]], "must be a TOOL token")],
)
def test_calls_that_do_not_fit_the_tokens_are_refused(call_of, fault):
    with pytest.raises(DataError, match=fault):
        spread(PER_CALL, [[TOOL, TOOL, TOOL, ENV, SUMMARY]], ["a"], call_of)
