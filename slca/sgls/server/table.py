"""Which endpoint a request is for: all paths of the server in one tree, so that a thousand routes cost no more than ten.

Departs from Starlette's list of routes, where the first that matches wins: the more literal path wins (``/pets/search`` before
``/pets/{id}``), segment by segment, as OpenAPI asks. A path is split before it is decoded, so that an id may hold ``%2F``. A
parameter is spelled as in ``slca.sgls.tool.Route``: ``{name}``, or ``{name=projects/*}`` for several segments.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from slca.sgls.server.options import CONTROL
from slca.sgls.server.refusals import Refused

Values = Mapping[str, str]
"""Path parameter -> decoded text."""

Endpoint = Callable[[Request, Values], Awaitable[ASGIApp]]
"""Makes the response, or raises Refused."""

PARAMETER = re.compile(r"\{([^{}=]+)(?:=([^{}]*))?\}")
"""A parameter in a path: its name, and its shape where that is more than a segment."""

_SEGMENT = "[^/]+"
_ANY = ".+"  # within one segment too, since that may hold a decoded slash


@dataclass
class _Node:
    """What follows on a beginning of a path. shaped: one segment with parameters; rest: all that is left of the path."""

    literal: dict[str, "_Node"] = field(default_factory=dict)
    shaped: list[tuple[re.Pattern[str], "_Node"]] = field(default_factory=list)
    rest: list[tuple[re.Pattern[str], "_Node"]] = field(default_factory=list)
    endpoints: dict[str, tuple[tuple[str, ...], Endpoint]] = field(
        default_factory=dict
    )  # method -> names of parameters, endpoint


def parameters_of(path: str) -> tuple[str, ...]:
    """The names of a path's parameters, in their order."""
    return tuple(name for name, _ in PARAMETER.findall(path))


class Table(BaseRoute):
    """A Starlette route that stands for all of them. Refusals become responses here."""

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, method: str, path: str, endpoint: Endpoint) -> None:
        """Where method and path are taken already, whatever their parameters' names, the first endpoint stays."""
        node, names = self._root, parameters_of(path)
        segments = re.split(r"/(?![^{]*\})", path)[1:]  # at slashes outside of braces
        for position, segment in enumerate(segments):
            if "=" in segment and PARAMETER.search(segment):
                node = _child(node.rest, _pattern("/".join(segments[position:]), _SEGMENT))
                break
            node = _child(node.shaped, _pattern(segment, _ANY)) if "{" in segment else node.literal.setdefault(segment, _Node())
        node.endpoints.setdefault(method, (names, endpoint))

    def find(self, method: str, raw_path: bytes) -> tuple[Endpoint, Values]:
        """The endpoint and its path's values. Raises Refused: 400 for a path that is not UTF-8, 404, or 405."""
        try:
            segments = [unquote_to_bytes(segment).decode() for segment in raw_path.split(b"/")[1:]]
        except UnicodeDecodeError:
            raise Refused(400, "malformed_request", "the path is not UTF-8.") from None
        allowed: list[str] = []
        for node, texts in _ends(self._root, segments, 0, ()):
            found = node.endpoints.get(method) or (node.endpoints.get("GET") if method == "HEAD" else None)
            if found is not None:
                return found[1], dict(zip(found[0], texts, strict=True))
            allowed = allowed or sorted(node.endpoints)
        if allowed:
            methods = ", ".join(allowed)
            raise Refused(405, "method_not_allowed", f"this path allows {methods}.", {"Allow": methods})
        raise Refused(404, "unknown_path", f"there is nothing at this path; {CONTROL}/openapi.json lists what there is.")

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.FULL if scope["type"] == "http" else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            endpoint, values = self.find(scope["method"], scope["raw_path"])
            response = await endpoint(Request(scope, receive), values)
        except Refused as refusal:
            response = refusal.response()
        except asyncio.CancelledError:  # by uvicorn alone, when the grace period of its shutdown is over
            response = Refused(503, "shutting_down", "the server ended before the call did.").response()
        await response(scope, receive, send)


def _child(children: list[tuple[re.Pattern[str], _Node]], pattern: str) -> _Node:
    """The node of a pattern among ``children``, which stay in order: the more literal characters, the sooner."""
    for known, node in children:
        if known.pattern == pattern:
            return node
    added = _Node()
    children.append((re.compile(pattern, re.DOTALL), added))
    children.sort(key=lambda child: -len(child[0].pattern.replace(_SEGMENT, "").replace(_ANY, "")))
    return added


def _pattern(template: str, plain: str) -> str:
    """The regular expression of a template, without the names. plain: what a parameter without a shape matches."""
    pattern, at = "", 0
    for found in PARAMETER.finditer(template):
        parts = re.findall(r"\*\*|\*|[^*]+", found[2] or "")
        shape = "".join({"*": _SEGMENT, "**": _ANY}.get(part) or re.escape(part) for part in parts) or plain
        pattern += re.escape(template[at : found.start()]) + f"({shape})"
        at = found.end()
    return pattern + re.escape(template[at:])


def _ends(node: _Node, segments: list[str], position: int, texts: tuple[str, ...]) -> Iterator[tuple[_Node, tuple[str, ...]]]:
    """The nodes where the path ends, and its values; the most literal first. No node is visited twice."""
    if position == len(segments):
        if node.endpoints:
            yield node, texts
        return
    segment = segments[position]
    child = node.literal.get(segment)
    if child is not None:
        yield from _ends(child, segments, position + 1, texts)
    for pattern, shaped in node.shaped:
        if found := pattern.fullmatch(segment):
            yield from _ends(shaped, segments, position + 1, (*texts, *found.groups()))
    if node.rest:
        remainder = "/".join(segments[position:])
        for pattern, end in node.rest:
            if found := pattern.fullmatch(remainder):
                yield end, (*texts, *found.groups())
