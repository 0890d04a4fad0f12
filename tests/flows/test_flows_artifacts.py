"""flows.artifacts.rows: any JSON becomes a table."""

from flows.artifacts import rows


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
