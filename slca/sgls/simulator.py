"""SGLS, the simulated service behind the tools of one task (method section 5).

Every call passes, in this order: tool of this task's list; arguments are a JSON object; full schema validation; injected faults;
the declared behaviour, executed in code; a backend, through the cache, for required values that the state does not define;
validation of the output, with at most ``MAX_REPAIRS`` repairs. What a policy does is never an exception: it reads a typed error
result.

Departures from the published simulator: state, types, output schemas, a cache and a seed (method section 5). Arguments are
executed in one spelling, whole floats as ints and strings in Unicode NFC, so that equal calls have equal effects; an attempt
keeps them as given.
"""

import json
import unicodedata
from collections.abc import Sequence
from typing import Any

from slca.files import canonical_json, digest
from slca.params import Simulator
from slca.records import Attempt, CallError, Json, State
from slca.sgls import validation
from slca.sgls.backends import BACKENDS, Request
from slca.sgls.behaviours import Refusal, execute
from slca.sgls.cache import Cache, cache_key
from slca.sgls.completion import completed
from slca.sgls.faults import EMPTY_PAGE, MESSAGES, draw_fault
from slca.sgls.tool import Tool, refuse_duplicates

MAX_REPAIRS = 3

DEFAULT_OUTPUT: dict[str, Any] = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
"""What a tool with neither behaviour nor output schema answers: one short word with a number."""


def error_result(error: CallError, message: str) -> dict[str, Json]:
    """What the policy reads instead of a result."""
    return {"error": {"type": error.value, "message": message}}


def render_result(result: Json, limit: int) -> str:
    """Compact JSON of at most ``limit`` characters; a longer text loses its middle, and says how many characters that was."""
    text = json.dumps(result, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if len(text) <= limit:
        return text
    cut = len(text) - limit
    while True:  # a longer marker needs a longer cut; this ends, since the cut grows and its number of digits hardly does
        marker = f"...[{cut} characters cut]..."
        kept = limit - len(marker)
        if kept < 0:
            return text[:limit]
        if len(text) - kept == cut:
            return text[: kept - kept // 2] + marker + text[len(text) - kept // 2 :]
        cut = len(text) - kept


class Session:
    """One task's service during one rollout.

    session: what faults are seeded with; members of a group that should meet the same faults share it. cache: shared by sessions,
    on disk if wanted; None: one of its own, in the mode of ``params.cache``. Raises ToolError for a duplicated tool name.
    """

    def __init__(self, tools: Sequence[Tool], state: State, params: Simulator, session: str, cache: Cache | None = None) -> None:
        refuse_duplicates(tools, "the task's tool list")
        self._tools = {tool.name: tool for tool in tools}
        self._state = state
        self._params = params
        self._session = session
        self._cache = cache if cache is not None else Cache(params.cache)
        self._backend = BACKENDS[params.backend]()
        self._made: dict[str, int] = {}
        self._faults = 0
        self._failed = False

    @property
    def state(self) -> State:
        return self._state

    @property
    def faults(self) -> int:
        """Injected faults so far."""
        return self._faults

    @property
    def failed(self) -> bool:
        """Whether some call found no valid result: the rollout is to be masked."""
        return self._failed

    def end_state(self) -> str:
        """Digest of the state as it is now."""
        return digest(self._state)

    def call(self, name: Json, arguments: Json) -> Attempt:
        """Execute one call, or refuse it with a typed error.

        Raises DataError only, and only for the cache: an answer missing in replay mode, or a damaged file.
        """
        label = _storable(name) if isinstance(name, str) else None
        stored = arguments if _is_json(arguments) else None

        def refused(error: CallError, message: str) -> Attempt:
            return Attempt(label, stored, error, error_result(error, message))

        if not isinstance(name, str):
            return refused(CallError.MALFORMED, f"name must be a string, not {validation.type_name(name)}.")
        tool = self._tools.get(name)
        if tool is None:
            return refused(CallError.UNKNOWN_TOOL, f"there is no tool named {str(label)[:64]!r} here.")
        if not isinstance(arguments, dict):
            return refused(CallError.INVALID_ARGUMENTS, f"arguments must be an object, not {validation.type_name(arguments)}.")
        if stored is None:
            return refused(CallError.INVALID_ARGUMENTS, "arguments hold NaN, infinity or broken text.")
        given: dict[str, Json] = _one_spelling(arguments)
        try:
            problem = validation.fault(validation.validator(tool.parameters), given, "arguments")
            if problem is not None:
                return refused(CallError.INVALID_ARGUMENTS, problem)
            fault = self._fault(tool, given)
            if fault is not None:
                self._faults += 1
                if fault == EMPTY_PAGE and tool.behaviour is not None:
                    return Attempt(name, arguments, CallError.FAULT, {str(tool.behaviour.result): []})
                return refused(CallError.FAULT, MESSAGES[fault])
            result, state = self._answer(tool, given)
        except Refusal as refusal:
            return refused(refusal.error, refusal.message)
        except (_Unanswered, validation.Unusable) as failure:
            self._failed = True
            return refused(CallError.SIMULATOR_FAILURE, str(failure))
        self._state = state
        return Attempt(name, arguments, None, result)

    def _fault(self, tool: Tool, arguments: dict[str, Json]) -> str | None:
        if not self._params.fault_rate:
            return None
        call = canonical_json([tool.name, arguments])
        occurrence = self._made.get(call, 0)
        self._made[call] = occurrence + 1
        searches = tool.behaviour is not None and tool.behaviour.kind == "search"
        return draw_fault(self._params.fault_rate, self._params.seed, self._session, tool.name, arguments, occurrence, searches)

    def _answer(self, tool: Tool, arguments: dict[str, Json]) -> tuple[Json, State]:
        """The validated result and the state after it. Raises Refusal, _Unanswered."""
        output = DEFAULT_OUTPUT if tool.output is None else tool.output
        if tool.behaviour is None:
            key = {"name": tool.name, "description": tool.description, "parameters": tool.parameters, "output": output}
            result = self._filled(key, output, [tool.name, arguments], arguments, self._state)
            return result, self._state
        outcome = execute(tool, arguments, self._state)
        if tool.output is None:
            return outcome.result, outcome.state
        result = completed(tool, outcome.result, arguments, self._fill_record)
        problem = validation.fault(validation.validator(output), result, "result")
        if problem is not None:
            raise _Unanswered(f"{tool.name} has no valid result: {problem}")
        return result, outcome.state

    def _fill_record(self, schema: dict[str, Any], subject: Json, arguments: dict[str, Json], record: Json) -> Json:
        return self._filled(schema, schema, subject, arguments, record)

    def _filled(self, key_schema: Json, schema: dict[str, Any], subject: Json, arguments: dict[str, Json], state: Json) -> Json:
        """A backend's valid answer, from the cache where it is known. Raises _Unanswered after the last repair."""
        backend, seed = self._backend, self._params.seed
        compiled = validation.validator(schema)

        def ask() -> Json:
            problem = ""
            for repair in range(MAX_REPAIRS + 1):
                value = backend.fill(Request(schema, subject, arguments, state, seed, repair, problem))
                fault = validation.fault(compiled, value, "result")
                if fault is None:
                    return value
                problem = fault
            raise _Unanswered(f"no valid result was found: {problem}")

        key = cache_key(key_schema, subject, state, backend.name, backend.model, backend.prompt_version, seed)
        return self._cache.answer(key, ask)


class _Unanswered(Exception):
    """No valid result could be made."""


def _is_json(value: Json) -> bool:
    """Whether ``value`` can be stored: no NaN or infinity, no lone surrogate, no nesting beyond what JSON writers take."""
    try:
        canonical_json(value).encode()
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _one_spelling(value: Json) -> Json:
    """Whole floats as ints (JSON knows one number type), strings in Unicode NFC; keys stay."""
    if isinstance(value, str):
        return value if value.isascii() else unicodedata.normalize("NFC", value)
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, list):
        return [_one_spelling(item) for item in value]
    if isinstance(value, dict):
        return {key: _one_spelling(item) for key, item in value.items()}
    return value
