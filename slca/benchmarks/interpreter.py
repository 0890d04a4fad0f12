"""The python that runs a benchmark's official package: in an environment and a process of its own, with files or lines between.

The package's pins fight this project's, and it runs what models have led it to: so its process gets a folder that goes with it
and nothing of this process's environment but where programs and libraries are.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from slca.errors import MissingDependency


@dataclass(frozen=True)
class Interpreter:
    """name: the benchmark's, which names its environment too. package: that the environment is for."""

    name: str
    package: str

    @property
    def variable(self) -> str:
        """The environment variable that may name another python."""
        return f"SLCA_{self.name.upper()}_PYTHON"

    def python(self, root: Path = Path(".")) -> Path:
        """What ``variable`` names, else .venv-<name> under ``root``. Raises MissingDependency."""
        named, own = os.environ.get(self.variable), f".venv-{self.name.lower()}/bin/python"
        # absolute, not resolved: a virtual environment is found through the link that its python is
        python = Path(named).absolute() if named else (root / own).absolute()
        if not python.is_file():
            origin = f"{self.variable} names {named}" if named else f"{self.name} needs {own}"
            raise MissingDependency(
                f"{origin}, which does not exist; run `make setup`, or set {self.variable} to a python that has {self.package}."
            )
        return python

    def command(self, root: Path, script: str, *arguments: str) -> list[str]:
        """Runs ``script``, the file of a module, as a program. Raises MissingDependency."""
        return [str(self.python(root)), "-I", "-X", "utf8", str(Path(script).absolute()), *arguments]

    def failure(self, what: str, output: str, kept: str) -> str:
        """A sentence with the last of ``output``. kept: what became of the work."""
        last = " | ".join(output.strip().splitlines()[-3:]) or "no output"
        return f"The {self.name} worker {what}: {last}. Run `make setup` if {self.package} is missing or damaged; {kept}."


def surroundings(folder: str) -> dict[str, str]:
    """The environment variables of a worker whose folder is ``folder``."""
    return {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ} | {"TMPDIR": folder}
