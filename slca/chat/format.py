"""The Hermes/Qwen chat format: prompt, glue between turns, and the one parser used in training and evaluation.

Invariant: prompt ids + sampled ids + glue ids are exactly the tokens that the policy saw; nothing is tokenised twice. The glue
that follows a turn starts behind its end-of-turn token, a special token, so tokenising glue by itself gives the
ids that a render of the whole conversation gives there.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from slca.errors import DataError
from slca.files import canonical_json
from slca.records import Call, CallError, Json

TEMPLATE = Path(__file__).parent / "hermes.jinja"
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


@dataclass(frozen=True)
class Parsed:
    """One call marker that was opened. ``error`` is set, with a short ``message``, where no call could be read."""

    name: str | None
    arguments: Json
    error: CallError | None = None
    message: str = ""


def parse_calls(text: str) -> tuple[Parsed, ...]:
    """Every call that ``text`` opens, in order; never raises. Arguments are passed on as they are, whatever their type."""
    return tuple(_parse_block(body, closed == CLOSE) for body, closed in _BLOCK.findall(text.removesuffix(END_OF_TURN)))


def _parse_block(body: str, closed: bool) -> Parsed:
    if not closed:
        return Parsed(None, None, CallError.UNCLOSED, f"{CLOSE} is missing")
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
        canonical_json(value).encode()  # 1e999 and lone surrogates can be read, but not stored with the rollout
    except (ValueError, RecursionError):
        return Parsed(None, None, CallError.MALFORMED, "not a JSON object")
    if not isinstance(value, dict):
        return Parsed(None, None, CallError.MALFORMED, "not a JSON object")
    name = value.get("name")
    if not isinstance(name, str) or not name:
        return Parsed(None, value.get("arguments"), CallError.MALFORMED, "name is missing")
    return Parsed(name, value.get("arguments"))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def render_call(call: Call) -> str:
    """The text of a well-formed call, as demonstrations write it."""
    return f"{OPEN}{json.dumps(call.to_json(), ensure_ascii=False)}{CLOSE}"


class ChatFormat:
    """A tokenizer with a chat template, seen as the rollout engine needs it."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        for token in (OPEN, CLOSE, END_OF_TURN):
            if len(tokenizer.encode(token, add_special_tokens=False)) != 1:
                raise DataError(f"The tokenizer has no single token {token!r}; use a model with Hermes/Qwen call markers.")
        if tokenizer.pad_token_id is None:
            raise DataError("The tokenizer has no pad token; set pad_token in its tokenizer_config.json.")

    @property
    def pad_id(self) -> int:
        return int(self.tokenizer.pad_token_id)

    @cached_property
    def end_id(self) -> int:
        """The token that ends an assistant turn."""
        return int(self.tokenizer.convert_tokens_to_ids(END_OF_TURN))

    @cached_property
    def call_marker_ids(self) -> frozenset[int]:
        """Tokens that open a call; a turn that holds one is a TOOL turn."""
        return frozenset({int(self.tokenizer.convert_tokens_to_ids(OPEN))})

    @cached_property
    def blank_ids(self) -> frozenset[int]:
        """Tokens that show a reader nothing."""
        return frozenset(i for i in range(len(self.tokenizer)) if not self.decode([i]).strip())

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids``, markers included; bytes that form no character become U+FFFD."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def render(self, messages: Sequence[Mapping[str, str]], tools: Sequence[Mapping[str, Any]], generate: bool) -> str:
        """The conversation as text. ``tools`` are definitions as ``Tool.to_json`` writes them."""
        functions = [
            {"type": "function", "function": {key: tool.get(key, "") for key in ("name", "description", "parameters")}}
            for tool in tools
        ]
        rendered = self.tokenizer.apply_chat_template(
            [dict(message) for message in messages], tools=functions or None, tokenize=False, add_generation_prompt=generate
        )
        return str(rendered)

    def prompt_ids(self, messages: Sequence[Mapping[str, str]], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        return self.encode(self.render(messages, tools, generate=True))

    def glue_ids(self, results: Sequence[str]) -> list[int]:
        """Tokens between an assistant turn's end-of-turn token and the next assistant turn: the tool results."""
        text = self.render([{"role": "tool", "content": result} for result in results], (), generate=True)
        return self.encode("\n" + text)
