"""A task's gold plan, executed: what a flawless policy would do, with the results it would read.

The warm start's demonstrations, the benchmarks' references and the check of the tasks stage all come from here.
"""

import json
from collections.abc import Sequence
from functools import lru_cache

from slca import params
from slca.errors import DataError
from slca.files import canonical_json
from slca.records import Attempt, Plan, State, Step, Task
from slca.sgls.cache import Cache
from slca.sgls.simulator import Session
from slca.sgls.tool import Tool, load_tool


def gold_steps(task: Task, simulator: params.Simulator, cache: Cache | None = None) -> tuple[tuple[Step, ...], str]:
    """The gold plan's steps with their results, the reply as last step, and the digest of the end state.

    The text of call turns is empty (a chat format renders it), that of the last step is the reference reply. No faults are
    injected. Raises DataError that names the task and the call which cannot be executed.
    """
    tools = [_tool(canonical_json(definition)) for definition in task.tools]
    attempts, end_state = run_plan(tools, task.state, task.gold, simulator, cache)
    for step in attempts:
        for attempt in step:
            if attempt.error is not None:
                raise DataError(f"Task {task.task_id}: the gold call {attempt.name} fails ({attempt.error}: {attempt.result}).")
    return (*(Step("", step) for step in attempts), Step(task.reply)), end_state


def run_plan(
    tools: Sequence[Tool], state: State, plan: Plan, simulator: params.Simulator, cache: Cache | None = None
) -> tuple[tuple[tuple[Attempt, ...], ...], str]:
    """The attempts of each step of ``plan``, failed ones included, and the digest of the state afterwards; without faults."""
    session = Session(tools, state, _faultless(simulator), session="gold", cache=cache)
    attempts = tuple(tuple(session.call(call.name, call.arguments) for call in step) for step in plan)
    return attempts, session.end_state()


def _faultless(simulator: params.Simulator) -> params.Simulator:
    return simulator.model_copy(update={"fault_rate": 0.0, "fault_rates": {}})


@lru_cache(maxsize=4096)
def _tool(definition: str) -> Tool:
    return load_tool(json.loads(definition), "task")
