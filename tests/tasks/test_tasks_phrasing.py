from pathlib import Path

import pytest

from slca.errors import DataError
from slca.tasks.phrasing import droppable, load_book, render, slots, words

TEMPLATE = "Fly[ from {a}] to [{b}|somewhere] on {day}."


def test_brackets_fall_to_their_other_side_without_a_value() -> None:
    assert render(TEMPLATE, {"a": "X", "b": "Y", "day": 1}) == "Fly from X to Y on 1."
    assert render(TEMPLATE, {"b": "東京", "day": 1}) == "Fly to 東京 on 1."
    assert render(TEMPLATE, {"day": 1}) == "Fly to somewhere on 1."


def test_a_slot_outside_brackets_needs_its_value() -> None:
    with pytest.raises(KeyError, match="day"):
        render(TEMPLATE, {"a": "X"})


def test_only_bracketed_slots_can_be_dropped() -> None:
    assert slots(TEMPLATE) == ("a", "b", "day")
    assert droppable(TEMPLATE) == ("a", "b")
    assert droppable("[{a}|x] and {a}") == ()


def test_braces_in_values_are_left_alone() -> None:
    assert render("Say {a}.", {"a": "[x|y] {b}"}) == "Say [x|y] {b}."


def test_names_become_words() -> None:
    assert words("repo_path") == words("repoPath") == words("repo-path") == "repo path"


def test_a_faulty_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text("domain: shop\nslots: {}\nrecords: {}\ntools: {buy: {train: [Buy], tests: []}}\n")
    with pytest.raises(DataError, match=r"shop\.yaml: field tools\.buy"):
        load_book(tmp_path)
