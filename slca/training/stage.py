"""The `train` stage: one method, one seed, on-policy, under the same budget for every method.

A run keeps checkpoints and the records of finished steps in its work folder, so a killed run continues bit by bit; at the end
the outputs take their places by rename. Every step's rollouts, rewards and per-token credits are written under the table
contracts, so that any step can be opened later.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import GRPOConfig

from slca import params as p
from slca.credit import METHODS, Settings, signal
from slca.errors import ParamsError
from slca.files import derive_seed, read_json, replacing, write_json, write_text
from slca.hierr import score
from slca.policy.model import Policy, load_policy, prepare_torch
from slca.progress import ProgressBar, quiet
from slca.records import Reward, Task
from slca.rollouts.engine import Engine, Request
from slca.rollouts.schemaless import SchemalessEngine
from slca.side_by_side import beside
from slca.tables import read_tasks, write_credits, write_rewards, write_rollouts
from slca.training.alarms import Alarms, limits_of
from slca.training.on_policy import OnPolicyTrainer, Scored
from slca.training.trainer import CreditedBatch
from slca.work import MarkComplete, belongs, fingerprint, last_checkpoint, open_work, publish, work_folder


def run(params: p.Params, method: str, seed: int, root: Path = Path(".")) -> None:
    """models/warmstart and data/tasks/train.parquet -> models/<run>, data/training/<run>.

    With ``execution.processes`` above 1, other runs of the matrix that are still to be made are trained at the same time; their
    own stages then find them finished in their work folders.
    """
    if method not in METHODS:
        raise ParamsError(f"--method {method!r}: there is no such method; train.methods names {', '.join(params.train.methods)}.")
    own = Run(method, seed)
    matrix = [Run(m, s) for s in params.train.seeds for m in params.train.methods]
    waiting = [other for other in matrix if other != own and not other.is_made(params, root)]
    # One that is up to date for DVC but not known here (after `dvc pull`, say) has outputs: those without any come first.
    waiting.sort(key=lambda other: (root / "models" / other.name).exists())
    others = [] if own.is_finished(params, root) else waiting[: params.execution.processes - 1]
    with beside(_train_quietly, [(params, other, root) for other in others]):
        work = train(params, own, root)
    targets = {
        "model": root / "models" / own.name,
        "records": root / "data" / "training" / own.name,
    }
    publish(work, targets)
    write_json(own.mark(root), own.fingerprint(params, root))


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
        return fingerprint([self.name, sections, params.execution.threads], inputs(root), without)

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


def train(params: p.Params, run: Run, root: Path, show: bool = True) -> Path:
    """Train in the run's work folder, from its last complete checkpoint; returns the folder, whose outputs are then complete."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    prepare_torch(params.execution.threads)
    mark = run.fingerprint(params, root)
    work = open_work(root, run.work_name, mark)
    if run.curve(root).exists():
        return work
    model_folder, task_file = inputs(root)
    policy = load_policy(model_folder)
    tasks = {task.task_id: task for task in read_tasks(task_file)}
    records = _Records(work, run, params)
    trainer = OnPolicyTrainer(
        model=policy.model,
        args=_config(params, run.seed, work),
        train_dataset=Dataset.from_dict({"prompt": sorted(tasks)}),
        processing_class=policy.format.tokenizer,
        callbacks=[MarkComplete(), records, *([ProgressBar(f"train {run.name}", ("success", "loss"))] if show else [])],
        estimator=run.method,
        credit=Settings.from_params(params.train),
        roll_out=_RollOut(params, tasks, policy, run),
        on_batch=records.book,
        share_prompts=params.train.share_prompts,
    )
    quiet(trainer)
    checkpoint = last_checkpoint(work / "checkpoints")
    torch.manual_seed(run.seed)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    with replacing(work / "model") as folder:
        trainer.model.save_pretrained(folder)
        policy.format.tokenizer.save_pretrained(folder)
    records.finish()
    return work


def _train_quietly(params: p.Params, run: Run, root: Path) -> None:
    train(params, run, root, show=False)


def _config(params: p.Params, seed: int, work: Path) -> GRPOConfig:
    settings = params.train
    groups = settings.groups_per_pass or settings.tasks_per_step
    return GRPOConfig(
        output_dir=str(work / "checkpoints"),
        seed=seed,
        data_seed=seed,
        max_steps=settings.steps,
        per_device_train_batch_size=groups * params.rollouts.group_size,
        num_generations=params.rollouts.group_size,
        gradient_accumulation_steps=settings.tasks_per_step // groups,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=settings.warmup_steps,
        weight_decay=0.0,
        max_grad_norm=settings.max_grad_norm,
        beta=settings.kl,
        epsilon=settings.clip,
        loss_type="dapo",
        temperature=1.0,
        max_completion_length=params.warmstart.max_positions,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=not torch.cuda.is_available(),
        save_steps=settings.checkpoint_steps,
        save_total_limit=2,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
    )


class _RollOut:
    """Rolls out and scores the tasks of one step. The simulator's cache lives as long as the run."""

    def __init__(self, params: p.Params, tasks: dict[str, Task], policy: Policy, run: Run) -> None:
        self.params, self.tasks, self.policy, self.run = params, tasks, policy, run

    def __call__(self, task_ids: Sequence[str], members: Sequence[int], step: int) -> list[Scored]:
        policy = Policy(self.policy.model, self.policy.format, f"{self.run.name}@{step}")
        seed = derive_seed("train", self.run.seed, step)
        kind = Engine if self.params.simulator.schemas else SchemalessEngine
        engine = kind(policy, self.params.rollouts, self.params.simulator, seed, tag=f"@{self.run.seed}.{step}")
        training = policy.model.training
        policy.model.eval()
        requests = [Request(self.tasks[task], member) for task, member in zip(task_ids, members, strict=True)]
        rollouts = engine.run(requests)
        policy.model.train(training)
        return [Scored(rollout, score(self.tasks[rollout.task_id], rollout, self.params.rewards)) for rollout in rollouts]


class _Records(TrainerCallback):  # type: ignore[misc]
    """The run's log: per step one row of numbers and three tables; and the alarms that stop a run."""

    def __init__(self, work: Path, run: Run, params: p.Params) -> None:
        self.work, self.run, self.params = work, run, params
        self.step = 0
        self.row: dict[str, float] = {}
        self.alarms = Alarms(run.name, limits_of(params))

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        for step in range(1, state.global_step + 1):  # of a run that is continued
            self.alarms.remember(read_json(self._row_file(step)))

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.step = state.global_step + 1

    def book(self, batch: CreditedBatch) -> None:
        """Write a step's rollouts, rewards and credits, and keep its numbers until the loss is known."""
        scored: list[Scored] = [row["scored"] for row in batch.rows]
        rollouts = [entry.rollout for entry in scored]
        rewards = [entry.reward for entry in scored]
        part = f"part-{self.step:05d}.parquet"
        write_rollouts(self.work / "records" / "rollouts" / part, rollouts)
        write_rewards(self.work / "records" / "rewards" / part, rewards)
        ids = [rollout.rollout_id for rollout in rollouts]
        write_credits(self.work / "records" / "credits" / part, self.run.method, ids, batch.advantages)
        shares = signal(batch.groups, Settings.from_params(self.params.train))
        self.row = {
            "step": self.step,
            "tasks": len({reward.task_id for reward in rewards}),
            "rollouts": len(rewards),
            "sampled_tokens": sum(reward.sampled_tokens for reward in rewards),
            **_means(rewards),
            **shares,
        }
        reasons = sorted({reward.masked for reward in rewards if reward.masked})
        self.alarms.check(self.step, self.row, f" ({', '.join(reasons)})" if reasons else "")

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        if not logs or "loss" not in logs:
            return
        names = {
            "loss": "loss",
            "grad_norm": "grad_norm",
            "clip_ratio/region_mean": "clip_fraction",
            "kl": "kl",
            "entropy": "entropy",
        }
        logged = {target: float(logs.get(source, 0.0)) for source, target in names.items()}
        self.alarms.check(self.step, logged)
        self.row |= logged
        logs["success"] = self.row["success"]
        write_json(self._row_file(self.step), self.row)

    def _row_file(self, step: int) -> Path:
        return self.work / "steps" / f"{step:05d}.json"

    def finish(self) -> None:
        """Join the rows of all steps into the learning curve; sampled_tokens becomes cumulative."""
        rows = pd.DataFrame([read_json(file) for file in sorted((self.work / "steps").glob("*.json"))])
        rows["sampled_tokens"] = rows["sampled_tokens"].cumsum()
        write_text(self.work / "records" / "curve.csv", rows.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def _means(rewards: Sequence[Reward]) -> dict[str, float]:
    """Means over the step's rollouts that could be scored: a failure of judge or simulator is no failure of the policy."""
    columns = {
        "success": "success",
        "process": "process",
        "outcome": "outcome",
        "summary": "summary_score",
        "tool_reward_mean": "tool_score",
        "redundancy": "redundancy",
        "call_rate": "opened_call",
    }
    scored = [reward for reward in rewards if not reward.masked]
    return {name: float(np.mean([getattr(reward, field) for reward in scored])) for name, field in columns.items()}
