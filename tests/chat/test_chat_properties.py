"""Properties of every format over random conversations, on two tokenizers: one that splits words, and one whose merges cross
words, line breaks and markup, so that the boundary between a template and a turn is ambiguous where no special token stands."""

import json

import numpy as np
import pytest
from chat_families import FAMILIES, stand_in
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import OTHER_TOOL, TOOL

from slca.chat import Conversation
from slca.records import Call, Segment

FORMATS = [(family, crossing) for family in FAMILIES for crossing in (False, True)]
EXACT = [(family, crossing) for family, crossing in FORMATS if FAMILIES[family].exact]
MARKERS = (*{token for of in FAMILIES.values() for token in of.special}, "<tool_call>", "</tool_call>", "<think>", "</think>")
PARTS = (
    '{"name": "f", "arguments": {',
    '{"name": "f", "parameters": {}}',
    "call:f{",
    "to=functions.f",
    "commentary",
    "json\n",
    "```",
    ";",
)

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
keys = st.from_regex(r"[a-z_]{1,6}", fullmatch=True)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=5,
)
calls = st.builds(Call, st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,9}", fullmatch=True), st.dictionaries(keys, values, max_size=3))
plans = st.lists(st.lists(calls, min_size=1, max_size=2), min_size=1, max_size=3)
noise = st.lists(st.sampled_from([*MARKERS, *PARTS, "{", "}", "[", "]", '"', "\\", "\n", " "]) | words, max_size=8).map("".join)


def writable(plan: list[list[Call]], family: str) -> list[list[Call]]:
    """``plan`` without calls that hold a marker, which no format can tell from a marker of its own."""
    most = 2 if FAMILIES[family].parallel else 1
    steps = [
        [call for call in step if not any(m in json.dumps(call.to_json(), ensure_ascii=False) for m in MARKERS)][:most]
        for step in plan
    ]
    return [step for step in steps if step]


@pytest.mark.parametrize(("family", "crossing"), FORMATS)
@settings(max_examples=25)
@given(plan=plans)
def test_calls_that_are_written_are_read_back(family: str, crossing: bool, plan: list[list[Call]]) -> None:
    chat = stand_in(family, crossing)
    for step in writable(plan, family):
        parsed = chat.parse(chat.turn_text(chat.call_turn(step)))
        assert [(call.name, call.arguments, call.error) for call in parsed] == [(c.name, c.arguments, None) for c in step]


@pytest.mark.parametrize(("family", "crossing"), EXACT)
@settings(max_examples=25)
@given(plan=plans, question=words, results=st.lists(words, min_size=6, max_size=6))
def test_prompt_turns_and_glue_are_a_full_render(
    family: str, crossing: bool, plan: list[list[Call]], question: str, results: list[str]
) -> None:
    """Case 1. The text of the tokens is the render's; glue has the ids that the render has there; the prefix stays whole."""
    chat = stand_in(family, crossing)
    told = iter(result for result in results if not any(marker in result for marker in MARKERS))
    asked = [{"role": "user", "content": f"Q{question}"}]
    conversation = Conversation(chat, asked, [TOOL, OTHER_TOOL])
    for step in writable(plan, family):
        turn = chat.call_turn(step)
        before = list(conversation.ids)
        glue = conversation.answer(turn, chat.parse(chat.turn_text(turn)), [next(told, "-") for _ in step])
        assert conversation.ids == [*before, *turn, *glue]
        assert conversation.broken == 0, conversation.difference()
        rendered = chat.render(conversation.messages, [TOOL, OTHER_TOOL], generate=True)
        assert chat.decode(conversation.ids) == chat.decode(chat.encode(rendered))
        assert chat.encode(rendered)[-len(glue) :] == glue


@pytest.mark.parametrize(("family", "crossing"), FORMATS)
@settings(max_examples=40)
@given(text=noise, spelled=st.booleans())
def test_any_text_is_read_labelled_and_answered(family: str, crossing: bool, text: str, spelled: bool) -> None:
    """Whatever a policy samples, in whatever tokens: no exception, one label for each token, one result for each call."""
    chat = stand_in(family, crossing)
    ids = [token for character in text for token in chat.encode(character)] if spelled else chat.encode(text)
    read = chat.turn_text(ids)
    parsed = chat.parse(read)
    assert all(bool(call.error) == bool(call.message) and (call.error or call.name) for call in parsed)
    for mixed_turns in ("tool", "split"):
        labels = chat.read_turn(ids, mixed_turns).labels
        assert labels.shape == (len(ids),) and set(labels.tolist()) <= {Segment.TOOL, Segment.SUMMARY}
        assert (Segment.TOOL in labels) == bool(parsed and ids)
    assert isinstance(chat.reply_text(read), str)
    if parsed:
        conversation = Conversation(chat, [{"role": "user", "content": "Q"}], [TOOL])
        glue = conversation.answer(ids, parsed, [f"r{index}" for index in range(len(parsed))])
        shown = chat.decode(glue)
        places = [shown.index(f"r{index}") for index in range(len(parsed))]
        assert places == sorted(places)


@pytest.mark.parametrize(("family", "crossing"), FORMATS)
@settings(max_examples=20)
@given(step=st.lists(calls, min_size=1, max_size=2), data=st.data())
def test_a_call_that_is_cut_anywhere_is_no_other_call(family: str, crossing: bool, step: list[Call], data: st.DataObject) -> None:
    """Case 19. What a length limit leaves of a turn holds the calls before the cut as they were, and no invented one."""
    chat = stand_in(family, crossing)
    for written in writable([step], family):
        ids = chat.call_turn(written)[:-1]
        left = ids[: data.draw(st.integers(0, len(ids) - 1), label="left")]
        whole = chat.parse(chat.turn_text(ids))
        cut = chat.parse(chat.turn_text(left))
        readable = [call for call in cut if not call.error]
        assert len(cut) <= len(whole) and readable == list(whole[: len(readable)])
        assert np.array_equal(chat.read_turn(left, "split").labels, chat.read_turn(ids, "split").labels[: len(left)]) or not cut
