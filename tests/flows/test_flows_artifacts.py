"""Any JSON becomes tables, and a page brings its figures along."""

import base64
from pathlib import Path

import pytest

from flows import artifacts
from flows.artifacts import rows, tables, with_images


def test_measures_and_other_scalars_share_one_set_of_columns() -> None:
    results = {
        "profile": "default",
        "methods": {"slca": {"test": {"success": {"mean": 0.9, "sd": 0.1, "low": 0.8, "high": 1.0, "seeds": 3}}}},
        "versions": {"trl": "1.16.0"},
        "notes": ["a", {"b": None}],
    }
    empty = {"value": None, "mean": None, "sd": None, "low": None, "high": None, "seeds": None}
    assert rows(results) == [
        {"name": "profile"} | empty | {"value": "default"},
        {"name": "methods/slca/test/success"} | empty | {"mean": 0.9, "sd": 0.1, "low": 0.8, "high": 1.0, "seeds": 3},
        {"name": "versions/trl"} | empty | {"value": "1.16.0"},
        {"name": "notes/0"} | empty | {"value": "a"},
        {"name": "notes/1/b"} | empty,
    ]
    assert all(list(row) == list(rows(results)[0]) for row in rows(results))


def test_nested_values_of_a_measure_are_kept() -> None:
    assert rows({"m": {"mean": 1, "by_seed": {"0": 2}}}) == [
        {"name": "m", "value": None, "mean": 1},
        {"name": "m/by_seed/0", "value": 2, "mean": None},
    ]


def test_nothing_and_a_bare_scalar() -> None:
    assert rows({}) == []
    assert rows(3) == [{"name": "", "value": 3}]


def test_a_table_for_each_part_and_one_for_all_else() -> None:
    results = {
        "profile": "default",
        "bfcl": {"simple_python": {"mean": 0.5}},
        "steps_to_final": {"slca": 3},
        "calibration": {},
        "notes": ["a"],
    }
    assert tables(results) == {
        "slca-results-table": [{"name": "profile", "value": "default"}],
        "slca-results-bfcl": [{"name": "simple_python", "value": None, "mean": 0.5}],
        "slca-results-steps-to-final": [{"name": "slca", "value": 3}],
        "slca-results-notes": [{"name": "0", "value": "a"}],
    }
    assert tables([1]) == {"slca-results-table": [{"name": "0", "value": 1}]}


def test_images_beside_a_page_are_written_into_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = tmp_path / "reports"
    (reports / "figures").mkdir(parents=True)
    (reports / "figures" / "a.svg").write_bytes(b"<svg/>")
    (reports / "figures" / "b.png").write_bytes(b"not small")
    (tmp_path / "outside.png").write_bytes(b"")
    monkeypatch.setattr(artifacts, "IMAGE_BYTES", 8)
    others = "![large](figures/b.png) ![gone](figures/c.png) ![out](../outside.png) ![far](https://example.org/a.png)"
    page = with_images(f"# São ![an a](figures/a.svg)\n{others}\n", reports)
    assert page == f"# São ![an a](data:image/svg+xml;base64,{base64.b64encode(b'<svg/>').decode()})\n{others}\n"
