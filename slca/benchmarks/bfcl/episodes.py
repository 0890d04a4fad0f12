"""The four multi-turn categories on the worker's side: turns, gold, execution and the official multi-turn checker.

Upstream keeps the objects that calls change in module globals, under a name made of model and item, and finds them again by it.
Here every execution and every check runs in a forked child of its own: all calls of the episode so far are executed from the
item's initial state, and what they leave behind goes with the child. Nothing leaks, nothing is held between requests, and an
episode that runs for ever costs its own child alone.

As upstream does it, a held-out function can be called before it is offered (gold does so once). Other than upstream, which
executes any method of the item's classes, only functions in the item's list can be called; a refused call is answered with
Python's message for an unknown name.
"""

import ast
import importlib
from types import SimpleNamespace
from typing import Any

from slca.benchmarks.bfcl import guards, sandbox

SECONDS = 5.0
"""Of computing, for all calls of an episode so far and for one check; gold takes well under a tenth."""

UNFINISHED = "multi_turn:force_terminated"
"""Upstream's word for an episode that ended before its last turn."""

Turns = list[list[list[dict[str, Any]]]]
"""Turns of steps of calls ({name, arguments})."""


def functions_by_turn(entry: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The functions that become known in each turn: nearly all in the first, held-out ones later."""
    held_out = entry.get("missed_function", {})
    later = [held_out.get(str(turn), []) for turn in range(1, len(entry["question"]))]
    return [[*entry["function"], *held_out.get("0", [])], *later]


def offered(entry: dict[str, Any]) -> set[str]:
    """The names that may be called."""
    return {function["name"] for functions in functions_by_turn(entry) for function in functions}


def gold_turns(entry: dict[str, Any], truth: list[list[str]]) -> Turns:
    """The published calls, one step for each turn that has any. Positional arguments get the names of their parameters."""
    parameters = {
        function["name"]: list(function["parameters"]["properties"])
        for functions in functions_by_turn(entry)
        for function in functions
    }
    return [[[_parsed(call, parameters) for call in turn]] if turn else [] for turn in truth]


def _parsed(text: str, parameters: dict[str, list[str]]) -> dict[str, Any]:
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"{text!r} is no call of a function; the package's data is damaged")
    named = dict(zip(parameters[call.func.id], call.args, strict=False))
    named |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    return {"name": call.func.id, "arguments": {name: ast.literal_eval(value) for name, value in named.items()}}


def refusal(entry: dict[str, Any], turns: Any) -> str:
    """Why an episode cannot be executed at all; empty if it can. Single calls are refused one by one, when they are executed."""
    if not isinstance(turns, list) or not all(isinstance(turn, list) for turn in turns):
        return "refused:not_turns"
    for step in (step for turn in turns for step in turn):
        if not isinstance(step, list) or not all(isinstance(call, dict) for call in step):
            return "refused:not_calls"
        if len(step) > guards.MAX_CALLS:
            return "refused:too_many_calls"
    return "refused:too_many_turns" if len(turns) > len(entry["question"]) else ""


def decoded(entry: dict[str, Any], turns: Turns) -> list[list[list[str]]]:
    """What upstream evaluates: turns of steps of call texts, without empty steps."""
    names = offered(entry)
    return [[guards.executable(step, names) for step in turn if step] for turn in turns]


def preload(package: SimpleNamespace) -> None:
    """Import what children would import: they may open no file."""
    importlib.import_module("_strptime")
    importlib.import_module("encodings.idna")
    for name, module in package.class_modules.items():
        if "Memory" not in name and "Web" not in name:
            importlib.import_module(module)


def execute(package: SimpleNamespace, entry: dict[str, Any], turns: Turns) -> dict[str, Any]:
    """Results of the last step's calls, as upstream words them: {"results": [str], "refused": why there are none}."""
    refused = refusal(entry, turns)
    if refused:
        return {"results": [], "refused": refused}
    steps = [step for turn in decoded(entry, turns) for step in turn]
    (results,) = sandbox.each(lambda given: _results(package, entry, given), [steps], SECONDS)
    if results is None:
        return {"results": [], "refused": "refused:time_or_memory"}
    last = next((step for turn in reversed(turns) for step in reversed(turn) if step), [])
    names = offered(entry)
    answers = [_answer(call, names, result) for call, result in zip(last, results, strict=True)]
    return {"results": answers, "refused": ""}


def _results(package: SimpleNamespace, entry: dict[str, Any], steps: list[list[str]]) -> list[str]:
    results: list[str] = []
    for step in steps:
        results, _ = package.execute(
            step, entry["initial_config"], entry["involved_classes"], package.model, entry["id"], "long_context" in entry["id"]
        )
    return results


def _answer(call: dict[str, Any], names: set[str], result: str) -> str:
    refused = guards.call_refusal(call, names)
    if refused == "unknown_function":
        name = call.get("name")
        shown = name if isinstance(name, str) and name.isidentifier() else guards.NO_FUNCTION
        return f"Error during execution: name '{shown[:100]}' is not defined"
    return "Error during execution: the arguments must be an object of moderate size" if refused else result


def check(package: SimpleNamespace, entry: dict[str, Any], truth: list[list[str]], turns: Turns) -> str:
    """The official verdict, in this process: the error type, empty when the episode is right."""
    if len(turns) != len(truth):
        return UNFINISHED
    try:
        verdict = package.multi_turn_checker(decoded(entry, turns), truth, entry, entry["id"].rsplit("_", 1)[0], package.model)
    except Exception as fault:
        return f"checker_raised:{type(fault).__name__}"
    return "" if verdict["valid"] else str(verdict["error_type"])
