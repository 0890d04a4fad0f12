"""A training run as several processes, under ``accelerate launch``, started and ended by the `train` stage's process.

The stage's process alone opens the run's work folder, and publishes from it; the launched ones (``slca.training.worker``) train
in it, and the first of them writes. What a run has to say to its user, it leaves in a file, since the status of a launcher
says only that something failed.

However this process ends, the launched ones end too: each of them watches it.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from slca import params as p
from slca.errors import ParamsError, RunStopped, SlcaError
from slca.files import read_json, write_json

CONFIGS = p.PROFILES / "accelerate"
ORDER, OUTCOME = "launch.json", "outcome.json"


def config_file(execution: p.Execution, root: Path) -> Path:
    """What ``execution.accelerate_config`` names: a file, or one that comes with the package. Raises ParamsError."""
    name = execution.accelerate_config
    for file in (root / name, CONFIGS / f"{name}.yaml"):
        if file.is_file():
            return file
    known = ", ".join(sorted(file.stem for file in CONFIGS.glob("*.yaml")))
    raise ParamsError(f"execution.accelerate_config {name!r} is no file; name one, or one of those that come with slca: {known}.")


def read_config(execution: p.Execution, root: Path) -> dict[str, Any]:
    """The configuration, with ``num_processes`` of 1 or more. Raises ParamsError that names the file."""
    file = config_file(execution, root)
    try:
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ParamsError(f"{file} is not valid YAML: {' '.join(str(error).split())}.") from None
    processes = config.get("num_processes") if isinstance(config, dict) else None
    if not isinstance(processes, int) or processes < 1:
        raise ParamsError(f"{file}: num_processes is {processes!r}; write how many processes train, 1 or more.")
    if config.get("num_machines", 1) != 1:
        raise ParamsError(f"{file}: num_machines is {config['num_machines']!r}; one machine is supported.")
    return dict(config)


def processes_of(params: p.Params, root: Path) -> int:
    """How many processes train one run."""
    return int(read_config(params.execution, root)["num_processes"]) if params.execution.launcher == "accelerate" else 1


def launch(params: p.Params, method: str, seed: int, root: Path, work: Path) -> None:
    """Train in the opened folder ``work``. Raises what stopped the run, and SlcaError where the processes failed."""
    (work / OUTCOME).unlink(missing_ok=True)
    order = {"params": params.model_dump(mode="json"), "method": method, "seed": seed, "root": str(root.resolve())}
    write_json(work / ORDER, {**order, "watched": os.getpid()})
    config = str(config_file(params.execution, root).resolve())
    command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", config, "-m", "slca.training.worker"]
    process = subprocess.Popen([*command, str(work.resolve())])
    try:
        status = process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    if (work / OUTCOME).exists():
        outcome = read_json(work / OUTCOME)
        raise (RunStopped if outcome["exit_code"] == RunStopped.exit_code else SlcaError)(outcome["sentence"])
    if status:
        raise SlcaError(f"The processes that trained {method}-{seed} ended with status {status}; what they wrote above says why.")


def refuse_foreign_launch() -> None:
    """Raise ParamsError inside processes of somebody else's launcher, which would wait for each other's work folder."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ParamsError(
            "slca train is one process that starts the others: run it without a launcher, "
            "with execution.launcher: accelerate and execution.accelerate_config in params.yaml."
        )
