"""A short string that a regular expression matches; back references are left out."""

import importlib
import random
import re
import string
from functools import lru_cache
from typing import Any

from slca.sgls.regexes import BadPattern, compiled_pattern, python_pattern

# The parser of the standard library's re module: private, but present under this name in every Python this package allows.
_PARSER: Any = importlib.import_module("re._parser")

_CHARACTERS = string.ascii_lowercase + string.ascii_uppercase + string.digits + "-_. " + string.punctuation
_CATEGORIES = {
    "CATEGORY_DIGIT": r"[0-9]",
    "CATEGORY_NOT_DIGIT": r"[^0-9]",
    "CATEGORY_SPACE": r" ",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"[A-Za-z0-9_]",
    "CATEGORY_NOT_WORD": r"[^A-Za-z0-9_]",
}


def matching(pattern: str, rng: random.Random, length: int = 0, attempt: int = 0) -> str | None:
    """A string that ``pattern`` may well be found in; None if that fails. length: characters that repeats should bring in reach.

    Look-around is not built towards: the caller sees whether it is met. attempt: on odd ones, any character stands for any.
    """
    any_character = _CHARACTERS if attempt % 2 else string.ascii_lowercase
    try:
        tree = _PARSER.parse(_spelled_out(python_pattern(pattern)))
        return "".join(_node(op, argument, rng, length, any_character) for op, argument in tree)
    except (re.error, BadPattern, _Unsupported, OverflowError, RecursionError):
        return None


def _spelled_out(pattern: str) -> str:
    """``pattern`` with the characters of its ``\\p{...}``, which the parser does not know."""

    def characters(match: re.Match[str]) -> str:
        inside = match["begin"].count("[") > match["begin"].count("]")
        return match["begin"] + (_with_property(match["property"]) if inside else f"[{_with_property(match['property'])}]")

    while True:
        spelled = _PROPERTY.sub(characters, pattern, count=1)
        if spelled == pattern:
            return pattern
        pattern = spelled


_PROPERTY = re.compile(r"(?P<begin>(?:[^\\]|\\[^pP])*?)(?P<property>\\[pP](?:\{[^}]*\}|.))", re.DOTALL)


@lru_cache(maxsize=256)
def _with_property(name: str) -> str:
    test = compiled_pattern(name)
    members = [c for c in map(chr, range(0x20, 0x3100)) if test.match(c)]
    return "".join(re.escape(c) for c in members[:60]) or "(?!)"


class _Unsupported(Exception):
    pass


def _node(op: Any, argument: Any, rng: random.Random, length: int, any_character: str) -> str:
    match str(op):
        case "LITERAL":
            return chr(argument)
        case "NOT_LITERAL":
            return rng.choice([c for c in _CHARACTERS if ord(c) != argument])
        case "ANY":
            return rng.choice(any_character)
        case "IN":
            return rng.choice(_class_members(argument))
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, body = argument
            count = least + rng.randrange(min(most - least, max(3, length - least)) + 1)
            return "".join(_node(node[0], node[1], rng, length, any_character) for _ in range(count) for node in body)
        case "SUBPATTERN":
            return "".join(_node(node[0], node[1], rng, length, any_character) for node in argument[3])
        case "ATOMIC_GROUP":
            return "".join(_node(node[0], node[1], rng, length, any_character) for node in argument)
        case "BRANCH":
            return "".join(_node(node[0], node[1], rng, length, any_character) for node in rng.choice(argument[1]))
        case "AT" | "ASSERT" | "ASSERT_NOT":
            return ""  # a string that an anchor or look-around refuses is drawn again by the caller
        case _:
            raise _Unsupported


def _class_members(items: list[tuple[Any, Any]]) -> list[str]:
    negated = str(items[0][0]) == "NEGATE"
    tests = items[1:] if negated else items
    members = [c for c in _CHARACTERS if any(_is_member(c, *test) for test in tests) is not negated]
    if not members and not negated:  # characters beyond ASCII: the first of each range
        members = [chr(argument[0] if str(op) == "RANGE" else argument) for op, argument in tests if str(op) != "CATEGORY"]
    if not members:
        raise _Unsupported
    return [c for c in members if c.isalnum()] or members


def _is_member(character: str, op: Any, argument: Any) -> bool:
    match str(op):
        case "LITERAL":
            return ord(character) == int(argument)
        case "RANGE":
            return bool(argument[0] <= ord(character) <= argument[1])
        case "CATEGORY":
            return re.fullmatch(_CATEGORIES[str(argument)], character) is not None
        case _:
            raise _Unsupported
