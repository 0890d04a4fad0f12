import pytest
from hierr_builders import attempt, call, made, rollout, task, turn

from slca.hierr.judges import Judge, JudgeFailure, Rubric, judge_of
from slca.hierr.judges.rubric import stated_values
from slca.hierr.summary import summary_score
from slca.params import Rewards
from slca.records import CallError, FinishReason, Task

QUESTION = "How is the weather in Rome on 2026-03-01?"
RESULTS = ({"city": "Rome", "sky": "sunny", "high": 21, "low": 9},)
FACTS = ("sunny", "9", "21")
GOOD = "It will be sunny in Rome, between 9 and 21 degrees."
WEATHER = call("weather", city="Rome")
JUDGE = judge_of(Rewards())


def rubric(reply: str, facts: tuple[str, ...] = FACTS) -> float:
    """The rating as a score in 0..1."""
    return (JUDGE.rate(QUESTION, RESULTS, reply, facts) - 1) / 4


def test_a_good_reply_gets_exactly_1() -> None:
    assert rubric(GOOD) == 1.0
    assert isinstance(JUDGE, Rubric)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        # .6 facts + .2 support + .1 clean + .1 length
        ("It will be sunny in Rome, at least 9 degrees.", 0.6 * 2 / 3 + 0.4),  # 21 is not stated
        # 21 is not stated; of Rome, 9 and 321 the last is invented
        ("It will be sunny in Rome, between 9 and 321 degrees.", 0.6 * 2 / 3 + 0.2 * 2 / 3 + 0.2),
        ("It will be sunny in Oslo, between 9 and 21 degrees.", 0.6 + 0.2 * 2 / 3 + 0.2),  # of Oslo, 9, 21 two are known
        (GOOD + " {}", 0.9),
        (GOOD + "<|im_start|>", 0.9),
        (GOOD + " so" * 130, 0.9),  # over 400 characters
        ("sunny 9 21", 1.0),  # 10 characters
        ("I do not know, sorry.", 0.4),  # states nothing, invents nothing
        # The question is a source; units are the reply's own
        ("It will be sunny in Rome on 2026-03-01, between 9°C and 21°C.", 1.0),
    ],
)
def test_the_rubric_line_by_line(reply: str, expected: float) -> None:
    assert rubric(reply) == pytest.approx(expected)


def test_a_reply_without_required_facts_is_judged_on_the_rest() -> None:
    assert rubric("I have no tool for that.", ()) == 1.0


def test_stated_values_are_numbers_ids_dates_and_names() -> None:
    reply = "Booking BK123 for Ada Weber's trip (on 2026-03-01) is done. Enjoy it: Room B-4!\nBest I can do: $12."
    assert stated_values(reply) == ["BK123", "Ada", "Weber", "2026-03-01", "B-4", "12"]


class Fixed:
    """A judge that answers one rating, or fails."""

    def __init__(self, rating: float | None) -> None:
        self.rating = rating
        self.asked = 0

    def rate(self, question: str, results: object, reply: str, facts: object) -> float:
        self.asked += 1
        if self.rating is None:
            raise JudgeFailure("no answer")
        return self.rating


GOLD = task(((WEATHER,),), facts=FACTS, question=QUESTION)


@pytest.mark.parametrize(("rating", "expected"), [(1.0, 0.0), (2.0, 0.25), (4.5, 0.875), (5.0, 1.0)])
def test_ratings_map_to_0_to_1(rating: float, expected: float) -> None:
    judge: Judge = Fixed(rating)
    assert summary_score(GOLD, rollout(made(WEATHER, result=RESULTS[0]), reply=GOOD), "strict", judge) == expected


def test_the_judge_sees_question_results_and_what_the_user_sees() -> None:
    seen = []

    class Recorder:
        def rate(self, question: str, results: object, reply: str, facts: object) -> float:
            seen.append((question, results, reply, facts))
            return 3.0

    steps = (turn(attempt(WEATHER, CallError.NOT_FOUND), attempt(WEATHER, result=RESULTS[0])),)
    summary_score(GOLD, rollout(*steps, reply=f" {GOOD}<|im_end|>"), "strict", Recorder())
    assert seen == [(QUESTION, RESULTS, GOOD, FACTS)]


@pytest.mark.parametrize("variant", ["strict", "paper"])
@pytest.mark.parametrize(
    "scored",
    [
        rollout(reply=GOOD),  # no call, so no result to report
        rollout(made(WEATHER, error=CallError.NOT_FOUND), reply=GOOD),  # an error is no result
        rollout(made(WEATHER, error=CallError.FAULT), reply=GOOD),
        rollout(made(WEATHER, result=RESULTS[0]), reply="Sunny 21."),  # 9 characters
        rollout(made(WEATHER, result=RESULTS[0]), reply="Sunny 21.<|im_end|>"),
        rollout(made(WEATHER, result=RESULTS[0]), reply=GOOD, finish=FinishReason.LENGTH),  # cut off: no reply
        rollout(made(WEATHER, result=RESULTS[0]), finish=FinishReason.TURN_LIMIT),
    ],
)
def test_rule_made_zeros_do_not_ask_the_judge(scored: object, variant: str) -> None:
    judge = Fixed(5.0)
    assert summary_score(GOLD, scored, variant, judge) == 0.0  # type: ignore[arg-type]
    assert judge.asked == 0


@pytest.fixture
def abstain() -> Task:
    return task((), facts=("cannot",), reply="I cannot book a hotel with these tools.")


def test_an_abstention_is_judged_on_its_own_facts_but_not_by_the_paper(abstain: Task) -> None:
    right = rollout(reply=abstain.reply)
    assert summary_score(abstain, right, "strict", JUDGE) == 1.0
    assert summary_score(abstain, right, "paper", JUDGE) == 0.0
    # A needless call with a result: the paper's judge rates its reply.
    assert summary_score(abstain, rollout(made(WEATHER, result={}), reply=abstain.reply), "paper", JUDGE) == 1.0


@pytest.mark.parametrize("rating", [None, float("nan"), float("inf"), 0.0, 5.1])
def test_a_failing_judge_or_a_senseless_rating_is_a_failure(rating: float | None) -> None:
    told = rollout(made(WEATHER, result=RESULTS[0]), reply=GOOD)
    with pytest.raises(JudgeFailure):
        summary_score(GOLD, told, "strict", Fixed(rating))
    assert summary_score(GOLD, told, "paper", Fixed(rating)) == 0.0  # the published behaviour
