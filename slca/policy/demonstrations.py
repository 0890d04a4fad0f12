"""Demonstrations of mixed quality: gold plans, and gold plans with one planted mistake.

The warm start imitates them, so it starts near the middle and reinforcement has something to tell apart. Mistakes are of the
kinds that tool-calling policies make: a wrong value, a wrong tool, a missing or doubled call, no call at all, a needless call, an
empty reply. A mistake is played on the simulator like any other call, so results always answer what was called.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jinja2 import Template

from slca import params as p
from slca.chat import ChatFormat
from slca.chat.formats.hermes import TEMPLATE, write_blocks
from slca.files import derive_seed
from slca.records import Call, Json, Plan, Task
from slca.sgls.simulator import Session, render_result
from slca.sgls.tool import Tool, load_tools

_BATCHES_SORTED = 16
IGNORED = -100
"""The label of tokens that carry no loss."""


@dataclass(frozen=True)
class Demonstration:
    """ids (T,) of a whole conversation; labels (T,) are the ids where the assistant speaks, IGNORED elsewhere."""

    ids: tuple[int, ...]
    labels: tuple[int, ...]


def demonstrations(tasks: Sequence[Task], params: p.Params, chat: ChatFormat) -> list[Demonstration]:
    """``warmstart.demonstrations`` conversations; tasks are reused in turn, each time with its own draw of mistakes."""
    made = []
    prompts: dict[str, list[int]] = {}
    for index in range(params.warmstart.demonstrations):
        task = tasks[index % len(tasks)]
        rng = random.Random(derive_seed("demonstration", params.warmstart.seed, index))
        plan, reply = task.gold, task.reply
        if rng.random() < params.warmstart.corrupted:
            plan, reply = corrupt(task, rng)
        if task.task_id not in prompts:
            prompts[task.task_id] = chat.prompt_ids([{"role": "user", "content": task.question}], task.tools)
        made.append(encode(task, plan, reply, prompts[task.task_id], params.simulator, chat))
    return made


def arrange(examples: Sequence[Demonstration], batch_size: int, seed: int) -> list[Demonstration]:
    """A shuffled order in which the examples of a batch have similar lengths, so that little is padding.

    Batches are shuffled too: going from long to short, as samplers that group by length do, visits one kind of task after
    another, and the model forgets in between.
    """
    rng = random.Random(derive_seed("arrange", seed))
    shuffled = list(examples)
    rng.shuffle(shuffled)
    arranged: list[Demonstration] = []
    for start in range(0, len(shuffled), batch_size * _BATCHES_SORTED):
        bucket = sorted(shuffled[start : start + batch_size * _BATCHES_SORTED], key=lambda example: len(example.ids))
        batches = [bucket[first : first + batch_size] for first in range(0, len(bucket), batch_size)]
        rng.shuffle(batches)
        arranged += [example for batch in batches for example in batch]
    return arranged


def encode(task: Task, plan: Plan, reply: str, prompt: Sequence[int], simulator: p.Simulator, chat: ChatFormat) -> Demonstration:
    """The conversation in which ``plan`` is played on the simulator and ``reply`` ends it, in the policy's own tokens."""
    ids = list(prompt)
    labels = [IGNORED] * len(ids)
    for step, results in play(task, plan, simulator):
        turn = chat.call_turn(step)
        glue = chat.glue_ids(step, results)
        ids += turn + glue
        labels += turn + [IGNORED] * len(glue)
    last = chat.reply_turn(reply)
    return Demonstration((*ids, *last), (*labels, *last))


def play(task: Task, plan: Plan, simulator: p.Simulator) -> list[tuple[Sequence[Call], list[str]]]:
    """Each step of ``plan``, and the results that the simulator gives to its calls."""
    session = Session(load_tools(task.tools, f"task {task.task_id}"), task.state, simulator, session=task.task_id)
    steps: list[tuple[Sequence[Call], list[str]]] = []
    for step in plan:
        results = [render_result(session.call(call.name, call.arguments).result, simulator.max_result_chars) for call in step]
        steps.append((step, results))
    return steps


def conversations(tasks: Sequence[Task], simulator: p.Simulator) -> list[str]:
    """Flawless conversations as text, markers included: what the tokenizer is trained on."""
    template = Template(TEMPLATE.read_text(encoding="utf-8"))
    texts = []
    for task in tasks:
        messages = [{"role": "user", "content": task.question}]
        for step, results in play(task, task.gold, simulator):
            messages += [
                {"role": "assistant", "content": write_blocks(step)},
                *({"role": "tool", "content": result} for result in results),
            ]
        messages.append({"role": "assistant", "content": task.reply})
        texts.append(template.render(messages=messages, tools=[{"function": tool} for tool in task.tools]))
    return texts


def corrupt(task: Task, rng: random.Random) -> tuple[Plan, str]:
    """A plan and a reply with exactly one mistake."""
    tools = load_tools(task.tools, f"task {task.task_id}")
    mistakes = _WITH_CALLS if task.needs_call else _WITHOUT_CALLS
    return rng.choice(mistakes)(task, tools, rng)


def _wrong_value(task: Task, tools: Sequence[Tool], rng: random.Random) -> tuple[Plan, str]:
    return _change_call(task, rng, lambda call: replace(call, arguments=_one_wrong(call.arguments, task, rng))), task.reply


def _wrong_tool(task: Task, tools: Sequence[Tool], rng: random.Random) -> tuple[Plan, str]:
    return _change_call(task, rng, lambda call: replace(call, name=rng.choice(tools).name)), task.reply


def _missing_argument(task: Task, tools: Sequence[Tool], rng: random.Random) -> tuple[Plan, str]:
    def drop(call: Call) -> Call:
        kept = rng.sample(sorted(call.arguments), max(len(call.arguments) - 1, 0))
        return replace(call, arguments={name: value for name, value in call.arguments.items() if name in kept})

    return _change_call(task, rng, drop), task.reply


def _doubled_call(task: Task, tools: Sequence[Tool], rng: random.Random) -> tuple[Plan, str]:
    index = rng.randrange(len(task.gold))
    step = task.gold[index]
    if rng.random() < 0.5:
        return (*task.gold[: index + 1], step, *task.gold[index + 1 :]), task.reply
    return (*task.gold[:index], (*step, step[-1]), *task.gold[index + 1 :]), task.reply


def _missing_call(task: Task, tools: Sequence[Tool], rng: random.Random) -> tuple[Plan, str]:
    calls = sum(len(step) for step in task.gold)
    dropped = rng.randrange(calls)
    plan = []
    for step in task.gold:
        kept = tuple(call for offset, call in enumerate(step) if offset != dropped)
        dropped -= len(step)
        if kept:
            plan.append(kept)
    return tuple(plan), task.reply


def _poor_reply(task: Task, tools: Sequence[Tool], rng: random.Random) -> tuple[Plan, str]:
    wrong_facts = task.reply
    for fact in task.facts:
        wrong_facts = wrong_facts.replace(fact, _garble(fact, rng))
    return task.gold, rng.choice(["Done.", "It is done.", wrong_facts])


def _needless_call(task: Task, tools: Sequence[Tool], rng: random.Random) -> tuple[Plan, str]:
    tool = rng.choice(tools)
    words = task.question.rstrip("?.!").split()
    arguments: dict[str, Json] = {name: rng.choice(words) for name in tool.required}
    return ((Call(tool.name, arguments),),), task.reply


def _terse(task: Task, tools: Sequence[Tool], rng: random.Random) -> tuple[Plan, str]:
    return task.gold, rng.choice(["Done.", "It is done."])


Mistake = Callable[[Task, Sequence[Tool], random.Random], tuple[Plan, str]]
# Mistakes of structure are drawn three times as often as wrong values, which would teach not to copy before copying is learned.
_WITH_CALLS: tuple[Mistake, ...] = (
    _wrong_value,
    _wrong_tool,
    _missing_argument,
    *(_doubled_call, _missing_call, _poor_reply) * 3,
)
_WITHOUT_CALLS: tuple[Mistake, ...] = (_needless_call, _needless_call, _terse)


def _change_call(task: Task, rng: random.Random, change: Callable[[Call], Call]) -> Plan:
    row = rng.randrange(len(task.gold))
    column = rng.randrange(len(task.gold[row]))
    step = task.gold[row]
    changed = (*step[:column], change(step[column]), *step[column + 1 :])
    return (*task.gold[:row], changed, *task.gold[row + 1 :])


def _one_wrong(arguments: dict[str, Json], task: Task, rng: random.Random) -> dict[str, Json]:
    if not arguments:
        return arguments
    name = rng.choice(sorted(arguments))
    value = arguments[name]
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return arguments
    wrong: Json = value + rng.choice([1, 2, 5]) if not isinstance(value, str) else _garble(value, rng)
    return {**arguments, name: wrong}


def _garble(text: str, rng: random.Random) -> str:
    """Another text of the same look: one digit changed, or the last word gone, or the text doubled."""
    digits = [index for index, character in enumerate(text) if character.isdigit()]
    if digits:
        index = rng.choice(digits)
        return text[:index] + str((int(text[index]) + rng.randrange(1, 9)) % 10) + text[index + 1 :]
    words = text.split()
    return " ".join(words[:-1]) if len(words) > 1 else f"{text} {text}"
