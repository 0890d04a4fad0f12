"""Call text of every format, well-formed and not: one typed result for every call that was opened (field cases 8, 9, 19)."""
# ruff: noqa: RUF001 (DeepSeek's markers hold full-width bars)

import pytest
from chat_families import FAMILIES, stand_in

from slca.chat import Parsed
from slca.records import CallError

BAD, OPEN = CallError.MALFORMED, CallError.UNCLOSED
Expected = list[tuple[str | None, object, CallError | None]]

HERMES: list[tuple[str, Expected]] = [
    ('<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>', [("f", {"a": 1}, None)]),
    ('<tool_call>\n{"name": "f", "arguments": "{}"}\n</tool_call>', [("f", "{}", None)]),  # a string stays a string
    ('<tool_call>{"name": "f"}</tool_call>', [("f", None, None)]),  # the simulator refuses arguments that are no object
    ('<tool_call>{"name": "f", "arguments": [1]}</tool_call>', [("f", [1], None)]),
    ("<tool_call>{}</tool_call>", [(None, None, BAD)]),
    ("<tool_call>[1]</tool_call>", [(None, None, BAD)]),
    ('<tool_call>{"name": 3, "arguments": {}}</tool_call>', [(None, {}, BAD)]),
    ('<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>', [(None, None, BAD)]),
    ('<tool_call>{"name": "f", "arguments": {"a": 1e999}}</tool_call>', [(None, None, BAD)]),
    ('<tool_call>{"name": "\\ud800", "arguments": {}}</tool_call>', [(None, None, BAD)]),
    ('<tool_call>{"name": "f"', [(None, None, OPEN)]),
    ('<tool_call><tool_call>{"name": "f", "arguments": {}}</tool_call>', [(None, None, OPEN), ("f", {}, None)]),
    ('<think><tool_call>{"name": "f", "arguments": {}}</tool_call></think>', [("f", {}, None)]),  # opened all the same
    ("No call.", []),
]
LLAMA: list[tuple[str, Expected]] = [
    ('{"name": "f", "parameters": {"a": "}"}}', [("f", {"a": "}"}, None)]),
    ('<|python_tag|>{"name": "f", "parameters": {}}', [("f", {}, None)]),
    ('{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}}', [("f", {}, None), ("g", {}, None)]),
    ('{"name": "f", "parameters": {}}\n{"name": "g"', [("f", {}, None), (None, None, OPEN)]),
    ('{"name": "f", "parameters": null}', [("f", None, None)]),
    ('{"name": "f", "parameters": {"a": "\\"}\\\\"}}; {"name": "g"}', [("f", {"a": '"}\\'}, None), ("g", None, None)]),
    ("{}", [(None, None, BAD)]),
    ('{"a" 1}', [(None, None, BAD)]),
    ('{"name": "f", "parameters": {"a": "', [(None, None, OPEN)]),
    ('<|python_tag|>search.call(query="a (b), c=\\"d", page="2")', [("search", {"query": 'a (b), c=\\"d', "page": "2"}, None)]),
    ("<|python_tag|>search.call()", [("search", {}, None)]),
    ("<|python_tag|>search.call(query=1)", [("search", None, BAD)]),
    ("<|python_tag|>import os", [(None, None, BAD)]),
    ('Sure: {"name": "f", "parameters": {}}', []),  # JSON behind a sentence is text
    ("No call.", []),
]
MISTRAL: list[tuple[str, Expected]] = [
    ('[TOOL_CALLS][{"name": "f", "arguments": {"a": "]"}, "id": "abcdefghi"}]', [("f", {"a": "]"}, None)]),
    ('[TOOL_CALLS] [{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}]', [("f", {}, None), ("g", {}, None)]),
    ('[TOOL_CALLS][{"name": "f", "arguments": {}}, {"name": "g"', [("f", {}, None), (None, None, OPEN)]),
    ('[TOOL_CALLS][{"name": "f", "arguments": {}}', [(None, None, OPEN)]),  # the list is not closed
    ('[TOOL_CALLS][{"name": "f", "arguments": {}}, 3, "x", [1]]', [("f", {}, None), *[(None, None, BAD)] * 3]),
    ("[TOOL_CALLS][]", [(None, None, BAD)]),
    ("[TOOL_CALLS][{}]", [(None, None, BAD)]),
    ("[TOOL_CALLS]", [(None, None, OPEN)]),
    ("[TOOL_CALLS]f", [(None, None, BAD)]),
    ('[TOOL_CALLS]f[ARGS]{"a": 1}', [("f", {"a": 1}, None)]),
    ("[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{}[TOOL_CALLS]g[ARGS]{}", [("f", {}, None), ("g", {}, None)]),
    ("[TOOL_CALLS]f[ARGS]", [("f", None, OPEN)]),
    ('[TOOL_CALLS]f[ARGS]{"a', [("f", None, OPEN)]),
    ("[TOOL_CALLS]f[ARGS]a", [("f", None, BAD)]),
    ("[TOOL_CALLS][ARGS]{}", [(None, None, BAD)]),
    ("[THINK]f?[/THINK]No call.", []),
]
FUNCTIONGEMMA: list[tuple[str, Expected]] = [
    (
        "<start_function_call>call:f{a:<escape>x, y}<escape>,b:-1.5,c:[true,null],d:{e:<escape><escape>}}<end_function_call>",
        [("f", {"a": "x, y}", "b": -1.5, "c": [True, None], "d": {"e": ""}}, None)],
    ),
    ("<start_function_call>call:f{}<end_function_call><start_function_call>call:g{}", [("f", {}, None), (None, None, OPEN)]),
    ("<start_function_call>call:f{a:x}<end_function_call>", [("f", None, BAD)]),  # a string without its delimiters
    ("<start_function_call>call:f{a:<escape>x}<end_function_call>", [("f", None, BAD)]),
    ("<start_function_call>call:f{a}<end_function_call>", [("f", None, BAD)]),
    ("<start_function_call>call:f{} g<end_function_call>", [("f", None, BAD)]),
    ("<start_function_call>call:f[]<end_function_call>", [("f[]", None, BAD)]),
    ("<start_function_call>call:f{a:" + "[" * 500 + "<end_function_call>", [("f", None, BAD)]),
    ("<start_function_call>{}<end_function_call>", [(None, None, BAD)]),
    ("<start_function_call><end_function_call>", [(None, None, BAD)]),
    ("No call.", []),
]
GEMMA4 = [
    ('<|tool_call>call:f{a:<|"|>x<|"|>}<tool_call|>', [("f", {"a": "x"}, None)]),
    ("<|channel>thought\nf?<channel|><|tool_call>call:f{}", [(None, None, OPEN)]),
]
_F = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
DEEPSEEK: list[tuple[str, Expected]] = [
    (f'<｜tool▁calls▁begin｜>{_F}{{"a": "```"}}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>', [("f", {"a": "```"}, None)]),
    (f"<｜tool▁calls▁begin｜>{_F}{{}}\n```<｜tool▁call▁end｜>\n{_F}{{", [("f", {}, None), (None, None, OPEN)]),
    (f"{_F}{{}}\n```<｜tool▁call▁end｜>", [("f", {}, None)]),  # without the marker of the group
    (f"<｜tool▁calls▁begin｜>{_F}{{}}\n```<｜tool▁calls▁end｜>", [(None, None, OPEN)]),
    (f"<｜tool▁calls▁begin｜>{_F}a\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", [("f", None, BAD)]),
    ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁call▁end｜>", [(None, None, BAD)]),
    ("<｜tool▁calls▁begin｜>", [(None, None, OPEN)]),
    ("No call.", []),
]
HARMONY: list[tuple[str, Expected]] = [
    (' to=functions.f<|channel|>commentary json<|message|>{"a": 1}', [("f", {"a": 1}, None)]),
    (
        "<|channel|>analysis<|message|>f?<|end|><|start|>assistant<|channel|>commentary to=functions.f "
        '<|constrain|>json<|message|>{"a": "<|"}',
        [("f", {"a": "<|"}, None)],
    ),
    ("<|channel|>commentary to=python code<|message|>print()", [("python", None, BAD)]),
    (" to=functions.f<|channel|>commentary json<|message|>", [("f", None, BAD)]),
    (' to=functions.f<|channel|>commentary json<|message|>{"a', [("f", None, OPEN)]),
    (" to=functions.f<|channel|>comm", [("f", None, OPEN)]),
    (" to=<|channel|>commentary<|message|>{}", [(None, None, BAD)]),
    ("<|channel|>final<|message|>No call.", []),
    ("No call.", []),
]
TEXTS = {
    "default": HERMES,
    "qwen3": HERMES,
    "chatml": HERMES,
    "gemma3": HERMES,
    "llama3.1": LLAMA,
    "mistral": MISTRAL,
    "mistral13": MISTRAL,
    "functiongemma": FUNCTIONGEMMA,
    "gemma4": GEMMA4,
    "deepseek": DEEPSEEK,
    "harmony": HARMONY,
}


def told(calls: tuple[Parsed, ...]) -> Expected:
    return [(call.name, call.arguments, call.error) for call in calls]


@pytest.mark.parametrize(("family", "text", "expected"), [(f, text, e) for f, texts in TEXTS.items() for text, e in texts])
def test_every_call_that_is_opened_is_read_or_refused_with_a_reason(family: str, text: str, expected: Expected) -> None:
    chat = stand_in(family)
    calls = chat.parse(text)
    assert told(calls) == expected
    assert all(bool(call.error) == bool(call.message) for call in calls)
    ids = chat.encode(text)
    assert told(chat.parse(chat.turn_text([*ids, chat.end_id]))) == expected  # ids and text say the same


@pytest.mark.parametrize("family", FAMILIES)
def test_depth_and_length_without_end_are_malformed_or_unclosed_never_a_crash(family: str) -> None:
    chat = stand_in(family)
    markers = (
        "<tool_call>",
        "{",
        "[TOOL_CALLS]",
        "<start_function_call>call:f{a:",
        "<|tool_call>call:f{a:",
        _F,
        " to=f<|message|>",
    )
    for marker in markers:
        for filler in ("[" * 20_000, '{"a":' * 20_000, "\\" * 20_000, '"' * 20_000, "[TOOL_CALLS]" * 200):
            for call in chat.parse(marker + filler):
                assert call.error in (CallError.MALFORMED, CallError.UNCLOSED)


def test_a_call_keeps_the_id_that_the_policy_gave_it() -> None:
    chat = stand_in("mistral")
    (call,) = chat.parse('[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "Ab3456789"}]')
    assert call.id == "Ab3456789" and '"call_id": "Ab3456789"' in chat.glue_text([call], ["ok"])
    (odd,) = chat.parse('[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "odd"}]')
    assert odd.id == "odd" and '"call_id": "call00000"' in chat.glue_text([odd], ["ok"])  # the template would refuse it


@pytest.mark.parametrize(
    ("family", "text", "reply"),
    [
        ("default", " It is rain. ", "It is rain."),
        ("qwen3", "<think>\nHm.\n</think>\n\nIt is rain.", "It is rain."),
        ("qwen3", "Hm.\n</think>\n\nIt is rain.", "It is rain."),
        ("qwen3", "<think>\nCut", ""),
        ("qwen3", 'I look.\n<tool_call>{"name', "I look."),
        ("mistral", "[THINK]Hm.[/THINK]It is rain.", "It is rain."),
        ("gemma4", "<|channel>thought\nHm.<channel|>It is rain.", "It is rain."),
        ("harmony", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Rain.", "Rain."),
        ("harmony", "<|channel|>final", ""),
        ("harmony", "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.f<|channel|>c", "I look."),
        ("deepseek", "Hm.</think>It is rain.", "It is rain."),
        ("llama3.1", '{"name": "f"', ""),
    ],
)
def test_the_reply_is_what_the_user_reads(family: str, text: str, reply: str) -> None:
    assert stand_in(family).reply_text(text) == reply
