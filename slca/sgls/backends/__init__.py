"""What fills values that a service's state does not define (method section 5, step 4): one backend per file, a dict names them.

A backend that asks a model (in process, or on a server) goes into a file of its own beside ``schema.py`` and into
``BACKENDS``; the simulator caches, validates and repairs its answers like any other's. ``slca.params.Simulator.backend``
lists the names.
"""

from collections.abc import Callable

from slca.sgls.backends.base import Backend, Request
from slca.sgls.backends.schema import SchemaBackend

__all__ = ["BACKENDS", "Backend", "Request"]

BACKENDS: dict[str, Callable[[], Backend]] = {"schema": SchemaBackend}
