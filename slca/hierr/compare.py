"""When is a predicted argument value the gold value? (method section 3)

``strict_equal`` (ours): JSON-typed, without coercion, but an int equals the float of the same value. A bool is never a number.
Strings and object keys are exact after Unicode NFC. Objects and arrays are compared recursively. An argument's schema may set
``x-compare`` to loosen this throughout that argument: ``"case"`` (strings without regard to case), ``"set"`` (arrays as sets:
order and repetition do not count) or a number (absolute tolerance between numbers).

``loose_equal`` (paper): "1" equals true, 10 equals "10", case and spaces are ignored; ``x-compare`` is not looked at.

Both are symmetric. NaN equals nothing.
"""

import math
import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from slca.errors import ToolError
from slca.records import Json

Rule = str | float | None
"""``"case"``, ``"set"``, a tolerance, or None for the strict comparison."""

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")


def compare_rule(schema: Json, where: str) -> Rule:
    """The ``x-compare`` of one argument's schema. Raises ToolError, with ``where``, for anything but case, set or a tolerance."""
    rule = schema.get("x-compare") if isinstance(schema, Mapping) else None
    if rule is None or rule in ("case", "set"):
        return rule
    if isinstance(rule, int | float) and not isinstance(rule, bool) and 0 <= rule < math.inf:
        return float(rule)
    raise ToolError(f'{where}: x-compare is {rule!r}; write "case", "set" or a tolerance of 0 or more.')


def strict_equal(a: Json, b: Json, rule: Rule = None) -> bool:
    """Whether two JSON values are equal in type and value, but for what ``rule`` loosens."""
    if isinstance(a, bool) or isinstance(b, bool):
        return isinstance(a, bool) and isinstance(b, bool) and a == b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a == b or (isinstance(rule, float) and _within(a, b, rule))
    if isinstance(a, str) and isinstance(b, str):
        return _string(a, rule) == _string(b, rule)
    if isinstance(a, list) and isinstance(b, list):
        if rule == "set":
            return _covers(a, b, rule) and _covers(b, a, rule)
        return len(a) == len(b) and all(strict_equal(x, y, rule) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        left, right = ({_nfc(key): value for key, value in side.items()} for side in (a, b))
        return len(a) == len(b) and left.keys() == right.keys() and all(strict_equal(left[k], right[k], rule) for k in left)
    return a is None and b is None


def loose_equal(a: Json, b: Json) -> bool:
    """Whether two JSON values are equal as the published comparison sees them."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(loose_equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(loose_equal(a[key], b[key]) for key in a)
    if isinstance(a, list | dict) or isinstance(b, list | dict):
        return False
    return _atom(a) == _atom(b)


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _string(text: str, rule: Rule) -> str:
    return _nfc(_nfc(text).casefold()) if rule == "case" else _nfc(text)


def _covers(a: list[Json], b: list[Json], rule: Rule) -> bool:
    return all(any(strict_equal(x, y, rule) for y in b) for x in a)


def _within(a: int | float, b: int | float, tolerance: float) -> bool:
    """|a - b| <= tolerance on the decimal spellings, so that 1.3 and 1.2 are within 0.1."""
    if not all(isinstance(x, int) or math.isfinite(x) for x in (a, b)):
        return False
    return abs(_exact(a) - _exact(b)) <= _exact(tolerance)


def _exact(x: int | float) -> Fraction:
    return Fraction(x) if isinstance(x, int) else Fraction(repr(x))


def _atom(value: Json) -> Decimal | str | None:
    """A scalar in the paper's loose form: a number where it can be read as one, else text without case and spaces."""
    if value is None:
        return None
    if isinstance(value, bool):
        return Decimal(value)
    text = "".join(str(value).split()).casefold()
    if text in ("true", "false"):
        return Decimal(text == "true")
    return Decimal(text) if _NUMBER.fullmatch(text) else text
