"""What training asks for at each step: the rollouts of its tasks, by the engine that evaluation uses, with their rewards."""

from collections.abc import Sequence
from typing import Any

from slca import params as p
from slca.files import derive_seed
from slca.hierr.many import score_all
from slca.policy.model import Policy
from slca.records import Task
from slca.rollouts.engine import Engine, Request
from slca.rollouts.schemaless import SchemalessEngine
from slca.training.batches import Batches
from slca.training.on_policy import Scored
from slca.training.runs import Run


class RollOut:
    """Rolls out and scores the tasks of one step. The simulator's cache lives as long as the run."""

    def __init__(self, params: p.Params, tasks: dict[str, Task], policy: Policy, run: Run) -> None:
        self.params, self.tasks, self.policy, self.run = params, tasks, policy, run
        self.vllm: Any = None  # the trainer's engine, where rollouts.generator is vllm
        self.updates = Batches.of(params, 1).updates

    def __call__(self, task_ids: Sequence[str], members: Sequence[int], step: int) -> list[Scored]:
        """step: TRL's, which counts optimizer steps."""
        step //= self.updates
        policy = Policy(self.policy.model, self.policy.format, f"{self.run.name}@{step}", vllm=self.vllm)
        seed = derive_seed("train", self.run.seed, step)
        kind = Engine if self.params.simulator.schemas else SchemalessEngine
        engine = kind(policy, self.params.rollouts, self.params.simulator, seed, tag=f"@{self.run.seed}.{step}")
        training = policy.model.training
        policy.model.eval()
        requests = [Request(self.tasks[task], member) for task, member in zip(task_ids, members, strict=True)]
        rollouts = engine.run(requests)
        policy.model.train(training)
        pairs = [(self.tasks[rollout.task_id], rollout) for rollout in rollouts]
        return [Scored(*both) for both in zip(rollouts, score_all(pairs, self.params.rewards), strict=True)]
