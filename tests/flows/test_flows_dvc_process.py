"""flows.dvc_process: lines in order, errors with names, order of stages, and no process left, whatever ends the run."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows import dvc_process, supervised
from flows.dvc_process import DvcFailed

MakeRepository = Callable[[dict[str, Any]], Path]

DIAMOND = {
    "last": {"cmd": "cat left right > last", "deps": ["left", "right"], "outs": ["last"]},
    "side": {"matrix": {"name": ["left", "right"]}, "cmd": "cp first ${item.name}", "deps": ["first"], "outs": ["${item.name}"]},
    "first": {"cmd": "echo first > first", "outs": ["first"]},
    "other": {"cmd": "echo other > other", "outs": ["other"]},
}


def heard(repository: Path, *targets: str, **options: Any) -> list[str]:
    lines: list[str] = []
    dvc_process.repro(targets, repository, lines.append, **options)
    return lines


def test_lines_come_in_order_from_both_streams_and_from_unflushed_python(
    make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    script = "import sys\nfor i in range(200): print(i, file=(sys.stdout, sys.stderr)[i % 2])\n"
    repository = make_repository({"count": {"cmd": "python count.py"}})
    (repository / "count.py").write_text(script)
    lines = heard(repository)
    assert [line for line in lines if line.isdecimal()] == [str(i) for i in range(200)]
    assert lines.index("Running stage 'count':") < lines.index("0")


def test_a_line_is_heard_while_its_stage_still_runs(make_repository: MakeRepository) -> None:
    # The stage waits for a file that only the listener writes, once it has heard the line.
    repository = make_repository({"ask": {"cmd": "echo ask; while [ ! -e answer ]; do sleep 0.05; done; echo answered"}})
    lines: list[str] = []

    def hear(line: str) -> None:
        lines.append(line)
        if line == "ask":
            (repository / "answer").touch()

    dvc_process.repro([], repository, hear)
    assert "answered" in lines


def test_progress_bars_split_characters_and_missing_line_ends(make_repository: MakeRepository) -> None:
    script = r"""
import os, time
for part in (b"10%\r50%\r", b"100%\nS\xc3", b"\xa3o\r", b"\nlast"):
    os.write(1, part)
    time.sleep(0.1)
"""
    repository = make_repository({"write": {"cmd": "python write.py"}})
    (repository / "write.py").write_text(script)
    lines = heard(repository)
    start = lines.index("> python write.py") + 1
    # "last" has no line end: what DVC writes next follows on the same line or the output ends.
    assert lines[start : start + 2] == ["100%", "São"]
    assert lines[start + 2].startswith("last")


def test_a_stage_uses_this_python_and_is_quiet_and_offline(
    make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    script = (
        "import os, sys\nprint('prefix', sys.prefix)\nprint('env', os.environ['DO_NOT_TRACK'], os.environ['HF_HUB_OFFLINE'])\n"
    )
    repository = make_repository({"look": {"cmd": "python look.py"}})
    (repository / "look.py").write_text(script)
    lines = heard(repository)
    assert f"prefix {sys.prefix}" in lines
    assert "env 1 0" in lines  # a default, and a value that the user has set


def test_a_failing_stage_is_named_with_its_last_lines(make_repository: MakeRepository) -> None:
    repository = make_repository({"good": {"cmd": "echo fine"}, "bad": {"cmd": "seq 50; exit 7"}})
    with pytest.raises(DvcFailed) as failure:
        heard(repository)
    assert failure.value.stage == "bad"
    assert str(failure.value).startswith("Stage 'bad' failed")
    assert len(failure.value.lines) == supervised.LAST_LINES
    assert "50" in failure.value.lines and "1" not in failure.value.lines


def test_an_unknown_target_is_an_error_without_a_stage(make_repository: MakeRepository) -> None:
    repository = make_repository(DIAMOND)
    with pytest.raises(DvcFailed, match="nowhere") as failure:
        heard(repository, "nowhere")
    assert failure.value.stage is None
    with pytest.raises(DvcFailed, match="nowhere") as failure:
        dvc_process.plan(["nowhere"], repository)
    assert failure.value.stage is None


def test_plan_is_the_targets_and_what_they_depend_on_in_order(make_repository: MakeRepository) -> None:
    repository = make_repository(DIAMOND)
    everything = dvc_process.plan([], repository)
    assert sorted(everything) == ["first", "last", "other", "side@left", "side@right"]
    assert [name for name in everything if name != "other"] == ["first", "side@left", "side@right", "last"]
    assert dvc_process.plan(["side"], repository) == ["first", "side@left", "side@right"]
    assert dvc_process.plan(["right"], repository) == ["first", "side@right"]  # an output stands for its stage
    assert dvc_process.plan(["other", "side@left"], repository) == ["other", "first", "side@left"]


def test_plan_of_a_repository_without_stages_is_refused(make_repository: MakeRepository) -> None:
    with pytest.raises(ValueError, match=r"dvc\.yaml"):
        dvc_process.plan([], make_repository({}))


def test_force_runs_what_is_up_to_date(make_repository: MakeRepository) -> None:
    repository = make_repository(DIAMOND)
    heard(repository, "side@left")
    assert "Running stage 'first':" not in heard(repository, "side@left")
    assert "Running stage 'first':" in heard(repository, "side@left", force=True)
    single = heard(repository, "side@left", force=True, single=True)
    assert "Running stage 'side@left':" in single and "Running stage 'first':" not in single


def test_an_exception_in_the_listener_ends_the_whole_tree(sleeping: Any) -> None:
    processes: list[psutil.Process] = []

    def hear(line: str) -> None:
        if line == "asleep":
            processes.extend(sleeping.processes())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dvc_process.repro([], sleeping.path, hear)
    assert len(processes) == 3
    # No waiting: they are gone when the call returns.
    assert [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE] == []
    sleeping.assert_repro_works()


def test_a_stage_that_ignores_sigterm_is_killed_after_the_grace(make_repository: MakeRepository) -> None:
    script = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: print("no", flush=True))
print("pid", os.getpid(), flush=True)
while True: time.sleep(1)
"""
    repository = make_repository({"stubborn": {"cmd": "python stubborn.py"}})
    (repository / "stubborn.py").write_text(script)
    stage: list[psutil.Process] = []

    def hear(line: str) -> None:
        if line.startswith("pid "):
            stage.append(psutil.Process(int(line.removeprefix("pid "))))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dvc_process.repro([], repository, hear, grace=0.5)
    assert not stage[0].is_running() or stage[0].status() == psutil.STATUS_ZOMBIE


def test_a_stage_may_clean_up_within_the_grace(make_repository: MakeRepository) -> None:
    script = """
import signal, sys, time
def stop(*_):
    time.sleep(0.3)
    open("cleaned", "w").close()
    sys.exit(1)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while True: time.sleep(1)
"""
    repository = make_repository({"tidy": {"cmd": "python tidy.py"}})
    (repository / "tidy.py").write_text(script)

    def hear(line: str) -> None:
        if line == "ready":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dvc_process.repro([], repository, hear)
    assert (repository / "cleaned").exists()


def test_what_a_finished_stage_left_running_is_ended_and_not_waited_for(make_repository: MakeRepository) -> None:
    repository = make_repository({"leave": {"cmd": "sleep 300 & echo $! > pid; echo left"}})
    assert "left" in heard(repository)
    left = int((repository / "pid").read_text())
    assert not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP], ids=lambda number: number.name)
def test_the_stage_ends_with_the_process_that_called_dvc(sleeping: Any, number: signal.Signals) -> None:
    # No handler: Python ends at once on each of these and can clean up nothing itself.
    # SIGHUP is ignored by what `nohup` starts, and by what that starts.
    code = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
    code += f"from pathlib import Path; from flows import dvc_process; dvc_process.repro([], Path({str(sleeping.path)!r}), print)"
    caller = subprocess.Popen([sys.executable, "-c", code], cwd=Path(dvc_process.__file__).parents[1], stdout=subprocess.DEVNULL)
    processes = sleeping.processes()
    os.kill(caller.pid, number)
    assert caller.wait() == -number
    sleeping.wait_until_gone(processes)
    sleeping.assert_repro_works()
