"""A user behind any server with an OpenAI-compatible ``/chat/completions``, with upstream's own prompt and guidelines.

The official client does the talking, as for the simulator and the judge (``slca.openai_client``).
Requests are made in this process and wait side by side; the process that runs tau2 reaches no network. Answers repeat with
the seed as far as the server honours it. A server that fails is an infrastructure failure of the simulation, never a score.
"""

import json
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import openai

from slca.benchmarks.tau2.protocol import Answer, Case, Message, Question
from slca.files import derive_seed
from slca.openai_client import new_client
from slca.records import Call

_TIMEOUT = 120.0
_RETRIES = 2


class OpenAiUser:
    """model, url: as the server knows them. concurrency: requests under way at once."""

    def __init__(self, model: str, url: str, temperature: float, seed: int, concurrency: int) -> None:
        self._model = model
        self._url = url
        self._temperature = temperature
        self._seed = seed
        self._client = new_client(url, _TIMEOUT, _RETRIES)
        self._pool = ThreadPoolExecutor(concurrency, "tau2 user")
        self._asked: dict[int, Future[Answer]] = {}

    def ask(self, key: int, case: Case, trial: int, question: Question) -> None:
        seed = derive_seed("tau2 user", self._seed, case.domain, case.task_id, trial, len(question.messages))
        self._asked[key] = self._pool.submit(self._answer, question, seed)

    def answers(self) -> list[tuple[int, Answer]]:
        done = [key for key, future in self._asked.items() if future.done()]
        return [(key, self._asked.pop(key).result()) for key in done]

    def drop(self, key: int) -> None:
        future = self._asked.pop(key, None)
        if future is not None:
            future.cancel()

    @property
    def working(self) -> bool:
        return any(future.done() for future in self._asked.values())

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _answer(self, question: Question, seed: int) -> Answer:
        chosen: dict[str, Any] = {}
        if question.tools:
            chosen["tools"] = [{"type": "function", "function": dict(tool)} for tool in question.tools]
        try:
            completion = self._client.chat.completions.create(
                model=self._model,
                messages=[_shown(message) for message in question.messages],  # type: ignore[misc]
                seed=seed >> 32,  # servers vary in width
                temperature=self._temperature,
                **chosen,
            )
        except openai.OpenAIError as error:
            return Answer(failure=f"{self._url}: {' '.join(str(error).split())[:200] or type(error).__name__}")
        except ValueError:  # what the client lets through for a body that is not JSON
            return Answer(failure=f"{self._url} sends what is no chat completion")
        return _read(completion)


def _shown(message: Message) -> dict[str, Any]:
    if message["role"] == "tool":
        return {"role": "tool", "tool_call_id": message["id"], "content": message["content"] or ""}
    shown = {"role": message["role"], "content": message["content"]}
    if message.get("calls"):
        shown["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["arguments"], ensure_ascii=False)},
            }
            for call in message["calls"]
        ]
    return shown


def _read(completion: Any) -> Answer:
    """What the user says. The client passes on whatever the server sent, so nothing of it is taken for granted."""
    try:
        message = completion.choices[0].message
        calls = []
        for called in message.tool_calls or ():
            arguments = json.loads(called.function.arguments or "{}")
            if not isinstance(arguments, dict):
                raise ValueError("arguments are no object")
            calls.append(Call(str(called.function.name), arguments))
        content = message.content
    except (AttributeError, IndexError, TypeError, ValueError, RecursionError):
        return Answer(failure="the user's server sends what is no chat completion")
    if content is not None and not isinstance(content, str):
        return Answer(failure="the user's server sends a message without text")
    return Answer(None if calls else content, tuple(calls))
