"""A real language model: SmolLM2-135M-Instruct (tests/smollm.py)."""

import pytest
import smollm
import torch

from slca.policy.model import Policy, load_policy
from slca.rollouts.sampler import TransformersGenerator

QUESTIONS = ["What is the capital of France?", "Name three colours.", "What is the capital of France?", "Count to five."]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def smollm2() -> Policy:
    return load_policy(smollm.model_folder())


def prompts(policy: Policy) -> list[list[int]]:
    return [policy.format.prompt_ids([{"role": "user", "content": question}], ()) for question in QUESTIONS]


@torch.no_grad()
def test_two_greedy_turns_are_those_of_generate_and_their_logprobs_those_of_a_full_pass(smollm2: Policy) -> None:
    generator = TransformersGenerator(smollm2.model, smollm2.format.stop_ids, 0.0, 3)
    history = prompts(smollm2)
    more = smollm2.format.encode("\n<|im_start|>user\nAre you sure?<|im_end|>\n<|im_start|>assistant\n")
    for key, prompt in enumerate(history):
        generator.add(key, prompt, 16, seed=key)
    turns = [0] * len(history)
    while min(turns) < 2:
        for key, turn in generator.step():
            ids = history[key]
            output = smollm2.model.generate(
                torch.tensor([ids]),
                attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                max_new_tokens=16,
                do_sample=False,
                eos_token_id=sorted(smollm2.format.stop_ids),
                pad_token_id=smollm2.format.pad_id,
            )
            assert turn.ids == output[0, len(ids) :].tolist()
            logits = smollm2.model(torch.tensor([ids + turn.ids])).logits[0, len(ids) - 1 : -1].float()
            expected = torch.log_softmax(logits, -1).gather(1, torch.tensor(turn.ids)[:, None])[:, 0]
            torch.testing.assert_close(torch.tensor(turn.logprobs), expected, atol=1e-4, rtol=0)
            history[key] = [*ids, *turn.ids, *more]
            turns[key] += 1
            if turns[key] < 2:
                generator.go_on(key, more, 16)
            else:
                generator.drop(key)
