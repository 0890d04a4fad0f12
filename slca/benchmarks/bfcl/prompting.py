"""Calls out of the text of a prompted model, in BFCL's published form: ``[f(a=1, b="x"), g()]``.

Read as upstream reads it (backticks, spaces and missing brackets around the list are forgiven; text around the calls is not), but
never evaluated: a value is a literal, a list, tuple or dictionary of values, a signed number, or true, false and null as JSON
spells them. What upstream does beyond that (names as strings, arithmetic, calls in calls) is no call here, and its turn
calls nothing. Arguments of Java and JavaScript functions are source text, so there a value that is no string
is taken as it is written.
"""

import ast
import re
import warnings
from typing import Any, Literal, TypeGuard

from slca.records import Call, Json

Language = Literal["python", "java", "javascript"]

MAX_CHARS = 100_000
_MAX_DEPTH = 64
_WORDS = {"true": True, "false": False, "null": None}
_STRING = re.compile(r"""\s*(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*""", re.DOTALL)
_ARGUMENT = re.compile(r"\s*([^\W\d]\w*)\s*=(?!=)", re.DOTALL)
_NAME = re.compile(r"\s*([^\W\d]\w*(?:\.[^\W\d]\w*)*)\s*", re.DOTALL)


def read_calls(text: str, language: Language = "python") -> tuple[Call, ...]:
    """Every call of a turn's text, if all of it is calls; else none. Never raises."""
    text = text.strip("`\n ").removeprefix("[").removesuffix("]").strip()
    if not text or len(text) > MAX_CHARS or _depth(text) > _MAX_DEPTH:
        return ()
    try:
        return _python(text) if language == "python" else _source(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _depth(text: str) -> int:
    """The most brackets, of any kind, that are open at once, strings included: a bound for what parsers recurse into."""
    depth = deepest = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest


def _python(text: str) -> tuple[Call, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of escapes that are none
        listed = ast.parse(f"[{text}\n]", mode="eval").body
    if not isinstance(listed, ast.List):
        raise ValueError("not a list")
    return tuple(_call(element) for element in listed.elts)


def _call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("not a call with named arguments")
    arguments: dict[str, Json] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise ValueError("an argument without a name, or one that occurs twice")
        arguments[keyword.arg] = _value(keyword.value)
    return Call(_dotted(node.func), arguments)


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise ValueError("not a name")
    return ".".join([node.id, *reversed(parts)])


def _value(node: ast.expr) -> Json:
    match node:
        case ast.Constant(value=value) if value is None or isinstance(value, int | float | str):
            return _storable(value)
        case ast.Name(id=name) if name in _WORDS:
            return _WORDS[name]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=number)) if _is_number(number):
            return _storable(-number)
        case ast.UnaryOp(op=ast.UAdd(), operand=ast.Constant(value=number)) if _is_number(number):
            return _storable(number)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(element) for element in elements]
        case ast.Dict(keys=keys, values=values):
            return {_key(key): _value(value) for key, value in zip(keys, values, strict=True)}
    raise ValueError("not a literal")


def _is_number(value: Any) -> TypeGuard[int | float]:
    return type(value) in (int, float)


def _storable(value: Json) -> Json:
    """``value``, if JSON and UTF-8 can hold it."""
    if isinstance(value, str):
        value.encode()
    if isinstance(value, float) and value - value != 0.0:
        raise ValueError("not finite")
    if isinstance(value, int) and value.bit_length() > 8192:
        raise ValueError("too long a number")
    return value


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return str(_storable(node.value))
    raise ValueError("not a string key")


# Java and JavaScript: brackets and strings are followed, nothing is understood.


def _source(text: str) -> tuple[Call, ...]:
    calls = []
    for part in _split(text):
        name = _NAME.match(part)
        if not name or not part[name.end() :].startswith("(") or not part.rstrip().endswith(")"):
            raise ValueError("not a call")
        arguments: dict[str, Json] = {}
        for argument in _split(part[name.end() + 1 : part.rstrip().rindex(")")]):
            named = _ARGUMENT.match(argument)
            if not named or named[1] in arguments:
                raise ValueError("an argument without a name, or one that occurs twice")
            value = argument[named.end() :]
            quoted = _STRING.fullmatch(value)
            arguments[named[1]] = _storable(value.strip()[1:-1] if quoted else value.strip())
        calls.append(Call(name[1], arguments))
    return tuple(calls)


def _split(text: str) -> list[str]:
    """``text`` at the commas outside of brackets and strings; [] for blank text. ValueError where one is not closed."""
    parts, start, open_brackets, quote, place = [], 0, "", "", 0
    closing = {")": "(", "]": "[", "}": "{"}
    while place < len(text):
        character = text[place]
        if quote:
            if character == "\\":
                place += 1
            elif character == quote:
                quote = ""
        elif character in "\"'":
            quote = character
        elif character in "([{":
            open_brackets += character
        elif character in closing:
            if open_brackets[-1:] != closing[character]:
                raise ValueError("a bracket closes nothing")
            open_brackets = open_brackets[:-1]
        elif character == "," and not open_brackets:
            parts.append(text[start:place])
            start = place + 1
        place += 1
    if quote or open_brackets:
        raise ValueError("a bracket or string is not closed")
    return [*parts, text[start:]] if parts or text[start:].strip() else []
