"""Parquet contracts: what is written comes back, the same bytes each time; what breaks a contract is refused and named."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from samples import OTHER_TOOL, STATE, TOOL

from slca import tables
from slca.errors import DataError
from slca.records import (
    Attempt,
    Call,
    CallError,
    FinishReason,
    Reward,
    Rollout,
    Sampling,
    Segment,
    Step,
    Task,
    TaskKind,
    Trace,
)
from slca.sgls.tool import load_tools

TOOLS = load_tools([{**TOOL, "description": "Weather in 東京 or São Paulo."}, {**OTHER_TOOL, "held_out": True}], "test")
TASK = Task(
    task_id="t-東京",
    kind=TaskKind.CHAIN,
    question="How is the weather in São Paulo?",
    tools=(TOOL, OTHER_TOOL),
    gold=((Call("get_weather", {"city": "São Paulo"}), Call("noop", {})), (Call("get_weather", {"city": "東京", "days": 2}),)),
    facts=("rain", "雨"),
    reply="It rains in São Paulo.",
    state=STATE,
    end_state="digest",
)
ABSTAIN = replace(TASK, task_id="t-2", kind=TaskKind.ABSTAIN, gold=(), facts=())
ROLLOUT = Rollout(
    rollout_id="t-東京/0",
    task_id="t-東京",
    member=0,
    policy_version="v1",
    prompt_ids=(5, 6, 7),
    completion_ids=(1, 2, 3, 4),
    labels=(Segment.TOOL, Segment.TOOL, Segment.ENV, Segment.SUMMARY),
    logprobs=(-0.5, -1.25, 0.0, -2.0),  # exact in float32
    call_of=(0, 1, -1, -1),
    steps=(
        Step(
            '<tool_call>{"name": "get_weather", "arguments": {"city": "São Paulo"}}</tool_call>',
            (
                Attempt("get_weather", {"city": "São Paulo"}, None, {"sky": "雨"}),
                Attempt(None, None, CallError.MALFORMED, {"error": {"type": "malformed_call", "message": "x"}}),
                Attempt("noop", "{}", CallError.INVALID_ARGUMENTS, [1, 2.5, None, True]),
            ),
        ),
        Step("It rains in São Paulo, and 東京 too."),
    ),
    finish_reason=FinishReason.STOP,
    end_state="digest",
    faults=2,
    simulator_failure=True,
    sampling=Sampling(temperature=0.5, top_p=0.9, top_k=3, seed=2**62 + 1),
)
CUT = replace(
    ROLLOUT, rollout_id="t-2/1", member=1, completion_ids=(), labels=(), logprobs=(), call_of=(), steps=(),
    finish_reason=FinishReason.CONTEXT,
)  # fmt: skip
REWARD = Reward(
    rollout_id="r-東京",
    task_id="t",
    member=0,
    kind=TaskKind.SINGLE,
    tool_score=0.75,
    summary_score=0.0,
    masked="",
    needs_call=True,
    opened_call=True,
    has_reply=False,
    format=0.1,
    name=0.2,
    key=0.3,
    value=0.4,
    parallel=0.5,
    process=0.6,
    outcome=0.0,
    success=False,
    call_steps=(0, 0, 1),
    call_scores=(1 / 3, 1.0, 0.0),
    correct=1,
    completeness=0.5,
    errors=1,
    malformed=0,
    calls=3,
    redundancy=1 / 3,
    repeats=1,
    tool_turns=2,
    sampled_tokens=17,
    finish_reason=FinishReason.TURN_LIMIT,
)
MASKED = replace(REWARD, rollout_id="r-2", tool_score=None, summary_score=None, masked="simulator_failure")

Write = Callable[[Path], None]


def write_credits(path: Path) -> None:
    tables.write_credits(path, "slca", ["a", "東京"], [[0.5, -1.0], []])


WRITERS: dict[str, Write] = {
    "tools": lambda path: tables.write_tools(path, TOOLS),
    "tasks": lambda path: tables.write_tasks(path, [TASK, ABSTAIN]),
    "rollouts": lambda path: tables.write_rollouts(path, [ROLLOUT, CUT]),
    "rewards": lambda path: tables.write_rewards(path, [REWARD, MASKED]),
    "credits": write_credits,
}
READERS: dict[str, Callable[[Path], Any]] = {
    "tools": lambda path: list(tables.read_tools(path)),
    "tasks": tables.read_tasks,
    "rollouts": lambda path: list(tables.read_rollouts(path)),
    "rewards": tables.read_rewards,
    "credits": tables.read_credits,
}
STAGES = {"tools": "schemas", "tasks": "tasks", "rollouts": "rollouts", "rewards": "rewards", "credits": "train"}
RECORDS: dict[str, Any] = {
    "tools": list(TOOLS),
    "tasks": [TASK, ABSTAIN],
    "rollouts": [ROLLOUT, CUT],
    "rewards": [REWARD, MASKED],
    "credits": {"a": [0.5, -1.0], "東京": []},
}


@pytest.mark.parametrize("kind", WRITERS)
def test_what_is_written_comes_back(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "table.parquet"
    WRITERS[kind](path)
    assert READERS[kind](path) == RECORDS[kind]


def test_records_come_back_with_their_types(tmp_path: Path) -> None:
    """Equality alone would let a plain string pass for an enum's member."""
    tables.write_rollouts(tmp_path / "r.parquet", [ROLLOUT])
    (rollout,) = tables.read_rollouts(tmp_path / "r.parquet")
    assert isinstance(rollout.finish_reason, FinishReason)
    assert isinstance(rollout.steps[0].attempts[1].error, CallError)
    tables.write_rewards(tmp_path / "w.parquet", [REWARD])
    (reward,) = tables.read_rewards(tmp_path / "w.parquet")
    assert isinstance(reward.kind, TaskKind) and isinstance(reward.finish_reason, FinishReason)


def test_text_is_stored_without_escapes(tmp_path: Path) -> None:
    tables.write_tasks(tmp_path / "t.parquet", [TASK])
    (row,) = pq.read_table(tmp_path / "t.parquet").to_pylist()
    assert "東京" in row["gold"] and "\\u" not in row["gold"] + row["tools"] + row["state"]


@pytest.mark.parametrize("kind", WRITERS)
def test_two_writes_are_byte_identical(kind: str, tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        WRITERS[kind](tmp_path / name)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


@pytest.mark.parametrize("kind", WRITERS)
def test_an_empty_table_is_a_table(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.parquet"
    write: dict[str, Write] = {
        "tools": lambda path: tables.write_tools(path, []),
        "tasks": lambda path: tables.write_tasks(path, []),
        "rollouts": lambda path: tables.write_rollouts(path, []),
        "rewards": lambda path: tables.write_rewards(path, []),
        "credits": lambda path: tables.write_credits(path, "slca", [], []),
    }
    write[kind](path)
    assert not READERS[kind](path)
    other = "tasks" if kind != "tasks" else "rollouts"
    with pytest.raises(DataError, match=f"no {other} table"):
        READERS[other](path)


SHORT = replace(ROLLOUT, rollout_id="bad", labels=ROLLOUT.labels[:-1])  # field case 2: a mask shorter than the ids
ROLLOUT_FAULTS = [
    pytest.param([ROLLOUT, SHORT], ["completion_ids, labels, logprobs, call_of differ in length", "bad"], id="short labels"),
    pytest.param(
        [ROLLOUT, replace(ROLLOUT, rollout_id="bad", logprobs=(-1.0,) * 5)], ["differ in length", "bad"], id="long log-probs"
    ),
    pytest.param([ROLLOUT, replace(ROLLOUT, rollout_id="bad", labels=(1, 1, 0, 3))], ["labels", "3", "bad"], id="unknown label"),
    pytest.param(
        [ROLLOUT, replace(ROLLOUT, rollout_id="bad", logprobs=(0.0, math.nan, 0.0, 0.0))], ["logprobs", "bad"], id="NaN log-prob"
    ),
    pytest.param(
        [ROLLOUT, replace(ROLLOUT, rollout_id="bad", logprobs=(0.0, -math.inf, 0.0, 0.0))], ["logprobs", "bad"], id="infinite"
    ),
    pytest.param([ROLLOUT, CUT, ROLLOUT], ["rollout_id", "t-東京/0"], id="duplicated id"),
    pytest.param(
        [ROLLOUT, replace(ROLLOUT, rollout_id="bad", logprobs=(0.0, None, 0.0, 0.0))], ["logprobs", "bad"], id="null log-prob"
    ),
    pytest.param([ROLLOUT, replace(ROLLOUT, rollout_id="bad", prompt_ids=(1, None))], ["prompt_ids", "bad"], id="null token"),
    pytest.param([replace(ROLLOUT, task_id=None)], ["task_id", "1 missing"], id="null text"),
    pytest.param([ROLLOUT, replace(ROLLOUT, rollout_id="bad", member=-1)], ["member", "-1", "bad"], id="negative member"),
    pytest.param(
        [ROLLOUT, replace(ROLLOUT, rollout_id="bad", finish_reason="tired")],
        ["finish_reason", "tired", "bad"],
        id="unknown finish",
    ),
    pytest.param([replace(ROLLOUT, prompt_ids=(2**40,))], ["rollouts contract", "1099511627776"], id="too large for a token"),
]
REWARD_FAULTS = [
    pytest.param([REWARD, replace(REWARD, rollout_id="bad", tool_score=None)], ["score is missing", "bad"], id="no reason"),
    pytest.param([REWARD, replace(REWARD, rollout_id="bad", masked="judge")], ["score", "bad"], id="reason beside scores"),
    pytest.param([REWARD, replace(REWARD, rollout_id="bad", format=1.5)], ["format", "1.5", "bad"], id="above 1"),
    pytest.param([REWARD, replace(REWARD, rollout_id="bad", redundancy=-0.1)], ["redundancy", "-0.1", "bad"], id="below 0"),
    pytest.param([REWARD, replace(REWARD, rollout_id="bad", value=math.nan)], ["value", "nan", "bad"], id="NaN component"),
    pytest.param([REWARD, replace(REWARD, rollout_id="bad", summary_score=math.nan)], ["score", "bad"], id="NaN score"),
    pytest.param([REWARD, replace(REWARD, rollout_id="bad", kind="poem")], ["kind", "poem", "bad"], id="unknown kind"),
    pytest.param([REWARD, REWARD], ["rollout_id", "r-東京"], id="duplicated id"),
]
TASK_FAULTS = [
    pytest.param([TASK, replace(TASK, task_id="bad", kind="poem")], ["kind", "poem", "bad"], id="unknown kind"),
    pytest.param([TASK, replace(TASK, task_id="bad", facts=("x", None))], ["facts", "bad"], id="null fact"),
    pytest.param([TASK, TASK], ["task_id", "t-東京"], id="duplicated id"),
]


def refuses(write: Write, parts: list[str], path: Path) -> None:
    """The sentence names file and fault; nothing is left behind, and what was there before is still there."""
    for before in (None, b"an older file"):
        if before is not None:
            path.write_bytes(before)
        with pytest.raises(DataError) as raised:
            write(path)
        sentence = str(raised.value)
        assert all(part in sentence for part in [path.name, *parts]), sentence
        assert "\n" not in sentence
        assert [file.name for file in path.parent.iterdir()] == ([] if before is None else [path.name])
        assert before is None or path.read_bytes() == before


@pytest.mark.parametrize(("rollouts", "parts"), ROLLOUT_FAULTS)
def test_a_rollout_that_breaks_the_contract_is_refused(rollouts: list[Rollout], parts: list[str], tmp_path: Path) -> None:
    refuses(lambda path: tables.write_rollouts(path, rollouts), parts, tmp_path / "table.parquet")


@pytest.mark.parametrize(("rewards", "parts"), REWARD_FAULTS)
def test_a_reward_that_breaks_the_contract_is_refused(rewards: list[Reward], parts: list[str], tmp_path: Path) -> None:
    refuses(lambda path: tables.write_rewards(path, rewards), parts, tmp_path / "table.parquet")


@pytest.mark.parametrize(("tasks", "parts"), TASK_FAULTS)
def test_a_task_that_breaks_the_contract_is_refused(tasks: list[Task], parts: list[str], tmp_path: Path) -> None:
    refuses(lambda path: tables.write_tasks(path, tasks), parts, tmp_path / "table.parquet")


@pytest.mark.parametrize(
    ("ids", "rows", "parts"),
    [
        (["a", "bad"], [[0.0], [1.0, math.inf]], ["advantages", "bad"]),
        (["a", "bad"], [[0.0], [None]], ["advantages", "bad"]),
        (["a", "a"], [[0.0], [1.0]], ["rollout_id", "a"]),
    ],
)
def test_credits_that_break_the_contract_are_refused(ids: list[str], rows: Any, parts: list[str], tmp_path: Path) -> None:
    refuses(lambda path: tables.write_credits(path, "slca", ids, rows), parts, tmp_path / "table.parquet")


def test_credits_need_one_row_for_each_id(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="zip"):
        tables.write_credits(tmp_path / "c.parquet", "slca", ["a", "b"], [[0.0]])


def test_only_five_ids_are_listed_of_many(tmp_path: Path) -> None:
    many = [replace(SHORT, rollout_id=f"r{i}") for i in range(30)]
    with pytest.raises(DataError, match=r"in 30 rows \(r0, r1, r2, r3, r4\)"):
        tables.write_rollouts(tmp_path / "r.parquet", many)


def test_duplicated_tool_names_are_refused(tmp_path: Path) -> None:
    """Field case 13."""
    refuses(lambda path: tables.write_tools(path, [*TOOLS, TOOLS[0]]), ["name", "get_weather"], tmp_path / "table.parquet")


@pytest.mark.parametrize("kind", READERS)
def test_a_missing_file_names_the_stage_that_writes_it(kind: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"gone\.parquet does not exist; run the stage '{STAGES[kind]}'"):
        READERS[kind](tmp_path / "gone.parquet")


@pytest.mark.parametrize("kind", READERS)
def test_a_damaged_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    WRITERS[kind](path)
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], whole[:-1], b"", b"not a table"):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=rf"table\.parquet cannot be read as Parquet .*'{STAGES[kind]}' again") as raised:
            READERS[kind](path)
        assert "\n" not in str(raised.value)


def test_a_file_of_another_contract_is_refused(tmp_path: Path) -> None:
    WRITERS["tasks"](tmp_path / "tasks.parquet")
    with pytest.raises(DataError, match=r"tasks\.parquet is no rewards table \(columns that differ: .*"):
        tables.read_rewards(tmp_path / "tasks.parquet")


@pytest.mark.parametrize(
    ("metadata", "found"), [({b"slca.table_version": b"0"}, "table version 0, not 2"), (None, "no table version")]
)
def test_another_table_version_is_refused(metadata: dict[bytes, bytes] | None, found: str, tmp_path: Path) -> None:
    path = tmp_path / "rewards.parquet"
    WRITERS["rewards"](path)
    pq.write_table(pq.read_table(path).replace_schema_metadata(metadata), path)
    with pytest.raises(DataError, match=rf"rewards\.parquet has {found}.*'rewards' again"):
        tables.read_rewards(path)


def test_a_contract_is_checked_on_reading_too(tmp_path: Path) -> None:
    path = tmp_path / "rewards.parquet"
    WRITERS["rewards"](path)
    table = pq.read_table(path)
    column = table.schema.get_field_index("process")
    pq.write_table(table.set_column(column, table.schema.field(column), pa.array([0.5, 7.0])), path)
    with pytest.raises(DataError, match=r"rewards\.parquet breaks .* process .*7.* \(r-2\)"):
        tables.read_rewards(path)


def test_many_row_groups_are_read_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.parquet"
    written = [replace(ROLLOUT, rollout_id=f"r{i}", completion_ids=(i, 2, 3, 4)) for i in range(2500)]
    tables.write_rollouts(path, written)
    assert pq.ParquetFile(path).metadata.num_row_groups > 1
    stream = tables.read_rollouts(path)
    assert next(stream) == written[0]
    assert [rollout.completion_ids[0] for rollout in stream] == list(range(1, 2500))


def test_a_folder_of_parts_is_read_in_name_order(tmp_path: Path) -> None:
    for part in (10, 2, 0):
        tables.write_rollouts(tmp_path / f"part-{part:05d}.parquet", [replace(ROLLOUT, rollout_id=f"r{part}")])
    (tmp_path / ".part-00003.parquet.tmp-1").write_bytes(b"left by a killed process")
    assert [rollout.rollout_id for rollout in tables.read_rollouts(tmp_path)] == ["r0", "r2", "r10"]


def test_a_folder_without_parts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no part-\*\.parquet; run the stage 'rollouts'"):
        list(tables.read_rollouts(tmp_path))


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    tables.write_rollouts(tmp_path / "part-00000.parquet", [ROLLOUT])
    (tmp_path / "part-00001.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"part-00001\.parquet"):
        list(tables.read_rollouts(tmp_path))


TRACE = Trace("tau2", "mock", "create_task_1", 0, 1.0, "", "user_stop", ({"role": "user", "content": "雨"},), 12)


def test_traces_come_back(tmp_path: Path) -> None:
    failed = replace(TRACE, trial=1, score=None, error="the user simulator did not answer")
    tables.write_traces(tmp_path / "traces.parquet", [TRACE, failed])
    assert tables.read_traces(tmp_path / "traces.parquet") == [TRACE, failed]


@pytest.mark.parametrize(
    ("traces", "parts"),
    [
        ([TRACE, TRACE], ["trace_id", "tau2/mock/create_task_1/0"]),
        ([replace(TRACE, score=None)], ["a score is missing without a reason", "tau2/mock/create_task_1/0"]),
        ([replace(TRACE, score=1.5)], ["score", "1.5"]),
    ],
)
def test_a_trace_that_breaks_the_contract_is_refused(traces: list[Trace], parts: list[str], tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        tables.write_traces(tmp_path / "traces.parquet", traces)
    assert all(part in str(refused.value) for part in parts)
