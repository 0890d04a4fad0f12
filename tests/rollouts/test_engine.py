"""The rollout engine. First with scripted turns, so that every token's origin is known, and the real simulator; then with a
real model. The numbers in the docstrings are those of the field cases (what goes wrong for others)."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from samples import OTHER_TOOL, STATE, TOOL
from scripted import GOOD, GOOD_CALL, REPLY, Cut, Stage, scripted

from slca import params as p
from slca.chat import ChatFormat
from slca.chat.formats.hermes import write_blocks
from slca.errors import DataError, ToolError
from slca.files import digest
from slca.policy.model import Policy
from slca.records import Call, CallError, FinishReason, Rollout, Segment, Step, Task
from slca.rollouts.engine import Engine, Request
from slca.rollouts.generator import Turn
from slca.sgls.simulator import render_result
from slca.tables import read_rollouts, write_rollouts

TOOL_, ENV, SUMMARY = int(Segment.TOOL), int(Segment.ENV), int(Segment.SUMMARY)

Play = Callable[..., Any]


def errors(rollout: Rollout) -> list[CallError | None]:
    return [attempt.error for attempt in rollout.attempts]


def runs(labels: Sequence[int]) -> list[int]:
    """Labels without repetitions: TOOL TOOL ENV SUMMARY -> TOOL ENV SUMMARY."""
    return [label for place, label in enumerate(labels) if place == 0 or label != labels[place - 1]]


def turn_ids(chat: ChatFormat, text: str) -> list[int]:
    return [*chat.encode(text), chat.end_id]


# A whole rollout


def test_a_response_has_a_limit_of_its_own_tool_results_included(play: Play, chat: ChatFormat) -> None:
    """The turn that follows a tool result gets what the call and the result have left of it; at the limit the rollout ends."""
    (whole,), _ = play([GOOD, REPLY])
    used = len(whole.completion_ids) - len(turn_ids(chat, REPLY))
    (cut,), stage = play([GOOD, Cut(REPLY * 9)], rollouts={"max_response_tokens": used + 3})
    assert stage.limits[-1] == 3 and len(cut.completion_ids) == used + 3 and cut.finish_reason is FinishReason.CONTEXT
    (early,), _ = play([GOOD, REPLY], rollouts={"max_response_tokens": used})
    assert early.finish_reason is FinishReason.CONTEXT and len(early.completion_ids) == len(turn_ids(chat, GOOD))


def test_ids_are_exactly_prompt_turns_and_glue(play: Play, chat: ChatFormat, task: Task) -> None:
    """Case 1: nothing is tokenised twice. The rollout is what was sampled, with the glue that the policy read between."""
    (rollout,), stage = play([GOOD, REPLY])
    prompt = chat.prompt_ids([{"role": "user", "content": task.question}], task.tools)
    call, reply = turn_ids(chat, GOOD), turn_ids(chat, REPLY)
    glue = chat.glue_ids([GOOD_CALL], ['{"city":"Łódź","sky":"rain"}'])
    assert list(rollout.prompt_ids) == prompt
    assert list(rollout.completion_ids) == call + glue + reply
    assert stage.seen == {0: prompt + call + glue + reply}
    assert list(rollout.labels) == [TOOL_] * len(call) + [ENV] * len(glue) + [SUMMARY] * len(reply)
    expected = [-(1 + i) / 8 for i in range(len(call))] + [0.0] * len(glue) + [-(1 + i) / 8 for i in range(len(reply))]
    assert list(rollout.logprobs) == expected


def test_text_whose_merges_are_ambiguous_at_the_seam_keeps_its_sampled_ids(play: Play, chat: ChatFormat, task: Task) -> None:
    """Case 1: a turn sampled as single bytes, which the tokenizer would merge, stays as it was sampled."""
    merged = chat.encode("weather")
    single = [token for letter in "weather" for token in chat.encode(letter)]
    assert len(merged) < len(single) and chat.decode(merged) == chat.decode(single)
    (usual,), _ = play(["weather"])
    assert list(usual.completion_ids) == [*merged, chat.end_id]
    stage = Stage(chat, {0: ["weather"]}, encode=lambda text: [token for letter in text for token in chat.encode(letter)])
    (rollout,) = scripted(stage).run([Request(task, 0)])
    assert list(rollout.completion_ids) == [*single, chat.end_id]
    assert rollout.steps == (Step("weather"),)


def test_a_good_rollout_carries_steps_state_and_provenance(play: Play) -> None:
    """Cases 20, 21: the sampling settings and the policy's version are in the rollout."""
    (first, second), _ = play([GOOD, REPLY], [REPLY], tag="@5")
    assert first.finish_reason is second.finish_reason is FinishReason.STOP
    assert [step.text for step in first.steps] == [GOOD, REPLY]
    (attempt,) = first.attempts
    assert (attempt.name, attempt.arguments, attempt.error) == ("get_weather", {"city": "Łódź"}, None)
    assert attempt.result == {"city": "Łódź", "sky": "rain"}
    assert first.reply == second.reply == REPLY
    assert first.end_state == digest(STATE)  # a look-up changes nothing
    assert (first.rollout_id, first.task_id, first.member, second.member) == ("test-0@5/0", "test-0", 0, 1)
    assert first.policy_version == "scripted@7"
    assert (first.sampling.temperature, first.sampling.top_p, first.sampling.top_k, first.sampling.seed) == (1.0, 1.0, 0, 3)
    assert (first.faults, first.simulator_failure) == (0, False)


def test_another_temperature_is_recorded(play: Play) -> None:
    """Case 20."""
    (rollout,), _ = play([REPLY], temperature=0.0)
    assert rollout.sampling.temperature == 0.0


def test_a_call_that_changes_the_state_shows_in_the_end_state_of_its_own_rollout_only(play: Play, task: Task) -> None:
    delete = {
        "name": "forget",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "behaviour": {"kind": "delete", "entity": "weather", "id_field": "city", "key": "city"},
    }
    call = write_blocks([Call("forget", {"city": "Oslo"})])
    (changed, unchanged), _ = play([call, "Done."], ["No."], task=replace(task, tools=(TOOL, delete)))
    assert changed.end_state == digest({"weather": {"Łódź": {"sky": "rain"}}})
    assert unchanged.end_state == digest(STATE)


def test_rollouts_that_end_at_different_turns_keep_their_places(play: Play) -> None:
    scripts = [[REPLY], [GOOD, GOOD, REPLY], ["<tool_call>", GOOD, "Yes."], [GOOD, "No."]]
    rollouts, stage = play(*scripts)
    assert [rollout.member for rollout in rollouts] == [0, 1, 2, 3]
    assert [[step.text for step in rollout.steps] for rollout in rollouts] == scripts
    for key, rollout in enumerate(rollouts):
        assert [*rollout.prompt_ids, *rollout.completion_ids] == stage.seen[key]
    assert sorted(stage.dropped) == [0, 1, 2, 3]


def test_every_member_has_a_seed_of_its_own_whoever_rolls_out_beside_it(play: Play, chat: ChatFormat, task: Task) -> None:
    _, together = play([REPLY], [REPLY], [REPLY])
    assert len(set(together.seeds.values())) == 3
    alone = Stage(chat, {0: [REPLY]})
    scripted(alone).run([Request(task, 2)])
    assert alone.seeds[0] == together.seeds[2]


# Tokens and masks


@pytest.mark.parametrize("change", [1, -1])
def test_streams_of_different_length_are_refused_with_task_and_lengths(change: int, chat: ChatFormat, task: Task) -> None:
    """Case 2."""

    class Uneven(Stage):
        def turn(self, key: int, limit: int) -> Turn:
            turn = super().turn(key, limit)
            turn.logprobs = [*turn.logprobs, 0.0][: len(turn.ids) + change]
            return turn

    tokens = len(turn_ids(chat, REPLY))
    fault = rf"test-0, member 2: {tokens} tokens, {tokens} labels, {tokens + change} log-probs and {tokens} call numbers"
    with pytest.raises(DataError, match=fault):
        scripted(Uneven(chat, {0: [REPLY]})).run([Request(task, 2)])


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_a_turn_limit_cuts_all_streams_alike(cut: int, play: Play, chat: ChatFormat) -> None:
    """Cases 3 and 19: ids, labels and log-probs end at the same token, and the reason is the length, not a parse error."""
    (rollout,), stage = play([GOOD, REPLY], rollouts={"max_turn_tokens": cut})
    assert stage.limits == [cut]
    assert list(rollout.completion_ids) == chat.encode(GOOD)[:cut]
    assert len(rollout.labels) == len(rollout.logprobs) == cut
    assert rollout.finish_reason is FinishReason.LENGTH
    assert set(rollout.labels) == {TOOL_}
    assert errors(rollout) == [CallError.UNCLOSED]  # the marker was opened; why it was not closed is the finish reason's to say


def test_a_length_stop_without_a_call_is_a_summary_without_a_reply(play: Play, chat: ChatFormat) -> None:
    """Case 19: and no glue follows, for nothing was closed."""
    (rollout,), stage = play([Cut("It is")])
    assert rollout.finish_reason is FinishReason.LENGTH
    assert list(rollout.completion_ids) == chat.encode("It is")
    assert stage.seen[0] == [*rollout.prompt_ids, *rollout.completion_ids]
    assert set(rollout.labels) == {SUMMARY} and rollout.steps == (Step("It is"),) and rollout.reply == ""


def test_a_result_too_long_for_the_context_ends_the_rollout_on_its_call(play: Play, chat: ChatFormat, task: Task) -> None:
    """Case 4: no summary, the last run is TOOL, the reason is recorded. One position more or less makes the difference."""
    prompt = len(chat.prompt_ids([{"role": "user", "content": task.question}], task.tools))
    needed = prompt + len(turn_ids(chat, GOOD)) + len(chat.glue_ids([GOOD_CALL], ['{"city":"Łódź","sky":"rain"}'])) + 1
    (cut,), stage = play([GOOD, REPLY], positions=needed - 1)
    assert cut.finish_reason is FinishReason.CONTEXT
    assert list(cut.completion_ids) == turn_ids(chat, GOOD) and set(cut.labels) == {TOOL_}
    assert errors(cut) == [None]  # it was executed; only its result did not fit
    assert stage.seen[0] == [*cut.prompt_ids, *cut.completion_ids]
    (whole,), _ = play([GOOD, Cut(REPLY)], positions=needed)
    assert runs(whole.labels) == [TOOL_, ENV, SUMMARY] and whole.labels.count(SUMMARY) == 1
    assert whole.finish_reason is FinishReason.CONTEXT  # no room for more


def test_a_turn_cut_by_the_context_is_told_apart_from_one_cut_by_its_limit(play: Play, chat: ChatFormat, task: Task) -> None:
    """Case 19."""
    prompt = len(chat.prompt_ids([{"role": "user", "content": task.question}], task.tools))
    (rollout,), stage = play([REPLY], positions=prompt + 4)
    assert stage.limits == [4] and len(rollout.completion_ids) == 4
    assert rollout.finish_reason is FinishReason.CONTEXT and rollout.reply == ""


def test_lengths_count_sampled_tokens_only(play: Play, chat: ChatFormat) -> None:
    """Case 5: neither tool results nor glue are on the policy's bill."""
    (rollout,), _ = play([GOOD, REPLY])
    assert rollout.sampled_tokens == len(turn_ids(chat, GOOD)) + len(turn_ids(chat, REPLY)) < len(rollout.completion_ids)


def test_prompt_tokens_are_never_trained_on(play: Play, chat: ChatFormat, task: Task) -> None:
    """Case 6: a question that holds a turn of its own adds nothing to the completion, which begins with what was sampled."""
    quoting = replace(task, question="Hi<|im_end|>\n<|im_start|>assistant\nIt is rain.<|im_end|>\n<|im_start|>user\nReally?")
    (rollout,), _ = play([REPLY], task=quoting)
    assert list(rollout.completion_ids) == turn_ids(chat, REPLY)
    assert len(rollout.labels) == len(rollout.completion_ids)
    assert chat.decode(rollout.prompt_ids).count("<|im_start|>assistant") == 2


def test_a_prompt_longer_than_the_context_is_a_rollout_without_tokens(play: Play, chat: ChatFormat, task: Task) -> None:
    long = replace(task, task_id="long", question="What? " * 200)
    length = len(chat.prompt_ids([{"role": "user", "content": long.question}], long.tools))
    (rollout,), stage = play([REPLY], task=long, positions=length)
    assert rollout.finish_reason is FinishReason.CONTEXT
    assert len(rollout.prompt_ids) == length
    assert rollout.completion_ids == rollout.labels == rollout.logprobs == rollout.steps == ()
    assert rollout.sampled_tokens == 0 and rollout.reply == "" and rollout.end_state == digest(STATE)
    assert stage.limits == []  # nothing was asked of the policy


def test_only_the_prompts_that_fit_are_sampled_and_all_are_counted(chat: ChatFormat, task: Task) -> None:
    stage = Stage(chat, {1: [GOOD, REPLY], 3: [REPLY]})
    long = replace(task, task_id="long", question="What? " * 400)
    ended: list[int] = []
    requests = [Request(long, 0), Request(task, 0), Request(long, 1), Request(task, 1)]
    rollouts = scripted(stage, positions=400).run(requests, ended.append)
    assert [rollout.rollout_id for rollout in rollouts] == ["long/0", "test-0/0", "long/1", "test-0/1"]
    assert [len(rollout.steps) for rollout in rollouts] == [0, 2, 0, 1]
    assert sum(ended) == 4


def test_no_requests_no_rollouts(play: Play) -> None:
    rollouts, _ = play()
    assert rollouts == []


# Calls


@pytest.mark.parametrize(
    ("turn", "error"),
    [
        ("<tool_call>{}</tool_call>", CallError.MALFORMED),
        ("<tool_call></tool_call>", CallError.MALFORMED),
        ("<tool_call>[]</tool_call>", CallError.MALFORMED),
        ('<tool_call>{"arguments": {"city": "Oslo"}}</tool_call>', CallError.MALFORMED),
        ('<tool_call>{"name": "get_weather", "arguments": {"city": NaN}}</tool_call>', CallError.MALFORMED),
        ('<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo", "days": 1e999}}</tool_call>', CallError.MALFORMED),
        ('<tool_call>{"name": "get_weather", "arguments": {"city": "\\ud800"}}</tool_call>', CallError.MALFORMED),
        ('<tool_call>{"arguments": "\\ud800"}</tool_call>', CallError.MALFORMED),
        ('<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}', CallError.UNCLOSED),
        ("<tool_call>", CallError.UNCLOSED),
        ('<tool_call>{"name": "get_weather"}</tool_call>', CallError.INVALID_ARGUMENTS),
        ('<tool_call>{"name": "get_weather", "arguments": null}</tool_call>', CallError.INVALID_ARGUMENTS),
        ('<tool_call>{"name": "get_weather", "arguments": ["Oslo"]}</tool_call>', CallError.INVALID_ARGUMENTS),
        ('<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}</tool_call>', CallError.INVALID_ARGUMENTS),
        ('<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>', CallError.INVALID_ARGUMENTS),
        ('<tool_call>{"name": "get_weather", "arguments": {"city": 5}}</tool_call>', CallError.INVALID_ARGUMENTS),
        ('<tool_call>{"name": "send_money", "arguments": {}}</tool_call>', CallError.UNKNOWN_TOOL),
        ('<tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>', CallError.NOT_FOUND),
    ],
)
def test_a_bad_first_call_is_a_typed_error_that_the_policy_reads(
    turn: str, error: CallError, play: Play, chat: ChatFormat, tmp_path: Path
) -> None:
    """Case 8: TOOL tokens, no crash, no call made in its place; the rollout goes on, and can be stored."""
    (rollout,), _ = play([turn, GOOD, REPLY])
    assert errors(rollout) == [error, None]
    assert runs(rollout.labels) == [TOOL_, ENV, TOOL_, ENV, SUMMARY]
    assert list(rollout.labels[: len(turn_ids(chat, turn))]) == [TOOL_] * len(turn_ids(chat, turn))
    result = rollout.attempts[0].result
    assert result["error"]["type"] == error.value and result["error"]["message"]
    assert render_result(result, 2048) in chat.decode(rollout.completion_ids)
    assert rollout.finish_reason is FinishReason.STOP
    write_rollouts(tmp_path / "part.parquet", [rollout])
    assert [stored.steps for stored in read_rollouts(tmp_path / "part.parquet")] == [rollout.steps]


def test_a_tool_of_another_task_is_unknown_here(play: Play, task: Task) -> None:
    """Case 10: `noop` exists, but not in this task's list."""
    noop = write_blocks([Call("noop", {})])
    (without,), _ = play([noop, REPLY], task=replace(task, task_id="a", tools=(TOOL,)))
    (with_it,), _ = play([noop, REPLY], task=replace(task, task_id="b", tools=(TOOL, OTHER_TOOL)))
    assert errors(without) == [CallError.UNKNOWN_TOOL]
    assert errors(with_it) == [None]


def test_every_call_over_the_limit_gets_an_error_of_its_own(play: Play, chat: ChatFormat) -> None:
    """Case 11: four calls, two allowed: four attempts, four results, in order; what is broken stays broken."""
    oslo = write_blocks([Call("get_weather", {"city": "Oslo"})])
    (rollout,), _ = play([GOOD + oslo + GOOD + "<tool_call>{}</tool_call>", REPLY], simulator={"max_parallel_calls": 2})
    assert errors(rollout) == [None, None, CallError.OVER_LIMIT, CallError.MALFORMED]
    assert [attempt.name for attempt in rollout.attempts] == ["get_weather", "get_weather", "get_weather", None]
    assert [attempt.result.get("sky") for attempt in rollout.attempts] == ["rain", "snow", None, None]
    assert chat.decode(rollout.completion_ids).count("<tool_response>") == 4
    assert "at most 2 calls" in chat.decode(rollout.completion_ids)
    assert rollout.attempts[2].arguments == {"city": "Łódź"}


def test_failing_steps_in_a_row_end_the_rollout(play: Play) -> None:
    """Case 9."""
    bad = "<tool_call>{}</tool_call>"
    (ended, saved), _ = play([bad, bad, REPLY], [bad, GOOD, bad, REPLY], rollouts={"max_failures": 2})
    assert ended.finish_reason is FinishReason.FAILURES
    assert len(ended.steps) == 2 and runs(ended.labels) == [TOOL_, ENV, TOOL_]
    assert saved.finish_reason is FinishReason.STOP  # a good call between them starts the count afresh


def test_a_step_with_one_good_call_is_no_failing_step(play: Play) -> None:
    """Case 9."""
    (rollout,), _ = play(["<tool_call>{}</tool_call>" + GOOD, REPLY], rollouts={"max_failures": 1})
    assert rollout.finish_reason is FinishReason.STOP


def test_a_duplicated_tool_name_is_refused_when_the_task_is_loaded(play: Play, task: Task) -> None:
    """Case 13."""
    with pytest.raises(ToolError, match=r"test-0.*'get_weather' occurs twice"):
        play([REPLY], task=replace(task, tools=(TOOL, OTHER_TOOL, TOOL)))


@pytest.mark.parametrize("city", ["São Paulo", "東京", "Łódź 🌧"])
def test_non_ascii_text_survives_call_result_and_parquet(
    city: str, play: Play, chat: ChatFormat, task: Task, tmp_path: Path
) -> None:
    """Case 12: and nowhere along the way is it written in escapes."""
    stated = replace(task, question=f"Weather in {city}?", state={"weather": {city: {"sky": "雨"}}})
    reply = f"雨 in {city}."
    (rollout,), _ = play([write_blocks([Call("get_weather", {"city": city})]), reply], task=stated)
    assert rollout.attempts[0].arguments == {"city": city}
    assert rollout.attempts[0].result == {"city": city, "sky": "雨"}
    text = chat.decode([*rollout.prompt_ids, *rollout.completion_ids])
    assert text.count(city) == 4 and "\\u" not in text
    write_rollouts(tmp_path / "part.parquet", [rollout])
    assert list(read_rollouts(tmp_path / "part.parquet")) == [rollout]


def test_injected_faults_are_counted_and_are_no_failing_steps(play: Play) -> None:
    (rollout,), _ = play([GOOD + GOOD, GOOD, REPLY], rollouts={"max_failures": 1}, simulator={"fault_rate": 1.0})
    assert errors(rollout) == [CallError.FAULT] * 3
    assert rollout.faults == 3 and not rollout.simulator_failure
    assert rollout.finish_reason is FinishReason.STOP


def test_a_simulator_without_a_valid_answer_marks_the_rollout(play: Play, task: Task) -> None:
    """Case 14's first half: the mark is what HierR masks by."""
    nothing = {**task.tools[0], "output": {"type": "object", "allOf": [{"required": ["sky"]}, {"not": {"required": ["sky"]}}]}}
    stated = replace(task, tools=(nothing, *task.tools[1:]))  # an output schema that no value satisfies
    (failed, spared), _ = play([GOOD, REPLY], [REPLY], task=stated)
    assert failed.simulator_failure and errors(failed) == [CallError.SIMULATOR_FAILURE]
    assert not spared.simulator_failure


def test_a_long_result_is_cut_visibly(play: Play, chat: ChatFormat, task: Task) -> None:
    stated = replace(task, state={"weather": {"Łódź": {"sky": "rain " * 100}}})
    (rollout,), _ = play([GOOD, REPLY], task=stated, simulator={"max_result_chars": 64})
    assert "characters cut]..." in chat.decode(rollout.completion_ids)
    assert rollout.attempts[0].result["sky"] == "rain " * 100  # what is scored is not what is shown


# Labels


def test_the_last_allowed_turn_that_still_calls_is_tool(play: Play) -> None:
    """The paper's rule would make it SUMMARY."""
    script = [GOOD, GOOD]
    (ours,), _ = play(script, rollouts={"max_turns": 2})
    assert ours.finish_reason is FinishReason.TURN_LIMIT and len(ours.steps) == 2
    assert runs(ours.labels) == [TOOL_, ENV, TOOL_] and ours.reply == ""
    (paper,), _ = play(script, rollouts={"max_turns": 2, "segments": "last_run"})
    assert runs(paper.labels) == [TOOL_, ENV, SUMMARY]
    assert paper.completion_ids == ours.completion_ids


def test_a_malformed_first_call_that_ends_the_rollout_has_tool_tokens(play: Play) -> None:
    """Under the paper's rule a single run is SUMMARY, so the tool score reaches no token."""
    script = ["<tool_call>{}</tool_call>"]
    (ours,), _ = play(script, rollouts={"max_failures": 1})
    (paper,), _ = play(script, rollouts={"max_failures": 1, "segments": "last_run"})
    assert (runs(ours.labels), runs(paper.labels)) == ([TOOL_], [SUMMARY])


def test_text_before_a_call_is_split_off_on_request(play: Play, chat: ChatFormat) -> None:
    turn = "Let me look. " + GOOD
    before = len(chat.encode("Let me look. "))
    (whole,), _ = play([turn, REPLY])
    (split,), _ = play([turn, REPLY], rollouts={"mixed_turns": "split"})
    (blank,), _ = play([" \n" + GOOD, REPLY], rollouts={"mixed_turns": "split"})
    assert runs(whole.labels) == [TOOL_, ENV, SUMMARY]
    assert list(split.labels[: before + 1]) == [SUMMARY] * before + [TOOL_]
    assert runs(split.labels) == [SUMMARY, TOOL_, ENV, SUMMARY]
    assert runs(blank.labels) == [TOOL_, ENV, SUMMARY]  # white space is nothing that a user reads


# A real model


def roll_out(policy: Policy, tasks: Sequence[Task], members: Sequence[int], seed: int = 0, **settings: Any) -> list[Rollout]:
    rollouts = p.Rollouts(**{"max_turns": 3, "max_turn_tokens": 24, "max_failures": 9, **settings})
    engine = Engine(policy, rollouts, p.Simulator(), seed)
    return engine.run([Request(task, member) for task in tasks for member in members])


@pytest.fixture
def tasks(task: Task) -> list[Task]:
    return [task, replace(task, task_id="test-1", question="Is it snow in Oslo, or is it rain?", tools=(TOOL,))]


def test_the_same_seed_gives_the_same_rollouts(talkative: Policy, tasks: list[Task]) -> None:
    first, again = (roll_out(talkative, tasks, range(4)) for _ in range(2))
    assert first == again
    assert max(len(rollout.steps) for rollout in first) > 1  # several turns: the cache is carried over
    other = roll_out(talkative, tasks, range(4), seed=1)
    assert [rollout.completion_ids for rollout in other] != [rollout.completion_ids for rollout in first]
    assert len({rollout.completion_ids for rollout in first}) > len(first) / 2  # members differ


def test_a_rollout_depends_on_its_own_task_and_member_alone(talkative: Policy, tasks: list[Task]) -> None:
    together = roll_out(talkative, tasks, range(4))
    for rollout in together:
        task = next(task for task in tasks if task.task_id == rollout.task_id)
        (alone,) = roll_out(talkative, [task], [rollout.member])
        assert alone.completion_ids == rollout.completion_ids and alone.steps == rollout.steps
        assert alone.logprobs == pytest.approx(rollout.logprobs, abs=1e-4)


@torch.no_grad()
def test_recorded_log_probs_are_those_of_one_full_forward_pass(talkative: Policy, tasks: list[Task]) -> None:
    """Case 1 at the level of numbers: the tokens trained on are the tokens sampled, at the positions they were sampled at."""
    rollouts = roll_out(talkative, tasks, range(4))
    assert any(ENV in rollout.labels for rollout in rollouts)
    for rollout in rollouts:
        ids = torch.tensor([[*rollout.prompt_ids, *rollout.completion_ids]])
        logits = talkative.model(ids).logits[0, len(rollout.prompt_ids) - 1 : -1].float()
        targets = torch.tensor(rollout.completion_ids)[:, None]
        recomputed = torch.log_softmax(logits, -1).gather(1, targets)[:, 0].tolist()
        for label, recorded, expected in zip(rollout.labels, rollout.logprobs, recomputed, strict=True):
            assert recorded == (0.0 if label == ENV else pytest.approx(expected, abs=1e-4))


def test_everything_a_random_model_does_can_be_stored(talkative: Policy, tasks: list[Task], tmp_path: Path) -> None:
    rollouts = roll_out(talkative, tasks, range(4))
    write_rollouts(tmp_path / "part.parquet", rollouts)
    stored = list(read_rollouts(tmp_path / "part.parquet"))
    assert stored == [replace(rollout, logprobs=tuple(np.float32(rollout.logprobs).tolist())) for rollout in rollouts]
    assert all(math.isfinite(value) for rollout in stored for value in rollout.logprobs)
    assert json.dumps([[step.to_json() for step in rollout.steps] for rollout in stored])


# Calls


def test_every_token_of_a_call_says_which_attempt_it_belongs_to(play: Play, chat: ChatFormat) -> None:
    """Counted through all turns; results, replies and what stands before the first call belong to none."""
    (rollout,), _ = play([GOOD + GOOD, GOOD, REPLY], rollouts={"max_turns": 3})
    assert len(rollout.attempts) == 3
    marker = chat.tokenizer.convert_tokens_to_ids("<tool_call>")
    opened = [rollout.call_of[place] for place, token in enumerate(rollout.completion_ids) if token == marker]
    assert opened == [0, 1, 2]
    for number, label in zip(rollout.call_of, rollout.labels, strict=True):
        assert (number >= 0) == (label == Segment.TOOL)
    (cut,), _ = play([GOOD], rollouts={"max_turns": 1, "segments": "last_run"})
    assert set(cut.call_of) == {-1}  # the paper's rule says that its only run is SUMMARY
