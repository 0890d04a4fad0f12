"""Diagnosis of recorded rollouts: another stack's rows, our own tables, and refusals that say what is wrong."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from credit_cases import a_reward
from transformers import LlamaConfig, LlamaForCausalLM

from slca.credit import METHODS, Settings
from slca.diagnosis.cli import diagnose, first_groups
from slca.diagnosis.gradients import gradients
from slca.diagnosis.measures import measure
from slca.diagnosis.records import read_recorded
from slca.errors import DataError
from slca.records import FinishReason, Rollout
from slca.tables import write_rewards, write_rollouts

# Two groups of three; TOOL and SUMMARY tokens everywhere; the two rewards are uncorrelated and vary alike.
ROWS = [
    {"group": "a", "tool_reward": 1.0, "summary_reward": 1.0, "labels": [1, 0, 2]},
    {"group": "a", "tool_reward": 1.0, "summary_reward": 0.0, "labels": [1, 1, 0, 2]},
    {"group": "a", "tool_reward": 0.0, "summary_reward": 1.0, "labels": [1, 2]},
    {"group": "a", "tool_reward": 0.0, "summary_reward": 0.0, "labels": [1, 2]},
    {"group": 7, "tool_reward": 0.5, "summary_reward": 0.5, "has_tool": True, "has_summary": False},
    {"group": 7, "tool_reward": None, "summary_reward": 0.25, "labels": [2, 2]},
]


def jsonl(folder: Path, rows: list[Any]) -> Path:
    path = folder / "rollouts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_rows_of_another_stack_are_measured(tmp_path: Path) -> None:
    recorded = read_recorded(jsonl(tmp_path, ROWS))
    assert recorded.group_names == ("a", "a", "a", "a", "7", "7")
    assert recorded.groups.scorable.tolist() == [True] * 5 + [False]
    assert recorded.groups.has_summary.tolist() == [True] * 4 + [False, True]
    measures = measure(recorded, Settings())
    # Group a: both rewards explain half of grpo's advantages each; slca's own reward explains all of its own.
    assert measures["contamination"]["grpo"] == pytest.approx({"tool": 0.5, "summary": 0.5})
    assert measures["contamination"]["slca"] == {"tool": 0.0, "summary": 0.0}
    assert measures["signal"]["masked"] == pytest.approx(1 / 6) and measures["signal"]["zero_variance_both"] == 0.5
    assert set(measures["left_out"]) == {"toolpo", "rltr", "slca_call"}
    assert measure(recorded, Settings(), ["slca"])["left_out"] == {}


def test_parquet_says_the_same_as_jsonl(tmp_path: Path) -> None:
    rows = [{"group": "a", "tool_reward": float(n), "summary_reward": 0.5, "labels": [1, 2]} for n in range(3)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rollouts.parquet")
    left, right = read_recorded(tmp_path / "rollouts.parquet"), read_recorded(jsonl(tmp_path, rows))
    assert left.labels == right.labels and left.details == right.details
    assert np.array_equal(left.groups.tool, right.groups.tool)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ([1], r"row 2 is no object"),
        ({"tool_reward": 1, "summary_reward": 1}, r"row 2 has no group"),
        ({**ROWS[0], "tool_reward": "1"}, r"row 2: tool_reward is '1'"),
        ({**ROWS[0], "labels": [1, 5]}, r"row 2: labels holds 5"),
        ({**ROWS[0], "labels": [1.0]}, r"row 2: labels must be a list of whole numbers"),
        ({**ROWS[0], "tokens": ["a"]}, r"row 2: \{'labels': 3, 'tokens': 1\} differ"),
        ({**ROWS[0], "needs_call": 1}, r"row 2: needs_call is 1"),
        ({"group": "a", "tool_reward": 1, "summary_reward": 1}, r"row 2: has_tool is None; give labels"),
    ],
)
def test_a_row_that_does_not_fit_is_named(row: Any, fault: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"rollouts\.jsonl: {fault}"):
        read_recorded(jsonl(tmp_path, [ROWS[0], row]))


@pytest.mark.parametrize(
    ("content", "fault"), [(b"", "holds no rollouts"), (b"{}\n{", "line 2 is not JSON"), (b"\xff\xfe", "not UTF-8")]
)
def test_a_file_that_cannot_be_read_is_refused(content: bytes, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(content if content != b"{}\n{" else json.dumps(ROWS[0]).encode() + b"\n{")
    with pytest.raises(DataError, match=fault):
        read_recorded(path)
    with pytest.raises(DataError, match="does not exist"):
        read_recorded(tmp_path / "nothing")
    (tmp_path / "x.parquet").write_bytes(b"no parquet")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_recorded(tmp_path / "x.parquet")


def ours(task: str, member: int, labels: tuple[int, ...]) -> Rollout:
    ids = tuple(3 + (5 * member + place) % 9 for place in range(len(labels)))
    logprobs = (-1.0,) * len(labels)
    return Rollout(f"{task}@0.4/{member}", task, member, "v", (1, 2), ids, labels, logprobs, (), FinishReason.STOP, "state")


def training_records(folder: Path) -> Path:
    rollouts = [ours("t", member, (1, 1, 0, 2)[: 4 - member % 2]) for member in range(4)] + [ours("u", 0, (2, 2))]
    rewards = [
        a_reward(
            rollout.rollout_id, task_id=rollout.task_id, member=rollout.member, tool_score=row / 8, summary_score=row // 2 / 4
        )
        for row, rollout in enumerate(rollouts)
    ]
    write_rollouts(folder / "rollouts" / "part-00001.parquet", rollouts)
    write_rewards(folder / "rewards" / "part-00001.parquet", rewards)
    return folder


def test_the_records_of_a_training_run_are_measured_for_every_method(tmp_path: Path) -> None:
    recorded = read_recorded(training_records(tmp_path / "slca-0"))
    assert recorded.group_names == ("t@0.4",) * 4 + ("u@0.4",)
    measures = measure(recorded, Settings())
    assert set(measures["contamination"]) == set(METHODS) and not measures["left_out"]
    assert recorded.details[1]["tool_score"] == 1 / 8 and "call_scores" not in recorded.details[1]


def test_rollouts_without_all_their_rewards_are_refused(tmp_path: Path) -> None:
    folder = training_records(tmp_path / "slca-0")
    write_rewards(folder / "rewards" / "part-00001.parquet", [a_reward("t@0.4/0")])
    with pytest.raises(DataError, match="scores 1 of the 5 rollouts"):
        read_recorded(folder)


def test_the_first_groups_are_kept_whole(tmp_path: Path) -> None:
    recorded = read_recorded(training_records(tmp_path / "slca-0"))
    part = first_groups(recorded, 2)
    assert part.ids == recorded.ids[:4] and len(part.groups.group) == 4 and len(part.rollouts) == 4
    assert first_groups(recorded, 5) is recorded


def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(vocab_size=12, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
    )


def test_gradients_of_the_segments_are_those_of_a_plain_loss(tmp_path: Path) -> None:
    """Against the loss written out with the model's own logits, one rollout at a time."""
    recorded = read_recorded(training_records(tmp_path / "slca-0"))
    policy = model()
    found = gradients(policy, recorded, Settings(), "slca")
    advantages = METHODS["slca"](recorded.groups, Settings())
    expected = []
    for segment, values in ((1, advantages.tool), (2, advantages.summary)):
        policy.zero_grad()
        total = torch.zeros(())
        for row, rollout in enumerate(recorded.rollouts):
            ids = torch.tensor([[*rollout.prompt_ids, *rollout.completion_ids]])
            logprobs = policy(input_ids=ids).logits[0, 1:-1].log_softmax(-1)
            for place, label in enumerate(rollout.labels):
                if label == segment:
                    total = total - values[row] * logprobs[place, rollout.completion_ids[place]]
        learnable = sum(label != 0 for labels in recorded.labels for label in labels)
        (total / learnable).backward()
        expected.append(torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None]))
    tool, summary = expected
    assert tool.norm() > 1e-3 and summary.norm() > 1e-3
    assert found["norm_tool"] == pytest.approx(float(tool.norm()), rel=1e-4)
    assert found["norm_summary"] == pytest.approx(float(summary.norm()), rel=1e-4)
    assert found["cosine"] == pytest.approx(float(tool @ summary / tool.norm() / summary.norm()), abs=1e-4)


def test_a_segment_without_credit_has_no_direction(tmp_path: Path) -> None:
    recorded = read_recorded(training_records(tmp_path / "slca-0"))
    assert gradients(model(), recorded, Settings(), "rltr")["cosine"] is None
    with pytest.raises(DataError, match="token ids"):
        gradients(model(), replace(recorded, rollouts=()), Settings(), "slca")


def test_the_command_prints_and_writes_the_same_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    diagnose(jsonl(tmp_path, ROWS), None, (), None, 8, out, tmp_path / "no-params.yaml")
    printed = capsys.readouterr().out
    assert "6 rollouts in 2 groups" in printed and "0.500" in printed and "rltr is left out" in printed
    written = json.loads((out / "diagnosis.json").read_text())
    assert written["contamination"]["grpo"]["tool"] == pytest.approx(0.5)
    assert "| grpo | 0.500 | 0.500 |" in (out / "diagnosis.md").read_text()
    before = (out / "contamination.svg").read_bytes()
    diagnose(jsonl(tmp_path, ROWS), None, (), None, 8, out, tmp_path / "no-params.yaml")
    assert (out / "contamination.svg").read_bytes() == before


def test_an_unknown_method_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no method 'ppo'"):
        measure(read_recorded(jsonl(tmp_path, ROWS)), Settings(), ["ppo"])
