"""Backend ``openai``: any server with an OpenAI-compatible ``/chat/completions`` (method section 5, step 4).

The official client does the talking (``slca.openai_client``). At most ``simulator.concurrency`` requests of this process are
under way at once, waiting tries included. The published settings are temperature 0.6, 4,096 tokens, 2 retries.

Servers differ in the answer formats that they take. The output schema is sent as ``response_format``; one that is refused is
asked for as any JSON object, then as plain text, and the simulator's validation and repairs see to the rest. Answers repeat with
the seed as far as the server honours it; the cache repeats them in any case.
"""

from collections.abc import Iterator
from threading import BoundedSemaphore
from typing import Any

from slca.files import canonical_json, derive_seed
from slca.openai_client import Failed, Refused, completion, first_choice, new_client
from slca.params import Simulator
from slca.records import Json
from slca.sgls.backends.base import BackendFailure, Request, Unreadable
from slca.sgls.backends.prompt import messages, read_answer, version


class OpenAiBackend:
    name = "openai"
    remembers = True

    def __init__(self, params: Simulator) -> None:
        self.model = params.model
        self.prompt_version = version(params.temperature, params.max_tokens)
        self._params = params
        self._slots = BoundedSemaphore(params.concurrency)
        self._refused: set[tuple[str, str]] = set()
        self._client = new_client(params.base_url, params.timeout, params.retries)

    def fill(self, request: Request) -> Json:
        with self._slots:
            return _answer(self._completion(request))

    def _completion(self, request: Request) -> Any:
        """The server's completion in the narrowest format that it takes.

        A format is remembered as refused for the schema once another one was taken: then it was the format that was at fault.
        """
        schema = canonical_json(request.schema)
        refused: list[tuple[str, str]] = []
        problem = ""
        for kind, response_format in _formats(request.schema):
            if (kind, schema) in self._refused:
                continue
            try:
                answered = self._asked(request, response_format)
            except Refused as error:
                refused.append((kind, schema))
                problem = str(error)
            except Failed as error:
                raise BackendFailure(str(error)) from None
            else:
                self._refused.update(refused)
                return answered
        raise BackendFailure(problem)

    def _asked(self, request: Request, response_format: dict[str, Any] | None) -> Any:
        chosen: dict[str, Any] = {} if response_format is None else {"response_format": response_format}
        return completion(
            self._client,
            model=self.model,
            messages=messages(request),
            seed=derive_seed("openai backend", request.seed, request.subject, request.repair) >> 32,  # servers vary in width
            temperature=self._params.temperature,
            max_tokens=self._params.max_tokens,
            **chosen,
        )


def _formats(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Answer formats to try, the narrowest first, by name; the last is plain text."""
    for strict in (True, False):
        if not strict or (schema.get("type") == "object" and _is_strict(schema)):
            described = {"name": "result", "schema": schema, "strict": strict}
            yield f"json_schema strict={strict}", {"type": "json_schema", "json_schema": described}
    if schema.get("type") == "object":
        yield "json_object", {"type": "json_object"}
    yield "text", None


def _is_strict(schema: Json) -> bool:
    """Whether every object inside requires all of its properties and allows no others, as strict mode wants."""
    if isinstance(schema, list):
        return all(_is_strict(part) for part in schema)
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
            return False
    return all(_is_strict(part) for key, part in schema.items() if key not in ("enum", "const", "default", "examples"))


def _answer(answered: Any) -> Json:
    """The JSON value that a completion holds. Raises Unreadable, BackendFailure for what is no completion."""
    try:
        choice = first_choice(answered)
    except Failed as error:
        raise BackendFailure(str(error)) from None
    if choice.finish_reason == "length":
        raise Unreadable("the answer is longer than the tokens that it may have.")
    content = choice.message.content
    if not isinstance(content, str):
        raise Unreadable("the answer has no text.")
    return read_answer(content)
