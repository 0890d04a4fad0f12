"""What real tokenizers and templates say of one conversation (``golden/make.py`` says where they came from), met exactly."""

import json
from pathlib import Path
from typing import Any

import pytest
from chat_families import FAMILIES, stand_in
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from slca.chat import ChatFormat, Conversation, format_of
from slca.records import Call

GOLDEN = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(Path(__file__).parent.glob("golden/*.json"))}
REAL = [family for family, golden in GOLDEN.items() if "ids" in golden]


def chat_of(golden: dict[str, Any]) -> ChatFormat:
    """The real tokenizer, as far as the conversation goes, with the family's template; a stand-in where there is none."""
    if "ids" not in golden:
        return stand_in(golden["family"])
    names = {f"{name}_token": text for name, text in golden["tokens"].items() if text}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(golden["tokenizer"])), **names)
    tokenizer.chat_template = FAMILIES[golden["family"]].text()
    return format_of(tokenizer)


def steps(golden: dict[str, Any]) -> list[tuple[list[Call], list[str]]]:
    return [([Call.from_json(call) for call in calls], results) for calls, results in golden["steps"]]


def test_every_family_has_a_golden_file() -> None:
    assert set(GOLDEN) >= set(FAMILIES) - {"llama3.2"}  # which differs from 3.1 by its date
    assert {FAMILIES[family].format for family in REAL} >= {"hermes", "llama3", "mistral", "chatml", "deepseek", "harmony"}


@pytest.mark.parametrize("family", GOLDEN)
def test_prompt_turns_glue_and_reply_are_those_of_the_real_template_and_tokenizer(family: str) -> None:
    golden = GOLDEN[family]
    chat = chat_of(golden)
    conversation = Conversation(chat, golden["messages"], golden["tools"])
    made = [conversation.prompt_ids]
    for calls, results in steps(golden):
        turn = chat.call_turn(calls)
        parsed = chat.parse(chat.turn_text(turn))
        assert [(call.name, call.arguments) for call in parsed] == [(call.name, call.arguments) for call in calls]
        made += [turn, conversation.answer(turn, parsed, results)]
    made.append(chat.reply_turn(golden["reply"]))
    assert [chat.decode(ids) for ids in made] == golden["texts"]
    if family in REAL:
        assert made == golden["ids"]
    assert chat.reply_text(chat.turn_text(made[-1])) == golden["reply"]
    assert conversation.broken == (0 if FAMILIES[family].exact else len(golden["steps"]))


@pytest.mark.parametrize("family", [family for family in GOLDEN if FAMILIES[family].exact])
def test_the_pieces_are_the_full_render_of_the_real_template_id_for_id(family: str) -> None:
    golden = GOLDEN[family]
    chat = chat_of(golden)
    assert "".join(golden["texts"][:-1]) == golden["rendered"]
    if family in REAL:
        assert [token for ids in golden["ids"][:-1] for token in ids] == golden["rendered_ids"]
        assert chat.encode(golden["rendered"]) == golden["rendered_ids"]
