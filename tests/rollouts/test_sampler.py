"""The generator on transformers against plain full forward passes and `generate`."""

import copy
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    Cohere2Config,
    DeepseekV3Config,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GptOssConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MistralConfig,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
    SmolLM3Config,
    T5Config,
    T5ForConditionalGeneration,
)
from trl.trainer.utils import add_fused_lm_head

from slca.errors import DataError
from slca.policy.model import Policy
from slca.rollouts import slots
from slca.rollouts.generator import Turn
from slca.rollouts.lean import fits
from slca.rollouts.prefixes import prefixes
from slca.rollouts.sampler import TransformersGenerator, draw
from slca.rollouts.slots import Slots

PROMPTS = [[11, 12, 13], [20, 21, 22, 23, 24, 25, 26], [11, 12, 13], [30], [20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 40]]
END = frozenset({2})


def generator(policy: Policy, temperature: float = 1.0, rows: int = 8) -> TransformersGenerator:
    return TransformersGenerator(policy.model, policy.format.stop_ids, temperature, rows)


def turns(generator: TransformersGenerator, wanted: int) -> dict[int, Turn]:
    ended: dict[int, Turn] = {}
    while len(ended) < wanted:
        ended.update(generator.step())
    return ended


def sample(generator: TransformersGenerator, prompts: Sequence[Sequence[int]], limit: int) -> list[Turn]:
    for key, prompt in enumerate(prompts):
        generator.add(key, prompt, limit, seed=key)
    ended = turns(generator, len(prompts))
    return [ended[key] for key in range(len(prompts))]


def converse(
    generator: TransformersGenerator, prompts: Sequence[Sequence[int]], glue: Callable[[int, int], list[int]], rounds: int
) -> list[list[tuple[list[int], Turn]]]:
    """Per conversation, its turns, each with all ids before it."""
    history = [list(prompt) for prompt in prompts]
    said: list[list[tuple[list[int], Turn]]] = [[] for _ in prompts]
    for key, prompt in enumerate(prompts):
        generator.add(key, prompt, 10, seed=key)
    going = len(prompts)
    while going:
        for key, turn in generator.step():
            said[key].append((list(history[key]), turn))
            if len(said[key]) == rounds:
                generator.drop(key)
                going -= 1
            else:
                more = glue(key, len(said[key]))
                history[key] += [*turn.ids, *more]
                generator.go_on(key, more, 10)
    return said


@torch.no_grad()
def greedy(model: Any, ids: list[int], limit: int, end: int) -> list[int]:
    output = model.generate(
        torch.tensor([ids]),
        attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        max_new_tokens=limit,
        do_sample=False,
        eos_token_id=end,
        pad_token_id=0,
    )
    return list(output[0, len(ids) :].tolist())


@torch.no_grad()
def full_logprobs(model: Any, ids: list[int], turn: Turn) -> torch.Tensor:
    logits = model(torch.tensor([ids + turn.ids])).logits[0, len(ids) - 1 : -1].float()
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(turn.ids)[:, None])[:, 0]


# Exactness


def test_greedy_equals_generate_token_for_token(policy: Policy) -> None:
    for prompt, turn in zip(PROMPTS, sample(generator(policy, 0.0), PROMPTS, 24), strict=True):
        assert turn.ids == greedy(policy.model, prompt, 24, policy.format.end_id)


def test_recorded_logprobs_equal_those_of_one_full_forward_pass(policy: Policy) -> None:
    for prompt, turn in zip(PROMPTS, sample(generator(policy), PROMPTS, 24), strict=True):
        expected = full_logprobs(policy.model, prompt, turn)
        torch.testing.assert_close(torch.tensor(turn.logprobs), expected, atol=1e-5, rtol=0)


SHAPE: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LATENT = {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
EXPERTS = {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
FAMILIES: dict[str, Callable[[], Any]] = {
    "llama": lambda: LlamaConfig(**SHAPE),
    "qwen2": lambda: Qwen2Config(**SHAPE),
    "qwen2 with windows in some layers": lambda: Qwen2Config(
        **SHAPE, use_sliding_window=True, sliding_window=8, max_window_layers=2
    ),
    "qwen3": lambda: Qwen3Config(**SHAPE, head_dim=8),
    "mistral with a window": lambda: MistralConfig(**SHAPE, sliding_window=8),
    "gemma2, eager": lambda: Gemma2Config(**SHAPE, head_dim=8, sliding_window=8, attn_implementation="eager"),
    "gemma3": lambda: Gemma3TextConfig(**SHAPE, head_dim=8, sliding_window=8),
    "phi3": lambda: Phi3Config(**SHAPE),
    "smollm3": lambda: SmolLM3Config(**SHAPE),
    "cohere2": lambda: Cohere2Config(**SHAPE, head_dim=8, sliding_window=8),
    "gpt-oss": lambda: GptOssConfig(**SHAPE, head_dim=8, sliding_window=8, num_local_experts=4),
    "deepseek": lambda: DeepseekV3Config(**{**SHAPE, "num_key_value_heads": 4}, **LATENT, **EXPERTS),
    "gpt2": lambda: GPT2Config(vocab_size=97, n_positions=256, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2),
}


def random_model(family: str) -> Any:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(FAMILIES[family]()).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data.normal_(0, 0.3)  # so that texts differ and sometimes end
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_many_turns_in_few_rows_are_those_of_generate(family: str) -> None:
    """Nine conversations of three turns in three rows, of which some begin alike: queueing, copying, moving, windows."""
    model = random_model(family)
    rng = np.random.default_rng(0)
    shared = rng.integers(3, 97, 12).tolist()
    prompts = [shared[: rng.integers(1, 12)] + rng.integers(3, 97, rng.integers(1, 20)).tolist() for _ in range(9)]
    prompts[3] = prompts[4] = prompts[0]
    more = {(key, turn): rng.integers(3, 97, rng.integers(1, 9)).tolist() for key in range(9) for turn in (1, 2)}
    said = converse(TransformersGenerator(model, END, 0.0, 3), prompts, lambda key, turn: more[key, turn], 3)
    for conversation in said:
        for before, turn in conversation:
            assert turn.ids == greedy(model, before, 10, 2)
            torch.testing.assert_close(torch.tensor(turn.logprobs), full_logprobs(model, before, turn), atol=1e-4, rtol=0)


@pytest.mark.parametrize(("family", "shares"), [("llama", True), ("qwen3", True), ("mistral with a window", False)])
def test_members_whose_prompt_is_read_once_say_what_one_full_pass_says(
    family: str, shares: bool, always_worth_it: Callable[[], AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of unequal size in fewer rows, two turns each; then conversations that begin with what two members said."""
    model = random_model(family)
    found = []
    monkeypatch.setattr(slots, "prefixes", lambda *given: found.append(prefixes(*given)) or found[-1])
    rng = np.random.default_rng(0)
    prompts = [prompt for size in (20, 12, 15) for prompt in [rng.integers(3, 97, size).tolist()] * (size // 4)]
    more = {(key, turn): rng.integers(3, 97, rng.integers(1, 9)).tolist() for key in range(len(prompts)) for turn in (1, 2)}
    with always_worth_it():
        said = converse(TransformersGenerator(model, END, 1.0, 8), prompts, lambda key, turn: more[key, turn], 2)
        assert any(found) is shares
        rows = TransformersGenerator(model, END, 1.0, 8)
        first = sample(rows, prompts[:2], 10)
        begun = [prompts[0] + turn.ids for turn in first]
        assert first[0].ids != first[1].ids
        for key, prompt in enumerate([*begun, *begun], start=2):
            rows.add(key, prompt, 10, seed=key)
        later = turns(rows, 4)
    for conversation in [*said, *([(begun[key % 2], turn)] for key, turn in later.items())]:
        for before, turn in conversation:
            torch.testing.assert_close(torch.tensor(turn.logprobs), full_logprobs(model, before, turn), atol=1e-4, rtol=0)


def test_models_that_would_not_be_exact_are_refused_with_the_reason() -> None:
    mamba = AutoModelForCausalLM.from_config(MambaConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2))
    with pytest.raises(DataError, match=r"'mamba'.*linear_attention layers keep no KV cache"):
        Slots(mamba)
    llama = AutoModelForCausalLM.from_config(LlamaConfig(**SHAPE))
    llama.config._attn_implementation = "flex_attention"
    with pytest.raises(DataError, match=r"'flex_attention'; load it with attn_implementation 'sdpa' or 'eager'"):
        Slots(llama)
    shared = AutoModelForCausalLM.from_config(LlamaConfig(**SHAPE, num_kv_shared_layers=2))
    with pytest.raises(DataError, match="some of its layers have no keys and values of their own"):
        Slots(shared)
    t5 = T5ForConditionalGeneration(T5Config(vocab_size=97, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4))
    with pytest.raises(DataError, match="T5ForConditionalGeneration cannot be rolled out"):
        Slots(t5)


def _hooked(model: Any) -> None:
    model.model.layers[1].mlp.register_forward_hook(lambda *_: None)


def _replaced(model: Any) -> None:
    class Adapter(torch.nn.Linear): ...

    model.model.layers[0].self_attn.q_proj = Adapter(32, 32)


def _patched(model: Any) -> None:
    forward = model.forward
    model.forward = lambda **arguments: forward(**arguments)


def _half(model: Any) -> None:
    model.lm_head.bfloat16()


def _gelu(model: Any) -> None:
    model.config.hidden_act = "gelu"


@pytest.mark.parametrize("change", [_hooked, _replaced, _patched, _half, _gelu])
def test_a_model_that_is_not_as_its_class_was_written_is_computed_by_its_own_forward(change: Callable[[Any], None]) -> None:
    model = LlamaForCausalLM(LlamaConfig(**SHAPE))
    assert fits(model)
    add_fused_lm_head(model)  # as TRL's trainers do
    assert fits(model)
    change(model)
    assert not fits(model)


def test_both_ways_to_compute_a_llama_say_the_same(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens and, up to rounding, log-probs. That the second is the model's own way is told by its forward's calls."""
    lean = sample(generator(policy), PROMPTS, 24)
    calls = []
    forward = policy.model.forward

    @functools.wraps(forward)
    def counted(**arguments: Any) -> Any:
        calls.append(arguments)
        return forward(**arguments)

    monkeypatch.setattr(policy.model, "forward", counted)
    own = sample(generator(policy), PROMPTS, 24)
    assert calls
    for one, other in zip(lean, own, strict=True):
        assert one.ids == other.ids
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def test_weights_are_those_of_the_moment_in_which_the_generator_is_made(policy: Policy) -> None:
    model = copy.deepcopy(policy.model)
    before = sample(generator(Policy(model, policy.format, "1")), PROMPTS, 6)
    with torch.no_grad():
        model.lm_head.weight.mul_(-3)
    (first, *_) = sample(generator(Policy(model, policy.format, "2")), PROMPTS, 6)
    torch.testing.assert_close(torch.tensor(first.logprobs), full_logprobs(model, PROMPTS[0], first), atol=1e-5, rtol=0)
    assert first.logprobs != before[0].logprobs


# Independence


@settings(max_examples=15)
@given(st.permutations(range(5)), st.integers(1, 5), st.integers(0, 3))
def test_a_conversation_is_the_same_alone_in_any_order_and_in_any_number_of_rows(
    policy: Policy, order: list[int], rows: int, late: int
) -> None:
    alone = []
    for key, prompt in enumerate(PROMPTS):
        one = generator(policy)
        one.add(key, prompt, 12, seed=key)
        alone.append(turns(one, 1)[key])
    together = generator(policy, rows=rows)
    ended: dict[int, Turn] = {}
    for key in order[late:]:
        together.add(key, PROMPTS[key], 12, seed=key)
    for step in range(100):
        for key, turn in together.step():
            ended[key] = turn
            together.drop(key)
        if step == 0:
            for key in order[:late]:  # while others are in the middle of their turns
                together.add(key, PROMPTS[key], 12, seed=key)
    assert len(ended) == len(PROMPTS)
    for key, turn in enumerate(alone):
        assert (ended[key].ids, ended[key].ended) == (turn.ids, turn.ended)
        assert ended[key].logprobs == pytest.approx(turn.logprobs, abs=1e-5)


def test_a_conversation_that_waits_for_its_results_stalls_no_other(policy: Policy) -> None:
    """Two of three rows wait; the third samples on, and what the two become does not depend on how long they waited."""

    def play(patience: int) -> list[Turn]:
        rows = generator(policy, rows=3)
        first = sample(rows, PROMPTS[:2], 3)
        rows.add(2, PROMPTS[4], 40, seed=9)
        waited = [turn for _ in range(patience) for turn in rows.step()]
        assert all(key == 2 for key, _ in waited)
        for key in (1, 0):
            rows.go_on(key, [31, 32, 33], 6)
        ended = turns(rows, 3 - len(waited)) | dict(waited)
        return [*first, ended[0], ended[1], ended[2]]

    at_once, late = play(0), play(17)
    assert [turn.ids for turn in late] == [turn.ids for turn in at_once]


# The cache


def test_the_cache_is_bounded_however_many_conversations_pass_through_it(policy: Policy) -> None:
    """No holes: 200 conversations of two turns in 4 rows; the cache never has more than 4 rows of 512 columns."""
    rng = np.random.default_rng(1)
    prompts = [rng.integers(9, 90, rng.integers(1, 20)).tolist() for _ in range(200)]
    rows = generator(policy, rows=4)

    def glue(key: int, turn: int) -> list[int]:
        assert rows.slots.shape[0] <= 4 and rows.slots.shape[1] <= 512
        return [5] * (1 + key % 3)

    said = converse(rows, prompts, glue, 2)
    assert [len(conversation) for conversation in said] == [2] * 200
    assert rows.slots.shape[0] <= 4 and rows.slots.shape[1] <= 512


def test_the_members_of_a_group_cost_one_prompt_and_no_history_is_computed_again(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[int] = []
    forward = Slots.forward

    def counted(self: Slots, slots: Any, tokens: Any, *rest: Any) -> torch.Tensor:
        computed.append(sum(len(row) for row in tokens))
        return forward(self, slots, tokens, *rest)

    monkeypatch.setattr(Slots, "forward", counted)
    prompt, glue = list(range(10, 60)), [5, 6, 7]
    said = converse(generator(policy), [prompt] * 4, lambda key, turn: glue, 2)
    sampled = sum(len(turn.ids) for conversation in said for _, turn in conversation)
    # The prompt once and its last token for the three others; then every token once, but the last of each conversation.
    assert sum(computed) == len(prompt) + 3 + (sampled - 4) + 4 * len(glue)


# Sampling


def test_sampling_follows_the_distribution() -> None:
    """20,000 draws against the probabilities, over more than one block: root mean square deviation of one, in deviations."""
    rows, vocabulary = 20_000, 600
    logits = torch.randn(vocabulary, generator=torch.Generator().manual_seed(0)) * 2
    uniforms = np.random.default_rng(2).random(rows)
    tokens, logprobs = draw(logits.expand(rows, -1), uniforms.tolist(), 1.0)
    probabilities = torch.softmax(logits.double(), -1).numpy()
    counts = np.bincount(tokens, minlength=vocabulary)
    deviations = (counts - rows * probabilities) / np.sqrt(rows * probabilities * (1 - probabilities))
    assert np.sqrt(np.mean(deviations**2)) == pytest.approx(1.0, abs=0.1)
    np.testing.assert_allclose(logprobs, np.log(probabilities)[tokens], atol=2e-6)


@settings(max_examples=60)
@given(st.integers(1, 5), st.sampled_from([3, 255, 256, 257, 700]), st.floats(0.3, 2.0), st.integers(0, 2**31))
def test_a_draw_is_the_inverse_transform_and_never_takes_what_is_impossible(
    rows: int, vocabulary: int, temperature: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 4, (rows, vocabulary)).astype(np.float32)
    logits[:, rng.random(vocabulary) < 0.5] = -np.inf
    logits[:, rng.integers(vocabulary)] = 1.0
    uniforms = [*rng.random(rows - 1).tolist(), 1 - 2**-53]
    tokens, _ = draw(torch.from_numpy(logits), uniforms, temperature)
    cumulative = torch.softmax(torch.from_numpy(logits).double() / temperature, -1).cumsum(-1)
    for row, (token, uniform) in enumerate(zip(tokens, uniforms, strict=True)):
        assert logits[row, token] > -np.inf
        before = cumulative[row, token - 1].item() if token else 0.0
        assert before - 1e-6 <= uniform <= cumulative[row, token].item() + 1e-6


def test_temperature_enters_the_recorded_logprob() -> None:
    logits = torch.randn(1, 300, generator=torch.Generator().manual_seed(1))
    (token,), (logprob,) = draw(logits, [0.3], 0.5)
    assert logprob == pytest.approx(torch.log_softmax(logits / 0.5, -1)[0, token].item(), abs=1e-6)


def test_greedy_takes_the_first_of_the_likeliest() -> None:
    (token,), (logprob,) = draw(torch.tensor([[0.0, 2.0, 2.0]]), [0.9], 0.0)
    assert token == 1
    assert logprob == pytest.approx(2 - np.log(1 + 2 * np.exp(2)), abs=1e-6)
