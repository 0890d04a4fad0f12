"""reports/ as Prefect artifacts: a mirror to look at in the Prefect UI, never a source that anything reads.

Nothing is demanded of the report but that results.json is JSON: whatever it holds becomes rows.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prefect.artifacts import create_markdown_artifact, create_table_artifact

TABLE_KEY = "slca-results-table"
REPORT_KEY = "slca-results"


def publish(reports: Path) -> list[str]:
    """Create the artifacts of the files that exist in ``reports``, within the current flow run; returns their keys."""
    published = []
    results = reports / "results.json"
    if results.is_file():
        table = rows(json.loads(results.read_text(encoding="utf-8")))
        create_table_artifact(table=table, key=TABLE_KEY, description="Mirror of reports/results.json")
        published.append(TABLE_KEY)
    report = reports / "results.md"
    if report.is_file():
        create_markdown_artifact(report.read_text(encoding="utf-8"), key=REPORT_KEY, description="Mirror of reports/results.md")
        published.append(REPORT_KEY)
    return published


def rows(results: Any) -> list[dict[str, Any]]:
    """One row per measure (an object with a "mean"; its scalars side by side) and one per other scalar (in "value").

    ``name`` is the path of keys, joined by "/". All rows have the same columns, as the table in the UI takes them from one row.
    """
    found = list(_rows(results, ()))
    columns = {"name": None, "value": None} | {column: None for row in found for column in row}
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
