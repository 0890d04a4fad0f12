"""BFCL as seen from the pipeline: questions out, answers in, a report with its references beside it.

Everything BFCL-specific runs in ``worker`` under another python (``client``); here its files become typed values. Published names
hold dots; a policy that is given its tools as such sees them with underscores and its calls are mapped back, so a call that
spells the dots itself names no tool of its list and is wrong. A worker that fails raises SlcaError with its last lines: never a
score.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slca.benchmarks.bfcl import groups, worker
from slca.benchmarks.bfcl.client import run
from slca.benchmarks.bfcl.groups import Style
from slca.benchmarks.bfcl.items import Answer, Prediction, Question
from slca.benchmarks.references import NAMES, random_call
from slca.errors import SlcaError
from slca.records import Call, Trace, plan_from_json
from slca.sgls.tool import Tool

HANDLERS = {
    "native": "structured calls; '.' in names as '_'; schemas as JSON Schema; upstream's language hints",
    "prompt": "upstream's default system prompt; calls as [f(a=1)], literals alone",
}
"""What a score depends on beside package, policy and chat template. It changes when the questions or the decoding do."""


@dataclass(frozen=True)
class Selection:
    """Which items, and how they are asked. limit: the first items of each category, in the package's order; None: all."""

    categories: tuple[str, ...]
    limit: int | None = None
    style: Style = "native"

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("--categories", ",".join(self.categories), *(() if self.limit is None else ("--limit", str(self.limit))))


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

    def groups(self) -> dict[str, float | str]:
        return groups.scores(
            {name: score.accuracy for name, score in self.categories.items()},
            {name: score.of for name, score in self.categories.items()},
            [name for name, score in self.categories.items() if score.n == score.of],
        )


@dataclass(frozen=True)
class BfclReport:
    """Scores of a policy and of the references (``slca.benchmarks.references.NAMES``) on the same items."""

    style: Style
    scores: Scores
    references: dict[str, Scores]
    irregular_tools: int
    traces: tuple[Trace, ...] = ()

    @property
    def partial(self) -> bool:
        return any(score.n < score.of for score in self.scores.categories.values())

    def to_json(self) -> dict[str, Any]:
        """The headline first, then for each category its numbers and references, as flat scalars; then the groups.

        ``<category>_context`` counts items that were not answered, or not to the end, since the policy's context was full;
        ``<category>_unsatisfiable`` those that no right answer satisfies, with the reason of each under ``unsatisfiable``.
        groups: name -> ``accuracy`` beside the references', or ``partial`` with how much of the group was run.
        """
        checker_raised = sum(item.error_type.startswith("checker_raised:") for item in self.scores.items)
        values: dict[str, Any] = {
            "package": f"{worker.PACKAGE} {self.scores.version}",
            "handler": HANDLERS[self.style],
            "style": self.style,
            "scope": "partial: the first items of each category" if self.partial else "full categories",
            "irregular_tools": self.irregular_tools,
            "checker_raised": checker_raised,
        }
        full_context = Counter(trace.category for trace in self.traces if trace.finish == "context")
        unsatisfiable = [item for item in self.scores.items if item.item_id in groups.UNSATISFIABLE]
        for category, score in self.scores.categories.items():
            values[f"{category}_accuracy"] = score.accuracy
            values[f"{category}_correct"] = score.correct
            values[f"{category}_n"] = score.n
            values[f"{category}_of"] = score.of
            values[f"{category}_context"] = full_context[category]
            values[f"{category}_unsatisfiable"] = sum(item.category == category for item in unsatisfiable)
            for name, reference in self.references.items():
                values[f"{category}_{name}"] = reference.categories[category].accuracy
        found = self.scores.groups()
        if "overall_60" in found:
            values["overall_60"] = found.pop("overall_60")
        beside = {name: reference.groups() for name, reference in self.references.items()}
        values["groups"] = {
            name: {"partial": value}
            if isinstance(value, str)
            else {"accuracy": value} | {reference: scores[name] for reference, scores in beside.items()}
            for name, value in found.items()
        }
        values["unsatisfiable"] = {item.item_id: groups.UNSATISFIABLE[item.item_id] for item in unsatisfiable}
        return values


def questions(selection: Selection, root: Path = Path(".")) -> list[Question]:
    """The selected items, in the package's order."""
    lines = run("questions", (*selection.arguments, "--style", selection.style), root)
    return [Question.from_json(line) for line in lines]


def gold_predictions(selection: Selection, root: Path = Path(".")) -> list[Prediction]:
    """The published answers to the same items, as if a policy had given them."""
    lines = run("gold", selection.arguments, root)
    return [Prediction(line["id"], line["category"], tuple(plan_from_json(turn) for turn in line["turns"])) for line in lines]


def score(predictions: Sequence[Prediction], root: Path = Path(".")) -> Scores:
    """The official checkers' verdict on ``predictions``: at least one, each id once."""
    if not predictions:
        raise ValueError("no predictions to score")
    (result,) = run("score", (), root, predictions)
    categories = {name: CategoryScore(value["correct"], value["n"], value["of"]) for name, value in result["categories"].items()}
    items = tuple(ItemScore(item["id"], item["category"], item["valid"], item["error_type"]) for item in result["items"])
    if len(items) != len(predictions):
        raise SlcaError(f"The BFCL worker scored {len(items)} of {len(predictions)} predictions; run `make setup` and repeat.")
    return Scores(result["version"], categories, items)


def references(asked: Sequence[Question], selection: Selection, seed: int = 0, root: Path = Path(".")) -> dict[str, Scores]:
    """What the references score on the same items. In a multi-turn item they answer every turn in one step."""
    answers = {
        "gold": gold_predictions(selection, root),
        "do_nothing": [_reference(question, [()] * len(question.turns)) for question in asked],
        "random_call": [_reference(question, _random_calls(question, seed)) for question in asked],
    }
    return {name: score(answers[name], root) for name in NAMES}


def _reference(question: Question, calls: Sequence[tuple[Call, ...]]) -> Prediction:
    return Prediction(question.item_id, question.category, tuple((made,) if made else () for made in calls))


def _random_calls(question: Question, seed: int) -> list[tuple[Call, ...]]:
    """One call in each turn, of a tool that is known by then."""
    calls: list[tuple[Call, ...]] = []
    tools: list[Tool] = []
    for number, turn in enumerate(question.turns):
        tools += turn.tools
        call = random_call(tools, f"{question.item_id}/{number}", seed)
        calls.append(() if call is None else (Call(question.names[call.name], call.arguments),))
    return calls


def evaluate(
    answer: Callable[[Sequence[Question]], Sequence[Answer]], selection: Selection, seed: int = 0, root: Path = Path(".")
) -> BfclReport:
    """Score ``answer``, which returns an answer to each question, in order. seed: of the random reference."""
    asked = questions(selection, root)
    answered = answer(asked)
    if [made.prediction.item_id for made in answered] != [question.item_id for question in asked]:
        raise ValueError(f"{len(answered)} answers do not fit the {len(asked)} questions one by one")
    scores = score([made.prediction for made in answered], root)
    verdicts = {item.item_id: item for item in scores.items}
    return BfclReport(
        selection.style,
        scores,
        references(asked, selection, seed, root),
        sum(question.irregular for question in asked),
        tuple(_trace(made, verdicts[made.prediction.item_id]) for made in answered),
    )


def _trace(answer: Answer, verdict: ItemScore) -> Trace:
    return Trace(
        benchmark="bfcl",
        category=verdict.category,
        item_id=verdict.item_id,
        trial=0,
        score=float(verdict.valid),
        error=verdict.error_type,
        finish=answer.finish,
        turns=answer.transcript,
        sampled_tokens=answer.sampled_tokens,
    )
