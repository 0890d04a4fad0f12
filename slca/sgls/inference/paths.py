"""Which resource a path is about: ``/owners/{owner_id}/pets/{pet_id}`` is one item of the collection ``owners/{}/pets``.

A path with a custom verb (``{id}:archive``), with a parameter inside a segment, or whose item stands under no literal segment is
about none that could be known.
"""

import re
from dataclasses import dataclass

from slca.sgls.tool import Route

PARAMETER = "{}"
_TOKENS = re.compile(r"(?:[^/{}]|\{[^{}]*\})+")
_ONE = re.compile(r"\{([^{}=]+)\}")
_SEVERAL = re.compile(r"\{([^{}=]+)=([^{}]+)\}")

Collection = tuple[str, ...]
"""Segments of a collection's path, parameters as ``{}``."""


@dataclass(frozen=True)
class Parent:
    """A record that the path goes through: the collection that it is in, and the argument that names it."""

    collection: Collection
    argument: str


@dataclass(frozen=True)
class Target:
    """The resource of a path. item: the argument that names one record, None where the path ends with the collection.

    whole: ids are whole resource names, ``projects/p/topics/t``, as in Google's APIs. stem: what all of them begin with, where
    that holds no other id (``projects/``).
    """

    collection: Collection
    parents: tuple[Parent, ...]
    item: str | None
    whole: bool = False
    stem: str | None = None

    @property
    def last(self) -> str:
        return self.collection[-1]


def target(route: Route) -> Target | None:
    """The resource that ``route`` is about; None where its path does not show one."""
    arguments = {place.name: name for name, place in route.arguments.items() if place.part == "path"}
    tokens = _TOKENS.findall(route.path)
    if any("=" in token for token in tokens):
        return _whole(tokens, arguments)
    if tokens and tokens[-1].endswith(".json"):
        tokens[-1] = tokens[-1].removesuffix(".json")
    segments: list[str] = []
    parents: list[Parent] = []
    for token in tokens:
        name = _ONE.fullmatch(token)
        if name is not None and name[1] in arguments:
            parents.append(Parent(tuple(segments), arguments[name[1]]))
            segments.append(PARAMETER)
        elif "{" in token or ":" in token:
            return None
        else:
            segments.append(token)
    item = parents.pop().argument if segments and segments[-1] == PARAMETER else None
    collection = tuple(segments[:-1] if item is not None else segments)
    if not collection or collection[-1] == PARAMETER:
        return None
    return Target(collection, tuple(parents), item)


def segments(path: str) -> Collection:
    """All segments of a path, parameters as ``{}``; a custom verb goes with its segment."""
    found: list[str] = []
    for token in _TOKENS.findall(path):
        several = _SEVERAL.match(token)
        found += several[2].replace("**", PARAMETER).replace("*", PARAMETER).split("/") if several else []
        if several is None:
            found.append(PARAMETER if token.startswith("{") else token)
    return tuple(found)


def _whole(tokens: list[str], arguments: dict[str, str]) -> Target | None:
    """``v1/{name=projects/*/topics/*}`` and ``v1/{parent=projects/*}/topics``."""
    at = next(index for index, token in enumerate(tokens) if "=" in token)
    found = _SEVERAL.fullmatch(tokens[at])
    before, after = tokens[:at], tokens[at + 1 :]
    if found is None or found[1] not in arguments or any("{" in token or ":" in token for token in (*before, *after)):
        return None
    inner = found[2].split("/")
    if "**" in inner or inner[-1] != "*" or len(after) > 1:
        return None
    named = (*before, *(PARAMETER if part == "*" else part for part in inner))
    if named[-2:-1] in ((), (PARAMETER,)):
        return None
    if after:
        return Target((*named, after[0]), (Parent(named[:-1], arguments[found[1]]),), None, whole=True)
    stem = None if "*" in inner[:-1] else "/".join((*inner[:-1], ""))
    return Target(named[:-1], (), arguments[found[1]], whole=True, stem=stem)
