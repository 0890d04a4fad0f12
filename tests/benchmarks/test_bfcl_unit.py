"""The parts of the BFCL harness that need no BFCL: schemas, names, gold calls, errors of the worker, the report."""

import json
import sys
from pathlib import Path

import jsonschema
import pytest

from slca.benchmarks.bfcl import client, groups, harness, worker
from slca.benchmarks.bfcl.items import Prediction
from slca.errors import MissingDependency, SlcaError
from slca.records import Call, Trace

ONE = harness.Selection(("multiple",), 1)


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


def test_gold_takes_the_first_value_that_is_given():
    properties = {key: {"type": "any"} for key in "abcdf"}
    function = {"name": "f", "parameters": {"properties": properties, "required": ["f"]}}
    answer = {
        "f": {
            "a": ["", 2, 3],
            "b": [""],  # may only be left out
            "c": [{"k": ["", "v"], "left_out": [""]}],
            "d": [[{"k": [1, 2]}, 5]],
            "e": ["", 1],  # may be left out, and the function has no such parameter
            "f": [""],  # required and empty
        }
    }
    assert worker.gold_call(answer, function, "python") == {
        "name": "f",
        "arguments": {"a": 2, "c": {"k": "v"}, "d": [{"k": 1}, 5], "f": ""},
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
    monkeypatch.delenv(client.INTERPRETER.variable, raising=False)
    with pytest.raises(MissingDependency, match=r"\.venv-bfcl/bin/python.*make setup"):
        harness.questions(ONE, tmp_path)
    monkeypatch.setenv(client.INTERPRETER.variable, str(tmp_path / "nowhere"))
    with pytest.raises(MissingDependency, match=r"SLCA_BFCL_PYTHON names .*nowhere.*make setup"):
        client.INTERPRETER.python(tmp_path)


def test_the_variable_wins_and_links_are_kept(tmp_path, monkeypatch):
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    monkeypatch.setenv(client.INTERPRETER.variable, str(link))
    assert client.INTERPRETER.python(tmp_path) == link  # resolved, it would be another environment's python


def test_a_python_without_the_package_is_an_error_and_not_a_score(monkeypatch):
    monkeypatch.setenv(client.INTERPRETER.variable, sys.executable)  # the project's own environment has no bfcl_eval
    prediction = Prediction.single("multiple_0", "multiple", ())
    with pytest.raises(SlcaError, match=r"score.* failed with exit code 1: .*No module named 'bfcl_eval'.*nothing was scored"):
        harness.score([prediction])


def fake_python(tmp_path: Path, monkeypatch, body: str) -> None:
    """A stand-in for the environment's python, called as ``python -I -X utf8 worker.py COMMAND ...``."""
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setenv(client.INTERPRETER.variable, str(script))


def test_a_worker_that_hangs_is_ended(tmp_path, monkeypatch):
    fake_python(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr(client, "TIME_LIMIT", 0.2)
    with pytest.raises(SlcaError, match="did not end within"):
        harness.questions(ONE)


def test_a_worker_that_writes_nothing_is_an_error(tmp_path, monkeypatch):
    fake_python(tmp_path, monkeypatch, "exit 0")
    with pytest.raises(SlcaError, match="no output"):
        harness.questions(ONE)


def test_a_worker_that_loses_predictions_is_an_error(tmp_path, monkeypatch):
    empty = json.dumps({"version": "0", "categories": {}, "items": []})
    fake_python(tmp_path, monkeypatch, f"while [ $# -gt 1 ]; do shift; done; echo '{empty}' > \"$1\"")
    with pytest.raises(SlcaError, match="scored 0 of 1"):
        harness.score([Prediction.single("multiple_0", "multiple", ())])


def test_a_schema_that_load_tool_refuses_is_kept_and_counted(tmp_path, monkeypatch):
    parameters = {"type": "object", "properties": {"x": {"type": "number", "minimum": "zero"}}}  # minimum must be a number
    functions = [
        {"name": "odd", "description": "", "parameters": parameters},
        {"name": "fine", "description": "", "parameters": {"type": "object"}},
    ]
    names = {"odd": "odd", "fine": "fine"}
    turns = [{"messages": [], "functions": functions}]
    line = json.dumps({"id": "i", "category": "c", "language": "python", "turns": turns, "names": names})
    fake_python(tmp_path, monkeypatch, f"while [ $# -gt 1 ]; do shift; done; echo '{line}' > \"$1\"")
    (question,) = harness.questions(ONE)
    assert [tool.name for tool in question.tools] == ["odd", "fine"]
    assert question.tools[0].parameters == parameters
    assert question.irregular == 1


def test_an_environment_that_does_not_start_is_an_error(tmp_path, monkeypatch):
    fake_python(tmp_path, monkeypatch, "echo no such thing >&2; exit 1")
    with (
        pytest.raises(SlcaError, match=r"\(serve\).*: .*no such thing.*nothing was scored"),
        client.Environment(tmp_path) as environment,
    ):
        environment.execute("multi_turn_base_0", "multi_turn_base", [((Call("f", {}),),)])


def test_an_environment_that_does_not_answer_is_ended(tmp_path, monkeypatch):
    fake_python(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr(client, "_ANSWER_LIMIT", 0.2)
    with pytest.raises(SlcaError, match="did not answer within"), client.Environment(tmp_path) as environment:
        environment.execute("multi_turn_base_0", "multi_turn_base", [((Call("f", {}),),)])


def test_the_report_is_flat_and_says_partial():
    def scores(correct, error=""):
        items = (harness.ItemScore("simple_java_36", "simple_java", not error, error),)
        return harness.Scores("1.2", {"simple_java": harness.CategoryScore(correct, 4, 100)}, items)

    references = {"gold": scores(4), "do_nothing": scores(0), "random_call": scores(2)}
    trace = Trace("bfcl", "simple_java", "simple_java_36", 0, 0.0, "x", "context", (), 0)
    report = harness.BfclReport("native", scores(1, "checker_raised:TypeError"), references, 2, (trace,))
    assert report.to_json() == {
        "package": "bfcl-eval 1.2",
        "handler": harness.HANDLERS["native"],
        "style": "native",
        "scope": "partial: the first items of each category",
        "irregular_tools": 2,
        "checker_raised": 1,
        "simple_java_accuracy": 0.25,
        "simple_java_correct": 1,
        "simple_java_n": 4,
        "simple_java_of": 100,
        "simple_java_context": 1,
        "simple_java_unsatisfiable": 1,
        "simple_java_gold": 1.0,
        "simple_java_do_nothing": 0.0,
        "simple_java_random_call": 0.5,
        "groups": {
            "non_live": {"partial": "0 of 6 categories in full"},
            "published_13": {"partial": "0 of 13 categories in full"},
        },
        "unsatisfiable": {"simple_java_36": groups.UNSATISFIABLE["simple_java_36"]},
    }


def test_group_scores_are_upstreams():
    every = {category: 0.0 for members in groups.GROUPS.values() for category in members}
    weight = dict.fromkeys(every, 100) | {
        "live_simple": 258,
        "live_multiple": 1053,
        "live_parallel": 16,
        "live_parallel_multiple": 24,
    }
    accuracy = every | {"simple_python": 0.9, "simple_java": 0.6, "multiple": 0.8, "live_multiple": 0.5, "irrelevance": 1.0}
    accuracy |= {"multi_turn_base": 0.4, "multi_turn_long_context": 0.2}
    found = groups.scores(accuracy, weight, list(every))
    assert found == {
        "non_live": pytest.approx((0.5 + 0.8 + 0 + 0) / 4),  # the three simple ones: (0.9 + 0.6 + 0) / 3 = 0.5
        "live": pytest.approx(0.5 * 1053 / (258 + 1053 + 16 + 24)),
        "irrelevance": 0.5,
        "multi_turn": pytest.approx(0.15),
        "published_13": pytest.approx((0.9 + 0.6 + 0.8 + 0.5 + 0.4) / 13),  # without irrelevance and long context
        "overall_60": pytest.approx(10 * 0.325 + 10 * 0.5 * 1053 / 1351 + 10 * 0.5 + 30 * 0.15),
    }


def test_a_group_is_scored_only_where_all_of_it_was_run_in_full():
    accuracy = {"irrelevance": 1.0, "live_irrelevance": 0.5, "multi_turn_base": 0.5}
    found = groups.scores(accuracy, dict.fromkeys(accuracy, 10), ["irrelevance", "multi_turn_base"])
    assert found == {
        "irrelevance": "1 of 2 categories in full",
        "multi_turn": "1 of 4 categories in full",
        "published_13": "1 of 13 categories in full",
    }
    assert {len(members) for name, members in groups.GROUPS.items() if name == "published_13"} == {13}
