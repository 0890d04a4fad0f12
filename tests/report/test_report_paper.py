"""The paper's tables: which of our numbers stand beside a published one, and where each comes from."""

from typing import Any

import pytest

from slca import params as p
from slca.report import markdown, paper
from slca.report.published import ABLATIONS, MAIN, PUBLISHED, REWARDS, TABLES

PARAMS = p.Params()
RUN = {
    "profile": "default",
    "steps": PARAMS.train.steps,
    "tasks_per_step": PARAMS.train.tasks_per_step,
    "group_size": PARAMS.rollouts.group_size,
    "hierr": "strict",
    "judge": "rubric",
    "success_threshold": 0.9,
    "toolpo_success": "judge",
}
NO_BFCL: dict[str, Any] = {"groups": {}, "partial": False}


def entry(mean: float, seeds: int = 3) -> dict[str, Any]:
    return {"mean": mean, "sd": 0.01, "low": mean - 0.05, "high": mean + 0.05, "seeds": seeds, "n": 60}


def scored(mean: float, seeds: int = 3) -> dict[str, Any]:
    return {"test": {"success": entry(mean, seeds)}, "unseen_tools": {}}


METHODS = {"warmstart": scored(0.3, 1), "grpo": scored(0.4), "slca": scored(0.5)}


def cell(methods: dict[str, float], **changes: dict[str, Any]) -> dict[str, Any]:
    return {"set": changes, "methods": {method: scored(mean, 5) for method, mean in methods.items()}}


EXPERIMENT = {
    "run": RUN,
    "cells": {
        "judge-noise-1": cell({"grpo": 0.91, "slca": 0.92}, rewards={"judge_noise": 1.0}),
        "judge-noise-0": cell({"grpo": 0.41, "slca": 0.51, "toolpo": 0.2}),
        "outcome": cell({"slca": 0.45}, rewards={"tool_reward": "outcome"}),
        "w-o-hierr": cell({"slca": 0.35}, rewards={"tool_reward": "none"}),
    },
}


def ours(built: dict[str, Any], table: str) -> dict[str, tuple[float | None, str]]:
    rows = built["tables"][table].items()
    return {name: (row["ours"]["success"] and row["ours"]["success"]["mean"], row["ours"]["source"]) for name, row in rows}


def test_every_published_row_stands_in_some_table():
    assert {published for table in TABLES.values() for published in table.values()} == set(PUBLISHED)


def test_without_an_experiment_what_this_run_trained_stands_alone():
    built = paper.build(PARAMS, METHODS, NO_BFCL, {}, {})
    assert ours(built, MAIN) == {
        "grpo": (0.4, "this run"), "slca": (0.5, "this run"),
        "toolpo (rule)": (None, ""), "toolpo (judge)": (None, ""), "rltr": (None, ""),
    }  # fmt: skip
    assert ours(built, REWARDS)["slca, outcome reward"] == (None, "")


def test_ablations_come_from_the_experiment_and_are_compared_within_it():
    built = paper.build(PARAMS, METHODS, NO_BFCL, {}, EXPERIMENT)
    base = "experiment, cell `judge-noise-0`"
    assert ours(built, MAIN)["slca"] == (0.5, "this run")
    assert ours(built, MAIN)["toolpo (judge)"] == (0.2, base) and ours(built, MAIN)["toolpo (rule)"] == (None, "")
    assert ours(built, ABLATIONS) == {
        "slca": (0.51, base), "without SLCA (grpo)": (0.41, base), "without SGLS": (None, ""),
        "without HierR": (0.35, "experiment, cell `w-o-hierr`"),
    }  # fmt: skip
    assert ours(built, REWARDS)["slca, outcome reward"] == (0.45, "experiment, cell `outcome`")
    assert ours(built, REWARDS)["grpo, outcome reward"] == (None, "")


@pytest.mark.parametrize(("name", "value"), [("profile", "smoke"), ("steps", 3), ("judge", "openai")])
def test_an_experiment_under_other_settings_is_left_out_and_said_to_be(name, value):
    built = paper.build(PARAMS, METHODS, NO_BFCL, {}, {**EXPERIMENT, "run": {**RUN, name: value}})
    assert built["unlike"] == [f"{name} {value!r} instead of {RUN[name]!r}"]
    assert ours(built, ABLATIONS)["slca"] == (0.5, "this run")
    assert ours(built, ABLATIONS)["without HierR"] == (None, "")


def test_a_run_with_the_outcome_reward_stands_in_that_row_alone():
    params = p.changed(PARAMS, {"rewards": {"tool_reward": "outcome"}}, "test")
    built = paper.build(params, METHODS, NO_BFCL, {}, {})
    assert ours(built, REWARDS)["slca, outcome reward"] == (0.5, "this run")
    assert ours(built, REWARDS)["slca, process reward"] == ours(built, MAIN)["slca"] == (None, "")


def test_benchmarks_stand_in_the_main_table_and_several_domains_are_averaged():
    bfcl = {"partial": True, "groups": {"published_13": {"scores": {"slca": entry(0.6)}}}}
    domains = {
        name: {"scores": {"pass_1": {"slca": {**entry(mean), "by_seed": {"0": mean - 0.1, "1": mean + 0.1}}}}}
        for name, mean in (("airline", 0.2), ("retail", 0.4))
    }
    row = paper.build(PARAMS, METHODS, bfcl, {"domains": domains}, {})["tables"][MAIN]["slca"]["ours"]
    assert row["bfcl_v3"]["mean"] == 0.6
    # Seeds: (.1 + .3) / 2 = .2 and (.3 + .5) / 2 = .4, mean .3; a mean of domains has no interval.
    assert row["tau2"] == {"mean": 0.3, "sd": pytest.approx(0.141421, abs=1e-6), "low": None, "high": None, "seeds": 2}


def test_the_page_says_that_the_two_are_not_comparable(reported):
    page = (reported.root / "reports/results.md").read_text()
    section = page.split("## The paper's tables, ours beside them")[1].split("\n## ")[0]
    assert (
        "Published: Qwen2.5-7B-Instruct, three runs. Ours: profile `default`, another model and scale; not comparable." in section
    )
    main = next(line for line in section.splitlines() if line.startswith("| slca |"))
    # 79.13 published; 5, 6 and 7 of 9 tau2 tasks; .8 * .6 * 40 = 19.2, so 19, 20 and 21 of 40 BFCL items
    assert main.startswith("| slca | 79.13 | ") and " | 69.77 | 50.0 ± 2.5 | 41.02 | 66.7 ± 11.1 [" in main
    assert main.endswith("| 3 | this run |")
    assert markdown.EXPERIMENT.as_posix() not in section
