"""Every Parquet contract, and the only code that reads or writes tables.

A contract is an Arrow schema (types; nulls are refused by the writer where a column is not nullable) and a pandera
schema (values, alignment of the token columns), checked on writing and on reading. Files carry a schema version, appear by
rename, and hold no time stamps: the same records give the same bytes. JSON columns hold canonical JSON text, because argument
types vary from row to row.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any

import pandera.errors
import pandera.pyarrow as pap
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slca.errors import DataError
from slca.files import canonical_json, file_digest, read_json, replacing, write_json
from slca.records import (
    FinishReason,
    Reward,
    Rollout,
    Sampling,
    Segment,
    Step,
    Task,
    TaskKind,
    Trace,
    plan_from_json,
    plan_to_json,
)
from slca.sgls.tool import Tool, load_tool

VERSION = "2"
"""Raise it when a column changes; readers refuse other versions and say which stage to run again."""

_VERSION_KEY = b"slca.table_version"
_ROW_GROUP = 1024
_PART, _MANIFEST = "part-*.parquet", "manifest.json"
_TOKENS = pa.list_(pa.field("element", pa.int32(), nullable=False))
_LABELS = pa.list_(pa.field("element", pa.int8(), nullable=False))
_CALLS = pa.list_(pa.field("element", pa.int16(), nullable=False))
_FLOATS = pa.list_(pa.field("element", pa.float32(), nullable=False))
_DOUBLES = pa.list_(pa.field("element", pa.float64(), nullable=False))
_STRINGS = pa.list_(pa.field("element", pa.string(), nullable=False))


@dataclass(frozen=True)
class Contract:
    """One kind of table: its Arrow schema, the column that names its rows, and checks that return a fault sentence or None."""

    name: str
    stage: str
    schema: pa.Schema
    values: pap.DataFrameSchema
    key: str
    checks: tuple[Callable[[pa.Table], str | None], ...] = ()
    dictionary: tuple[str, ...] = ()

    def check(self, table: pa.Table, where: Path) -> pa.Table:
        """``table`` itself if it keeps the contract. Raises DataError that names file, columns, faults and rows."""
        again = f"Run the stage '{self.stage}' again."
        self.check_schema(table.schema, where)
        for field in self.schema:
            if not field.nullable and table[field.name].null_count:
                raise DataError(f"{where}: column {field.name} has {table[field.name].null_count} missing values. {again}")
        try:
            self.values.validate(table, lazy=True)
        except pandera.errors.SchemaErrors as error:
            faults = "; ".join(_breaches(error.failure_cases.to_pylist(), table, self.key))
            raise DataError(f"{where} breaks the {self.name} contract: {faults}. {again}") from None
        complete = [_complete(field.name, self.key) for field in self.schema if pa.types.is_list(field.type)]
        for check in (_unique(self.key), *complete, *self.checks):
            if fault := check(table):
                raise DataError(f"{where} breaks the {self.name} contract: {fault}. {again}")
        return table

    def check_schema(self, schema: pa.Schema, where: Path) -> None:
        """Raises DataError where names or types of columns differ from the contract's."""
        if schema.names != self.schema.names or schema.types != self.schema.types:
            wrong = sorted(set(schema) ^ set(self.schema), key=str)
            columns = ", ".join(str(field) for field in wrong[:4])
            again = f"Run the stage '{self.stage}' again."
            raise DataError(f"{where} is no {self.name} table (columns that differ: {columns}). {again}")


def _columns(schema: pa.Schema, **checks: Any) -> pap.DataFrameSchema:
    """A pandera schema with every column of the Arrow schema; ``checks`` maps a column to its pandera checks."""
    return pap.DataFrameSchema(
        {field.name: pap.Column(field.type, checks=checks.get(field.name), nullable=field.nullable) for field in schema},
        strict=True,
        coerce=False,
    )


def _offenders(table: pa.Table, bad: pa.Array, key: str, fault: str) -> str | None:
    """A sentence with the count and the first five ids of the rows where ``bad`` holds."""
    return _named(table[key].filter(bad).to_pylist(), fault)


def _named(ids: Sequence[Any], fault: str) -> str | None:
    return f"{fault} in {len(ids)} rows ({', '.join(str(value) for value in ids[:5])})" if ids else None


def _breaches(failures: Sequence[dict[str, Any]], table: pa.Table, key: str) -> Iterator[str]:
    """A sentence for each column and check in pandera's failure cases, which hold the values as text but no row numbers."""
    values: dict[tuple[str, str], list[str]] = {}
    for failure in failures:
        values.setdefault((failure["column"], failure["check"]), []).append(failure["failure_case"])
    for (column, check), given in values.items():
        bad = pc.is_in(table[column], value_set=pa.array(given).cast(table[column].type))
        shown = ", ".join(list(dict.fromkeys(given))[:5])
        yield _offenders(table, bad, key, f"{column} fails {check} (given: {shown})") or f"{column} fails {check}"


def _elements(
    column: str, key: str, bad: Callable[[pa.Array], pa.Array], fault: str, show: bool = False
) -> Callable[[pa.Table], str | None]:
    """Names the rows of which some element of a list column is bad. ``bad``: elements (n,) -> truth values (n,)."""

    def check(table: pa.Table) -> str | None:
        lists = table[column].combine_chunks()
        flat = pc.list_flatten(lists)
        found = bad(flat)
        rows = pc.unique(pc.list_parent_indices(lists).filter(found))
        given = f" (given: {', '.join(str(value) for value in pc.unique(flat.filter(found)).to_pylist()[:5])})" if show else ""
        return _named(table[key].take(rows).to_pylist(), f"{column}: {fault}{given}")

    return check


def _complete(column: str, key: str) -> Callable[[pa.Table], str | None]:
    return _elements(column, key, pc.is_null, "an element is missing")


def _unique(column: str) -> Callable[[pa.Table], str | None]:
    def check(table: pa.Table) -> str | None:
        counts = pc.value_counts(table[column].combine_chunks())
        doubled = [entry["values"] for entry in counts.filter(pc.greater(pc.struct_field(counts, "counts"), 1)).to_pylist()]
        return f"{column} occurs more than once ({', '.join(str(value) for value in doubled[:5])})" if doubled else None

    return check


def _aligned(*columns: str) -> Callable[[pa.Table], str | None]:
    def check(table: pa.Table) -> str | None:
        lengths = [pc.list_value_length(table[column]) for column in columns]
        bad = pc.not_equal(lengths[0], lengths[1])
        for other in lengths[2:]:
            bad = pc.or_(bad, pc.not_equal(lengths[0], other))
        return _offenders(table, bad, "rollout_id", f"{', '.join(columns)} differ in length")

    return check


def _unknown_labels(flat: pa.Array) -> pa.Array:
    return pc.invert(pc.is_in(flat, pa.array([int(segment) for segment in Segment], pa.int8())))


def _finite(column: str) -> Callable[[pa.Table], str | None]:
    return _elements(column, "rollout_id", lambda flat: pc.invert(pc.is_finite(flat)), "a value is not finite")


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _one_of(names: type[StrEnum]) -> pap.Check:
    return pap.Check.isin([str(name) for name in names])


_text, _flag, _count, _number = pa.string(), pa.bool_(), pa.int32(), pa.float64()

_tools_schema = pa.schema([_required(name, _text) for name in ("name", "domain", "source", "definition")])
TOOLS = Contract("tools", "schemas", _tools_schema, _columns(_tools_schema), "name", (), ("domain", "source"))

_tasks_schema = pa.schema(
    [
        *(_required(name, _text) for name in ("task_id", "kind", "question", "tools", "gold")),
        _required("facts", _STRINGS),
        *(_required(name, _text) for name in ("reply", "state", "end_state")),
    ]
)
TASKS = Contract(
    "tasks",
    "tasks",
    _tasks_schema,
    _columns(_tasks_schema, kind=_one_of(TaskKind)),
    "task_id",
    (),
    ("kind",),
)

_rollouts_schema = pa.schema(
    [
        *(_required(name, _text) for name in ("rollout_id", "task_id", "policy_version")),
        _required("member", _count),
        _required("prompt_ids", _TOKENS),
        _required("completion_ids", _TOKENS),
        _required("labels", _LABELS),
        _required("logprobs", _FLOATS),
        _required("call_of", _CALLS),
        *(_required(name, _text) for name in ("steps", "finish_reason", "end_state")),
        _required("faults", _count),
        _required("simulator_failure", _flag),
        _required("temperature", _number),
        _required("top_p", _number),
        _required("top_k", _count),
        _required("seed", pa.int64()),
    ]
)
ROLLOUTS = Contract(
    "rollouts",
    "rollouts",
    _rollouts_schema,
    _columns(
        _rollouts_schema,
        member=pap.Check.ge(0),
        finish_reason=_one_of(FinishReason),
        temperature=pap.Check.ge(0.0),
    ),
    "rollout_id",
    (
        _aligned("completion_ids", "labels", "logprobs", "call_of"),
        _elements("labels", "rollout_id", _unknown_labels, f"labels are {[int(segment) for segment in Segment]}", show=True),
        _finite("logprobs"),
    ),
    ("task_id", "policy_version", "finish_reason"),
)

_scores = ("format", "name", "key", "value", "parallel", "process", "outcome")
_rewards_schema = pa.schema(
    [
        *(_required(name, _text) for name in ("rollout_id", "task_id", "kind")),
        _required("member", _count),
        pa.field("tool_score", _number),
        pa.field("summary_score", _number),
        _required("masked", _text),
        *(_required(name, _flag) for name in ("needs_call", "opened_call", "has_reply")),
        *(_required(name, _number) for name in _scores),
        _required("success", _flag),
        _required("call_steps", _TOKENS),
        _required("call_scores", _DOUBLES),
        _required("correct", _count),
        _required("completeness", _number),
        *(_required(name, _count) for name in ("errors", "malformed", "calls")),
        _required("redundancy", _number),
        *(_required(name, _count) for name in ("repeats", "tool_turns", "sampled_tokens")),
        _required("finish_reason", _text),
    ]
)


def _masked_or_scored(table: pa.Table) -> str | None:
    masked = pc.not_equal(table["masked"], "")
    missing = pc.or_(pc.is_null(table["tool_score"]), pc.is_null(table["summary_score"]))
    return _offenders(table, pc.xor(masked, missing), "rollout_id", "a score is missing without a reason, or present beside one")


def _scores_finite(table: pa.Table) -> str | None:
    bad = pc.invert(pc.and_(*(pc.fill_null(pc.is_finite(table[name]), True) for name in ("tool_score", "summary_score"))))
    return _offenders(table, bad, "rollout_id", "a score is not finite")


REWARDS = Contract(
    "rewards",
    "rewards",
    _rewards_schema,
    _columns(
        _rewards_schema,
        kind=_one_of(TaskKind),
        finish_reason=_one_of(FinishReason),
        **{name: pap.Check.in_range(0.0, 1.0) for name in (*_scores, "redundancy", "completeness")},
    ),
    "rollout_id",
    (_masked_or_scored, _scores_finite, _aligned("call_steps", "call_scores"), _finite("call_scores")),
    ("task_id", "kind", "finish_reason"),
)

_credits_schema = pa.schema([_required("rollout_id", _text), _required("method", _text), _required("advantages", _FLOATS)])
CREDITS = Contract(
    "credits", "train", _credits_schema, _columns(_credits_schema), "rollout_id", (_finite("advantages"),), ("method",)
)

_traces_schema = pa.schema(
    [
        *(_required(name, _text) for name in ("trace_id", "benchmark", "category", "item_id")),
        _required("trial", _count),
        pa.field("score", _number),
        *(_required(name, _text) for name in ("error", "finish", "turns")),
        _required("sampled_tokens", _count),
    ]
)


def _scored_or_explained(table: pa.Table) -> str | None:
    unexplained = pc.and_(pc.is_null(table["score"]), pc.equal(table["error"], ""))
    return _offenders(table, unexplained, "trace_id", "a score is missing without a reason")


TRACES = Contract(
    "traces",
    "evaluate",
    _traces_schema,
    _columns(_traces_schema, trial=pap.Check.ge(0), score=pap.Check.in_range(0.0, 1.0)),
    "trace_id",
    (_scored_or_explained,),
    ("benchmark", "category", "finish"),
)


def write_tools(path: Path, tools: Sequence[Tool]) -> None:
    rows = [{"name": t.name, "domain": t.domain, "source": t.source, "definition": canonical_json(t.to_json())} for t in tools]
    _write(path, TOOLS, rows)


def read_tools(path: Path) -> tuple[Tool, ...]:
    return tuple(load_tool(json.loads(row["definition"]), str(path)) for row in _rows(path, TOOLS))


def write_tasks(path: Path, tasks: Sequence[Task]) -> None:
    _write(path, TASKS, [_task_row(task) for task in tasks])


def read_tasks(path: Path) -> list[Task]:
    return [_task(row) for row in _rows(path, TASKS)]


def write_rollouts(path: Path, rollouts: Iterable[Rollout]) -> None:
    """Write one file, streamed. Raises DataError with the rollout ids whose token columns differ in length."""
    _write(path, ROLLOUTS, (_rollout_row(rollout) for rollout in rollouts))


def read_rollouts(path: Path) -> Iterator[Rollout]:
    """Rollouts of a file, or of all part-*.parquet in a folder in name order, streamed.

    Raises DataError where the folder has a manifest that names other files than are there.
    """
    for file in _parts(path) if path.is_dir() else [path]:
        for row in _rows(file, ROLLOUTS):
            yield _rollout(row)


def write_manifest(folder: Path) -> None:
    """Write manifest.json over all part-*.parquet of a folder: how many rollouts each holds, and its digest. Written last."""
    files = sorted(folder.glob(_PART))
    shards = [{"file": file.name, "rollouts": pq.read_metadata(file).num_rows, "digest": file_digest(file)} for file in files]
    total = sum(int(str(shard["rollouts"])) for shard in shards)
    write_json(folder / _MANIFEST, {"table": ROLLOUTS.name, "version": VERSION, "rollouts": total, "shards": shards})


def _parts(folder: Path) -> list[Path]:
    """The part files of a folder, which its manifest, where there is one, must name."""
    files = sorted(folder.glob(_PART))
    again = "run the stage 'rollouts'"
    if not files:
        raise DataError(f"{folder} holds no {_PART}; {again}.")
    manifest = folder / _MANIFEST
    if manifest.exists():
        named = [shard["file"] for shard in read_json(manifest)["shards"]]
        differing = sorted({file.name for file in files} ^ set(named))
        if differing:
            raise DataError(f"{manifest} and the files beside it differ in {', '.join(differing[:5])}; {again} again.")
    return files


def write_rewards(path: Path, rewards: Sequence[Reward]) -> None:
    _write(path, REWARDS, [{field.name: getattr(reward, field.name) for field in fields(Reward)} for reward in rewards])


def read_rewards(path: Path) -> list[Reward]:
    rows = _rows(path, REWARDS)
    return [_reward(row) for row in rows]


def write_credits(path: Path, method: str, rollout_ids: Sequence[str], advantages: Sequence[Sequence[float]]) -> None:
    """Per-token advantages (T,) of each rollout, beside the rollouts table that holds the tokens."""
    rows = [{"rollout_id": i, "method": method, "advantages": list(row)} for i, row in zip(rollout_ids, advantages, strict=True)]
    _write(path, CREDITS, rows)


def read_credits(path: Path) -> dict[str, list[float]]:
    """Rollout id -> per-token advantages (T,)."""
    return {row["rollout_id"]: row["advantages"] for row in _rows(path, CREDITS)}


def write_traces(path: Path, traces: Iterable[Trace]) -> None:
    """Rows in the given order."""
    _write(path, TRACES, (_trace_row(trace) for trace in traces))


def read_traces(path: Path) -> list[Trace]:
    return [_trace(row) for row in _rows(path, TRACES)]


def _write(path: Path, contract: Contract, rows: Iterable[dict[str, Any]]) -> None:
    """Checked rows, one row group in memory at a time."""
    floats = [field.name for field in contract.schema if field.type == _FLOATS]
    schema = contract.schema.with_metadata({_VERSION_KEY: VERSION.encode()})
    source, keys = iter(rows), set[str]()
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(
            temporary,
            schema,
            compression="zstd",
            compression_level=3,
            use_dictionary=list(contract.dictionary),
            column_encoding={f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in floats} or None,
            store_schema=True,
        ) as writer,
    ):
        while group := list(islice(source, _ROW_GROUP)):
            try:
                table = pa.Table.from_pylist(group, schema=contract.schema)
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                raise DataError(f"{path}: a row does not fit the {contract.name} contract: {error}.") from None
            contract.check(table, path)
            doubled = keys.intersection(names := table[contract.key].to_pylist())
            if doubled:
                raise DataError(f"{path} breaks the {contract.name} contract: {contract.key} occurs twice ({min(doubled)}).")
            keys.update(names)
            writer.write_table(table.cast(schema))


def _rows(path: Path, contract: Contract) -> Iterator[dict[str, Any]]:
    """Checked rows, one batch in memory at a time."""
    if not path.exists():
        raise DataError(f"{path} does not exist; run the stage '{contract.stage}'.")
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            version = (file.schema_arrow.metadata or {}).get(_VERSION_KEY, b"").decode()
            if version != VERSION:
                found = f"table version {version}" if version else "no table version"
                raise DataError(f"{path} has {found}, not {VERSION}; run the stage '{contract.stage}' again.")
            contract.check_schema(file.schema_arrow, path)  # here too: a file without rows has no batches
            for batch in file.iter_batches(batch_size=_ROW_GROUP):
                yield from contract.check(pa.Table.from_batches([batch]), path).to_pylist()
    except (pa.ArrowInvalid, OSError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path} cannot be read as Parquet ({reason}); run the stage '{contract.stage}' again.") from None


def _task_row(task: Task) -> dict[str, Any]:
    return {
        "task_id": task.task_id,
        "kind": task.kind,
        "question": task.question,
        "tools": canonical_json(list(task.tools)),
        "gold": canonical_json(plan_to_json(task.gold)),
        "facts": list(task.facts),
        "reply": task.reply,
        "state": canonical_json(task.state),
        "end_state": task.end_state,
    }


def _task(row: dict[str, Any]) -> Task:
    parsed = {
        "kind": TaskKind(row["kind"]),
        "tools": tuple(json.loads(row["tools"])),
        "gold": plan_from_json(json.loads(row["gold"])),
        "facts": tuple(row["facts"]),
        "state": json.loads(row["state"]),
    }
    return Task(**{**row, **parsed})


def _reward(row: dict[str, Any]) -> Reward:
    parsed = {"kind": TaskKind(row["kind"]), "finish_reason": FinishReason(row["finish_reason"])}
    return Reward(**{**row, **parsed, "call_steps": tuple(row["call_steps"]), "call_scores": tuple(row["call_scores"])})


_SAMPLING = ("temperature", "top_p", "top_k", "seed")


def _rollout_row(rollout: Rollout) -> dict[str, Any]:
    row = {field.name: getattr(rollout, field.name) for field in fields(Rollout) if field.name != "sampling"}
    row["steps"] = canonical_json([step.to_json() for step in rollout.steps])
    return row | {name: getattr(rollout.sampling, name) for name in _SAMPLING}


def _rollout(row: dict[str, Any]) -> Rollout:
    sampling = Sampling(**{name: row.pop(name) for name in _SAMPLING})
    for name in ("prompt_ids", "completion_ids", "labels", "logprobs", "call_of"):
        row[name] = tuple(row[name])
    steps = tuple(Step.from_json(step) for step in json.loads(row["steps"]))
    return Rollout(**{**row, "steps": steps, "finish_reason": FinishReason(row["finish_reason"]), "sampling": sampling})


def _trace_row(trace: Trace) -> dict[str, Any]:
    row = {field.name: getattr(trace, field.name) for field in fields(Trace)}
    return row | {"trace_id": trace.trace_id, "turns": canonical_json(list(trace.turns))}


def _trace(row: dict[str, Any]) -> Trace:
    del row["trace_id"]
    return Trace(**{**row, "turns": tuple(json.loads(row["turns"]))})
