"""Behaviours inferred from imported HTTP operations, and states to begin with."""

from slca.sgls.inference.infer import infer
from slca.sgls.inference.seeding import seed_state
from slca.sgls.inference.summary import Summary, summary

__all__ = ["Summary", "infer", "seed_state", "summary"]
