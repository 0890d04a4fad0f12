"""BFCL as seen from the pipeline: questions out, calls in, a report with its references beside it.

Everything BFCL-specific runs in ``worker`` under another python, with files as the interface; here the files become typed
values. Published names hold dots; a policy sees them with underscores and its calls are mapped back, so a call that spells the
dots itself names no tool of its list and is wrong. A worker that fails raises SlcaError with its last lines: never a score.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slca.benchmarks.bfcl import worker
from slca.errors import MissingDependency, SlcaError, ToolError
from slca.records import Call, Json
from slca.sgls.tool import Tool, load_tool

PYTHON_VARIABLE = "SLCA_BFCL_PYTHON"
TIME_LIMIT = 600  # seconds for one worker; all single-turn categories take under one

HANDLER = "structured calls; '.' in names as '_'; schemas as JSON Schema; upstream's language hints"
"""What a score depends on beside package, policy and chat template. It changes when the questions or the decoding do."""


@dataclass(frozen=True)
class Question:
    """One item as a policy meets it.

    names: tool name in ``tools`` -> BFCL's own name. irregular: how many of the tools ``load_tool`` refuses (none, at present).
    """

    item_id: str
    category: str
    messages: tuple[dict[str, str], ...]
    tools: tuple[Tool, ...]
    names: dict[str, str]
    irregular: int = 0


@dataclass(frozen=True)
class Prediction:
    """The calls made for one item, under BFCL's own names."""

    item_id: str
    category: str
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class ItemScore:
    """error_type is empty for a right answer; ``refused:*`` and ``checker_raised:*`` are explained in ``worker``."""

    item_id: str
    category: str
    valid: bool
    error_type: str


@dataclass(frozen=True)
class CategoryScore:
    """correct out of n scored items; the category has ``of`` items. accuracy is a share, 0..1."""

    correct: int
    n: int
    of: int

    @property
    def accuracy(self) -> float:
        return self.correct / self.n


@dataclass(frozen=True)
class Scores:
    version: str
    categories: dict[str, CategoryScore]
    items: tuple[ItemScore, ...]


@dataclass(frozen=True)
class BfclReport:
    """Scores of a policy, of the gold answers and of doing nothing, on the same items."""

    scores: Scores
    gold: Scores
    do_nothing: Scores
    irregular_tools: int

    @property
    def partial(self) -> bool:
        return any(score.n < score.of for score in self.scores.categories.values())

    def to_json(self) -> dict[str, str | int | float]:
        """Flat scalars: the headline first, then four numbers and two references for each category."""
        checker_raised = sum(item.error_type.startswith("checker_raised:") for item in self.scores.items)
        values: dict[str, str | int | float] = {
            "package": f"{worker.PACKAGE} {self.scores.version}",
            "handler": HANDLER,
            "scope": "partial: the first items of each category" if self.partial else "full categories",
            "irregular_tools": self.irregular_tools,
            "checker_raised": checker_raised,
        }
        for category, score in self.scores.categories.items():
            values[f"{category}_accuracy"] = score.accuracy
            values[f"{category}_correct"] = score.correct
            values[f"{category}_n"] = score.n
            values[f"{category}_of"] = score.of
            values[f"{category}_gold"] = self.gold.categories[category].accuracy
            values[f"{category}_do_nothing"] = self.do_nothing.categories[category].accuracy
        return values


def python_of_environment(root: Path = Path(".")) -> Path:
    """The python that has bfcl-eval: $SLCA_BFCL_PYTHON, else .venv-bfcl under ``root``. Raises MissingDependency."""
    named = os.environ.get(PYTHON_VARIABLE)
    # absolute, not resolved: a virtual environment is found through the link that its python is
    python = Path(named).absolute() if named else (root / ".venv-bfcl" / "bin" / "python").absolute()
    if not python.is_file():
        origin = f"{PYTHON_VARIABLE} names {named}" if named else "BFCL needs .venv-bfcl/bin/python"
        raise MissingDependency(
            f"{origin}, which does not exist; run `make setup`, or set {PYTHON_VARIABLE} to a python that has {worker.PACKAGE}."
        )
    return python


def questions(categories: Sequence[str], limit: int | None = None, root: Path = Path(".")) -> list[Question]:
    """The first ``limit`` items of each category (None: all), in the package's order."""
    return [_question(line) for line in _run("questions", _selection(categories, limit), root)]


def gold_predictions(categories: Sequence[str], limit: int | None = None, root: Path = Path(".")) -> list[Prediction]:
    """The published answers to the same items, as if a policy had given them."""
    lines = _run("gold", _selection(categories, limit), root)
    return [Prediction(line["id"], line["category"], tuple(Call.from_json(call) for call in line["calls"])) for line in lines]


def score(predictions: Sequence[Prediction], root: Path = Path(".")) -> Scores:
    """The official checker's verdict on ``predictions``: at least one, each id once."""
    if not predictions:
        raise ValueError("no predictions to score")
    (result,) = _run("score", (), root, predictions)
    categories = {name: CategoryScore(value["correct"], value["n"], value["of"]) for name, value in result["categories"].items()}
    items = tuple(ItemScore(item["id"], item["category"], item["valid"], item["error_type"]) for item in result["items"])
    if len(items) != len(predictions):
        raise SlcaError(f"The BFCL worker scored {len(items)} of {len(predictions)} predictions; run `make setup` and repeat.")
    return Scores(result["version"], categories, items)


def references(categories: Sequence[str], limit: int | None = None, root: Path = Path(".")) -> dict[str, Scores]:
    """What the published answers score (``gold``) and what calling nothing scores (``do_nothing``) on the same items."""
    gold = gold_predictions(categories, limit, root)
    nothing = [Prediction(prediction.item_id, prediction.category, ()) for prediction in gold]
    return {"gold": score(gold, root), "do_nothing": score(nothing, root)}


def evaluate(
    generate: Callable[[Sequence[Question]], Sequence[Sequence[Call]]],
    categories: Sequence[str],
    limit: int | None = None,
    root: Path = Path("."),
) -> BfclReport:
    """Score ``generate``, which returns for each question, in order, the calls of its first turn (under the tools' names)."""
    asked = questions(categories, limit, root)
    answered = generate(asked)
    if len(answered) != len(asked):
        raise ValueError(f"generate returned {len(answered)} answers to {len(asked)} questions")
    scores = score([_prediction(question, calls) for question, calls in zip(asked, answered, strict=True)], root)
    reference = references(categories, limit, root)
    return BfclReport(scores, reference["gold"], reference["do_nothing"], sum(question.irregular for question in asked))


def _prediction(question: Question, calls: Sequence[Call]) -> Prediction:
    """Back to BFCL's names. A name that was not offered gets one that BFCL does not have either, even if it spells the dots."""
    renamed = tuple(Call(question.names.get(call.name, f"not offered: {call.name}"), call.arguments) for call in calls)
    return Prediction(question.item_id, question.category, renamed)


def _question(line: dict[str, Json]) -> Question:
    tools = []
    irregular = 0
    for function in line["functions"]:
        definition = {**function, "source": "bfcl"}
        try:
            tools.append(load_tool(definition, line["id"]))
        except ToolError:
            tools.append(Tool.model_validate(definition))  # a benchmark's item is used as it is, and counted
            irregular += 1
    return Question(line["id"], line["category"], tuple(line["messages"]), tuple(tools), line["names"], irregular)


def _selection(categories: Sequence[str], limit: int | None) -> tuple[str, ...]:
    return ("--categories", ",".join(categories), *(() if limit is None else ("--limit", str(limit))))


def _prediction_line(prediction: Prediction) -> dict[str, Json]:
    """Too large arguments are not sent, since they may nest too deeply for a JSON writer; the worker refuses the null."""
    calls: list[Json] = []
    for call in prediction.calls:
        calls.append({"name": call.name, "arguments": None if worker.too_large(call.arguments) else call.arguments})
    return {"id": prediction.item_id, "category": prediction.category, "calls": calls}


def _run(command: str, arguments: Sequence[str], root: Path, predictions: Sequence[Prediction] = ()) -> list[dict[str, Any]]:
    """Run the worker in a folder of its own, which goes with it; the JSON lines that it wrote."""
    python = python_of_environment(root)
    with tempfile.TemporaryDirectory(prefix="slca-bfcl-") as name:
        folder = Path(name)
        given, out = folder / "predictions.jsonl", folder / "out.jsonl"
        if predictions:
            worker.write_lines(given, [_prediction_line(prediction) for prediction in predictions])
            arguments = ("--predictions", str(given))
        script = str(Path(worker.__file__).absolute())
        environment = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ} | {"TMPDIR": name}
        try:
            done = subprocess.run(
                [str(python), "-I", "-X", "utf8", script, command, *arguments, "--out", str(out)],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                timeout=TIME_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SlcaError(f"The BFCL worker ({command}) did not end within {TIME_LIMIT} s; nothing was scored.") from None
        if done.returncode or not out.exists():
            last = " | ".join(done.stdout.strip().splitlines()[-3:]) or "no output"
            raise SlcaError(
                f"The BFCL worker ({command}) failed with exit code {done.returncode}: {last}. "
                f"Run `make setup` if {worker.PACKAGE} is missing or damaged; nothing was scored."
            )
        return [json.loads(line) for line in out.read_text(encoding="ascii").splitlines()]
