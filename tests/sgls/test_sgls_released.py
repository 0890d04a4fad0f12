"""Released SLCA rows in every place and form that the layout allows."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.errors import DataError
from slca.sgls.importers.base import Refused
from slca.sgls.importers.released import GoldCall, ReleasedRow, load_released, read_rows
from slca.sgls.importers.source import load_source


def function(name: str, parameters: dict[str, Any] | None = None, description: str = "") -> dict[str, Any]:
    schema = parameters or {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


SEARCH, BOOK = "flights/Suche für Łódź", "book hotel"
TOOLS = [function(SEARCH), function(BOOK)]
GOLD = [[{"name": SEARCH, "arguments": {"city": "São Paulo"}}, {"name": BOOK, "arguments": {"city": "東京"}}]]
PLAN = ((GoldCall("flights_Suche_fur_Lodz", {"city": "São Paulo"}), GoldCall("book_hotel", {"city": "東京"})),)


def verl_row(tools: Any = None, gold: Any = None, **extra: Any) -> dict[str, Any]:
    """A row as verl lays it out, with tools and gold where they are likeliest to be."""
    return {
        "data_source": "toucan",
        "prompt": [{"role": "system", "content": "You have tools."}, {"role": "user", "content": "Fly me to São Paulo."}],
        "ability": "tool_use",
        "reward_model": {"style": "rule", "ground_truth": json.dumps(GOLD) if gold is None else gold},
        "extra_info": {"index": 0, "split": "train", "tools": json.dumps(TOOLS) if tools is None else tools, **extra},
    }


def written(path: Path, *rows: dict[str, Any]) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path


def read(path: Path, *rows: dict[str, Any]) -> list[ReleasedRow | Refused]:
    return list(read_rows(written(path / "train.parquet", *rows)))


def only(path: Path, row: dict[str, Any]) -> ReleasedRow:
    (result,) = read(path, row)
    assert isinstance(result, ReleasedRow), result
    return result


def test_a_row_gives_question_tools_with_safe_names_and_the_plan_in_their_names(tmp_path: Path) -> None:
    row = only(tmp_path, verl_row())
    assert (row.row, row.question, row.gold, row.notes, row.names_only) == (0, "Fly me to São Paulo.", PLAN, (), False)
    assert [(tool.name, tool.original) for tool in row.tools] == [("flights_Suche_fur_Lodz", SEARCH), ("book_hotel", BOOK)]
    assert {(tool.domain, tool.source) for tool in row.tools} == {("train", "released:train")}


def with_system(text: str) -> dict[str, Any]:
    row = verl_row(tools="")
    row["prompt"][0]["content"] = f"You are given signatures within <tools></tools> tags:\n<tools>\n{text}\n</tools>\nCall them."
    return row


MCP = [{"name": name, "inputSchema": function(name)["function"]["parameters"]} for name in (SEARCH, BOOK)]


@pytest.mark.parametrize(
    "row",
    [
        verl_row(tools=TOOLS),
        verl_row(tools=[json.dumps(tool) for tool in TOOLS]),
        verl_row(tools=json.dumps([tool["function"] for tool in TOOLS], ensure_ascii=False)),
        verl_row(tools=json.dumps(MCP)),
        verl_row(tools=json.dumps([*TOOLS, TOOLS[0]])),  # the same one again
        verl_row(tools=[{**tool["function"], "parameters": json.dumps(tool["function"]["parameters"])} for tool in TOOLS]),
        verl_row(tools="") | {"tools": json.dumps(TOOLS)},
        verl_row(tools="", tools_kwargs={tool["function"]["name"]: {"create_kwargs": tool["function"]} for tool in TOOLS}),
        verl_row(tools="", tools_kwargs=json.dumps({tool["function"]["name"]: tool["function"] for tool in TOOLS})),
        with_system("\n".join(json.dumps(tool) for tool in TOOLS)),
        with_system(json.dumps(TOOLS, indent=2)),
        verl_row() | {"extra_info": json.dumps({"tools": TOOLS})},
        verl_row() | {"prompt": json.dumps([{"role": "user", "content": [{"type": "text", "text": "Fly me to São Paulo."}]}])},
    ],
)
def test_tools_and_question_are_found_wherever_they_are_and_however_they_are_written(row: dict[str, Any], tmp_path: Path) -> None:
    assert (found := only(tmp_path, row)).gold == PLAN and found.question == "Fly me to São Paulo."
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    assert [tool.parameters for tool in found.tools] == [schema, schema] and not found.notes


@pytest.mark.parametrize(
    ("gold", "plan"),
    [
        (GOLD, PLAN),  # a structure
        ([json.dumps(step) for step in GOLD], PLAN),
        (json.dumps(GOLD[0]), ((PLAN[0][0],), (PLAN[0][1],))),  # flat: one call to a step
        (json.dumps(GOLD[0][0]), ((PLAN[0][0],),)),
        (
            json.dumps([{"type": "function", "function": {"name": BOOK, "arguments": '{"city": "x"}'}}]),
            ((GoldCall("book_hotel", {"city": "x"}),),),
        ),
        (json.dumps([{"name": BOOK, "arguments": {}}]), ((GoldCall("book_hotel", {}),),)),
        (json.dumps([SEARCH, BOOK]), ((GoldCall(PLAN[0][0].name, None),), (GoldCall("book_hotel", None),))),
        ([SEARCH, BOOK], ((GoldCall(PLAN[0][0].name, None),), (GoldCall("book_hotel", None),))),
        ([[SEARCH, BOOK]], ((GoldCall(PLAN[0][0].name, None), GoldCall("book_hotel", None)),)),
        (f"{SEARCH}, {BOOK}", ((GoldCall(PLAN[0][0].name, None),), (GoldCall("book_hotel", None),))),
        (BOOK, ((GoldCall("book_hotel", None),),)),
        ("[]", ()),
        ([], ()),
        ("[[]]", ()),
    ],
)
def test_gold_calls_come_nested_flat_or_as_names_only(gold: Any, plan: Any, tmp_path: Path) -> None:
    row = only(tmp_path, verl_row(gold=gold))
    assert row.gold == plan
    assert row.names_only == any(call.arguments is None for step in plan for call in step)


@pytest.mark.parametrize("key", ["ground_truth", "gold", "target_tools"])
def test_gold_calls_may_lie_in_extra_info(key: str, tmp_path: Path) -> None:
    row = verl_row(gold="")
    row["extra_info"][key] = json.dumps(GOLD)
    assert only(tmp_path, row).gold == PLAN


def test_arguments_of_a_structure_lose_the_nulls_that_parquet_put_in(tmp_path: Path) -> None:
    gold = [[{"name": SEARCH, "arguments": {"city": "x"}}], [{"name": BOOK, "arguments": {"nights": 2}}]]
    tools = [function(SEARCH), function(BOOK, {"type": "object", "properties": {"nights": {"type": "integer", "minimum": 1}}})]
    row = only(tmp_path, verl_row(tools, gold))
    assert row.gold == ((GoldCall(PLAN[0][0].name, {"city": "x"}),), (GoldCall("book_hotel", {"nights": 2}),))
    assert row.tools[1].parameters == {"type": "object", "properties": {"nights": {"type": "integer", "minimum": 1}}}


def test_a_schema_without_required_or_type_is_imported(tmp_path: Path) -> None:
    row = only(tmp_path, verl_row(json.dumps([function(BOOK, {"properties": {"city": {"type": "string"}}})]), json.dumps([BOOK])))
    assert row.tools[0].required == () and row.tools[0].parameters["type"] == "object"


def without(row: dict[str, Any], column: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != column}


@pytest.mark.parametrize(
    ("row", "name", "reason"),
    [
        (verl_row() | {"prompt": [{"role": "system", "content": "x"}]}, "", "no question"),
        (without(verl_row(), "prompt"), "", "no question"),
        (verl_row(tools=""), "", "no list of tools"),
        (verl_row(tools="", tools_kwargs={"judge": {"create_kwargs": {"ground_truth": "4"}}}), "", "no list of tools"),
        (verl_row(tools="[{"), "", "tools cannot be read as JSON"),
        (verl_row(tools='[{"name": "a", "name": "b"}]'), "", "occurs twice in one object"),
        (verl_row(tools='[{"name": "a", "description": "\\ud800"}]'), "", "surrogate"),
        (verl_row(tools="[" * 100_000), "", "nested"),
        (verl_row(tools="[" * 500 + "]" * 500), SEARCH, "cannot be imported"),
        (verl_row(gold=""), "", "no gold calls"),
        (without(verl_row(), "reward_model"), "", "no gold calls"),
        (verl_row(gold='[{"name": "a"'), "", "the gold calls cannot be read as JSON"),
        (verl_row(gold='["a", ["b"]]'), "", "mix steps and calls"),
        (verl_row(gold="[1]"), "", "has no name"),
        (verl_row(gold='[{"arguments": {}}]'), "", "has no name"),
        (verl_row(gold=json.dumps([{"name": BOOK, "arguments": [1]}])), BOOK, "no object"),
        (verl_row(gold='["walk"]'), "walk", "name a tool that it does not list"),
        (verl_row(json.dumps([function(BOOK, {"type": "dict"})]), json.dumps([BOOK])), BOOK, "cannot be imported"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_with_its_number_and_reason(
    row: dict[str, Any], name: str, reason: str, tmp_path: Path
) -> None:
    (bad,) = read(tmp_path, row)
    assert isinstance(bad, Refused), bad
    assert (bad.place, bad.name) == ("row 0", name) and reason in bad.reason


def test_rows_are_numbered_through_batches_and_each_refusal_has_its_own_number(tmp_path: Path) -> None:
    rows = [verl_row(gold="" if number in (1, 199) else None) for number in range(200)]
    results = read(tmp_path, *rows)
    assert [result.row for result in results if isinstance(result, ReleasedRow)] == [n for n in range(200) if n not in (1, 199)]
    assert [result.place for result in results if isinstance(result, Refused)] == ["row 1", "row 199"]


def test_text_that_is_no_utf8_costs_its_row_only(tmp_path: Path) -> None:
    rows = [verl_row(), verl_row(), verl_row()]
    table = pa.Table.from_pylist([without(row, "prompt") for row in rows])
    broken = pa.array([b"Go.", b"G\xff.", b"Go."]).view(pa.string())
    pq.write_table(table.append_column("question", broken), tmp_path / "train.parquet")
    good, bad, after = read_rows(tmp_path / "train.parquet")
    assert isinstance(good, ReleasedRow) and isinstance(after, ReleasedRow) and good.question == "Go."
    assert isinstance(bad, Refused) and (bad.place, bad.reason) == ("row 1", "its text is no UTF-8")


def test_a_tool_that_the_gold_calls_do_not_need_may_fail_alone(tmp_path: Path) -> None:
    row = only(tmp_path, verl_row(json.dumps([*TOOLS, function("broken", {"type": "dict"})])))
    assert len(row.tools) == 2 and [(note.place, note.name) for note in row.notes] == [("row 0, tool 2", "broken")]


def test_the_tools_of_all_rows_are_a_union_in_which_names_are_unique(tmp_path: Path) -> None:
    other = function(BOOK, description="Another one.")
    broken = function("broken", {"type": "dict"})
    path = written(
        tmp_path / "train.parquet",
        verl_row(),
        verl_row(json.dumps([*TOOLS, broken])),
        verl_row(json.dumps([function(SEARCH), other]), json.dumps([BOOK])),
        verl_row(gold=""),
        verl_row(json.dumps([other, broken]), "[]"),
    )
    imported = load_source(str(path))
    assert imported == load_released(path)
    assert [(tool.name, tool.original, tool.description) for tool in imported.tools] == [
        ("flights_Suche_fur_Lodz", SEARCH, ""),
        ("book_hotel", BOOK, ""),
        ("book_hotel_2", BOOK, "Another one."),
    ]
    assert [(note.place, note.name) for note in imported.notes] == [("row 2", BOOK)]
    assert "another definition than in row 0; named book_hotel_2" in imported.notes[0].reason
    assert [(refused.place, refused.name) for refused in imported.refused] == [("row 1, tool 2", "broken"), ("row 3", "")]


def test_a_file_that_holds_nothing_of_the_kind_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match=r"bad\.parquet cannot be read as Parquet"):
        load_released(tmp_path / "bad.parquet")
    with pytest.raises(DataError, match=r"no column prompt or extra_info.*text, label"):
        load_released(written(tmp_path / "other.parquet", {"text": "x", "label": 1}))
    with pytest.raises(DataError, match=r"none of its rows can be used; row 0 \(\): it has no gold calls"):
        load_released(written(tmp_path / "none.parquet", verl_row(gold="")))
    empty = pa.Table.from_pylist([verl_row()]).slice(0, 0)
    pq.write_table(empty, tmp_path / "empty.parquet")
    with pytest.raises(DataError, match="no rows"):
        load_released(tmp_path / "empty.parquet")
    with pytest.raises(DataError, match="missing"):
        load_released(tmp_path / "missing.parquet")


NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20).filter(
    lambda name: name == name.strip() and "," not in name and not name.startswith(("[", "{"))
)
ARGUMENTS = st.dictionaries(
    st.text(max_size=4), st.none() | st.integers() | st.text(max_size=5) | st.lists(st.booleans(), max_size=2), max_size=3
)


@settings(max_examples=40)
@given(st.lists(st.lists(st.tuples(NAMES, ARGUMENTS), min_size=1, max_size=3), max_size=3))
def test_any_names_and_arguments_come_through_as_they_are(
    tmp_path_factory: Any, plan: list[list[tuple[str, dict[str, Any]]]]
) -> None:
    called = dict.fromkeys(name for step in plan for name, _ in step) or {"spare": None}
    gold = json.dumps([[{"name": name, "arguments": arguments} for name, arguments in step] for step in plan])
    row = only(tmp_path_factory.mktemp("rows"), verl_row(json.dumps([function(name) for name in called]), gold))
    originals = {tool.name: tool.original or tool.name for tool in row.tools}
    assert [[(originals[call.name], call.arguments) for call in step] for step in row.gold] == plan
