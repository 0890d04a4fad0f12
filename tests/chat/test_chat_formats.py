"""Which format a tokenizer has, and what every format must do: prompts, glue, stop tokens, demonstrations, broken prefixes."""

import copy
import datetime
from typing import Any

import pytest
from chat_families import FAMILIES, spaced, stand_in
from samples import OTHER_TOOL, TOOL
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from trl.chat_template_utils import add_response_schema, parse_response

from slca.chat import FORMATS, ChatFormat, Conversation, format_of
from slca.errors import DataError
from slca.records import Call, Segment

ASKED = [{"role": "user", "content": "What is the weather in Łódź?"}]
CALLS = [Call("get_weather", {"city": "Łódź"}), Call("noop", {})]
RESULTS = ['{"sky":"rain"}', "ok"]


def calls_of(family: str) -> list[Call]:
    return CALLS if FAMILIES[family].parallel else CALLS[:1]


# Choosing


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tokenizers_markers_choose_its_format(family: str) -> None:
    assert stand_in(family).name == FAMILIES[family].format
    assert format_of(stand_in(family).tokenizer, FAMILIES[family].format).name == FAMILIES[family].format


def test_every_format_is_among_the_families_tested() -> None:
    assert {of.format for of in FAMILIES.values()} == set(FORMATS)


def changed(chat: ChatFormat, **attributes: Any) -> PreTrainedTokenizerFast:
    tokenizer = copy.deepcopy(chat.tokenizer)
    for name, value in attributes.items():
        setattr(tokenizer, name, value)
    return tokenizer


def test_a_tokenizer_without_known_markers_is_refused_with_the_names_to_choose_from() -> None:
    with pytest.raises(DataError, match=r"fit none of the chat formats hermes, llama3, mistral, .*; name the one to use"):
        format_of(PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE())))
    with pytest.raises(DataError, match=r"no chat format 'qwen'; the formats are: hermes"):
        format_of(stand_in("qwen3").tokenizer, "qwen")
    with pytest.raises(DataError, match=r"no added token '<tool_call>', which chat format hermes needs"):
        format_of(stand_in("chatml").tokenizer, "hermes")


def test_a_tokenizer_without_template_or_pad_token_is_refused_with_what_to_set() -> None:
    with pytest.raises(DataError, match=r"set chat_template in its tokenizer_config\.json"):
        format_of(changed(stand_in("qwen2.5"), chat_template=None))
    with pytest.raises(DataError, match=r"set pad_token in its tokenizer_config\.json"):
        format_of(changed(stand_in("qwen2.5"), pad_token=None))


def test_a_template_that_cannot_render_a_result_is_refused_when_it_is_loaded() -> None:
    refuses = "{{ raise_exception('no tools here') }}"
    with pytest.raises(DataError, match="no tools here"):
        format_of(changed(stand_in("qwen2.5"), chat_template=refuses))
    endless = (
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}{% endfor %}"
    )
    with pytest.raises(DataError, match="ends an assistant turn with none of"):
        format_of(changed(stand_in("qwen2.5"), chat_template=endless))


# Rendering


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_lists_its_tools_and_ends_where_the_assistant_speaks(family: str) -> None:
    chat = stand_in(family)
    text = chat.decode(chat.prompt_ids(ASKED, [TOOL, OTHER_TOOL]))
    assert "get_weather" in text and "noop" in text and text.count("Łódź") == 1
    without = chat.decode(chat.prompt_ids(ASKED, []))
    assert "get_weather" not in without and "Łódź" in without
    assert not chat.stop_ids & {chat.prompt_ids(ASKED, [TOOL])[-1]}


@pytest.mark.parametrize("family", ["chatml", "gemma3", "deepseek"])
def test_tools_join_the_system_prompt_where_the_template_knows_none(family: str) -> None:
    chat = stand_in(family)
    text = chat.decode(chat.prompt_ids([{"role": "system", "content": "Be brief."}, *ASKED], [TOOL]))
    assert (
        text.index("Be brief.")
        < text.index('"name": "get_weather"')
        < text.index(chat.call_text([Call("name", {"parameter": "value"})]))
    )
    assert text.count("Be brief.") == 1


@pytest.mark.parametrize("family", ["llama3.2", "harmony"])
def test_a_template_that_states_the_date_states_the_same_one_every_day(family: str) -> None:
    text = stand_in(family).render(ASKED, [TOOL], generate=True)
    assert "26 Jul 2024" in text or "2024-07-26" in text
    assert str(datetime.date.today().year) not in text or datetime.date.today().year == 2024


@pytest.mark.parametrize("family", FAMILIES)
def test_demonstrations_are_read_back_and_labelled(family: str) -> None:
    chat = stand_in(family)
    calls = calls_of(family)
    turn, reply = chat.call_turn(calls), chat.reply_turn("It is rain.")
    assert [Call(call.name, call.arguments) for call in chat.parse(chat.turn_text(turn))] == calls
    assert chat.parse(chat.turn_text(reply)) == () and chat.reply_text(chat.turn_text(reply)) == "It is rain."
    for ids, label in ((turn, Segment.TOOL), (reply, Segment.SUMMARY)):
        assert ids[-1] in chat.stop_ids and not chat.stop_ids & set(ids[:-1])
        assert set(chat.read_turn(ids, "split").labels.tolist()) == {label}


@pytest.mark.parametrize("family", [family for family in FAMILIES if not FAMILIES[family].parallel])
def test_several_calls_in_one_turn_are_written_even_where_the_template_takes_one(family: str) -> None:
    chat = stand_in(family)
    turn = chat.call_turn(CALLS)
    parsed = chat.parse(chat.turn_text(turn))
    assert [Call(call.name, call.arguments) for call in parsed] == CALLS
    glue = chat.decode(chat.glue_ids(parsed, RESULTS, turn))
    assert glue.index("rain") < glue.index("ok")


def test_harmony_glue_is_the_templates_for_one_call() -> None:
    chat = stand_in("harmony")
    assert chat.glue_text(CALLS[:1], RESULTS[:1]) == super(type(chat), chat).glue_text(CALLS[:1], RESULTS[:1])


# Glue


@pytest.mark.parametrize("family", FAMILIES)
def test_glue_holds_each_result_once_in_order_and_nothing_of_the_call(family: str) -> None:
    chat = stand_in(family)
    calls = calls_of(family)
    results = ["result-one", "result-two"][: len(calls)]
    glue = chat.decode(chat.glue_ids(calls, results))
    assert [glue.count(result) for result in results] == [1] * len(results)
    assert "Łódź" not in glue and "slcamark" not in glue


@pytest.mark.parametrize("family", FAMILIES)
def test_a_call_without_a_usable_name_is_answered_all_the_same(family: str) -> None:
    chat = stand_in(family)
    marker = chat.decode([chat.end_id])
    for text in ("<tool_call>{}</tool_call>", f'<tool_call>{{"name": "{marker}x", "arguments": {{}}}}</tool_call>'):
        (call,) = stand_in("default").parse(text)
        glue = chat.glue_ids([call], ["refused"])
        assert "refused" in chat.decode(glue)
        assert glue.count(chat.end_id) == chat.glue_ids([Call("f", {})], ["refused"]).count(chat.end_id)


def test_a_result_that_holds_the_word_glue_is_cut_by_is_no_trap() -> None:
    for family in FAMILIES:
        chat = stand_in(family)
        glue = chat.decode(chat.glue_ids([Call("slcamark", {})], ["slcamark slcamarkk"]))
        assert "slcamark slcamarkk" in glue


def test_glue_opens_a_result_where_gemma_ended_its_turn_without_asking_for_one() -> None:
    for family in ("functiongemma", "gemma4"):
        chat = stand_in(family)
        asked = chat.call_turn(CALLS[:1])
        ended = [*asked[:-1], *chat.encode(FAMILIES[family].end)]
        glue, other = (chat.glue_ids(CALLS[:1], RESULTS[:1], turn) for turn in (asked, ended))
        assert other == [chat.end_id, *glue]


def test_llama_may_end_a_turn_with_either_token_and_the_rarer_one_is_a_broken_prefix() -> None:
    chat = stand_in("llama3.1")
    assert chat.stop_ids == set(chat.encode("<|eot_id|><|eom_id|>"))
    turn = [*chat.call_turn(CALLS[:1])[:-1], *chat.encode("<|eom_id|>")]
    assert "eom" not in chat.turn_text(turn)
    conversation = Conversation(chat, ASKED, [TOOL])
    glue = conversation.answer(turn, chat.parse(chat.turn_text(turn)), RESULTS[:1])
    assert glue == chat.glue_ids(CALLS[:1], RESULTS[:1]) and conversation.broken == 1


@pytest.mark.parametrize("family", ["mistral", "llama3.1", "chatml", "qwen2.5"])
def test_glue_and_turns_have_no_space_that_a_full_render_has_not(family: str) -> None:
    """Tokenizers that put a space in front of a text put none behind a special token, so neither must glue have one."""
    chat = spaced(family)
    assert chat.tokenizer.tokenize("a") == ["\u2581a"] or chat.tokenizer.tokenize("a") == ["\u2581", "a"]
    conversation = Conversation(chat, ASKED, [], on_broken_prefix="fail")
    for _ in range(2):
        turn = chat.call_turn(CALLS[:1])
        glue = conversation.answer(turn, chat.parse(chat.turn_text(turn)), ["rain  today"])
        assert chat.encode(chat.render(conversation.messages, [], generate=True))[-len(glue) :] == glue


# Broken prefixes


def test_a_conversation_as_the_template_writes_it_is_no_broken_prefix() -> None:
    for family, of in FAMILIES.items():
        chat = stand_in(family)
        conversation = Conversation(chat, ASKED, [TOOL], on_broken_prefix="fail" if of.exact else "keep")
        for _ in range(2):
            calls = calls_of(family)
            turn = chat.call_turn(calls)
            conversation.answer(turn, chat.parse(chat.turn_text(turn)), RESULTS[: len(calls)])
        assert conversation.broken == (0 if of.exact else 2)
        if of.exact:  # with the tools, too
            assert chat.decode(conversation.ids) == chat.render(conversation.messages, [TOOL], generate=True)


def test_json_in_other_spaces_than_the_templates_is_kept_and_counted_or_refused() -> None:
    chat = stand_in("qwen2.5")
    turn = [*chat.encode('<tool_call>\n{"name":"noop","arguments":{}}\n</tool_call>'), chat.end_id]
    parsed = chat.parse(chat.turn_text(turn))
    kept = Conversation(chat, ASKED, [TOOL])
    glue = kept.answer(turn, parsed, ["ok"])
    assert kept.broken == 1 and kept.ids == [*kept.prompt_ids, *turn, *glue]
    strict = Conversation(chat, ASKED, [TOOL], on_broken_prefix="fail")
    with pytest.raises(DataError, match=r"\"noop\",\"arguments\"|as it was sampled"):
        strict.answer(turn, parsed, ["ok"])


def test_a_turn_with_a_faulty_call_stays_text_and_its_prefix_whole() -> None:
    chat = stand_in("qwen2.5")
    turn = [*chat.encode(chat.call_text(CALLS[:1]) + "\n<tool_call>\n{}\n</tool_call>"), chat.end_id]
    conversation = Conversation(chat, ASKED, [TOOL], on_broken_prefix="fail")
    conversation.answer(turn, chat.parse(chat.turn_text(turn)), RESULTS)
    assert conversation.messages[1]["content"] == chat.turn_text(turn)


def test_a_turn_that_the_template_refuses_is_a_broken_prefix_and_no_crash() -> None:
    chat = stand_in("harmony")
    thought = "<|channel|>analysis<|message|>a<|channel|>analysis<|message|>b<|end|><|start|>assistant"
    turn = [*chat.encode(thought), *chat.call_turn(CALLS[:1])]
    conversation = Conversation(chat, ASKED, [TOOL])
    glue = conversation.answer(turn, chat.parse(chat.turn_text(turn)), RESULTS[:1])
    assert conversation.broken == 1 and glue == chat.glue_ids(CALLS[:1], RESULTS[:1])
    conversation.answer(chat.call_turn(CALLS[:1]), chat.parse(chat.call_text(CALLS[:1])), RESULTS[:1])
    assert conversation.broken == 2
    with pytest.raises(DataError, match=r"it is refused \(You have passed a message containing <\|channel\|> tags"):
        Conversation(chat, ASKED, [TOOL], "fail").answer(turn, chat.parse(chat.turn_text(turn)), RESULTS[:1])


def test_text_beside_calls_stays_text_where_the_template_refuses_it() -> None:
    chat = stand_in("mistral")
    turn = [*chat.encode('I look.[TOOL_CALLS][{"name":"noop","arguments":{}}]'), chat.end_id]
    conversation = Conversation(chat, ASKED, [TOOL], on_broken_prefix="fail")
    conversation.answer(turn, chat.parse(chat.turn_text(turn)), ["ok"])
    assert conversation.messages[1] == {"role": "assistant", "content": chat.turn_text(turn)}


# The parsers of transformers and TRL


@pytest.mark.parametrize("family", ["qwen2.5", "qwen3", "llama3.1", "harmony"])
def test_trls_parser_agrees_on_calls_without_fault_and_gives_up_on_others(family: str) -> None:
    """Why there is a parser here: one faulty call, and TRL's reads the whole turn as text."""
    chat = stand_in(family)
    tokenizer = add_response_schema(copy.deepcopy(chat.tokenizer))
    calls = calls_of(family)
    turn = chat.call_turn(calls)
    theirs = parse_response(tokenizer, turn, prefix=chat.prompt_ids(ASKED, [TOOL])).get("tool_calls") or []
    assert [Call.from_json(call["function"]) for call in theirs] == calls
    broken = chat.encode(chat.call_text(calls)[:-14])
    assert not parse_response(tokenizer, broken).get("tool_calls")
    assert [call.error is None for call in chat.parse(chat.decode(broken))] == [True] * (len(calls) - 1) + [False]
