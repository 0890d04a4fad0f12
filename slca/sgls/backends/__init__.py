"""What fills values that a service's state does not define (method section 5, step 4): one backend per file, a dict names them.

``schema`` makes values up from the schema and a seed. The others ask a language model, in this process or on a server; the
simulator caches, validates and repairs their answers like any other's. ``slca.params.Simulator.backend`` lists the names.
Backends are shared: a process builds one for each set of parameters, since a session is made for every rollout and a model is
not to be loaded as often. Libraries are imported when a backend is built.
"""

from collections.abc import Callable
from importlib.util import find_spec
from threading import Lock

from slca.errors import MissingDependency
from slca.params import Simulator
from slca.sgls.backends.base import Backend, BackendFailure, Request, Unreadable
from slca.sgls.backends.schema import SchemaBackend

__all__ = ["BACKENDS", "Backend", "BackendFailure", "Request", "Unreadable"]

Factory = Callable[[Simulator], Backend]


def _shared(build: Factory) -> Factory:
    """``build``, asked once for each set of the parameters that a model backend reads."""
    built: dict[tuple[str | float, ...], Backend] = {}
    lock = Lock()

    def factory(params: Simulator) -> Backend:
        key = (
            *(params.model, params.base_url, params.temperature, params.max_tokens),
            *(params.timeout, params.retries, params.concurrency),
        )
        with lock:
            if key not in built:
                built[key] = build(params)
            return built[key]

    return factory


def _schema(params: Simulator) -> Backend:
    return SchemaBackend()


def _transformers(params: Simulator) -> Backend:
    _needs("transformers", "xgrammar", "pip install 'slca[models]'")
    from slca.sgls.backends.transformers_backend import TransformersBackend

    return TransformersBackend(params)


def _vllm(params: Simulator) -> Backend:
    _needs("vllm", "vllm", "pip install 'slca[vllm]', in an environment of its own where Prefect stands in the way")
    from slca.sgls.backends.vllm_backend import VllmBackend

    return VllmBackend(params)


def _openai(params: Simulator) -> Backend:
    _needs("openai", "openai", "pip install 'slca[openai]'")
    from slca.sgls.backends.openai_backend import OpenAiBackend

    return OpenAiBackend(params)


def _needs(backend: str, package: str, command: str) -> None:
    if find_spec(package) is None:
        raise MissingDependency(
            f"simulator.backend {backend} needs the package {package}, which is not installed; run: {command}."
        )


BACKENDS: dict[str, Factory] = {
    "schema": _schema,
    "transformers": _shared(_transformers),
    "vllm": _shared(_vllm),
    "openai": _shared(_openai),
}
