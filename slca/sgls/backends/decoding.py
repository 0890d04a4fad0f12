"""Sampling under a JSON Schema: which tokens may follow, by xgrammar's grammars, and how a long answer is brought to its end.

A schema that the engine refuses (references that lead nowhere, a pattern that it cannot read) gets the grammar of any JSON value,
of an object where the schema asks for one. Of the schemas that it takes, it ignores some keywords (``multipleOf``,
``uniqueItems``, ``not``, ``if``, ``contains``, ``oneOf``'s "one only", look-around in ``pattern``). In both cases the answer is
JSON that may not validate: the simulator's validation and repairs see to that.

Answers are written without whitespace and numbers without exponents, and objects hold declared properties only, where any are
declared. In the last quarter of the token budget whatever can be closed is closed, so that a rambling model still ends inside it.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from slca.sgls.backends.base import Unreadable
from slca.sgls.backends.grammar_schema import for_grammar

CACHE_BYTES = 256 * 2**20
"""Compiled grammars kept per model; the engine drops the oldest beyond that."""

_WHOLE_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


def grammar_text(schema: Any) -> str:
    """The grammar of ``schema`` in EBNF, or of any JSON value where the engine refuses it; for engines that sample themselves."""
    import xgrammar

    return str(_tolerant(xgrammar.Grammar.from_json_schema, schema))


def _tolerant(grammar: Callable[..., Any], schema: Any) -> Any:
    try:
        return grammar(_rewritten(json.dumps(schema)), any_whitespace=False, separators=(",", ":"))
    except RuntimeError:  # what every refusal of the engine is
        is_object = isinstance(schema, dict) and schema.get("type") == "object"
        return grammar(json.dumps({"type": "object"} if is_object else {}), any_whitespace=False, separators=(",", ":"))


@lru_cache(maxsize=1024)
def _rewritten(schema: str) -> str:
    return json.dumps(for_grammar(json.loads(schema)))


class Vocabulary:
    """A tokenizer as xgrammar sees it: the bytes of every token, and compiled grammars. Safe for several threads."""

    def __init__(self, tokenizer: Any, size: int, end_ids: Sequence[int]) -> None:
        """size: of the model's logits. end_ids: tokens that end an answer."""
        import xgrammar

        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=size, stop_token_ids=list(end_ids))
        self.pieces: list[bytes] = info.decoded_vocab
        self.tokenizer = tokenizer
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_limit_bytes=CACHE_BYTES)
        special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
        self.ends = self._marked(end_ids)
        # A chat marker is text to the grammar, and would do inside a string.
        self.banned = self._marked([i for i in special if i < size]) & ~self.ends
        self.quotes, self.brackets, self.commas, self.exponents = (
            self._marked([i for i, piece in enumerate(self.pieces) if re.fullmatch(pattern, piece)])
            for pattern in (rb'"[\]}]*', rb"[\]}]+", rb",", rb"[0-9]*[eE].*")
        )

    def grammar(self, schema: Any) -> Any:
        """The compiled grammar of ``schema``, or of any JSON value where the engine refuses it."""
        return _tolerant(self._compiler.compile_json_schema, schema)

    def _marked(self, ids: Sequence[int]) -> npt.NDArray[np.bool_]:
        marks = np.zeros(len(self.pieces), dtype=np.bool_)
        marks[list(ids)] = True
        return marks


class Writing:
    """One answer under way. ``ids``: its tokens so far."""

    def __init__(self, vocabulary: Vocabulary, schema: Any, budget: int) -> None:
        """budget: tokens at the most."""
        import xgrammar

        self._vocabulary = vocabulary
        self._matcher = xgrammar.GrammarMatcher(vocabulary.grammar(schema))
        self._bits = np.zeros((1, -(-len(vocabulary.pieces) // 32)), dtype=np.int32)
        self._budget = budget
        self.ids: list[int] = []

    def forced(self) -> list[int]:
        """Accept the text that must come next, up to its last token, which might have merged with what follows it."""
        start = len(self.ids)
        text = self._matcher.find_jump_forward_string()
        for token in self._vocabulary.tokenizer.encode(text, add_special_tokens=False)[:-1] if text else ():
            if not self._matcher.accept_token(token):
                break
            self.ids.append(token)
        return self.ids[start:]

    def allowed(self) -> npt.NDArray[np.bool_]:
        """Which tokens may come next, by id. Raises Unreadable where none may, or the budget is used up."""
        words = self._vocabulary
        self._matcher.fill_next_token_bitmask(self._bits)
        allowed = np.unpackbits(self._bits.view(np.uint8), bitorder="little")[: len(words.pieces)].astype(np.bool_)
        allowed &= ~words.banned
        left = self._budget - len(self.ids)
        written = self._bytes()
        inside = b'"' in _WHOLE_STRING.sub(b"", written)
        if not inside and written[-1:].isdigit():
            allowed &= ~words.exponents  # to random digits they give numbers that nothing can hold
        if 4 * left <= self._budget:
            for closing in (words.ends, words.quotes) if inside else (words.ends, words.brackets, words.commas):
                if (allowed & closing).any() and (left > 0 or closing is words.ends):
                    return allowed & closing
        if left <= 0:
            raise Unreadable(f"the answer is longer than the {self._budget} tokens that it may have.")
        if not allowed.any():
            raise Unreadable("the answer cannot be continued with this model's tokens.")
        return allowed

    def accept(self, token: int) -> bool:
        """Take ``token``, one of the allowed; whether the answer is complete."""
        if self._vocabulary.ends[token]:
            return True
        self._matcher.accept_token(token)
        self.ids.append(token)
        return False

    def text(self) -> str:
        return self._bytes().decode("utf-8", "replace")

    def _bytes(self) -> bytes:
        return b"".join(self._vocabulary.pieces[token] for token in self.ids)
