import pytest
from hierr_builders import BROKEN, attempt, call, made, rollout, task, turn

from slca.hierr.outcome import outcome_score
from slca.hierr.redundancy import redundancy, repeats
from slca.hierr.words import contains, fold, result_text
from slca.records import CallError, Json

WEATHER = call("weather", city="Rome")
GOLD = task(((WEATHER,),), facts=("sunny", "12"))


def test_any_path_to_the_end_state_and_the_facts_counts() -> None:
    other_path = (made(call("search"), result={"sky": "sunny"}), made(call("book"), result={"high": 12}))
    assert outcome_score(GOLD, rollout(*other_path)) == 1.0
    assert outcome_score(GOLD, rollout(*other_path, end_state="another")) == 0.0
    assert outcome_score(GOLD, rollout(other_path[0])) == 0.0  # "12" is missing
    assert outcome_score(GOLD, rollout()) == 0.0


def test_facts_in_error_results_do_not_count() -> None:
    refused = attempt(WEATHER, CallError.NOT_FOUND)
    assert outcome_score(task(((WEATHER,),), facts=("not_found",)), rollout(turn(refused))) == 0.0


@pytest.mark.parametrize("wrong", [BROKEN, attempt(WEATHER), attempt(WEATHER, CallError.FAULT)])
def test_where_no_call_is_right_any_attempt_is_wrong(wrong: object) -> None:
    assert outcome_score(task(()), rollout(turn(wrong))) == 0.0  # type: ignore[arg-type]
    assert outcome_score(task(()), rollout(reply="I cannot do that.")) == 1.0


def test_redundancy_counts_calls_beyond_the_gold_tool_names() -> None:
    gold = ((WEATHER,), (call("book"),))
    assert redundancy(gold, rollout()) == 0.0
    assert redundancy(gold, rollout(made(WEATHER, call("book")))) == 0.0
    # weather twice, book once, one attempt without a name: 2 of 4 are beyond {weather, book}
    assert redundancy(gold, rollout(made(WEATHER, WEATHER), turn(BROKEN), made(call("book")))) == 0.5
    assert redundancy(gold, rollout(made(call("weather", city="Oslo")))) == 0.0  # a wrong value is no redundant call
    assert redundancy((), rollout(made(WEATHER))) == 1.0


def test_a_retry_is_neither_redundant_nor_a_repeat() -> None:
    fault = made(WEATHER, error=CallError.FAULT)
    assert redundancy(((WEATHER,),), rollout(fault, made(WEATHER))) == 0.0
    assert repeats(rollout(fault, fault, made(WEATHER))) == 0
    assert redundancy(((WEATHER,),), rollout(fault, made(WEATHER), made(WEATHER))) == pytest.approx(1 / 3)
    assert repeats(rollout(fault, made(WEATHER), made(WEATHER))) == 1


def test_repeats_are_consecutive_and_identical() -> None:
    oslo = call("weather", city="Oslo")
    assert repeats(rollout(made(WEATHER, WEATHER), made(WEATHER))) == 2
    assert repeats(rollout(made(WEATHER, oslo, WEATHER))) == 0
    assert repeats(rollout(turn(BROKEN, BROKEN))) == 0
    assert repeats(rollout(made(call("weather", n=1), call("weather", n=1.0)))) == 1
    assert repeats(rollout(made(call("weather", n=1), call("weather", n=True)))) == 0


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("It is 12.", "12", True),
        ("312", "12", False),
        ("12.5", "12", False),
        ("3.12", "12", False),
        ("-12", "12", False),
        ("-12", "-12", True),
        ("1,200", "200", False),
        ("2024-12-01", "12", False),
        ("at 10:30", "10", False),
        ("costs $12, not 13", "12", True),
        ("312 and 12", "12", True),
        ("room B12", "12", False),
        ("12kg", "12", False),
        ("Gate: A4", "a4", True),
        ("Rome-based", "Rome", True),
        ("Romeo", "Rome", False),
        ("in Sa\u0303o Paulo.", "São Paulo", True),
        ("東京は12度です", "東京", True),
        ("東京は12度です", "12", True),
        ("anything", "", False),
    ],
)
def test_values_are_found_as_a_whole(text: str, value: str, found: bool) -> None:
    assert contains(fold(text), fold(value)) is found


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ({"a": [12, 13]}, "12"),  # compact JSON alone reads "12,13"
        ({"a": 12.0}, "12"),
        ({"a": 12.0}, "12.0"),
        ({"a": 'say "hi" now'}, 'say "hi" now'),
        ({"order_id": "東京-7"}, "東京-7"),
        ({"open": True}, "true"),
        ({"a": {"b": 1}}, '{"b":1}'),
    ],
)
def test_results_are_searched_as_json_and_as_bare_values(result: Json, value: str) -> None:
    assert contains(result_text([result]), value)
