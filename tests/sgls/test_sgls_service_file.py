"""Service files: what is written comes back the same, and reads well."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.errors import ToolError
from slca.records import Json
from slca.sgls.catalog_loader import load_catalog, load_service
from slca.sgls.importers.openapi import from_openapi
from slca.sgls.inference import infer
from slca.sgls.service_file import service_text, write_service
from slca.sgls.tool import Behaviour, Condition, Copy, Page, Place, Route, Tool

DOCUMENTS = Path(__file__).parent / "documents"

words = st.text(max_size=8) | st.sampled_from(
    [
        "on",
        "No",
        "~",
        "",
        "null",
        "1e5",
        "0o17",
        "0x1F",
        "010",
        "1_000",
        "12:30",
        "2026-01-01",
        "=",
        "<<",
        "- a",
        "# b",
        "'",
        "a: b",
        ".5",
    ]
)
text = words.filter(lambda value: "\ufeff" not in value)
plain = text.filter(lambda value: "." not in value)  # "a" beside "a.b" is refused: a value and an object
values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
names = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)


@st.composite
def tools(draw: st.DrawFn) -> Tool:
    arguments = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    key = arguments[0]
    behaviour = draw(
        st.none()
        | st.builds(
            Behaviour,
            kind=st.just("search"),
            entity=text,
            id_field=text,
            result=text,
            where=st.tuples(st.builds(Condition, argument=st.just(key), field=text, op=st.sampled_from(["eq", "in", "under"]))),
            page=st.none() | st.builds(Page, limit=st.just(key), size=st.none() | st.integers(1, 9)),
            counts=st.dictionaries(plain, st.sampled_from(["total", "token"]), max_size=2),
            answer=st.dictionaries(plain, values, max_size=2),
            copies=st.tuples(st.builds(Copy, argument=st.just(key), entity=text)),
        )
        | st.builds(
            Behaviour,
            kind=st.just("create"),
            entity=text,
            id_field=text,
            id_schema=st.none() | st.just({"type": "integer", "minimum": 1}),
            fields=st.dictionaries(st.just(key), text, max_size=1),
            defaults=st.dictionaries(text, values, max_size=2),
            made=st.lists(text, max_size=2).map(tuple),
            prefix=st.none() | text,
        )
    )
    return Tool(
        name=draw(names),
        description=draw(text),
        parameters={"type": "object", "properties": {name: {"default": draw(values)} for name in arguments}, "required": [key]},
        output=draw(st.none() | st.just({"type": "object"}) | st.builds(lambda value: {"const": value}, values)),
        behaviour=behaviour,
        domain="shop",
        source=draw(text),
        original=draw(text),
        route=draw(
            st.none()
            | st.builds(
                Route,
                method=st.sampled_from(["GET", "PATCH"]),
                path=text,
                arguments=st.dictionaries(
                    st.just(key), st.builds(Place, part=st.sampled_from(["path", "field"]), name=text), max_size=1
                ),
                status=st.sampled_from([200, 204]),
            )
        ),
        held_out=draw(st.booleans()),
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(tools(), max_size=3, unique_by=lambda tool: tool.name))
def test_what_is_written_comes_back_the_same(tmp_path_factory: pytest.TempPathFactory, written: list[Tool]) -> None:
    path = tmp_path_factory.mktemp("services") / "shop.yaml"
    write_service(path, "shop", written)
    assert load_service(path) == tuple(written)


def test_an_imported_service_comes_back_the_same_and_says_what_each_call_does(tmp_path: Path) -> None:
    document = yaml.safe_load((DOCUMENTS / "petstore.yaml").read_text(encoding="utf-8"))
    pets = infer(from_openapi(document, "petstore").tools)
    write_service(tmp_path / "petstore.yaml", "petstore", pets)
    assert load_service(tmp_path / "petstore.yaml") == pets
    lines = (tmp_path / "petstore.yaml").read_text(encoding="utf-8").splitlines()
    assert "# GET /pets: lists every pet, filtered by status, in pages" in lines
    assert "# POST /pets/{petId}/visits: makes a new visit, within petId" in lines
    assert "# DELETE /pets/{petId}: removes one pet" in lines


def test_an_edit_by_hand_counts(tmp_path: Path) -> None:
    document = yaml.safe_load((DOCUMENTS / "petstore.yaml").read_text(encoding="utf-8"))
    pets = infer(from_openapi(document, "petstore").tools)
    text = service_text("petstore", pets)
    assert text.count("entity: visit") == 5
    (tmp_path / "petstore.yaml").write_text(text.replace("entity: visit", "entity: appointment"), encoding="utf-8")
    loaded = load_service(tmp_path / "petstore.yaml")
    assert sorted({tool.behaviour.entity for tool in loaded if tool.behaviour is not None}) == ["appointment", "pet"]


def test_the_catalog_can_be_written_and_loaded(tmp_path: Path) -> None:
    banking = load_catalog(["banking"])
    write_service(tmp_path / "banking.yaml", "banking", banking)
    assert load_service(tmp_path / "banking.yaml") == banking


def test_what_would_not_come_back_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    tool = Tool(name="t", parameters={"type": "object"}, domain="shop")
    with pytest.raises(ToolError, match="must be the file's name, 'other'"):
        write_service(tmp_path / "other.yaml", "shop", [tool])
    with pytest.raises(ToolError, match="tool 't': domain is 'shop'"):
        write_service(tmp_path / "other.yaml", "other", [tool])
    assert list(tmp_path.iterdir()) == []
