"""The gate closes when the paired interval lies below zero, opens for anything else that was compared, and never guesses.

By hand: 100 tasks, one seed, the present run fails k tasks that the accepted one solved, all else equal. A resample of 100 tasks
holds none of them with probability (1 - k/100)^100: 4.8 % for k = 3, 0.6 % for k = 5. The interval's upper end is the 97.5th
percentile of the resampled differences: 0 for k = 3, since more than 2.5 % of them are 0, and below 0 for k = 5.
"""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slca import cli
from slca.errors import DataError, RunStopped
from slca.files import read_json, write_json
from slca.params import Params
from slca.report import gate
from slca.report.gate import Bootstrap, Run, accept, check, compare, verdict
from slca.report.inputs import load
from slca.report.results import build
from slca.tables import read_tasks, write_tasks

BOOTSTRAP = Bootstrap(2000, 0)
SETTINGS = {"profile": "default", "steps": 75, "seeds": [0]}
ONES = "1" * 100


def a_run(*runs: str, method: str = "slca", **settings: Any) -> Run:
    """Scores of ``method`` on both splits; on unseen tools all tasks are failed."""
    mean = sum(scores.count("1") for scores in runs) / max(1, sum(len(scores) - scores.count(".") for scores in runs))
    by_run = {f"{method}-{seed}": scores for seed, scores in enumerate(runs)}
    nothing = {name: "0" * len(scores) for name, scores in by_run.items()}
    success = {
        "test": {"mean": mean, "low": mean - 0.05, "high": mean + 0.05, "by_run": by_run},
        "unseen_tools": {"mean": 0.0, "low": 0.0, "high": 0.0, "by_run": nothing},
    }
    tasks = {"test": "a", "unseen_tools": "b"}
    return Run.model_validate({"settings": {**SETTINGS, **settings}, "tasks": tasks, "success": {method: success}})


def lost(count: int, of: str = ONES) -> str:
    return "0" * count + of[count:]


@pytest.mark.parametrize(
    ("present", "accepted", "fell"),
    [
        (lost(3), ONES, False),
        (lost(5), ONES, True),
        (ONES, lost(5), False),  # a rise
        (lost(60), lost(60), False),  # as bad as what was accepted
        (lost(100), ONES, True),
        ("0" * 5 + "1" * 95, "1" * 90 + "0" * 10, False),  # five lost and ten won
    ],
    ids=["three", "five", "rise", "same", "all", "lost and won"],
)
def test_success_fell_where_the_paired_interval_lies_below_zero(present: str, accepted: str, fell: bool) -> None:
    on_test, on_unseen = compare(a_run(present), a_run(accepted), BOOTSTRAP)
    assert (on_test.fell, on_unseen.fell) == (fell, False)


def test_tasks_that_every_seed_loses_are_not_counted_once_per_seed() -> None:
    """Three seeds that lose the same three tasks of a hundred know no more than one: as above, the gate stays open."""
    assert not compare(a_run(*[lost(3)] * 3), a_run(*[ONES] * 3), BOOTSTRAP)[0].fell


def test_the_message_has_the_numbers_of_what_fell_and_of_nothing_else() -> None:
    """60 of 100 tasks lost: -.6, with the interval -.6 -+ 1.96 sqrt(.6 * .4 / 100) by the normal approximation."""
    with pytest.raises(RunStopped) as closed:
        verdict(compare(a_run(lost(60)), a_run(ONES), BOOTSTRAP))
    message = str(closed.value)
    assert "slca on test has 0.400 [0.350, 0.450] where 1.000 [0.950, 1.050] was accepted, a difference of -0.600 [" in message
    assert "over 100 tasks and 1 seed" in message and "slca accept" in message and "unseen_tools" not in message
    found = re.search(r"-0\.600 \[(\S+), (\S+)\]", message)
    assert found and [float(end) for end in found.groups()] == pytest.approx([-0.696, -0.504], abs=0.02)


def test_a_run_that_passes_says_how_near_it_came() -> None:
    assert "nearest to it, slca on test has 0.970" in verdict(compare(a_run(lost(3)), a_run(ONES), BOOTSTRAP))
    assert "slca accept" in verdict(None)


def test_scores_that_are_missing_are_neither_failures_nor_a_way_past_the_gate() -> None:
    """Of 100 tasks 5 may be missing: two that were lost are 2 of 95 then. A sixth is refused, as is another number of tasks."""
    few = compare(a_run("." * 5 + lost(2)[:95]), a_run(ONES), BOOTSTRAP)[0]
    assert not few.fell and few.difference.n == 95 and few.difference.mean == pytest.approx(-2 / 95)
    with pytest.raises(DataError, match=r"of the scores of slca on test only 94\.0% exist in both runs"):
        compare(a_run("." * 6 + ONES[:94]), a_run(ONES), BOOTSTRAP)
    with pytest.raises(DataError, match=r"slca on test had tasks .*100.* and now has .*99"):
        compare(a_run(ONES[:99]), a_run(ONES), BOOTSTRAP)


def test_other_runs_are_not_compared() -> None:
    ours = a_run(ONES)
    for other, what in (
        (a_run(ONES, steps=4), "steps was 4 and now is 75"),
        (a_run(ONES, profile="smoke"), "profile was 'smoke' and now is 'default'"),
        (a_run(ONES, seeds=[0, 1]), r"seeds was \[0, 1\] and now is \[0\]"),
        (a_run(ONES, judge="rubric"), "judge was 'rubric' and now is None"),
        (ours.model_copy(update={"tasks": {**ours.tasks, "unseen_tools": "c"}}), "the split unseen_tools was scored on other"),
        (a_run(ONES, method="gdpo"), "gdpo on test was measured and now is not"),
    ):
        with pytest.raises(DataError, match=f"cannot be compared with reports/accepted.json: {what}"):
            compare(ours, other, BOOTSTRAP)


def test_a_new_method_has_nothing_to_fall_from() -> None:
    both = a_run(ONES).success | a_run("0" * 100, method="gdpo").success
    compared = compare(a_run(ONES).model_copy(update={"success": both}), a_run(ONES), BOOTSTRAP)
    assert [one.method for one in compared] == ["slca", "slca"]


# With the files of a pipeline


def report(params: Params, root: Path) -> None:
    """The stage's results.json, without its figures."""
    write_json(root / gate.RESULTS, build(params, load(params, root)))


@pytest.fixture
def finished(make_world: Callable[..., Any], task: Any) -> Any:
    """A world whose report is written, with the tasks that were scored."""
    world = make_world()
    for split, count in (("test", 60), ("unseen_tools", 30)):
        tasks = [replace(task, task_id=f"{split}-{number:04d}") for number in range(count)]
        write_tasks(world.root / f"data/tasks/{split}.parquet", tasks)
    report(world.params, world.root)
    return world


def test_a_run_passes_beside_itself_and_a_worse_one_does_not(finished: Any, make_world: Any, tmp_path: Path) -> None:
    assert check(finished.root) is None
    kept = accept(finished.root)
    results = read_json(finished.root / "reports/results.json")["methods"]
    for method, splits in kept.success.items():
        for split, success in splits.items():
            stated = results[method][split]["success"]
            assert (success.mean, success.low, success.high) == (stated["mean"], stated["low"], stated["high"])
            shares = [scores.count("1") / len(scores) for scores in success.by_run.values()]
            assert success.mean == pytest.approx(sum(shares) / len(shares), abs=1e-6)
    assert gate.accepted(finished.root) == kept
    compared = check(finished.root)
    assert compared and {(one.difference.low, one.difference.high) for one in compared} == {(0.0, 0.0)}
    assert len(compared) == len(("warmstart", "grpo", "slca")) * len(("test", "unseen_tools"))

    worse = make_world({"warmstart": 0.35, "grpo": 0.7, "slca": 0.4})  # in place of the other
    report(worse.params, worse.root)
    with pytest.raises(RunStopped, match=r"slca on test has .*; slca on unseen_tools has ") as closed:
        verdict(check(worse.root))
    assert "grpo" not in str(closed.value)


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    value = read_json(path)
    change(value)
    write_json(path, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value: value["methods"].pop("slca"), r"slca on test was measured and now is not"),
        (lambda value: value["methods"]["slca"]["test"].pop("success"), r"results\.json lacks .*'success'"),
        (lambda value: value["methods"]["slca"]["test"]["success"].update(mean=None), r"success\.slca\.test\.mean"),
        (
            lambda value: value["sources"].update({"data/evaluation/slca-1.parquet": "0"}),
            r"not made from data/evaluation/slca-1\.",
        ),
        (lambda value: value.update(methods={}), r"success"),
        (lambda value: value.update(methods=["slca"]), r"results\.json lacks"),
    ],
    ids=["no method", "no success", "no number", "another table", "no methods", "a list"],
)
def test_results_that_are_not_whole_do_not_pass(finished: Any, change: Callable[[Any], Any], message: str) -> None:
    accept(finished.root)
    edit(finished.root / "reports/results.json", change)
    with pytest.raises(DataError, match=message):
        check(finished.root)


def test_not_a_number_does_not_pass(finished: Any) -> None:
    """JSON has no NaN, but Python reads it."""
    accept(finished.root)
    path = finished.root / "reports/results.json"
    mean = read_json(path)["methods"]["slca"]["test"]["success"]["mean"]
    path.write_text(path.read_text().replace(f'"mean": {mean}', '"mean": NaN'))
    with pytest.raises(DataError, match=r"success\.slca\.test\.mean"):
        check(finished.root)


def test_other_tasks_under_the_same_ids_are_not_compared(finished: Any) -> None:
    accept(finished.root)
    path = finished.root / "data/tasks/test.parquet"
    tasks = read_tasks(path)
    write_tasks(path, [replace(tasks[0], question="What else?"), *tasks[1:]])
    with pytest.raises(DataError, match="the split test was scored on other tasks"):
        check(finished.root)
    write_tasks(path, tasks[1:])
    with pytest.raises(DataError, match=r"data/tasks/test\.parquet has no task 'test-0000'"):
        check(finished.root)
    write_tasks(path, tasks)
    assert check(finished.root)


def test_a_damaged_accepted_file_does_not_pass(finished: Any) -> None:
    accept(finished.root)
    edit(finished.root / gate.ACCEPTED, lambda value: value["success"]["slca"]["test"]["by_run"].update({"slca-0": "1x"}))
    with pytest.raises(DataError, match=r"accepted\.json: success\.slca\.test\.by_run\.slca-0.*restore it"):
        check(finished.root)


def test_the_commands_say_what_they_found_in_exit_codes_and_one_sentence(
    finished: Any, make_world: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(name: str) -> tuple[Any, str, str]:
        monkeypatch.setattr("sys.argv", ["slca", name])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return (end.value.code or 0, *capsys.readouterr())

    monkeypatch.chdir(finished.root)
    code, out, _ = command("gate")
    assert code == 0 and "slca accept" in out
    code, out, _ = command("accept")
    assert code == 0 and out.endswith("Accepted: reports/accepted.json\n") and "slca on test: 0." in out
    assert command("gate")[0] == 0
    worse = make_world({"warmstart": 0.35, "grpo": 0.7, "slca": 0.4})
    report(worse.params, worse.root)
    code, out, err = command("gate")
    assert (code, out, err.count("\n")) == (3, "", 1) and "slca on test" in err
    shutil.rmtree(finished.root / "data")
    assert command("gate")[0] == 2
