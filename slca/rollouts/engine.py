"""The rollout engine: policy and simulated service take turns, and every token keeps its origin.

Tokens, labels and log-probs of a rollout grow together through one function, ``_Trajectory.add``; nothing is tokenised
twice and nothing is labelled afterwards. A rollout ends when the policy ends a turn without a call, or at a limit, which is
recorded as its finish reason.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from slca import params as p
from slca.chat import parse_calls
from slca.chat.segments import label_turn, relabel_last_run
from slca.errors import DataError
from slca.files import derive_seed
from slca.policy.model import Policy
from slca.records import Attempt, CallError, FinishReason, Rollout, Sampling, Segment, Step, Task
from slca.rollouts.sampler import TokenBatch, Turn, sample_turns
from slca.sgls.cache import Cache
from slca.sgls.simulator import Session, error_result, render_result
from slca.sgls.tool import load_tools


@dataclass(frozen=True)
class Request:
    """One rollout to make: member ``member`` of the group of ``task``."""

    task: Task
    member: int


@dataclass
class _Trajectory:
    request: Request
    session: Session
    prompt_ids: list[int]
    uniforms: np.ndarray
    ids: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    failures: int = 0
    finish: FinishReason | None = None

    def add(self, ids: Sequence[int], labels: Sequence[int], logprobs: Sequence[float]) -> None:
        """The only place where tokens join a rollout. Raises DataError where the three streams differ in length."""
        if not len(ids) == len(labels) == len(logprobs):
            raise DataError(
                f"Rollout of task {self.request.task.task_id}, member {self.request.member}: {len(ids)} tokens, "
                f"{len(labels)} labels and {len(logprobs)} log-probs; a rollout needs one of each per token."
            )
        self.ids.extend(ids)
        self.labels.extend(int(label) for label in labels)
        self.logprobs.extend(logprobs)

    @property
    def length(self) -> int:
        return len(self.prompt_ids) + len(self.ids)

    @property
    def sampled(self) -> int:
        return sum(label != Segment.ENV for label in self.labels)


class Engine:
    """Rolls tasks out with one policy. Deterministic: a rollout depends on policy, task, member and seed alone."""

    def __init__(
        self,
        policy: Policy,
        rollouts: p.Rollouts,
        simulator: p.Simulator,
        seed: int,
        temperature: float | None = None,
        tag: str = "",
    ) -> None:
        """tag: joins the task id in rollout ids, which are seeds too; a training step's tag keeps its rollouts apart."""
        self.policy = policy
        self.rollouts = rollouts
        self.simulator = simulator
        self.seed = seed
        self.temperature = rollouts.temperature if temperature is None else temperature
        self.tag = tag
        self.cache = Cache(simulator.cache)

    @torch.no_grad()
    def run(self, requests: Sequence[Request], progress: Callable[[int], None] | None = None) -> list[Rollout]:
        """The rollouts of ``requests``, in their order. ``progress`` is told how many have ended."""
        trajectories = [self._start(request) for request in requests]
        going = [t for t in trajectories if t.finish is None]
        if progress:
            progress(len(trajectories) - len(going))
        if going:
            batch = TokenBatch(self.policy.model, [t.prompt_ids for t in going])
        while going:
            limits = [self._turn_limit(t) for t in going]
            uniforms = [t.uniforms[t.sampled :] for t in going]
            turns = sample_turns(batch, uniforms, limits, self.temperature, self.policy.format.end_id)
            glue = [self._finish_turn(t, turn) for t, turn in zip(going, turns, strict=True)]
            rows = [row for row, t in enumerate(going) if t.finish is None]
            if progress:
                progress(len(going) - len(rows))
            going = [going[row] for row in rows]
            if going:
                batch.select(rows)
                batch.extend([glue[row] for row in rows])
        return [self._rollout(t) for t in trajectories]

    def _start(self, request: Request) -> _Trajectory:
        task = request.task
        tools = load_tools(task.tools, f"task {task.task_id}")
        prompt = self.policy.format.prompt_ids([{"role": "user", "content": task.question}], task.tools)
        seed = derive_seed("rollout", self.seed, task.task_id, request.member)
        limit = self.rollouts.max_turns * self.rollouts.max_turn_tokens
        # One session name per task, so that the same call in the same state answers the same in the whole group.
        session = Session(tools, task.state, self.simulator, session=task.task_id, cache=self.cache)
        trajectory = _Trajectory(request, session, prompt, np.random.Generator(np.random.Philox(seed)).random(limit))
        if len(prompt) >= self.policy.max_positions:
            trajectory.finish = FinishReason.CONTEXT
        return trajectory

    def _turn_limit(self, trajectory: _Trajectory) -> int:
        return min(self.rollouts.max_turn_tokens, self.policy.max_positions - trajectory.length)

    def _finish_turn(self, trajectory: _Trajectory, turn: Turn) -> list[int]:
        """Book a sampled turn, execute its calls, and return the glue that leads to the next turn ([] when it was the last)."""
        chat = self.policy.format
        labels = label_turn(turn.ids, chat.call_marker_ids, self.rollouts.mixed_turns, chat.blank_ids)
        trajectory.add(turn.ids, labels.tolist(), turn.logprobs)
        text = chat.decode(turn.ids[:-1] if turn.ended else turn.ids)
        attempts = self._execute(trajectory.session, text)
        trajectory.steps.append(Step(text, attempts))
        trajectory.finish = self._finish_reason(trajectory, turn, attempts)
        if trajectory.finish is not None:
            return []
        glue = chat.glue_ids([render_result(attempt.result, self.simulator.max_result_chars) for attempt in attempts])
        if trajectory.length + len(glue) >= self.policy.max_positions:
            trajectory.finish = FinishReason.CONTEXT
            return []
        trajectory.add(glue, [Segment.ENV] * len(glue), [0.0] * len(glue))
        return glue

    def _execute(self, session: Session, text: str) -> tuple[Attempt, ...]:
        """One result for every call marker that was opened; none is dropped in silence."""
        attempts = []
        for index, call in enumerate(parse_calls(text)):
            if call.error is not None:
                attempts.append(Attempt(call.name, call.arguments, call.error, error_result(call.error, call.message)))
            elif index >= self.simulator.max_parallel_calls:
                message = f"at most {self.simulator.max_parallel_calls} calls in one turn"
                result = error_result(CallError.OVER_LIMIT, message)
                attempts.append(Attempt(call.name, call.arguments, CallError.OVER_LIMIT, result))
            else:
                attempts.append(session.call(call.name, call.arguments))
        return tuple(attempts)

    def _finish_reason(self, trajectory: _Trajectory, turn: Turn, attempts: tuple[Attempt, ...]) -> FinishReason | None:
        if not turn.ended:
            cut_by_context = trajectory.length >= self.policy.max_positions
            return FinishReason.CONTEXT if cut_by_context else FinishReason.LENGTH
        if not attempts:
            return FinishReason.STOP
        failed = all(attempt.error not in (None, CallError.FAULT) for attempt in attempts)
        trajectory.failures = trajectory.failures + 1 if failed else 0
        if trajectory.failures >= self.rollouts.max_failures:
            return FinishReason.FAILURES
        return FinishReason.TURN_LIMIT if len(trajectory.steps) >= self.rollouts.max_turns else None

    def _rollout(self, t: _Trajectory) -> Rollout:
        assert t.finish is not None
        labels = relabel_last_run(t.labels).tolist() if self.rollouts.segments == "last_run" else t.labels
        task = t.request.task
        return Rollout(
            rollout_id=f"{task.task_id}{self.tag}/{t.request.member}",
            task_id=task.task_id,
            member=t.request.member,
            policy_version=self.policy.version,
            prompt_ids=tuple(t.prompt_ids),
            completion_ids=tuple(t.ids),
            labels=tuple(labels),
            logprobs=tuple(t.logprobs),
            steps=tuple(t.steps),
            finish_reason=t.finish,
            end_state=t.session.end_state(),
            faults=t.session.faults,
            simulator_failure=t.session.failed,
            sampling=Sampling(temperature=self.temperature, seed=self.seed),
        )
