"""Names from foreign documents: safe, distinct, the same every time, and recognisable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slca.sgls.importers.names import ARGUMENT_PATTERN, argument_name, argument_names, route_name, tool_names
from slca.sgls.tool import NAME_PATTERN

NAMES = st.one_of(
    st.text(max_size=90), st.sampled_from(["id", "id_2", "id_query", "Id", "from", "名前", "a b", "a_b", "", "1", "$id"])
)
PARTS = st.sampled_from(["path", "query", "header", "field"])


@pytest.mark.parametrize(
    ("original", "name"),
    [
        ("listPets", "listPets"),
        ("list-pets", "list-pets"),
        ("compute.instances.list", "compute_instances_list"),
        ("São Paulo/städte", "Sao_Paulo_stadte"),
        ("Łódź ßtraße", "Lodz_sstrasse"),
        ("東京", "u6771_u4eac"),
        ("2fa check!", "_2fa_check"),
        ("...", "tool"),
    ],
)
def test_a_tool_name_is_recognisable(original: str, name: str) -> None:
    assert tool_names([original]) == (name,)


@pytest.mark.parametrize(
    ("original", "name"),
    [
        *(("petId", "petId"), ("_id", "_id"), ("pet-id", "pet_id"), ("X-Request-Id", "X_Request_Id"), ("$filter", "filter")),
        *(("filter[size]", "filter_size"), ("created<", "created_lt"), ("from", "from_"), ("class", "class_"), ("None", "None_")),
        *(("größe (km²)", "grosse_km2"), ("+1", "plus_1"), ("-", "argument")),
    ],
)
def test_an_argument_name_can_be_used_in_a_python_call(original: str, name: str) -> None:
    assert argument_name(original) == name


def test_a_name_that_is_too_long_keeps_its_beginning_and_ends_in_a_digest() -> None:
    one, other = tool_names(["an operation " * 9 + "one", "an operation " * 9 + "other"])
    assert one != other
    assert one.startswith("an_operation_an_operation_") and 60 < len(one) <= 64


def test_a_path_names_an_operation_without_a_name() -> None:
    assert tool_names([route_name("GET", "/pets/{petId}/toys.json")]) == ("get_pets_by_petId_toys_json",)


def test_of_two_parameters_with_one_name_the_later_is_named_after_its_part() -> None:
    places = [("id", "path"), ("id", "query"), ("id", "header"), ("id", "query")]
    assert argument_names(places) == ("id", "id_query", "id_header", "id_query_2")


def test_a_name_that_is_safe_keeps_it_even_if_an_earlier_one_would_become_it() -> None:
    assert tool_names(["a b", "a_b", "a_b_2", "a.b"]) == ("a_b_3", "a_b", "a_b_2", "a_b_4")


@given(st.lists(NAMES, max_size=12))
def test_tool_names_are_safe_distinct_and_depend_on_the_originals_alone(originals: list[str]) -> None:
    names = tool_names(originals)
    assert len(set(names)) == len(names) == len(originals)
    assert all(NAME_PATTERN.fullmatch(name) for name in names)
    assert names == tool_names(list(originals))
    safe = [original for original in dict.fromkeys(originals) if NAME_PATTERN.fullmatch(original)]
    assert set(safe) <= set(names)


@given(st.lists(st.tuples(NAMES, PARTS), max_size=12))
def test_argument_names_are_plain_and_distinct(places: list[tuple[str, str]]) -> None:
    names = argument_names(places)
    assert len(set(names)) == len(names) == len(places)
    assert all(ARGUMENT_PATTERN.fullmatch(name) and name.isidentifier() for name in names)


def test_ten_thousand_equal_names_are_told_apart_at_once() -> None:
    assert len(set(tool_names(["São Paulo"] * 10_000))) == 10_000
