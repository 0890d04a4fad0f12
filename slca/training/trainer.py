"""TRL's GRPOTrainer with per-token advantages from a credit rule.

What is added to the stock trainer, and nothing else: after TRL has generated and padded a batch, ``advantages`` (B,) is replaced
by the (B, T) array of ``slca.credit.spread``. TRL's clipped loss multiplies it in place of its own. The learnable tokens (TOOL
and SUMMARY) are TRL's loss mask; a masked rollout keeps its tokens in the loss's denominator with advantage 0.

Group statistics run over rewards gathered from all processes, because a group may span them; each process keeps its own rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from accelerate.utils import gather_object
from trl import GRPOConfig, GRPOTrainer

from slca.credit import METHODS, Groups, Settings, groups_from_rewards, spread
from slca.errors import ParamsError
from slca.records import Reward, Rollout
from slca.training.padding import ragged_logprobs

_PER_TOKEN_LOSSES = ("grpo", "dapo", "bnpo", "dr_grpo", "cispo")


@dataclass(frozen=True)
class Scored:
    """A rollout with its reward: what a rollout function hands to the trainer, one per completion."""

    rollout: Rollout
    reward: Reward


@dataclass(frozen=True)
class CreditedBatch:
    """One generation batch of this process, for the run's records. advantages: per rollout (T_i,). groups: all processes."""

    scored: tuple[Scored, ...]
    advantages: tuple[tuple[float, ...], ...]
    groups: Groups


class SegmentLockedGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer whose credit comes from ``method`` (a name in ``slca.credit.METHODS``).

    roll_out(task_ids, members, step) -> Scored, one for each prompt; prompts are task ids. on_batch is shown every credited
    batch. Raises ParamsError for loss settings that assume one advantage per completion.
    """

    def __init__(
        self,
        *args: Any,
        method: str,
        credit: Settings,
        roll_out: Callable[[Sequence[str], Sequence[int], int], Sequence[Scored]],
        on_batch: Callable[[CreditedBatch], None] | None = None,
        skip_padding: bool = True,
        **kwargs: Any,
    ) -> None:
        config: GRPOConfig = kwargs["args"]
        refuse_unsupported(config)
        self.method = method
        self.credit = credit
        self.roll_out = roll_out
        self.on_batch = on_batch
        self.skip_padding = skip_padding
        super().__init__(*args, reward_funcs=[tool_score, summary_score], rollout_func=self._roll_out, **kwargs)

    def _roll_out(self, prompts: list[str], trainer: GRPOTrainer) -> dict[str, list[Any]]:
        """TRL's rollout function. A prompt's place in the gathered batch says which member of its group it is."""
        first = self.accelerator.process_index * len(prompts)
        members = [(first + row) % self.num_generations for row in range(len(prompts))]
        scored = self.roll_out(prompts, members, self.state.global_step)
        rollouts = [entry.rollout for entry in scored]
        return {
            "prompt_ids": [list(rollout.prompt_ids) for rollout in rollouts],
            "completion_ids": [list(rollout.completion_ids) for rollout in rollouts],
            "logprobs": [list(rollout.logprobs) for rollout in rollouts],
            "env_mask": [[int(label != 0) for label in rollout.labels] for rollout in rollouts],
            "scored": list(scored),
        }

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, logits_to_keep: int, **options: Any
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        plain = not any(value for name, value in options.items() if name not in ("batch_size", "compute_entropy"))
        if not (self.skip_padding and plain):
            computed = super()._get_per_token_logps_and_entropies(model, input_ids, attention_mask, logits_to_keep, **options)
            return computed  # type: ignore[no-any-return]
        entropy = bool(options.get("compute_entropy"))
        return *ragged_logprobs(model, input_ids, attention_mask, logits_to_keep, self.num_generations, entropy), None

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        scored: list[Scored] = [row["scored"] for row in inputs]
        gathered: list[tuple[Reward, tuple[int, ...]]] = gather_object([(s.reward, s.rollout.labels) for s in scored])
        groups = groups_from_rewards([reward for reward, _ in gathered], [labels for _, labels in gathered])
        labels = [row for _, row in gathered]
        per_token = spread(METHODS[self.method](groups, self.credit), labels, [reward.rollout_id for reward, _ in gathered])
        first = self.accelerator.process_index * len(scored)
        mine = torch.from_numpy(per_token[first : first + len(scored)])
        output["advantages"] = _fit(mine, output["completion_ids"])
        if self.on_batch:
            rows = [tuple(mine[i, : len(entry.rollout.completion_ids)].tolist()) for i, entry in enumerate(scored)]
            self.on_batch(CreditedBatch(tuple(scored), tuple(rows), groups))
        return output


def _fit(advantages: torch.Tensor, completion_ids: torch.Tensor) -> torch.Tensor:
    """Cut or pad (with 0) the advantages to TRL's padded width: other processes may hold longer completions, TRL may pad."""
    width = completion_ids.shape[1]
    fitted = advantages.new_zeros(len(advantages), width)
    shared = min(width, advantages.shape[1])
    fitted[:, :shared] = advantages[:, :shared]
    return fitted.to(completion_ids.device)


def refuse_unsupported(config: GRPOConfig) -> None:
    """Raise ParamsError, with the reason, for settings under which TRL's loss is not a per-token product with advantages."""
    if config.loss_type not in _PER_TOKEN_LOSSES:
        known = ", ".join(_PER_TOKEN_LOSSES)
        raise ParamsError(f"loss_type {config.loss_type!r} assumes one advantage per completion; use one of: {known}.")
    if config.importance_sampling_level != "token":
        raise ParamsError("importance_sampling_level must be 'token': one ratio per sequence would mix the segments.")
    if config.use_liger_kernel:
        raise ParamsError("use_liger_kernel must be off: its fused loss takes one advantage per completion without a check.")
    if config.off_policy_mask_threshold is not None:
        raise ParamsError("off_policy_mask_threshold must be None: its mask assumes one advantage per completion.")
    if (config.temperature, config.top_p, config.top_k) != (1.0, 1.0, 0):
        raise ParamsError("temperature 1, top_p 1 and top_k 0 are needed: other sampling biases the importance ratio.")
    if config.mask_truncated_completions:
        raise ParamsError("mask_truncated_completions must be off: truncated rollouts are scored and labelled here.")


def tool_score(scored: Sequence[Scored], **_: Any) -> list[float | None]:
    """TRL logs rewards through functions; credit itself reads the rewards directly."""
    return [entry.reward.tool_score for entry in scored]


def summary_score(scored: Sequence[Scored], **_: Any) -> list[float | None]:
    return [entry.reward.summary_score for entry in scored]
