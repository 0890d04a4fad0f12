"""Every rule against numbers derived by hand: three groups each, with equal rewards, absent segments and masked members.

Numbers in comments leave out eps, which the expected values contain.
"""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from credit_cases import make_calls, make_groups

from slca.credit import METHODS, Settings
from slca.errors import DataError
from slca.params import Train

EPS = 1e-6
ALL = Settings()
MEMBERS = Settings(presence_tool="members")
exactly = {"rel": 1e-14, "abs": 1e-15}

# Group 0: equal rewards. Group 1: a call that is cut off has no summary, an abstention no call, and one member is masked.
# Group 2: two members with both segments.
GROUPS = make_groups(
    (0, 1.0, 0.5, "TS"), (0, 1.0, 0.5, "TS"), (0, 1.0, 0.5, "TS"),
    (1, 1.0, 1.0, "TS"), (1, 0.5, 0.0, "T"), (1, 0.0, 0.5, "S"), (1, None, None, "TS"),
    (2, 0.25, 0.75, "TS"), (2, 0.75, 0.0, "TS"),
)  # fmt: skip


def test_grpo():
    # Group 0: R = 1.5 three times: 0.
    # Group 1: R = 2, 0.5, 0.5; mean 1; distances 1, -0.5, -0.5; variance (1 + 0.25 + 0.25) / 2 = 0.75.
    # Group 2: R = 1, 0.75; mean 0.875; distances 0.125, -0.125; variance 2 * 0.015625 / 1 = 0.03125.
    one, two = sqrt(0.75) + EPS, sqrt(0.03125) + EPS
    advantages = METHODS["grpo"](GROUPS, ALL)
    assert advantages.tool == pytest.approx([0, 0, 0, 1 / one, -0.5 / one, 0, 0, 0.125 / two, -0.125 / two], **exactly)
    assert advantages.summary == pytest.approx([0, 0, 0, 1 / one, 0, -0.5 / one, 0, 0.125 / two, -0.125 / two], **exactly)


def test_slca_with_the_tool_baseline_over_all():
    # Group 1, tool over all scorable: 1, 0.5, 0; mean 0.5; distances 0.5, 0, -0.5; variance 0.5 / 2 = 0.25. The abstention's
    # -0.5 reaches no token. Summary over those with a summary: 1, 0.5; mean 0.75; distances 0.25; variance 0.125.
    # Group 2, tool: distances -0.25, 0.25, variance 0.125; summary: distances 0.375, -0.375, variance 0.28125.
    advantages = METHODS["slca"](GROUPS, ALL)
    one, two = 0.5 + EPS, sqrt(0.125) + EPS
    assert advantages.tool == pytest.approx([0, 0, 0, 0.5 / one, 0, 0, 0, -0.25 / two, 0.25 / two], **exactly)
    one, two = sqrt(0.125) + EPS, sqrt(0.28125) + EPS
    assert advantages.summary == pytest.approx([0, 0, 0, 0.25 / one, 0, -0.25 / one, 0, 0.375 / two, -0.375 / two], **exactly)


def test_slca_as_in_the_paper():
    # Group 1, tool over those that call: 1, 0.5; mean 0.75; distances 0.25, -0.25; variance 0.125. The rest as above.
    advantages = METHODS["slca"](GROUPS, MEMBERS)
    scale = sqrt(0.125) + EPS
    assert advantages.tool == pytest.approx([0, 0, 0, 0.25 / scale, -0.25 / scale, 0, 0, -0.25 / scale, 0.25 / scale], **exactly)
    assert np.array_equal(advantages.summary, METHODS["slca"](GROUPS, ALL).summary)


def test_gdpo():
    # z-scores, tool: group 1: 1, 0, -1 (deviation 0.5); group 2: -0.25, 0.25 by sqrt(0.125), that is -r, r, r = sqrt(0.5).
    # Summary: group 1: 1, 0, 0.5: mean 0.5, deviation 0.5, so 1, -1, 0; group 2: r, -r.
    # Sums: group 0: 0, 0, 0; group 1: 2, -1, -1; group 2: 0, 0. Batch of 8: mean 0, variance (4 + 1 + 1) / 7.
    # eps enters the first step as well: group 1's z-scores are 0.5 / (0.5 + eps) times as large; group 2's r differ by eps too.
    z = 0.5 / (0.5 + EPS)
    r_tool, r_summary = 0.25 / (sqrt(0.125) + EPS), 0.375 / (sqrt(0.28125) + EPS)
    sums = [0, 0, 0, 2 * z, -z, -z, r_summary - r_tool, r_tool - r_summary]
    scale = sqrt(sum(value**2 for value in sums) / 7) + EPS
    assert scale == pytest.approx(sqrt(6 / 7), abs=1e-5)
    a, b, c, d = 2 * z / scale, -z / scale, (r_summary - r_tool) / scale, (r_tool - r_summary) / scale
    advantages = METHODS["gdpo"](GROUPS, ALL)
    assert advantages.tool == pytest.approx([0, 0, 0, a, b, 0, 0, c, d], rel=1e-9, abs=1e-12)
    assert advantages.summary == pytest.approx([0, 0, 0, a, 0, b, 0, c, d], rel=1e-9, abs=1e-12)


def test_routed_joint():
    # The distances of slca by the deviations of grpo: group 1 sqrt(0.75), group 2 sqrt(0.03125).
    one, two = sqrt(0.75) + EPS, sqrt(0.03125) + EPS
    advantages = METHODS["routed_joint"](GROUPS, ALL)
    assert advantages.tool == pytest.approx([0, 0, 0, 0.5 / one, 0, 0, 0, -0.25 / two, 0.25 / two], **exactly)
    assert advantages.summary == pytest.approx([0, 0, 0, 0.25 / one, 0, -0.25 / one, 0, 0.375 / two, -0.375 / two], **exactly)


# What the calls of GROUPS were. Group 0: all alike. Group 1: the abstention made none. Group 2: two steps.
CALLS = make_calls(
    [(0, 0.5)], [(0, 0.5)], [(0, 0.5)],
    [(0, 1.0)], [(0, 0.25)], [], [(0, 0.0)],
    [(0, 0.5), (0, 0.0), (1, 1.0)], [(0, 1.0), (1, 0.0)],
    success=[1, 1, 1, 1, 0, 0, 1, 0, 1], correct=[1, 1, 1, 2, 1, 0, 2, 0, 1], completeness=[1, 1, 1, 1, 0.5, 0, 1, 0, 0.5],
    repeats=[0, 0, 0, 0, 1, 0, 0, 2, 0], errors=[0, 0, 0, 0, 1, 0, 0, 1, 0], malformed=[0, 0, 0, 0, 0, 0, 0, 0, 1],
)  # fmt: skip
WITH_CALLS = replace(GROUPS, calls=CALLS)


def test_toolpo_by_rule():
    # Group 1, over the scorable: success 1, 0, 0: mean 1/3; correct 2, 1, 0: mean 1. The abstention has no TOOL tokens.
    # Group 2: success 0, 1: mean 1/2; correct 0, 1: mean 1/2.
    advantages = METHODS["toolpo"](WITH_CALLS, ALL)
    assert advantages.tool == pytest.approx([0, 0, 0, 2 / 3 + 1, -1 / 3, 0, 0, -1, 1], **exactly)
    assert advantages.summary == pytest.approx([0, 0, 0, 2 / 3, 0, -1 / 3, 0, -0.5, 0.5], **exactly)


def test_toolpo_by_judge():
    # Group 1: summary 1, 0, 0.5: mean 0.5. Group 2: 0.75, 0: mean 0.375.
    advantages = METHODS["toolpo"](WITH_CALLS, Settings(toolpo_success="judge"))
    assert advantages.tool == pytest.approx([0, 0, 0, 0.5 + 1, -0.5, 0, 0, 0.375 - 0.5, -0.375 + 0.5], **exactly)
    assert advantages.summary == pytest.approx([0, 0, 0, 0.5, 0, 0, 0, 0.375, -0.375], **exactly)


def test_rltr():
    # Group 1: 1, 0.5 - 0.1 - 0.2 = 0.2, 0: mean 0.4; distances 0.6, -0.2, -0.4; variance (0.36 + 0.04 + 0.16) / 2 = 0.28.
    # Group 2: 0 - 0.2 - 0.2 = -0.4, and -1 for the malformed call: mean -0.7; distances 0.3, -0.3; variance 0.18.
    advantages = METHODS["rltr"](WITH_CALLS, ALL)
    one, two = sqrt(0.28) + EPS, sqrt(0.18) + EPS
    assert advantages.tool == pytest.approx([0, 0, 0, 0.6 / one, -0.2 / one, 0, 0, 0.3 / two, -0.3 / two], rel=1e-12, abs=1e-12)
    assert not advantages.summary.any()


def test_slca_call_adds_each_call_s_own_score_among_the_calls_of_its_step():
    # Group 0: equal scores. Group 1, step 0: 1, 0.25 (the masked 0 is left out): distances 0.375, -0.375, variance 0.28125.
    # Group 2, step 0: 0.5, 0, 1: mean 0.5; distances 0, -0.5, 0.5; variance 0.25. Step 1: 1, 0: distances 0.5; variance 0.5.
    advantages = METHODS["slca_call"](WITH_CALLS, Settings(lambda_tool=2.0))
    plain = METHODS["slca"](WITH_CALLS, Settings(lambda_tool=2.0))
    assert np.array_equal(advantages.tool, plain.tool) and np.array_equal(advantages.summary, plain.summary)
    one, two, three = 2 * 0.375 / (sqrt(0.28125) + EPS), 2 * 0.5 / (0.5 + EPS), 2 * 0.5 / (sqrt(0.5) + EPS)
    expected = [(0,), (0,), (0,), (one,), (-one,), (), (0,), (0, -two, three), (two, -three)]
    assert advantages.calls is not None
    for row, values in zip(advantages.calls, expected, strict=True):
        assert row == pytest.approx(values, **exactly)


def test_a_single_call_in_a_step_gets_nothing_beyond_slca():
    groups = make_groups((0, 1.0, 0.5, "TS"), (0, 0.0, 0.5, "S"))
    assert METHODS["slca_call"](groups, ALL).calls == ((0.0,), ())


@pytest.mark.parametrize("method", ["toolpo", "rltr", "slca_call"])
def test_rules_that_look_at_calls_say_so_where_nothing_is_known_of_them(method):
    with pytest.raises(DataError, match=f"Method {method} needs"):
        METHODS[method](replace(GROUPS, calls=None), ALL)


def test_routed_joint_learns_nothing_where_the_rewards_cancel():
    # R = 1 twice, but for rounding: 0.1 + 0.2 is not 0.3. Divided by eps alone the advantages would be about 5e4.
    groups = make_groups((0, 0.1, 0.2, "TS"), (0, 0.3, 0.0, "TS"))
    assert groups.tool[0] + groups.summary[0] != groups.tool[1]
    advantages = METHODS["routed_joint"](groups, ALL)
    assert not advantages.tool.any()
    assert not advantages.summary.any()


@pytest.mark.parametrize("method", ["slca", "routed_joint"])
def test_lambda_weighs_after_normalising(method):
    # Before normalising a factor would cancel.
    plain = METHODS[method](GROUPS, ALL)
    weighted = METHODS[method](GROUPS, Settings(lambda_tool=2.0, lambda_sum=0.5))
    assert np.array_equal(weighted.tool, 2.0 * plain.tool)
    assert np.array_equal(weighted.summary, 0.5 * plain.summary)


def test_lambda_weighs_the_rewards_of_gdpo_against_each_other():
    # Without the summary, group 2's better call wins; without the tool reward, its better summary does.
    assert METHODS["gdpo"](GROUPS, Settings(lambda_sum=0.0)).tool[7] < 0
    assert METHODS["gdpo"](GROUPS, Settings(lambda_tool=0.0)).tool[7] > 0


def test_a_needless_call_is_discouraged_only_if_abstentions_are_in_the_baseline():
    # No call is needed: half abstain rightly (tool reward 1), half call needlessly (0). Among those that call there is no
    # difference. Over all: mean 0.5, distances 0.5, variance 4 * 0.25 / 3 = 1/3.
    groups = make_groups((0, 1.0, 0.5, "S"), (0, 1.0, 0.5, "S"), (0, 0.0, 0.5, "TS"), (0, 0.0, 0.5, "TS"))
    assert METHODS["slca"](groups, MEMBERS).tool.tolist() == [0, 0, 0, 0]
    needless = -0.5 / (sqrt(1 / 3) + EPS)
    assert METHODS["slca"](groups, ALL).tool == pytest.approx([0, 0, needless, needless], **exactly)
    assert needless < 0


def test_a_single_needless_call_is_discouraged_too():
    # Tool rewards 1, 1, 1, 0: mean 0.75, variance (3 * 0.0625 + 0.5625) / 3 = 0.25. One member with the segment is too few for
    # the paper's baseline, but the baseline over all has four.
    groups = make_groups((0, 1.0, 0.5, "S"), (0, 1.0, 0.5, "S"), (0, 1.0, 0.5, "S"), (0, 0.0, 0.5, "TS"))
    assert METHODS["slca"](groups, MEMBERS).tool[3] == 0
    assert METHODS["slca"](groups, ALL).tool[3] == pytest.approx(-0.75 / (0.5 + EPS), **exactly)


@pytest.mark.parametrize(("presence", "learns"), [("members", False), ("all", True)])
def test_a_toy_bandit_unlearns_the_needless_call_under_all_alone(presence, learns):
    # Field case 18. One decision, one logit, policy gradient. No call is needed; calling is a TOOL token, abstaining a SUMMARY
    # token, and the judge likes all replies alike. Under ``members`` no advantage differs from 0, so the policy cannot move.
    random = np.random.default_rng(0)
    logit = 0.0
    for _ in range(100):
        call_rate = 1 / (1 + np.exp(-logit))
        calls = random.random(8) < call_rate
        groups = make_groups(*((0, 0.0, 0.5, "T") if call else (0, 1.0, 0.5, "S") for call in calls))
        advantages = METHODS["slca"](groups, Settings(presence_tool=presence))
        # d log p(call) / d logit = 1 - call_rate; d log p(abstain) / d logit = -call_rate
        logit += 0.5 * float(np.mean(advantages.tool * (1 - call_rate) - advantages.summary * call_rate))
    assert (call_rate < 0.1) == learns
    assert (logit == 0.0) == (not learns)


def test_settings_come_from_the_parameters():
    train = Train(lambda_tool=2.0, lambda_sum=3.0, presence_tool="members", presence_sum="all", omission_guard="paper")
    assert Settings.from_params(train) == Settings(2.0, 3.0, "members", "all", "paper", "rule", 0.1, 0.2, 1e-6)
    assert Settings.from_params(Train()) == Settings()
