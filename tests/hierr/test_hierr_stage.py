import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hierr_builders import call, made, rollout, task

from slca.errors import DataError, RunStopped
from slca.hierr.stage import run
from slca.params import Params
from slca.records import FinishReason, Rollout, TaskKind
from slca.tables import read_rewards, write_rollouts, write_tasks

WEATHER = call("weather", city="Rome")
NEEDED = task(((WEATHER,),), facts=("sunny",), task_id="needed")
NONE = task((), facts=("cannot",), task_id="none")
ELSEWHERE = task(((WEATHER,),), facts=("sunny",), task_id="elsewhere")

RIGHT = rollout(made(WEATHER, result={"sky": "sunny"}), reply="It will be sunny.")
OMITTED = rollout(reply="It will be sunny.", end_state="other")
ABSTAINED = rollout(reply="I cannot do that.")


def members(task_id: str, *rollouts: Rollout) -> list[Rollout]:
    return [replace(r, rollout_id=f"{task_id}/{n}", task_id=task_id, member=n) for n, r in enumerate(rollouts)]


def world(root: Path, rollouts: Sequence[Rollout]) -> Path:
    for name in ("tasks", "rollouts"):
        (root / "data" / name).mkdir(parents=True)
    write_tasks(root / "data/tasks/train.parquet", [NEEDED, NONE])
    write_tasks(root / "data/tasks/test.parquet", [ELSEWHERE])
    write_tasks(root / "data/tasks/unseen_tools.parquet", [])
    write_rollouts(root / "data/rollouts/part-000.parquet", list(rollouts)[:3])
    write_rollouts(root / "data/rollouts/part-001.parquet", list(rollouts)[3:])
    return root


ROLLOUTS = [
    *members("needed", RIGHT, OMITTED, replace(RIGHT, simulator_failure=True), RIGHT),
    *members("none", ABSTAINED, ABSTAINED),
    *members("elsewhere", rollout(made(WEATHER), finish=FinishReason.TURN_LIMIT)),
]


def test_the_stage_scores_and_reports(tmp_path: Path) -> None:
    world(tmp_path, ROLLOUTS)
    run(Params(), tmp_path)
    rewards = read_rewards(tmp_path / "data/rewards.parquet")
    assert [reward.rollout_id for reward in rewards] == [one.rollout_id for one in ROLLOUTS]
    assert [reward.tool_score for reward in rewards] == [1.0, 0.0, None, 1.0, 1.0, 1.0, 1.0]
    assert [reward.summary_score for reward in rewards] == [1.0, 0.0, None, 1.0, 1.0, 1.0, 0.0]

    metrics = json.loads((tmp_path / "reports/rewards.json").read_text())
    assert all(isinstance(value, int | float) for value in metrics.values())
    assert (metrics["rollouts"], metrics["scored"], metrics["groups"]) == (7, 6, 3)
    assert metrics["masked_share"] == pytest.approx(1 / 7, abs=1e-6)
    assert metrics["success"] == metrics["success_strict"] == pytest.approx(5 / 6, abs=1e-6)
    # Paper: the omission (0), the abstentions (mean of .9 and 0) and the one without a reply (mean of 1 and 0) fail
    assert metrics["success_paper"] == pytest.approx(2 / 6, abs=1e-6)
    # The one in "elsewhere" reached the end state, but its result does not hold the fact: outcome 4 of 6
    assert metrics["outcome_success"] == pytest.approx(4 / 6, abs=1e-6)
    assert metrics["success_single"] == pytest.approx(3 / 4) and metrics["success_abstain"] == 1.0
    assert metrics["scored_single"] == 4 and "success_chain" not in metrics
    # tool scores 1, 0, 1, 1, 1, 1: mean 5/6, unbiased variance (5/6 * 1/6) * 6/5 = 1/6
    assert metrics["tool_score_mean"] == pytest.approx(5 / 6, abs=1e-6)
    assert metrics["tool_score_sd"] == pytest.approx((1 / 6) ** 0.5, abs=1e-6)
    # summary scores 0, 0, 1, 1, 1, 1: 25th percentile at rank 1.25 of 0..5, between 0 and 1: .25
    assert [metrics[f"summary_score_q{q}"] for q in (25, 50, 75)] == [0.25, 1.0, 1.0]
    # "none" and "elsewhere" do not vary, "needed" does
    assert metrics["zero_variance_tool"] == metrics["zero_variance_sum"] == pytest.approx(2 / 3, abs=1e-6)
    # TOOL in needed/0, 2, 3 and elsewhere/0; SUMMARY in all but elsewhere/0
    assert metrics["presence_tool"] == pytest.approx(4 / 7, abs=1e-6)
    assert metrics["presence_summary"] == pytest.approx(6 / 7, abs=1e-6)
    assert metrics["finish_turn_limit"] == pytest.approx(1 / 7, abs=1e-6)
    assert metrics["contamination_slca_tool"] == metrics["contamination_slca_summary"] == 0.0
    assert 0.0 <= metrics["contamination_grpo_summary"] <= 1.0

    rows = (tmp_path / "reports/rewards/components.csv").read_text().splitlines()
    assert rows[0] == "kind,component,mean,sd,n"
    assert f"{TaskKind.ABSTAIN},process,1.000000,0.000000,2" in rows


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    files = ("data/rewards.parquet", "reports/rewards.json", "reports/rewards/components.csv")
    written = []
    for name in ("a", "b"):
        root = world(tmp_path / name, ROLLOUTS)
        run(Params.model_validate({"rewards": {"judge_noise": 0.5}}), root)
        written.append([(root / file).read_bytes() for file in files])
    assert written[0] == written[1]


def test_an_unknown_task_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    world(tmp_path, [*ROLLOUTS, *members("nowhere", RIGHT)])
    with pytest.raises(DataError, match=r"rollout 'nowhere/0' belongs to task 'nowhere'.*data/tasks"):
        run(Params(), tmp_path)
    assert not (tmp_path / "reports").exists() and not (tmp_path / "data/rewards.parquet").exists()


def test_the_run_stops_when_too_many_cannot_be_scored(tmp_path: Path) -> None:
    # Field case 14: 1 of 7 is more than a tenth
    world(tmp_path, ROLLOUTS)
    with pytest.raises(RunStopped, match=r"1 of 7 rollouts cannot be scored .*= 0\.1.*needed/2 \(simulator failure\)"):
        run(Params.model_validate({"rewards": {"max_unscorable": 0.1}}), tmp_path)
    assert not (tmp_path / "data/rewards.parquet").exists()


def test_it_stops_when_nothing_is_scored_whatever_the_limit(tmp_path: Path) -> None:
    world(tmp_path, members("needed", replace(RIGHT, simulator_failure=True)))
    with pytest.raises(RunStopped):
        run(Params.model_validate({"rewards": {"max_unscorable": 1.0}}), tmp_path)


def test_the_papers_variant_can_be_run(tmp_path: Path) -> None:
    world(tmp_path, ROLLOUTS)
    run(Params.model_validate({"rewards": {"hierr": "paper"}}), tmp_path)
    metrics = json.loads((tmp_path / "reports/rewards.json").read_text())
    assert metrics["success"] == metrics["success_paper"] == pytest.approx(2 / 6, abs=1e-6)
    assert metrics["success_strict"] == pytest.approx(5 / 6, abs=1e-6)
