"""How a step's rollouts divide: into optimizer steps, among processes, and into the pieces that fit a device.

    rollouts of a step        tasks_per_step * group_size
    optimizer steps of it     updates      = tasks_per_step / mini_batch
    rollouts of each of them  processes * micro_batch * accumulation

In TRL's words: a step is one generation batch of ``accumulation * updates`` micro batches (``steps_per_generation``), of which
every ``accumulation`` make an optimizer step. Each process shuffles its share of a generation batch before it is cut, so the
rollouts of an optimizer step are drawn from all groups of the step; credit is computed before, from whole groups.
"""

from dataclasses import dataclass

from slca import params as p
from slca.errors import ParamsError


@dataclass(frozen=True)
class Batches:
    """rollouts: of one step. updates: optimizer steps in it. micro_batch: rollouts in one pass of a process. accumulation: passes
    of a process in one optimizer step."""

    processes: int
    rollouts: int
    updates: int
    micro_batch: int
    accumulation: int

    @staticmethod
    def of(params: p.Params, processes: int) -> "Batches":
        """Raises ParamsError where the rollouts of an optimizer step do not divide among processes and micro batches."""
        train, group = params.train, params.rollouts.group_size
        mini_batch = train.mini_batch or train.tasks_per_step
        share, rest = divmod(mini_batch * group, processes)
        name = "mini_batch" if train.mini_batch else "tasks_per_step"
        made = f"train.{name} * rollouts.group_size = {mini_batch} * {group} = {mini_batch * group} rollouts of an optimizer step"
        if rest:
            raise ParamsError(f"{made} do not divide among {processes} processes; change one of the three.")
        micro_batch = train.micro_batch or share
        if share % micro_batch:
            raise ParamsError(
                f"{made} are {share} in each of {processes} processes, which train.micro_batch = {micro_batch} does not divide."
            )
        updates = train.tasks_per_step // mini_batch
        return Batches(processes, train.tasks_per_step * group, updates, micro_batch, share // micro_batch)
