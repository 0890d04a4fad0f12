"""What may reach the official checkers, as what text, and in what surroundings. Nothing here needs the official package."""

import ast
import builtins
import os
import socket
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slca.benchmarks.bfcl import guards, sandbox

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
CODE = "__import__('os').system('true')"


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
        ([{"name": "f.g", "arguments": {"x": 1 << 9_000}}], "refused:arguments"),
        ([{"name": "f.g", "arguments": {"x": [float("inf")]}}], "refused:arguments"),
        ([{"name": "f.g", "arguments": {}}] * 101, "refused:too_many_calls"),
        ("f.g()", "refused:not_calls"),
        (["f.g()"], "refused:not_calls"),
    ],
)
def test_what_may_reach_the_checker(calls, reason):
    assert guards.refusal(calls, {"f.g"}) == reason


def test_depth_limit_is_exact():
    # the arguments object is level 1, each list one more, the number inside the last: 1 + lists + 1 levels
    assert not guards.too_large(nested(guards.MAX_ARGUMENT_DEPTH - 2))
    assert guards.too_large(nested(guards.MAX_ARGUMENT_DEPTH - 1))


@given(st.lists(st.booleans(), max_size=30))
def test_depth_counts_lists_and_objects_alike(wrappings):
    value: object = "leaf"
    for in_list in wrappings:
        value = [value] if in_list else {"k": value}
    # levels: the leaf, one for each wrapping, and the arguments object itself
    assert guards.too_large({"x": value}) == (1 + len(wrappings) + 1 > guards.MAX_ARGUMENT_DEPTH)


@given(VALUES)
def test_a_literal_is_the_value_and_nothing_else(value):
    text = guards.literal(value)
    assert ast.literal_eval(text) == value
    assert "(" not in text  # what upstream takes for a call
    allowed = (ast.Expression, ast.Constant, ast.List, ast.Dict, ast.UnaryOp, ast.USub, ast.Load)
    assert all(isinstance(node, allowed) for node in ast.walk(ast.parse(text, mode="eval")))


@given(st.dictionaries(st.text() | st.just(CODE) | st.just("a)+exit("), VALUES, max_size=4))
def test_a_call_text_is_one_call_of_one_name(arguments):
    call = ast.parse(guards.call_text("cd", arguments), mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    assert call.func.id == "cd"
    assert call.args == []
    assert [keyword.arg for keyword in call.keywords] == [None]
    assert ast.literal_eval(call.keywords[0].value) == arguments


def test_a_refused_call_becomes_one_of_no_function():
    calls = [{"name": CODE, "arguments": {}}, {"name": "cd", "arguments": {"folder": CODE}}, {"name": "cd", "arguments": CODE}]
    texts = guards.executable(calls, {"cd"})
    assert texts[0] == texts[2] == "no_such_function()"
    assert texts[1] == """cd(**{'folder': "__import__\\x28'os').system\\x28'true')"})"""
    assert not hasattr(builtins, guards.NO_FUNCTION)


def test_a_value_that_is_not_json_has_no_literal():
    for value in (float("nan"), (1,), {1: 2}, object()):
        with pytest.raises(ValueError, match="is no JSON value"):
            guards.literal(value)


def endless(item):
    while item == "endless":
        pass
    return item


def test_an_item_without_end_costs_itself_alone():
    items = ["a", "endless", "b", "c", "endless"]
    assert list(sandbox.each(endless, items, 0.5)) == ["a", None, "b", "c", None]


def test_waiting_is_bounded_too(monkeypatch):
    monkeypatch.setattr(sandbox, "PATIENCE", 1)
    assert list(sandbox.each(lambda item: item and time.sleep(item), [0, 600, 0], 2.0)) == [0, None, 0]


def test_a_long_list_of_items_has_the_time_of_each():
    def compute(item):
        began = time.process_time()
        while time.process_time() - began < 0.4:
            pass
        return item

    assert list(sandbox.each(compute, [1, 2, 3, 4, 5], 0.9)) == [1, 2, 3, 4, 5]  # 2 s in one child


def test_an_item_that_ends_its_child_costs_itself_alone():
    assert list(sandbox.each(lambda item: os._exit(3) if item == 1 else item, [0, 1, 2], 5.0)) == [0, None, 2]
    assert list(sandbox.each(lambda item: 1 // item, [1, 0, 1], 5.0)) == [1, None, 1]


def test_a_fresh_child_forgets():
    seen = []

    def count(item):
        seen.append(item)
        return len(seen)

    assert list(sandbox.each(count, "abc", 5.0)) == [1, 2, 3]
    assert list(sandbox.each(count, "abc", 5.0, fresh=True)) == [1, 1, 1]
    assert seen == []


@pytest.mark.parametrize(
    "deed",
    [
        pytest.param(lambda path: path.write_text("x"), id="write a file"),
        pytest.param(lambda path: path.parent.joinpath("secret").read_text(), id="read a file"),
        pytest.param(lambda path: os.listdir(path.parent), id="list a folder"),
        pytest.param(lambda path: path.parent.joinpath("secret").unlink(), id="remove a file"),
        pytest.param(lambda path: os.system(f"touch {path}"), id="run a command"),
        pytest.param(lambda path: subprocess.run(["touch", path], check=True), id="run a program"),
        pytest.param(lambda path: os.fork(), id="fork"),
        pytest.param(lambda path: os.kill(os.getppid(), 0), id="signal"),
        pytest.param(lambda path: socket.socket(), id="open a socket"),
        pytest.param(lambda path: len(bytearray(4 << 30)), id="take memory"),
    ],
)
def test_a_child_can_compute_and_nothing_else(tmp_path, deed):
    (tmp_path / "secret").write_text("s")

    def attempt(path):
        try:
            return str(deed(path))
        except (PermissionError, MemoryError) as error:
            return type(error).__name__

    (told,) = sandbox.each(attempt, [tmp_path / "made"], 10.0)
    assert told in ("PermissionError", "MemoryError")
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
