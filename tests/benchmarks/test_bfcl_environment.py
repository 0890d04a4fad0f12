"""The BFCL harness against the official package, as users run it: gold scores full marks, anything else does not."""

import dataclasses
import subprocess
from pathlib import Path

import pytest

from slca.benchmarks.bfcl import harness, worker
from slca.errors import MissingDependency, SlcaError
from slca.records import Call

ROOT = Path(__file__).parents[2]
CATEGORIES = ("simple_python", "multiple", "parallel", "irrelevance")
CALLING = CATEGORIES[:3]
LIMIT = 40

try:
    harness.python_of_environment(ROOT)
except MissingDependency as error:
    pytestmark = pytest.mark.skip(reason=str(error))


@pytest.fixture(scope="module")
def gold():
    return harness.gold_predictions(CALLING, LIMIT, ROOT)


@pytest.fixture(scope="module")
def questions():
    return harness.questions(CATEGORIES, LIMIT, ROOT)


def accuracies(scores):
    return {category: score.accuracy for category, score in scores.categories.items()}


def changed(predictions, change):
    """Every prediction with its first call replaced by ``change(call)``; those that ``change`` answers with None are left out."""
    kept = []
    for prediction in predictions:
        first = change(prediction.calls[0])
        if first is not None:
            calls = (*((first,) if isinstance(first, Call) else first), *prediction.calls[1:])
            kept.append(dataclasses.replace(prediction, calls=calls))
    return kept


def test_the_installed_version_is_the_pinned_one(gold):
    pins = (Path(worker.__file__).parent / "requirements.txt").read_text().splitlines()
    assert f"{worker.PACKAGE}=={harness.score(gold[:1], ROOT).version}" in pins


def test_gold_and_doing_nothing_on_the_evaluated_items():
    references = harness.references(CATEGORIES, LIMIT, ROOT)
    assert accuracies(references["gold"]) == dict.fromkeys(CATEGORIES, 1.0)
    assert accuracies(references["do_nothing"]) == {"simple_python": 0.0, "multiple": 0.0, "parallel": 0.0, "irrelevance": 1.0}
    assert {score.n for score in references["gold"].categories.values()} == {LIMIT}


def test_gold_on_every_single_turn_category():
    # Most misses have no acceptable answer in the published data. In parallel_multiple the first accepted value of an optional
    # argument has no parameter or a wrong type; live_multiple_507 accepts leaving out an argument that its schema requires.
    expected = {
        "simple_python": (400, 400),
        "simple_java": (98, 100),
        "simple_javascript": (50, 50),
        "multiple": (200, 200),
        "parallel": (200, 200),
        "parallel_multiple": (198, 200),
        "irrelevance": (240, 240),
        "live_simple": (256, 258),
        "live_multiple": (1050, 1053),
        "live_parallel": (16, 16),
        "live_parallel_multiple": (24, 24),
        "live_irrelevance": (884, 884),
        "live_relevance": (16, 16),
    }
    scores = harness.references(tuple(expected), None, ROOT)["gold"]
    assert {category: (score.correct, score.n) for category, score in scores.categories.items()} == expected
    assert all(score.n == score.of for score in scores.categories.values())
    missed = {item.item_id for item in scores.items if not item.valid}
    assert missed == {
        "simple_java_36",
        "simple_java_65",
        "parallel_multiple_12",
        "parallel_multiple_26",
        "live_simple_106-63-0",
        "live_simple_112-68-0",
        "live_multiple_507-149-4",
        "live_multiple_862-181-3",
        "live_multiple_964-207-0",
    }


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
        dataclasses.replace(prediction, calls=(Call(call.name, kept), *prediction.calls[1:]))
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
    assert harness.score([dataclasses.replace(item, calls=(Call(call.name, kept),))], ROOT).items[0].valid


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
        harness.Prediction(question.item_id, question.category, (Call(next(iter(question.names.values())), {}),))
        for question in questions
        if question.category == "irrelevance"
    ]
    scores = harness.score(calls, ROOT)
    assert accuracies(scores) == {"irrelevance": 0.0}
    assert {item.error_type for item in scores.items} == {"irrelevance_error:called"}


def test_crafted_text_runs_nothing(gold, tmp_path):
    pwned = tmp_path / "pwned"
    code = f"__import__('os').system('touch {pwned}')"
    crafted = [dataclasses.replace(gold[0], calls=(Call(code, {}),))]
    crafted += changed(gold[1:], lambda call: Call(call.name, {key: code for key in call.arguments} | {code: code}))
    scores = harness.score(crafted, ROOT)
    assert scores.items[0].error_type == "refused:unknown_function"
    assert not any(item.valid for item in scores.items)
    assert not pwned.exists()


def test_deep_arguments_are_refused_and_the_rest_is_scored(gold):
    value: object = 1
    for _ in range(100_000):
        value = [value]
    scores = harness.score([dataclasses.replace(gold[0], calls=(Call(gold[0].calls[0].name, {"x": value}),)), *gold[1:]], ROOT)
    assert [item.error_type for item in scores.items if not item.valid] == ["refused:arguments"]


def test_what_breaks_the_checker_is_one_wrong_item(gold):
    # int("9" * 5000) exceeds Python's limit of 4300 digits inside the official Java converter
    java = harness.gold_predictions(["simple_java"], None, ROOT)
    function = next(prediction for prediction in java if "2" in prediction.calls[0].arguments.values())
    call = function.calls[0]
    broken = Call(call.name, {key: "9" * 5000 if value == "2" else value for key, value in call.arguments.items()})
    rest = [prediction for prediction in java if prediction != function]
    scores = harness.score([dataclasses.replace(function, calls=(broken,)), *rest], ROOT)
    assert [item.error_type for item in scores.items if item.item_id == function.item_id] == ["checker_raised:ValueError"]
    assert scores.categories["simple_java"].correct == 97  # gold's 98 less this one


def test_questions_are_what_a_policy_can_use(questions):
    assert [question.category for question in questions] == [category for category in CATEGORIES for _ in range(LIMIT)]
    assert questions == harness.questions(CATEGORIES, LIMIT, ROOT)
    first = questions[0]
    assert first.item_id == "simple_python_0"
    assert first.messages == (
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

    def generate(questions):
        return [
            [Call(rename(call.name), call.arguments) for call in calls_of.get(question.item_id, ())] for question in questions
        ]

    return generate


def test_evaluate_maps_names_back_and_reports_references(gold):
    report = harness.evaluate(answer_from(gold, lambda name: name.replace(".", "_")), CATEGORIES, LIMIT, ROOT)
    values = report.to_json()
    assert values["scope"].startswith("partial")
    assert values["package"].startswith("bfcl-eval ")
    for category, of in {"simple_python": 400, "multiple": 200, "parallel": 200, "irrelevance": 240}.items():
        assert values[f"{category}_accuracy"] == values[f"{category}_gold"] == 1.0
        assert (values[f"{category}_n"], values[f"{category}_of"]) == (LIMIT, of)
    assert values["irrelevance_do_nothing"] == 1.0
    assert values["multiple_do_nothing"] == 0.0
    assert all(isinstance(value, str | int | float) for value in values.values())


def test_evaluate_refuses_names_that_were_not_offered(gold):
    # The original spelling is not in the policy's tool list: items whose function has a dot are wrong, all others right.
    dotted = {category: 0 for category in CALLING}
    for prediction in gold:
        dotted[prediction.category] += any("." in call.name for call in prediction.calls)
    assert all(dotted.values())
    report = harness.evaluate(answer_from(gold, lambda name: name), CALLING, LIMIT, ROOT)
    assert {category: LIMIT - score.correct for category, score in report.scores.categories.items()} == dotted


def test_a_full_category_is_not_called_partial():
    report = harness.evaluate(lambda questions: [() for _ in questions], ["live_parallel"], None, ROOT)
    assert not report.partial
    assert report.to_json()["scope"] == "full categories"


def test_evaluate_refuses_a_wrong_number_of_answers():
    with pytest.raises(ValueError, match="0 answers to 1 questions"):
        harness.evaluate(lambda questions: [], ["multiple"], 1, ROOT)


@pytest.mark.parametrize("category", ["multi_turn_base", "nonsense"])
def test_other_categories_are_refused_by_name(category):
    with pytest.raises(SlcaError, match=f"'{category}' is no single-turn category"):
        harness.questions([category], 1, ROOT)


@pytest.mark.parametrize(("ids", "fault"), [(("multiple_0", "multiple_0"), "occurs twice"), (("multiple_999",), "has no item")])
def test_predictions_that_fit_no_item_are_errors(ids, fault):
    with pytest.raises(SlcaError, match=fault):
        harness.score([harness.Prediction(item_id, "multiple", ()) for item_id in ids], ROOT)


def test_the_worker_leaves_nothing_behind(tmp_path, gold):
    site = harness.python_of_environment(ROOT).parents[1]
    before = sorted(path for path in site.rglob("*") if "__pycache__" not in path.parts)
    out = tmp_path / "out"
    out.mkdir()
    command = [harness.python_of_environment(ROOT), worker.__file__, "gold", "--categories", "multiple", "--limit", "1"]
    subprocess.run([*command, "--out", out / "gold.jsonl"], cwd=out, env={"TMPDIR": str(tmp_path)}, check=True)
    assert [path.name for path in out.iterdir()] == ["gold.jsonl"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert sorted(path for path in site.rglob("*") if "__pycache__" not in path.parts) == before
