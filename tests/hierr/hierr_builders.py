"""Small tasks and rollouts to score. Every test states what matters to it and leaves the rest to these defaults."""

from typing import Any

from slca.chat.formats.hermes import read_blocks, write_blocks
from slca.records import Attempt, Call, CallError, FinishReason, Json, Plan, Rollout, Segment, Step, Task, TaskKind

END = "end-state"


def tool(name: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "parameters": {"type": "object", "properties": properties}}


TOOLS = (tool("weather"), tool("book"), tool("search"))


def call(name: str, /, **arguments: Json) -> Call:
    return Call(name, arguments)


def task(
    gold: Plan,
    *,
    facts: tuple[str, ...] = (),
    question: str = "Please do it.",
    reply: str = "",
    kind: TaskKind | None = None,
    tools: tuple[dict[str, Any], ...] = TOOLS,
    task_id: str = "t",
) -> Task:
    chosen = kind or (TaskKind.SINGLE if gold else TaskKind.ABSTAIN)
    return Task(task_id, chosen, question, tools, gold, facts, reply, {}, END)


def attempt(made: Call, error: CallError | None = None, result: Json = None) -> Attempt:
    refused = {"error": {"type": error}} if error else result
    return Attempt(made.name, made.arguments, error, refused)


BROKEN = Attempt(None, None, CallError.MALFORMED, {"error": {"type": "malformed_call"}})


def turn(*attempts: Attempt) -> Step:
    """A turn with one block per attempt."""
    blocks = [write_blocks([Call(a.name, a.arguments)]) if a.name else "<tool_call>{</tool_call>" for a in attempts]
    return Step("".join(blocks), attempts)


def made(*calls: Call, error: CallError | None = None, result: Json = None) -> Step:
    return turn(*(attempt(one, error, result) for one in calls))


def list_block(text: str) -> Step:
    """A turn with ``text`` in one block, parsed as the engine does."""
    sampled = f"<tool_call>{text}</tool_call>"
    return Step(sampled, tuple(Attempt(p.name, p.arguments, p.error, None) for p in read_blocks(sampled).calls))


def rollout(
    *steps: Step,
    reply: str | None = None,
    end_state: str = END,
    finish: FinishReason = FinishReason.STOP,
    simulator_failure: bool = False,
    rollout_id: str = "t/0",
    task_id: str = "t",
    member: int = 0,
) -> Rollout:
    turns = steps if reply is None else (*steps, Step(reply))
    labels = tuple(int(Segment.TOOL if step.attempts else Segment.SUMMARY) for step in turns)
    ids = tuple(range(len(labels)))
    return Rollout(
        rollout_id,
        task_id,
        member,
        "v0",
        (1,),
        ids,
        labels,
        tuple(-1.0 for _ in ids),
        turns,
        finish,
        end_state,
        simulator_failure=simulator_failure,
    )
