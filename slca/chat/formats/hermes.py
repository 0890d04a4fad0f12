"""Hermes, Qwen2.5, Qwen3, and this project's default model: ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``.

One call per block, any number of blocks in a turn, every marker a token of its own. The default model's template
(``hermes.jinja``) knows no ``tool_calls``; its calls are written here, without the line breaks that Qwen's template puts around
the JSON. A marker opens a call wherever it stands, in reasoning too.

Qwen3's template drops the reasoning of earlier turns, and shows an empty ``<think>`` block in the last turn alone:
``slca.chat.conversation`` sees both as a broken prefix.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from slca.chat.base import ChatFormat
from slca.chat.reading import Parsed, Reading, read_json, split_reasoning, unclosed
from slca.records import Call

TEMPLATE = Path(__file__).parent.parent / "hermes.jinja"
OPEN, CLOSE = "<tool_call>", "</tool_call>"
END_OF_TURN = "<|im_end|>"
PAD = "<|endoftext|>"
SPECIAL_TOKENS = (
    PAD,
    "<|im_start|>",
    END_OF_TURN,
    OPEN,
    CLOSE,
    "<tool_response>",
    "</tool_response>",
    "<tools>",
    "</tools>",
)

_BLOCK = re.compile(rf"{OPEN}(.*?)({CLOSE}|(?={OPEN})|$)", re.DOTALL)


def read_blocks(text: str) -> Reading:
    """What a turn with calls in ``<tool_call>`` blocks says. Markers inside a call's JSON count as markers."""
    calls = tuple(_read_block(block[1], block[2] == CLOSE) for block in _BLOCK.finditer(text))
    first = text.find(OPEN)
    visible, reasoning = split_reasoning(text, first if first >= 0 else len(text))
    return Reading(calls, visible, reasoning)


def _read_block(body: str, closed: bool) -> Parsed:
    return read_json(body) if closed else unclosed(CLOSE)


def write_blocks(calls: Sequence[Call]) -> str:
    return "".join(f"{OPEN}{json.dumps(call.to_json(), ensure_ascii=False)}{CLOSE}" for call in calls)


class Hermes(ChatFormat):
    name = "hermes"
    needs = (OPEN, CLOSE, END_OF_TURN)
    ends = (END_OF_TURN,)

    def read(self, text: str) -> Reading:
        return read_blocks(text)

    def _opening_tokens(self, ids: Sequence[int], calls: int) -> list[int]:
        marker = self.tokenizer.convert_tokens_to_ids(OPEN)  # always a token of its own: no text needs to be read
        return [place for place, token in enumerate(ids) if token == marker]

    def call_text(self, calls: Sequence[Call]) -> str:
        return super().call_text(calls) if self.writes_calls else write_blocks(calls)
