"""The field cases (what goes wrong for others) as far as chat formats decide them, one test each, named after its case. The rest
of a case (limits, caps, truncation of rollouts, sampling, versions) is tested with the engine, and 13 with the tool list."""

import json
import re

import pytest
from chat_families import FAMILIES, stand_in
from samples import TOOL

from slca.chat import ChatFormat, Conversation
from slca.errors import DataError
from slca.records import Call, CallError, Segment

ASKED = [{"role": "user", "content": "Weather?"}]
CALL = Call("get_weather", {"city": "Oslo"})
every_family = pytest.mark.parametrize("family", FAMILIES)


@every_family
def test_case_1_ids_sampled_in_other_tokens_than_the_tokenizers_stay_as_sampled(family: str) -> None:
    chat = stand_in(family, crossing=True)
    call = Call("get_weather", {"city": "What is the weather"})
    merged = chat.call_turn([call])
    turn = [*_spelled(chat, chat.turn_text(merged)), merged[-1]]
    assert len(turn) > len(merged) and chat.decode(turn) == chat.decode(merged)
    conversation = Conversation(chat, ASKED, [TOOL])
    glue = conversation.answer(turn, chat.parse(chat.turn_text(turn)), ["ok"])
    assert conversation.ids == [*conversation.prompt_ids, *turn, *glue]
    assert conversation.broken == (0 if FAMILIES[family].exact else 1)  # other tokens for the same text break no prefix


def _spelled(chat: ChatFormat, text: str) -> list[int]:
    """``text`` one character a token, but for its special tokens."""
    markers = chat.tokenizer.get_added_vocab()
    pieces = re.split("(" + "|".join(map(re.escape, markers)) + ")", text)
    return [token for piece in pieces for part in ([piece] if piece in markers else piece) for token in chat.encode(part)]


@every_family
def test_case_2_every_sampled_token_has_one_label(family: str) -> None:
    chat = stand_in(family)
    turn = chat.call_turn([CALL])
    for left in range(len(turn) + 1):
        assert len(chat.read_turn(turn[:left], "tool").labels) == len(chat.read_turn(turn[:left], "split").labels) == left


@every_family
def test_case_3_labels_of_a_cut_turn_follow_what_is_left_of_it(family: str) -> None:
    chat = stand_in(family)
    turn = chat.call_turn([CALL])
    for left in range(1, len(turn)):
        opened = bool(chat.parse(chat.turn_text(turn[:left])))
        assert set(chat.read_turn(turn[:left], "tool").labels.tolist()) == {Segment.TOOL if opened else Segment.SUMMARY}


@every_family
def test_case_4_a_turn_that_calls_is_tool_whether_or_not_its_result_ever_comes(family: str) -> None:
    chat = stand_in(family)
    assert set(chat.read_turn(chat.call_turn([CALL]), "tool").labels.tolist()) == {Segment.TOOL}


@every_family
def test_case_6_glue_and_prompt_are_apart_from_what_was_sampled(family: str) -> None:
    chat = stand_in(family)
    asked = [*ASKED, {"role": "assistant", "content": "Where?"}, {"role": "user", "content": "Oslo"}]
    conversation = Conversation(chat, asked, [TOOL])
    assert "Where?" in chat.decode(conversation.prompt_ids)
    turn = chat.call_turn([CALL])
    glue = conversation.answer(turn, chat.parse(chat.turn_text(turn)), ["Snow."])
    assert conversation.ids[len(conversation.prompt_ids) :] == [*turn, *glue]
    assert "Snow." in chat.decode(glue) and "Snow." not in chat.decode(turn)


QWEN_CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


@pytest.mark.parametrize(
    ("family", "text", "broken"),
    [
        ("qwen3", QWEN_CALL, 0),
        ("qwen3", f"<think>\nWhich?\n</think>\n\n{QWEN_CALL}", 0),  # kept while tools answer
        ("qwen3", f"<think>\n\n</think>\n\n{QWEN_CALL}", 1),  # an empty thought is dropped
        ("qwen3", f"<think>Which?</think>{QWEN_CALL}", 1),  # its line breaks are the template's
        ("qwen2.5", f"Hm.\n{QWEN_CALL}", 0),
        ("default", 'Hm. <tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>', 0),
    ],
)
def test_case_7_reasoning_that_a_template_strips_is_a_broken_prefix_kept_and_counted_or_refused(
    family: str, text: str, broken: int
) -> None:
    chat = stand_in(family)
    turn = [*chat.encode(text), chat.end_id]
    kept = Conversation(chat, ASKED, [TOOL], on_broken_prefix="keep")
    glue = kept.answer(turn, chat.parse(text), ["ok"])
    assert kept.broken == broken and kept.ids == [*kept.prompt_ids, *turn, *glue]
    strict = Conversation(chat, ASKED, [TOOL], on_broken_prefix="fail")
    if broken:
        with pytest.raises(DataError, match=r"was sampled, .* is rendered"):
            strict.answer(turn, chat.parse(text), ["ok"])
    else:
        assert strict.answer(turn, chat.parse(text), ["ok"]) == glue


def test_case_7_reasoning_is_stripped_once_the_user_asks_again() -> None:
    chat = stand_in("qwen3")
    turn = [*chat.encode(f"<think>\nWhich?\n</think>\n\n{QWEN_CALL}"), chat.end_id]
    conversation = Conversation(chat, ASKED, [TOOL])
    conversation.answer(turn, chat.parse(chat.turn_text(turn)), ["ok"])
    assert conversation.difference() == ""
    conversation.messages.append({"role": "user", "content": "And in Rome?"})
    assert "Which?" in conversation.difference()


@pytest.mark.parametrize(
    "arguments", ["{}", '"{}"', "[]", "null", "3"], ids=["object", "string of JSON", "list", "null", "number"]
)
def test_case_8_arguments_are_passed_on_as_they_are_never_as_an_empty_object(arguments: str) -> None:
    text = f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>'
    (call,) = stand_in("default").parse(text)
    assert (call.name, call.arguments, call.error) == ("f", json.loads(arguments), None)
    (nothing,) = stand_in("default").parse("<tool_call>{}</tool_call>")
    assert (nothing.name, nothing.arguments, nothing.error) == (None, None, CallError.MALFORMED)
    assert set(stand_in("default").read_turn(stand_in("default").encode(text), "split").labels.tolist()) == {Segment.TOOL}


@every_family
def test_case_9_an_invalid_call_is_answered_so_that_the_policy_reads_why(family: str) -> None:
    chat = stand_in(family)
    turn = chat.call_turn([CALL])[:-3]
    calls = chat.parse(chat.turn_text(turn))
    assert calls and calls[0].error in (CallError.UNCLOSED, CallError.MALFORMED) and calls[0].message
    assert "unclosed_call" in chat.decode(chat.glue_ids(calls, ["unclosed_call"], turn))


@every_family
def test_case_11_every_call_of_a_turn_is_reported_and_answered_however_many(family: str) -> None:
    chat = stand_in(family)
    calls = [Call("get_weather", {"city": str(index)}) for index in range(25 if FAMILIES[family].parallel else 1)]
    parsed = chat.parse(chat.turn_text(chat.call_turn(calls)))
    assert [call.arguments for call in parsed] == [call.arguments for call in calls]
    results = [f"result {index}." for index in range(len(calls))]
    glue = chat.decode(chat.glue_ids(parsed, results))
    assert [glue.count(result) for result in results] == [1] * len(calls)


@every_family
@pytest.mark.parametrize("city", ["São Paulo", "東京", "🌨"])
def test_case_12_non_ascii_text_is_written_as_it_is_in_tools_calls_and_results(family: str, city: str) -> None:
    chat = stand_in(family)
    tool = {**TOOL, "description": city}
    if family != "default":  # whose signatures leave descriptions out
        assert city in chat.decode(chat.prompt_ids(ASKED, [tool]))
    turn = chat.call_turn([Call("get_weather", {"city": city})])
    assert city in chat.turn_text(turn)
    (call,) = chat.parse(chat.turn_text(turn))
    assert call.arguments == {"city": city}
    glue = chat.decode(chat.glue_ids([call], [f'{{"city":"{city}"}}']))
    assert city in glue and "\\u" not in glue + chat.turn_text(turn)


@every_family
def test_case_19_a_turn_without_a_stop_token_loses_nothing_of_its_text(family: str) -> None:
    """What a length limit cut off is told from what ended by itself by the stop token alone, never by a parse error."""
    chat = stand_in(family)
    turn = chat.call_turn([CALL])
    assert chat.turn_text(turn) == chat.turn_text(turn[:-1]) and turn[-1] in chat.stop_ids
    assert chat.parse(chat.turn_text(turn)) == chat.parse(chat.turn_text(turn[:-1]))
