"""Rollouts with rewards from files, as credit rules want them, whoever made them.

Three kinds of source:

* our rollouts (a Parquet file, or a folder of ``part-*.parquet``) beside a rewards table: ``data/rollouts``;
* the records of a training run, a folder with ``rollouts/`` and ``rewards/``: ``data/training/slca-0``;
* another stack's rollouts, JSONL or Parquet, one row each:

      group           whatever names the prompt or task that members of a group share
      tool_reward     number, or null where it could not be computed; so summary_reward
      labels          optional: per completion token 0 (not sampled), 1 (tool calls), 2 (summary)
      has_tool, has_summary   instead of ``labels``: whether the rollout has tokens of that segment
      needs_call, opened_call optional; they default to false and to has_tool
      id, tokens, call_of     optional: a name; per token its text; per token the number of its call, -1 for none

A group of ours is a task within one training step.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slca.credit import Groups, Member, groups_from_rewards, groups_of
from slca.errors import DataError
from slca.records import Reward, Rollout, Segment
from slca.tables import read_rewards, read_rollouts

_NUMBERS = ("tool_reward", "summary_reward")


@dataclass(frozen=True, eq=False)
class Recorded:
    """B rollouts in their source's order. groups has B rows.

    labels, call_of, tokens: per completion token, () where the source does not tell. details: what else is known of each
    rollout, by name, for display. rollouts: the rollouts themselves where they are ours.
    """

    ids: tuple[str, ...]
    group_names: tuple[str, ...]
    groups: Groups
    labels: tuple[tuple[int, ...], ...]
    call_of: tuple[tuple[int, ...], ...]
    tokens: tuple[tuple[str, ...], ...]
    details: tuple[Mapping[str, Any], ...]
    rollouts: tuple[Rollout, ...] = ()


def read_recorded(path: Path, rewards: Path | None = None) -> Recorded:
    """The rollouts at ``path``. rewards: our rewards table, where it does not lie beside them.

    Raises DataError that names file, row and field for whatever does not fit.
    """
    if not path.exists():
        raise DataError(f"{path} does not exist; name a file or folder of rollouts.")
    if path.is_dir() and (path / "rollouts").is_dir():
        return _ours(path / "rollouts", rewards or path / "rewards")
    if path.is_dir() or (path.suffix == ".parquet" and "completion_ids" in _columns(path)):
        return _ours(path, rewards or path.with_name("rewards.parquet"))
    return _foreign(path)


def _ours(path: Path, rewards: Path) -> Recorded:
    rollouts = {rollout.rollout_id: rollout for rollout in read_rollouts(path)}
    scored = [reward for file in _parts(rewards) for reward in read_rewards(file) if reward.rollout_id in rollouts]
    if len(scored) != len(rollouts):
        raise DataError(f"{rewards} scores {len(scored)} of the {len(rollouts)} rollouts in {path}; run the stage 'rewards'.")
    chosen = tuple(rollouts[reward.rollout_id] for reward in scored)
    names = tuple(reward.rollout_id.rpartition("/")[0] for reward in scored)
    labels = tuple(rollout.labels for rollout in chosen)
    grouped = [replace(reward, task_id=name) for reward, name in zip(scored, names, strict=True)]
    return Recorded(
        ids=tuple(reward.rollout_id for reward in scored),
        group_names=names,
        groups=groups_from_rewards(grouped, labels),
        labels=labels,
        call_of=((),) * len(chosen),
        tokens=((),) * len(chosen),
        details=tuple(_details(reward) for reward in scored),
        rollouts=chosen,
    )


def _parts(path: Path) -> list[Path]:
    return sorted(path.glob("part-*.parquet")) if path.is_dir() else [path]


def _details(reward: Reward) -> dict[str, Any]:
    hidden = ("rollout_id", "task_id", "call_steps", "call_scores")
    return {field.name: getattr(reward, field.name) for field in fields(Reward) if field.name not in hidden}


def _foreign(path: Path) -> Recorded:
    rows = [_checked(row, f"{path}: row {number}") for number, row in enumerate(_rows(path), start=1)]
    if not rows:
        raise DataError(f"{path} holds no rollouts; one row per rollout is wanted.")
    names = tuple(str(row["group"]) for row in rows)
    known = ("group", "labels", "call_of", "tokens", *_NUMBERS)
    members = [Member(row["tool_reward"], row["summary_reward"], **{name: row[name] for name in _FLAGS}) for row in rows]
    return Recorded(
        ids=tuple(str(row.get("id", f"row {number}")) for number, row in enumerate(rows, start=1)),
        group_names=names,
        groups=groups_of(members, names),
        labels=tuple(row["labels"] for row in rows),
        call_of=tuple(row["call_of"] for row in rows),
        tokens=tuple(row["tokens"] for row in rows),
        details=tuple(
            {"tool_score": row["tool_reward"], "summary_score": row["summary_reward"]}
            | {name: value for name, value in row.items() if name not in known and isinstance(value, str | int | float | bool)}
            for row in rows
        ),
    )


_FLAGS = ("has_tool", "has_summary", "needs_call", "opened_call")


def _columns(path: Path) -> list[str]:
    try:
        return list(pq.read_schema(path).names)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet ({' '.join(str(error).split())}).") from None


def _rows(path: Path) -> Iterator[Any]:
    if path.suffix == ".parquet":
        _columns(path)
        yield from pq.read_table(path).to_pylist()
        return
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error.reason}); JSONL or Parquet is wanted.") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except (json.JSONDecodeError, RecursionError) as error:
                raise DataError(f"{path}: line {number} is not JSON ({error}); one object per line is wanted.") from None


def _checked(row: Any, where: str) -> dict[str, Any]:
    """``row`` with every field of ``Recorded`` present. Raises DataError that names ``where``, the field and what is wanted."""
    if not isinstance(row, dict):
        raise DataError(f"{where} is no object; it needs group, tool_reward and summary_reward.")
    for name in ("group", *_NUMBERS):
        if name not in row:
            raise DataError(f"{where} has no {name}; it needs group, tool_reward and summary_reward.")
    for name in _NUMBERS:
        if isinstance(row[name], bool) or not isinstance(row[name], int | float | None):
            raise DataError(f"{where}: {name} is {row[name]!r}; a number is wanted, or null where there is none.")
    labels = _listed(row, "labels", where, range(len(Segment)))
    checked = {**row, "labels": labels, "call_of": _listed(row, "call_of", where), "tokens": _texts(row, where)}
    if labels:
        checked |= {"has_tool": Segment.TOOL in labels, "has_summary": Segment.SUMMARY in labels}
    lengths = {name: len(checked[name]) for name in ("labels", "call_of", "tokens") if checked[name]}
    if len(set(lengths.values())) > 1:
        raise DataError(f"{where}: {lengths} differ; labels, call_of and tokens have one entry per completion token.")
    checked = {"needs_call": False, "opened_call": checked.get("has_tool", False), **checked}
    for name in _FLAGS:
        if not isinstance(checked.get(name), bool):
            raise DataError(f"{where}: {name} is {checked.get(name)!r}; give labels, or true or false.")
    return checked


def _listed(row: Mapping[str, Any], name: str, where: str, allowed: Sequence[int] | None = None) -> tuple[int, ...]:
    values = row.get(name)
    if values is None:
        return ()
    if not isinstance(values, list) or any(isinstance(v, bool) or not isinstance(v, int) for v in values):
        raise DataError(f"{where}: {name} must be a list of whole numbers.")
    wrong = [value for value in values if allowed is not None and value not in allowed]
    if wrong:
        raise DataError(f"{where}: {name} holds {wrong[0]}; 0 is not sampled, 1 tool calls, 2 summary.")
    return tuple(values)


def _texts(row: Mapping[str, Any], where: str) -> tuple[str, ...]:
    values: Iterable[Any] | None = row.get("tokens")
    if values is None:
        return ()
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise DataError(f"{where}: tokens must be a list of texts.")
    return tuple(values)
