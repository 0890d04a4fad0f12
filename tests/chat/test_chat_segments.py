"""Labels: structural against the paper's last run, and the field's cases of truncation and broken calls."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slca.chat.formats.hermes import read_blocks
from slca.chat.segments import label_turn, relabel_last_run, token_of
from slca.records import Segment

ENV, TOOL, SUMMARY = Segment
CALL = "<tool_call>{}</tool_call>"


def letters(text: str, mixed_turns: str) -> str:
    """The labels of a turn whose tokens are single characters and an end-of-turn token, a letter each."""
    ids = [*(ord(character) for character in text), 0]
    decode = lambda ids: "".join(chr(number) if number else "<end>" for number in ids)  # noqa: E731
    labels = label_turn(len(ids), read_blocks(text), mixed_turns, lambda character: token_of(decode, ids, decode(ids), character))
    assert labels.dtype == np.int8 and labels.shape == (len(ids),)
    return "".join("ETS"[label] for label in labels)


@pytest.mark.parametrize("mixed_turns", ["tool", "split"])
@pytest.mark.parametrize("text", ["It is rain.", "", "<think>Rain.</think>It is rain.", "<tool_call"])
def test_a_turn_without_a_call_is_summary_with_its_reasoning_and_its_end_token(text, mixed_turns):
    assert letters(text, mixed_turns) == "S" * (len(text) + 1)


@pytest.mark.parametrize("mixed_turns", ["tool", "split"])
@pytest.mark.parametrize(
    "text",
    [
        CALL,
        "<tool_call></tool_call>",  # an empty call, case 8
        '<tool_call>{"name',  # never closed: the turn hit its token limit, case 19
        CALL + CALL,
        " \n" + CALL,  # white space is nothing that a user reads
        "<think>Which tool?</think>\n" + CALL,  # reasoning goes with what it leads to
        "Which tool?</think>" + CALL,  # the template opened the reasoning
        "<think>Which tool? " + CALL,  # and here the policy never closed it
    ],
)
def test_a_turn_that_only_decides_and_calls_is_tool_whether_the_call_is_closed_or_not(text, mixed_turns):
    assert letters(text, mixed_turns) == "T" * (len(text) + 1)


def test_mixed_turns():
    text = f"I look. {CALL} Well, {CALL}"
    assert letters(text, "tool") == "T" * (len(text) + 1)
    assert letters(text, "split") == "S" * 8 + "T" * (len(text) - 7)  # text after the first call stays TOOL


def test_reasoning_beside_text_for_the_user_is_tool():
    text = "Hm. <think>Which?</think> I look." + CALL
    assert letters(text, "split") == "S" * 4 + "T" * len("<think>Which?</think>") + "S" * 8 + "T" * (len(CALL) + 1)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["I ", "look", ". ", "<tool_call>", "{}", "</tool_call>"], "SSSTTT"),
        (["I ", "look.<", "tool_call>{}</tool_call>"], "STT"),  # a marker that starts inside a token takes it along
        (["I look.<tool_call>{}</tool_call>"], "T"),
        (["<think>", "a</think>I", " look.", "<tool_call>{"], "TTST"),  # so does reasoning that ends inside one
        (["I", " \u00e9", "<tool_call>"], "SST"),
    ],
)
def test_a_token_that_holds_characters_of_two_segments_is_tool(pieces, expected):
    text = "".join(pieces)
    decode = lambda ids: "".join(pieces[number] for number in ids)  # noqa: E731
    ids = range(len(pieces))
    labels = label_turn(len(pieces), read_blocks(text), "split", lambda character: token_of(decode, ids, text, character))
    assert "".join("ETS"[label] for label in labels) == expected


def one_for_all(data: bytes) -> str:
    return data.decode(errors="replace")


def one_for_each(data: bytes) -> str:
    """As decoders that fall back to bytes do."""
    whole = data.decode(errors="ignore")
    return whole + "\ufffd" * (len(data) - len(whole.encode()))


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "é", "東"])
@pytest.mark.parametrize("replace", [one_for_all, one_for_each])
def test_bytes_of_a_character_belong_to_the_token_that_completes_it(before, replace):
    """Byte tokens: a prefix that ends inside a character decodes to U+FFFD, which is no character of the text."""
    text = before + "京<tool_call>"
    data = text.encode()
    pieces = [*(bytes([byte]) for byte in data[: -len("<tool_call>")]), b"<tool_call>"]
    decode = lambda ids: replace(b"".join(pieces[number] for number in ids))  # noqa: E731
    ids = range(len(pieces))
    labels = label_turn(len(pieces), read_blocks(text), "split", lambda character: token_of(decode, ids, text, character))
    assert "".join("ETS"[label] for label in labels) == "S" * (len(pieces) - 1) + "T"


@given(st.lists(st.sampled_from(["<tool_call>", "</tool_call>", "<think>", "</think>", "a", " ", "{}"])))
def test_every_sampled_token_gets_one_learnable_label(parts):
    text = "".join(parts)
    for mixed_turns in ("tool", "split"):
        labels = letters(text, mixed_turns)
        assert set(labels) <= {"T", "S"}
        assert ("T" in labels) == ("<tool_call>" in parts)
        assert labels[-1] == ("T" if "<tool_call>" in parts else "S")  # the end token belongs to its turn


def test_last_run_labels_a_complete_rollout_like_structural():
    labels = [TOOL, TOOL, ENV, ENV, TOOL, ENV, SUMMARY, SUMMARY]
    assert relabel_last_run(labels).tolist() == labels


def test_a_rollout_that_ends_on_a_call_is_where_the_rules_part():
    # Case 4: the last tool result did not fit, so the rollout ends on its second call and there is no summary.
    structural = [
        "ETS".index(letter) for letter in letters("<tool_call>", "tool")[:3] + "EE" + letters("<tool_call>", "tool")[:2]
    ]
    assert structural == [TOOL, TOOL, TOOL, ENV, ENV, TOOL, TOOL]
    assert relabel_last_run(structural).tolist() == [TOOL, TOOL, TOOL, ENV, ENV, SUMMARY, SUMMARY]


def test_a_malformed_first_call_is_where_the_rules_part():
    # The call cannot be parsed and the rollout ends there: a single run, so that under the paper's rule no token is TOOL.
    structural = ["ETS".index(letter) for letter in letters("<tool_call>{</tool_call>", "tool")]
    assert set(structural) == {TOOL}
    assert set(relabel_last_run(structural).tolist()) == {SUMMARY}


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
