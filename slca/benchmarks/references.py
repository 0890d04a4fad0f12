"""What a score is read against: answers of no model at all.

``gold`` replays the published answers, ``do_nothing`` never calls, ``random_call`` makes one well-formed call of a tool that
was offered. Gold says what the harness can measure, the other two what a score is worth; the warm start is the fourth reference
and is evaluated like any checkpoint.

On our own tasks, each is a plan and a reply, executed by the simulator that policies meet and scored as a rollout is: gold is
the task's plan and its reference reply; the others say nothing, so their summary is worth nothing. None of them meets injected
faults, and none samples a token.
"""

import random
from collections.abc import Sequence

from slca import params as p
from slca.benchmarks import in_domain
from slca.files import derive_seed
from slca.records import Call, CallError, FinishReason, Plan, Rollout, State, Step, Task
from slca.sgls.cache import Cache
from slca.sgls.calling import draw_arguments
from slca.sgls.tool import Tool, load_tools
from slca.tasks.gold import run_plan

NAMES = ("gold", "do_nothing", "random_call")


def random_call(tools: Sequence[Tool], item_id: str, seed: int, state: State | None = None) -> Call | None:
    """A call of one of ``tools``, drawn evenly, with arguments that validate; None where no tool has any that are found.

    Depends on (seed, item_id) alone. state: arguments that name records name these.
    """
    rng = random.Random(derive_seed("random call", seed, item_id))
    for tool in rng.sample(list(tools), len(tools)):
        arguments = draw_arguments(tool, state or {}, rng.getrandbits(31))
        if arguments is not None:
            return Call(tool.name, arguments)
    return None


def rollout_of(name: str, task: Task, seed: int, simulator: p.Simulator, cache: Cache | None = None) -> Rollout:
    """A reference's rollout of one task, without tokens. One whose simulator failed says so, and is masked like any other."""
    tools = load_tools(task.tools, f"task {task.task_id}")
    plan, reply = _script(name, task, tools, seed)
    steps, end_state = run_plan(tools, task.state, plan, simulator, cache)
    return Rollout(
        rollout_id=f"{name}-{task.task_id}",
        task_id=task.task_id,
        member=0,
        policy_version=name,
        prompt_ids=(),
        completion_ids=(),
        labels=(),
        logprobs=(),
        steps=(*(Step("", attempts) for attempts in steps), Step(reply)),
        finish_reason=FinishReason.STOP,
        end_state=end_state,
        simulator_failure=any(attempt.error is CallError.SIMULATOR_FAILURE for attempts in steps for attempt in attempts),
    )


def measure(tasks: Sequence[Task], params: p.Params) -> dict[str, dict[str, float | None]]:
    """Reference -> its figures on ``tasks``, as ``in_domain.metrics`` has them for a policy but for those that count tokens."""
    cache = Cache.of(params.simulator)
    found = {}
    for name in NAMES:
        rollouts = [rollout_of(name, task, params.evaluate.seed, params.simulator, cache) for task in tasks]
        figures = in_domain.metrics(in_domain.score_all(tasks, rollouts, params.rewards))
        found[name] = {metric: value for metric, value in figures.items() if "tokens" not in metric}
    return found


def _script(name: str, task: Task, tools: Sequence[Tool], seed: int) -> tuple[Plan, str]:
    """Plan and reply of a reference."""
    if name == "gold":
        return task.gold, task.reply
    call = random_call(tools, task.task_id, seed, task.state) if name == "random_call" else None
    return ((call,),) if call else (), ""
