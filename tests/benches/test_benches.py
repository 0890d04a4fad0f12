"""Timings, for reading and not for passing: run with `make bench`. Figures of one run compare with each other only."""

import numpy as np
import pytest
import torch
from credit_cases import make_calls
from samples import OTHER_TOOL, STATE, TOOL

from slca import params as p
from slca.credit import METHODS, Groups, Settings
from slca.policy.model import Policy
from slca.sgls.simulator import Session
from slca.sgls.tool import load_tools
from slca.training.padding import ragged_logprobs

pytestmark = pytest.mark.slow


def test_simulated_call(benchmark) -> None:
    session = Session(load_tools((TOOL, OTHER_TOOL), "bench"), STATE, p.Simulator(), session="bench")
    benchmark(session.call, "get_weather", {"city": "Łódź"})


@pytest.mark.parametrize("method", sorted(METHODS))
def test_credit_of_a_step(benchmark, method: str) -> None:
    rng = np.random.default_rng(0)
    yes = np.ones(64, dtype=bool)
    calls = make_calls(*([(0, float(score)), (1, 1.0)] for score in rng.random(64)))
    groups = Groups(np.arange(64) // 8, rng.random(64), rng.random(64), yes, yes, yes, yes, yes, calls)
    benchmark(METHODS[method], groups, Settings())


@pytest.mark.parametrize("padding", ["skipped", "computed"])
def test_logprobs_of_ragged_rollouts(benchmark, policy: Policy, padding: str) -> None:
    """64 rollouts of 40 to 250 tokens; `computed` is one pass over the padded rectangle, as TRL does it."""
    rng = np.random.default_rng(0)
    prompt, completion = 100, 150
    ids, mask = torch.randint(9, 250, (64, prompt + completion)), torch.zeros(64, prompt + completion, dtype=torch.long)
    for row in range(64):
        mask[row, prompt - rng.integers(20, prompt + 1) : prompt + rng.integers(20, completion + 1)] = 1
    benchmark(ragged_logprobs, policy.model, ids, mask, completion, 8 if padding == "skipped" else 64, entropy=True)
