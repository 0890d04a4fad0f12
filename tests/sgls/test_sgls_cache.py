"""The cache: asked once per key, replay answers from what is stored alone, the first of several writers decides."""

from pathlib import Path

import pytest

from slca.errors import DataError
from slca.params import Simulator
from slca.records import Json
from slca.sgls.cache import Cache, cache_key
from slca.sgls.simulator import Session
from slca.sgls.tool import load_tools

TOOLS = load_tools([{"name": "forecast", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}], "test")


def refuse() -> Json:
    raise AssertionError("the backend was asked")


def test_the_second_look_up_asks_nobody_and_counts_as_a_hit(tmp_path: Path) -> None:
    for folder in (None, tmp_path / "cache"):
        cache = Cache("readwrite", folder)
        assert cache.answer("k1", lambda: {"z": "東京", "a": 1.0}) == {"z": "東京", "a": 1.0}
        again = cache.answer("k1", refuse)
        assert again == {"z": "東京", "a": 1.0} and list(again) == ["z", "a"]
        assert (cache.hits, cache.misses) == (1, 1)


def test_changing_an_answer_does_not_change_what_is_stored() -> None:
    cache = Cache("readwrite")
    cache.answer("k", lambda: {"a": [1]})["a"].append(2)
    assert cache.answer("k", refuse) == {"a": [1]}


def test_off_asks_every_time() -> None:
    cache = Cache("off")
    answers = iter([1, 2])
    assert [cache.answer("k", lambda: next(answers)) for _ in range(2)] == [1, 2]
    assert (cache.hits, cache.misses) == (0, 2)


def test_replay_answers_from_disk_and_a_miss_says_what_to_do(tmp_path: Path) -> None:
    recorded = Session(TOOLS, {}, Simulator(), "s", Cache("readwrite", tmp_path)).call("forecast", {"city": "Oslo"})
    cache = Cache("replay", tmp_path)
    service = Session(TOOLS, {}, Simulator(cache="replay"), "s", cache)
    assert service.call("forecast", {"city": "Oslo"}) == recorded and cache.hits == 1
    with pytest.raises(DataError, match=r"replay.*readwrite"):
        service.call("forecast", {"city": "Rome"})
    with pytest.raises(DataError):  # another seed is another answer
        Session(TOOLS, {}, Simulator(cache="replay", seed=1), "s", cache).call("forecast", {"city": "Oslo"})


def test_of_two_writers_the_first_decides(tmp_path: Path) -> None:
    first, second = Cache("readwrite", tmp_path), Cache("readwrite", tmp_path)

    def slow() -> Json:
        first.answer("key", lambda: "first")  # arrives while the second is still asking
        return "second"

    assert second.answer("key", slow) == "first" == first.answer("key", refuse)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["key.json"]


def test_a_failed_answer_is_not_stored(tmp_path: Path) -> None:
    cache = Cache("readwrite", tmp_path)
    with pytest.raises(AssertionError):
        cache.answer("key", refuse)
    assert cache.answer("key", lambda: 1) == 1


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    Cache("readwrite", tmp_path).answer("key", lambda: 1)
    (tmp_path / "ke" / "key.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"key\.json"):
        Cache("readwrite", tmp_path).answer("key", lambda: 1)


def test_every_part_counts_in_the_key_and_the_order_of_keys_does_not() -> None:
    parts: dict[str, Json] = {
        **{"schema": {"a": 1, "b": 2}, "arguments": {"city": "Oslo"}, "state": {}},
        **{"backend": "schema", "model": "", "prompt_version": "1", "seed": 0},
    }
    keys = {cache_key(**parts), cache_key(**{**parts, "schema": {"b": 2, "a": 1}})}
    assert len(keys) == 1
    keys |= {cache_key(**{**parts, name: "other"}) for name in parts}
    assert len(keys) == 8
