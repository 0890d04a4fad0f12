"""A request's body: read within its limits, then taken apart as its Content-Type says.

JSON, both kinds of forms, and plain text are understood whatever the route's media type is, since services often take several
and an imported route keeps one. Without a Content-Type the route's own counts.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from slca.records import Json
from slca.sgls.server.jsons import NotJson, decoded
from slca.sgls.server.options import Limits
from slca.sgls.server.refusals import Refused

MOST_FIELDS = 1000
"""Of a form or a query."""


@dataclass(frozen=True)
class Form:
    """Fields as text, in their order; a name may occur more than once."""

    fields: list[tuple[str, str]]

    def by_name(self) -> dict[str, list[str]]:
        texts: dict[str, list[str]] = {}
        for name, text in self.fields:
            texts.setdefault(name, []).append(text)
        return texts


EMPTY = Form([])
"""No body at all, which is not the JSON value null."""


async def read(request: Request, limits: Limits) -> bytes:
    """The whole body. Raises Refused: 413, or 408 where it does not arrive in time."""
    length = request.headers.get("content-length")
    if length is not None and int(length) > limits.body_bytes:  # the server has checked that it is a number
        raise _too_large(limits)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.arrival_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.body_bytes:
                    raise _too_large(limits)
    except TimeoutError:
        raise Refused(408, "too_slow", f"the body did not arrive within {limits.arrival_seconds:g} s.") from None
    except ClientDisconnect:
        raise Refused(400, "malformed_request", "the connection ended before the body did.") from None
    return bytes(body)


async def parsed(request: Request, body: bytes, media_type: str, limits: Limits) -> Json | Form:
    """The body as a JSON value, form or text; EMPTY where there is none. Raises Refused: 400 or 415."""
    given = request.headers.get("content-type")
    kind = (given or media_type).partition(";")[0].strip().lower()
    is_json = kind == "application/json" or kind.endswith("+json")
    if not body and (given is None or is_json):
        return EMPTY
    if is_json:
        return json_value(body, limits)
    if kind == "application/x-www-form-urlencoded":
        return pairs(body, "body")
    if kind == "multipart/form-data":
        return await _multipart(request, body, limits)
    if kind.startswith("text/") or kind == media_type.lower():
        return _text(body)
    raise Refused(415, "unsupported_media_type", f"the body must be {media_type}, not {kind[:80]}.")


def json_value(body: bytes, limits: Limits) -> Json:
    """The JSON value of a body. Raises Refused (400)."""
    try:
        return decoded(body, limits.depth)
    except NotJson as problem:
        raise Refused(400, "malformed_request", f"the body is not valid JSON: {problem}.") from None


def pairs(text: bytes, what: str) -> Form:
    """The fields of a query or an URL-encoded form. Raises Refused (400)."""
    try:
        fields = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except UnicodeError:
        raise Refused(400, "malformed_request", f"the {what} is not percent-encoded UTF-8.") from None
    except ValueError:
        raise Refused(400, "malformed_request", f"the {what} has more than {MOST_FIELDS} fields.") from None
    return Form(fields)


async def _multipart(request: Request, body: bytes, limits: Limits) -> Form:
    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    parser = MultiPartParser(request.headers, stream(), max_fields=MOST_FIELDS, max_files=MOST_FIELDS, max_part_size=len(body))
    parser.spool_max_size = limits.body_bytes + 1  # files stay in memory: nothing is ever written
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError):  # KeyError: no boundary
        raise Refused(400, "malformed_request", "the body is not a valid multipart form.") from None
    except UnicodeDecodeError:
        raise Refused(400, "malformed_request", "the body is not UTF-8.") from None
    fields = []
    for name, value in form.multi_items():
        fields.append((name, _text(await value.read()) if isinstance(value, UploadFile) else value))
    return Form(fields)


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Refused(400, "malformed_request", f"the body is not UTF-8: byte {error.start}.") from None


def _too_large(limits: Limits) -> Refused:
    return Refused(413, "body_too_large", f"the body has more than {limits.body_bytes} bytes.")
