"""Python callables as tools: what each kind of type hint and docstring becomes, and what is refused."""

import enum
import functools
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from slca.errors import DataError
from slca.sgls.importers.base import Imported
from slca.sgls.importers.callables import from_callables, load_callables
from slca.sgls.importers.source import load_source
from slca.sgls.tool import Tool
from slca.sgls.validation import fault, validator


class Unit(enum.Enum):
    CELSIUS = "c"
    KELVIN = "k"


@dataclass
class Place:
    city: str
    country: str | None = None
    inside: list["Place"] = field(default_factory=list)


class Window(TypedDict, total=False):
    start: str
    days: int


class Forecast(BaseModel):
    high: float
    sky: Literal["clear", "rain"]


def only(function: Callable[..., Any]) -> Tool:
    imported = from_callables([function], "here")
    assert not imported.refused
    return imported.tools[0]


def refusal(function: Callable[..., Any]) -> str:
    imported = from_callables([function], "here")
    assert not imported.tools
    return str(imported.refused[0])


def weather(place: Place, unit: Unit = Unit.CELSIUS, days: Annotated[int, Field(ge=1, le=14)] = 3) -> Forecast: ...  # type: ignore[empty-body]


def test_types_become_schemas_that_accept_what_the_types_do() -> None:
    tool = only(weather)
    assert tool.required == ("place",) and tool.parameters["additionalProperties"] is False
    assert tool.properties["days"] == {"type": "integer", "minimum": 1, "maximum": 14, "default": 3}
    assert tool.properties["unit"]["default"] == "c"
    compiled = validator(tool.parameters)
    assert fault(compiled, {"place": {"city": "Łódź", "inside": [{"city": "x"}]}, "unit": "k", "days": 14}, "arguments") is None
    for wrong in ({}, {"place": {}}, {"place": {"city": "x"}, "unit": "f"}, {"place": {"city": "x"}, "days": 15}, {"place": 1}):
        assert fault(compiled, wrong, "arguments") is not None
    assert tool.output is not None
    assert fault(validator(tool.output), {"high": 21.5, "sky": "rain"}, "answer") is None
    assert fault(validator(tool.output), {"high": 21.5, "sky": "snow"}, "answer") is not None
    assert (tool.domain, tool.source) == ("here", "python:here")


def hints(
    a: int | None, b: Literal["x", 2], c: Window, d: dict[str, list[float]], e: tuple[int, str], f: int | str | None
) -> None: ...


@settings(max_examples=150)
@given(st.sampled_from("abcdef"), st.data())
def test_a_schema_accepts_a_json_value_exactly_where_pydantic_does(name: str, data: st.DataObject) -> None:
    scalars = st.none() | st.integers(-3, 3) | st.sampled_from(["x", "y", ""]) | st.sampled_from([0.5, 1.5])
    keys = st.sampled_from(["start", "days", "k"])
    value = data.draw(
        scalars | st.lists(scalars, max_size=3) | st.dictionaries(keys, scalars | st.lists(scalars, max_size=2), max_size=2)
    )
    tool = only(hints)
    compiled = validator({**tool.properties[name], "$defs": tool.parameters.get("$defs", {})})
    try:
        TypeAdapter(hints.__annotations__[name]).validate_json(TypeAdapter(Any).dump_json(value), strict=True)
        accepted = True
    except ValidationError:
        accepted = False
    assert (fault(compiled, value, name) is None) == accepted


def google(city: str, days: int = 3, *, units: str = "metric", **rest: int) -> dict[str, float]:
    """Get the forecast.

    As far ahead as there is one.

    Args:
        city (str): where, in the
            local spelling
        days: how many days
        rest: anything else

    Returns:
        Highs by day.
    """
    raise NotImplementedError


def numpy(city: str, days: int = 3, *, units: str = "metric", **rest: int) -> dict[str, float]:
    """Get the forecast.

    As far ahead as there is one.

    Parameters
    ----------
    city : str
        where, in the
        local spelling
    days : int, optional
        how many days
    **rest
        anything else

    Returns
    -------
    dict
        Highs by day.
    """
    raise NotImplementedError


def rest(city: str, days: int = 3, *, units: str = "metric", **rest: int) -> dict[str, float]:
    """Get the forecast.

    As far ahead as there is one.

    :param city: where, in the
        local spelling
    :param int days: how many days
    :param rest: anything else
    :returns: Highs by day.
    """
    raise NotImplementedError


@pytest.mark.parametrize("function", [google, numpy, rest])
def test_docstrings_of_every_style_say_the_same(function: Callable[..., Any]) -> None:
    tool = only(function)
    assert tool.description == "Get the forecast.\n\nAs far ahead as there is one."
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "where, in the local spelling"},
            "days": {"type": "integer", "default": 3, "description": "how many days"},
            "units": {"type": "string", "default": "metric"},
        },
        "required": ["city"],
        "additionalProperties": {"type": "integer", "description": "anything else"},
    }
    assert tool.output == {"type": "object", "additionalProperties": {"type": "number"}}


def test_a_functions_words_agree_with_those_that_transformers_reads() -> None:
    from transformers.utils import get_json_schema

    def book(city: str, nights: int, beds: list[int], quiet: bool = False, note: str | None = None) -> str:
        """Book a room.

        Args:
            city: where
            nights: how long
            beds: sizes of the beds
            quiet: away from the street
            note: for the host
        """
        raise NotImplementedError

    theirs, ours = get_json_schema(book)["function"], only(book)
    assert (theirs["name"], theirs["description"]) == (ours.name, ours.description)
    assert theirs["parameters"]["required"] == list(ours.required)
    assert theirs["parameters"]["properties"].keys() == ours.properties.keys()
    for name, schema in theirs["parameters"]["properties"].items():
        own = ours.properties[name]
        nullable = [part["type"] for part in own.get("anyOf", [])] == [schema["type"], "null"] and schema.get("nullable")
        assert own["description"] == schema["description"] and (own.get("type") == schema["type"] or nullable)


def test_the_hints_description_wins_over_the_docstrings() -> None:
    def look(city: Annotated[str, Field(description="the hint's")]) -> None:
        """Look.

        Args:
            city: the docstring's
        """

    assert only(look).properties["city"]["description"] == "the hint's"


def test_without_hints_anything_goes() -> None:
    def anything(x, y=3):  # type: ignore[no-untyped-def]
        return x

    tool = only(anything)
    assert tool.properties == {"x": {}, "y": {"default": 3}} and tool.required == ("x",) and tool.output is None


class Desk:
    def call(self, number: str) -> int:
        """Call."""
        raise NotImplementedError

    @classmethod
    def open(cls, at: int) -> None: ...

    @staticmethod
    def close(at: int) -> None: ...

    def __call__(self, what: str) -> str:
        raise NotImplementedError


async def later(number: str) -> int:
    """Call."""
    raise NotImplementedError


def test_self_and_cls_are_skipped_and_async_partial_and_callable_objects_are_read() -> None:
    for function in (Desk.call, Desk().call, later):
        tool = only(function)
        assert list(tool.properties) == ["number"] and tool.output == {"type": "integer"}
    assert [list(only(function).properties) for function in (Desk.open, Desk.close)] == [["at"], ["at"]]
    assert (only(Desk()).name, list(only(Desk()).properties)) == ("Desk", ["what"])
    bound = only(functools.partial(google, "Oslo"))
    assert bound.name == "google" and "city" not in bound.properties and bound.required == ()
    assert only(lambda value: value).original == "<lambda>"


def starred(*cities: str) -> None: ...
def called(back: Callable[[int], int]) -> None: ...
def lost(city: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (starred, ":starred (starred): *cities has no names"),
        (called, ":called (called): argument back has no JSON Schema"),
        (lost, "type hints cannot be read (name 'Nowhere' is not defined)"),
        (Desk, ":Desk (Desk): it is a class"),
        (print, "builtins:print (print): *args"),
        (dict.update, "builtins:dict.update (update): its signature"),
    ],
)
def test_what_no_schema_can_say_is_refused_with_its_place(function: Callable[..., Any], reason: str) -> None:
    assert reason in refusal(function)


def test_one_bad_function_does_not_stop_the_others_nor_does_a_name_that_occurs_again() -> None:
    imported = from_callables([starred, google, google], "here")
    assert [tool.name for tool in imported.tools] == ["google"]
    assert [refused.name for refused in imported.refused] == ["starred", "google"] and "twice" in imported.refused[1].reason


def test_defaults_and_answers_that_are_no_json_are_left_out_with_a_note() -> None:
    def odd(limit: float = math.inf, marker: Any = object(), unit: Unit = Unit.KELVIN) -> Iterator[int]:  # noqa: B008
        raise NotImplementedError

    imported = from_callables([odd], "here")
    (tool,) = imported.tools
    assert tool.properties["limit"] == {"type": "number"} and "default" not in tool.properties["marker"]
    assert tool.properties["unit"]["default"] == "k" and tool.output is None and tool.required == ()
    noted = [note.reason for note in imported.notes]
    assert ["limit" in noted[0], "marker" in noted[1], "without an output schema" in noted[2]] == [True] * 3 and len(noted) == 3


MODULE = '''
from __future__ import annotations
from textwrap import dedent

def visible(city: str) -> str:
    """See."""

def _hidden(city: str) -> str: ...

async def second(n: Count) -> None: ...

Count = int
number = 3
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = f"own_tools_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


def names(imported: Imported) -> list[str]:
    return [tool.name for tool in imported.tools]


def test_a_module_gives_its_own_public_functions_or_those_that_it_lists(module: str, tmp_path: Path) -> None:
    assert names(load_callables(module)) == names(load_source(f"python:{module}")) == ["visible", "second"]
    assert names(load_source(f"{module}:_hidden")) == ["_hidden"]
    assert {tool.source for tool in load_callables(module).tools} == {f"python:{module}"}
    sys.modules.pop(module)
    (tmp_path / f"{module}.py").write_text(MODULE + "\n\n__all__ = ['dedent', 'visible', 'number']\n# longer\n", encoding="utf-8")
    assert names(load_callables(module)) == ["dedent", "visible"]


def test_a_module_or_name_that_cannot_be_had_is_a_sentence(module: str, tmp_path: Path) -> None:
    (tmp_path / "broken_tools.py").write_text("raise RuntimeError('half done')", encoding="utf-8")
    (tmp_path / "leaving_tools.py").write_text("import sys; sys.exit(3)", encoding="utf-8")
    for text, reason in [
        ("no_such_module_anywhere:f", "No module named"),
        ("broken_tools:f", "RuntimeError: half done"),
        ("python:leaving_tools", "SystemExit: 3"),
        (f"{module}:missing", "no function 'missing'"),
        (f"{module}:number", "no function 'number'"),
        (f"{module}:visible.x", "no function 'visible.x'"),
        ("python:math", "no public functions"),
        ("python:", "cannot be imported"),
        ("python:..a", "cannot be imported"),
    ]:
        with pytest.raises(DataError, match=reason):
            load_source(text)
