"""Scoring a given checkpoint as a Prefect flow: no training, no DVC stage, and nothing of the pipeline's outputs is touched.

It runs ``slca evaluate --checkpoint`` as a subprocess in the repository, by that repository's own code, and mirrors the scores as
artifacts: a table for each benchmark with the references beside the scores, and a page with the success of the warm start and of
the accepted run beside the checkpoint's. Stopping the flow run ends the subprocess and all that it started.

``python -m flows.evaluation CHECKPOINT [--set evaluate.tasks=64] ...`` runs it here and now.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE

from flows import artifacts, supervised
from slca.benchmarks.references import NAMES as REFERENCES
from slca.errors import SlcaError
from slca.files import read_json
from slca.report import gate
from slca.report.inputs import SPLITS
from slca.report.intervals import wilson

KEY = "slca-evaluation"
WARMSTART = Path("reports/evaluation/warmstart.json")

Row = dict[str, Any]


@task(task_run_name="score {checkpoint}", cache_policy=NO_CACHE, retries=0, persist_result=False)
def score(checkpoint: str, changes: list[str], params: str, profile: str | None, output: str, repository: str) -> str:
    """Score the checkpoint; every line of output goes to the run's log. Returns the scores' file, relative to the repository."""
    logger = get_run_logger()
    settings = [f"--profile={profile}"] if profile else [f"--params={params}"]
    options = [f"--checkpoint={checkpoint}", f"--output={output}", *settings, *(f"--set={change}" for change in changes)]

    def hear(line: str) -> None:
        if line.strip():
            logger.info("%s", line)

    supervised.run_module(["slca", "evaluate", *options], Path(repository), hear)
    return (Path(output) / f"{Path(checkpoint).name}.json").as_posix()


@task(task_run_name="artifacts", cache_policy=NO_CACHE, retries=0, persist_result=False)
def publish(scores: str, repository: str) -> list[str]:
    """Mirror a file of scores as artifacts; returns their keys."""
    root = Path(repository)
    report = read_json(root / scores)
    warmstart = read_json(root / WARMSTART) if (root / WARMSTART).is_file() else {}
    tables = {name: table(part, benchmarks(warmstart).get(name, {})) for name, part in benchmarks(report).items()}
    keys = []
    for name, found in tables.items():
        keys.append(f"{KEY}-{artifacts.slug(name)}")
        create_table_artifact(table=found, key=keys[-1], description=f"{name}: {report['checkpoint']}")
    accepted = gate.accepted(root) if (root / gate.ACCEPTED).is_file() else None
    create_markdown_artifact(summary(report, warmstart, accepted, tables), key=KEY, description=f"Mirror of {scores}")
    return [*keys, KEY]


@flow(name="slca-evaluate", flow_run_name="evaluate {checkpoint}", retries=0, persist_result=False)
def evaluate(
    checkpoint: str,
    changes: list[str] | None = None,
    params: str = "params.yaml",
    profile: str | None = None,
    output: str = "reports/checkpoints",
    repository: str = ".",
) -> dict[str, Any]:
    """Score a checkpoint on the held-out tasks and the benchmarks.

    checkpoint: a model folder, or the name of one in models, such as slca-0. changes: other values of parameters, such as
    evaluate.tasks=64. params: the parameter file; profile: a profile instead of it. output: where <checkpoint's name>.json and
    .parquet go. Paths are relative to ``repository``, the folder of data/tasks. Returns {"scores": file, "artifacts": [key,
    ...]}; raises CommandFailed with the last lines of an evaluation that failed.
    """
    folder = str(Path(repository).resolve())
    scores = score(checkpoint, changes or [], params, profile, output, folder)
    return {"scores": scores, "artifacts": publish(scores, folder)}


def benchmarks(report: dict[str, Any]) -> dict[str, Row]:
    """Name -> measures, of each held-out split and each benchmark in an evaluation's report."""
    parts = {name: part for name, part in report.items() if isinstance(part, dict) and name != "splits"}
    return {**report.get("splits", {}), **parts}


def table(measures: Row, warmstart: Row) -> list[Row]:
    """One row per measure: its value, the warm start's if that met the same items, and the references that it is read against.

    The value of reference R of measures STEM_* is stored as STEM_R; it stands in the row of the first such measure.
    """
    same = same_items(measures, warmstart)
    found: dict[str, Row] = {}
    for name, value in measures.items():
        if isinstance(value, dict):
            continue
        reference = next((reference for reference in REFERENCES if name.endswith(f"_{reference}")), None)
        stem = name.removesuffix(f"_{reference}")
        row = next((row for first, row in found.items() if reference and first.startswith(f"{stem}_")), None)
        if row is None:
            found[name] = {"measure": name, "checkpoint": value, "warm start": warmstart.get(name) if same else None}
        else:
            row[str(reference)] = value
    return artifacts.even(list(found.values()))


def same_items(first: Row, second: Row) -> bool:
    """Whether two evaluations scored as many items, of the same packages, in the same way: their scores can be compared."""
    kept = [
        {key: value for key, value in one.items() if key in ("tasks", "package", "handler") or key.endswith(("_n", "_of"))}
        for one in (first, second)
    ]
    return kept[0] == kept[1]


def summary(report: Row, warmstart: Row, accepted: gate.Run | None, tables: dict[str, list[Row]]) -> str:
    """A page in Markdown: success beside the warm start's and the accepted run's, then every measure that has references."""
    here, there = report["splits"], warmstart.get("splits", {})
    counts = {split: here[split]["tasks"] for split in SPLITS}
    success = [["this checkpoint", *(_success(here[split]) for split in SPLITS)]]
    if all(same_items(here[split], there.get(split, {})) for split in SPLITS):
        success.append(["warm start", *(_success(there[split]) for split in SPLITS)])
    if accepted and accepted.settings.get("tasks") == counts and accepted.settings.get("profile") == report["profile"]:
        for method, splits in accepted.success.items():
            success.append([f"accepted {method}", *(gate.figures(splits[split]) for split in SPLITS)])
    tasks = " and ".join(f"{count} {split}" for split, count in counts.items())
    page = [
        f"# {report['checkpoint']}",
        f"Weights `{report['policy']}`, profile `{report['profile']}`. Success on {tasks} tasks with its 95 % interval; that of "
        "the checkpoint and of the warm start is over tasks alone and says nothing about retraining. The warm start and the "
        "accepted run are shown where they were scored on as many tasks.",
        _markdown(["", *SPLITS], success),
    ]
    for name, found in tables.items():
        measured = [row for row in found if any(row.get(reference) is not None for reference in REFERENCES)]
        if measured:
            columns = [column for column in measured[0] if any(row[column] is not None for row in measured)]
            page += [f"## {name}", _markdown(columns, [[_cell(row[column]) for column in columns] for row in measured])]
    return "\n\n".join(page) + "\n"


def _markdown(columns: list[str], cells: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [columns, ["--"] * len(columns), *cells])


def _success(split: Row) -> str:
    scored = split["tasks"] - split["masked"]
    if not scored:
        return "not scored"
    low, high = wilson(split["success"], scored)
    return f"{split['success']:.3f} [{low:.3f}, {high:.3f}]"


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0 if the checkpoint was scored, else 1 (what was wrong is in the last lines)."""
    parser = argparse.ArgumentParser(prog="python -m flows.evaluation", description="Score a checkpoint as a Prefect flow.")
    parser.add_argument("checkpoint", help="a model folder, or the name of one in models")
    parser.add_argument("--set", dest="changes", action="append", default=[], help="another value, such as evaluate.tasks=64")
    parser.add_argument("--params", default="params.yaml", help="parameter file (default: %(default)s)")
    parser.add_argument("--profile", help="a profile instead of a parameter file")
    parser.add_argument("--output", default="reports/checkpoints", help="folder for the scores (default: %(default)s)")
    parser.add_argument("--repository", default=".", help="folder of data/tasks (default: this one)")
    try:
        done = evaluate(**vars(parser.parse_args(arguments)))
    except (supervised.CommandFailed, SlcaError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Scores: {done['scores']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
