"""The parts of the BFCL harness that need no BFCL: schemas, names, the guards before the checker, errors of the worker."""

import json
import sys
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slca.benchmarks.bfcl import harness, worker
from slca.errors import MissingDependency, SlcaError


def test_schema_conversion_is_recursive_and_valid():
    bfcl = {
        "type": "dict",
        "properties": {
            "type": {"type": "string", "enum": ["a", "b"]},  # a parameter that happens to be called type
            "price": {"type": "float", "optional": True, "default": 1.5},
            "point": {"type": "tuple", "items": {"type": "float"}},
            "anything": {"type": "any"},
            "filter": {"type": "dict", "properties": {"ids": {"type": "array", "items": {"type": "dict", "properties": {}}}}},
        },
        "required": ["type"],
    }
    converted = worker.json_schema(bfcl)
    assert converted == {
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["a", "b"]},
            "price": {"type": "number", "default": 1.5},
            "point": {"type": "array", "items": {"type": "number"}},
            "anything": {"type": "string"},
            "filter": {
                "type": "object",
                "properties": {"ids": {"type": "array", "items": {"type": "object", "properties": {}}}},
            },
        },
        "required": ["type"],
    }
    jsonschema.Draft202012Validator.check_schema(converted)


def test_names_lose_their_dots_and_can_be_mapped_back():
    assert worker.safe_names(["math.factorial", "a.b.c", "plain"], "x") == {
        "math_factorial": "math.factorial",
        "a_b_c": "a.b.c",
        "plain": "plain",
    }


def test_names_that_would_become_equal_are_refused():
    with pytest.raises(ValueError, match="item_3"):
        worker.safe_names(["a.b", "a_b"], "item_3")


def nested(depth):
    value: object = 1
    for _ in range(depth):
        value = [value]
    return {"x": value}


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ([{"name": "f.g", "arguments": {"x": 1}}], ""),
        ([], ""),
        ([{"name": "f_g", "arguments": {}}], "refused:unknown_function"),
        ([{"name": "__import__('os').system('true')", "arguments": {}}], "refused:unknown_function"),
        ([{"name": "f.g", "arguments": {}}, {"name": "h", "arguments": {}}], "refused:unknown_function"),  # one is enough
        ([{"name": ["f.g"], "arguments": {}}], "refused:unknown_function"),  # an unhashable name is no crash
        ([{"arguments": {}}], "refused:unknown_function"),
        ([{"name": "f.g", "arguments": "{}"}], "refused:arguments"),
        ([{"name": "f.g", "arguments": None}], "refused:arguments"),
        ([{"name": "f.g", "arguments": {"x": "y" * 50_001}}], "refused:arguments"),
        ([{"name": "f.g", "arguments": {"x": [0] * 2_000}}], "refused:arguments"),
        ([{"name": "f.g", "arguments": nested(100_000)}], "refused:arguments"),  # far beyond Python's recursion limit
        ([{"name": "f.g", "arguments": {}}] * 101, "refused:too_many_calls"),
        ("f.g()", "refused:not_calls"),
        (["f.g()"], "refused:not_calls"),
    ],
)
def test_what_may_reach_the_checker(calls, reason):
    assert worker.refusal(calls, {"f.g"}) == reason


def test_depth_limit_is_exact():
    # the arguments object is level 1, each list one more, the number inside the last: 1 + lists + 1 levels
    assert not worker.too_large(nested(worker.MAX_ARGUMENT_DEPTH - 2))
    assert worker.too_large(nested(worker.MAX_ARGUMENT_DEPTH - 1))


@given(st.lists(st.booleans(), max_size=30))
def test_depth_counts_lists_and_objects_alike(wrappings):
    value: object = "leaf"
    for in_list in wrappings:
        value = [value] if in_list else {"k": value}
    # levels: the leaf, one for each wrapping, and the arguments object itself
    assert worker.too_large({"x": value}) == (1 + len(wrappings) + 1 > worker.MAX_ARGUMENT_DEPTH)


def test_gold_takes_the_first_value_that_is_given():
    function = {"name": "f", "parameters": {"properties": {}}}
    answer = {"f": {"a": ["", 2, 3], "b": [""], "c": [{"k": ["", "v"], "left_out": [""]}], "d": [[{"k": [1, 2]}, 5]]}}
    assert worker.gold_call(answer, function, "python") == {
        "name": "f",
        "arguments": {"a": 2, "c": {"k": "v"}, "d": [{"k": 1}, 5]},
    }


def test_gold_for_java_is_source_text():
    kinds = {
        "flag": {"type": "boolean"},
        "count": {"type": "long"},
        "names": {"type": "ArrayList", "items": {"type": "String"}},
        "ids": {"type": "Array", "items": {"type": "long"}},
        "map": {"type": "HashMap"},
    }
    answer = {"f": {"flag": [True], "count": [7], "names": [["a", "b"]], "ids": [[1, 2]], "map": [{"k": ["v"]}]}}
    assert worker.gold_call(answer, {"name": "f", "parameters": {"properties": kinds}}, "java")["arguments"] == {
        "flag": "true",
        "count": "7L",
        "names": 'new ArrayList<>(Arrays.asList("a", "b"))',
        "ids": "new T[]{1L, 2L}",
        "map": 'new HashMap<>() {{ put("k", "v"); }}',
    }


def test_a_missing_environment_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv(harness.PYTHON_VARIABLE, raising=False)
    with pytest.raises(MissingDependency, match=r"\.venv-bfcl/bin/python.*make setup"):
        harness.questions(["multiple"], 1, tmp_path)
    monkeypatch.setenv(harness.PYTHON_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(MissingDependency, match=r"SLCA_BFCL_PYTHON names .*nowhere.*make setup"):
        harness.python_of_environment(tmp_path)


def test_the_variable_wins_and_links_are_kept(tmp_path, monkeypatch):
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    monkeypatch.setenv(harness.PYTHON_VARIABLE, str(link))
    assert harness.python_of_environment(tmp_path) == link  # resolved, it would be another environment's python


def test_a_python_without_the_package_is_an_error_and_not_a_score(monkeypatch):
    monkeypatch.setenv(harness.PYTHON_VARIABLE, sys.executable)  # the project's own environment has no bfcl_eval
    prediction = harness.Prediction("multiple_0", "multiple", ())
    with pytest.raises(SlcaError, match=r"score.* failed with exit code 1: .*No module named 'bfcl_eval'.*nothing was scored"):
        harness.score([prediction])


def fake_python(tmp_path: Path, monkeypatch, body: str) -> None:
    """A stand-in for the environment's python, called as ``python -I -X utf8 worker.py COMMAND ...``."""
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setenv(harness.PYTHON_VARIABLE, str(script))


def test_a_worker_that_hangs_is_ended(tmp_path, monkeypatch):
    fake_python(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr(harness, "TIME_LIMIT", 0.2)
    with pytest.raises(SlcaError, match="did not end within"):
        harness.questions(["multiple"], 1)


def test_a_worker_that_writes_nothing_is_an_error(tmp_path, monkeypatch):
    fake_python(tmp_path, monkeypatch, "exit 0")
    with pytest.raises(SlcaError, match="no output"):
        harness.questions(["multiple"], 1)


def test_a_worker_that_loses_predictions_is_an_error(tmp_path, monkeypatch):
    empty = json.dumps({"version": "0", "categories": {}, "items": []})
    fake_python(tmp_path, monkeypatch, f"while [ $# -gt 1 ]; do shift; done; echo '{empty}' > \"$1\"")
    with pytest.raises(SlcaError, match="scored 0 of 1"):
        harness.score([harness.Prediction("multiple_0", "multiple", ())])


def test_a_schema_that_load_tool_refuses_is_kept_and_counted(tmp_path, monkeypatch):
    parameters = {"type": "object", "properties": {"x": {"type": "number", "minimum": "zero"}}}  # minimum must be a number
    functions = [
        {"name": "odd", "description": "", "parameters": parameters},
        {"name": "fine", "description": "", "parameters": {"type": "object"}},
    ]
    names = {"odd": "odd", "fine": "fine"}
    line = json.dumps({"id": "i", "category": "c", "messages": [], "functions": functions, "names": names})
    fake_python(tmp_path, monkeypatch, f"while [ $# -gt 1 ]; do shift; done; echo '{line}' > \"$1\"")
    (question,) = harness.questions(["c"])
    assert [tool.name for tool in question.tools] == ["odd", "fine"]
    assert question.tools[0].parameters == parameters
    assert question.irregular == 1


def test_the_report_is_flat_and_says_partial():
    def scores(correct, error=""):
        items = (harness.ItemScore("i", "multiple", not error, error),)
        return harness.Scores("1.2", {"multiple": harness.CategoryScore(correct, 4, 200)}, items)

    report = harness.BfclReport(scores(1, "checker_raised:TypeError"), scores(4), scores(0), irregular_tools=2)
    values = report.to_json()
    assert values == {
        "package": "bfcl-eval 1.2",
        "handler": harness.HANDLER,
        "scope": "partial: the first items of each category",
        "irregular_tools": 2,
        "checker_raised": 1,
        "multiple_accuracy": 0.25,
        "multiple_correct": 1,
        "multiple_n": 4,
        "multiple_of": 200,
        "multiple_gold": 1.0,
        "multiple_do_nothing": 0.0,
    }
