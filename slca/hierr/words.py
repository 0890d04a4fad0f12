"""Finding a stated value in a text as a whole: "12" is not found in "312", "12.5", "-12" or "2024-12-01".

Texts are compared after Unicode NFC and without regard to case. Scripts without case (Chinese, Japanese, ...) do not mark where
words end, so their characters bound nothing.
"""

import json
import unicodedata
from collections.abc import Iterable, Iterator

from slca.records import Json


def fold(text: str) -> str:
    """Text as it is compared here: NFC, without case."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def contains(text: str, value: str) -> bool:
    """Whether ``value`` occurs in ``text`` as a whole. Both must have gone through ``fold``; the empty value never occurs."""
    if not value:
        return False
    start = text.find(value)
    while start >= 0:
        if _bounded_left(text, start, value[0]) and _bounded_right(text, start + len(value), value[-1]):
            return True
        start = text.find(value, start + 1)
    return False


def result_text(results: Iterable[Json]) -> str:
    """All that tool results say, one spelling a line: each result as compact JSON, then its bare values. Folded."""
    lines: list[str] = []
    for result in results:
        lines.append(json.dumps(result, ensure_ascii=False, separators=(",", ":")))
        lines.extend(_leaves(result))
    return fold("\n".join(lines))


def _leaves(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    elif isinstance(value, str):
        yield value
    else:
        yield json.dumps(value)
        if isinstance(value, float) and value.is_integer():
            yield str(int(value))


def _in_word(character: str) -> bool:
    if character == "_" or character.isdecimal():
        return True
    return character.lower() != character.upper() or unicodedata.category(character).startswith("M")


def _bounded_left(text: str, start: int, first: str) -> bool:
    if start == 0:
        return True
    before = text[start - 1]
    if _in_word(first) and _in_word(before):
        return False
    if first.isdecimal():
        joined = before in ".,:/" and start >= 2 and text[start - 2].isdecimal()
        return not joined and before not in "-\u2212"
    return True


def _bounded_right(text: str, end: int, last: str) -> bool:
    if end == len(text):
        return True
    after = text[end]
    if _in_word(last) and _in_word(after):
        return False
    return not (last.isdecimal() and after in ".,:/-" and text[end + 1 : end + 2].isdecimal())
