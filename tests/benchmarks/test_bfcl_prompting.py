"""Calls in the text of a prompted model: what upstream's form says is read, nothing is evaluated, nothing raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slca.benchmarks.bfcl.prompting import read_calls
from slca.records import Call

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}(\.[a-z][a-z0-9_]{0,8}){0,2}", fullmatch=True).filter(
    lambda name: not any(part in KEYWORDS for part in name.split("."))
)
KEYWORDS = {"and", "as", "if", "in", "is", "or", "not", "def", "del", "for", "try", "from", "elif", "else", "pass", "with"} | {
    *("async", "await", "break", "class", "global", "import", "lambda", "raise", "return", "while", "yield", "except", "assert"),
    *("finally", "continue", "nonlocal"),
}
KEYS = NAMES.filter(lambda name: "." not in name)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
CALLS = st.lists(st.builds(Call, NAMES, st.dictionaries(KEYS, VALUES, max_size=3)), min_size=1, max_size=3)


@given(CALLS)
def test_calls_are_read_as_they_are_written(calls):
    written = (f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})" for call in calls)
    assert read_calls(f"[{', '.join(written)}]") == tuple(calls)


@given(st.text() | st.text(alphabet="[](){}=,.'\"\\-+ \nfx0_1:#*@"))
def test_no_text_raises_and_what_is_read_is_json(text):
    for language in ("python", "java", "javascript"):
        for call in read_calls(text, language):
            assert call.name
            assert all(isinstance(key, str) for key in call.arguments)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('[f(a=1, b="x")]', [Call("f", {"a": 1, "b": "x"})]),
        ("f(a=1)", [Call("f", {"a": 1})]),
        ("```\n[f(), g.h(x=[1.5, -2])]\n```", [Call("f", {}), Call("g.h", {"x": [1.5, -2]})]),
        ("[f(a=true, b=null, c=False, d={'k': (1, 2)})]", [Call("f", {"a": True, "b": None, "c": False, "d": {"k": [1, 2]}})]),
        ("[f(a='it\\'s (g(1))')]", [Call("f", {"a": "it's (g(1))"})]),
        ("", []),
        ("[]", []),
        ("I cannot help with that.", []),
        ("Sure: [f(a=1)]", []),
        ("[f(1)]", []),  # which parameter?
        ("[f(**{'a': 1})]", []),
        ("[f(a=1, a=2)]", []),
        ("[f(a=g())]", []),
        ("[f(a=b)]", []),
        ("[f(a=1+1)]", []),
        ("[f(a=f'{1}')]", []),
        ("[f(a=b'x')]", []),
        ("[f(a=1j)]", []),
        ("[f(a=1e999)]", []),
        ("[f(a='\\ud800')]", []),
        ("[f(a=0x" + "f" * 5_000 + ")]", []),
        ("[f(a=" + "9" * 5_000 + ")]", []),
        ("[f(a=" + "[" * 60_000 + ")]", []),
        ("[f(a=" + "[" * 5_000 + "]" * 5_000 + ")]", []),
        ("[f(a=" + "-" * 50_000 + "1)]", []),
        ("[f(a=not " + "not " * 20_000 + "1)]", []),
        ("[" + "f." * 40_000 + "f(a=1)]", []),
        ("[f(a=" + "1+" * 40_000 + "1)]", []),
        ("[f(a=x" + "[0]" * 30_000 + ")]", []),
        ("[f" + "()" * 45_000 + "]", []),
        ("[f(a='" + "x" * 200_000 + "')]", []),
        ("[f(a=lambda: 1)]", []),
        ("[__import__('os').system('true')]", []),
        ("[f(a=__import__('os').system('true'))]", []),
        ("[f(a=[x for x in range(10**10)])]", []),
        ("[(f := g)(a=1)]", []),
        ("f(a=1)]; import os; [g()", []),
        ("f(a=1)\x00", []),
        ("[f(a=1)] # and so on", []),
    ],
)
def test_the_form_and_its_limits(text, calls):
    read = read_calls(text)
    if text.startswith("[f.f."):  # a name as long as a book is a name that no item offers
        assert all(call.arguments == {"a": 1} for call in read)
    else:
        assert list(read) == calls


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('[f(a="x", n=5L, ok=true)]', [Call("f", {"a": "x", "n": "5L", "ok": "true"})]),
        (
            '[A.b(l=new ArrayList<>(Arrays.asList("a", "b")), m=new HashMap<>() {{ put("k", "v"); }})]',
            [Call("A.b", {"l": 'new ArrayList<>(Arrays.asList("a", "b"))', "m": 'new HashMap<>() {{ put("k", "v"); }}'})],
        ),
        (
            "[f(g=(x) => x + 1, h={a: [1, 2], b: 'c'}), k()]",
            [Call("f", {"g": "(x) => x + 1", "h": "{a: [1, 2], b: 'c'}"}), Call("k", {})],
        ),
        ("f(a='say \\'hi\\', (please)')", [Call("f", {"a": "say \\'hi\\', (please)"})]),
        ("[f(a=(1]", []),
        ("[f(a='x)]", []),
        ("[f(a == 1)]", []),
        ("[f(a=1, a=2)]", []),
        ("[f(1)]", []),
        ("[1]", []),
        ("let x = 1", []),
    ],
)
def test_java_and_javascript_arguments_are_source_text(text, calls):
    assert list(read_calls(text, "javascript")) == calls
    assert list(read_calls(text, "java")) == calls


def test_reading_evaluates_nothing(tmp_path):
    code = f"__import__('os').system('touch {tmp_path / 'pwned'}')"
    for text in (
        code,
        f"[f(a={code})]",
        f"[f(a=[{code}])]",
        f"[f(a={{'k': {code}}})]",
        f"[{code}(a=1)]",
        f"[f(a=f'{{{code}}}')]",
    ):
        for language in ("python", "java", "javascript"):
            read_calls(text, language)
    assert read_calls(f"[f(a={code!r})]") == (Call("f", {"a": code}),)
    assert list(tmp_path.iterdir()) == []
