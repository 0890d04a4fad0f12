"""Files that are whole or absent, work that survives a kill, and processes that end with their parent."""

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import beside_cases
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slca import work
from slca.errors import DataError
from slca.files import canonical_json, derive_seed, digest, read_json, replacing, write_json, write_text
from slca.side_by_side import beside
from slca.work import inputs_digest, last_checkpoint, open_work, publish


class Fault(Exception):
    pass


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Files


def test_a_file_appears_whole_or_the_old_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    write_text(path, "old")
    with pytest.raises(Fault), replacing(path) as temporary:
        temporary.write_text("half of the n")
        raise Fault
    assert path.read_text() == "old" and names(path.parent) == ["file.txt"]
    write_text(path, "new, 東京")
    assert path.read_bytes() == "new, 東京".encode() and names(path.parent) == ["file.txt"]


def test_nothing_appears_where_nothing_was_written(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "file.txt"):
        pass
    assert names(tmp_path) == []


def test_a_folder_is_replaced_as_a_whole_or_stays(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").touch()
    with pytest.raises(Fault), replacing(path) as temporary:
        temporary.mkdir()
        (temporary / "new").touch()
        raise Fault
    assert names(path) == ["old"] and names(tmp_path) == ["folder"]
    with replacing(path) as temporary:
        temporary.mkdir()
        (temporary / "new").touch()
        assert names(path) == ["old"]  # until the new one is complete
    assert names(path) == ["new"] and names(tmp_path) == ["folder"]


def test_what_a_killed_process_of_the_same_id_left_is_not_mixed_in(tmp_path: Path) -> None:
    left = tmp_path / f".folder.tmp-{os.getpid()}"
    left.mkdir()
    (left / "stale").touch()
    with replacing(tmp_path / "folder") as temporary:
        temporary.mkdir()
    assert names(tmp_path) == ["folder"] and names(tmp_path / "folder") == []


def test_canonical_json_has_one_spelling_per_value() -> None:
    assert canonical_json({"b": [1, 2.5, None], "a": "東京"}) == '{"a":"東京","b":[1,2.5,null]}'
    assert canonical_json({"b": 1, "a": 2}) == canonical_json({"a": 2, "b": 1})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_know_are_refused(value: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": [value]})
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "file.json", {"a": value})
    assert names(tmp_path) == []


def test_a_seed_is_the_same_everywhere_and_always() -> None:
    """First 16 hex digits of `printf '["rollout",0,"t-1",3]' | sha256sum`, halved: 63 bits."""
    assert derive_seed("rollout", 0, "t-1", 3) == 0xC902EC4AFB1F146D // 2


@given(st.lists(st.integers() | st.text(), max_size=4), st.lists(st.integers() | st.text(), max_size=4))
def test_other_values_give_other_seeds(first: list[int | str], second: list[int | str]) -> None:
    assert 0 <= derive_seed(*first) < 2**63
    assert (derive_seed(*first) == derive_seed(*second)) == (first == second)


def test_values_do_not_run_into_each_other() -> None:
    assert len({derive_seed("ab", "c"), derive_seed("a", "bc"), derive_seed("abc"), derive_seed("a", "b", "c")}) == 4
    assert digest(1) != digest("1")


def test_json_is_read_back_or_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_json(path, {"b": "東京", "a": [1]})
    assert read_json(path) == {"b": "東京", "a": [1]}
    assert "東京" in path.read_text(encoding="utf-8")
    path.write_text('{"a": ')
    with pytest.raises(DataError, match=r"file\.json is not valid JSON"):
        read_json(path)
    with pytest.raises(DataError, match=r"gone\.json does not exist"):
        read_json(tmp_path / "gone.json")


# Work folders


def test_work_of_the_same_computation_is_kept_and_of_another_cleared(tmp_path: Path) -> None:
    folder = open_work(tmp_path, "stage/run", "mark")
    (folder / "shard").write_text("partial")
    assert open_work(tmp_path, "stage/run", "mark") == folder
    assert (folder / "shard").exists()
    assert open_work(tmp_path, "stage/run", "another mark") == folder
    assert names(folder) == ["fingerprint.json"]
    assert names(open_work(tmp_path, "stage/run", "mark")) == ["fingerprint.json"]  # what was cleared does not come back


def test_work_with_an_unreadable_mark_starts_clean(tmp_path: Path) -> None:
    folder = open_work(tmp_path, "stage", "mark")
    (folder / "shard").touch()
    (folder / "fingerprint.json").write_text('"ma')
    open_work(tmp_path, "stage", "mark")
    assert names(folder) == ["fingerprint.json"]


def test_inputs_are_known_by_content(tmp_path: Path) -> None:
    for copy in ("a", "b"):
        (tmp_path / copy / "model").mkdir(parents=True)
        (tmp_path / copy / "model" / "weights").write_text("1")
    first, second = (inputs_digest([tmp_path / copy / "model"]) for copy in ("a", "b"))
    assert first == second  # wherever they lie
    (tmp_path / "b" / "model" / "weights").write_text("2")
    assert inputs_digest([tmp_path / "b" / "model"]) != first
    with pytest.raises(DataError, match="gone does not exist"):
        inputs_digest([tmp_path / "gone"])


def test_publishing_copies_everything_and_then_removes_the_work(tmp_path: Path) -> None:
    folder = open_work(tmp_path, "stage", "mark")
    (folder / "shards").mkdir()
    (folder / "shards" / "part").write_text("whole")
    (folder / "shards" / ".part.tmp-1").write_text("half")  # left by a killed process
    (folder / "curve.csv").write_text("1")
    old = tmp_path / "data" / "shards"
    old.mkdir(parents=True)
    (old / "stale").touch()
    publish(folder, {"shards": old, "curve.csv": tmp_path / "reports" / "curve.csv"})
    assert names(old) == ["part"] and (old / "part").read_text() == "whole"
    assert (tmp_path / "reports" / "curve.csv").read_text() == "1"
    assert not folder.exists()
    assert names(open_work(tmp_path, "stage", "mark")) == ["fingerprint.json"]


def test_a_publication_that_fails_keeps_the_work(tmp_path: Path) -> None:
    folder = open_work(tmp_path, "stage", "mark")
    (folder / "first").write_text("1")
    with pytest.raises(FileNotFoundError):
        publish(folder, {"first": tmp_path / "first", "second": tmp_path / "second"})
    assert (open_work(tmp_path, "stage", "mark") / "first").exists()
    assert not (tmp_path / "second").exists()


def test_only_complete_checkpoints_count(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path) is None
    assert last_checkpoint(tmp_path / "gone") is None
    for step, complete in ((9, True), (10, True), (20, False)):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "weights").touch()
        if complete:
            (tmp_path / f"checkpoint-{step}" / "complete").touch()
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"  # by number, not by name
    assert names(tmp_path) == ["checkpoint-10", "checkpoint-9"]


SECOND = """
import sys
from pathlib import Path
from slca.work import open_work
folder = open_work(Path(sys.argv[1]), "stage", "mark")
print(sorted(path.name for path in folder.iterdir()), flush=True)
"""


@pytest.mark.parametrize("published", [True, False])
def test_a_second_process_waits_for_the_first(published: bool, tmp_path: Path) -> None:
    """This process is the first; closing its lock stands for its end. The second then starts afresh, or goes on."""
    folder = open_work(tmp_path, "stage", "mark")
    (folder / "shard").touch()
    command = [sys.executable, "-c", SECOND, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as second:
        assert second.stderr is not None and second.stdout is not None
        assert "waiting for it to end" in second.stderr.readline()
        assert second.poll() is None
        if published:
            publish(folder, {"shard": tmp_path / "shard"})
        work._HELD.pop(folder.with_name("stage.lock")).close()
        output, errors = second.communicate(timeout=90)
    assert errors == "" and second.returncode == 0
    assert output == ("['fingerprint.json']\n" if published else "['fingerprint.json', 'shard']\n")


# Processes beside this one


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def await_end(pids: list[int], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while running := [pid for pid in pids if is_running(pid)]:
        assert time.monotonic() < deadline, f"still running: {running}"
        time.sleep(0.05)


def test_work_beside_is_done_when_the_body_has_ended(tmp_path: Path) -> None:
    with beside(beside_cases.write, [(tmp_path / "first",), (tmp_path / "second",)]):
        (tmp_path / "body").touch()
    assert names(tmp_path) == ["body", "first", "second"]


def test_a_failure_beside_does_not_reach_the_body(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with beside(beside_cases.fail, [(tmp_path / "child",)]):
        beside_cases.await_file(tmp_path / "child")
    assert (tmp_path / "child").read_text() == "failing"
    assert capfd.readouterr() == ("", "")  # not even a traceback: whoever does that work for its own sake reports it


def test_nothing_beside_costs_nothing() -> None:
    before = psutil.Process().children()
    with beside(beside_cases.write, []):
        assert psutil.Process().children() == before


def test_a_failure_in_the_body_ends_the_others(tmp_path: Path) -> None:
    with pytest.raises(Fault), beside(beside_cases.sleep, [(tmp_path, "child")]):
        beside_cases.await_file(tmp_path / "child")
        raise Fault
    await_end([int((tmp_path / "child").read_text())])


def test_a_killed_parent_takes_its_children_with_it(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, beside_cases.__file__, str(tmp_path)]) as parent:
        for name in ("parent", "first", "second"):
            beside_cases.await_file(tmp_path / name)
        children = [int((tmp_path / name).read_text()) for name in ("first", "second")]
        assert all(is_running(pid) for pid in children)
        parent.send_signal(signal.SIGKILL)
    await_end(children)
