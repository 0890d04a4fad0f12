"""A foreign document made safe to walk: plain JSON of bounded depth and size, with JSON pointers (RFC 6901) that can be followed.

YAML gives more than JSON: numbers and dates as keys, dates as values, NaN, and aliases that unfold to billions of values. All of
it is settled here once, so that no importer has to expect it.
"""

import math
from datetime import date, datetime
from typing import Any
from urllib.parse import unquote

from slca.errors import DataError
from slca.records import Json

DEEPEST_DOCUMENT = 200
"""Levels of nesting that a document may have."""
MOST_VALUES = 20_000_000
"""Values that a document may hold, aliases counted as often as they are used. GitHub's own document holds less than a million."""
LONGEST_CHAIN = 32
"""References that may lead from one to the next."""

_TOO_LARGE = 10**300


class Fault(Exception):
    """What keeps one operation from being imported. place: a JSON pointer into the document."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason


def plain_json(document: Any, source: str) -> Json:
    """``document`` as JSON: keys as strings, dates as text, objects and lists copied once, however often an alias repeats them.

    Raises DataError that names ``source`` and the place for NaN, infinity, broken text, foreign types and for what is nested
    too deep, endless or too large.
    """
    return _Plain(source).value(document, (), 0)[0]


class _Plain:
    def __init__(self, source: str) -> None:
        self._source = source
        self._known: dict[int, tuple[Json, int, int]] = {}

    def value(self, value: Any, path: tuple[str, ...], depth: int) -> tuple[Json, int, int]:
        """The value as JSON, how many values it holds, and how deep it is nested."""
        if isinstance(value, dict | list):
            known = self._known.get(id(value)) or self._container(value, path, depth)
            self._known[id(value)] = known
            _, size, height = known
            if size > MOST_VALUES:
                raise self._error(path, f"holds more than {MOST_VALUES} values")
            if depth + height > DEEPEST_DOCUMENT:
                raise self._error(path, f"is nested deeper than {DEEPEST_DOCUMENT} levels")
            return known
        return self._leaf(value, path), 1, 0

    def _container(self, value: dict[Any, Any] | list[Any], path: tuple[str, ...], depth: int) -> tuple[Json, int, int]:
        if depth >= DEEPEST_DOCUMENT:  # where an alias contains itself, this ends the walk too
            raise self._error(path, f"is nested deeper than {DEEPEST_DOCUMENT} levels")
        keys = [self._key(key, path) for key in value] if isinstance(value, dict) else [str(index) for index in range(len(value))]
        parts = [
            self.value(part, (*path, key), depth + 1)
            for key, part in zip(keys, value.values() if isinstance(value, dict) else value, strict=True)
        ]
        values = [part[0] for part in parts]
        copy = dict(zip(keys, values, strict=True)) if isinstance(value, dict) else values
        return copy, 1 + sum(part[1] for part in parts), 1 + max((part[2] for part in parts), default=0)

    def _key(self, key: Any, path: tuple[str, ...]) -> str:
        if isinstance(key, bool) or key is None:
            return {True: "true", False: "false", None: "null"}[key]
        leaf = self._leaf(key, path)  # a status code in YAML is a number
        if isinstance(leaf, str | int | float):
            return str(leaf)
        raise self._error(path, f"has a key of type {type(key).__name__}, which JSON does not know")

    def _leaf(self, value: Any, path: tuple[str, ...]) -> Json:
        if isinstance(value, str):
            if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
                raise self._error(path, "holds broken text (half of a surrogate pair)")
            return value
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            if abs(value) >= _TOO_LARGE:
                raise self._error(path, "is a number of more than 300 digits")
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                raise self._error(path, f"is {value}, which is no JSON number")
            return value
        if isinstance(value, datetime | date):
            return value.isoformat()
        raise self._error(path, f"is a {type(value).__name__}, which JSON does not know")

    def _error(self, path: tuple[str, ...], problem: str) -> DataError:
        shown = pointer(*path)
        return DataError(f"{self._source}: {shown if len(shown) <= 200 else shown[:200] + '...'} {problem}; mend the document.")


def pointer(*tokens: str) -> str:
    """``#/paths/~1pets`` for ``("paths", "/pets")``."""
    return "/".join(("#", *(token.replace("~", "~0").replace("/", "~1").replace("%", "%25") for token in tokens)))


def tokens(target: str) -> tuple[str, ...]:
    """The names in a pointer, unescaped: ``("paths", "/pets")`` for ``#/paths/~1pets`` and for ``#/paths/%2Fpets``."""
    return tuple(unquote(token).replace("~1", "/").replace("~0", "~") for token in target.split("/")[1:])


class Document:
    """Plain JSON whose ``$ref`` can be followed."""

    def __init__(self, root: dict[str, Json]) -> None:
        self.root = root

    def follow(self, node: Json, place: str) -> tuple[Json, str]:
        """What ``node`` stands for, and where that is: itself, or the end of the chain of references that it begins.

        Raises Fault, with the place of the reference, where one leaves the document, leads nowhere or in a circle.
        """
        seen: list[str] = []
        while isinstance(node, dict) and isinstance(node.get("$ref"), str):
            target = node["$ref"]
            if target in seen:
                raise Fault(place, f"$ref {_shown(target)} refers to itself in a circle")
            if len(seen) == LONGEST_CHAIN:
                raise Fault(place, f"more than {LONGEST_CHAIN} references lead from one to the next")
            seen.append(target)
            node, place = self.at(target, place), target
        return node, place

    def at(self, target: str, place: str) -> Json:
        """The value that the reference ``target``, which stands at ``place``, points to. Raises Fault."""
        if not target.startswith("#"):
            raise Fault(place, f"$ref {_shown(target)} leaves the document; bundle its target into it")
        if target != "#" and not target.startswith("#/"):
            raise Fault(place, f"$ref {_shown(target)} is no JSON pointer; write it as #/...")
        node: Json = self.root
        for name in tokens(target):
            if isinstance(node, dict) and name in node:
                node = node[name]
            elif isinstance(node, list) and name.isascii() and name.isdigit() and len(name) < 10 and int(name) < len(node):
                node = node[int(name)]
            else:
                raise Fault(place, f"$ref {_shown(target)} has no target")
        return node


def _shown(target: str) -> str:
    return repr(target if len(target) <= 120 else target[:117] + "...")
