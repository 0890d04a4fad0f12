"""The properties of method section 2, on any groups: the lock, the sum of gradients, and the invariances."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from credit_cases import (
    SUMMARY,
    TOOL,
    call_of,
    dyadic,
    finite,
    ids_of,
    labels_of,
    make_calls,
    make_groups,
    same,
    some_groups,
)
from hypothesis import assume, given
from hypothesis import strategies as st

from slca.credit import METHODS, Groups, Settings, spread

presences = st.sampled_from(["all", "members"])
any_settings = st.builds(
    Settings, presence_tool=presences, presence_sum=presences, omission_guard=st.sampled_from(["tool_side", "paper", "off"])
)
locked_settings = st.builds(
    Settings,
    lambda_tool=st.sampled_from([0.5, 1.0, 3.0]),
    presence_tool=presences,
    presence_sum=presences,
    omission_guard=st.sampled_from(["tool_side", "off"]),
)
every_method = pytest.mark.parametrize("method", sorted(METHODS))


def changed(data: st.DataObject, groups: Groups, name: str) -> Groups:
    """``groups`` with other values of one reward in some or all scorable rows."""
    new = np.array(data.draw(st.lists(finite, min_size=len(groups.group), max_size=len(groups.group))))
    return replace(groups, **{name: np.where(groups.scorable, new, np.nan)})


def tokens_of(groups: Groups, settings: Settings, method: str, segment: int) -> bytes:
    """The bits of the advantages on every token of one segment."""
    labels = labels_of(groups)
    written = spread(METHODS[method](groups, settings), labels, ids_of(groups), call_of(groups))
    return b"".join(written[row, column].tobytes() for row, each in enumerate(labels) for column, label in enumerate(each)
                    if label == segment)  # fmt: skip


locked = pytest.mark.parametrize("method", ["slca", "slca_call"])


@locked
@given(data=st.data(), groups=some_groups(), settings=locked_settings)
def test_lock_no_summary_reward_reaches_a_tool_token(method, data, groups, settings):
    other = changed(data, groups, "summary")
    assert tokens_of(groups, settings, method, TOOL) == tokens_of(other, settings, method, TOOL)


@locked
@given(data=st.data(), groups=some_groups(), settings=locked_settings)
def test_lock_no_tool_reward_reaches_a_summary_token(method, data, groups, settings):
    other = changed(data, groups, "tool")
    assert tokens_of(groups, settings, method, SUMMARY) == tokens_of(other, settings, method, SUMMARY)


@given(groups=some_groups(), settings=locked_settings)
def test_lock_no_score_of_a_call_reaches_a_summary_token(groups, settings):
    calls = groups.calls
    assert calls is not None
    other = replace(groups, calls=replace(calls, scores=tuple(tuple(1 - score for score in row) for row in calls.scores)))
    assert tokens_of(groups, settings, "slca_call", SUMMARY) == tokens_of(other, settings, "slca_call", SUMMARY)


@pytest.mark.parametrize("method", ["grpo", "gdpo", "routed_joint"])
def test_the_other_rules_have_no_lock(method):
    # What the lock tests would catch: here a better summary in row 0 changes the TOOL tokens.
    groups = make_groups((0, 0.5, 0.0, "TS"), (0, 0.25, 0.25, "TS"), (0, 0.0, 0.0, "TS"))
    other = replace(groups, summary=np.array([1.0, 0.25, 0.0]))
    assert tokens_of(groups, Settings(), method, TOOL) != tokens_of(other, Settings(), method, TOOL)


class TinyPolicy(torch.nn.Module):
    """Next-token logits from the current token alone: 7 tokens, 5 dimensions."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = torch.nn.Parameter(torch.randn(7, 5, generator=generator, dtype=torch.float64))
        self.head = torch.nn.Parameter(torch.randn(5, 7, generator=generator, dtype=torch.float64))

    def logprobs(self, ids: torch.Tensor) -> torch.Tensor:
        logits = (self.table @ self.head)[ids[:, :-1]]
        return logits.log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0]


def gradient_of(groups: Groups, method: str, segments: tuple[int, ...]) -> torch.Tensor:
    """Gradient of the clipped loss over the tokens of ``segments``, with the mean over all learnable tokens (dapo)."""
    labels = labels_of(groups)
    written = spread(METHODS[method](groups, Settings()), labels, ids_of(groups), call_of(groups))
    advantages = torch.tensor(written, dtype=torch.float64)
    kinds = torch.zeros(advantages.shape, dtype=torch.int64)
    for row, each in enumerate(labels):
        kinds[row, : len(each)] = torch.tensor(each)
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 7, (kinds.shape[0], kinds.shape[1] + 1), generator=generator)
    policy = TinyPolicy()
    new = policy.logprobs(ids)
    old = (new + 0.3 * torch.randn(new.shape, generator=generator, dtype=torch.float64)).detach()  # some ratios are clipped
    ratio = (new - old).exp()
    assert (ratio > 1.2).any()
    assert (ratio < 0.8).any()
    per_token = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    chosen = torch.isin(kinds, torch.tensor(segments)).to(torch.float64)
    learnable = (kinds > 0).to(torch.float64)
    (per_token * chosen).sum().div(learnable.sum()).backward()
    return torch.cat([parameter.grad.flatten() for parameter in policy.parameters()])


MIXED = make_groups(
    (0, 1.0, 0.25, "TS"), (0, 0.0, 1.0, "TS"), (0, 0.5, 0.5, "S"), (0, 0.25, 0.0, "T"),
    (1, None, None, "TS"), (1, 0.75, 0.5, "TS"), (1, 0.25, 1.0, "TS"), (1, 0.0, 0.5, "S"), omitted=(2, 7),
)  # fmt: skip
MIXED = replace(
    MIXED,
    calls=make_calls(
        [(0, 1.0), (0, 0.5)], [(0, 0.0)], [], [(0, 0.5), (1, 0.25)], [(0, 0.0)], [(0, 0.5)], [(0, 1.0)], [],
        success=[1, 0, 0, 0, 0, 1, 0, 0], correct=[1, 0, 0, 0, 0, 1, 0, 0], completeness=[1, 0, 0, 0.5, 0, 1, 0, 0],
    ),
)  # fmt: skip


@every_method
def test_the_gradient_is_the_sum_of_its_tool_part_and_its_summary_part(method):
    whole = gradient_of(MIXED, method, (TOOL, SUMMARY))
    tool, summary = gradient_of(MIXED, method, (TOOL,)), gradient_of(MIXED, method, (SUMMARY,))
    assert tool.norm() > 1e-3
    assert (summary.norm() > 1e-3) == (method != "rltr")
    torch.testing.assert_close(whole, tool + summary, rtol=1e-12, atol=1e-14)


def test_the_tool_part_of_the_gradient_does_not_know_the_summary_rewards():
    other = replace(MIXED, summary=np.where(MIXED.scorable, np.arange(8) / 8, np.nan))
    assert torch.equal(gradient_of(MIXED, "slca", (TOOL,)), gradient_of(other, "slca", (TOOL,)))
    assert not torch.equal(gradient_of(MIXED, "slca", (SUMMARY,)), gradient_of(other, "slca", (SUMMARY,)))
    assert not torch.equal(gradient_of(MIXED, "grpo", (TOOL,)), gradient_of(other, "grpo", (TOOL,)))


@given(some_groups(needs_call=False), presences, st.sampled_from(["tool", "summary"]))
def test_with_one_kind_of_segment_slca_is_grpo_on_its_reward(groups, presence, kind):
    nothing, everywhere = np.zeros_like(groups.has_tool), np.ones_like(groups.has_tool)
    zero = np.where(groups.scorable, 0.0, np.nan)
    if kind == "tool":
        groups = replace(groups, summary=zero, has_tool=everywhere, has_summary=nothing)
    else:
        groups = replace(groups, tool=zero, has_tool=nothing, has_summary=everywhere)
    settings = Settings(presence_tool=presence, presence_sum=presence)
    assert same(METHODS["slca"](groups, settings), METHODS["grpo"](groups, settings))


@every_method
@given(groups=some_groups(dyadic, needs_call=False), shift=st.tuples(dyadic, dyadic), settings=locked_settings)
def test_a_constant_added_to_a_segments_rewards_changes_nothing(method, groups, shift, settings):
    # Dyadic rewards and shifts, so that the sums are exact and so is the claim. No omissions: the guard writes fixed scores.
    shifted = replace(groups, tool=groups.tool + shift[0], summary=groups.summary + shift[1])
    assert same(METHODS[method](groups, settings), METHODS[method](shifted, settings))


@given(some_groups(st.floats(0, 1), needs_call=False), st.floats(-1, 1))
def test_any_constant_changes_nothing_but_the_rounding(groups, constant):
    # An error of 1e-16 in a distance becomes at most 1e-16 / eps = 1e-10 in an advantage.
    shifted = replace(groups, tool=groups.tool + constant)
    assert METHODS["slca"](shifted, Settings()).tool == pytest.approx(METHODS["slca"](groups, Settings()).tool, abs=1e-8)


@every_method
@given(data=st.data(), groups=some_groups(), settings=any_settings)
def test_permuting_members_permutes_advantages_to_the_last_bit(method, data, groups, settings):
    order = np.array(data.draw(st.permutations(range(len(groups.group)))))
    before, after = METHODS[method](groups, settings), METHODS[method](groups.take(order), settings)
    assert np.array_equal(after.tool, before.tool[order])
    assert np.array_equal(after.summary, before.summary[order])
    if before.calls is not None:
        assert after.calls == tuple(before.calls[row] for row in order)


@every_method
@given(groups=some_groups(), settings=any_settings)
def test_masked_members_get_nothing_and_leave_mean_and_deviation(method, groups, settings):
    assume(groups.scorable.any())
    with_masked, without = METHODS[method](groups, settings), METHODS[method](groups.take(groups.scorable), settings)
    assert not with_masked.tool[~groups.scorable].any()
    assert not with_masked.summary[~groups.scorable].any()
    assert np.array_equal(with_masked.tool[groups.scorable], without.tool)
    assert np.array_equal(with_masked.summary[groups.scorable], without.summary)


@every_method
@given(groups=some_groups(), settings=any_settings)
def test_advantages_are_finite_and_stay_on_segments_that_exist(method, groups, settings):
    advantages = METHODS[method](groups, settings)
    assert np.isfinite(advantages.tool).all()
    assert np.isfinite(advantages.summary).all()
    assert not advantages.tool[~groups.has_tool].any()
    assert not advantages.summary[~groups.has_summary].any()


@pytest.mark.parametrize("method", ["grpo", "slca", "routed_joint"])
@given(groups=some_groups(), settings=any_settings)
def test_a_group_with_fewer_than_two_scorable_members_gets_nothing(method, groups, settings):
    advantages = METHODS[method](groups, settings)
    for rows in groups.rows():
        if groups.scorable[rows].sum() < 2:
            assert not advantages.tool[rows].any()
            assert not advantages.summary[rows].any()


@given(some_groups())
def test_fewer_than_two_members_with_the_segment_get_nothing_under_members(groups):
    advantages = METHODS["slca"](groups, Settings(presence_tool="members", presence_sum="members"))
    for rows in groups.rows():
        if (groups.scorable & groups.has_tool)[rows].sum() < 2:
            assert not advantages.tool[rows].any()
        if (groups.scorable & groups.has_summary)[rows].sum() < 2:
            assert not advantages.summary[rows].any()


@given(some_groups(), any_settings)
def test_a_groups_advantages_do_not_depend_on_the_other_groups(groups, settings):
    # Holds for every rule but gdpo, which whitens over the batch.
    for method in ("grpo", "slca", "routed_joint"):
        together = METHODS[method](groups, settings)
        for rows in groups.rows():
            alone = METHODS[method](groups.take(rows), settings)
            assert np.array_equal(alone.tool, together.tool[rows])
            assert np.array_equal(alone.summary, together.summary[rows])
