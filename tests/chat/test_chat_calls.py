"""Which token belongs to which call of a turn."""

import pytest
from chat_families import FAMILIES, stand_in

from slca.chat import ChatFormat
from slca.records import Call

CALLS = [Call("get_weather", {"city": "Oslo"}), Call("book", {"seat": "A1"}), Call("noop", {})]


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_each_call_owns_the_tokens_from_its_marker_to_the_next_one(family: str) -> None:
    chat = stand_in(family)
    turn = chat.call_turn(CALLS)
    numbers = chat.read_turn(turn, "tool").call_of.tolist()
    assert len(numbers) == len(turn) and numbers == sorted(numbers) and set(numbers) - {-1} == {0, 1, 2}
    # Text that stands before the third call's first token opens two calls, with it three.
    for call in range(3):
        first = numbers.index(call)
        assert len(chat.parse(chat.turn_text(turn[: first + 1]))) == call + 1
        assert len(chat.parse(chat.turn_text(turn[:first]))) <= call
    assert numbers[-1] == 2  # the end-of-turn token belongs to the last call


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_text_before_the_first_call_and_replies_belong_to_none(family: str) -> None:
    chat = stand_in(family)
    assert set(chat.read_turn(chat.reply_turn("It rains in Oslo."), "tool").call_of) == {-1}
    assert chat.read_turn([], "tool").call_of.shape == (0,)


def test_the_short_cut_for_single_token_markers_says_what_reading_says() -> None:
    chat = stand_in("default")
    for text in ("<tool_call>{<tool_call>x</tool_call>", "first <tool_call>{}</tool_call> then", "no call", "</tool_call>"):
        ids = chat.encode(text)
        calls = len(chat.parse(text))
        assert chat._opening_tokens(ids, calls) == ChatFormat._opening_tokens(chat, ids, calls)
