"""Hostile input: a typed refusal within a bounded time, no crash, and nothing written outside the simulator's folder."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from slca.errors import ToolError
from slca.params import Simulator
from slca.records import Attempt, CallError, Json
from slca.sgls.simulator import Session
from slca.sgls.tool import Tool
from slca.sgls.validation import check_schema, check_usable

LONGEST = 20
"""Seconds that any one call may take on a busy machine."""
BOMB = "^(a|a)*$"
FUSE = "a" * 40 + "!"


@contextmanager
def bounded() -> Iterator[None]:
    def late(*_: object) -> None:
        raise AssertionError(f"not done after {LONGEST} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def tool(parameters: dict[str, Any] | None = None, output: dict[str, Any] | None = None) -> Tool:
    return Tool(name="any", parameters={"type": "object", **(parameters or {})}, output=output)


def call(arguments: Json, parameters: dict[str, Any] | None = None, name: Json = "any", output: Json = None) -> Attempt:
    with bounded():
        attempt = Session([tool(parameters, output)], {}, Simulator(), "s").call(name, arguments)
    json.dumps(attempt.to_json(), allow_nan=False, ensure_ascii=False).encode()  # whatever came of it can be stored
    return attempt


def nested(kind: str, depth: int) -> Json:
    value: Json = 1
    for level in range(depth):
        value = [value] if kind == "array" or (kind == "both" and level % 2) else {"a": value}
    return value


def circular() -> Json:
    value: dict[str, Json] = {}
    value["a"] = [value, value]
    return value


def doubled() -> Json:
    value: Json = 1
    for _ in range(60):  # 2**60 paths lead to one number
        value = [value, value]
    return value


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (nested("array", 100_000), "64 levels"),
        (nested("object", 100_000), "64 levels"),
        (nested("both", 100_000), "64 levels"),
        (nested("both", 64), "64 levels"),  # it is one level down in the arguments
        (circular(), "values"),
        (doubled(), "values"),
        ("x" * 10_000_000, "characters"),
        ({"x" * 10_000_000: 1}, "characters"),
        (["x" * 1000] * 10_000, "characters"),
        ([0] * 1_000_000, "values"),
        (float("nan"), "NaN"),
        ([-float("inf")], "infinity"),
        (json.loads("1e999"), "infinity"),
        (10**5000, "308 digits"),
        (-(10**400), "308 digits"),
        ("\ud800", "surrogate"),
        ({"\udfff": 1}, "surrogate"),
        (b"\xff\xfe", "bytes"),
        ({1: 2}, "key of type int"),
        ({1, 2}, "set"),
        (Path("/etc/passwd"), "Path"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)
def test_what_is_no_fit_value_is_refused_before_any_schema_sees_it(value: Json, told: str) -> None:
    attempt = call({"a": value})
    assert attempt.error is CallError.INVALID_ARGUMENTS and attempt.arguments is None
    assert told in attempt.result["error"]["message"]


def test_what_is_just_within_the_limits_is_taken() -> None:
    for value in (nested("both", 63), "x" * (2**20 - 1), [0] * 99_000, 2**1023, -(2**1023), 1e308, 5e-324):
        assert call({"a": value}).error is None


def test_hostile_names_are_unknown_tools() -> None:
    for name in ("x" * 10_000_000, "../../etc/passwd", "any\0", "\ud800", "{}", ""):
        attempt = call({}, name=name)
        assert attempt.error is CallError.UNKNOWN_TOOL and len(str(attempt.name)) <= 256
        assert len(attempt.result["error"]["message"]) < 120
    for name in (None, 5, [], {}, nested("array", 100_000)):
        assert call({}, name=name).error is CallError.MALFORMED


@pytest.mark.parametrize(
    "parameters",
    [
        {"properties": {"a": {"type": "string", "pattern": BOMB}}},
        {"properties": {"a": {"anyOf": [{"pattern": BOMB}] * 50}}},
        {"additionalProperties": {"items": {"pattern": BOMB}}},
        {"patternProperties": {BOMB: {}}, "additionalProperties": False},
        {"propertyNames": {"pattern": BOMB}},
        {
            "properties": {"a": {"$ref": "#/$defs/x"}},
            "$defs": {"x": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": BOMB}},
        },
        {"properties": {"a": {"pattern": "^(([a-z])+.)+[A-Z]([a-z])+$|^(a?){99}(a|a)*$"}}},
    ],
)
def test_a_pattern_that_backtracks_without_end_is_stopped(parameters: dict[str, Any]) -> None:
    for arguments in ({"a": FUSE}, {FUSE: 1}, {"a": [FUSE] * 2000}, {"b": [FUSE] * 2000}):
        attempt = call(arguments, parameters)
        assert attempt.error in (None, CallError.INVALID_ARGUMENTS)
    message = call({"a": FUSE, FUSE: [FUSE]}, parameters).result["error"]["message"]
    assert "takes too long to check" in message


@pytest.mark.parametrize(
    "output", [{"type": "string", "pattern": BOMB, "minLength": 30, "not": {"pattern": "^a+$"}}, {"pattern": "(" * 9}]
)
def test_an_output_schema_with_such_a_pattern_is_the_simulators_failure(output: dict[str, Any]) -> None:
    assert call({}, output=output).error is CallError.SIMULATOR_FAILURE


def test_many_items_are_checked_in_linear_time() -> None:
    objects = [{"n": n, "m": [n]} for n in range(14_001)]
    unique = {"properties": {"a": {"uniqueItems": True}}}
    assert call({"a": objects[:14_000]}, unique).error is None
    assert call({"a": [*objects[:14_000], objects[0]]}, unique).error is CallError.INVALID_ARGUMENTS
    values = [{"n": n} for n in range(100_000)]
    listed = {"properties": {"a": {"items": {"enum": values}}}}
    assert call({"a": values[:30_000]}, listed).error is None
    refused = call({"a": [{"n": -1}] * 30_000}, listed)
    assert refused.error is CallError.INVALID_ARGUMENTS and len(refused.result["error"]["message"]) <= 160


@pytest.mark.parametrize("step", [1e308, 5e-324, 0.1, 3, 1e-308, 2**1000])
def test_multiples_of_extreme_numbers(step: float) -> None:
    for value in (2**1023, -(2**1023), 1e308, 5e-324, 0.3, 0, 7):
        assert call({"a": value}, {"properties": {"a": {"multipleOf": step}}}).error in (None, CallError.INVALID_ARGUMENTS)


DOUBLING = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)} | {"d60": {}}
CHAIN = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5000)} | {"d5000": {}}
TREE = {"node": {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/node"}}, "required": ["z"]}] * 8}}


@pytest.mark.parametrize(
    ("definitions", "errors"),
    [
        ({"d0": {"$ref": "#/$defs/d0"}}, {CallError.SIMULATOR_FAILURE}),
        ({"d0": {"$ref": "#/$defs/d1"}, "d1": {"allOf": [{"not": {"$ref": "#/$defs/d0"}}]}}, {CallError.SIMULATOR_FAILURE}),
        ({"d0": {"$dynamicRef": "#/$defs/d0"}}, {CallError.SIMULATOR_FAILURE}),
        ({"d0": {"unevaluatedProperties": False, "$ref": "#/$defs/d0"}}, {CallError.SIMULATOR_FAILURE}),
        ({"d0": {"$ref": "#/nowhere"}}, {CallError.SIMULATOR_FAILURE}),
        ({"d0": {"$ref": "file:///etc/passwd"}}, {CallError.SIMULATOR_FAILURE}),
        ({"d0": {"$ref": "http://127.0.0.1:9/x"}}, {CallError.SIMULATOR_FAILURE}),
        (DOUBLING, {CallError.INVALID_ARGUMENTS}),
        (CHAIN, {CallError.INVALID_ARGUMENTS}),
        ({"d0": {"$ref": "#/$defs/node"}, **TREE}, {CallError.INVALID_ARGUMENTS}),
    ],
    ids=["self", "circle", "dynamic", "unevaluated", "nowhere", "file", "network", "doubling", "chain", "tree"],
)
def test_references_round_in_circles_without_end_or_abroad(definitions: dict[str, Any], errors: set[CallError]) -> None:
    parameters = {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    assert call({"a": nested("object", 60)}, parameters).error in errors
    assert call({}, output={"$ref": "#/$defs/d0", "$defs": definitions}).error in (None, CallError.SIMULATOR_FAILURE)
    if errors == {CallError.SIMULATOR_FAILURE}:
        with bounded(), pytest.raises(ToolError, match="any"):
            check_usable(parameters, "any")


HOSTILE_SCHEMAS: list[tuple[dict[str, Any], str]] = [
    ({"properties": {"a": nested("object", 150)}}, "levels deep"),
    ({"properties": {"a": nested("object", 50_000)}}, "levels deep"),
    ({"properties": {"a": {"maximum": float("nan")}}}, "no JSON"),
    ({"properties": {"a": {"pattern": "a{99999999}"}}}, "parts"),
    ({"properties": {"a": {"pattern": "((a{1000}){1000}){1000}"}}}, "parts"),
    ({"properties": {"a": {"pattern": "(" * 5000 + ")" * 5000}}}, "characters"),
    ({"properties": {"a": {"pattern": "(" * 500 + ")" * 500}}}, "deep"),
    ({"properties": {"a": {"pattern": "("}}}, "pattern"),
    ({"properties": {"a": {"pattern": "(?R)"}}}, "unknown"),
    ({"patternProperties": {"[": {}}}, "pattern"),
    ({"patternProperties": {"^x": {}}, "unevaluatedProperties": False}, "not supported"),
]


@pytest.mark.parametrize(("schema", "told"), HOSTILE_SCHEMAS)
def test_hostile_schemas_are_refused_when_imported_and_when_called(schema: dict[str, Any], told: str) -> None:
    with bounded(), pytest.raises(ToolError, match=told):
        check_usable({"type": "object", **schema}, "any")
    with bounded(), pytest.raises(ToolError):
        check_schema({"type": "object", **schema}, "any")
        check_usable({"type": "object", **schema}, "any")
    assert call({"a": "b"}, schema).error is CallError.SIMULATOR_FAILURE
    assert call({}, output={"type": "object", **schema}).error is CallError.SIMULATOR_FAILURE


@pytest.mark.parametrize("keyword", ["not", "items", "additionalProperties", "properties", "allOf"])
@pytest.mark.parametrize("levels", [10, 40, 63, 200])
def test_schemas_of_any_allowed_depth_are_checked_or_refused(keyword: str, levels: int) -> None:
    schema: Json = {"type": "integer"}
    for _ in range(levels // (2 if keyword in ("properties", "allOf") else 1)):
        schema = {keyword: [schema] if keyword == "allOf" else {"a": schema} if keyword == "properties" else schema}
    with bounded():
        try:
            check_schema(schema, "any")
            check_usable(schema, "any")
        except ToolError as refused:
            assert levels > 63 and "deep" in str(refused)
    assert call({"a": nested("both", 60)}, {"properties": {"a": schema}}).error in (
        None,
        CallError.INVALID_ARGUMENTS,
        CallError.SIMULATOR_FAILURE,
    )


@pytest.mark.parametrize("pattern", [BOMB, "^(a|aa)+$", r"^(\w|\d)+$|^x", r"^(.|\w)*$", r"^([a-z]|[a-z0-9])*$"])
def test_patterns_that_backtrack_without_end_are_refused_when_imported(pattern: str) -> None:
    for schema in ({"properties": {"a": {"pattern": pattern}}}, {"patternProperties": {pattern: {}}}):
        with bounded(), pytest.raises(ToolError, match="takes too long"):
            check_usable({"type": "object", **schema}, "any")


@pytest.mark.parametrize(
    "output",
    [
        {"type": "array", "minItems": 10**9},
        {"type": "array", "contains": {}, "minContains": 10**12},
        {"type": "string", "minLength": 10**12},
        {"type": "string", "format": "uri", "minLength": 10**12},
        {"type": "object", "minProperties": 10**9},
        {"type": "integer", "minimum": 2**1024},
        {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]},
        {"allOf": [{"$ref": "#/$defs/d0"}], "$defs": DOUBLING, "type": "object", "required": ["a"], "maxProperties": 0},
    ],
)
def test_outputs_that_cannot_be_made_are_given_up(output: dict[str, Any]) -> None:
    assert call({}, output=output).error is CallError.SIMULATOR_FAILURE


def test_ids_are_only_ids(tmp_path: Path) -> None:
    behaviour = {"kind": "create", "entity": "../../file", "id_field": "id", "fields": {"a": "a"}}
    output = {"type": "object", "properties": {"id": {"type": "string"}, "b": {"type": "string"}}, "required": ["id", "b"]}
    text = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = [tool(), Tool.model_validate({"name": "make", "parameters": text, "output": output, "behaviour": behaviour})]
    folder = tmp_path / "inner" / "cache"
    service = Session(tools, {}, Simulator(cache_folder=str(folder)), "../../session")
    for hostile in ("../../../etc/passwd", "/etc/passwd", "..\\..\\x", "a\0b", "$(touch x)", "%2e%2e/x", "CON", "x" * 5000):
        assert service.call("any", {"a": hostile}).error is None
        assert service.call("make", {"a": hostile}).error is None
    assert [path.name for path in tmp_path.iterdir()] == ["inner"] and [path.name for path in folder.parent.iterdir()] == [
        "cache"
    ]
    assert all(len(path.stem) == 64 for path in folder.rglob("*.json")) and len(list(folder.rglob("*.json"))) == 16


def test_a_small_stack_is_no_crash() -> None:
    """Deep references on a thread with a small stack: an answer, not the end of the process."""
    program = (
        "import threading\nfrom slca.params import Simulator\nfrom slca.sgls.simulator import Session\n"
        "from slca.sgls.tool import Tool\nnode = {'properties': {'a': {'$ref': '#/$defs/n'}}}\n"
        "tool = Tool(name='any', parameters={'type': 'object', **node, '$defs': {'n': node}})\n"
        "value = 1\nfor _ in range(62): value = {'a': value}\n"
        "session = Session([tool], {}, Simulator(), 's')\nthreading.stack_size(512 * 1024)\n"
        "thread = threading.Thread(target=lambda: print(session.call('any', {'a': value}).error))\nthread.start()\nthread.join()"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() in ("None", "invalid_arguments")
