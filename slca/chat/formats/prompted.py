"""Models without tool tokens: a protocol in plain text, stated in the system prompt.

The protocol is this project's own, in the words that Hermes models use: the tools are listed in the system prompt, a call is
``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``, and the results of a turn's calls come back as one user message of
``<tool_response>`` blocks, which any template with system, user and assistant can write. The markers are several tokens of plain
text here. Labels are decided on the decoded text, so it makes no difference how a policy spells a marker; where one starts
inside a token, that token belongs to the call.

``chatml``: SmolLM2 and other plain ChatML models. ``gemma3``: Gemma 3, whose template puts the system prompt into the first turn.
"""

from collections.abc import Sequence
from typing import Any

from slca.chat.base import ChatFormat, Message, token_id
from slca.chat.formats.hermes import END_OF_TURN, OPEN, read_blocks, write_blocks
from slca.chat.reading import Parsed, Reading
from slca.records import Call


class Prompted(ChatFormat):
    """Calls as text, results as a user message."""

    def read(self, text: str) -> Reading:
        return read_blocks(text)

    def call_text(self, calls: Sequence[Call]) -> str:
        return write_blocks(calls)

    def tool_messages(self, calls: Sequence[Call | Parsed], results: Sequence[str]) -> list[Message]:
        return [{"role": "user", "content": "\n".join(f"<tool_response>{result}</tool_response>" for result in results)}]


class ChatML(Prompted):
    name = "chatml"
    needs = ("<|im_start|>", END_OF_TURN)
    ends = (END_OF_TURN,)

    @classmethod
    def fits(cls, tokenizer: Any) -> bool:
        return super().fits(tokenizer) and token_id(tokenizer, OPEN) is None


class Gemma3(Prompted):
    name = "gemma3"
    needs = ("<start_of_turn>", "<end_of_turn>")
    ends = ("<end_of_turn>",)

    @classmethod
    def fits(cls, tokenizer: Any) -> bool:
        return super().fits(tokenizer) and token_id(tokenizer, "<start_function_call>") is None
