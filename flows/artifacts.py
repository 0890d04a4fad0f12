"""Results as Prefect artifacts: a mirror to look at in the Prefect UI, never a source that anything reads.

Each has a key of its own, under which the UI keeps the versions of all runs:

* ``slca-results``: results.md, with the figures that it shows inside it, since the UI cannot reach files.
* ``slca-results-<part>``: a table for each object in results.json (``methods``, ``comparisons``, ``bfcl``, ...);
  ``slca-results-table``: its other values. Nothing is demanded of the report but that it is JSON: whatever it holds becomes rows.
* ``slca-gate``: the comparisons of the regression gate.
* ``slca-evaluation`` and ``slca-evaluation-<benchmark>``: the scores of one checkpoint (``flows.evaluation``).
"""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prefect.artifacts import create_markdown_artifact, create_table_artifact

TABLE_KEY = "slca-results-table"
REPORT_KEY = "slca-results"
GATE_KEY = "slca-gate"

IMAGE_BYTES = 500_000
"""A larger image stays a link, for the sake of the server's database, where every run leaves its figures."""

_IMAGE = re.compile(r"!\[(?P<text>[^\]]*)\]\((?P<path>[^)\s]+)\)")
_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def publish(reports: Path) -> list[str]:
    """Create the artifacts of the files that exist in ``reports``, within the current flow run; returns their keys."""
    published = []
    results = reports / "results.json"
    if results.is_file():
        for key, table in tables(json.loads(results.read_text(encoding="utf-8"))).items():
            create_table_artifact(table=table, key=key, description="Mirror of reports/results.json")
            published.append(key)
    report = reports / "results.md"
    if report.is_file():
        page = with_images(report.read_text(encoding="utf-8"), reports)
        create_markdown_artifact(page, key=REPORT_KEY, description="Mirror of reports/results.md")
        published.append(REPORT_KEY)
    return published


def tables(results: Any) -> dict[str, list[dict[str, Any]]]:
    """Artifact key -> rows: one table for each object or list in ``results``, one for all else; those without a row left out."""
    if not isinstance(results, dict):
        return {TABLE_KEY: rows(results)}
    parts = {name: part for name, part in results.items() if isinstance(part, dict | list)}
    found = {TABLE_KEY: rows({name: value for name, value in results.items() if name not in parts})}
    found |= {f"{REPORT_KEY}-{slug(name)}": rows(part) for name, part in parts.items()}
    return {key: table for key, table in found.items() if table}


def slug(name: str) -> str:
    """``name`` in the characters that an artifact's key may have."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def with_images(page: str, folder: Path) -> str:
    """Markdown with the images that lie in ``folder`` written into it as data; links to all else stay as they are."""

    def inlined(match: re.Match[str]) -> str:
        image = folder / match["path"]
        kind = _TYPES.get(image.suffix)
        inside = image.resolve().is_relative_to(folder.resolve())
        if kind is None or not inside or not image.is_file() or image.stat().st_size > IMAGE_BYTES:
            return match[0]
        return f"![{match['text']}](data:{kind};base64,{base64.b64encode(image.read_bytes()).decode()})"

    return _IMAGE.sub(inlined, page)


def rows(results: Any) -> list[dict[str, Any]]:
    """One row per measure (an object with a "mean"; its scalars side by side) and one per other scalar (in "value").

    ``name`` is the path of keys, joined by "/". All rows have the same columns, as the table in the UI takes them from one row.
    """
    return even(list(_rows(results, ())), "name", "value")


def even(found: list[dict[str, Any]], *first: str) -> list[dict[str, Any]]:
    """The rows, all with the columns that any of them has, those named ``first`` before the others."""
    columns = dict.fromkeys([*first, *(column for row in found for column in row)])
    return [columns | row for row in found]


def _rows(value: Any, path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        scalars = {key: item for key, item in value.items() if not isinstance(item, dict | list)}
        measure = "mean" in scalars
        if measure:
            yield {"name": "/".join(path), **scalars}
        for key, item in value.items():
            if not (measure and key in scalars):
                yield from _rows(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _rows(item, (*path, str(index)))
    else:
        yield {"name": "/".join(path), "value": value}
