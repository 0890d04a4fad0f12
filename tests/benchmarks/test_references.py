"""The random call: valid for its tool, the same for the same item and seed, of every tool in the long run."""

from samples import OTHER_TOOL, TOOL

from slca.benchmarks.references import random_call
from slca.sgls import validation
from slca.sgls.tool import load_tools

TOOLS = load_tools([TOOL, OTHER_TOOL], "test")


def test_a_random_call_is_valid_and_repeatable():
    by_name = {tool.name: tool for tool in TOOLS}
    calls = [random_call(TOOLS, f"item-{number}", 0) for number in range(50)]
    for call in calls:
        assert validation.fault(validation.validator(by_name[call.name].parameters), call.arguments, "arguments") is None
    assert {call.name for call in calls} == set(by_name)
    assert calls == [random_call(TOOLS, f"item-{number}", 0) for number in range(50)]
    assert calls != [random_call(TOOLS, f"item-{number}", 1) for number in range(50)]


def test_no_tool_no_call():
    assert random_call((), "item", 0) is None
