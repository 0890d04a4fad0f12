"""BFCL's items, and what a policy made of them, as typed values."""

from collections.abc import Sequence
from dataclasses import dataclass

from slca.benchmarks.bfcl.prompting import Language
from slca.errors import ToolError
from slca.records import Call, Json, Plan, plan_from_json, plan_to_json
from slca.sgls.tool import Tool, load_tool


@dataclass(frozen=True)
class UserTurn:
    """What the user says, and the tools that become known with it. The first turn may begin with a system prompt."""

    messages: tuple[dict[str, str], ...]
    tools: tuple[Tool, ...]


@dataclass(frozen=True)
class Question:
    """One item as a policy meets it.

    turns: one for a single-turn item. names: tool name in ``tools`` -> BFCL's own name. irregular: how many of the tools
    ``load_tool`` refuses (none, at present).
    """

    item_id: str
    category: str
    language: Language
    turns: tuple[UserTurn, ...]
    names: dict[str, str]
    irregular: int = 0

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(tool for turn in self.turns for tool in turn.tools)

    @property
    def multi_turn(self) -> bool:
        return self.category.startswith("multi_turn_")

    @staticmethod
    def from_json(line: dict[str, Json]) -> "Question":
        turns, irregular = [], 0
        for turn in line["turns"]:
            tools, refused = _tools(turn["functions"], line["id"])
            turns.append(UserTurn(tuple(turn["messages"]), tools))
            irregular += refused
        return Question(line["id"], line["category"], line["language"], tuple(turns), line["names"], irregular)


def _tools(functions: Sequence[dict[str, Json]], where: str) -> tuple[tuple[Tool, ...], int]:
    """The tools, and how many of them are irregular: a benchmark's item is used as it is, and counted."""
    tools, irregular = [], 0
    for function in functions:
        definition = {**function, "source": "bfcl"}
        try:
            tools.append(load_tool(definition, where))
        except ToolError:
            tools.append(Tool.model_validate(definition))
            irregular += 1
    return tuple(tools), irregular


@dataclass(frozen=True)
class Prediction:
    """The calls made for one item, under BFCL's own names: a plan for each turn.

    refused: why the item is wrong whatever was called (the policy never answered it, or its calls took too long); else empty.
    """

    item_id: str
    category: str
    turns: tuple[Plan, ...]
    refused: str = ""

    @staticmethod
    def single(item_id: str, category: str, calls: Sequence[Call]) -> "Prediction":
        """Of a single-turn item."""
        return Prediction(item_id, category, ((tuple(calls),),))

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(call for turn in self.turns for step in turn for call in step)


@dataclass(frozen=True)
class Answer:
    """A prediction and how it came about: finish and transcript as in ``slca.records.Trace``."""

    prediction: Prediction
    finish: str
    transcript: tuple[dict[str, Json], ...]
    sampled_tokens: int

    def to_json(self) -> dict[str, Json]:
        made = self.prediction
        return {
            "id": made.item_id,
            "category": made.category,
            "turns": [plan_to_json(turn) for turn in made.turns],
            "refused": made.refused,
            "finish": self.finish,
            "transcript": list(self.transcript),
            "sampled_tokens": self.sampled_tokens,
        }

    @staticmethod
    def from_json(value: dict[str, Json]) -> "Answer":
        turns = tuple(plan_from_json(turn) for turn in value["turns"])
        prediction = Prediction(value["id"], value["category"], turns, value["refused"])
        return Answer(prediction, value["finish"], tuple(value["transcript"]), value["sampled_tokens"])
