"""What stands between a model's text and the official checker: pure functions on names, arguments and call texts.

Shared by both sides of the harness, so it imports the standard library alone. The rule: whatever upstream might evaluate was
written here, from a name out of a list and from JSON values; nothing in it but literals comes from a model.
"""

import math
from collections.abc import Collection
from typing import Any

MAX_CALLS = 100
MAX_ARGUMENT_NODES = 2_000
MAX_ARGUMENT_CHARS = 50_000
MAX_ARGUMENT_DEPTH = 16
MAX_INT_BITS = 8_192

NO_FUNCTION = "no_such_function"
"""Stands for a refused call in what upstream executes: no function has this name, so upstream answers with an error."""


def too_large(arguments: Any) -> bool:
    """Whether a JSON value has too many values, characters or levels, or a number that is too long or not finite.

    Walks without recursion, so that no depth is too much.
    """
    nodes = chars = 0
    pending = [(arguments, 1)]
    while pending:
        value, depth = pending.pop()
        nodes += 1
        if depth > MAX_ARGUMENT_DEPTH or nodes > MAX_ARGUMENT_NODES or chars > MAX_ARGUMENT_CHARS:
            return True
        if isinstance(value, dict):
            chars += sum(len(key) for key in value)
            pending.extend((child, depth + 1) for child in value.values())
        elif isinstance(value, list):
            pending.extend((child, depth + 1) for child in value)
        elif isinstance(value, str):
            chars += len(value)
        elif isinstance(value, int | float) and not _moderate(value):
            return True
    return chars > MAX_ARGUMENT_CHARS


def _moderate(number: int | float) -> bool:
    return number.bit_length() <= MAX_INT_BITS if isinstance(number, int) else math.isfinite(number)


def call_refusal(call: dict[str, Any], offered: Collection[str]) -> str:
    """Why one call must not reach the checker or its functions; empty if it may."""
    if not isinstance(call.get("name"), str) or call["name"] not in offered:
        return "unknown_function"
    if not isinstance(call.get("arguments"), dict) or too_large(call["arguments"]):
        return "arguments"
    return ""


def refusal(calls: Any, offered: Collection[str]) -> str:
    """Why ``calls`` must not reach the checker; empty if they may."""
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        return "refused:not_calls"
    if len(calls) > MAX_CALLS:
        return "refused:too_many_calls"
    refused = next(filter(None, (call_refusal(call, offered) for call in calls)), "")
    return f"refused:{refused}" if refused else ""


def literal(value: Any) -> str:
    """A JSON value as a Python literal without a parenthesis, in strings neither.

    Upstream finds function names by the parenthesis behind them, and would rewrite them inside strings too. ValueError for what
    is no JSON value.
    """
    if isinstance(value, str):
        return repr(value).replace("(", "\\x28")
    if value is None or isinstance(value, bool | int):
        return repr(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(literal(item) for item in value)}]"
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    raise ValueError(f"{type(value).__name__} is no JSON value")


def call_text(name: str, arguments: dict[str, Any]) -> str:
    """A call as upstream evaluates it. ``name`` must come from a list of known names.

    Arguments go as one unpacked dictionary, so that a key which is no identifier is Python's usual error, and no syntax.
    """
    return f"{name}(**{literal(arguments)})"


def executable(calls: list[dict[str, Any]], offered: Collection[str]) -> list[str]:
    """One step as upstream evaluates it; each refused call is one of a function that does not exist."""
    return [f"{NO_FUNCTION}()" if call_refusal(call, offered) else call_text(call["name"], call["arguments"]) for call in calls]
