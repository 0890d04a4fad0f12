"""The frozen summariser: another policy writes the last reply, from the same tokens; nothing else of a rollout changes."""

from dataclasses import replace

import pytest
import torch

from slca import params as p
from slca.chat import ChatFormat
from slca.experiment.summariser import history, with_replies_of
from slca.hierr import score
from slca.policy.model import Policy, new_model
from slca.records import Attempt, Call, FinishReason, Rollout, Segment, Step, Task

PARAMS = p.Params(rollouts=p.Rollouts(max_turn_tokens=24))


@pytest.fixture(scope="module")
def writer(chat: ChatFormat) -> Policy:
    torch.manual_seed(7)
    settings = p.Warmstart(hidden_size=32, layers=2, heads=2, max_positions=256)
    return Policy(new_model(settings, len(chat.tokenizer), chat.pad_id, chat.end_id).eval(), chat, "frozen")


@pytest.fixture
def rollouts(chat: ChatFormat, task: Task) -> list[Rollout]:
    """One that called and replied, one that replied at once, one that was cut off at a call."""
    call = '<tool_call>{"name": "get_weather", "arguments": {"city": "Łódź"}}</tool_call>'
    attempt = Attempt("get_weather", {"city": "Łódź"}, None, {"city": "Łódź", "sky": "rain"})
    made_call = Call("get_weather", {"city": "Łódź"})
    called, glue = chat.encode(call), chat.glue_ids([made_call], ['{"city":"Łódź","sky":"rain"}'])
    said = chat.encode("The sky: rain.")
    prompt = tuple(chat.prompt_ids([{"role": "user", "content": task.question}], task.tools))

    def made(name: str, turns: list[tuple[list[int], Segment]], steps: tuple[Step, ...], end: FinishReason) -> Rollout:
        ids = tuple(token for tokens, _ in turns for token in tokens)
        labels = tuple(int(label) for tokens, label in turns for _ in tokens)
        return Rollout(name, task.task_id, 0, "trained", prompt, ids, labels, (0.0,) * len(ids), steps, end, "state")

    turn, reply = Step(call, (attempt,)), Step("The sky: rain.")
    first = (called, Segment.TOOL)
    return [
        made("called", [first, (glue, Segment.ENV), (said, Segment.SUMMARY)], (turn, reply), FinishReason.STOP),
        made("replied", [(said, Segment.SUMMARY)], (reply,), FinishReason.STOP),
        made("cut", [first, (glue, Segment.ENV), first], (turn, turn), FinishReason.TURN_LIMIT),
    ]


def test_the_history_ends_where_the_last_turn_begins(rollouts: list[Rollout]) -> None:
    called, replied, _ = rollouts
    last = max(place for place, label in enumerate(called.labels) if label == Segment.ENV)
    assert history(called) == called.completion_ids[: last + 1]
    assert history(replied) == ()


def test_only_the_reply_is_written_again(writer: Policy, rollouts: list[Rollout]) -> None:
    written = with_replies_of(writer, rollouts, PARAMS)
    assert written[2] == rollouts[2]  # no reply to write
    for before, after in zip(rollouts[:2], written[:2], strict=True):
        kept = len(history(before))
        assert after.completion_ids[:kept] == before.completion_ids[:kept] and after.labels[:kept] == before.labels[:kept]
        assert after.completion_ids[kept:] != before.completion_ids[kept:]
        assert set(after.labels[kept:]) == {Segment.SUMMARY}
        assert len(after.completion_ids) == len(after.labels) == len(after.logprobs) <= kept + 24
        assert after.steps[:-1] == before.steps[:-1] and after.steps[-1].attempts == ()
        assert after.prompt_ids == before.prompt_ids and after.end_state == before.end_state


def test_a_reply_is_a_function_of_its_rollout_alone(writer: Policy, rollouts: list[Rollout]) -> None:
    together = with_replies_of(writer, rollouts, PARAMS)
    alone = with_replies_of(writer, rollouts[:1], PARAMS)[0]
    assert (alone.completion_ids, alone.steps) == (together[0].completion_ids, together[0].steps)
    other = replace(rollouts[0], rollout_id="another")
    assert with_replies_of(writer, [other], PARAMS)[0].completion_ids != together[0].completion_ids


def test_the_process_score_is_what_it_was(writer: Policy, rollouts: list[Rollout], task: Task) -> None:
    for before, after in zip(rollouts, with_replies_of(writer, rollouts, PARAMS), strict=True):
        first, second = score(task, before, p.Rewards()), score(task, after, p.Rewards())
        assert (first.process, first.outcome, first.calls, first.success) == (
            second.process,
            second.outcome,
            second.calls,
            second.success,
        )
        assert second.sampled_tokens == sum(label != Segment.ENV for label in after.labels)
