"""What the user says after a turn that called nothing: the tokens that the template puts there, in every family."""

import pytest
from chat_families import FAMILIES, stand_in

from slca.chat import Conversation

ASKED = "And slcamark tomorrow, in Łódź?"  # holds the word by which the end of a turn is found
REWRITTEN = {"deepseek", "harmony"}  # their templates write a turn that is no longer the last in another way


@pytest.mark.parametrize("family", FAMILIES)
def test_a_question_stands_where_a_full_render_puts_it(family: str) -> None:
    chat = stand_in(family)
    conversation = Conversation(chat, [{"role": "user", "content": "What is the weather?"}], ())
    turn = chat.reply_turn("It is rain.")
    glue = conversation.ask(turn, ASKED)
    assert conversation.ids == [*conversation.prompt_ids, *turn, *glue]
    assert conversation.broken == (family in REWRITTEN)
    text = chat.decode(glue)
    assert text.count(ASKED) == 1
    assert "rain" not in text
    again = conversation.ask(chat.reply_turn("Snow."), "And in June?")
    assert chat.decode(again) == text.replace(ASKED, "And in June?")
