"""HierR: what a rollout's tool calls and its reply are worth."""

from slca.hierr.judges import Judge, JudgeFailure, judge_of
from slca.hierr.many import score_all
from slca.hierr.process import Process, process_score
from slca.hierr.score import score

__all__ = ["Judge", "JudgeFailure", "Process", "judge_of", "process_score", "score", "score_all"]
