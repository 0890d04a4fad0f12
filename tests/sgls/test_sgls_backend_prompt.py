"""What model backends are asked: data stays data, long parts are cut where one can see it, and nothing foreign shows."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slca.records import Json
from slca.sgls.backends import Request, Unreadable
from slca.sgls.backends.prompt import LIMITS, RECORD, RESULT, SYSTEM, messages, read_answer, version

TOOL = {
    "name": "forecast",
    "description": "Weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "behaviour": {"kind": "search"},
    "source": "somewhere",
}
SCHEMA = {"type": "object", "properties": {"sky": {"type": "string"}}}


def of_call(arguments: dict[str, Json], state: Json = None, **changes: Json) -> str:
    """The user's message for a call of TOOL."""
    request = Request(SCHEMA, ["forecast", arguments], arguments, state if state is not None else {}, 0, TOOL, **changes)
    system, user = messages(request)
    assert (system["role"], user["role"]) == ("system", "user") and system["content"] == SYSTEM
    return user["content"]


def part(prompt: str, name: str) -> str:
    found = re.findall(rf"<{name}>\n(.*?)\n</{name}>", prompt, re.DOTALL)
    assert len(found) == 1
    return str(found[0])


def test_a_call_shows_tool_schema_state_earlier_results_and_request() -> None:
    state = {"weather": {"Łódź": {"sky": "rain"}}}
    prompt = of_call({"city": "Łódź"}, state, earlier=(["forecast", {"city": "Oslo"}, {"sky": "sun"}],))
    assert json.loads(part(prompt, "tool")) == {key: TOOL[key] for key in ("name", "description", "parameters")}
    assert json.loads(part(prompt, "output_schema")) == SCHEMA
    assert json.loads(part(prompt, "state")) == [{"entity": "weather", "id": "Łódź", "record": {"sky": "rain"}}]
    assert json.loads(part(prompt, "earlier_results")) == [["forecast", {"city": "Oslo"}, {"sky": "sun"}]]
    assert json.loads(part(prompt, "request")) == {"tool": "forecast", "arguments": {"city": "Łódź"}}
    assert "problem" not in prompt and "Łódź" in prompt and prompt.endswith(RESULT)


def test_a_record_is_asked_for_without_the_call_that_needed_it() -> None:
    record = {"city": "Oslo", "seats": 4}
    prompts = [
        messages(Request(SCHEMA, ["table", "T1"], arguments, record, 0, tool))
        for arguments, tool in (({}, TOOL), ({"city": "Oslo"}, {**TOOL, "name": "other"}), ({}, None))
    ]
    assert prompts[0] == prompts[1] == prompts[2]
    text = prompts[0][1]["content"]
    assert json.loads(part(text, "request")) == ["table", "T1"] and json.loads(part(text, "state")) == record
    assert text.endswith(RECORD)


def test_a_repair_tells_what_was_wrong() -> None:
    prompt = of_call({}, repair=1, problem="sky must be one of <a>, b.")
    assert json.loads(part(prompt, "problem")) == "sky must be one of <a>, b."


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=8)
    | st.sampled_from(["</request>", "<|im_end|>", "<state>"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4), json_values)
def test_data_neither_closes_its_tag_nor_spells_a_marker(arguments: dict[str, Json], answer: Json) -> None:
    prompt = of_call(arguments, {"a": {"b": {"c": arguments}}}, earlier=(["forecast", arguments, answer],))
    assert len(re.findall("[<>]", prompt)) == 2 * 2 * 5  # five parts, each with a tag at both ends
    assert json.loads(part(prompt, "request"))["arguments"] == arguments
    assert json.loads(part(prompt, "earlier_results")) == [["forecast", arguments, answer]]


def test_a_large_state_shows_what_the_request_is_about_and_counts_the_rest() -> None:
    state = {"user": {f"U{n}": {"name": f"user {n}", "city": "Oslo" if n % 100 == 0 else "Rome"} for n in range(2000)}}
    for arguments, wanted in (({"user_id": "U1777"}, ["U1777"]), ({"city": "Oslo"}, [f"U{n}" for n in range(0, 2000, 100)])):
        shown, _, note = part(of_call(arguments, state), "state").rpartition("\n")
        records = json.loads(shown)
        assert [record["id"] for record in records[: len(wanted)]] == wanted
        assert note == f"({2000 - len(records)} more are not shown.)"
        assert len(shown) <= LIMITS["state"]


def test_one_long_item_is_cut_in_its_middle() -> None:
    shown = part(of_call({}, {"note": {"N1": {"text": "x" * 9000}}}), "state")
    assert re.search(r"x \.\.\.\[\d+ characters cut\]\.\.\. x", shown) and len(shown) < LIMITS["state"] + 50


def test_no_part_grows_beyond_its_limit() -> None:
    long = "<" * 5000
    earlier = tuple([["forecast", {"city": f"{n}"}, {"sky": long}] for n in range(20)])
    request = Request(
        {"const": long},
        ["forecast", {"city": long}],
        {"city": long},
        {long: {long: {}}},
        0,
        {**TOOL, "description": long},
        earlier,
    )
    request = Request(**{**vars(request), "problem": long})
    assert len(messages(request)[1]["content"]) < sum(LIMITS.values()) + 1000


def test_the_version_follows_the_settings() -> None:
    assert version(0.6, 100) == version(0.6, 100)
    assert len({version(0.6, 100), version(0.7, 100), version(0.6, 101)}) == 3


@pytest.mark.parametrize("text", ['{"a": 1}', ' \n{"a": 1}\n', '```json\n{"a": 1}\n```', '```\n{"a": 1}```'])
def test_an_answer_may_stand_in_a_code_fence(text: str) -> None:
    assert read_answer(text) == {"a": 1}


@pytest.mark.parametrize("text", ["", "```", "{", '{"a": 1} and', "NaN", "[1e999]", '"\\udc00"', "[" * 100_000, "1" * 5000])
def test_other_texts_are_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        read_answer(text)


def test_a_raw_line_break_in_a_string_is_read() -> None:
    assert read_answer('{"a": "b\nc"}') == {"a": "b\nc"}


def test_a_share_of_the_limits_shortens_every_part() -> None:
    long = "x" * 9000
    request = Request({"const": long}, ["T", long], {}, {"a": long}, 0, earlier=(long,), repair=1, problem=long)
    lengths = [len(messages(request, share)[1]["content"]) for share in (1.0, 0.5, 0.1)]
    assert sum(LIMITS.values()) - LIMITS["tool"] < lengths[0] and lengths[1] < 0.6 * lengths[0] and lengths[2] < 0.2 * lengths[0]
