"""Judges of the reply to the user: each rates it from 1 to 5 (method section 3).

A judge sees the question, the tool results and the reply; ``facts`` are the strings that a good reply states, for judges that
work without a model. ``JUDGES`` makes a judge from the parameters that name it; a process shares one for equal parameters.
"""

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec

from slca.errors import MissingDependency
from slca.hierr.judges.base import Judge, JudgeFailure
from slca.hierr.judges.rubric import Rubric
from slca.params import Rewards

__all__ = ["JUDGES", "Judge", "JudgeFailure", "Rubric", "judge_of"]


def _openai(params: Rewards) -> Judge:
    if find_spec("openai") is None:
        raise MissingDependency(
            "rewards.judge openai needs the package openai, which is not installed; run: pip install 'slca[openai]'."
        )
    from slca.hierr.judges.openai_judge import OpenAiJudge

    return OpenAiJudge(params)


JUDGES: dict[str, Callable[[Rewards], Judge]] = {"rubric": lambda params: Rubric(), "openai": _openai}


@lru_cache(maxsize=64)
def judge_of(params: Rewards) -> Judge:
    """The judge that ``params`` names. Raises MissingDependency where what it needs is not installed."""
    return JUDGES[params.judge](params)
