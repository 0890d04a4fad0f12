"""Released conversations as demonstrations: every form that the layout allows, and the report of what is refused."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chat_families import stand_in

from slca import params as p
from slca.chat import ChatFormat
from slca.errors import DataError
from slca.files import file_digest, read_json
from slca.policy import warmstart
from slca.policy.demonstrations import IGNORED, Demonstration
from slca.policy.released import Report, released
from slca.records import Task
from slca.tables import write_tasks

SEARCH, BOOK = "flights/Suche für Łódź", "book hotel"
"""Slash, accents and a space: names that no call may have as they are."""
SAFE = "flights_Suche_fur_Lodz"


def function(name: str, **schema: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]} | schema
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


TOOLS = [function(SEARCH), function(BOOK)]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}}


def said(role: str, content: str = "", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


ASK = said("user", "Fly me to São Paulo.")
CALL = said("assistant", tool_calls=[call(SEARCH, city="São Paulo")])
RESULT = said("tool", '{"flight":"FL1"}')
REPLY = said("assistant", "You fly with FL1.")
WHOLE = [ASK, CALL, RESULT, REPLY]
BLOCK = json.dumps({"name": SEARCH, "arguments": {"city": "São Paulo"}}, ensure_ascii=False)


def row(messages: list[dict[str, Any]], tools: Any = None, **columns: Any) -> dict[str, Any]:
    """JSON text, so that rows of all forms fit one table."""
    return {
        "messages": json.dumps(messages, ensure_ascii=False),
        "tools": json.dumps(TOOLS if tools is None else tools, ensure_ascii=False),
        **columns,
    }


def read(folder: Path, chat: ChatFormat, *rows: dict[str, Any], **settings: Any) -> tuple[list[Demonstration], Report]:
    path = folder / "sft.parquet"
    columns = dict.fromkeys(name for row in rows for name in row)
    pq.write_table(pa.Table.from_pylist([{name: row.get(name) for name in columns} for row in rows]), path)
    return released(path, p.Warmstart(data="released", released_path=str(path), **settings), chat)


@pytest.fixture
def chatml() -> ChatFormat:
    return stand_in("chatml")


def learned(chat: ChatFormat, example: Demonstration) -> str:
    return chat.decode([i for i, label in zip(example.ids, example.labels, strict=True) if label != IGNORED])


TAUGHT = f'<tool_call>{{"name": "{SAFE}", "arguments": {{"city": "São Paulo"}}}}</tool_call><|im_end|>You fly with FL1.<|im_end|>'


def test_a_conversation_is_what_a_policy_would_meet_and_only_its_turns_are_learned(chatml: ChatFormat, tmp_path: Path) -> None:
    ((example,), report) = read(tmp_path, chatml, row(WHOLE))
    assert learned(chatml, example) == TAUGHT
    assert all(label in (IGNORED, own) for own, label in zip(example.ids, example.labels, strict=True))
    text = chatml.decode(list(example.ids))
    assert f'"name": "{SAFE}"' in text.partition("Fly me")[0] and '<tool_response>{"flight":"FL1"}</tool_response>' in text
    assert (report.rows, report.examples, report.refused) == (1, 1, ())


GOLD = {"reward_model": {"style": "rule", "ground_truth": json.dumps([[{"name": SEARCH, "arguments": {"city": "São Paulo"}}]])}}


@pytest.mark.parametrize(
    "given",
    [
        row(WHOLE) | GOLD,
        row(WHOLE, extra_info={"target_tools": SEARCH}),  # names only
        {"messages": WHOLE, "tools": TOOLS},  # structures, whose absent keys Parquet fills with nulls
        row([ASK, said("assistant", f"<tool_call>{BLOCK}</tool_call>"), RESULT, REPLY]),
        row([ASK, said("assistant", "I look.", function_call=json.loads(BLOCK)), said("function", RESULT["content"]), REPLY]),
        row([ASK, said("tool_call", BLOCK), said("tool_response", RESULT["content"]), REPLY]),
        row([said("system", f"<tools>{json.dumps(TOOLS)}</tools>"), *WHOLE], tools=[]),
        {
            "conversations": [
                {"from": "human", "value": ASK["content"]},
                {"from": "function_call", "value": BLOCK},
                {"from": "observation", "value": RESULT["content"]},
                {"from": "gpt", "value": REPLY["content"]},
            ],
            "extra_info": {"tools": json.dumps(TOOLS)},
        },
        row(
            WHOLE,
            [{**TOOLS[0], "function": {**TOOLS[0]["function"], "parameters": {"properties": {"city": {"type": "string"}}}}}],
        ),
    ],
)  # the last: a schema without `required` and `type`
def test_the_same_conversation_in_every_form(given: dict[str, Any], chatml: ChatFormat, tmp_path: Path) -> None:
    ((example,), report) = read(tmp_path, chatml, given)
    assert learned(chatml, example) == TAUGHT and not report.refused
    assert "<tools>" not in chatml.decode(list(example.ids))


def test_parallel_calls_get_their_results_by_id_or_in_order(chatml: ChatFormat, tmp_path: Path) -> None:
    calls = [{**call(SEARCH, city="x"), "id": "a"}, {**call(BOOK, city="y"), "id": "b"}]
    results = [said("tool", "of b", tool_call_id="b"), said("tool", "of a", tool_call_id="a")]
    by_id = [ASK, said("assistant", tool_calls=calls), *results, REPLY]
    apart = [ASK, *(said("assistant", tool_calls=[c]) for c in calls), said("tool", "of a"), said("tool", "of b"), REPLY]
    (first, second), _ = read(tmp_path, chatml, row(by_id), row(apart))
    text = chatml.decode(list(first.ids))
    assert first == second and "<tool_response>of a</tool_response>\n<tool_response>of b</tool_response>" in text


def test_nothing_to_call_is_right_where_the_gold_is_empty_and_each_question_is_an_example(
    chatml: ChatFormat, tmp_path: Path
) -> None:
    sorry = said("assistant", "I cannot do that.")
    talk = [said("system", "Be brief."), ASK, sorry, *WHOLE]
    examples, _ = read(tmp_path, chatml, row([ASK, sorry], reward_model={"ground_truth": "[]"}), row(talk))
    assert [learned(chatml, example) for example in examples] == ["I cannot do that.<|im_end|>"] * 2 + [TAUGHT]
    text = chatml.decode(list(examples[2].ids))
    assert text.count("I cannot do that.") == 1 and "Be brief." in text


def test_a_conversation_may_end_with_its_calls(chatml: ChatFormat, tmp_path: Path) -> None:
    ((example,), _) = read(tmp_path, chatml, row([ASK, CALL]))
    assert learned(chatml, example) == TAUGHT.partition("You fly")[0]


REFUSED = {
    "no assistant turn": row([ASK]),
    "follows no user message": row([REPLY]),
    "no conversation": row([]),
    "the role 'narrator'": row([*WHOLE, said("narrator", "x")]),
    "no list of tools": row(WHOLE, tools=[]),
    "a tool that it does not list": row([ASK, said("assistant", tool_calls=[call("walk")]), RESULT]),
    "the arguments of a call are no object": row([ASK, said("assistant", tool_calls=[{"name": BOOK, "arguments": [1]}])]),
    "a call has no name": row([ASK, said("assistant", tool_calls=[{"arguments": {}}])]),
    "1 calls but 2 results": row([ASK, CALL, RESULT, RESULT, REPLY]),
    "1 calls but 0 results": row([ASK, CALL, ASK, REPLY]),
    "a result follows no call": row([ASK, RESULT, REPLY]),
    "says nothing and calls nothing": row([ASK, said("assistant", " ")]),
    "block cannot be read": row([ASK, said("assistant", '<tool_call>{"name"')]),
    "messages cannot be read as JSON": {"messages": "[{", "tools": json.dumps(TOOLS)},
    "has gold calls, but its conversation makes none": row([ASK, REPLY], extra_info={"target_tools": SEARCH}),
    "empty list, but its conversation makes calls": row(WHOLE, reward_model={"ground_truth": "[]"}),
}


def test_refused_rows_are_named_with_number_and_reason_in_one_report(chatml: ChatFormat, tmp_path: Path) -> None:
    examples, report = read(tmp_path, chatml, row(WHOLE), *REFUSED.values(), row(WHOLE))
    assert len(examples) == 2 and report.rows == len(REFUSED) + 2
    assert [refused.place for refused in report.refused] == [f"row {number + 1}" for number in range(len(REFUSED))]
    for reason, refused in zip(REFUSED, report.refused, strict=True):
        assert reason in refused.reason
    sentence = str(report)
    assert sentence.startswith("sft.parquet: 2 of 18 rows give 2 conversations; refused: row 1 (): it has no assistant turn")
    assert sentence.endswith("and 11 more") and "\n" not in sentence


def test_a_file_of_which_nothing_can_be_used_is_an_error(chatml: ChatFormat, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none of its 2 rows can be used; row 0 \(\): it has no assistant turn"):
        read(tmp_path, chatml, row([ASK]), row([ASK]))
    with pytest.raises(DataError, match="has no column messages or conversations"):
        read(tmp_path, chatml, {"text": "x"})
    with pytest.raises(DataError, match=r"sft\.parquet has the SHA-256 .* as warmstart\.released_sha256 says"):
        read(tmp_path, chatml, row(WHOLE), released_sha256="0" * 64)
    with pytest.raises(DataError, match="there is no file"):
        released(tmp_path / "none.parquet", p.Warmstart(), chatml)


def test_the_stage_imitates_the_rows_and_leaves_the_report_in_the_model_folder(tmp_path: Path, task: Task) -> None:
    write_tasks(tmp_path / "data" / "tasks" / "train.parquet", [task])
    path = tmp_path / "sft.parquet"
    pq.write_table(pa.Table.from_pylist([row(WHOLE), row([ASK]), *[row(WHOLE)] * 20]), path)
    settings = p.Warmstart(
        data="released", released_path=str(path), released_sha256=file_digest(path), demonstrations=9, hidden_size=32, heads=2,
        threads=1,
    )  # fmt: skip
    warmstart.run(p.Params(warmstart=settings), tmp_path)
    report = read_json(tmp_path / "models" / "warmstart" / "released.json")
    assert (report["rows"], report["examples"]) == (10, 9)  # as many as are wanted, and no row more
    assert [entry["place"] for entry in report["refused"]] == ["row 1"]
