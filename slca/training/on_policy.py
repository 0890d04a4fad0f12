"""The trainer of the ``train`` stage: rollouts come from our engine and rewards from HierR, with all that they know.

TRL repeats each prompt, here a task's id, once per member of its group and sees two reward functions; credit reads the rewards
themselves, in double precision.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from trl import GRPOTrainer

from slca.credit import Member, member_of
from slca.records import Reward, Rollout
from slca.training.trainer import SegmentLockedGRPOTrainer


@dataclass(frozen=True)
class Scored:
    """A rollout with its reward."""

    rollout: Rollout
    reward: Reward


class OnPolicyTrainer(SegmentLockedGRPOTrainer):
    """roll_out(task_ids, members, step) -> Scored, one for each prompt. The rest is passed on to SegmentLockedGRPOTrainer."""

    def __init__(
        self, *args: Any, roll_out: Callable[[Sequence[str], Sequence[int], int], Sequence[Scored]], **kwargs: Any
    ) -> None:
        self.roll_out = roll_out
        super().__init__(
            *args,
            reward_funcs=[tool_score, summary_score],
            reward_segments=["tool", "summary"],
            segments="last_run",  # never asked: every rollout brings its labels
            rollout_func=self._roll_out,
            skip_padding=True,
            **kwargs,
        )

    @property
    def vllm_engine(self) -> Any:
        """TRL's engine of vLLM in this process, which has the current weights in each step; None where there is none."""
        colocated = self.use_vllm and self.vllm_mode == "colocate"
        return self.vllm_generation.llm.llm_engine if colocated else None

    def _roll_out(self, prompts: list[str], trainer: GRPOTrainer) -> dict[str, list[Any]]:
        """TRL's rollout function. A prompt's place in the gathered batch says which member of its group it is."""
        # TRL has sent this step's weights; a server has them only when the main process is done.
        self.accelerator.wait_for_everyone()
        first = self.accelerator.process_index * len(prompts)
        members = [(first + row) % self.num_generations for row in range(len(prompts))]
        scored = self.roll_out(prompts, members, self.state.global_step)
        rollouts = [entry.rollout for entry in scored]
        return {
            "prompt_ids": [list(rollout.prompt_ids) for rollout in rollouts],
            "completion_ids": [list(rollout.completion_ids) for rollout in rollouts],
            "logprobs": [list(rollout.logprobs) for rollout in rollouts],
            "env_mask": [[int(label != 0) for label in rollout.labels] for rollout in rollouts],
            "labels": [rollout.labels for rollout in rollouts],
            "call_of": [rollout.call_of for rollout in rollouts],
            "scored": list(scored),
        }

    def members(self, rows: Sequence[dict[str, Any]], labels: Sequence[Sequence[int]], rewards: torch.Tensor) -> list[Member]:
        return [member_of(row["scored"].reward, own) for row, own in zip(rows, labels, strict=True)]


def tool_score(scored: Sequence[Scored], **_: Any) -> list[float | None]:
    """TRL logs rewards through functions."""
    return [entry.reward.tool_score for entry in scored]


def summary_score(scored: Sequence[Scored], **_: Any) -> list[float | None]:
    return [entry.reward.summary_score for entry in scored]
