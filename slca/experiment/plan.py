"""A plan: which methods are trained with which seeds under which parameters, and in what order.

A *cell* is a set of runs that differ in method and seed alone: same tasks, steps, group size, decoding and warm start. Whatever
is compared is compared within a cell, or, by ``against``, with the same method and seed of another cell that has the same budget.
Evaluation is the same for all runs, whatever rewards they were trained on.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from slca import params as p
from slca.errors import ParamsError
from slca.training.runs import Run

PLANS = Path(__file__).parent

Changes = dict[str, dict[str, Any]]

SHARED = ("profile", "schemas", "tasks", "warmstart", "evaluate", "report", "execution")
"""Sections that a plan cannot change: its runs start from what the pipeline has made, and are reported together."""

BUDGET = {
    "train": ("steps", "tasks_per_step"),
    "rollouts": ("group_size", "temperature", "max_turns", "max_turn_tokens"),
}
"""What two cells must have in common to be compared."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Cell(_Part):
    """Runs under the same parameters. set: what differs from the plan's parameters. against: the cell to compare with."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=40)]  # names folders and figures
    title: str
    methods: Annotated[tuple[p.Method, ...], Field(min_length=1)]
    seeds: tuple[int, ...] = ()
    set: Changes = {}
    against: str = ""


class Turn(_Part):
    """Runs that are made together: of a cell, some methods (none named: all of them)."""

    cell: str
    methods: tuple[p.Method, ...] = ()


class Tasks(_Part):
    """How many tasks of each split every run is evaluated on."""

    test: p.Positive
    unseen_tools: p.Positive


class Seconds(_Part):
    """What one optimizer step and one evaluated task take, for the expected time alone."""

    step: float = 2.5
    task: float = 0.04


class Plan(_Part):
    """The whole experiment. seeds: of cells that name none. set: parameters of all cells. order: what is made first."""

    name: str
    title: str
    seeds: Annotated[tuple[int, ...], Field(min_length=1)]
    set: Changes = {}
    evaluate: Tasks
    seconds: Seconds = Seconds()
    cells: Annotated[tuple[Cell, ...], Field(min_length=1)]
    order: tuple[Turn, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [cell.name for cell in self.cells]
        if len(set(names)) != len(names):
            raise ValueError(f"cells: every name must be there once, not {', '.join(names)}")
        for where, changes in (("set", self.set), *((f"cells.{cell.name}.set", cell.set) for cell in self.cells)):
            for section, fields in changes.items():
                if section in SHARED or (section == "train" and fields.keys() & {"methods", "seeds"}):
                    raise ValueError(
                        f"{where}.{section}: a plan cannot change this; its methods and seeds stand beside `set`, and tasks, "
                        "warm start and report are the pipeline's (params.yaml)"
                    )
        for cell in self.cells:
            for field, values in (("methods", cell.methods), ("seeds", self.seeds_of(cell))):
                if len(set(values)) != len(values):
                    raise ValueError(f"cells.{cell.name}.{field}: each must be there once, not {list(values)}")
            if cell.against:
                self._comparable(cell, names)
        for turn in self.order:
            if turn.cell not in names:
                raise ValueError(f"order: there is no cell {turn.cell!r}; the cells are {', '.join(names)}")
            strange = [method for method in turn.methods if method not in self.cell(turn.cell).methods]
            if strange:
                raise ValueError(f"order: cell {turn.cell!r} has no method {strange[0]!r}")
        return self

    def _comparable(self, cell: Cell, names: list[str]) -> None:
        if cell.against == cell.name or cell.against not in names:
            others = ", ".join(name for name in names if name != cell.name)
            raise ValueError(f"cells.{cell.name}.against: {cell.against!r} is no other cell; they are {others}")
        other = self.cell(cell.against)
        if not set(cell.methods) & set(other.methods) or not set(self.seeds_of(cell)) & set(self.seeds_of(other)):
            raise ValueError(f"cells.{cell.name}.against: {cell.against!r} shares no method and seed with it")

    def cell(self, name: str) -> Cell:
        return next(cell for cell in self.cells if cell.name == name)

    def seeds_of(self, cell: Cell) -> tuple[int, ...]:
        return cell.seeds or self.seeds

    def runs(self) -> list[tuple[Cell, Run]]:
        """All runs, what tells most first: by ``order``, then by cell; seed by seed, so that a cut leaves pairs."""
        found: dict[tuple[str, str, int], tuple[Cell, Run]] = {}
        for turn in (*self.order, *(Turn(cell=cell.name) for cell in self.cells)):
            cell = self.cell(turn.cell)
            for seed in self.seeds_of(cell):
                for method in turn.methods or cell.methods:
                    found.setdefault((cell.name, method, seed), (cell, Run(method, seed, f"experiment/{self.name}/{cell.name}")))
        return list(found.values())

    def common(self, params: p.Params) -> p.Params:
        """The parameters of the plan, under which every run is evaluated."""
        chosen = p.changed(params, self.set, f"plan {self.name}: set")
        return p.changed(chosen, {"simulator": {"schemas": True}}, f"plan {self.name}: set")

    def params_of(self, cell: Cell, params: p.Params) -> p.Params:
        """The parameters that a cell's runs are trained under."""
        shared = p.changed(params, self.set, f"plan {self.name}: set")
        return p.changed(shared, cell.set, f"plan {self.name}: cells.{cell.name}.set")

    def expected_seconds(self, params: p.Params) -> float:
        """Steps and evaluated tasks of all runs at the plan's ``seconds``, shared by ``execution.processes`` at once."""
        tasks = self.evaluate.test + self.evaluate.unseen_tools
        steps = sum(self.params_of(cell, params).train.steps for cell, _ in self.runs())
        return (steps * self.seconds.step + len(self.runs()) * tasks * self.seconds.task) / params.execution.processes


def load(name: str, params: p.Params) -> Plan:
    """The plan in the file ``name``, or the one of that name that comes with the package.

    Raises ParamsError, in one sentence, for what cannot be read, is unknown or contradicts itself, in any cell.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else PLANS / f"{name}.yaml"
    if not path.exists():
        known = ", ".join(sorted(file.stem for file in PLANS.glob("*.yaml")))
        raise ParamsError(f"There is no plan {name!r}; name a .yaml file that exists, or one of: {known}.")
    try:
        plan = Plan.model_validate({**_read(path), "name": path.stem})
    except ValidationError as error:
        raise ParamsError(f"{path}: {p.sentence(error)}") from None
    for cell in plan.cells:
        own = plan.params_of(cell, params)
        if cell.against:
            other = plan.params_of(plan.cell(cell.against), params)
            for field in _unequal(own, other):
                where = f"{path}: cells.{cell.name}.against"
                raise ParamsError(f"{where}: {field} differs from that of {cell.against!r}; only equal budgets compare.")
    return plan


def _unequal(first: p.Params, second: p.Params) -> Iterator[str]:
    for section, fields in BUDGET.items():
        for field in fields:
            if getattr(getattr(first, section), field) != getattr(getattr(second, section), field):
                yield f"{section}.{field}"


def _read(path: Path) -> Mapping[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ParamsError(f"{path} is not valid YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(values, dict):
        raise ParamsError(f"{path} must hold a plan (title, seeds, evaluate, cells), not {type(values).__name__}.")
    return values
