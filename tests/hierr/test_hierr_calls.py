"""What single calls are worth, by hand: weights .10 format, .25 name, .15 key, .20 value, over their sum .70."""

import pytest
from hierr_builders import BROKEN, attempt, call, made, task, turn

from slca.hierr.calls import call_scores
from slca.records import CallError, Step

TWO = task(((call("weather", city="Oslo"), call("book", seat="A1", day=3)),))


def test_a_call_is_scored_against_the_gold_call_it_stands_for():
    # weather in full: 1. book with one of two values right: .10 + .25 + .15 + .10 = .60. search stands for none: .10.
    step = made(call("book", seat="A1", day=4), call("weather", city="Oslo"), call("search"))
    found = call_scores(TWO, [step, Step("Done.")])
    assert found.scores == pytest.approx((0.60 / 0.70, 1.0, 0.10 / 0.70), abs=1e-15)
    assert (found.steps, found.correct, found.completeness, found.errors, found.malformed) == ((0, 0, 0), 1, 0.5, 0, 0)


def test_a_repeated_call_is_worth_no_more_than_its_form():
    found = call_scores(TWO, [made(call("weather", city="Oslo")), made(call("weather", city="Oslo"))])
    assert found.steps == (0, 1)
    assert found.scores == pytest.approx((1.0, 0.10 / 0.70), abs=1e-15)


def test_malformed_and_refused_calls_are_errors():
    refused = attempt(call("weather", town="Oslo"), CallError.INVALID_ARGUMENTS)
    found = call_scores(TWO, [turn(BROKEN, refused)])
    # No format; the name is right, no key is.
    assert found.scores == pytest.approx((0.0, 0.25 / 0.70), abs=1e-15)
    assert (found.correct, found.errors, found.malformed) == (0, 2, 1)


def test_where_no_call_is_right_every_call_is_worth_nothing_and_abstaining_is_complete():
    nothing = task(())
    found = call_scores(nothing, [made(call("search"))])
    assert (found.scores, found.completeness) == ((0.0,), 0.0)
    assert call_scores(nothing, [Step("I cannot.")]).completeness == 1.0


def test_a_faulted_call_is_worth_what_its_retry_is_and_no_error():
    faulted = made(call("weather", city="Oslo"), error=CallError.FAULT)
    found = call_scores(TWO, [faulted, made(call("weather", city="Oslo"))])
    assert found.scores == (1.0, 1.0)
    assert (found.correct, found.errors) == (1, 0)
