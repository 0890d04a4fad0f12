"""JSON as it crosses the network, stricter than Python's reader.

Refused: what is not UTF-8, NaN and infinities, numbers beyond the range of a double, names that occur twice in one object, and
nesting beyond a limit. Python's reader takes the first four silently, and readers in other languages disagree about them.
"""

import json
import math
from typing import Any

from slca.records import Json

MOST_DIGITS = 308
"""Digits of the largest whole number that every double can hold the size of."""


class NotJson(Exception):
    """Why a text is no JSON value that this server takes."""


def decoded(data: bytes, depth: int) -> Json:
    """The value of a JSON text with at most ``depth`` levels of nesting. Raises NotJson."""
    try:
        text = data.decode()
        value = _DECODER.decode(text)
    except UnicodeDecodeError as error:
        raise NotJson(f"not UTF-8: byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg.lower()} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise NotJson(f"nested deeper than {depth} levels") from None
    if text.count("[") + text.count("{") > depth and _depth(value) > depth:
        raise NotJson(f"nested deeper than {depth} levels")
    return value


def encoded(value: object) -> bytes:
    """Compact UTF-8 JSON."""
    return _ENCODER.encode(value).encode()


def _constant(name: str) -> Json:
    raise NotJson(f"{name} is no number")


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise NotJson("a number is too large")
    return number


def _int(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise NotJson("a number is too large")
    return int(text)


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise NotJson("a name occurs twice in one object")
    return values


def _depth(value: Json) -> int:
    """Levels of nesting; 0 for a number or text. Without recursion."""
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


_DECODER = json.JSONDecoder(parse_constant=_constant, parse_float=_float, parse_int=_int, object_pairs_hook=_object)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
