"""The BFCL side of the harness: questions, gold answers, executions and scores, by the official package ``bfcl-eval``.

Runs as a plain script under the python of ``.venv-bfcl``; it and the modules beside it that it imports need the standard
library and ``bfcl_eval`` alone (slca may import them: ``bfcl_eval`` is imported inside functions only). Files are the interface,
JSON Lines; an episode's executions go over stdin and stdout:

    worker.py questions --categories a,b [--limit N] [--style S] --out FILE   id, category, language, turns, names
    worker.py gold      --categories a,b [--limit N] --out FILE               id, category, turns of steps of calls
    worker.py score     --predictions FILE --out FILE                         what ``gold`` writes -> one JSON object
    worker.py serve                                  id, category, turns so far -> results of the last step, line by line

``--limit N`` takes the first N items of each category in the package's order. Every single-turn and multi-turn category works.
Predictions name functions as BFCL does (dots included). A single-turn item has one turn of one step.

Scoring is the official rule: ``ast_checker`` or ``multi_turn_checker``; irrelevance is right when there is no call, relevance
when there is one. Before it stand guards. A call to a function that the item does not offer, or with arguments that are no
object, too large or too deep, makes its single-turn item wrong and reaches no checker (``episodes`` says what it does to an
episode). (In live_relevance upstream accepts a call to any name; here it has to be one of the item's.) An exception in the
checker makes the item wrong under ``checker_raised``, where upstream would stop. Checkers run in children that can open nothing
and are ended when they take too long (``sandbox``). No text of a model is evaluated: upstream's ``eval`` sees what ``guards``
wrote.
"""

import argparse
import json
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, TextIO

if not __package__:  # a script has only its own folder to import from, and this one not even that
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from slca.benchmarks.bfcl import episodes, guards, sandbox

PACKAGE = "bfcl-eval"
MODEL = "slca"  # upstream replaces "_" in model names by "/", so ours has none

JSON_TYPES = {
    "string": "string",
    "String": "string",
    "char": "string",
    "any": "string",  # the checker, too, expects a string where BFCL says "any"
    "Any": "string",
    "integer": "integer",
    "byte": "integer",
    "short": "integer",
    "long": "integer",
    "Bigint": "integer",
    "number": "number",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
    "bool": "boolean",
    "Boolean": "boolean",
    "array": "array",
    "list": "array",
    "tuple": "array",
    "Array": "array",
    "ArrayList": "array",
    "Queue": "array",
    "Stack": "array",
    "dict": "object",
    "object": "object",
    "HashMap": "object",
    "Hashtable": "object",
}


# Pure functions: no bfcl_eval behind them.


def json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """BFCL's dialect as JSON Schema, recursively. An unknown type becomes a string, as upstream does it; ``optional`` goes."""
    converted: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type":
            converted[key] = JSON_TYPES.get(value, "string")
        elif key == "properties":
            converted[key] = {name: json_schema(child) for name, child in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            converted[key] = json_schema(value)
        elif key != "optional":
            converted[key] = value
    return converted


def safe_names(originals: list[str], where: str) -> dict[str, str]:
    """Safe name -> original name; dots become underscores. ValueError if two names become one."""
    names = {original.replace(".", "_"): original for original in originals}
    if len(names) != len(originals):
        raise ValueError(f"{where}: two function names are equal once dots are underscores: {sorted(originals)}")
    return names


def gold_call(answer: dict[str, dict[str, list[Any]]], function: dict[str, Any], language: str) -> dict[str, Any]:
    """The call that takes the first acceptable value of each argument; an argument that may only be left out is left out.

    So is one that may be left out and that the function does not define; a required one that may only be empty is empty. Inside
    objects, BFCL lists the acceptable values of each key. Java and JavaScript answers are written as source text.
    """
    ((name, parameters),) = answer.items()
    schemas, required = function["parameters"]["properties"], function["parameters"].get("required", ())
    arguments = {}
    for key, accepted in parameters.items():
        given = [value for value in accepted if value != ""]
        if "" in accepted and key in required:
            given.append("")
        if given and (key in schemas or "" not in accepted):
            arguments[key] = _source(_first(given[0]), schemas.get(key, {}), language)
    return {"name": name, "arguments": arguments}


def _first(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: [item for item in accepted if item != ""] for key, accepted in value.items()}
        return {key: given[0] for key, given in kept.items() if given}
    if isinstance(value, list):
        return [_first(item) if isinstance(item, dict) else item for item in value]
    return value


def _source(value: Any, schema: dict[str, Any], language: str) -> Any:
    if language == "python" or isinstance(value, str):
        return value
    if language == "javascript":
        return json.dumps(value)
    kind, items = schema["type"], schema.get("items", {})
    if isinstance(value, dict):
        puts = [f"put({json.dumps(key)}, {json.dumps(item)});" for key, item in value.items()]
        return "new HashMap<>() {{ " + " ".join(puts) + " }}"
    if kind == "Array":
        return "new T[]{" + ", ".join(_source(item, items, language) for item in value) + "}"
    if kind == "ArrayList":
        parts = [json.dumps(item) if isinstance(item, str) else _source(item, items, language) for item in value]
        return f"new ArrayList<>(Arrays.asList({', '.join(parts)}))"
    return json.dumps(value) + {"long": "L", "float": "f"}.get(kind, "")


# The official package.


def load_package(project_root: Path) -> SimpleNamespace:
    """bfcl_eval's data loaders, prompts and checkers. Importing creates folders, so they are pointed at ``project_root`` first.

    Three modules are replaced before they are imported. ``bfcl_eval.constants.model_config`` would import every vendor's SDK; the
    checker reads ``underscore_to_dot`` alone of it, False since our predictions carry the original names. ``tenacity`` and the
    parsers of Java and JavaScript serve to ask vendors and to read their answers.
    """
    os.environ["BFCL_PROJECT_ROOT"] = str(project_root)
    parser = "bfcl_eval.model_handler.parser"
    _replace("bfcl_eval.constants.model_config", MODEL_CONFIG_MAPPING={MODEL: SimpleNamespace(underscore_to_dot=False)})
    _replace("tenacity", **dict.fromkeys(("retry", "retry_if_exception_message", "retry_if_exception_type")))
    sys.modules["tenacity"].wait_random_exponential = None  # type: ignore[attr-defined]
    _replace(f"{parser}.java_parser", parse_java_function_call=None)
    _replace(f"{parser}.js_parser", parse_javascript_function_call=None)
    from bfcl_eval import utils
    from bfcl_eval.constants import category_mapping, default_prompts
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.constants.executable_backend_config import CLASS_FILE_PATH_MAPPING
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call
    from bfcl_eval.model_handler.utils import system_prompt_pre_processing_chat_model

    return SimpleNamespace(
        model=MODEL,
        utils=utils,
        categories=[*category_mapping.SINGLE_TURN_CATEGORY, *category_mapping.MULTI_TURN_CATEGORY],
        prompts=default_prompts,
        add_system_prompt=system_prompt_pre_processing_chat_model,
        Language=Language,
        ast_checker=ast_checker,
        multi_turn_checker=multi_turn_checker,
        execute=execute_multi_turn_func_call,
        class_modules=CLASS_FILE_PATH_MAPPING,
    )


def _replace(name: str, **values: Any) -> None:
    module = ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module


def entries(package: SimpleNamespace, category: str, hints: bool = False) -> list[dict[str, Any]]:
    """All items of a category. ``hints``: with the sentence on the function's language that upstream shows to models."""
    if category not in package.categories:
        raise ValueError(f"{category!r} is no category of BFCL that is scored here; they are: {', '.join(package.categories)}")
    loaded: list[dict[str, Any]] = package.utils.load_dataset_entry(
        category, include_prereq=False, include_language_specific_hint=hints
    )
    return loaded


def answers(package: SimpleNamespace, category: str, count: int) -> list[list[Any]] | None:
    """Acceptable answers in the items' order (some have other ids, so order is the key); None where the category has none."""
    if package.utils.is_relevance_or_irrelevance(category):
        return None
    loaded = [entry["ground_truth"] for entry in package.utils.load_ground_truth_entry(category)]
    if len(loaded) != count:
        raise ValueError(f"{category}: {len(loaded)} answers for {count} items; the package's data is damaged")
    return loaded


def language_of(package: SimpleNamespace, category: str) -> str:
    if package.utils.is_java(category):
        return "java"
    return "javascript" if package.utils.is_js(category) else "python"


def questions(package: SimpleNamespace, categories: list[str], limit: int | None, style: str) -> list[dict[str, Any]]:
    lines = []
    for category in categories:
        language = language_of(package, category)
        for entry in entries(package, category, hints=True)[:limit]:
            functions = episodes.functions_by_turn(entry)
            names = safe_names([function["name"] for added in functions for function in added], entry["id"])
            messages = _prompting(package, entry) if style == "prompt" else _native(package, entry)
            turns = [
                {"messages": said, "functions": [_function(function) for function in added]}
                for said, added in zip(messages, functions, strict=True)
            ]
            lines.append({"id": entry["id"], "category": category, "language": language, "turns": turns, "names": names})
    return lines


def _function(function: dict[str, Any]) -> dict[str, Any]:
    name = function["name"].replace(".", "_")
    return {"name": name, "description": function["description"], "parameters": json_schema(function["parameters"])}


def _native(package: SimpleNamespace, entry: dict[str, Any]) -> list[list[dict[str, str]]]:
    """Messages by turn for models that are given the functions as such. Upstream's sentence stands where functions are added."""
    added = {"role": "user", "content": package.prompts.DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC}
    held_out = entry.get("missed_function", {})
    return [[added] if str(turn) in held_out else messages for turn, messages in enumerate(entry["question"])]


def _prompting(package: SimpleNamespace, entry: dict[str, Any]) -> list[list[dict[str, str]]]:
    """Messages by turn for models that are prompted: the published system prompt, which lists the functions, comes first."""
    turns: list[list[dict[str, str]]] = []
    for turn, messages in enumerate(entry["question"]):
        added = entry.get("missed_function", {}).get(str(turn))
        if added is not None:
            content = package.prompts.DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_PROMPTING.format(functions=added)
            turns.append([{"role": "user", "content": content}])
        else:
            turns.append([dict(message) for message in messages])
    turns[0] = package.add_system_prompt(turns[0], entry["function"], entry["id"])
    return turns


def gold(package: SimpleNamespace, categories: list[str], limit: int | None) -> list[dict[str, Any]]:
    lines = []
    for category in categories:
        items = entries(package, category)
        accepted = answers(package, category, len(items))
        for index, entry in enumerate(items[:limit]):
            turns = _gold_turns(package, category, entry, None if accepted is None else accepted[index])
            lines.append({"id": entry["id"], "category": category, "turns": turns})
    return lines


def _gold_turns(package: SimpleNamespace, category: str, entry: dict[str, Any], accepted: Any) -> episodes.Turns:
    if package.utils.is_multi_turn(category):
        return episodes.gold_turns(entry, accepted)
    functions = {function["name"]: function for function in entry["function"]}
    if accepted is not None:
        language = language_of(package, category)
        return [[[gold_call(answer, functions[next(iter(answer))], language) for answer in accepted]]]
    return [[[]]] if "irrelevance" in category else [[[{"name": next(iter(functions)), "arguments": {}}]]]


def score(package: SimpleNamespace, predictions: list[dict[str, Any]]) -> dict[str, Any]:
    """Scores of the items that ``predictions`` hold. ValueError for an id that is unknown or occurs twice."""
    by_category: dict[str, dict[str, Any]] = {}
    for prediction in predictions:
        of_category = by_category.setdefault(prediction["category"], {})
        if prediction["id"] in of_category:
            raise ValueError(f"predictions: id {prediction['id']!r} occurs twice")
        of_category[prediction["id"]] = prediction
    items, categories = [], {}
    if any(map(package.utils.is_multi_turn, by_category)):
        episodes.preload(package)
    for category, given in by_category.items():
        dataset = entries(package, category)
        unknown = sorted(set(given) - {entry["id"] for entry in dataset})
        if unknown:
            raise ValueError(f"predictions: {category} has no item {unknown[0]!r}")
        accepted = answers(package, category, len(dataset))
        asked = [
            (category, entry, None if accepted is None else accepted[index], given[entry["id"]])
            for index, entry in enumerate(dataset)
            if entry["id"] in given
        ]
        verdicts = sandbox.each(
            lambda item: score_item(package, *item), asked, episodes.SECONDS, fresh=package.utils.is_multi_turn(category)
        )
        errors = ["refused:time_or_memory" if error is None else error for error in verdicts]
        items += [
            {"id": entry["id"], "category": category, "valid": not error, "error_type": error}
            for (_, entry, _, _), error in zip(asked, errors, strict=True)
        ]
        categories[category] = {"correct": errors.count(""), "n": len(asked), "of": len(dataset)}
    return {"package": PACKAGE, "version": version(PACKAGE), "categories": categories, "items": items}


def score_item(package: SimpleNamespace, category: str, entry: dict[str, Any], answer: Any, prediction: dict[str, Any]) -> str:
    """The error type of one item; empty when it is right."""
    turns = prediction["turns"]
    error = prediction.get("refused") or episodes.refusal(entry, turns)
    if error:
        return str(error)
    if package.utils.is_multi_turn(category):
        return episodes.check(package, entry, answer, turns)
    calls = [call for turn in turns for step in turn for call in step]
    error = guards.refusal(calls, {function["name"] for function in entry["function"]})
    if error:
        return error
    if answer is None:
        if "irrelevance" in category:
            return "irrelevance_error:called" if calls else ""
        return "" if calls else "relevance_error:no_call"
    decoded = [{call["name"]: call["arguments"]} for call in calls]
    language = package.Language(language_of(package, category))
    try:
        result = package.ast_checker(entry["function"], decoded, answer, language, category, MODEL)
    except Exception as fault:
        # The checker trusts the shape of nested values. What breaks it is this item's answer, so the others are still scored.
        return f"checker_raised:{type(fault).__name__}"
    return "" if result["valid"] else str(result["error_type"])


def serve(package: SimpleNamespace, given: TextIO, out: TextIO) -> None:
    """Answer every line of ``given`` (id, category, turns) by a line with the results of its last step, until it ends."""
    episodes.preload(package)
    known: dict[str, dict[str, Any]] = {}
    for line in given:
        asked = json.loads(line)
        if asked["id"] not in known:
            known |= {entry["id"]: entry for entry in entries(package, asked["category"])}
        print(json.dumps(episodes.execute(package, known[asked["id"]], asked["turns"])), file=out, flush=True)


# Command line.


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def write_lines(path: Path, values: list[dict[str, Any]]) -> None:
    """ASCII only: text of a model may hold half a surrogate pair, which UTF-8 cannot."""
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="ascii")


def main() -> None:
    parser = argparse.ArgumentParser(description="BFCL questions, gold answers, executions and scores by the official package.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("questions", "gold"):
        command = commands.add_parser(name)
        command.add_argument("--categories", required=True, help="comma-separated")
        command.add_argument("--limit", type=int, help="the first N items of each category; all without it")
        command.add_argument("--out", type=Path, required=True)
        if name == "questions":
            command.add_argument("--style", choices=("native", "prompt"), default="native")
    command = commands.add_parser("score")
    command.add_argument("--predictions", type=Path, required=True)
    command.add_argument("--out", type=Path, required=True)
    commands.add_parser("serve")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bfcl-") as project_root:
        package = load_package(Path(project_root))
        if options.command == "score":
            write_lines(options.out, [score(package, read_lines(options.predictions))])
        elif options.command == "questions":
            lines = questions(package, options.categories.split(","), options.limit, options.style)
            write_lines(options.out, lines)
        elif options.command == "gold":
            write_lines(options.out, gold(package, options.categories.split(","), options.limit))
        else:
            serve(package, sys.stdin, sys.stdout)


if __name__ == "__main__":
    main()
