"""The stage as a whole: what it writes from real tables and files, and what it refuses."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml

from slca.errors import DataError
from slca.files import file_digest, write_json
from slca.report import figures, markdown, short
from slca.report.inputs import load
from slca.report.stage import run
from slca.tables import read_rewards, write_rewards

WRITTEN = ("results.json", "results.md", "results.html", "metrics.json")


def outputs(root: Path) -> dict[str, bytes]:
    files = [root / "reports" / name for name in WRITTEN]
    files += [*(root / "reports/figures").iterdir(), *(root / "reports/training").iterdir()]
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in sorted(files)}


def rows_of(page: str, section: str) -> list[list[str]]:
    """All table rows under one heading, cells stripped, bold marks gone; heading and rule rows left out."""
    body = page.split(f"\n## {section}\n")[1].split("\n## ")[0]
    rows = [
        [cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in body.splitlines() if line.startswith("|")
    ]
    rules = [number for number, row in enumerate(rows) if row[0] == ":--"]
    return [row for number, row in enumerate(rows) if number not in rules and number + 1 not in rules]


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"[-+]?\d+(?:\.\d+)?", text)]


def edit_json(path: Path, change) -> None:
    value = json.loads(path.read_text())
    change(value)
    write_json(path, value)


def test_everything_is_written_and_nothing_else(reported):
    names = ["bfcl", "contamination", "cost", "learning_curves", "success", "tau2"]
    expected = {f"reports/figures/{name}.{kind}" for name in names for kind in ("png", "svg")}
    curves = {f"reports/training/{method}-{seed}.csv" for method in ("grpo", "slca") for seed in (0, 1, 2)}
    assert set(outputs(reported.root)) == expected | curves | {f"reports/{name}" for name in WRITTEN}
    copied = reported.root / "reports/training/slca-1.csv"
    assert copied.read_bytes() == (reported.root / "data/training/slca-1/curve.csv").read_bytes()


def test_equal_inputs_give_equal_bytes_wherever_they_lie(reported, tmp_path):
    copy = tmp_path / "elsewhere"
    shutil.copytree(reported.root, copy)
    shutil.rmtree(copy / "reports/figures")
    (copy / "reports/training/of-a-method-that-is-gone.csv").write_text("step\n")
    run(reported.params, copy)
    assert outputs(copy) == outputs(reported.root)


def test_no_output_holds_a_path_or_a_date(reported):
    for name, content in outputs(reported.root).items():
        assert str(reported.root).encode() not in content, name
        assert not re.search(rb"\b20\d\d-\d\d-\d\d\b|\d\d:\d\d:\d\d", content), name


def test_scores_on_the_page_are_those_of_the_json(reported):
    results = json.loads((reported.root / "reports/results.json").read_text())
    rows = rows_of((reported.root / "reports/results.md").read_text(), "Scores")
    expected = []
    for split in ("test", "unseen_tools"):
        for method, splits in results["methods"].items():
            cells = [{"warmstart": "warm start"}.get(method, method)]
            for metric in ("success", "outcome_success", "process", "summary", "redundancy", "sampled_tokens"):
                one = splits[split][metric]
                digits = 1 if metric == "sampled_tokens" else 3
                parts = [one[key] for key in ("mean", "sd", "low", "high") if one[key] is not None]
                cells.append([round(part, digits) for part in parts])
            expected.append(cells)
        expected += [["gold replay", [1.0], [], [1.0], [], [], []], ["doing nothing", [0.333], *[[]] * 5]]
        expected += [["a random valid call", [0.0], *[[]] * 5]]
    assert [[row[0], *map(numbers, row[1:-1])] for row in rows] == expected
    assert len(rows) == 12


def test_differences_on_the_page_are_those_of_the_json_and_bold_means_zero_excluded(reported):
    results = json.loads((reported.root / "reports/results.json").read_text())
    page = (reported.root / "reports/results.md").read_text()
    assert list(results["comparisons"]) == ["slca_vs_grpo", "grpo_vs_warmstart", "slca_vs_warmstart"]
    rows = iter(rows_of(page, "Paired differences"))
    for split in ("test", "unseen_tools"):
        for splits in results["comparisons"].values():
            entry = splits[split]["success"]
            assert numbers(next(rows)[1]) == [round(entry[key], 3) for key in ("difference", "low", "high")]
            text = f"{entry['difference']:+.3f} [{entry['low']:+.3f}, {entry['high']:+.3f}]"
            assert (f"**{text}**" in page) == (entry["low"] > 0 or entry["high"] < 0)


def test_the_other_tables_agree_with_the_json(reported):
    results = json.loads((reported.root / "reports/results.json").read_text())
    page = (reported.root / "reports/results.md").read_text()
    bfcl = results["bfcl"]["categories"]["simple_python"]
    row = next(row for row in rows_of(page, "BFCL") if row[0] == "simple_python")
    # Correct of 40: .7 * .6 * 40 = 16.8, rounded 17, plus the seed: 17, 18, 19; mean 18 / 40 = .45, deviation 1 / 40.
    assert bfcl["scores"]["grpo"]["mean"] == 0.45
    assert bfcl["scores"]["grpo"]["sd"] == pytest.approx(0.025)
    assert row[1] == "40 of 400"
    assert numbers(row[3])[:2] == [0.45, 0.025]
    assert [numbers(cell) for cell in row[5:]] == [[1.0], [0.0], [0.025]]
    group = next(row for row in rows_of(page, "BFCL") if row[0].startswith("published_13"))
    assert group[0] == "published_13" and numbers(group[2]) == [0.45, 0.025]  # no interval
    assert "over all runs: warm start 0, grpo 3, slca 3." in page  # 0 + 1 + 2 checker failures
    assert "No right answer satisfies these of the items: simple_java_36 (mixed)." in page
    assert rows_of(page, "Credit contamination")[:2] == [["grpo", "0.312", "0.287"], ["slca", "0.000", "0.000"]]
    assert ["`zero_variance_tool`", "0.21"] in rows_of(page, "Credit contamination")
    final = results["steps_to_final"]["methods"]
    assert [int(row[1]) for row in rows_of(page, "Learning")] == [final["grpo"]["step"], final["slca"]["step"]]
    assert [row[1] for row in rows_of(page, "Success by kind of task")][:6] == ["10"] * 6  # 60 tasks of 6 kinds


def test_the_figures_of_single_tasks_are_those_of_the_tables(reported, results_of):
    results = results_of(reported)
    means = []
    for seed in reported.params.train.seeds:
        rows = [
            row for row in read_rewards(reported.root / f"data/evaluation/slca-{seed}.parquet") if row.task_id.startswith("test-")
        ]
        means.append(sum(row.success for row in rows) / len(rows))
        assert results["success_by_seed"]["slca"]["test"][str(seed)] == pytest.approx(means[-1], abs=1e-6)
    assert results["methods"]["slca"]["test"]["success"]["mean"] == pytest.approx(sum(means) / 3, abs=1e-6)
    assert results["methods"]["slca"]["test"]["made_up"] == {
        "mean": pytest.approx(0.11),  # .10, .11, .12
        "sd": pytest.approx(0.01),
        "low": None,
        "high": None,
        "seeds": 3,
        "n": None,
    }
    assert results["budgets"]["grpo"]["rollouts"] == 30 * 64


def test_sources_name_every_input_with_its_digest(reported):
    sources = json.loads((reported.root / "reports/results.json").read_text())["sources"]
    files = [path for folder in ("reports/evaluation", "data/evaluation") for path in (reported.root / folder).iterdir()]
    files += [*reported.root.glob("data/training/*/curve.csv"), reported.root / "reports/rewards.json"]
    assert sources == {path.relative_to(reported.root).as_posix(): file_digest(path) for path in files}


def test_the_plots_of_dvc_are_of_the_runs_in_the_parameters():
    root = Path(__file__).parents[2]
    train = yaml.safe_load((root / "params.yaml").read_text())["train"]
    runs = {f"reports/training/{method}-{seed}.csv" for method in train["methods"] for seed in train["seeds"]}
    plots = yaml.safe_load((root / "dvc.yaml").read_text())["plots"]
    assert all(set(one["y"]) == runs for plot in plots if isinstance(plot, dict) for one in plot.values())
    assert sum(isinstance(plot, str) for plot in plots) == 6


@pytest.mark.parametrize(
    ("file", "stage"),
    [
        ("data/training/slca-2/curve.csv", "train"),
        ("reports/evaluation/grpo-1.json", "evaluate"),
        ("reports/evaluation/warmstart.json", "evaluate"),
        ("data/evaluation/warmstart.parquet", "evaluate"),
        ("reports/rewards.json", "rewards"),
    ],
)
def test_a_missing_file_is_named_with_its_stage(make_world, file, stage):
    world = make_world()
    (world.root / file).unlink()
    with pytest.raises(DataError, match=rf"{re.escape(file)} does not exist.*'{stage}'"):
        run(world.params, world.root)
    assert not (world.root / "reports/results.json").exists()
    assert not (world.root / "reports/figures").exists()


def test_training_that_made_the_model_worse_is_said_to_have_done_so(make_world, results_of):
    page = markdown.render(results_of(make_world(skill={"warmstart": 0.8, "grpo": 0.5, "slca": 0.2})))
    short = page.split("## In short")[1].split("\n## ")[0]
    assert re.search(
        r"Test, success against the warm start: lowered by grpo \(-0\.\d+ \[.*\) and slca \(-0\.\d+ \[[^)]*\)\.", short
    )
    assert re.search(r"Test, success against grpo: lower for slca \(-0\.\d+", short)
    against = "Test, read against doing nothing (0.333): above it: warm start; below it: slca; not told apart from it: grpo."
    assert against in short
    assert "by slca never" in short
    for cheerful in ("raised", "higher", "better", "improve", "gain", "outperform"):
        assert not re.search(rf"\b{cheerful}", short)


def test_equal_methods_are_not_told_apart(make_world, results_of, rescore):
    world = make_world()
    for seed in world.params.train.seeds:
        rows = {row.task_id: row for row in read_rewards(world.root / f"data/evaluation/grpo-{seed}.parquet")}
        rescore(world, f"slca-{seed}", lambda reward, rows=rows: rows[reward.task_id])
    results = results_of(world)
    entry = results["comparisons"]["slca_vs_grpo"]["test"]["success"]
    assert (entry["difference"], entry["low"], entry["high"]) == (0.0, 0.0, 0.0)
    assert "Test, success against grpo: no difference shown for slca (+0.000 [+0.000, +0.000])." in markdown.render(results)


@pytest.mark.parametrize(
    ("second", "numbers", "said"),
    [
        ("grpo", (0.1, 0.05, 0.15), "Test, success against grpo: higher for slca (+0.100 [+0.050, +0.150])."),
        ("grpo", (-0.1, -0.15, -0.01), "Test, success against grpo: lower for slca (-0.100 [-0.150, -0.010])."),
        ("grpo", (-0.1, -0.15, 0.0), "Test, success against grpo: no difference shown for slca (-0.100 [-0.150, +0.000])."),
        (
            "warmstart",
            (0.1, -0.05, 0.15),
            "Test, success against the warm start: no change shown by slca (+0.100 [-0.050, +0.150]).",
        ),
        ("warmstart", (-0.1, -0.2, -0.01), "Test, success against the warm start: lowered by slca (-0.100 [-0.200, -0.010])."),
        ("warmstart", (0.1, 0.01, 0.2), "Test, success against the warm start: raised by slca (+0.100 [+0.010, +0.200])."),
    ],
)
def test_sentences_follow_the_interval(second, numbers, said):
    entry = dict(zip(("difference", "low", "high"), numbers, strict=True))
    assert short.verdict("test", second, {"slca": entry}) == said


def test_masked_rollouts_leave_the_mean_and_are_counted(make_world, results_of, rescore):
    world = make_world(seeds=[0])
    rewards = read_rewards(world.root / "data/evaluation/slca-0.parquet")
    failed = [row.task_id for row in rewards if row.task_id.startswith("test-") and not row.success]
    masked = set(failed[:4])

    def mask(reward):
        if reward.task_id not in masked:
            return reward
        return replace(reward, tool_score=None, summary_score=None, masked="judge failure: down")

    rescore(world, "slca-0", mask)
    results = results_of(world)
    entry = results["methods"]["slca"]["test"]
    assert entry["success"]["n"] == 56
    assert entry["success"]["mean"] == pytest.approx((60 - len(failed)) / 56, abs=1e-6)
    assert entry["masked"]["mean"] == 4
    assert rows_of(markdown.render(results), "Scores")[2][-1] == "4.0"  # a row a method, the references after them


def test_a_single_seed_is_labelled(make_world, results_of):
    results = results_of(make_world(seeds=[2]))
    assert results["methods"]["slca"]["test"]["success"]["sd"] is None
    page = markdown.render(results)
    assert "each with 1 seed (2)" in page
    assert "One run per method: the intervals cover tasks only" in page
    assert "±" not in "".join(cell for row in rows_of(page, "Scores") for cell in row)


def test_one_method_alone_has_no_rival_and_no_final_level(make_world, results_of):
    results = results_of(make_world(methods=["slca"]))
    assert list(results["comparisons"]) == ["slca_vs_warmstart"]
    assert results["steps_to_final"] == {}
    assert "grpo ends" not in markdown.render(results)


def test_bfcl_says_whether_it_is_partial(make_world, results_of):
    world = make_world()
    assert "`partial: first 40 items`" in markdown.render(results_of(world))
    for path in (world.root / "reports/evaluation").iterdir():
        edit_json(path, lambda value: value["bfcl"].update(simple_python_of=40, irrelevance_of=40))
    assert "partial" not in markdown.render(results_of(world))


def test_what_was_not_run_is_said_to_be_missing(make_world, results_of, tmp_path):
    world = make_world()
    write_json(world.root / "reports/rewards.json", {})
    for path in (world.root / "reports/evaluation").iterdir():
        edit_json(path, lambda value: [value.pop(name, None) for name in ("bfcl", "tau2", "references")])
    results = results_of(world)
    page = markdown.render(results)
    assert "BFCL was not run." in page.split("## Scores")[0] and "BFCL was not run." in page.split("## BFCL")[1]
    assert "tau2 was not run." in page.split("## Scores")[0] and "tau2 was not run." in page.split("## tau2")[1]
    assert "doing nothing" not in page.split("## Cost")[0]  # no reference was measured
    assert [len(row) for row in rows_of(page, "In short")] == [4] * 3  # no column for what was not run
    assert "holds no contamination figures" in page
    figures.write_all(tmp_path / "figures", results, load(world.params, world.root).curves)
    assert len(list((tmp_path / "figures").iterdir())) == 12


def test_an_experiment_is_a_source_and_one_that_does_not_fit_is_named(make_world, results_of):
    world = make_world()
    file = world.root / "reports/experiment/results.json"
    write_json(file, {})  # none was run
    results = results_of(world)
    assert results["paper"]["unlike"] == [] and results["sources"]["reports/experiment/results.json"] == file_digest(file)
    write_json(file, {"run": {"profile": "smoke"}, "cells": {}})
    page = markdown.render(results_of(world))
    assert "`reports/experiment/results.json` is left out" in page and "profile 'smoke' instead of 'default'" in page


def test_tau2_stands_beside_its_references(reported):
    page = (reported.root / "reports/results.md").read_text()
    # Solved of 9: warm start 3, grpo 4, 5 and 6, slca 5, 6 and 7; half of that by both of two trials.
    first, second, reward = rows_of(page, "tau2")
    assert first[:4] == ["mock", "pass^1", "9 of 9", "2"] and first[7:] == ["0.889", "0.111", "0.000"]
    assert [numbers(cell)[0] for cell in first[4:7]] == [0.333, 0.556, 0.667]
    assert [len(numbers(cell)) for cell in first[4:7]] == [3, 4, 4]  # mean, deviation where there are seeds, interval
    assert [numbers(cell) for cell in second[4:7]] == [[0.167], [0.278, 0.056], [0.333, 0.056]] and second[7:] == ["-"] * 3
    assert reward[1] == "reward" and "mock: warm start 0, grpo 3, slca 3." in page
    assert "user: scripted" in page.split("## Scores")[0]


def test_the_top_of_the_page_has_every_score_with_its_references(reported):
    page = (reported.root / "reports/results.md").read_text()
    assert "one and the same warm start of 1.23 million parameters: 30 optimizer steps" in page
    rows = rows_of(page, "In short")
    assert [row[0] for row in rows] == ["warm start", "grpo", "slca", "gold replay", "doing nothing", "a random valid call"]
    assert rows[3][1:] == ["1.000", "1.000", "1.10", "0.990", "0.889"]
    assert rows[5][1:] == ["0.000", "0.000", "-", "-", "0.000"]
    assert numbers(rows[1][4]) == [0.45, 0.025] and numbers(rows[1][5])[0] == 0.556


def test_costs_count_what_was_spent_on_unsolved_tasks_too(make_world, results_of, rescore):
    world = make_world(seeds=[0])
    rewards = read_rewards(world.root / "data/evaluation/slca-0.parquet")
    solved = {row.task_id for row in rewards if row.task_id.startswith("test-")}
    solved = set(sorted(solved)[:12])
    rescore(world, "slca-0", lambda row: replace(row, success=row.task_id in solved, calls=2, sampled_tokens=30))
    results = results_of(world)
    entry = results["methods"]["slca"]["test"]
    # 60 tasks of 2 calls and 30 tokens, 12 of them solved
    assert (entry["calls_per_solved"]["mean"], entry["tokens_per_solved"]["mean"]) == (10.0, 150.0)
    assert entry["calls_per_solved"]["low"] < 10 < entry["calls_per_solved"]["high"]
    assert "calls_per_solved" not in results["methods"]["slca"]["unseen_tools"]  # nothing is solved
    row = next(row for row in rows_of(markdown.render(results), "Cost")[6:] if row[0] == "slca")
    assert (row[1], row[2]) == ("2.00 [2.00, 2.00]", "-")


def test_headline_numbers_are_those_of_the_report(reported):
    results, metrics = (json.loads((reported.root / f"reports/{name}.json").read_text()) for name in ("results", "metrics"))
    success = results["methods"]["slca"]["test"]["success"]
    stated = metrics["test"]["slca"]
    assert [stated[f"success{ending}"] for ending in ("", "_low", "_high")] == [success[key] for key in ("mean", "low", "high")]
    assert metrics["bfcl"]["simple_python"]["grpo"] == 0.45
    assert metrics["tau2"]["mock"]["warmstart"] == pytest.approx(1 / 3, abs=1e-6)


def test_figures_of_an_old_run_beside_a_new_table_are_refused(make_world):
    world = make_world()
    edit_json(world.root / "reports/evaluation/slca-1.json", lambda value: value["splits"]["test"].update(success=0.123))
    with pytest.raises(DataError, match=r"slca-1\.json says test success = 0\.123, but data/evaluation/slca-1\.parquet gives"):
        load(world.params, world.root)


def test_runs_on_other_benchmark_items_are_refused(make_world):
    world = make_world()
    edit_json(world.root / "reports/evaluation/grpo-1.json", lambda value: value["bfcl"].update(irrelevance_n=20))
    with pytest.raises(DataError, match=r"grpo-1\.json says bfcl irrelevance_n = 20, but .*warmstart\.json says 40"):
        load(world.params, world.root)


def test_runs_with_another_user_are_refused(make_world):
    world = make_world()
    edit_json(world.root / "reports/evaluation/grpo-1.json", lambda value: value["tau2"].update(user="a model"))
    with pytest.raises(DataError, match=r"grpo-1\.json says tau2 user = 'a model', but .*warmstart\.json says 'scripted'"):
        load(world.params, world.root)


def test_runs_on_other_tasks_are_refused(make_world, rescore):
    world = make_world()
    rename = {"test-0003": "test-0999"}
    rescore(world, "grpo-2", lambda reward: replace(reward, task_id=rename.get(reward.task_id, reward.task_id)))
    with pytest.raises(
        DataError, match=r"grpo-2\.parquet and .*warmstart\.parquet were not scored on the same tasks.*'test-0003'"
    ):
        load(world.params, world.root)


def test_tasks_of_no_split_and_tasks_scored_twice_are_refused(make_world):
    world = make_world()
    path = world.root / "data/evaluation/slca-0.parquet"
    rewards = read_rewards(path)
    write_rewards(path, [*rewards, replace(rewards[0], rollout_id="another", member=1)])
    with pytest.raises(DataError, match=r"slca-0\.parquet: task_id 'test-0000' occurs twice"):
        load(world.params, world.root)
    write_rewards(path, [replace(rewards[0], task_id="train-0000"), *rewards[1:]])
    with pytest.raises(DataError, match=r"slca-0\.parquet: task_id 'train-0000' does not start with the name of a split"):
        load(world.params, world.root)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.iloc[:-3], "has 27 rows where train.steps = 30"),
        (lambda frame: frame.drop(columns=["summary", "tasks"]), "has no column tasks, summary"),
        (lambda frame: frame.assign(success="high"), "something that is no number"),
        (lambda frame: frame.assign(sampled_tokens=None), "column sampled_tokens has a row without a number"),
        (lambda frame: frame.assign(step=frame["step"] * 2), "numbers its steps otherwise than data/training/slca-0/curve.csv"),
    ],
)
def test_broken_learning_curves_are_refused(make_world, change, message):
    world = make_world()
    path = world.root / "data/training/slca-1/curve.csv"
    change(pd.read_csv(path)).to_csv(path, index=False)
    with pytest.raises(DataError, match=f"slca-1/curve.csv.* {re.escape(message)}"):
        load(world.params, world.root)


def test_an_empty_learning_curve_is_refused(make_world):
    world = make_world()
    (world.root / "data/training/grpo-0/curve.csv").write_text("")
    with pytest.raises(DataError, match=r"grpo-0/curve\.csv is not a readable CSV file"):
        load(world.params, world.root)
