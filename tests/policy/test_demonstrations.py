"""What the warm start learns from: only the assistant's tokens, and mistakes that are mistakes."""

import random

from samples import STATE

from slca import params as p
from slca.chat import ChatFormat
from slca.policy.demonstrations import IGNORED, Demonstration, arrange, corrupt, demonstrations, encode
from slca.records import Task


def prompt(task: Task, chat: ChatFormat) -> list[int]:
    return chat.prompt_ids([{"role": "user", "content": task.question}], task.tools)


def test_loss_covers_exactly_the_assistants_turns(chat: ChatFormat, task: Task) -> None:
    example = encode(task, task.gold, task.reply, prompt(task, chat), p.Simulator(), chat)
    learned = [i for i, label in zip(example.ids, example.labels, strict=True) if label != IGNORED]
    assert chat.decode(learned) == (
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Łódź"}}</tool_call><|im_end|>'
        "The weather in Łódź is rain.<|im_end|>"
    )
    assert all(label in (IGNORED, i) for i, label in zip(example.ids, example.labels, strict=True))
    assert '<tool_response>{"city":"Łódź","sky":"rain"}</tool_response>' in chat.decode(example.ids)


def test_every_mistake_differs_from_the_gold_plan_or_reply(task: Task) -> None:
    seen = set()
    for seed in range(200):
        plan, reply = corrupt(task, random.Random(seed))
        seen.add((repr(plan), reply))
    assert len(seen) > 6
    same = sum((plan, reply) == (repr(task.gold), task.reply) for plan, reply in seen)
    assert same <= 1  # a wrong tool may be drawn right


def test_a_mistake_is_answered_by_the_simulator(chat: ChatFormat, task: Task) -> None:
    wrong = ((task.gold[0][0].__class__("get_weather", {"city": "Nowhere"}),),)
    text = chat.decode(encode(task, wrong, "Sorry.", prompt(task, chat), p.Simulator(), chat).ids)
    assert '"not_found"' in text and "Nowhere" not in STATE["weather"]


def test_share_of_mistakes_is_the_parameters(chat: ChatFormat, task: Task) -> None:
    params = p.Params(warmstart=p.Warmstart(demonstrations=400, corrupted=0.5))
    flawless = encode(task, task.gold, task.reply, prompt(task, chat), params.simulator, chat)
    share = sum(example != flawless for example in demonstrations([task], params, chat)) / 400
    assert 0.35 < share < 0.55  # some drawn mistakes leave this one-call task as it is


def test_arranged_examples_are_the_same_ones_in_batches_of_like_length() -> None:
    rng = random.Random(0)
    examples = [Demonstration(tuple(range(rng.randrange(5, 200))), ()) for _ in range(320)]
    arranged = arrange(examples, 8, seed=1)
    assert sorted(len(e.ids) for e in arranged) == sorted(len(e.ids) for e in examples)
    assert arranged == arrange(examples, 8, seed=1) != arrange(examples, 8, seed=2)
    padding = sum(
        max(len(e.ids) for e in arranged[i : i + 8]) * 8 - sum(len(e.ids) for e in arranged[i : i + 8]) for i in range(0, 320, 8)
    )
    assert padding < 0.15 * sum(len(e.ids) for e in examples)
    firsts = [len(arranged[i].ids) for i in range(0, 320, 8)]
    assert firsts != sorted(firsts) and firsts != sorted(firsts, reverse=True)
