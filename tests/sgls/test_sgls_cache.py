"""The cache: asked once per key by any number of processes, replay answers from what is stored alone, damage shows."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from slca.errors import DataError
from slca.params import Simulator
from slca.records import Json
from slca.sgls import cache as cache_module
from slca.sgls import cache_upkeep
from slca.sgls.cache import Cache, Question, entry_path
from slca.sgls.simulator import Session
from slca.sgls.tool import load_tools

TOOLS = load_tools([{"name": "forecast", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}], "test")


def question(subject: Json = "s", **parts: Json) -> Question:
    return Question(**{**Question("forecast", "s", subject, "t", "schema", "", "1", 0).to_json(), **parts})


def refuse() -> Json:
    raise AssertionError("the backend was asked")


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_the_second_look_up_asks_nobody_and_counts_as_a_hit(tmp_path: Path) -> None:
    for folder in (None, tmp_path / "cache"):
        cache = Cache("readwrite", folder)
        assert cache.answer(question(), lambda: {"z": "東京", "a": 1.0}) == {"z": "東京", "a": 1.0}
        again = cache.answer(question(), refuse)
        assert again == {"z": "東京", "a": 1.0} and list(again) == ["z", "a"]
        assert (cache.hits, cache.misses, cache.hit_rate) == (1, 1, 0.5)


def test_changing_an_answer_does_not_change_what_is_stored() -> None:
    cache = Cache("readwrite")
    cache.answer(question(), lambda: {"a": [1]})["a"].append(2)
    assert cache.answer(question(), refuse) == {"a": [1]}


def test_off_asks_every_time() -> None:
    cache = Cache("off")
    answers = iter([1, 2])
    assert [cache.answer(question(), lambda: next(answers)) for _ in range(2)] == [1, 2]
    assert (cache.hits, cache.misses, cache.hit_rate) == (0, 2, 0.0)


def test_replay_answers_from_disk_and_a_miss_names_tool_subject_and_remedy(tmp_path: Path) -> None:
    params = Simulator(cache_folder=str(tmp_path))
    recorded = Session(TOOLS, {}, params, "s").call("forecast", {"city": "Oslo"})
    cache = Cache("replay", tmp_path)
    service = Session(TOOLS, {}, Simulator(cache="replay"), "s", cache)
    assert service.call("forecast", {"city": "Oslo"}) == recorded and cache.hits == 1
    with pytest.raises(DataError, match=r"replay.*forecast.*Łódź.*readwrite"):
        service.call("forecast", {"city": "Łódź"})
    with pytest.raises(DataError):  # another seed is another answer
        Session(TOOLS, {}, Simulator(cache="replay", seed=1), "s", cache).call("forecast", {"city": "Oslo"})


def test_a_failed_answer_is_not_stored(tmp_path: Path) -> None:
    cache = Cache("readwrite", tmp_path)
    with pytest.raises(AssertionError):
        cache.answer(question(), refuse)
    assert files(tmp_path) == []
    assert cache.answer(question(), lambda: 1) == 1
    assert files(tmp_path) == [f"{question().key[:2]}/{question().key}.json"]


def test_every_part_counts_in_the_key_except_the_tools_name() -> None:
    assert question(tool="other").key == question().key
    parts = {name: 1 if name == "seed" else "other" for name in question().to_json() if name != "tool"}
    assert len({question().key, *(question(**{name: value}).key for name, value in parts.items())}) == 9
    assert question({"a": 1, "b": 2}).key == question({"b": 2, "a": 1}).key


def test_hostile_subjects_never_leave_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "inner" / "cache"
    cache = Cache("readwrite", folder)
    for subject in ("../../x", "/etc/passwd", "..\\..\\x", "a\0b", "%2e%2e%2f", "x" * 100_000):
        cache.answer(question([subject], tool=subject[:50]), lambda: 1)
    assert [path.name for path in tmp_path.iterdir()] == ["inner"] and len(files(folder)) == 6
    assert cache_upkeep.verify(folder) == []


def test_memory_holds_the_latest_answers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "MOST_KEPT", 3)
    cache = Cache("readwrite")
    for n in range(5):
        cache.answer(question(n), lambda n=n: n)
        cache.answer(question(0), lambda: 0)  # used again and again, it stays
    assert (cache.answer(question(0), refuse), cache.answer(question(4), refuse)) == (0, 4)
    misses = cache.misses
    cache.answer(question(1), lambda: 1)
    assert cache.misses == misses + 1


def test_memory_is_bounded_in_characters_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "MOST_CHARACTERS", 100)
    cache = Cache("readwrite")
    for n in range(3):
        cache.answer(question(n), lambda: "x" * 58)  # 60 with its quotes: one fits, two do not
    assert cache.answer(question(2), refuse) == "x" * 58
    cache.answer(question(1), lambda: "anew")
    assert cache.misses == 4


def test_threads_that_want_the_same_answer_ask_once(tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        cache = Cache("readwrite", folder)
        started, go, asked = threading.Event(), threading.Event(), []

        def ask(started: threading.Event = started, go: threading.Event = go, asked: list[int] = asked) -> Json:
            asked.append(1)
            started.set()
            assert go.wait(30)
            return "answer"

        answers: list[Json] = []
        threads = [
            threading.Thread(target=lambda c=cache, a=ask, out=answers: out.append(c.answer(question(), a))) for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        assert started.wait(30)
        go.set()
        for thread in threads:
            thread.join(30)
        assert answers == ["answer"] * 6 and asked == [1] and (cache.hits, cache.misses) == (5, 1)


WORKER = """
import json, os, random, sys
from pathlib import Path
from slca.sgls.cache import Cache, Question
folder, log, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
cache = Cache("readwrite", folder)
order = list(range(40))
random.Random(seed).shuffle(order)
def ask(n):
    with open(log, "a") as stream:  # one write, at most a line long: whole in any order
        stream.write(f"{n}\\n")
    return {"n": n, "text": "x" * (n * 500), "by": seed}
sys.stdin.readline()
answers = {n: cache.answer(Question("t", "s", n, "", "b", "", "1", 0), lambda n=n: ask(n)) for n in order}
print(json.dumps([answers[n]["by"] for n in range(40)]))
"""


def test_eight_processes_generate_each_answer_once_and_read_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WORKER, str(tmp_path / "cache"), str(tmp_path / "log")]
    workers = [
        subprocess.Popen([*command, str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for seed in range(8)
    ]
    for worker in workers:  # all are there before any begins
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    outputs = [worker.communicate(timeout=60)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 8 and len(set(outputs)) == 1
    assert sorted(map(int, (tmp_path / "log").read_text().split())) == list(range(40))
    assert cache_upkeep.verify(tmp_path / "cache") == [] and cache_upkeep.size(tmp_path / "cache").entries == 40
    assert all(name.endswith(".json") for name in files(tmp_path / "cache"))


HOLDER = """
import sys, time
from pathlib import Path
from slca.sgls.cache import Cache, Question
def ask():
    print("asking", flush=True)
    time.sleep(600)
Cache("readwrite", Path(sys.argv[1])).answer(Question("t", "s", 0, "", "b", "", "1", 0), ask)
"""


def test_a_process_killed_while_it_generates_frees_the_key(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "asking\n"
    answers: list[Json] = []
    wanted = Question("t", "s", 0, "", "b", "", "1", 0)
    waiting = threading.Thread(target=lambda: answers.append(Cache("readwrite", tmp_path).answer(wanted, lambda: "mine")))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()  # the key is held
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate(timeout=30)
    waiting.join(30)
    assert answers == ["mine"] and cache_upkeep.verify(tmp_path) == []
    assert files(tmp_path) == [f"{wanted.key[:2]}/{wanted.key}.json"]


def stored(folder: Path, *subjects: Json, **parts: Json) -> list[Path]:
    cache = Cache("readwrite", folder)
    for subject in subjects:
        cache.answer(question(subject, **parts), lambda subject=subject: {"about": subject})
    return [entry_path(folder, question(subject, **parts).key) for subject in subjects]


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def changed_answer(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace('{"about": "b"}', '{"about": "x"}'), encoding="utf-8")


def changed_question(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace('"seed": 0', '"seed": 5'), encoding="utf-8")


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


def no_entry(path: Path) -> None:
    path.write_text("[1]", encoding="utf-8")


@pytest.mark.parametrize("damage", [cut_short, changed_answer, changed_question, no_text, no_entry])
def test_damage_is_found_named_and_pruned(tmp_path: Path, damage: object) -> None:
    paths = stored(tmp_path, "a", "b", "c")
    assert callable(damage)
    damage(paths[1])
    assert cache_upkeep.verify(tmp_path) == [paths[1]]
    with pytest.raises(DataError, match=paths[1].name):
        Cache("readwrite", tmp_path).answer(question("b"), refuse)
    assert cache_upkeep.prune(tmp_path).entries == 1 and not paths[1].exists()
    assert Cache("replay", tmp_path).answer(question("a"), refuse) == {"about": "a"}


def test_entries_tell_what_made_them(tmp_path: Path) -> None:
    stored(tmp_path, "a", backend="openai", model="qwen", prompt_version="7")
    (entry,) = cache_upkeep.entries(tmp_path)
    made = entry.question
    assert (made.tool, made.backend, made.model, made.prompt_version) == ("forecast", "openai", "qwen", "7")
    assert entry.bytes == entry.path.stat().st_size == cache_upkeep.size(tmp_path).bytes
    assert json.loads(entry.path.read_text(encoding="utf-8"))["answer"] == {"about": "a"}


def test_pruning_by_backend_age_and_size(tmp_path: Path) -> None:
    theirs, ours = stored(tmp_path, "a", "b", backend="openai"), stored(tmp_path, "c", "d", "e")
    for age, path in enumerate([*theirs, *ours]):
        os.utime(path, (1000 - age, 1000 - age))
    assert cache_upkeep.prune(tmp_path, backend="openai", now=1000).entries == 2
    assert not any(path.exists() for path in theirs)
    assert cache_upkeep.prune(tmp_path, older_than=3, now=1000).entries == 1  # e is 4 seconds old, c 2, d 3
    room = ours[0].stat().st_size
    assert cache_upkeep.prune(tmp_path, max_bytes=room, now=1000).entries == 1  # the older one, d
    assert [path.exists() for path in ours] == [True, False, False]
    assert cache_upkeep.prune(tmp_path, max_bytes=0, now=1000) == cache_upkeep.Size(1, room)


def test_pruning_leaves_what_is_no_entry_and_takes_what_killed_writers_left(tmp_path: Path) -> None:
    (path,) = stored(tmp_path / "cache", "a")
    outside = tmp_path / "outside.json"
    outside.write_text("{}", encoding="utf-8")
    note, link = path.with_name("README.md"), path.with_name(f"{'0' * 64}.json")
    note.write_text("mine", encoding="utf-8")
    link.symlink_to(outside)
    left, lock = path.with_name(f"{cache_module.TEMPORARY}x"), path.with_suffix(".lock")
    left.write_text("{", encoding="utf-8")
    lock.touch()
    cache_upkeep.prune(tmp_path / "cache", max_bytes=0, now=left.stat().st_mtime + 4000)
    assert sorted(item.name for item in path.parent.iterdir()) == sorted([note.name, link.name]) and outside.exists()


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    for use in (cache_upkeep.verify, cache_upkeep.size, cache_upkeep.prune, lambda folder: list(cache_upkeep.entries(folder))):
        with pytest.raises(DataError, match="nowhere"):
            use(tmp_path / "nowhere")
