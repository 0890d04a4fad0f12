"""The records that flow through the pipeline: tool -> task -> rollout -> score.

A *step* is one assistant turn; a *plan* is a list of steps, each a list of calls made in parallel. Records are
plain frozen dataclasses; ``slca.tables`` alone stores them.
"""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

Json = Any
"""A JSON value: None, bool, int, float, str, list or dict with string keys."""

State = dict[str, dict[str, dict[str, Json]]]
"""Entity name -> record id -> record: all that a simulated service remembers."""


class Segment(IntEnum):
    """Label of one completion token (method section 1)."""

    ENV = 0
    TOOL = 1
    SUMMARY = 2


class TaskKind(StrEnum):
    SINGLE = "single"  # one call
    PARALLEL = "parallel"  # several independent calls in one step
    CHAIN = "chain"  # an output feeds the next step's input
    DISTRACTORS = "distractors"  # one call, many similar tools in the list
    ABSTAIN = "abstain"  # no tool in the list fits: say so, call nothing
    MISSING = "missing"  # a required value is not given: ask, do not guess


class CallError(StrEnum):
    """Why a call attempt was refused. The value is the ``type`` that the policy reads in the error result."""

    MALFORMED = "malformed_call"  # the text between the markers is not a call
    UNCLOSED = "unclosed_call"  # the call marker was never closed
    UNKNOWN_TOOL = "unknown_tool"  # not in this task's list, whatever exists elsewhere
    INVALID_ARGUMENTS = "invalid_arguments"  # not an object, or the schema refuses them
    NOT_FOUND = "not_found"  # valid call about a record that does not exist
    CONFLICT = "conflict"  # valid call that the state does not allow
    OVER_LIMIT = "too_many_calls"  # beyond the calls allowed in one step
    FAULT = "fault"  # injected time-out, rate limit or server error; never held against the policy
    SIMULATOR_FAILURE = "simulator_failure"  # no valid result could be made; the rollout is masked


class FinishReason(StrEnum):
    """Why a rollout ended."""

    STOP = "stop"  # the policy ended a turn without a call
    LENGTH = "length"  # a turn hit its token limit
    TURN_LIMIT = "turn_limit"  # the last allowed turn still called tools
    CONTEXT = "context"  # the next tool result did not fit into the context
    FAILURES = "consecutive_failures"  # too many failing steps in a row


@dataclass(frozen=True)
class Call:
    """A well-formed tool call."""

    name: str
    arguments: dict[str, Json]

    def to_json(self) -> dict[str, Json]:
        return {"name": self.name, "arguments": self.arguments}

    @staticmethod
    def from_json(value: dict[str, Json]) -> "Call":
        return Call(value["name"], value["arguments"])


Plan = tuple[tuple[Call, ...], ...]
"""Steps of parallel calls; empty when the right thing is to call nothing."""


def plan_to_json(plan: Plan) -> list[list[dict[str, Json]]]:
    return [[call.to_json() for call in step] for step in plan]


def plan_from_json(value: list[list[dict[str, Json]]]) -> Plan:
    return tuple(tuple(Call.from_json(call) for call in step) for step in value)


@dataclass(frozen=True)
class Attempt:
    """One call marker that the policy opened, and what came of it.

    ``name`` and ``arguments`` are None where the text did not give them. ``error`` is None for a call that was
    executed. ``result`` is the JSON value that the policy read (an error object for refused calls).
    """

    name: str | None
    arguments: Json
    error: CallError | None = None
    result: Json = None

    @property
    def well_formed(self) -> bool:
        """Parsed, names a tool of the task, and its arguments validate: what HierR's format score counts."""
        return self.error not in (CallError.MALFORMED, CallError.UNCLOSED, CallError.UNKNOWN_TOOL, CallError.INVALID_ARGUMENTS)

    def to_json(self) -> dict[str, Json]:
        return {"name": self.name, "arguments": self.arguments, "error": self.error, "result": self.result}

    @staticmethod
    def from_json(value: dict[str, Json]) -> "Attempt":
        error = value["error"]
        return Attempt(value["name"], value["arguments"], CallError(error) if error else None, value["result"])


@dataclass(frozen=True)
class Step:
    """One assistant turn: the text as sampled (markers included) and its call attempts in order."""

    text: str
    attempts: tuple[Attempt, ...] = ()

    def to_json(self) -> dict[str, Json]:
        return {"text": self.text, "attempts": [attempt.to_json() for attempt in self.attempts]}

    @staticmethod
    def from_json(value: dict[str, Json]) -> "Step":
        return Step(value["text"], tuple(Attempt.from_json(attempt) for attempt in value["attempts"]))


@dataclass(frozen=True)
class Task:
    """One question with everything needed to roll it out and to score it.

    tools: definitions of *this* task's tool list, as ``slca.sgls.tool.Tool.to_json`` writes them.
    gold: the plan; empty when no call is right. facts: strings that a good reply states.
    reply: a reference reply. state: the service's initial state. end_state: digest of the state after the gold plan.
    """

    task_id: str
    kind: TaskKind
    question: str
    tools: tuple[dict[str, Json], ...]
    gold: Plan
    facts: tuple[str, ...]
    reply: str
    state: State
    end_state: str

    @property
    def needs_call(self) -> bool:
        return bool(self.gold)


@dataclass(frozen=True)
class Sampling:
    """How tokens were drawn. temperature 0 is greedy."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Rollout:
    """One trajectory, exactly as sampled.

    completion_ids, labels, logprobs and call_of have equal length T (tokens); labels holds ``Segment`` values; logprobs are
    natural logs under the sampling distribution, 0.0 on ENV tokens; call_of says which of ``attempts`` a TOOL token belongs to,
    -1 for none (everywhere, if it is not given). end_state: digest of the simulator's last state.
    """

    rollout_id: str
    task_id: str
    member: int
    policy_version: str
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    labels: tuple[int, ...]
    logprobs: tuple[float, ...]
    steps: tuple[Step, ...]
    finish_reason: FinishReason
    end_state: str
    faults: int = 0
    simulator_failure: bool = False
    sampling: Sampling = field(default_factory=Sampling)
    call_of: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.call_of:
            object.__setattr__(self, "call_of", (-1,) * len(self.completion_ids))

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return tuple(attempt for step in self.steps for attempt in step.attempts)

    @property
    def reply(self) -> str:
        """The text of the last turn if it called nothing and ended by itself, else empty."""
        if self.finish_reason is not FinishReason.STOP or not self.steps or self.steps[-1].attempts:
            return ""
        return self.steps[-1].text

    @property
    def sampled_tokens(self) -> int:
        return sum(label != Segment.ENV for label in self.labels)


@dataclass(frozen=True)
class Reward:
    """What HierR says of one rollout (method section 3).

    tool_score and summary_score are the two rewards that credit is computed from; None where they could not be
    computed, with the reason in ``masked`` ("" otherwise). The components are kept whichever reward is selected.
    call_steps, call_scores, correct, completeness, errors and malformed describe single calls (``slca.hierr.calls``).
    calls counts call attempts; redundancy = calls beyond the gold multiset / calls (0.0 without calls); repeats counts
    consecutive identical calls.
    """

    rollout_id: str
    task_id: str
    member: int
    kind: TaskKind
    tool_score: float | None
    summary_score: float | None
    masked: str
    needs_call: bool
    opened_call: bool
    has_reply: bool
    format: float
    name: float
    key: float
    value: float
    parallel: float
    process: float
    outcome: float
    success: bool
    call_steps: tuple[int, ...]
    call_scores: tuple[float, ...]
    correct: int
    completeness: float
    errors: int
    malformed: int
    calls: int
    redundancy: float
    repeats: int
    tool_turns: int
    sampled_tokens: int
    finish_reason: FinishReason


@dataclass(frozen=True)
class Trace:
    """One item of a benchmark as a policy met it, and its official verdict.

    category: BFCL's category or tau2's domain. trial: which of several tries of the item, from 0. score: the official reward,
    0..1; None where there is none, because the harness and not the policy failed (``error`` says how). error: the checker's
    reason for less than full marks, empty at full marks. finish: how the conversation ended. turns: what was said and called,
    in order, as JSON objects with a ``role``.
    """

    benchmark: str
    category: str
    item_id: str
    trial: int
    score: float | None
    error: str
    finish: str
    turns: tuple[dict[str, Json], ...]
    sampled_tokens: int

    @property
    def trace_id(self) -> str:
        return f"{self.benchmark}/{self.category}/{self.item_id}/{self.trial}"
