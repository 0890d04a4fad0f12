"""Regular expressions of JSON Schemas: their dialect, and a bound on the work that they can cause.

JSON Schema's patterns are those of ECMA-262 with Unicode. They are put into the dialect of the ``regex`` package, which knows
``\\p{L}`` and can be stopped: ``\\d`` and ``\\w`` are ASCII, ``$`` is the very end, a brace that is no quantifier is a brace,
an escaped letter without a meaning is that letter. Departures: ``\\b`` and ``.`` are Python's; Python's ``\\A``, ``\\Z``,
``(?P<name>`` and leading ``(?i)`` are understood, since schemas written for Python have them.

A pattern is refused that is too long, nested too deep, or would be unrolled into too many parts (``a{99999999}``). One that
backtracks without end is stopped with ``TooCostly``: all matching within one ``limited`` block shares ``LONGEST_MATCHING``
seconds. Ordinary patterns take microseconds, so a busy machine does not change which of them that is.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import local
from time import perf_counter
from typing import Any

import regex  # type: ignore[import-untyped]

LONGEST_MATCHING = 0.5
"""Seconds."""
LONGEST_PATTERN = 8192
DEEPEST_PATTERN = 50
MOST_PARTS = 50_000
"""Characters, nested groups, and parts with every repetition counted as often as it must occur."""

_WORD = "A-Za-z0-9_"
_QUANTIFIER = re.compile(r"\{([0-9]+)(,([0-9]+)?)?\}")
_GROUP = re.compile(r"\((\?(?:[:=!]|<[=!]|P?<(?P<name>[A-Za-z_]\w{0,63})>|P=\w{1,64}(?=\))|(?P<flags>[is]{1,2})\)))?", re.ASCII)
_ESCAPE = re.compile(
    r"\\(?:u\{(?P<long>[0-9A-Fa-f]{1,6})\}|u(?P<four>[0-9A-Fa-f]{4})|x(?P<two>[0-9A-Fa-f]{2})|c(?P<control>[A-Za-z])"
    r"|k<(?P<back>[A-Za-z_]\w{0,63})>|(?P<property>[pP]\{[\w=: -]{1,64}\}|[pP][LMNPSZC])|(?P<number>[1-9][0-9]?)|(?P<one>.))",
    re.ASCII | re.DOTALL,
)


class BadPattern(ValueError):
    """The pattern cannot be used; one clause that says why."""


class TooCostly(Exception):
    """A check was given up: it would take too long. One sentence."""


class _Budget(local):
    seconds: float | None = None


_budget = _Budget()


@contextmanager
def limited() -> Iterator[None]:
    """All matching of this thread within the block shares one budget; an inner block shares the outer one's."""
    if _budget.seconds is not None:
        yield
        return
    _budget.seconds = LONGEST_MATCHING
    try:
        yield
    finally:
        _budget.seconds = None


def finds(pattern: str, text: str) -> bool:
    """Whether a schema's ``pattern`` accepts ``text``: it may match anywhere. Raises BadPattern, TooCostly."""
    compiled = compiled_pattern(pattern)
    with limited():
        begin = perf_counter()
        try:
            return compiled.search(text, timeout=max(_budget.seconds or 0.0, 1e-3)) is not None
        except TimeoutError:
            raise TooCostly(f"the pattern {pattern[:60]} takes too long to check.") from None
        finally:
            _budget.seconds = (_budget.seconds or 0.0) - (perf_counter() - begin)


@lru_cache(maxsize=4096)
def compiled_pattern(pattern: str) -> Any:
    """The compiled ``pattern``. Raises BadPattern."""
    try:
        return regex.compile(python_pattern(pattern), regex.VERSION0)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise error if isinstance(error, BadPattern) else BadPattern(str(error)) from None


def python_pattern(pattern: str) -> str:
    """``pattern`` in the dialect of ``regex``. Raises BadPattern for one that is too long, too deep or too large."""
    if len(pattern) > LONGEST_PATTERN:
        raise BadPattern(f"it has more than {LONGEST_PATTERN} characters")
    out: list[str] = []
    sizes, atom = [0], 0  # of the groups that are open, without the latest atom, and of the latest atom
    place = 0
    while place < len(pattern):
        character = pattern[place]
        if character == "(":
            group = _GROUP.match(pattern, place)
            assert group is not None
            if group.group(1) is None and pattern[place + 1 : place + 2] == "?":
                raise BadPattern(f"the group {pattern[place : place + 4]!r} is unknown")
            if group["flags"] and place:
                raise BadPattern("flags may only stand at its beginning")
            out.append(f"(?P<{group['name']}>" if group["name"] else group.group())
            place = group.end()
            if not group["flags"]:
                sizes[-1] += atom
                sizes.append(0)
                atom = 0
            if len(sizes) > DEEPEST_PATTERN:
                raise BadPattern(f"its groups are nested more than {DEEPEST_PATTERN} deep")
            continue
        if character == ")":
            if len(sizes) == 1:
                raise BadPattern("a parenthesis is not opened")
            atom = sizes.pop() + atom
        elif character == "{" and (counted := _QUANTIFIER.match(pattern, place)) and out:
            if max(len(counted[1]), len(counted[3] or "")) > 9:
                raise BadPattern(f"it repeats into more than {MOST_PARTS} parts")
            atom *= max(1, int(counted[1]))
            if sizes[-1] + atom > MOST_PARTS:
                raise BadPattern(f"it repeats into more than {MOST_PARTS} parts")
            out.append(counted.group())
            place = counted.end()
            continue
        elif character not in "*+?|":
            sizes[-1] += atom
            atom = 1
        if character == "\\":
            text, place = _escape(pattern, place, inside=False)
            out.append(text)
        elif character == "[":
            text, place = _class(pattern, place)
            out.append(text)
        else:
            out.append(r"\Z" if character == "$" else f"\\{character}" if character in "{}]" else character)
            place += 1
    return "".join(out)


def _class(pattern: str, place: int) -> tuple[str, int]:
    """A bracketed class from ``place`` on, and where it ends."""
    begin = "[^" if pattern.startswith("[^", place) else "["
    place += len(begin)
    out: list[str] = []
    while place < len(pattern):
        if pattern[place] == "]":
            if not out:  # nothing, or anything
                return ("(?!)" if begin == "[" else r"[\s\S]"), place + 1
            return begin + "".join(out) + "]", place + 1
        if pattern[place] == "\\":
            text, place = _escape(pattern, place, inside=True)
        else:
            text = f"\\{pattern[place]}" if pattern[place] in "[&~|" else pattern[place]
            place += 1
        out.append(text)
    raise BadPattern("a bracket is not closed")


def _escape(pattern: str, place: int, inside: bool) -> tuple[str, int]:
    """What begins with a backslash at ``place``, and where it ends; inside: within brackets."""
    found = _ESCAPE.match(pattern, place)
    if found is None:
        raise BadPattern("it ends with a backslash")
    end = found.end()
    code = found["long"] or found["four"] or found["two"]
    if code:
        if int(code, 16) > 0x10FFFF:
            raise BadPattern(f"there is no character {code}")
        return _literal(chr(int(code, 16))), end
    if found["control"]:
        return _literal(chr(ord(found["control"]) % 32)), end
    if found["back"]:
        return f"(?P={found['back']})", end
    if found["property"] or (found["number"] and not inside):
        return found.group(), end
    one = found["one"] or found["number"]
    if one == "d":
        return ("0-9" if inside else "[0-9]"), end
    if one == "w":
        return (_WORD if inside else f"[{_WORD}]"), end
    if one == "D" and not inside:
        return "[^0-9]", end
    if one == "W" and not inside:
        return f"[^{_WORD}]", end
    if one in "DWsSnrtfv" or (one in "bBAZ" and not inside):
        return f"\\{one}", end
    if one == "z" and not inside:
        return r"\Z", end
    return _literal({"b": "\b", "0": "\0"}.get(one, one)), end


def _literal(character: str) -> str:
    if character.isalnum() or ord(character) > 255:
        return character
    return f"\\x{ord(character):02x}"
