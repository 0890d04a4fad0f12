"""Running DVC as a subprocess: its lines as they come, an error that names the stage, and no process left behind."""

import re
from collections.abc import Callable, Sequence
from graphlib import TopologicalSorter
from pathlib import Path

from flows import process_group
from flows.supervised import CommandFailed, run_module

_FAILED = re.compile(r"failed to reproduce '(?P<stage>[^']+)'")
_NODE = re.compile(r'"(?P<name>[^"]+)";')
_EDGE = re.compile(r'"(?P<before>[^"]+)" -> "(?P<after>[^"]+)";')


class DvcFailed(CommandFailed):
    """DVC, or a stage that it ran, ended with an error. ``stage`` is None where no stage had been reached."""

    def __init__(self, command: str, stage: str | None, status: int, lines: Sequence[str]) -> None:
        super().__init__(f"Stage '{stage}'" if stage else f"'{command}'", status, lines)
        self.stage = stage


def repro(
    targets: Sequence[str],
    repository: Path,
    on_line: Callable[[str], None],
    *,
    force: bool = False,
    single: bool = False,
    grace: float = process_group.GRACE_SECONDS,
) -> None:
    """``dvc repro`` of ``targets`` (none: everything) in ``repository``; ``on_line`` hears each line of output as it comes.

    ``single`` runs the targets alone, without what they depend on. Raises DvcFailed if a stage fails. Whatever ends the call
    (also an exception, an interrupt, or a signal whose handler raises), no process of the run is left once it returns;
    processes get ``grace`` seconds between SIGTERM and SIGKILL.
    """
    options = [*(["--force"] if force else []), *(["--single-item"] if single else [])]
    run_dvc(["repro", *options, *targets], repository, on_line, grace=grace)


def plan(targets: Sequence[str], repository: Path) -> list[str]:
    """The names of ``targets`` (none: all stages) and of all that they depend on, each after its dependencies.

    A target is whatever ``dvc repro`` takes: a stage, a matrix (all its stages), an output, a .dvc file. Raises DvcFailed for
    an unknown one and ValueError if there is no stage at all.
    """
    sorter: TopologicalSorter[str] = TopologicalSorter()
    names: dict[str, None] = {}
    for arguments in [[target] for target in targets] or [[]]:
        lines: list[str] = []
        run_dvc(["dag", "--dot", *arguments], repository, lines.append)
        for line in lines:
            if node := _NODE.fullmatch(line):
                names[node["name"]] = None
                sorter.add(node["name"])
            elif edge := _EDGE.fullmatch(line):
                sorter.add(edge["after"], edge["before"])
    if not names:
        raise ValueError(f"{repository} has no DVC stage; name the folder that holds dvc.yaml.")
    return list(sorter.static_order())


def run_dvc(
    arguments: Sequence[str],
    repository: Path,
    on_line: Callable[[str], None],
    *,
    grace: float = process_group.GRACE_SECONDS,
) -> None:
    """Run ``dvc`` with ``arguments`` in ``repository``, with the promises of ``repro``."""
    try:
        run_module(["dvc", *arguments], repository, on_line, grace=grace)
    except CommandFailed as error:
        failed = next((match for line in reversed(error.lines) if (match := _FAILED.search(line))), None)
        stage = failed["stage"] if failed else None
        raise DvcFailed(" ".join(["dvc", *arguments]), stage, error.status, error.lines) from None
