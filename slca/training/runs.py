"""One training run: its name, what it is made from, where its work lies, and whether it is made."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slca import params as p
from slca.files import read_json
from slca.training.launch import config_file
from slca.work import belongs, fingerprint, work_folder


@dataclass(frozen=True)
class Run:
    """One cell of the matrix of methods and seeds. place: the folder of its work, below that of all work."""

    method: str
    seed: int
    place: str = "train"

    @property
    def name(self) -> str:
        return f"{self.method}-{self.seed}"

    def fingerprint(self, params: p.Params, root: Path, without: tuple[str, ...] = ()) -> str:
        sections = {name: getattr(params, name).model_dump() for name in ("simulator", "rollouts", "rewards", "train")}
        matrix = {"methods", "seeds"}
        sections["train"] = {key: value for key, value in sections["train"].items() if key not in matrix}
        processes: Any = params.execution.threads
        if params.execution.launcher == "accelerate":
            processes = [processes, config_file(params.execution, root).read_text(encoding="utf-8")]
        return fingerprint([self.name, sections, processes], inputs(root), without)

    def mark(self, root: Path) -> Path:
        """Remembers what was collected last, so that a finished run is not made again beside another."""
        return root / ".slca" / "collected" / f"{self.name}.json"

    def is_finished(self, params: p.Params, root: Path) -> bool:
        """Whether its outputs lie in its work folder, waiting for its own stage."""
        return belongs(work_folder(root, self.work_name), self.fingerprint(params, root)) and self.curve(root).exists()

    def is_made(self, params: p.Params, root: Path) -> bool:
        mark = self.mark(root)
        collected = mark.exists() and (root / "models" / self.name).exists()
        return self.is_finished(params, root) or (collected and read_json(mark) == self.fingerprint(params, root))

    @property
    def work_name(self) -> str:
        return f"{self.place}/{self.name}"

    def curve(self, root: Path) -> Path:
        """The learning curve: what a run writes last."""
        return work_folder(root, self.work_name) / "records" / "curve.csv"


def inputs(root: Path) -> list[Path]:
    return [root / "models" / "warmstart", root / "data" / "tasks" / "train.parquet"]
