"""Tokenizer, optimizer and loading of policies."""

from pathlib import Path

import pytest
import torch

from slca import params as p
from slca.chat import ChatFormat
from slca.errors import DataError
from slca.policy.model import Policy, load_policy, new_model
from slca.policy.optimizer import MuonWithAdamW


@pytest.mark.parametrize("value", ["Łódź", "東京", "FL204", "2027-05-06", "Ada Berg"])
def test_a_value_has_the_same_tokens_in_a_question_and_in_a_call(chat: ChatFormat, value: str) -> None:
    alone = chat.encode(value)
    for text in (f"Go to {value}", f'"city": "{value}"'):
        ids = chat.encode(text)
        assert any(ids[start : start + len(alone)] == alone for start in range(len(ids)))
    assert chat.decode(alone) == value


def save(policy: Policy, folder: Path) -> None:
    policy.model.save_pretrained(folder)
    policy.format.tokenizer.save_pretrained(folder)


def test_a_saved_policy_loads_with_the_same_weights_template_and_a_version_of_its_own(policy: Policy, tmp_path: Path) -> None:
    save(policy, tmp_path)
    loaded = load_policy(tmp_path)
    for name, value in policy.model.state_dict().items():
        assert torch.equal(value, loaded.model.state_dict()[name])
    assert loaded.format.tokenizer.chat_template == policy.format.tokenizer.chat_template
    with torch.no_grad():
        loaded.model.model.norm.weight[0] += 1
    save(loaded, tmp_path / "changed")
    assert load_policy(tmp_path / "changed").version != loaded.version


def test_missing_and_damaged_models_are_refused_by_name(policy: Policy, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"config\.json does not exist"):
        load_policy(tmp_path / "nothing")
    save(policy, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(DataError, match="does not hold a model"):
        load_policy(tmp_path)


def steps(model: torch.nn.Module, optimizer: MuonWithAdamW, first: int, last: int) -> None:
    for step in range(first, last):
        ids = torch.randint(9, 250, (2, 12), generator=torch.Generator().manual_seed(step))
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def fresh() -> torch.nn.Module:
    torch.manual_seed(0)
    return new_model(p.Warmstart(hidden_size=32, layers=1, heads=2), 300, 0, 2)


def test_optimizer_holds_every_parameter_once_and_resumes_exactly() -> None:
    whole = fresh()
    optimizer = MuonWithAdamW(whole, 1e-2, 0.01)
    held = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    assert sorted(held) == sorted(id(parameter) for parameter in whole.parameters())
    steps(whole, optimizer, 0, 6)

    cut = fresh()
    before = MuonWithAdamW(cut, 1e-2, 0.01)
    steps(cut, before, 0, 3)
    after = MuonWithAdamW(cut, 1e-2, 0.01)
    after.load_state_dict(before.state_dict())
    steps(cut, after, 3, 6)
    for left, right in zip(whole.parameters(), cut.parameters(), strict=True):
        assert torch.equal(left, right)
