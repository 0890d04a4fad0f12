"""The log-prob that sampling recorded for each token is that of one full forward pass, in every chat format.

A tiny Llama learns two conversations of the format by heart, one of which opens with a call that breaks off, so that its rollouts
hold real calls, real results, errors and replies of several lengths.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from chat_families import FAMILIES, stand_in
from transformers import LlamaConfig, LlamaForCausalLM

from slca import params as p
from slca.chat import FORMATS, ChatFormat
from slca.policy.model import Policy
from slca.records import Call, Rollout, Segment, Task
from slca.rollouts.calls import execute
from slca.rollouts.engine import Engine, Request
from slca.rollouts.lean import fits
from slca.sgls.simulator import Session, render_result
from slca.sgls.tool import load_tools

FAMILY_OF = {of.format: family for family, of in FAMILIES.items()}
CALLS = [Call("get_weather", {"city": "Łódź"}), Call("get_weather", {"city": "Oslo", "days": 2})]
REPLY = "Rain in Łódź, snow in Oslo."


def conversation(chat: ChatFormat, task: Task, turns: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """The tokens of a conversation in which the assistant says ``turns``, and the same as labels, -100 for the others' tokens."""
    session = Session(load_tools(task.tools, "test"), task.state, p.Simulator(), session=task.task_id)
    ids = chat.prompt_ids([{"role": "user", "content": task.question}], task.tools)
    labels = [-100] * len(ids)
    for turn in turns:
        read = chat.read_turn(turn, "tool")
        results = [render_result(attempt.result, 2048) for attempt in execute(session, read.calls, 9)]
        glue = chat.glue_ids(read.calls, results, turn) if read.calls else []
        ids += [*turn, *glue]
        labels += [*turn, *[-100] * len(glue)]
    return ids, labels


def learned(chat: ChatFormat, task: Task) -> Policy:
    """A tiny Llama, four heads of which share two sets of keys, that says the two conversations more often than not."""
    torch.manual_seed(0)
    calls = [chat.call_turn([call]) for call in CALLS]
    broken = [*calls[0][: len(calls[0]) * 2 // 3], chat.end_id]
    assert chat.read_turn(broken, "tool").calls[0].error
    reply = chat.reply_turn(REPLY)
    examples = [conversation(chat, task, turns) for turns in ([*calls, reply], [broken, calls[1], reply])]
    size = max(len(ids) for ids, _ in examples)
    ids = torch.tensor([own + [chat.pad_id] * (size - len(own)) for own, _ in examples])
    labels = torch.tensor([own + [-100] * (size - len(own)) for _, own in examples])
    config = LlamaConfig(
        vocab_size=len(chat.tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
    )
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(300):
        loss = model(input_ids=ids, labels=labels).loss
        if loss.item() < 0.05:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return Policy(model.eval(), chat, "tiny")


@torch.no_grad()
def of_one_pass(model: Any, rollout: Rollout) -> torch.Tensor:
    ids = torch.tensor([[*rollout.prompt_ids, *rollout.completion_ids]])
    logprobs = torch.log_softmax(model(ids).logits[0, len(rollout.prompt_ids) - 1 : -1].float(), -1)
    return logprobs.gather(1, ids[0, len(rollout.prompt_ids) :, None])[:, 0]


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_recorded_logprobs_are_those_of_one_full_pass(format: str, task: Task) -> None:
    policy = learned(stand_in(FAMILY_OF[format]), task)
    assert fits(policy.model)
    longer = replace(task, task_id="longer", question="Please tell me: w" + task.question[1:])
    requests = [Request(asked, member) for member in range(5) for asked in (task, longer)]
    rollouts = Engine(policy, p.Rollouts(max_rows=4, max_failures=4), p.Simulator(), 0).run(requests)
    for rollout in rollouts:
        sampled = torch.tensor(rollout.labels) != Segment.ENV
        recorded = torch.tensor(rollout.logprobs)
        torch.testing.assert_close(recorded[sampled], of_one_pass(policy.model, rollout)[sampled], atol=1e-4, rtol=0)
        assert (recorded[~sampled] == 0).all()
    errors = {attempt.error for rollout in rollouts for attempt in rollout.attempts}
    assert None in errors and len(errors) > 1
    assert max(len(rollout.steps) for rollout in rollouts) > 2
    assert len({len(rollout.completion_ids) for rollout in rollouts}) > 2
