"""The warm start of a pretrained base: what is learned, what is noted, and what comes out is a plain model."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_base import save_base
from transformers import AutoModelForCausalLM

from slca import params as p
from slca.errors import DataError
from slca.files import write_json
from slca.policy import pretrained, warmstart
from slca.policy.demonstrations import IGNORED
from slca.policy.finetune import row_loss
from slca.policy.model import load_policy
from slca.records import Task
from slca.tables import write_tasks


@pytest.fixture
def root(tmp_path: Path, task: Task) -> Path:
    write_tasks(tmp_path / "data" / "tasks" / "train.parquet", [task])
    return tmp_path


def prepared(root: Path, tokens: tuple[str, ...] = (), **changes: object) -> p.Params:
    """Parameters of a short warm start whose base is in place."""
    base = str(save_base(root / "given", tokens))
    settings = p.Warmstart(
        **{
            "base": base,
            "demonstrations": 12,
            "batch_size": 4,
            "learning_rate": 1e-2,
            "threads": 1,
            "max_positions": 600,
            **changes,
        }
    )
    params = p.Params(warmstart=settings)
    pretrained.run(params, root)
    return params


def saved(root: Path, name: str) -> dict[str, torch.Tensor]:
    return load_file(root / "models" / name / "model.safetensors")


@pytest.mark.parametrize("rank", [0, 4])
def test_the_outcome_is_a_plain_model_that_knows_its_format_and_its_limit(root: Path, rank: int) -> None:
    warmstart.run(prepared(root, lora_rank=rank), root)
    before, after = saved(root, "base"), saved(root, "warmstart")
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    layers = {name for name in before if "proj" in name}
    assert changed == (layers if rank else set(before))  # adapters are on the matrices inside the layers alone
    policy = load_policy(root / "models" / "warmstart")
    assert (policy.format.name, policy.max_positions) == ("chatml", 600)
    again = root / "again"
    policy.model.save_pretrained(again)
    policy.format.tokenizer.save_pretrained(again)
    assert load_policy(again).max_positions == 600  # as later stages save it


def test_a_model_may_take_fewer_tokens_than_the_limit(root: Path) -> None:
    warmstart.run(prepared(root, max_positions=100_000), root)
    assert load_policy(root / "models" / "warmstart").max_positions == 4096


def test_the_warm_start_lowers_the_loss_and_longer_conversations_are_left_out(root: Path, task: Task) -> None:
    with pytest.raises(DataError, match=r"None of 12 conversations has at most warmstart\.max_tokens = 50"):
        warmstart.run(prepared(root, max_tokens=50), root)
    params = prepared(root, corrupted=0.0, epochs=4)
    warmstart.run(params, root)
    chat = load_policy(root / "models" / "base").format
    (example, *_) = warmstart.demonstrations([task], params, chat)
    ids, labels = torch.tensor([example.ids]), torch.tensor([example.labels])
    with torch.no_grad():
        losses = [float(row_loss(load_policy(root / "models" / name).model, ids, labels)[0]) for name in ("base", "warmstart")]
    assert losses[1] < 0.8 * losses[0]


def test_in_bf16_the_weights_stay_in_fp32_and_learn_nearly_the_same(root: Path) -> None:
    for precision in ("fp32", "bf16"):
        warmstart.run(prepared(root, precision=precision), root)
        (root / "models" / "warmstart").rename(root / "models" / precision)
    before, exact, rounded = (saved(root, name) for name in ("base", "fp32", "bf16"))
    assert {value.dtype for value in rounded.values()} == {torch.float32}
    learned = sum(float((exact[name] - before[name]).square().sum()) for name in before)
    apart = sum(float((exact[name] - rounded[name]).square().sum()) for name in before)
    assert 0 < apart < 0.1 * learned


def test_the_loss_of_single_rows_is_that_of_the_padded_batch_with_its_gradient(root: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(save_base(root / "given"), dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    lengths = [9, 14, 5]
    ids = torch.randint(5, 300, (3, 14), generator=generator)
    mask = torch.tensor([[1] * n + [0] * (14 - n) for n in lengths])
    labels = torch.where((torch.rand(3, 14, generator=generator) < 0.4) & mask.bool(), ids, IGNORED)
    labels[:, 0] = IGNORED
    whole = model(input_ids=ids, attention_mask=mask, labels=labels).loss
    whole.backward()
    expected = model.model.layers[0].mlp.up_proj.weight.grad.clone()
    model.zero_grad()
    parts = [row_loss(model, ids[i : i + 1, :n], labels[i : i + 1, :n]) for i, n in enumerate(lengths)]
    count = sum(number for _, number in parts)
    assert count == int((labels != IGNORED).sum())
    loss = sum(part for part, _ in parts) / count
    loss.backward()
    torch.testing.assert_close(loss, whole, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(model.model.layers[0].mlp.up_proj.weight.grad, expected, atol=1e-6, rtol=1e-5)


def test_where_two_formats_fit_one_is_named(root: Path) -> None:
    tokens = ("<tool_call>", "</tool_call>", "<start_of_turn>", "<end_of_turn>")
    with pytest.raises(DataError, match=r"warmstart\.base .*fit hermes and gemma3.*name the one"):
        warmstart.run(prepared(root, tokens), root)
    with pytest.raises(DataError, match=r"warmstart\.chat_format 'hermse'"):
        warmstart.run(prepared(root, tokens, chat_format="hermse"), root)
    warmstart.run(prepared(root, tokens, chat_format="hermes"), root)
    assert load_policy(root / "models" / "warmstart").format.name == "hermes"  # no later stage has to be told


def test_a_folder_with_another_base_is_refused(root: Path) -> None:
    params = prepared(root)
    write_json(root / "models" / "base" / pretrained.NOTE, {"base": "other", "sha256": ""})
    with pytest.raises(DataError, match=r"holds another base than .* run the stage base again"):
        warmstart.run(params, root)
