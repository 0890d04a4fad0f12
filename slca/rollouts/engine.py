"""The rollout engine: policy and simulated service take turns, and every token keeps its origin.

Tokens, labels and log-probs of a rollout grow together through one function, ``_Trajectory.add``; nothing is tokenised
twice and nothing is labelled afterwards. A rollout ends when the policy ends a turn without a call, or at a limit, which is
recorded as its finish reason.

Rollouts are independent: while one's tools run, the others generate, and each goes on as soon as its own results are there. What
happens when (which rollouts are in a batch, which tool answers first) has no part in what a rollout becomes.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from slca import params as p
from slca.chat import Conversation, Parsed, ReadTurn
from slca.chat.segments import relabel_last_run
from slca.errors import DataError
from slca.files import derive_seed
from slca.policy.model import Policy
from slca.records import CallError, FinishReason, Rollout, Sampling, Segment, Step, Task
from slca.rollouts.calls import Attempts, Executor, threads_for
from slca.rollouts.generator import Generator, Turn, context, new_generator
from slca.sgls.cache import Cache
from slca.sgls.simulator import Session, render_result
from slca.sgls.tool import Tool, load_tools


@dataclass(frozen=True)
class Request:
    """One rollout to make: member ``member`` of the group of ``task``."""

    task: Task
    member: int


@dataclass
class _Trajectory:
    request: Request
    session: Session
    conversation: Conversation
    seed: int
    ids: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    call_of: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    turn: Turn | None = None
    read: ReadTurn | None = None
    failures: int = 0
    finish: FinishReason | None = None

    def add(self, ids: Sequence[int], labels: Sequence[int], logprobs: Sequence[float], call_of: Sequence[int]) -> None:
        """The only place where tokens join a rollout. Raises DataError where the four streams differ in length."""
        if not len(ids) == len(labels) == len(logprobs) == len(call_of):
            raise DataError(
                f"Rollout of task {self.request.task.task_id}, member {self.request.member}: {len(ids)} tokens, "
                f"{len(labels)} labels, {len(logprobs)} log-probs and {len(call_of)} call numbers; a rollout needs one of each "
                "per token."
            )
        self.ids.extend(ids)
        self.labels.extend(int(label) for label in labels)
        self.logprobs.extend(logprobs)
        self.call_of.extend(call_of)

    @property
    def length(self) -> int:
        return len(self.conversation.prompt_ids) + len(self.ids)


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
        self.context = context(policy, rollouts)
        self.cache = Cache.of(simulator)
        self.broken = 0
        """Turns so far after which a full render of the conversation was not what the policy saw."""

    def run(self, requests: Sequence[Request], progress: Callable[[int], None] | None = None) -> list[Rollout]:
        """The rollouts of ``requests``, in their order. ``progress`` is told how many have ended."""
        trajectories = self._start_all(requests)
        generator = self.generator()
        sampling = 0
        for key, trajectory in enumerate(trajectories):
            if trajectory.finish is None:
                limit = self._turn_limit(trajectory)
                generator.add(key, trajectory.conversation.prompt_ids, limit, trajectory.seed)
                sampling += 1
        going = sampling
        if progress:
            progress(len(trajectories) - going)
        with Executor(threads_for(self.simulator)) as executor:
            while going:
                for key, turn in generator.step() if sampling else []:
                    sampling -= 1
                    calls = self._book(trajectories[key], turn)
                    executor.start(key, trajectories[key].session, calls, self.simulator.max_parallel_calls)
                for key, attempts in executor.finished(wait_for_one=not sampling):
                    trajectory = trajectories[key]
                    glue = self._follow(trajectory, attempts)
                    if trajectory.finish is None:
                        generator.go_on(key, glue, self._turn_limit(trajectory))
                        sampling += 1
                    else:
                        generator.drop(key)
                        going -= 1
                        if progress:
                            progress(1)
        return [self._rollout(t) for t in trajectories]

    def generator(self) -> Generator:
        """What generates, by ``rollouts.generator``."""
        return new_generator(self.policy, self.rollouts, self.temperature, self.rollouts.max_rows)

    def _start_all(self, requests: Sequence[Request]) -> list[_Trajectory]:
        tasks = {id(request.task): request.task for request in requests}
        opened = {key: self._open(task) for key, task in tasks.items()}  # once for all members of a group
        return [self._start(request, *opened[id(request.task)]) for request in requests]

    def _open(self, task: Task) -> tuple[tuple[Tool, ...], Conversation]:
        """A task's tools, and the conversation that its rollouts begin with."""
        tools = load_tools(task.tools, f"task {task.task_id}")
        question = [{"role": "user", "content": task.question}]
        return tools, Conversation(self.policy.format, question, task.tools, self.rollouts.on_broken_prefix)

    def _start(self, request: Request, tools: tuple[Tool, ...], opening: Conversation) -> _Trajectory:
        task = request.task
        conversation = copy.copy(opening)
        # One session name per task, so that the same call in the same state answers the same in the whole group.
        session = Session(tools, task.state, self.simulator, session=task.task_id, cache=self.cache)
        seed = derive_seed("rollout", self.seed, task.task_id, request.member)
        trajectory = _Trajectory(request, session, conversation, seed)
        if trajectory.length >= self._room(trajectory):
            trajectory.finish = FinishReason.CONTEXT
        return trajectory

    def _room(self, trajectory: _Trajectory) -> int:
        """Tokens that prompt and response may have together."""
        allowed = self.rollouts.max_response_tokens
        return min(self.context, len(trajectory.conversation.prompt_ids) + allowed) if allowed else self.context

    def _turn_limit(self, trajectory: _Trajectory) -> int:
        return min(self.rollouts.max_turn_tokens, self._room(trajectory) - trajectory.length)

    def _book(self, trajectory: _Trajectory, turn: Turn) -> tuple[Parsed, ...]:
        """Book a sampled turn; its calls."""
        read = self.policy.format.read_turn(turn.ids, self.rollouts.mixed_turns)
        made = sum(len(step.attempts) for step in trajectory.steps)
        call_of = np.where(read.call_of >= 0, read.call_of + made, -1)
        trajectory.add(turn.ids, read.labels.tolist(), turn.logprobs, call_of.tolist())
        trajectory.turn, trajectory.read = turn, read
        return read.calls

    def _follow(self, trajectory: _Trajectory, attempts: Attempts) -> list[int]:
        """Book what came of the calls of the last turn; the glue that leads to the next one ([] when it was the last)."""
        turn, read = trajectory.turn, trajectory.read
        assert turn is not None and read is not None
        trajectory.steps.append(Step(read.text, attempts))
        trajectory.finish = self._finish_reason(trajectory, turn, attempts)
        if trajectory.finish is not None:
            return []
        results = [render_result(attempt.result, self.simulator.max_result_chars) for attempt in attempts]
        glue = trajectory.conversation.answer(turn.ids, read.calls, results)
        if trajectory.length + len(glue) >= self._room(trajectory):
            trajectory.finish = FinishReason.CONTEXT
            return []
        trajectory.add(glue, [Segment.ENV] * len(glue), [0.0] * len(glue), [-1] * len(glue))
        return glue

    def _finish_reason(self, trajectory: _Trajectory, turn: Turn, attempts: Attempts) -> FinishReason | None:
        if not turn.ended:
            cut_by_context = trajectory.length >= self._room(trajectory)
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
        self.broken += t.conversation.broken
        labels = relabel_last_run(t.labels).tolist() if self.rollouts.segments == "last_run" else t.labels
        task = t.request.task
        return Rollout(
            rollout_id=f"{task.task_id}{self.tag}/{t.request.member}",
            task_id=task.task_id,
            member=t.request.member,
            policy_version=self.policy.version,
            prompt_ids=tuple(t.conversation.prompt_ids),
            completion_ids=tuple(t.ids),
            labels=tuple(labels),
            logprobs=tuple(t.logprobs),
            # The paper's labels may call the tokens of a call SUMMARY.
            call_of=tuple(n if label == Segment.TOOL else -1 for n, label in zip(t.call_of, labels, strict=True)),
            steps=tuple(t.steps),
            finish_reason=t.finish,
            end_state=t.session.end_state(),
            faults=t.session.faults,
            simulator_failure=t.session.failed,
            sampling=Sampling(temperature=self.temperature, seed=self.seed),
        )
