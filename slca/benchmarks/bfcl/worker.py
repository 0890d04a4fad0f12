"""The BFCL side of the harness: questions, gold answers and scores, by the official package ``bfcl-eval``.

Runs as a plain script under the python of ``.venv-bfcl``; it imports the standard library and ``bfcl_eval`` alone, never slca
(slca may import this module: ``bfcl_eval`` is imported inside functions only). Files are the interface:

    worker.py questions --categories a,b [--limit N] --out FILE   JSON Lines: id, category, messages, functions, names
    worker.py gold      --categories a,b [--limit N] --out FILE   JSON Lines: id, category, calls [{name, arguments}]
    worker.py score     --predictions FILE --out FILE             the lines that ``gold`` writes -> one JSON object

``--limit N`` takes the first N items of each category in the package's order. Every single-turn category works. Predictions
name functions as BFCL does (dots included).

Scoring is the official rule: ``ast_checker``; irrelevance is right when there is no call, relevance when there is one. Two
guards stand before it. A call to a function that the item does not offer, or with arguments that are no object, too large
or too deep, makes its item wrong and reaches no checker. (In live_relevance upstream accepts a call to any name; here it has
to be one of the item's.) An exception in the checker makes the item wrong under ``checker_raised``, where upstream would
stop. No text of a model is evaluated.
"""

import argparse
import json
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

PACKAGE = "bfcl-eval"
MODEL = "slca"  # upstream replaces "_" in model names by "/", so ours has none

MAX_CALLS = 100
MAX_ARGUMENT_NODES = 2_000
MAX_ARGUMENT_CHARS = 50_000
MAX_ARGUMENT_DEPTH = 16

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


def too_large(arguments: Any) -> bool:
    """Whether a JSON value has too many values, characters or levels. Walks without recursion, so that no depth is too much."""
    nodes = chars = 0
    pending = [(arguments, 1)]
    while pending:
        value, depth = pending.pop()
        nodes += 1
        if depth > MAX_ARGUMENT_DEPTH or nodes > MAX_ARGUMENT_NODES or chars > MAX_ARGUMENT_CHARS:
            return True
        if isinstance(value, dict):
            chars += sum(len(key) for key in value)
            pending.extend((child, depth + 1) for child in value.values())
        elif isinstance(value, list):
            pending.extend((child, depth + 1) for child in value)
        elif isinstance(value, str):
            chars += len(value)
    return chars > MAX_ARGUMENT_CHARS


def refusal(calls: Any, offered: set[str]) -> str:
    """Why ``calls`` must not reach the checker; empty if they may."""
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        return "refused:not_calls"
    if len(calls) > MAX_CALLS:
        return "refused:too_many_calls"
    for call in calls:
        if not isinstance(call.get("name"), str) or call["name"] not in offered:
            return "refused:unknown_function"
        if not isinstance(call.get("arguments"), dict) or too_large(call["arguments"]):
            return "refused:arguments"
    return ""


def gold_call(answer: dict[str, dict[str, list[Any]]], function: dict[str, Any], language: str) -> dict[str, Any]:
    """The call that takes the first acceptable value of each argument; an argument that may only be left out is left out.

    Inside objects, BFCL lists the acceptable values of each key. Java and JavaScript answers are written as source text.
    """
    ((name, parameters),) = answer.items()
    schemas = function["parameters"]["properties"]  # a few items accept an argument that they do not define
    arguments = {}
    for key, accepted in parameters.items():
        given = [value for value in accepted if value != ""]
        if given:
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
    """bfcl_eval's data loaders and checker. Importing creates folders, so they are pointed at ``project_root`` first.

    ``bfcl_eval.constants.model_config`` would import every vendor's SDK. A module of that name with our one model takes its
    place: the checker reads ``underscore_to_dot`` alone, False since our predictions carry the original names.
    """
    os.environ["BFCL_PROJECT_ROOT"] = str(project_root)
    models = ModuleType("bfcl_eval.constants.model_config")
    models.MODEL_CONFIG_MAPPING = {MODEL: SimpleNamespace(underscore_to_dot=False)}  # type: ignore[attr-defined]
    sys.modules[models.__name__] = models
    from bfcl_eval import utils
    from bfcl_eval.constants.category_mapping import SINGLE_TURN_CATEGORY
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

    return SimpleNamespace(utils=utils, categories=SINGLE_TURN_CATEGORY, Language=Language, ast_checker=ast_checker)


def entries(package: SimpleNamespace, category: str, hints: bool = False) -> list[dict[str, Any]]:
    """All items of a category. ``hints``: with the sentence on the function's language that upstream shows to models."""
    if category not in package.categories:
        raise ValueError(f"{category!r} is no single-turn category of BFCL; they are: {', '.join(package.categories)}")
    loaded: list[dict[str, Any]] = package.utils.load_dataset_entry(
        category, include_prereq=False, include_language_specific_hint=hints
    )
    return loaded


def answers(package: SimpleNamespace, category: str, count: int) -> list[list[dict[str, Any]]] | None:
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


def questions(package: SimpleNamespace, categories: list[str], limit: int | None) -> list[dict[str, Any]]:
    lines = []
    for category in categories:
        for entry in entries(package, category, hints=True)[:limit]:
            names = safe_names([function["name"] for function in entry["function"]], entry["id"])
            functions = [
                {"name": safe, "description": function["description"], "parameters": json_schema(function["parameters"])}
                for safe, function in zip(names, entry["function"], strict=True)
            ]
            (messages,) = entry["question"]  # one turn
            lines.append({"id": entry["id"], "category": category, "messages": messages, "functions": functions, "names": names})
    return lines


def gold(package: SimpleNamespace, categories: list[str], limit: int | None) -> list[dict[str, Any]]:
    lines = []
    for category in categories:
        items = entries(package, category)
        accepted = answers(package, category, len(items))
        language = language_of(package, category)
        for index, entry in enumerate(items[:limit]):
            functions = {function["name"]: function for function in entry["function"]}
            if accepted is not None:
                calls = [gold_call(answer, functions[next(iter(answer))], language) for answer in accepted[index]]
            elif "irrelevance" in category:
                calls = []
            else:
                calls = [{"name": next(iter(functions)), "arguments": {}}]
            lines.append({"id": entry["id"], "category": category, "calls": calls})
    return lines


def score(package: SimpleNamespace, predictions: list[dict[str, Any]]) -> dict[str, Any]:
    """Scores of the items that ``predictions`` hold. ValueError for an id that is unknown or occurs twice."""
    by_category: dict[str, dict[str, Any]] = {}
    for prediction in predictions:
        of_category = by_category.setdefault(prediction["category"], {})
        if prediction["id"] in of_category:
            raise ValueError(f"predictions: id {prediction['id']!r} occurs twice")
        of_category[prediction["id"]] = prediction["calls"]
    items, categories = [], {}
    for category, calls_of in by_category.items():
        dataset = entries(package, category)
        unknown = sorted(set(calls_of) - {entry["id"] for entry in dataset})
        if unknown:
            raise ValueError(f"predictions: {category} has no item {unknown[0]!r}")
        accepted = answers(package, category, len(dataset))
        correct = 0
        for index, entry in enumerate(dataset):
            if entry["id"] in calls_of:
                answer = accepted[index] if accepted is not None else None
                error = score_item(package, category, entry, answer, calls_of[entry["id"]])
                correct += not error
                items.append({"id": entry["id"], "category": category, "valid": not error, "error_type": error})
        n = len(calls_of)
        categories[category] = {"accuracy": correct / n, "correct": correct, "n": n, "of": len(dataset)}
    return {"package": PACKAGE, "version": version(PACKAGE), "categories": categories, "items": items}


def score_item(package: SimpleNamespace, category: str, entry: dict[str, Any], answer: Any, calls: Any) -> str:
    """The error type of one item; empty when it is right."""
    error = refusal(calls, {function["name"] for function in entry["function"]})
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


# Command line.


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def write_lines(path: Path, values: list[dict[str, Any]]) -> None:
    """ASCII only: text of a model may hold half a surrogate pair, which UTF-8 cannot."""
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="ascii")


def main() -> None:
    parser = argparse.ArgumentParser(description="BFCL questions, gold answers and scores by the official package.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("questions", "gold"):
        command = commands.add_parser(name)
        command.add_argument("--categories", required=True, help="comma-separated")
        command.add_argument("--limit", type=int, help="the first N items of each category; all without it")
        command.add_argument("--out", type=Path, required=True)
    command = commands.add_parser("score")
    command.add_argument("--predictions", type=Path, required=True)
    command.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bfcl-") as project_root:
        package = load_package(Path(project_root))
        if options.command == "score":
            write_lines(options.out, [score(package, read_lines(options.predictions))])
        else:
            make = questions if options.command == "questions" else gold
            write_lines(options.out, make(package, options.categories.split(","), options.limit))


if __name__ == "__main__":
    main()
