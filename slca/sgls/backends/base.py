"""What a backend is asked, what it must offer, and how it says that it has no answer."""

from dataclasses import dataclass
from typing import Any, Protocol

from slca.records import Json


@dataclass(frozen=True)
class Request:
    """One value wanted under ``schema``.

    subject: what the value is about, ``[tool, arguments]`` or ``[entity, record id]``; it alone, with the seed, decides the
    answer of a backend without a model, so that other changes of state do not change it. arguments: of the call. state: what is
    known, the whole state or the one record. earlier: what was answered to other calls of the episode, ``[tool, arguments,
    answer]`` each, without repeats and in one fixed order, for backends that set ``remembers``. tool: the definition, as
    ``Tool.to_json`` writes it, for prompts. repair: 0, then 1, 2, ... for each answer that was refused, with the last one's
    ``problem``.
    """

    schema: dict[str, Any]
    subject: Json
    arguments: dict[str, Json]
    state: Json
    seed: int
    tool: Json = None
    earlier: tuple[Json, ...] = ()
    repair: int = 0
    problem: str = ""


class BackendFailure(Exception):
    """No answer can be had: the server is down, or the model cannot take the request. One sentence; the rollout is masked."""


class Unreadable(BackendFailure):
    """There is an answer, but it is no JSON value. It counts as refused: asked again, the backend reads this as ``problem``."""


class Backend(Protocol):
    """Fills values. name, model and prompt_version enter the cache's key: change prompt_version with whatever changes answers."""

    name: str
    model: str
    prompt_version: str
    remembers: bool
    """Whether answers depend on ``Request.earlier``, which is then part of the state: it enters the cache's key."""

    def fill(self, request: Request) -> Json:
        """A JSON value meant to validate against ``request.schema``; the caller checks it and may ask again.

        Safe to call from several threads. Raises BackendFailure where no answer can be had, Unreadable for one that is no JSON.
        """
