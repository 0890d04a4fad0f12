"""HierR: what a rollout's tool calls and its reply are worth."""

from slca.hierr.judges import JUDGES, Judge, JudgeFailure
from slca.hierr.process import Process, process_score
from slca.hierr.score import score

__all__ = ["JUDGES", "Judge", "JudgeFailure", "Process", "process_score", "score"]
