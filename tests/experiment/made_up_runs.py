"""Made-up runs of a small plan, whose methods differ by as much as a test wants."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from credit_cases import a_reward

from slca import params as p
from slca.experiment.collect import CURVES, Made, Results, build
from slca.experiment.plan import Cell, Plan, Tasks
from slca.files import derive_seed
from slca.records import Reward, TaskKind

SPLITS = {"test": 90, "unseen_tools": 30}
STEPS = 40
KINDS = tuple(TaskKind)
SQUARE = ("grpo", "gdpo", "routed_joint", "slca")

Skill = Callable[[str, str], float]
"""Cell and method -> the share of tasks that succeed."""


def made_up_plan(seeds: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Plan:
    cells = (
        Cell(name="judge-noise-0", title="a noiseless judge", methods=SQUARE),
        Cell(
            name="judge-noise-1",
            title="judge noise 1",
            methods=SQUARE,
            set={"rewards": {"judge_noise": 1.0}},
            against="judge-noise-0",
        ),
        Cell(
            name="presence-members",
            title="presence as published",
            methods=("slca",),
            set={"train": {"presence_tool": "members"}},
            against="judge-noise-0",
        ),
    )
    evaluate = Tasks(test=SPLITS["test"], unseen_tools=SPLITS["unseen_tools"])
    return Plan(name="made-up", title="made up", seeds=seeds, evaluate=evaluate, cells=cells)


def reward(task_id: str, kind: TaskKind, success: bool, redundancy: float) -> Reward:
    calls = kind not in (TaskKind.ABSTAIN, TaskKind.MISSING)
    score = 0.95 if success else 0.4
    return a_reward(
        f"{task_id}/0", task_id=task_id, kind=kind, tool_score=score, summary_score=0.5, needs_call=calls, opened_call=calls,
        name=score, key=score, value=score, process=score, outcome=float(success), success=success, call_steps=(),
        call_scores=(), completeness=score, calls=2, redundancy=redundancy, sampled_tokens=40,
    )  # fmt: skip


def rewards_of(skill: float, redundancy: float, luck: float = 0.0) -> list[Reward]:
    """Tasks differ in difficulty, the same for every run; a run succeeds where its skill and luck allow."""
    rewards = []
    for split, count in SPLITS.items():
        difficulty = np.random.default_rng(derive_seed(split)).permutation(count) / count
        rewards += [
            reward(f"{split}-{row:04d}", KINDS[row % len(KINDS)], bool(difficulty[row] < skill + luck), redundancy)
            for row in range(count)
        ]
    return rewards


def curve_of(skill: float, pace: float) -> pd.DataFrame:
    steps = np.arange(1, STEPS + 1)
    table = pd.DataFrame(0.25, index=range(STEPS), columns=list(CURVES))
    table["step"], table["rollouts"], table["sampled_tokens"] = steps, 64, 3000 * steps
    table["success"] = 0.3 + (skill - 0.3) * (1 - np.exp(-steps / pace))
    return table


def made_up_run(cell: str, method: str, seed: int, skill: float, redundancy: float = 0.3, pace: float = 10.0) -> Made:
    luck = float(np.random.default_rng(derive_seed(cell, method, seed)).normal(0.0, 0.01))
    rewards = rewards_of(skill, redundancy + luck, luck)
    return Made(cell, method, seed, rewards, curve_of(skill + luck, pace), {"tool": 0.2, "summary": 0.1})


def made_up_runs(plan: Plan, skill: Skill, redundancy: Skill = lambda *_: 0.3, pace: Skill = lambda *_: 10.0) -> list[Made]:
    return [
        made_up_run(
            cell.name,
            run.method,
            run.seed,
            *(of(cell.name, run.method) for of in (skill, redundancy, pace)),
        )
        for cell, run in plan.runs()
    ]


def results_of(plan: Plan, made: list[Made], stopped: dict[str, str] | None = None) -> Results:
    params = p.Params(report=p.Report(bootstrap=200), train=p.Train(steps=STEPS))
    return build(plan, params, made, rewards_of(0.3, 0.3), stopped or {}, {})
