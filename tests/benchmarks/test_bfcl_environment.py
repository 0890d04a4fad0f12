"""The BFCL harness against the official package, as users run it: gold scores full marks, anything else does not."""

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from slca.benchmarks.bfcl import client, groups, harness, worker
from slca.benchmarks.bfcl.harness import Selection
from slca.benchmarks.bfcl.items import Answer, Prediction
from slca.errors import MissingDependency, SlcaError
from slca.records import Call

ROOT = Path(__file__).parents[2]
CATEGORIES = ("simple_python", "multiple", "parallel", "irrelevance")
CALLING = CATEGORIES[:3]
LIMIT = 40
EVERY = Selection(get_args(groups.Category))
MULTI_TURN = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")

try:
    client.INTERPRETER.python(ROOT)
except MissingDependency as error:
    pytestmark = pytest.mark.skip(reason=str(error))


@pytest.fixture(scope="module")
def gold():
    return harness.gold_predictions(Selection(CALLING, LIMIT), ROOT)


@pytest.fixture(scope="module")
def questions():
    return harness.questions(Selection(CATEGORIES, LIMIT), ROOT)


@pytest.fixture(scope="module")
def environment():
    with client.Environment(ROOT) as environment:
        yield environment


def accuracies(scores):
    return {category: score.accuracy for category, score in scores.categories.items()}


def with_calls(prediction, *calls):
    return Prediction.single(prediction.item_id, prediction.category, calls)


def changed(predictions, change):
    """Every prediction with its first call replaced by ``change(call)``; those that ``change`` answers with None are left out."""
    kept = []
    for prediction in predictions:
        first = change(prediction.calls[0])
        if first is not None:
            calls = (*((first,) if isinstance(first, Call) else first), *prediction.calls[1:])
            kept.append(with_calls(prediction, *calls))
    return kept


def test_the_installed_version_is_the_pinned_one(gold):
    pins = (Path(worker.__file__).parent / "requirements.txt").read_text().splitlines()
    assert f"{worker.PACKAGE}=={harness.score(gold[:1], ROOT).version}" in pins


@pytest.mark.slow
def test_references_on_every_category():
    # Gold misses what no right answer satisfies, and nothing else; of simple_java_64 gold is a wrong answer that passes.
    asked = harness.questions(EVERY, ROOT)
    references = harness.references(asked, EVERY, 0, ROOT)
    full = {category: (score.correct, score.n) for category, score in references["gold"].categories.items()}
    assert full == {
        "simple_python": (400, 400),
        "simple_java": (98, 100),
        "simple_javascript": (50, 50),
        "multiple": (200, 200),
        "parallel": (200, 200),
        "parallel_multiple": (200, 200),
        "irrelevance": (240, 240),
        "live_simple": (256, 258),
        "live_multiple": (1051, 1053),
        "live_parallel": (16, 16),
        "live_parallel_multiple": (24, 24),
        "live_irrelevance": (884, 884),
        "live_relevance": (16, 16),
        "multi_turn_base": (200, 200),
        "multi_turn_miss_func": (200, 200),
        "multi_turn_miss_param": (200, 200),
        "multi_turn_long_context": (200, 200),
    }
    missed = {item.item_id for item in references["gold"].items if not item.valid}
    assert missed == set(groups.UNSATISFIABLE) - {"simple_java_64"}
    right = {category for category, score in references["do_nothing"].categories.items() if score.correct}
    assert right == {"irrelevance", "live_irrelevance"}
    assert references["do_nothing"].groups()["irrelevance"] == 1.0
    random = references["random_call"].categories
    assert random["live_relevance"].accuracy == 1.0  # any call is right there
    assert all(random[category].correct <= 5 for category in random if category != "live_relevance")
    assert all(score.n == score.of for reference in references.values() for score in reference.categories.values())


def test_what_is_said_of_items_that_no_answer_satisfies():
    java = harness.gold_predictions(Selection(("simple_java",)), ROOT)
    item = next(prediction for prediction in java if prediction.item_id == "simple_java_64")
    (call,) = item.calls
    maps = {
        'new HashMap<>() {{ put("format", "epoch_millis"); }}': False,  # what the question asks for
        "new HashMap<>()": True,
        'new HashMap<>() {{ put("format", "e"); }}': True,
    }
    for written, valid in maps.items():
        tried = with_calls(item, Call(call.name, call.arguments | {"meta": written}))
        assert harness.score([tried], ROOT).items[0].valid is valid


def stringify_first_number(call):
    for key, value in call.arguments.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            return Call(call.name, {**call.arguments, key: str(value)})
    return None


@pytest.mark.parametrize(
    ("change", "least"),
    [
        pytest.param(lambda call: Call(call.name + "_x", call.arguments), 120, id="renamed function"),
        pytest.param(lambda call: Call(call.name, {**call.arguments, "bogus": 1}), 120, id="bogus argument"),
        pytest.param(lambda call: Call(call.name, {key: "bogus" for key in call.arguments}), 120, id="bogus values"),
        pytest.param(lambda call: (call, call), 120, id="extra call"),
        pytest.param(stringify_first_number, 60, id="stringified number"),
        pytest.param(lambda call: Call(call.name, {"x": {"y": [float("nan"), "\ud800"]}}), 120, id="text that UTF-8 cannot hold"),
    ],
)
def test_wrong_answers_score_nothing(gold, change, least):
    wrong = changed(gold, change)
    assert len(wrong) >= least  # the change applies to most of the 120 items, so that the next line says something
    scores = harness.score(wrong, ROOT)
    assert set(accuracies(scores).values()) == {0.0}
    assert all(item.error_type for item in scores.items)


def test_a_required_argument_cannot_be_dropped(gold, questions):
    required = {(question.item_id, question.names[tool.name]): tool.required for question in questions for tool in question.tools}
    wrong = [
        with_calls(prediction, Call(call.name, kept), *prediction.calls[1:])
        for prediction in gold
        for call in prediction.calls[:1]
        for name in required[prediction.item_id, call.name][:1]
        for kept in [{key: value for key, value in call.arguments.items() if key != name}]
        if len(kept) < len(call.arguments)
    ]
    assert len(wrong) >= 110
    assert set(accuracies(harness.score(wrong, ROOT)).values()) == {0.0}


def test_an_optional_argument_can_be_dropped(gold):
    # simple_python_29 asks for the speed after a free fall; initial_speed is optional with default 0, the value that gold gives
    item = next(prediction for prediction in gold if prediction.item_id == "simple_python_29")
    (call,) = item.calls
    kept = {key: value for key, value in call.arguments.items() if key != "initial_speed"}
    assert len(kept) == len(call.arguments) - 1
    assert harness.score([with_calls(item, Call(call.name, kept))], ROOT).items[0].valid


def test_a_value_inside_is_checked_too(gold):
    def strings_inside(call):
        for key, value in call.arguments.items():
            if isinstance(value, list) and value and isinstance(value[0], int | float):
                return Call(call.name, {**call.arguments, key: [str(item) for item in value]})
        return None

    wrong = changed(gold, strings_inside)
    assert wrong
    assert set(accuracies(harness.score(wrong, ROOT)).values()) == {0.0}


def test_a_call_is_wrong_where_none_is_needed(questions):
    calls = [
        with_calls(Prediction(question.item_id, question.category, ()), Call(next(iter(question.names.values())), {}))
        for question in questions
        if question.category == "irrelevance"
    ]
    scores = harness.score(calls, ROOT)
    assert accuracies(scores) == {"irrelevance": 0.0}
    assert {item.error_type for item in scores.items} == {"irrelevance_error:called"}


def test_crafted_text_runs_nothing(gold, tmp_path):
    pwned = tmp_path / "pwned"
    code = f"__import__('os').system('touch {pwned}')"
    crafted = [with_calls(gold[0], Call(code, {}))]
    crafted += changed(gold[1:], lambda call: Call(call.name, {key: code for key in call.arguments} | {code: code}))
    scores = harness.score(crafted, ROOT)
    assert scores.items[0].error_type == "refused:unknown_function"
    assert not any(item.valid for item in scores.items)
    assert not pwned.exists()


def test_deep_arguments_are_refused_and_the_rest_is_scored(gold):
    value: object = 1
    for _ in range(100_000):
        value = [value]
    scores = harness.score([with_calls(gold[0], Call(gold[0].calls[0].name, {"x": value})), *gold[1:]], ROOT)
    assert [item.error_type for item in scores.items if not item.valid] == ["refused:arguments"]


def test_what_breaks_the_checker_is_one_wrong_item(gold):
    # int("9" * 5000) exceeds Python's limit of 4300 digits inside the official Java converter
    java = harness.gold_predictions(Selection(("simple_java",)), ROOT)
    function = next(prediction for prediction in java if "2" in prediction.calls[0].arguments.values())
    call = function.calls[0]
    broken = Call(call.name, {key: "9" * 5000 if value == "2" else value for key, value in call.arguments.items()})
    rest = [prediction for prediction in java if prediction != function]
    scores = harness.score([with_calls(function, broken), *rest], ROOT)
    assert [item.error_type for item in scores.items if item.item_id == function.item_id] == ["checker_raised:ValueError"]
    assert scores.categories["simple_java"].correct == 97  # gold's 98 less this one


def test_questions_are_what_a_policy_can_use(questions):
    assert [question.category for question in questions] == [category for category in CATEGORIES for _ in range(LIMIT)]
    assert questions == harness.questions(Selection(CATEGORIES, LIMIT), ROOT)
    first = questions[0]
    assert first.item_id == "simple_python_0"
    assert first.turns[0].messages == (
        {"role": "user", "content": "Find the area of a triangle with a base of 10 units and height of 5 units."},
    )
    (tool,) = first.tools
    assert tool.name == "calculate_triangle_area"
    assert tool.description.endswith(" Note that the provided function is in Python 3 syntax.")
    assert tool.parameters["type"] == "object"
    assert tool.required == ("base", "height")
    assert all("." not in tool.name and tool.name in question.names for question in questions for tool in question.tools)
    assert any("." in original for question in questions for original in question.names.values())
    assert sum(question.irregular for question in questions) == 0


def answer_from(gold, rename):
    calls_of = {prediction.item_id: prediction.calls for prediction in gold}

    def answer(questions):
        made = []
        for question in questions:
            calls = [Call(rename(call.name), call.arguments) for call in calls_of.get(question.item_id, ())]
            made.append(Answer(Prediction.single(question.item_id, question.category, calls), "stop", ({"role": "x"},), 7))
        return made

    return answer


def test_a_report_has_references_groups_and_a_trace_of_every_item(gold):
    report = harness.evaluate(answer_from(gold, lambda name: name), Selection(CATEGORIES, LIMIT), 0, ROOT)
    values = report.to_json()
    assert values["scope"].startswith("partial")
    assert values["package"].startswith("bfcl-eval ")
    for category, of in {"simple_python": 400, "multiple": 200, "parallel": 200, "irrelevance": 240}.items():
        assert values[f"{category}_accuracy"] == values[f"{category}_gold"] == 1.0
        assert (values[f"{category}_n"], values[f"{category}_of"]) == (LIMIT, of)
        assert values[f"{category}_random_call"] == 0.0
    assert values["irrelevance_do_nothing"] == 1.0
    assert values["multiple_do_nothing"] == 0.0
    assert values["groups"]["non_live"] == {"partial": "0 of 6 categories in full"}
    assert all(isinstance(value, str | int | float) for name, value in values.items() if name not in ("groups", "unsatisfiable"))
    assert len({trace.trace_id for trace in report.traces}) == 4 * LIMIT
    assert {(trace.score, trace.error, trace.sampled_tokens) for trace in report.traces} == {(1.0, "", 7)}


def test_a_full_category_is_not_called_partial():
    report = harness.evaluate(answer_from((), str), Selection(("live_parallel",)), 0, ROOT)
    assert not report.partial
    assert report.to_json()["scope"] == "full categories"
    assert report.to_json()["groups"]["live"] == {"partial": "1 of 4 categories in full"}


def test_evaluate_refuses_answers_to_other_questions(gold):
    with pytest.raises(ValueError, match="0 answers do not fit the 1 questions"):
        harness.evaluate(lambda questions: [], Selection(("multiple",), 1), 0, ROOT)


@pytest.mark.parametrize("category", ["memory_kv", "nonsense"])
def test_other_categories_are_refused_by_name(category):
    with pytest.raises(SlcaError, match=f"'{category}' is no category of BFCL that is scored here"):
        harness.questions(Selection((category,), 1), ROOT)


@pytest.mark.parametrize(("ids", "fault"), [(("multiple_0", "multiple_0"), "occurs twice"), (("multiple_999",), "has no item")])
def test_predictions_that_fit_no_item_are_errors(ids, fault):
    with pytest.raises(SlcaError, match=fault):
        harness.score([Prediction.single(item_id, "multiple", ()) for item_id in ids], ROOT)


def test_the_worker_leaves_nothing_behind(tmp_path, gold):
    site = client.INTERPRETER.python(ROOT).parents[1]
    before = sorted(path for path in site.rglob("*") if "__pycache__" not in path.parts)
    out = tmp_path / "out"
    out.mkdir()
    command = [client.INTERPRETER.python(ROOT), worker.__file__, "gold", "--categories", "multiple", "--limit", "1"]
    subprocess.run([*command, "--out", out / "gold.jsonl"], cwd=out, env={"TMPDIR": str(tmp_path)}, check=True)
    assert [path.name for path in out.iterdir()] == ["gold.jsonl"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert sorted(path for path in site.rglob("*") if "__pycache__" not in path.parts) == before


# Multi-turn


@pytest.fixture(scope="module")
def multi_turn_gold():
    return harness.gold_predictions(Selection(MULTI_TURN, 10), ROOT)


def test_multi_turn_verdicts_do_not_depend_on_what_was_scored_before(multi_turn_gold):
    # Upstream finds an item's objects again by name, so that a second scoring starts where the first ended.
    assert all(item.valid for item in harness.score(multi_turn_gold, ROOT).items)
    half = [dataclasses.replace(made, turns=(*made.turns[:-1], ())) for made in multi_turn_gold]
    wrong = harness.score(half, ROOT)
    assert {score.correct for score in wrong.categories.values()} == {0}
    assert {item.error_type for item in wrong.items} == {"multi_turn:empty_turn_model_response"}


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        pytest.param(lambda turns: turns[:-1], {"multi_turn:force_terminated"}, id="unfinished"),
        pytest.param(lambda turns: [[[]]] * len(turns), {"multi_turn:empty_turn_model_response"}, id="empty steps"),
        pytest.param(
            lambda turns: [[[Call("no_" + call.name, call.arguments) for call in step] for step in turn] for turn in turns],
            {"multi_turn:instance_state_mismatch", "multi_turn:execution_response_mismatch"},
            id="renamed functions",
        ),
        pytest.param(
            lambda turns: [
                [[Call(call.name, call.arguments | {"bogus": 1}) for call in step] for step in turn] for turn in turns
            ],
            {"multi_turn:instance_state_mismatch", "multi_turn:execution_response_mismatch"},
            id="bogus argument",
        ),
    ],
)
def test_wrong_episodes_score_nothing(multi_turn_gold, change, reasons):
    tried = [
        dataclasses.replace(made, turns=tuple(tuple(tuple(step) for step in turn) for turn in change(made.turns)))
        for made in multi_turn_gold
    ]
    scores = harness.score(tried, ROOT)
    assert {score.correct for score in scores.categories.values()} == {0}
    assert {item.error_type for item in scores.items} <= reasons


def test_an_environment_answers_as_upstream_words_it(environment):
    item = ("multi_turn_base_0", "multi_turn_base")
    first = ((Call("cd", {"folder": "document"}), Call("pwd", {})),)
    assert environment.execute(*item, [first]) == (
        ['{"current_working_directory": "document"}', '{"current_working_directory": "/workspace/document"}'],
        "",
    )
    # The next turn goes on in the same place; another episode of the item begins anew.
    assert environment.execute(*item, [first, ((Call("pwd", {}),),)])[0] == [
        '{"current_working_directory": "/workspace/document"}'
    ]
    assert environment.execute(*item, [((Call("pwd", {}),),)])[0] == ['{"current_working_directory": "/workspace"}']
    faulty = (Call("pwd", {"of": 1}), Call("dance", {}), Call("posting_api.dance", {}), Call("_load_scenario", {"scenario": {}}))
    results, refused = environment.execute(*item, [(faulty,)])
    assert not refused
    assert results[0].startswith("Error during execution: ")
    assert "unexpected keyword argument 'of'" in results[0]
    assert results[1] == "Error during execution: name 'dance' is not defined"
    assert results[2] == "Error during execution: name 'no_such_function' is not defined"
    assert results[3] == "Error during execution: name '_load_scenario' is not defined"


def crafted(pwned):
    code = f"__import__('os').system('touch {pwned}')"
    quoted = f"'); open({str(pwned)!r}, 'w'); ('"
    yield Call(code, {})
    yield Call(f"cd(folder={code}) or cd", {"folder": "x"})
    yield Call("cd.__globals__", {})
    yield Call("__init__", {})
    yield Call("_load_scenario", {"scenario": {}})
    yield Call("eval", {"source": code})
    for text in (code, quoted, "\\", "\n'\"" + code, "'" * 3 + code, "{" + code + "}", "\x00", "${IFS}", "../../etc/passwd"):
        yield Call("cd", {"folder": text})
        yield Call("cat", {"file_name": text})
        yield Call("echo", {"content": text, "file_name": text})
        yield Call("cd", {text: text})


def test_crafted_calls_run_nothing_and_read_nothing(environment, tmp_path):
    pwned = tmp_path / "pwned"
    for call in crafted(pwned):
        results, _ = environment.execute("multi_turn_base_0", "multi_turn_base", [((call,),)])
        assert "root:" not in json.dumps(results)
    step = tuple(crafted(pwned))
    scores = harness.score([Prediction("multi_turn_base_0", "multi_turn_base", ((step,), (step,), (step,), (step,)))], ROOT)
    assert not scores.items[0].valid
    assert not pwned.exists()


def test_text_that_names_a_function_is_stored_as_it_is(environment):
    # Upstream writes its own names into every "name(" of a call's text, strings included; ours holds no parenthesis there.
    said = "cd (folder) and sort(x)"
    calls = (
        Call("touch", {"file_name": "n"}),
        Call("echo", {"content": said, "file_name": "n"}),
        Call("cat", {"file_name": "n"}),
    )
    results, _ = environment.execute("multi_turn_base_0", "multi_turn_base", [(calls,)])
    assert json.loads(results[2]) == {"file_content": said}


def test_an_episode_with_too_much_in_it_is_refused(environment):
    item = ("multi_turn_base_0", "multi_turn_base")
    calls = (Call("pwd", {}),) * 101
    assert environment.execute(*item, [(calls,)]) == ([], "refused:too_many_calls")
    scored = harness.score([Prediction("multi_turn_base_0", "multi_turn_base", ((calls,), (), (), ()))], ROOT)
    assert scored.items[0].error_type == "refused:too_many_calls"
    value: object = 1
    for _ in range(100_000):
        value = [value]
    (result,), refused = environment.execute(*item, [((Call("cd", {"folder": value}),),)])
    assert result == "Error during execution: the arguments must be an object of moderate size"
    assert not refused


@pytest.mark.slow
def test_a_call_without_end_costs_its_item_and_no_more(environment, multi_turn_gold):
    # power(9, 10**9) is a valid call: hundreds of megabytes of digits, and minutes
    endless = Call("power", {"base": 9, "exponent": 10**9})
    lines = client.run("questions", Selection(("multi_turn_base",)).arguments, ROOT)
    item = next(line for line in lines if any(function["name"] == "power" for function in line["turns"][0]["functions"]))
    turns = [((endless,),) for _ in item["turns"]]
    assert environment.execute(item["id"], "multi_turn_base", turns[:1]) == ([], "refused:time_or_memory")
    assert environment.execute("multi_turn_base_0", "multi_turn_base", [((Call("pwd", {}),),)])[1] == ""
    rest = [made for made in multi_turn_gold if made.item_id != item["id"]]
    scores = harness.score([Prediction(item["id"], "multi_turn_base", tuple(turns)), *rest], ROOT)
    assert [(made.item_id, made.error_type) for made in scores.items if not made.valid] == [
        (item["id"], "refused:time_or_memory")
    ]


def test_held_out_functions_come_in_their_turn():
    (native,) = harness.questions(Selection(("multi_turn_miss_func",), 1), ROOT)
    (prompted,) = harness.questions(Selection(("multi_turn_miss_func",), 1, "prompt"), ROOT)
    assert [[tool.name for tool in turn.tools] for turn in native.turns[1:]] == [[], [], ["sort"], []]
    assert "sort" not in {tool.name for tool in native.turns[0].tools}
    ((said,),) = (native.turns[3].messages,)
    assert said == {"role": "user", "content": "I have updated some more functions you can choose from. What about now?"}
    system, first = prompted.turns[0].messages
    assert system["content"].startswith("You are an expert in composing functions.")
    assert '"name": "authenticate_twitter"' in system["content"]
    assert '"name": "sort"' not in system["content"]
    assert (first,) == native.turns[0].messages
    assert prompted.turns[3].messages[0]["content"].startswith("[{'name': 'sort', 'description': ")
    assert prompted.turns[3].messages[0]["content"].endswith("\n" + said["content"])
