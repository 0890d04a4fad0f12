"""The `train` stage: one method, one seed, on-policy, under the same budget for every method.

A run keeps checkpoints and the records of finished steps in its work folder, so a killed run continues bit by bit; at the end
the outputs take their places by rename. Every step's rollouts, rewards and per-token credits are written under the table
contracts, so that any step can be opened later.

A run may be several processes (``slca.training.launch``): each rolls out and learns from its share of every step, all of them see
all numbers, and the first one writes.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from accelerate.utils import gather_object
from datasets import Dataset
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import GRPOConfig

from slca import params as p
from slca.chat import ChatFormat
from slca.credit import METHODS, Settings, signal
from slca.errors import DataError, ParamsError
from slca.files import derive_seed, read_json, replacing, write_json, write_text
from slca.hierr.many import score_all
from slca.policy.model import Policy, load_policy, prepare_torch
from slca.progress import ProgressBar, quiet
from slca.records import Reward, Task
from slca.rollouts.engine import Engine, Request
from slca.rollouts.generator import needs_vllm
from slca.rollouts.schemaless import SchemalessEngine
from slca.rollouts.vllm_server import base_url, models_at
from slca.side_by_side import beside
from slca.tables import read_tasks, write_credits, write_rewards, write_rollouts
from slca.training.alarms import Alarms, limits_of
from slca.training.batches import Batches
from slca.training.launch import config_file, launch, refuse_foreign_launch
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
    refuse_foreign_launch()
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


def train(params: p.Params, run: Run, root: Path, show: bool = True) -> Path:
    """Train in the run's work folder, from its last complete checkpoint; returns the folder, whose outputs are then complete."""
    mark = run.fingerprint(params, root)
    work = open_work(root, run.work_name, mark)
    if run.curve(root).exists():
        return work
    if params.execution.launcher == "accelerate":
        launch(params, run.method, run.seed, root, work)
    else:
        train_in(params, run, root, work, show)
    return work


def train_in(params: p.Params, run: Run, root: Path, work: Path, show: bool = True) -> None:
    """Train in ``work``, an opened folder, as one of the processes of the run."""
    prepare_torch(params.execution.threads)
    if params.rollouts.generator == "vllm_server":
        models_at(params.rollouts.vllm_url)  # before TRL waits minutes for a server that is not there
    records = Records(work, run, params)
    trainer = build(params, run, root, work, [MarkComplete(), records], records.book)
    if show and records.writes:
        trainer.add_callback(ProgressBar(f"train {run.name}", ("success", "loss")))
    checkpoint = last_checkpoint(work / "checkpoints")
    torch.manual_seed(run.seed)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    _save(trainer, work / "model")
    records.finish()


def build(
    params: p.Params,
    run: Run,
    root: Path,
    work: Path,
    callbacks: Sequence[TrainerCallback] = (),
    on_batch: Callable[[CreditedBatch], None] | None = None,
) -> OnPolicyTrainer:
    """The trainer of a run, ready to train in ``work``, with all that it is made of."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    # Before the model: it tells transformers how accelerate shards, and so what this process has to load.
    config = grpo_config(params, run.seed, work, int(os.environ.get("WORLD_SIZE", "1")))
    model_folder, task_file = inputs(root)
    policy = load_policy(model_folder)
    tasks = {task.task_id: task for task in trainable(read_tasks(task_file), policy.format, params)}
    roll_out = _RollOut(params, tasks, policy, run)
    trainer = OnPolicyTrainer(
        model=policy.model,
        args=config,
        train_dataset=Dataset.from_dict({"prompt": sorted(tasks)}),
        processing_class=policy.format.tokenizer,
        callbacks=list(callbacks),
        estimator=run.method,
        credit=Settings.from_params(params.train),
        roll_out=roll_out,
        on_batch=on_batch,
        share_prompts=params.train.share_prompts,
    )
    roll_out.vllm = trainer.vllm_engine
    quiet(trainer)
    return trainer


def trainable(tasks: Sequence[Task], chat: ChatFormat, params: p.Params) -> list[Task]:
    """The tasks whose prompts are short enough. Raises DataError where too few are left."""
    most = params.rollouts.max_prompt_tokens
    if not most:
        return list(tasks)
    fitting = [task for task in tasks if len(chat.prompt_ids([{"role": "user", "content": task.question}], task.tools)) <= most]
    if len(fitting) < params.train.tasks_per_step:
        raise DataError(
            f"data/tasks/train.parquet: {len(fitting)} of {len(tasks)} tasks have prompts of at most "
            f"rollouts.max_prompt_tokens = {most} tokens, fewer than train.tasks_per_step = {params.train.tasks_per_step}."
        )
    return fitting


def _save(trainer: OnPolicyTrainer, folder: Path) -> None:
    """The trained model, put together from all processes and written by the first."""
    accelerator = trainer.accelerator
    whole = {"state_dict": accelerator.get_state_dict(trainer.model_wrapped)} if accelerator.num_processes > 1 else {}
    if accelerator.is_main_process:
        with replacing(folder) as temporary:
            accelerator.unwrap_model(trainer.model).save_pretrained(temporary, **whole)
            trainer.processing_class.save_pretrained(temporary)
    accelerator.wait_for_everyone()


def _train_quietly(params: p.Params, run: Run, root: Path) -> None:
    train(params, run, root, show=False)


def grpo_config(params: p.Params, seed: int, work: Path, processes: int = 1) -> GRPOConfig:
    """TRL's settings for a run of so many processes; what the parameters count in steps, TRL counts in optimizer steps."""
    settings = params.train
    batches = Batches.of(params, processes)
    return GRPOConfig(
        output_dir=str(work / "checkpoints"),
        seed=seed,
        data_seed=seed,
        max_steps=settings.steps * batches.updates,
        per_device_train_batch_size=batches.micro_batch,
        num_generations=params.rollouts.group_size,
        gradient_accumulation_steps=batches.accumulation,
        steps_per_generation=batches.accumulation * batches.updates,
        learning_rate=settings.learning_rate,
        lr_scheduler_type=settings.schedule,
        warmup_steps=settings.warmup_steps * batches.updates,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        beta=settings.kl,
        epsilon=settings.clip,
        loss_type="dapo",
        temperature=1.0,
        max_completion_length=params.rollouts.max_response_tokens or params.warmstart.max_positions,
        gradient_checkpointing=settings.gradient_checkpointing,
        bf16=settings.precision == "bf16",
        use_cpu=not torch.cuda.is_available(),
        ddp_find_unused_parameters=False,
        save_steps=settings.checkpoint_steps * batches.updates,
        save_total_limit=2,
        logging_steps=batches.updates,
        report_to=[],
        disable_tqdm=True,
        **vllm_settings(params.rollouts),
    )


def vllm_settings(rollouts: p.Rollouts) -> dict[str, Any]:
    """TRL's settings under which vLLM samples with the weights of each step. Raises SlcaError for what cannot be.

    vLLM's log-probs differ from the trainer's by its number format and kernels: TRL corrects the loss by their ratio, here token
    by token like the credit. In process, TRL starts one engine beside each training process; to a server it sends the weights.
    """
    if rollouts.generator == "transformers":
        return {}
    needs_vllm()
    _needs_gpu(rollouts.generator)
    settings: dict[str, Any] = {"use_vllm": True, "vllm_importance_sampling_mode": "token_truncate"}
    if rollouts.generator == "vllm_server":
        return {**settings, "vllm_mode": "server", "vllm_server_base_url": base_url(rollouts.vllm_url)}
    if rollouts.vllm_tensor_parallel != 1:
        raise ParamsError(
            f"rollouts.vllm_tensor_parallel = {rollouts.vllm_tensor_parallel}: in training a process rolls out its own tasks, so "
            "an engine has one; set it to 1, or let a server spread the model (rollouts.generator vllm_server)."
        )
    return {
        **settings,
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": rollouts.vllm_memory,
        "vllm_max_model_length": rollouts.max_context or None,
    }


def _needs_gpu(generator: str) -> None:
    if not torch.cuda.is_available():
        raise ParamsError(
            f"rollouts.generator {generator}: TRL gives vLLM the weights of each training step on GPUs alone, and there is none; "
            "train with rollouts.generator transformers."
        )


class _RollOut:
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


class Records(TrainerCallback):  # type: ignore[misc]
    """The run's log: per step one row of numbers and three tables; and the alarms that stop a run.

    With several processes each has the numbers of all, so that an alarm stops all of them at once; the first one ``writes``.
    """

    def __init__(self, work: Path, run: Run, params: p.Params) -> None:
        self.work, self.run, self.params = work, run, params
        self.updates = Batches.of(params, 1).updates
        self.writes = int(os.environ.get("RANK", "0")) == 0
        self.step = 0
        self.row: dict[str, float] = {}
        self.alarms = Alarms(run.name, limits_of(params))

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        for step in range(1, state.global_step // self.updates + 1):  # of a run that is continued
            self.alarms.remember(read_json(self._row_file(step)))

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.step = state.global_step // self.updates + 1

    def book(self, batch: CreditedBatch) -> None:
        """Write a step's rollouts, rewards and credits, and keep its numbers until the loss is known."""
        own = [(row["scored"], credit) for row, credit in zip(batch.rows, batch.advantages, strict=True)]
        entries: list[tuple[Scored, tuple[float, ...]]] = gather_object(own)
        rollouts = [scored.rollout for scored, _ in entries]
        rewards = [scored.reward for scored, _ in entries]
        if self.writes:
            part = f"part-{self.step:05d}.parquet"
            write_rollouts(self.work / "records" / "rollouts" / part, rollouts)
            write_rewards(self.work / "records" / "rewards" / part, rewards)
            ids = [rollout.rollout_id for rollout in rollouts]
            write_credits(self.work / "records" / "credits" / part, self.run.method, ids, [credit for _, credit in entries])
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
        if self.writes:
            write_json(self._row_file(self.step), self.row)

    def _row_file(self, step: int) -> Path:
        return self.work / "steps" / f"{step:05d}.json"

    def finish(self) -> None:
        """Join the rows of all steps into the learning curve; sampled_tokens becomes cumulative."""
        if not self.writes:
            return
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
