"""Tasks from tools and a seed: pure, the same in every process.

A task draws from its own seed (split, kind, index), so it does not depend on how many others there are, but for a question that
another task has taken already: then the next draw of the same sequence is made.
"""

import random
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from slca.errors import DataError
from slca.files import derive_seed, digest
from slca.records import Task, TaskKind, plan_to_json
from slca.tasks.gold import run_plan
from slca.tasks.kinds import KINDS
from slca.tasks.world import Draft, World, definition

TRIES = 400


def make_task(world: World, kind: TaskKind, seed: int, task_id: str = "task", taken: set[str] | None = None) -> Task:
    """One task of ``kind``. ``taken``: keys of tasks that it must differ from (see ``task_key``); its own key is added.

    Raises DataError when no draw makes a valid task.
    """
    keys = taken if taken is not None else set()
    for attempt in range(TRIES):
        draft = KINDS[kind](world, random.Random(derive_seed("task", seed, kind, attempt)))
        if draft is None:
            continue
        key = task_key(draft.question, plan_to_json(draft.gold))
        if key in keys:
            continue
        keys.add(key)
        return _task(world, kind, draft, task_id)
    raise DataError(
        f"No new task of kind {kind} could be made for split {world.split} in {TRIES} draws; "
        f"lower tasks.{world.split}, or its share in tasks.kinds, or add tools to the stage 'schemas'."
    )


def generate(world: World, count: int, shares: Mapping[Any, float], seed: int, taken: set[str] | None = None) -> list[Task]:
    """``count`` tasks, kinds mixed by ``shares`` (chains that these tools do not allow become ``single``), in seeded order."""
    keys = taken if taken is not None else set()
    kinds = [kind for kind, number in _numbers(count, _possible(world, shares)).items() for _ in range(number)]
    random.Random(derive_seed("order", seed, world.split)).shuffle(kinds)
    return [
        make_task(world, kind, derive_seed(seed, world.split, index), f"{world.split}-{index:05d}", keys)
        for index, kind in enumerate(kinds)
    ]


def task_key(question: str, gold: object) -> str:
    """What makes two tasks the same: question text and gold plan."""
    return digest(question, gold)


def _possible(world: World, shares: Mapping[Any, float]) -> dict[TaskKind, float]:
    possible = {TaskKind(kind): share for kind, share in shares.items()}
    if not world.chains and possible.get(TaskKind.CHAIN):
        possible[TaskKind.SINGLE] = possible.get(TaskKind.SINGLE, 0.0) + possible.pop(TaskKind.CHAIN)
    return possible


def _numbers(count: int, shares: Mapping[TaskKind, float]) -> dict[TaskKind, int]:
    """Whole numbers that add up to ``count``: the largest remainders are rounded up."""
    exact = {kind: count * Fraction(str(shares[kind])) for kind in TaskKind if shares.get(kind)}
    numbers = {kind: int(share) for kind, share in exact.items()}
    for kind in sorted(exact, key=lambda kind: (numbers[kind] - exact[kind], kind))[: count - sum(numbers.values())]:
        numbers[kind] += 1
    return numbers


def _task(world: World, kind: TaskKind, draft: Draft, task_id: str) -> Task:
    _, end_state = run_plan(draft.tools, draft.state, draft.gold, world.simulator)
    return Task(
        task_id=task_id,
        kind=kind,
        question=draft.question,
        tools=tuple(definition(tool) for tool in draft.tools),
        gold=draft.gold,
        facts=draft.facts,
        reply=draft.reply,
        state=draft.state,
        end_state=end_state,
    )
