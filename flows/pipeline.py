"""The pipeline as a Prefect flow: one task per DVC stage, so that each has its own state, duration and log.

The tasks run ``dvc repro --single-item`` for the stages in topological order, each after all that it depends on. That is what
one ``dvc repro`` does: whether a stage is stale, and whether it is forced, is decided once per stage and after its
dependencies. There is neither a Prefect cache nor a retry on top of it.

Then come the artifacts, and last the regression gate (``slca.report.gate``): a run whose success fell is a failed run, with the
numbers in its message, and its results can be looked at all the same.

Stopping the flow run stops the stage: a worker signals the flow's process, Prefect turns the signal into an exception, and
``flows.supervised`` ends the stage's processes on any exception.

``python -m flows.pipeline [TARGET ...] [--force] [--no-gate] [--repository FOLDER]`` runs it here and now.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE

from flows import artifacts, dvc_process
from slca.errors import SlcaError
from slca.report import gate as regression

REPORT = "report"
"""The stage that writes what the gate compares: the results are those of this run only if it is among the run's stages."""


@task(task_run_name="{stage}", cache_policy=NO_CACHE, retries=0, persist_result=False)
def reproduce(stage: str, repository: str, force: bool) -> str:
    """Bring one stage up to date; every line of its output goes to the run's log. Returns what DVC did.

    "unchanged", "cached" (the outputs of an earlier, equal run were checked out) or "ran".
    """
    logger = get_run_logger()
    outcome = "ran"
    marks = {
        f"Stage '{stage}' didn't change, skipping": "unchanged",
        f"Stage '{stage}' is cached - skipping run, checking out outputs": "cached",
    }

    def hear(line: str) -> None:
        nonlocal outcome
        outcome = marks.get(line, outcome)
        if line.strip():
            logger.info("%s", line)

    dvc_process.repro([stage], Path(repository), hear, force=force, single=True)
    return outcome


@task(task_run_name="artifacts", cache_policy=NO_CACHE, retries=0, persist_result=False)
def publish(repository: str) -> list[str]:
    """Mirror reports/ as artifacts; returns their keys."""
    return artifacts.publish(Path(repository) / "reports")


@task(task_run_name="gate", cache_policy=NO_CACHE, retries=0, persist_result=False)
def compare(repository: str) -> str:
    """Compare success with the accepted run's, as artifact ``slca-gate``; returns what was found, and logs it.

    Raises RunStopped if success fell by more than its interval, DataError if the two runs cannot be compared.
    """
    comparisons = regression.check(Path(repository))
    if comparisons:
        table = [comparison.to_json() for comparison in comparisons]
        create_table_artifact(table=table, key=artifacts.GATE_KEY, description="Success beside that of the accepted run")
    sentence = regression.verdict(comparisons)
    get_run_logger().info("%s", sentence)
    return sentence


@flow(name="slca-pipeline", retries=0, persist_result=False)
def pipeline(targets: list[str] | None = None, force: bool = False, repository: str = ".", gate: bool = True) -> dict[str, Any]:
    """Reproduce DVC targets and all that they depend on (default: everything), mirror reports/ as artifacts, close the gate.

    ``repository`` is the folder of dvc.yaml, relative to the working directory. ``force`` runs stages that are up to date too.
    ``gate``: fail if success fell below the accepted run's. Returns {"stages": {name: "ran" | "cached" | "unchanged"},
    "artifacts": [key, ...], "gate": what it found}; a failing stage raises DvcFailed, a closed gate RunStopped or DataError.
    """
    logger = get_run_logger()
    folder = str(Path(repository).resolve())
    stages = dvc_process.plan(targets or [], Path(folder))
    logger.info("Stages in order: %s", ", ".join(stages))
    outcomes = {stage: reproduce(stage, folder, force) for stage in stages}
    published = publish(folder)
    if not gate:
        found = "The gate was switched off."
    elif REPORT not in stages:
        found = f"Nothing to compare: the stage '{REPORT}' is not among the stages of this run."
    else:
        return {"stages": outcomes, "artifacts": published, "gate": compare(folder)}
    logger.info("%s", found)
    return {"stages": outcomes, "artifacts": published, "gate": found}


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0 if every stage is up to date, 1 if DVC or a stage failed (its lines are in the log).

    3 if the gate found that success fell, 2 if it could not compare.
    """
    parser = argparse.ArgumentParser(prog="python -m flows.pipeline", description="Run the DVC pipeline as a Prefect flow.")
    parser.add_argument("targets", nargs="*", help="stages, matrices or outputs (default: everything)")
    parser.add_argument("--force", action="store_true", help="run stages that are up to date too")
    parser.add_argument("--no-gate", action="store_true", help="do not compare with the accepted run")
    parser.add_argument("--repository", default=".", help="folder of dvc.yaml (default: this one)")
    options = parser.parse_args(arguments)
    try:
        summary = pipeline(
            targets=options.targets or None, force=options.force, repository=options.repository, gate=not options.no_gate
        )
    except (dvc_process.DvcFailed, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    except SlcaError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    for stage, outcome in summary["stages"].items():
        print(f"{outcome:<10} {stage}")
    print(summary["gate"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
