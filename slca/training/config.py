"""The parameters in TRL's words: one GRPOConfig for a run, vLLM's part of it among them."""

from pathlib import Path
from typing import Any

import torch
from trl import GRPOConfig

from slca import params as p
from slca.errors import ParamsError
from slca.rollouts.generator import needs_vllm
from slca.rollouts.vllm_server import base_url
from slca.training.batches import Batches


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
