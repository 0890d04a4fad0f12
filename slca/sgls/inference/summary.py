"""What was inferred, for printing."""

from collections.abc import Sequence
from dataclasses import dataclass

from slca.sgls.inference.paths import Collection, segments
from slca.sgls.tool import Tool


@dataclass(frozen=True)
class Summary:
    """What was inferred of one entity. operations: ``kind tool``; uninferred: tools on its paths without a behaviour."""

    entity: str
    operations: tuple[str, ...]
    uninferred: tuple[str, ...]


def summary(tools: Sequence[Tool]) -> list[Summary]:
    """One row for each entity, in the tools' order; last, under the entity "", the tools that belong to none."""
    rows: dict[str, tuple[list[str], list[str]]] = {}
    places: dict[Collection, str] = {}
    for tool in tools:
        behaviour = tool.behaviour
        if behaviour is not None:
            entity = behaviour.entity or ""
            rows.setdefault(entity, ([], []))[0].append(f"{behaviour.kind} {tool.name}")
            if tool.route is not None:
                places.setdefault(segments(tool.route.path), entity)
    for tool in tools:
        if tool.behaviour is None:
            path = segments(tool.route.path) if tool.route is not None else ()
            above = [path[:end] for end in range(len(path), 0, -1) if path[:end] in places]
            rows.setdefault(places[above[0]] if above else "", ([], []))[1].append(tool.name)
    ordered = sorted(rows.items(), key=lambda row: row[0] == "")
    return [Summary(entity, tuple(operations), tuple(uninferred)) for entity, (operations, uninferred) in ordered]
