"""Agents and users that are no models: the scripted user, and what scores are read against.

``gold`` replays the published actions, the user's own ones included, and says what is to be said; ``do_nothing`` talks and
never calls; ``random_call`` makes one well-formed call and then talks. All play through the harness that a policy plays
through, the last two with the scripted user.
"""

from collections.abc import Callable

from slca.benchmarks.references import random_call
from slca.benchmarks.tau2.protocol import Answer, Case, Party, Question, Ruled
from slca.errors import ToolError
from slca.records import Call
from slca.sgls.tool import Tool, load_tool

STOP = "###STOP###"
"""What ends a conversation when a user says it."""

GO_ON = "Yes, please go ahead. Everything that I know is in my first message."
ANSWERS = 3
"""How often the scripted user lets the agent go on before it ends the conversation."""

SCRIPTED = "scripted user: not the official protocol"

_NOTHING = "I am sorry, I cannot help with this."
_DONE = "That is all."


def scripted_user() -> Party:
    """States the task's scenario and all that the user knows at once, then lets the agent go on a few times, then stops.

    It makes no calls of its own, so what the user has to do in telecom is not done.
    """

    def says(key: int, case: Case, question: Question) -> Answer:
        own = [message["content"] for message in question.messages if message["role"] == "assistant"]  # as a user sees itself
        if case.opening not in own:
            return Answer(case.opening)
        return Answer(GO_ON if own.count(GO_ON) < ANSWERS else STOP)

    return Ruled(says)


def do_nothing(key: int, case: Case, question: Question) -> Answer:
    return Answer(_NOTHING)


def random_caller(seed: int) -> Callable[[int, Case, Question], Answer]:
    """One random call at its first turn."""
    tools: dict[str, list[Tool]] = {}
    called: set[int] = set()

    def says(key: int, case: Case, question: Question) -> Answer:
        if key in called:
            return Answer(_NOTHING)
        called.add(key)
        if case.domain not in tools:
            tools[case.domain] = [_tool(definition, case.domain) for definition in case.tools]
        call = random_call(tools[case.domain], f"{case.domain}/{case.task_id}", seed)
        return Answer(_NOTHING) if call is None else Answer(calls=(call,))

    return says


def _tool(definition: dict[str, object], domain: str) -> Tool:
    described = {**definition, "source": "tau2"}
    try:
        return load_tool(described, f"tau2 domain {domain}")
    except ToolError:
        return Tool.model_validate(described)  # a benchmark's tool is used as it is


class Gold:
    """Agent and user of a gold replay: each action is made by its requestor when its turn has come."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self._told: set[int] = set()

    def agent(self, key: int, case: Case, question: Question) -> Answer:
        call = self._call(key, case, "assistant")
        if call is not None:
            return Answer(calls=(call,))
        if self._next[key] < len(case.gold):
            return Answer("Please do your part now.")
        self._told.add(key)
        return Answer("; ".join(case.communicate) or _DONE)

    def user(self, key: int, case: Case, question: Question) -> Answer:
        call = self._call(key, case, "user")
        if call is not None:
            return Answer(calls=(call,))
        return Answer(STOP if key in self._told else case.opening)

    def _call(self, key: int, case: Case, requestor: str) -> Call | None:
        place = self._next.setdefault(key, 0)
        if place == len(case.gold) or case.gold[place][0] != requestor:
            return None
        self._next[key] += 1
        return case.gold[place][1]
