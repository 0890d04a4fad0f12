"""SGLS, the simulated service behind the tools of one task (method section 5).

Every call passes, in this order: tool of this task's list; arguments are a JSON object; full schema validation; injected faults;
the declared behaviour, executed in code; a backend, through the cache, for required values that the state does not define;
validation of the output, with at most ``MAX_REPAIRS`` repairs. What a policy does is never an exception: it reads a typed error
result.

Departures from the published simulator: state, types, output schemas, a cache and a seed (method section 5). Arguments are
executed in one spelling, whole floats as ints and strings in Unicode NFC, so that equal calls have equal effects; an attempt
keeps them as given.
"""

import copy
import json
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any

from jsonschema.protocols import Validator

from slca.files import canonical_json, derive_seed, digest
from slca.params import Simulator
from slca.records import Attempt, CallError, Json, State
from slca.sgls import validation
from slca.sgls.backends import BACKENDS, BackendFailure, Request, Unreadable
from slca.sgls.behaviours import Refusal, execute, nothing_found
from slca.sgls.cache import Cache, Question
from slca.sgls.completion import completed
from slca.sgls.faults import EMPTY_PAGE, SLOW, Fault, draw_fault, rate_of
from slca.sgls.regexes import TooCostly
from slca.sgls.tool import Tool, refuse_duplicates

MAX_REPAIRS = 3
LONGEST_NAME = 256
"""Characters of an unknown tool's name that are kept."""

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


@dataclass(frozen=True)
class Answer:
    """What came of one call. fault: the injected one that it met, whose delay or retry-after a server acts out."""

    attempt: Attempt
    fault: Fault | None = None


@dataclass(frozen=True)
class Counts:
    """What a session did since it was made. errors: by ``CallError``; faults: by kind; hits, misses: of the cache, one for each
    value wanted of a backend; questions: put to the backend; repairs: those of them that followed a refused answer."""

    calls: int
    errors: dict[str, int]
    faults: dict[str, int]
    hits: int
    misses: int
    questions: int
    repairs: int


class Session:
    """One task's service during one rollout; calls from several threads follow one another.

    session: what faults are seeded with; members of a group that should meet the same faults share it. cache: shared by sessions,
    on disk if wanted; None: one of its own, as ``params`` asks. Raises ToolError for a duplicated tool name.

    Invariant: the same call in the same state answers the same, in any session, process and order of other calls. For a backend
    that remembers, what it answered before is part of the state, and a call that it has answered in this state is not put to it
    again.
    """

    def __init__(self, tools: Sequence[Tool], state: State, params: Simulator, session: str, cache: Cache | None = None) -> None:
        refuse_duplicates(tools, "the task's tool list")
        self._tools = {tool.name: tool for tool in tools}
        self._initial = state
        self._params = params
        self._session = session
        self._cache = cache if cache is not None else Cache.of(params)
        self._backend = BACKENDS[params.backend](params)
        self._prepared: dict[str, _Prepared] = {}
        self._lock = RLock()
        self._begin()
        self._clear_counts()

    def _begin(self) -> None:
        self._state = self._initial
        self._digest = ""
        self._made: Counter[int] = Counter()
        self._remembered: dict[str, tuple[str, Json]] = {}
        self._failed = False

    def _clear_counts(self) -> None:
        self._tally: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._fault_kinds: Counter[str] = Counter()

    @property
    def state(self) -> State:
        """The records as they are now; not to be changed."""
        return self._state

    @property
    def faults(self) -> int:
        """Injected faults so far."""
        return self._fault_kinds.total()

    @property
    def failed(self) -> bool:
        """Whether some call found no valid result: the rollout is to be masked."""
        return self._failed

    @property
    def counts(self) -> Counts:
        with self._lock:
            tally = {name: self._tally[name] for name in ("calls", "hits", "misses", "questions", "repairs")}
            return Counts(errors=dict(self._errors), faults=dict(self._fault_kinds), **tally)

    def end_state(self) -> str:
        """Digest of the state as it is now."""
        with self._lock:
            if not self._digest:
                self._digest = digest(self._state)
            return self._digest

    def reset(self) -> None:
        """Back to how the session began, faults included; its counts go on."""
        with self._lock:
            self._begin()

    def fork(self) -> "Session":
        """An independent session that goes on from here: same calls, same answers and faults. Its counts begin at 0."""
        with self._lock:
            fork = copy.copy(self)
            fork._lock = RLock()
            fork._prepared = dict(self._prepared)
            fork._made = Counter(self._made)
            fork._remembered = dict(self._remembered)
        fork._clear_counts()
        return fork

    def call(self, name: Json, arguments: Json) -> Attempt:
        """Execute one call, or refuse it with a typed error. Raises as ``answer``."""
        return self.answer(name, arguments).attempt

    def answer(self, name: Json, arguments: Json) -> Answer:
        """Execute one call, or refuse it with a typed error; with the fault that it met.

        Raises DataError only, and only for the cache: an answer missing in replay mode, or a damaged file.
        """
        with self._lock:
            answer = self._answered(name, arguments)
            self._tally["calls"] += 1
            if answer.attempt.error is not None:
                self._errors[answer.attempt.error.value] += 1
            if answer.fault is not None:
                self._fault_kinds[answer.fault.kind] += 1
            return answer

    def _answered(self, name: Json, arguments: Json) -> Answer:
        label = _storable(name[:LONGEST_NAME]) if isinstance(name, str) else None
        problem = validation.unfit(arguments)
        stored = arguments if problem is None else None
        fault: Fault | None = None

        def refused(error: CallError, message: str) -> Answer:
            return Answer(Attempt(label, stored, error, error_result(error, message)), fault)

        if not isinstance(name, str):
            return refused(CallError.MALFORMED, f"name must be a string, not {validation.type_name(name)}.")
        tool = self._tools.get(name)
        if tool is None:
            return refused(CallError.UNKNOWN_TOOL, f"there is no tool named {str(label)[:64]!r} here.")
        if not isinstance(arguments, dict):
            return refused(CallError.INVALID_ARGUMENTS, f"arguments must be an object, not {validation.type_name(arguments)}.")
        if problem is not None:
            return refused(CallError.INVALID_ARGUMENTS, f"arguments: {problem}.")
        given: dict[str, Json] = _one_spelling(arguments)
        try:
            told = self._of(tool).objection(given)
            if told is not None:
                return refused(CallError.INVALID_ARGUMENTS, told)
            fault = self._fault(tool, given)
            if fault is not None and fault.kind == EMPTY_PAGE and tool.behaviour is not None:
                try:
                    page = self._shown(tool, nothing_found(tool.behaviour), given, as_it_is=True)
                    return Answer(Attempt(name, arguments, CallError.FAULT, page), fault)
                except _Unanswered:
                    fault = None  # the output schema allows no empty page; the call goes on
            if fault is not None and fault.kind != SLOW:
                return refused(CallError.FAULT, fault.message)
            result, state = self._executed(tool, given)
        except Refusal as refusal:
            return refused(refusal.error, refusal.message)
        except (_Unanswered, BackendFailure, validation.Unusable, TooCostly) as failure:
            self._failed = True
            return refused(CallError.SIMULATOR_FAILURE, str(failure))
        if state is not self._state:
            self._state, self._digest = state, ""
        return Answer(Attempt(name, arguments, None, result), fault)

    def _of(self, tool: Tool) -> "_Prepared":
        if tool.name not in self._prepared:
            self._prepared[tool.name] = _Prepared(tool)
        return self._prepared[tool.name]

    def _fault(self, tool: Tool, arguments: dict[str, Json]) -> Fault | None:
        params = self._params
        rate = rate_of(params, tool.name)
        if not rate:
            return None
        call = derive_seed(tool.name, arguments)
        occurrence = self._made[call]
        self._made[call] += 1
        searches = tool.behaviour is not None and tool.behaviour.kind == "search"
        return draw_fault(rate, params.fault_kinds, params.seed, self._session, tool.name, arguments, occurrence, searches)

    def _executed(self, tool: Tool, arguments: dict[str, Json]) -> tuple[Json, State]:
        """The validated result and the state after it. Raises Refusal, BackendFailure, _Unanswered."""
        if tool.behaviour is not None:
            outcome = execute(tool, arguments, self._state)
            return self._shown(tool, outcome.result, arguments), outcome.state
        prepared, subject = self._of(tool), [tool.name, arguments]
        question = self._question(tool, prepared.digest, subject, self.end_state())
        request = Request(prepared.output, subject, arguments, self._state, self._params.seed, prepared.definition)
        return self._filled(question, request, arguments), self._state

    def _shown(self, tool: Tool, result: Json, arguments: dict[str, Json], as_it_is: bool = False) -> Json:
        """A behaviour's result, completed to what the output schema promises, and validated.

        as_it_is: what the result holds is not replaced where the schema refuses it.
        """
        if tool.output is None:
            return result
        prepared, call = self._of(tool), [tool.name, arguments]

        def fill(schema: dict[str, Any], subject: Json, given: dict[str, Json], record: Json) -> Json:
            # What is filled into a record depends on the record alone, or the call that shows it first would decide.
            known = given if subject == call else {}
            question = self._question(tool, digest(schema), subject, digest(record))
            request = Request(schema, subject, known, record, self._params.seed, prepared.definition)
            return self._filled(question, request, arguments)

        problem = ""
        for careful in (False,) if as_it_is else (False, True):
            whole = completed(tool, result, arguments, fill, careful, prepared.result)
            told = _problem(prepared.result, whole)
            if told is None:
                return whole
            problem = told
        raise _Unanswered(f"{tool.name} has no valid result: {problem}")

    def _question(self, tool: Tool, schema: str, subject: Json, state: str) -> Question:
        backend = self._backend
        return Question(tool.name, schema, subject, state, backend.name, backend.model, backend.prompt_version, self._params.seed)

    def _filled(self, question: Question, request: Request, arguments: dict[str, Json]) -> Json:
        """A backend's valid answer, cached. Raises _Unanswered after the last repair, BackendFailure."""
        if not self._backend.remembers:
            return self._cached(question, request)
        place = question.key
        if place in self._remembered:
            self._tally["hits"] += 1
            return json.loads(self._remembered[place][1])
        # Distinct, and in an order that does not tell which call came first.
        earlier = tuple(json.loads(text) for text in sorted({text for text, _ in self._remembered.values()}))
        answer = self._cached(replace(question, earlier=digest(earlier)), replace(request, earlier=earlier))
        entry = canonical_json([question.tool, arguments, answer])
        self._remembered[place] = entry, json.dumps(answer, ensure_ascii=False)
        return answer

    def _cached(self, question: Question, request: Request) -> Json:
        asked = False

        def ask() -> Json:
            nonlocal asked
            asked = True
            return self._asked(request)

        try:
            return self._cache.answer(question, ask)
        finally:
            self._tally["misses" if asked else "hits"] += 1

    def _asked(self, request: Request) -> Json:
        compiled = validation.validator(request.schema)
        problem = ""
        for repair in range(MAX_REPAIRS + 1):
            self._tally["questions"] += 1
            self._tally["repairs"] += repair > 0
            try:
                value = self._backend.fill(replace(request, repair=repair, problem=problem))
                fault = _problem(compiled, value)
            except Unreadable as unreadable:
                fault = str(unreadable)
            if fault is None:
                return value
            problem = fault
        raise _Unanswered(f"no valid result was found: {problem}")


class _Prepared:
    """What every call to a tool needs, worked out once. Raises Unusable for a schema that cannot be evaluated."""

    def __init__(self, tool: Tool) -> None:
        self.output = DEFAULT_OUTPUT if tool.output is None else tool.output
        self.parameters: Validator = validation.validator(tool.parameters)
        self.result: Validator = validation.validator(self.output)
        key = {"name": tool.name, "description": tool.description, "parameters": tool.parameters, "output": self.output}
        self.digest = digest(key)
        self.definition = tool.to_json()

    def objection(self, arguments: dict[str, Json]) -> str | None:
        """Why the parameter schema refuses ``arguments``, in one short sentence; None if it does not. Raises Unusable."""
        try:
            return validation.fault(self.parameters, arguments, "arguments")
        except TooCostly as costly:
            return f"arguments: {costly}"


def _problem(compiled: Validator, value: Json) -> str | None:
    """Why ``value`` cannot be a result, in one short sentence; None if it can. Raises Unusable, TooCostly."""
    unfit = validation.unfit(value)
    return validation.fault(compiled, value, "result") if unfit is None else f"result: {unfit}."


class _Unanswered(Exception):
    """No valid result could be made."""


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
