"""What a run writes down of each step: tables that can be opened later, and the row of its learning curve."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from accelerate.utils import gather_object
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from slca import params as p
from slca.credit import Settings, signal
from slca.files import read_json, write_json, write_text
from slca.records import Reward
from slca.tables import write_credits, write_rewards, write_rollouts
from slca.training.alarms import Alarms, limits_of
from slca.training.batches import Batches
from slca.training.on_policy import Scored
from slca.training.runs import Run
from slca.training.trainer import CreditedBatch


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
