"""Everything the server answers instead of a result: one exception, one JSON shape, one table of statuses."""

from collections.abc import Mapping

from starlette.responses import Response

from slca.records import CallError, Json
from slca.sgls.server.jsons import encoded

STATUS: Mapping[CallError, int] = {
    CallError.MALFORMED: 400,
    CallError.UNKNOWN_TOOL: 404,
    CallError.INVALID_ARGUMENTS: 422,
    CallError.NOT_FOUND: 404,
    CallError.CONFLICT: 409,
    CallError.SIMULATOR_FAILURE: 502,
}
"""HTTP status of each typed error that a call can end with; a fault brings its own."""


class Refused(Exception):
    """A request that is not carried out. kind: the ``type`` that the client reads."""

    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.headers = headers

    @property
    def told(self) -> Json:
        """What the client reads."""
        return {"error": {"type": self.kind, "message": self.message}}

    def response(self) -> Response:
        return json_response(self.told, self.status, self.headers)


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encoded(value), status, headers, media_type="application/json")
