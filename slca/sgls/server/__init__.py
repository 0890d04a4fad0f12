"""A simulated service over HTTP and MCP: Starlette, uvicorn and the official ``mcp`` library around ``simulator.Session``.

``serve.serve`` runs it, ``app.app`` builds the ASGI application, ``options`` says what is served and within which limits. What
answers where:

* The service's own routes, for tools that were imported with one, at their original methods and paths.
* ``/_slca/``: what only a double of a service has (sessions) and all else of ours. No service path may start with it.
* ``/tools``, ``/tools/{name}``, ``/openapi.json``, ``/mcp``: the same as below ``/_slca/``, where the service leaves them free.

The header ``X-SLCA-Session`` names the session, and so the state, that a request speaks to; without it, ``default``. A refusal
is always ``{"error": {"type", "message"}}``; the header ``X-SLCA-Fault`` labels an injected fault.
"""

from slca.sgls.server.options import Limits, Service

__all__ = ["Limits", "Service"]
