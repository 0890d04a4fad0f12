"""The generator on a vLLM server (``vllm serve``, or one behind a load balancer): token ids in and out over HTTP.

At most ``rows`` requests are under way, all from this thread: answers wait in the sockets while tools run. A request that meets
a lost connection or an overloaded server is sent again, after longer and longer waits. Asking twice does no harm: prompt and
seed say what is sampled.

The server must hold the policy's weights under the name of its folder, which is what ``vllm serve FOLDER`` calls them; the
log-probs are those of the distribution sampled from only with ``--logprobs-mode processed_logprobs`` or at temperature 1. In
training the name is whatever the server gives: TRL sends it the weights before each step.
"""

import asyncio
from typing import Any

import httpx

from slca.errors import MissingDependency, ParamsError
from slca.rollouts.generator import Turn
from slca.rollouts.vllm_turns import VllmTurns

_WAITS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each further try."""

_TIMEOUT = httpx.Timeout(600.0, connect=10.0)
"""Seconds; a turn may wait for its place behind many others."""

_MOMENT = 0.1
"""Seconds that one step waits for an answer."""


class VllmServerGenerator(VllmTurns):
    """A ``slca.rollouts.generator.Generator``. model: the name by which the server must know the policy; "" takes its only one.

    positions: the context that is needed. rows: requests under way at once; more wait in order. Raises MissingDependency where no
    server answers, ParamsError where it serves something else.
    """

    def __init__(self, url: str, model: str, positions: int, stop_ids: frozenset[int], temperature: float, rows: int) -> None:
        super().__init__(stop_ids, temperature)
        self._url = base_url(url)
        self._model = self._checked(model, positions)
        self._rows = rows
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[tuple[int, Turn]]] = set()

    def _checked(self, model: str, positions: int) -> str:
        """The name of the model, if it is there and takes ``positions`` tokens."""
        served = models_at(self._url, model)
        name = model or next(iter(served), "")
        if name not in served:
            raise ParamsError(
                f"rollouts.vllm_url: the server at {self._url} serves {', '.join(served) or 'nothing'}, and {name or 'a model'} "
                f"is needed; start it with: vllm serve {name}, or name what it serves with --served-model-name {name}."
            )
        most = served[name]
        if most is not None and most < positions:
            raise ParamsError(
                f"rollouts.vllm_url: the server at {self._url} takes {most} tokens of {name}, and rollouts may have "
                f"{positions}; set rollouts.max_context: {most}, or start the server with --max-model-len {positions}."
            )
        return name

    def drop(self, key: int) -> None:
        super().drop(key)
        if not self._conversations:
            self._close()

    def _ask(self, key: int, ids: list[int], sampling: dict[str, Any]) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            limits = httpx.Limits(max_connections=self._rows, max_keepalive_connections=self._rows)
            self._client = httpx.AsyncClient(base_url=self._url, timeout=_TIMEOUT, limits=limits)
            self._slots = asyncio.Semaphore(self._rows)
        body = {"model": self._model, "prompt": list(ids), **sampling, "return_token_ids": True, "add_special_tokens": False}
        self._tasks.add(self._loop.create_task(self._turn(key, body)))

    def step(self) -> list[tuple[int, Turn]]:
        assert self._loop is not None
        try:
            waiting = asyncio.wait(self._tasks, timeout=_MOMENT, return_when=asyncio.FIRST_COMPLETED)
            done, pending = self._loop.run_until_complete(waiting)
            ended = sorted((task.result() for task in done), key=lambda one: one[0])
            self._tasks = pending
            return ended
        except BaseException:
            self._close()
            raise

    async def _turn(self, key: int, body: dict[str, Any]) -> tuple[int, Turn]:
        async with self._slots:
            response = await self._response(body)
        if response.status_code >= 400:
            reason = " ".join(response.text.split())[:300]
            raise ParamsError(f"rollouts.vllm_url: {self._url} refuses a request ({response.status_code}: {reason}).")
        try:
            choice = response.json()["choices"][0]
            ids, logprobs = list(choice["token_ids"]), list(choice["logprobs"]["token_logprobs"])
        except (KeyError, IndexError, TypeError, ValueError):
            raise ParamsError(
                f"rollouts.vllm_url: {self._url} answers without token ids and log-probs; vLLM 0.22 or later is needed."
            ) from None
        return key, self._answered(key, ids, logprobs)

    async def _response(self, body: dict[str, Any]) -> httpx.Response:
        """The server's answer, good or bad; tried again where it is none or the server is in trouble."""
        problem = ""
        for wait in (*_WAITS, None):
            try:
                response = await self._client.post("/v1/completions", json=body)
            except httpx.TransportError as error:
                problem = _sentence(error)
            else:
                if response.status_code < 500 and response.status_code not in (408, 429):
                    return response
                problem = f"status {response.status_code}"
            if wait is not None:
                await asyncio.sleep(wait)
        raise MissingDependency(
            f"rollouts.vllm_url: the vLLM server at {self._url} failed {len(_WAITS) + 1} times in a row ({problem}); start it "
            "again and repeat the command, which continues from what is finished."
        )

    def _close(self) -> None:
        """Give up what is under way, and the connections. The next request opens them again."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.run_until_complete(self._give_up())
            loop.close()

    async def _give_up(self) -> None:
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.aclose()


def base_url(url: str) -> str:
    """The server's root, of which clients of OpenAI's API name the folder /v1."""
    return url.rstrip("/").removesuffix("/v1")


def models_at(url: str, model: str = "") -> dict[str, int | None]:
    """What a server serves, with the context of each, if it says so. model: what the user is told to start it with."""
    url = base_url(url)
    try:
        listed = httpx.get(f"{url}/v1/models", timeout=_TIMEOUT).raise_for_status().json()["data"]
        return {card["id"]: card.get("max_model_len") for card in listed}
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise MissingDependency(
            f"rollouts.vllm_url: no vLLM server answers at {url} ({_sentence(error)}); start one with: vllm serve "
            f"{model or 'models/warmstart'} --logprobs-mode processed_logprobs."
        ) from None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ParamsError(f"rollouts.vllm_url: what answers at {url} is no vLLM server: it lists no models.") from None


def _sentence(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
