"""The README's script as it stands there: TRL's own tool loop, with a tiny model that has learned to call and to reply."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from chat_families import stand_in
from transformers import LlamaConfig, LlamaForCausalLM

from slca.chat import ChatFormat
from slca.records import Call, Segment

README = Path(__file__).parents[2] / "README.md"
PAIRS = [(12, 7), (31, 4), (25, 25), (9, 81)]

pytestmark = pytest.mark.slow


def script() -> str:
    """The code block of the README that trains with TRL."""
    (block,) = (
        code for code in re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S) if "GRPOConfig" in code
    )
    return str(block)


def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a * b


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was shown what to say, and says it now and then: calls, refused calls and replies all occur."""
    from transformers.utils import get_json_schema

    chat: ChatFormat = stand_in("qwen2.5")
    tool = get_json_schema(multiply)
    shown = []
    for a, b in PAIRS:
        prompt = chat.tokenizer.apply_chat_template(
            [{"role": "user", "content": f"What is {a} times {b}?"}], tools=[tool], add_generation_prompt=True, tokenize=True,
            return_dict=False,
        )  # fmt: skip
        calls = [Call("multiply", {"a": a, "b": b})]
        turn = chat.call_turn(calls)
        glue, reply = chat.glue_ids(calls, [str(a * b)], turn), chat.reply_turn(f"It is {a * b}.")
        ids = torch.tensor([[*prompt, *turn, *glue, *reply]])
        labels = torch.tensor([[*[-100] * len(prompt), *turn, *[-100] * len(glue), *reply]])
        shown.append((ids, labels))
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(chat.tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=2048, tie_word_embeddings=True, pad_token_id=chat.pad_id, eos_token_id=chat.end_id,
        bos_token_id=None,
    )  # fmt: skip
    policy = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
    for step in range(240):
        ids, labels = shown[step % len(shown)]
        policy(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    folder = tmp_path_factory.mktemp("model")
    policy.save_pretrained(folder)
    chat.tokenizer.save_pretrained(folder)
    return folder


def test_the_readme_s_script_trains_with_trl_s_own_tool_loop(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = script().replace("Qwen/Qwen2.5-0.5B-Instruct", str(model)).replace("max_steps=20", "max_steps=2")
    text = text.replace(
        'GRPOConfig("multiply",', 'GRPOConfig("multiply", bf16=False, use_cpu=True, report_to=[], max_completion_length=96,'
    )
    text = text.replace('    estimator="slca",', '    estimator="slca", on_batch=batches.append,')
    batches: list[Any] = []
    names: dict[str, Any] = {"batches": batches, "__name__": "readme"}
    exec(compile(text, "README.md", "exec"), names)
    assert len(batches) == 2
    seen: set[int] = set()
    for batch in batches:
        for labels, advantages in zip(batch.labels, batch.advantages, strict=True):
            seen |= set(labels)
            for label in (Segment.TOOL, Segment.SUMMARY):
                # One credit per segment, and none on what TRL put in between.
                assert len({a for a, own in zip(advantages, labels, strict=True) if own == label}) <= 1
            assert not any(a for a, own in zip(advantages, labels, strict=True) if own == Segment.ENV)
        assert batch.groups.has_tool.any()
    assert {Segment.TOOL, Segment.SUMMARY} <= seen
    assert Segment.ENV in seen, "no tool was called"
