"""What the warm start of SmolLM2-135M-Instruct (tests/smollm.py) learns for its time: all weights against LoRA, in bf16.

    python -m pytest tests/benches/test_bench_finetune.py --benchmark-only -m "slow or not slow" -s

Both learn from the same conversations in batches of 8, and are asked for their loss on 8 others after each batch. Processor time
of one thread; the questions are not timed. LoRA has a learning rate of its own, ten times as high.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import smollm
import torch

from slca import params as p
from slca.policy.demonstrations import IGNORED, Demonstration, demonstrations
from slca.policy.finetune import adapted, row_loss
from slca.policy.model import load_policy, prepare_torch
from slca.sgls import stage as schemas
from slca.tables import read_tasks
from slca.tasks import stage as tasks_stage

pytestmark = [pytest.mark.slow, pytest.mark.bench]

BATCH, BATCHES = 8, 6
PARAMS = p.Params(
    tasks=p.Tasks(train=200, test=8, unseen_tools=8),
    warmstart=p.Warmstart(demonstrations=(BATCHES + 1) * BATCH, corrupted=0.0),
)


def loss(model: Any, rows: Sequence[Demonstration], learn: bool) -> float:
    """Mean loss (nats) of the rows' assistant tokens; its gradient is left in the model where it is to ``learn``."""
    labels = [torch.tensor([row.labels]) for row in rows]
    count = sum(int((own != IGNORED).sum()) for own in labels)
    total = 0.0
    for row, own in zip(rows, labels, strict=True):
        with torch.set_grad_enabled(learn), torch.autocast("cpu", torch.bfloat16):
            part, _ = row_loss(model, torch.tensor([row.ids]), own)
        if learn:
            (part / count).backward()
        total += float(part.detach())
    return total / count


@pytest.mark.parametrize(("rank", "learning_rate"), [(0, 1e-4), (16, 1e-3)], ids=["all", "lora"])
def test_held_out_loss_by_seconds(
    rank: int, learning_rate: float, benchmark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = torch.get_num_threads()
    prepare_torch(1)
    schemas.run(PARAMS, tmp_path)
    tasks_stage.run(PARAMS, tmp_path)
    policy = load_policy(smollm.model_folder())
    rows = demonstrations(read_tasks(tmp_path / "data" / "tasks" / "train.parquet"), PARAMS, policy.format)
    held, rest = rows[:BATCH], rows[BATCH:]
    torch.manual_seed(0)
    model = adapted(policy.model, PARAMS.warmstart.model_copy(update={"lora_rank": rank}))
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0)
    curve = [(0.0, loss(model, held, learn=False))]

    def learn() -> None:
        spent = 0.0
        for start in range(0, len(rest), BATCH):
            begun = time.process_time()
            loss(model, rest[start : start + BATCH], learn=True)
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            spent += time.process_time() - begun
            curve.append((spent, loss(model, held, learn=False)))

    try:
        benchmark.pedantic(learn, rounds=1)
    finally:
        torch.set_num_threads(before)
    benchmark.extra_info.update(curve=curve)
    with capsys.disabled():
        print(f"\nrank {rank}, learning rate {learning_rate}")
        for number, (seconds, value) in enumerate(curve):
            print(f"{number * BATCH:3d} conversations {seconds:6.1f} s  held-out loss {value:.3f}")
    assert curve[-1][1] < curve[0][1]
