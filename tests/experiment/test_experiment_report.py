"""Numbers, verdicts and sentences from made-up runs: what differs is said to differ, in the direction in which it does."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from experiment.made_up_runs import SQUARE, STEPS, made_up_plan, made_up_run, made_up_runs, results_of

from slca.experiment import collect, figures, prototype, text
from slca.experiment.collect import verdict


def flat(cell: str, method: str) -> float:
    return 0.5


def slca_above(cell: str, method: str) -> float:
    return 0.7 if method == "slca" else 0.5


def slca_below(cell: str, method: str) -> float:
    return 0.3 if method == "slca" else 0.5


def test_means_and_differences_are_those_of_the_runs() -> None:
    plan = made_up_plan(seeds=(0, 1))
    made = made_up_runs(plan, slca_above)
    entry = results_of(plan, made)["cells"]["judge-noise-0"]
    by_run = {
        (run.method, run.seed): np.mean([r.success for r in run.rewards if r.task_id.startswith("test-")]) for run in made[:8]
    }
    slca, grpo = (np.mean([by_run[method, seed] for seed in (0, 1)]) for method in ("slca", "grpo"))
    assert entry["methods"]["slca"]["test"]["success"]["mean"] == pytest.approx(slca, abs=1e-6)
    difference = entry["differences"]["slca"]["test"]["success"]
    assert difference["difference"] == pytest.approx(slca - grpo, abs=1e-6)
    assert difference["seeds"] == 2 and difference["n"] == 90


def test_main_effects_average_over_the_other_choice() -> None:
    skills = {"grpo": 0.3, "gdpo": 0.5, "routed_joint": 0.4, "slca": 0.8}
    plan = made_up_plan(seeds=(0,))
    cell = results_of(plan, made_up_runs(plan, lambda _, method: skills[method]))["cells"]["judge-noise-0"]
    mean = {method: cell["methods"][method]["test"]["success"]["mean"] for method in SQUARE}
    effects = {name: entry["test"]["success"]["difference"] for name, entry in cell["effects"].items()}
    assert effects["normalisation"] == pytest.approx(
        (mean["gdpo"] - mean["grpo"] + mean["slca"] - mean["routed_joint"]) / 2, abs=2e-6
    )
    assert effects["routing"] == pytest.approx((mean["routed_joint"] - mean["grpo"] + mean["slca"] - mean["gdpo"]) / 2, abs=2e-6)


def test_what_noise_costs_a_method_is_paired_with_itself_without_noise() -> None:
    plan = made_up_plan(seeds=(0, 1))
    results = results_of(
        plan, made_up_runs(plan, lambda cell, method: 0.3 if (cell, method) == ("judge-noise-1", "grpo") else 0.6)
    )
    page = text.render(results).split("What noise changes")[1].split("What each choice adds")[0]
    lost = results["cells"]["judge-noise-1"]["against_cell"]["grpo"]["test"]["success"]
    assert lost["difference"] < -0.2 and lost["high"] < 0
    assert f"| grpo | **{lost['difference']:+.3f} [{lost['low']:+.3f}, {lost['high']:+.3f}]** |" in page


def test_a_difference_is_paired_over_the_seeds_that_both_have() -> None:
    plan = made_up_plan(seeds=(0, 1, 2))
    made = [run for run in made_up_runs(plan, slca_above) if (run.method, run.seed) != ("slca", 1)]
    results = results_of(plan, made)
    assert results["cells"]["judge-noise-0"]["differences"]["slca"]["seeds"] == [0, 2]
    assert set(results["runs"]["missing"]) == {f"{cell.name}/slca-1" for cell in plan.cells}


def test_steps_are_counted_to_the_level_at_which_grpo_ends() -> None:
    plan = made_up_plan()
    faster = made_up_runs(plan, flat, pace=lambda _, method: 3.0 if method == "slca" else 12.0)
    entry = results_of(plan, faster)["cells"]["judge-noise-0"]["steps_to_final"]
    assert entry["slca"]["step"] < entry["grpo"]["step"] <= STEPS
    assert entry["slca"]["than_reference"]["difference"] == entry["slca"]["step"] - entry["grpo"]["step"]
    never = made_up_runs(plan, slca_below)
    entry = results_of(plan, never)["cells"]["judge-noise-0"]["steps_to_final"]["slca"]
    assert entry["step"] == STEPS + 1 and entry["never"] == 1.0 and entry["low"] == entry["high"] == STEPS + 1


@pytest.mark.parametrize(
    ("claim", "better", "worse"),
    [
        ("higher_success", {"skill": slca_above}, {"skill": slca_below}),
        (
            "fewer_redundant_calls",
            {"redundancy": lambda _, method: 0.1 if method == "slca" else 0.4},
            {"redundancy": lambda _, method: 0.4 if method == "slca" else 0.1},
        ),
        (
            "faster_convergence",
            {"pace": lambda _, method: 3.0 if method == "slca" else 12.0},
            {"pace": lambda _, method: 60.0 if method == "slca" else 6.0},
        ),
    ],
)
def test_a_claim_is_judged_by_the_numbers(claim: str, better: dict, worse: dict) -> None:
    plan = made_up_plan()
    pages = {}
    for name, differing in {"better": better, "worse": worse}.items():
        results = results_of(plan, made_up_runs(plan, **({"skill": flat} | differing)))
        verdicts = {entry["verdict"] for entry in results["claims"][claim].values()}
        assert verdicts == ({"holds"} if name == "better" else {"opposite"})
        pages[name] = text.render(results)
    heading = text.CLAIMS[claim][0]
    assert f"**{heading}: holds.** It holds with a noiseless judge (" in pages["better"]
    assert f"{heading.lower()} holds in 2, is open in 0 and turned round in 0 of 2 settings" in pages["better"]
    assert f"**{heading}: does not hold, the opposite is seen.** The opposite is seen with a noiseless judge (" in pages["worse"]


def test_equal_methods_show_nothing() -> None:
    plan = made_up_plan()
    page = text.render(results_of(plan, [made_up_run(c.name, r.method, r.seed, 0.5) for c, r in plan.runs()]))
    assert "**Higher success: not shown.** The interval holds zero, so nothing is shown, with a noiseless judge (" in page


def test_a_claim_that_depends_on_the_noise_is_said_to() -> None:
    plan = made_up_plan()
    results = results_of(
        plan, made_up_runs(plan, lambda cell, method: 0.7 if (cell, method) == ("judge-noise-1", "slca") else 0.5)
    )
    sentence = text.render(results).split("* **Higher success")[1].split("\n")[0]
    assert sentence.startswith(": holds in part.** It holds with judge noise 1 (")
    assert "so nothing is shown, with a noiseless judge (" in sentence


@pytest.mark.parametrize(
    ("difference", "low", "high", "better", "expected"),
    [(0.1, 0.02, 0.2, 1, "holds"), (0.1, 0.02, 0.2, -1, "opposite"), (-3, -9, -1, -1, "holds"), (0.1, -0.1, 0.2, 1, "open")],
)
def test_a_verdict_needs_an_interval_without_zero(difference: float, low: float, high: float, better: int, expected: str) -> None:
    assert verdict({"difference": difference, "low": low, "high": high, "holds_zero": low <= 0 <= high}, better) == expected


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"difference": 0.1, "low": 0.05, "high": 0.2, "holds_zero": False}, "confirmed"),
        ({"difference": -0.1, "low": -0.2, "high": -0.05, "holds_zero": False}, "refuted"),
        ({"difference": 0.1, "low": -0.05, "high": 0.2, "holds_zero": True}, "neither confirmed nor refuted"),
        (None, "not measured"),
    ],
)
def test_the_prototype_is_confirmed_or_refuted_by_the_interval(entry: dict | None, words: str) -> None:
    assert words in text.prototype_sentence("slca minus grpo", prototype.effects(1.0)["margin"], entry)


def test_the_prototype_s_effects_follow_from_its_means() -> None:
    # method section 7, noise 1: grpo .621, gdpo .871, routed_joint .770, slca .878
    assert prototype.effects(1.0) == pytest.approx({"margin": 0.257, "normalisation": 0.179, "routing": 0.078})


def test_a_page_without_any_run_says_so() -> None:
    plan = made_up_plan()
    page = text.render(results_of(plan, []))
    assert f"0 of {len(plan.runs())} runs are finished" in page and "**Higher success: not measured.**" in page
    assert "presence as published: slca-0, slca-1, slca-2, slca-3, slca-4" in page


def test_a_stopped_run_is_reported_with_its_reason_and_is_not_missing() -> None:
    plan = made_up_plan(seeds=(0,))
    made = [run for run in made_up_runs(plan, flat) if (run.cell, run.method) != ("judge-noise-1", "grpo")]
    page = text.render(results_of(plan, made, {"judge-noise-1/grpo-0": "grpo-0 stopped at step 3: kl was too high."}))
    assert "* judge-noise-1/grpo-0: grpo-0 stopped at step 3: kl was too high." in page
    assert "runs are missing" not in page


def test_the_tables_have_a_row_per_run_and_per_step() -> None:
    plan = made_up_plan(seeds=(0, 1))
    made = made_up_runs(plan, flat)
    rows = list(csv.DictReader(io.StringIO(collect.runs_csv(made))))
    assert [(row["cell"], row["method"], int(row["seed"])) for row in rows] == [(run.cell, run.method, run.seed) for run in made]
    assert len(list(csv.DictReader(io.StringIO(collect.curves_csv(made))))) == len(made) * STEPS
    assert collect.runs_csv([]) is not None and collect.curves_csv([]).startswith("cell,")


def test_figures_and_page_are_the_same_bytes_from_the_same_numbers(tmp_path: Path) -> None:
    plan = made_up_plan(seeds=(0, 1))
    written = []
    for name in ("first", "second"):
        made = made_up_runs(plan, slca_above)
        results = results_of(plan, made)
        figures.write_all(tmp_path / name, results, made)
        files = {file.name: file.read_bytes() for file in sorted((tmp_path / name).iterdir())}
        written.append(files | {"results.md": text.render(results).encode()})
    assert written[0] == written[1]
    drawn = {Path(name).stem for name in written[0]}
    assert drawn == {"noise", "ablations", "learning-judge-noise-0", "learning-judge-noise-1", "results"}
    page = written[0]["results.md"].decode()
    assert all(f"(figures/{name}.svg)" in page for name in drawn - {"results"})
