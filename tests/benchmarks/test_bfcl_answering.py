"""A policy answers BFCL's items: scripted ones in the real conversation loop and the official environment, a sampled one that is
killed."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from scripted import Cut, Stage

from slca import params as p
from slca.benchmarks.bfcl import client, harness
from slca.benchmarks.bfcl.answering import BATCH, MAX_STEPS, NOT_ASKED, Answering, answer_all
from slca.benchmarks.bfcl.harness import Selection
from slca.benchmarks.bfcl.items import Question, UserTurn
from slca.chat.formats.hermes import write_blocks
from slca.errors import MissingDependency
from slca.policy.model import Policy
from slca.records import Call
from slca.sgls.tool import load_tool
from slca.tables import read_traces, write_traces

ROOT = Path(__file__).parents[2]
EXACT = p.Rollouts(max_turn_tokens=2000, on_broken_prefix="fail")  # a conversation that a full render does not give is an error

try:
    client.INTERPRETER.python(ROOT)
    official = pytest.mark.skipif(False, reason="")
except MissingDependency as error:
    official = pytest.mark.skip(reason=str(error))


class NoEnvironment(client.Environment):
    def execute(self, item_id, category, turns):
        raise AssertionError("nothing is to be executed")


def scripted(chat, scripts, style="native", environment=None, positions=1_000_000, rollouts=EXACT):
    """Answering by a policy that plays ``scripts``, and the stage that shows what it saw."""
    stage = Stage(chat, scripts)

    class Scripted(Answering):
        def generator(self):
            return stage

    policy = Policy(SimpleNamespace(config=SimpleNamespace(max_position_embeddings=positions)), chat, "scripted")
    return Scripted(policy, rollouts, style, environment or NoEnvironment(ROOT)), stage


def asked(*tools, category="multiple", item_id="multiple_0", question="Which?"):
    names = {name.replace(".", "_"): name for name in tools}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    loaded = tuple(load_tool({"name": name, "description": "", "parameters": schema, "source": "bfcl"}, "x") for name in names)
    return Question(item_id, category, "python", (UserTurn(({"role": "user", "content": question},), loaded),), names)


def told(more):
    """Progress that nobody looks at."""


# Single-turn


@pytest.mark.parametrize(
    ("style", "said", "calls"),
    [
        ("native", write_blocks([Call("m_f", {"a": 1}), Call("g", {})]), [Call("m.f", {"a": 1}), Call("g", {})]),
        ("native", write_blocks([Call("m.f", {"a": 1})]), [Call("not offered: m.f", {"a": 1})]),
        ("native", "[m.f(a=1)]", []),
        ("native", "Well. <tool_call>{</tool_call>" + write_blocks([Call("g", {})]), [Call("g", {})]),
        ("prompt", "[m.f(a=1), g()]", [Call("m.f", {"a": 1}), Call("g", {})]),
        ("prompt", "[m_f(a=1)]", [Call("not offered: m_f", {"a": 1})]),
        ("prompt", write_blocks([Call("g", {})]), []),
    ],
)
def test_calls_carry_bfcls_names(chat, style, said, calls):
    answering, _ = scripted(chat, {0: [said]}, style)
    (answer,) = answering.run([asked("m.f", "g")], told)
    assert list(answer.prediction.calls) == calls
    assert answer.finish == "stop"
    assert answer.sampled_tokens == len(chat.encode(said)) + 1
    assert answer.transcript[0] == {"role": "user", "content": "Which?"}
    assert answer.transcript[1]["content"] == said
    assert answer.transcript[1]["calls"] == [call.to_json() for call in calls]


def test_a_native_prompt_lists_the_tools_and_a_published_one_does_not(chat):
    for style, listed in (("native", True), ("prompt", False)):
        answering, stage = scripted(chat, {0: [""]}, style)
        answering.run([asked("m.f")], told)
        assert ("m_f" in chat.decode(stage.seen[0])) is listed


def test_what_does_not_fit_is_told_from_what_says_nothing(chat):
    positions = len(chat.prompt_ids([{"role": "user", "content": "Which?"}], ())) + 5
    answering, stage = scripted(chat, {0: [Cut("x" * 50)]}, "prompt", positions=positions)
    fits, long = answering.run([asked("f"), asked("f", question="Which? " * 50)], told)
    assert (fits.finish, fits.prediction.refused, fits.sampled_tokens) == ("context", "", 5)
    assert (long.finish, long.prediction.refused, long.sampled_tokens) == ("context", NOT_ASKED, 0)
    assert list(stage.seen) == [0]


def test_a_turn_without_end_is_cut(chat):
    answering, _ = scripted(chat, {0: [Cut("x" * 50)]}, rollouts=p.Rollouts(max_turn_tokens=7))
    (answer,) = answering.run([asked("f")], told)
    assert (answer.finish, answer.sampled_tokens) == ("length", 7)


@official
def test_an_item_that_was_not_answered_is_wrong_even_where_no_call_is_right(chat):
    selection = Selection(("irrelevance",), 2)
    lengths = [
        len(chat.prompt_ids(q.turns[0].messages, [t.to_json() for t in q.tools])) for q in harness.questions(selection, ROOT)
    ]
    short = lengths.index(min(lengths))
    answering, _ = scripted(chat, {short: ["No."]}, positions=min(lengths) + 10)
    report = harness.evaluate(lambda questions: answering.run(questions, told), selection, 0, ROOT)
    assert [trace.score for trace in report.traces] == [float(index == short) for index in range(2)]
    assert report.traces[1 - short].error == NOT_ASKED
    assert report.to_json()["irrelevance_context"] == 1


# Multi-turn, in the official environment


@pytest.fixture(scope="module")
def environment():
    with client.Environment(ROOT) as environment:
        yield environment


def plays(question, gold, style):
    """What a policy says that plays gold: each turn's calls in one step, then a word. A list for each conversation: a native
    policy gets a new one where functions are added."""
    conversations = [[]]
    for number, (turn, steps) in enumerate(zip(question.turns, gold.turns, strict=True)):
        if number and turn.tools and style == "native":
            conversations.append([])
        for step in steps:
            written = (f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})" for call in step)
            conversations[-1].append(write_blocks(step) if style == "native" else f"[{', '.join(written)}]")
        conversations[-1].append("Done.")
    return conversations


@official
@pytest.mark.slow
@pytest.mark.parametrize("style", ["native", "prompt"])
def test_gold_played_through_the_conversation_scores_full(chat, environment, style, tmp_path):
    selection = Selection(
        ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context"), 2, style
    )
    gold = harness.gold_predictions(selection, ROOT)

    def play(questions):
        answers = []
        for question, right in zip(questions, gold, strict=True):  # one by one: which conversation comes next is then known
            scripts = dict(enumerate(plays(question, right, style)))
            assert len(scripts) == 1 + (style == "native" and question.category == "multi_turn_miss_func")
            answering, stage = scripted(chat, scripts, style, environment)
            answers += answering.run([question], told)
            assert stage.scripts == {key: [] for key in scripts}  # all of it was played
            assert sorted(stage.dropped) == list(scripts)
            seen = chat.decode(stage.seen[max(scripts)])
            assert all(turn.messages[-1]["content"] in seen for turn in question.turns)
        return answers

    report = harness.evaluate(play, selection, 0, ROOT)
    assert [(trace.score, trace.error, trace.finish) for trace in report.traces] == [(1.0, "", "stop")] * 8
    assert all(any(turn["role"] == "tool" for turn in trace.turns) for trace in report.traces)
    write_traces(tmp_path / "traces.parquet", report.traces)
    assert tuple(read_traces(tmp_path / "traces.parquet")) == report.traces


@official
def test_results_reach_the_policy_between_its_steps(chat, environment):
    (question,) = harness.questions(Selection(("multi_turn_base",), 1), ROOT)
    steps = [
        write_blocks([Call("cd", {"folder": "document"})]),
        "<tool_call>oh</tool_call>" + write_blocks([Call("pwd", {}), Call("dance", {})]),
        "<tool_call>oh</tool_call>",  # nothing that can be read: the turn is over
        *["Done."] * 3,
    ]
    answering, stage = scripted(chat, {0: steps}, environment=environment, rollouts=p.Rollouts(max_turn_tokens=2000))
    (answer,) = answering.run([question], told)
    assert answer.finish == "stop"
    assert [len(turn) for turn in answer.prediction.turns] == [2, 0, 0, 0]
    results = [turn["content"] for turn in answer.transcript if turn["role"] == "tool"]
    assert results[:2] == ['{"current_working_directory": "document"}', '{"current_working_directory": "/workspace/document"}']
    assert results[2].startswith("Error during execution: name ")
    seen = chat.decode(stage.seen[0])
    assert all(result in seen for result in results)
    assert "Error during execution: not a JSON object" in seen


@official
@pytest.mark.parametrize("style", ["native", "prompt"])
def test_an_episode_that_only_calls_is_ended(chat, environment, style):
    selection = Selection(("multi_turn_base",), 1, style)
    said = write_blocks([Call("pwd", {})]) if style == "native" else "[pwd()]"
    answering, stage = scripted(chat, {0: [said] * (MAX_STEPS + 5)}, style, environment)
    report = harness.evaluate(lambda questions: answering.run(questions, told), selection, 0, ROOT)
    assert len(stage.scripts[0]) == 4  # upstream ends it behind the 21st step
    (trace,) = report.traces
    assert (trace.score, trace.error, trace.finish) == (0.0, "multi_turn:force_terminated", "turn_limit")


@official
def test_an_episode_that_fills_the_context_is_unfinished(chat, environment):
    (question,) = harness.questions(Selection(("multi_turn_base",), 1), ROOT)
    prompt = chat.prompt_ids(question.turns[0].messages, [tool.to_json() for tool in question.tools])
    said = [write_blocks([Call("pwd", {})])] * 50
    answering, _ = scripted(chat, {0: said}, environment=environment, positions=len(prompt) + 300)
    (answer,) = answering.run([question], told)
    assert (answer.finish, answer.prediction.turns) == ("context", ())
    assert harness.score([answer.prediction], ROOT).items[0].error_type == "multi_turn:force_terminated"


@official
def test_a_turn_that_was_cut_is_closed_and_the_episode_goes_on(chat, environment):
    (question,) = harness.questions(Selection(("multi_turn_base",), 1), ROOT)
    said = [Cut(write_blocks([Call("pwd", {})])), Cut("I wonder"), "Done.", "Done.", "Done."]
    answering, stage = scripted(chat, {0: said}, environment=environment)
    (answer,) = answering.run([question], told)
    assert answer.finish == "stop"
    assert [len(turn) for turn in answer.prediction.turns] == [1, 0, 0, 0]
    end = chat.decode([chat.end_id])
    assert f"</tool_call>{end}" in chat.decode(stage.seen[0])
    assert f"I wonder{end}" in chat.decode(stage.seen[0])


# Resuming


def many(count):
    return [
        asked("f", "g.h", item_id=f"multiple_{number}", question=f"Which {number}? " * (1 + number % 7))
        for number in range(count)
    ]


def test_batches_are_kept_and_not_asked_again(chat, tmp_path):
    questions = many(BATCH + 6)

    class Counting(Answering):
        asked = 0

        def run(self, questions, progress):
            Counting.asked += len(questions)
            made, _ = scripted(chat, {key: [f"said {key}"] for key in range(len(questions))})
            return made.run(questions, progress)

    answering = Counting(scripted(chat, {})[0].policy, EXACT, "native", NoEnvironment(ROOT))
    counted = []
    first = answer_all(answering, questions, tmp_path, counted.append)
    assert [answer.prediction.item_id for answer in first] == [question.item_id for question in questions]
    assert sum(counted) == Counting.asked == len(questions)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers-0000.json", "answers-0001.json"]
    assert answer_all(answering, questions, tmp_path, counted.append) == first
    assert Counting.asked == len(questions)
    assert sum(counted) == 2 * len(questions)
    (tmp_path / "answers-0001.json").unlink()
    assert answer_all(answering, questions, tmp_path, counted.append) == first
    assert Counting.asked == len(questions) + 6


KILLED = """
    import sys
    from pathlib import Path
    sys.path[:0] = {paths!r}
    import torch
    torch.set_num_threads(1)
    from slca import params as p
    from slca.benchmarks.bfcl import answering
    from slca.chat import format_of
    from slca.policy.model import Policy, new_model
    from slca.policy.tokenizer import train_tokenizer
    from test_bfcl_answering import NoEnvironment, many, told

    chat = format_of(train_tokenizer(["Which number is it?", "It is snow in Oslo."] * 4, 420))
    torch.manual_seed(0)
    model = new_model(p.Warmstart(hidden_size=32, layers=2, heads=2, max_positions=1024), 420, chat.pad_id, chat.end_id).eval()
    policy = Policy(model, chat, "tiny")
    answering.BATCH = 8
    made = answering.Answering(policy, p.Rollouts(max_turn_tokens=8), "native", NoEnvironment())
    answering.answer_all(made, many(36), Path(sys.argv[1]), told)
"""


@pytest.mark.slow
def test_killed_at_any_time_it_comes_to_the_same_answers(tmp_path):
    script = tmp_path / "answer.py"
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    script.write_text(textwrap.dedent(KILLED).format(paths=paths))
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    kills = 0
    for wanted in (1, 2):
        process = subprocess.Popen([sys.executable, script, folder])
        while process.poll() is None and len(list(folder.glob("answers-*.json"))) < wanted:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    assert kills == 2
    left = {file.name: file.stat().st_mtime_ns for file in folder.glob("answers-*.json")}
    assert 2 <= len(left) < 5
    subprocess.run([sys.executable, script, folder], check=True)
    subprocess.run([sys.executable, script, whole], check=True)
    assert all((folder / name).stat().st_mtime_ns == changed for name, changed in left.items())  # none was answered again
    names = sorted(file.name for file in whole.iterdir())
    assert len(names) == 5  # 36 items, 8 in a batch
    assert [(folder / name).read_bytes() for name in names] == [(whole / name).read_bytes() for name in names]
