"""The `train` stage: one method, one seed, on-policy, under the same budget for every method.

A run keeps checkpoints and the records of finished steps in its work folder, so a killed run continues bit by bit; at the end
the outputs take their places by rename. Every step's rollouts, rewards and per-token credits are written under the table
contracts, so that any step can be opened later.

A run may be several processes (``slca.training.launch``): each rolls out and learns from its share of every step, all of them see
all numbers, and the first one writes.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from datasets import Dataset
from transformers import TrainerCallback

from slca import params as p
from slca.chat import ChatFormat
from slca.credit import METHODS, Settings
from slca.errors import DataError, ParamsError
from slca.files import replacing, write_json
from slca.policy.model import load_policy, prepare_torch
from slca.progress import ProgressBar, quiet
from slca.records import Task
from slca.rollouts.vllm_server import models_at
from slca.side_by_side import beside
from slca.tables import read_tasks
from slca.training.config import grpo_config
from slca.training.launch import launch, refuse_foreign_launch
from slca.training.on_policy import OnPolicyTrainer
from slca.training.records import Records
from slca.training.roll_out import RollOut
from slca.training.runs import Run, inputs
from slca.training.trainer import CreditedBatch
from slca.work import MarkComplete, last_checkpoint, open_work, publish


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
    roll_out = RollOut(params, tasks, policy, run)
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
