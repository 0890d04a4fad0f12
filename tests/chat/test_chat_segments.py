"""Labels: structural against the paper's last run, and the field's cases of truncation and broken calls."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slca.chat.segments import label_turn, relabel_last_run
from slca.records import Segment

ENV, TOOL, SUMMARY = Segment
OPEN, CLOSE, END, SPACE = 1, 2, 3, 4  # <tool_call>, </tool_call>, end of turn, white space
MARKERS, BLANKS = frozenset({OPEN}), frozenset({SPACE})


@pytest.mark.parametrize("mixed_turns", ["tool", "split"])
def test_a_turn_without_a_marker_is_summary_with_its_end_token(mixed_turns):
    assert label_turn([10, 11, END], MARKERS, mixed_turns).tolist() == [SUMMARY] * 3


@pytest.mark.parametrize(
    "turn",
    [
        [OPEN, 10, CLOSE, END],
        [OPEN, CLOSE, END],  # an empty call, case 8
        [OPEN, 10, 11],  # never closed: the turn hit its token limit, case 19
        [OPEN, 10, CLOSE, OPEN, 11, CLOSE, END],  # two calls
    ],
)
@pytest.mark.parametrize("mixed_turns", ["tool", "split"])
def test_a_turn_that_opens_with_a_call_is_tool_whether_it_is_closed_or_not(turn, mixed_turns):
    assert label_turn(turn, MARKERS, mixed_turns).tolist() == [TOOL] * len(turn)


def test_a_turn_cut_before_any_marker_is_summary():
    # Case 19: the length stop itself says nothing about calls.
    assert label_turn([10, 11], MARKERS, "tool").tolist() == [SUMMARY, SUMMARY]


def test_mixed_turns():
    turn = [10, SPACE, OPEN, 11, CLOSE, 12, OPEN, END]
    assert label_turn(turn, MARKERS, "tool").tolist() == [TOOL] * 8
    assert label_turn(turn, MARKERS, "split").tolist() == [SUMMARY] * 2 + [TOOL] * 6  # text after the first marker stays TOOL


def test_white_space_before_a_call_is_no_text_for_the_user():
    turn = [SPACE, SPACE, OPEN, 11, CLOSE]
    assert label_turn(turn, MARKERS, "split", BLANKS).tolist() == [TOOL] * 5
    assert label_turn([SPACE, 9, *turn], MARKERS, "split", BLANKS).tolist() == [SUMMARY] * 4 + [TOOL] * 3


def test_an_empty_turn_has_no_labels():
    assert label_turn([], MARKERS, "split").shape == (0,)


@given(st.lists(st.integers(0, 6)), st.sampled_from(["tool", "split"]))
def test_every_sampled_token_gets_one_learnable_label(turn, mixed_turns):
    labels = label_turn(turn, MARKERS, mixed_turns)
    assert labels.dtype == np.int8
    assert len(labels) == len(turn)
    assert set(labels.tolist()) <= {TOOL, SUMMARY}
    assert (TOOL in labels) == (OPEN in turn)


def test_last_run_labels_a_complete_rollout_like_structural():
    labels = [TOOL, TOOL, ENV, ENV, TOOL, ENV, SUMMARY, SUMMARY]
    assert relabel_last_run(labels).tolist() == labels


def test_a_rollout_that_ends_on_a_call_is_where_the_rules_part():
    # Case 4: the last tool result did not fit, so the rollout ends on its second call and there is no summary.
    structural = [*label_turn([OPEN, 10, CLOSE], MARKERS, "tool"), ENV, ENV, *label_turn([OPEN, 11], MARKERS, "tool")]
    assert structural == [TOOL, TOOL, TOOL, ENV, ENV, TOOL, TOOL]
    assert relabel_last_run(structural).tolist() == [TOOL, TOOL, TOOL, ENV, ENV, SUMMARY, SUMMARY]


def test_a_malformed_first_call_is_where_the_rules_part():
    # The call cannot be parsed and the rollout ends there: a single run, so that under the paper's rule no token is TOOL.
    structural = label_turn([OPEN, 10, 10, CLOSE, END], MARKERS, "tool")
    assert structural.tolist() == [TOOL] * 5
    assert relabel_last_run(structural).tolist() == [SUMMARY] * 5


def test_last_run_ignores_what_follows_it_and_how_it_was_labelled():
    assert relabel_last_run([ENV, TOOL, ENV, SUMMARY, TOOL, ENV]).tolist() == [ENV, TOOL, ENV, SUMMARY, SUMMARY, ENV]
    assert relabel_last_run([SUMMARY, ENV, SUMMARY]).tolist() == [TOOL, ENV, SUMMARY]
    assert relabel_last_run([ENV, ENV]).tolist() == [ENV, ENV]
    assert relabel_last_run([]).shape == (0,)


@given(st.lists(st.sampled_from([ENV, TOOL, SUMMARY])))
def test_last_run_never_changes_what_is_trained_on(labels):
    # Case 6: tokens that were not sampled stay out, and no sampled token is lost.
    relabelled = relabel_last_run(labels)
    assert ((relabelled == ENV) == (np.array(labels, dtype=int) == ENV)).all()
    assert relabel_last_run(relabelled).tolist() == relabelled.tolist()


@given(st.lists(st.sampled_from([ENV, TOOL, SUMMARY])), st.integers(0, 30))
def test_a_cut_rollout_keeps_the_structural_labels_of_what_is_left(labels, cut):
    # Case 3: one cut through all streams keeps labels and ENV aligned; the paper's labels have to be made after the cut.
    left = labels[:cut]
    relabelled = relabel_last_run(left)
    assert len(relabelled) == len(left)
    assert (SUMMARY in relabelled) == any(label != ENV for label in left)
