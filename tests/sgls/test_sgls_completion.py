"""Answers laid out along their schema: what was written stays where it fits, all of it validates, fills belong to the record."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.records import Json
from slca.sgls import shapes, validation
from slca.sgls.backends import Request
from slca.sgls.backends.schema import SchemaBackend
from slca.sgls.completion import completed
from slca.sgls.tool import Behaviour, Tool

ONE = Behaviour(kind="look_up", entity="pet", id_field="id", key="id")


def fill(schema: dict[str, Any], subject: Json, arguments: dict[str, Json], record: Json) -> Json:
    return SchemaBackend().fill(Request(schema, subject, arguments, record, 0))


def shown(output: dict[str, Any], record: Json, behaviour: Behaviour = ONE) -> Json:
    """As the simulator asks: carefully only where the plain way does not validate."""
    tool = Tool(name="t", parameters={"type": "object"}, output=output, behaviour=behaviour)
    for careful in (False, True):
        answer = completed(tool, record, {}, fill, careful)
        if validation.fault(validation.validator(output), answer, "answer") is None:
            return answer
    raise AssertionError(f"{answer!r} does not validate")


def thing(*required: str, **properties: Json) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": list(required)}


TEXT: dict[str, Json] = {"type": "string"}
SCHEMAS: list[Json] = [
    *({"type": kind} for kind in ("string", "integer", "boolean", "object", "array", "null")),
    *({"type": "string", "maxLength": 2}, {"enum": ["a", 1]}, {"type": ["string", "null"]}, {"type": "string", "format": "date"}),
    *(thing("a", a=TEXT), thing("a", "b", a=TEXT, b={"type": "integer"}), {"type": "array", "items": thing("b", a=TEXT, b=TEXT)}),
    *({"$ref": "#/$defs/Named"}, {"allOf": [{"$ref": "#/$defs/Named"}, thing("size", size={"type": "integer"})]}),
    {"oneOf": [thing("cat", cat=TEXT), thing("dog", dog={"type": "integer"})]},
]
NAMED = thing("name", name=TEXT, next={"$ref": "#/$defs/Named"})
VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "abc", "2026-01-01"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "name", "size", "dog"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.sampled_from("vwxy"), st.sampled_from(SCHEMAS), min_size=1),
    st.dictionaries(st.sampled_from("vwxyz"), VALUES),
    st.sets(st.sampled_from("vwxy")),
    st.booleans(),
)
def test_every_answer_validates_and_keeps_what_fits(
    properties: dict[str, Json], record: dict[str, Json], required: set[str], closed: bool
) -> None:
    names = sorted(required & properties.keys())
    output = {**thing(*names, id=TEXT, **properties), "$defs": {"Named": NAMED}, "additionalProperties": not closed}
    answer = shown(output, {**record, "id": "P1"})
    assert answer["id"] == "P1" and set(names) <= set(answer)
    for name, value in record.items():
        schema = properties.get(name, {} if not closed else False)
        if validation.fault(validation.validator({"$defs": {"Named": NAMED}, "allOf": [schema]}), value, name) is None:
            assert answer[name] == value


def test_a_stored_object_is_completed_inside_and_keeps_what_was_written() -> None:
    address = thing("city", "id", city=TEXT, id={"type": "integer"})
    output = thing("id", "home", id=TEXT, home=address, all={"type": "array", "items": address})
    answer = shown(output, {"id": "P1", "home": {"city": "Lyon"}, "all": [{"city": "Oslo"}, {"city": "Rome", "id": 3}]})
    assert answer["home"]["city"] == "Lyon" and isinstance(answer["home"]["id"], int)
    assert [one["city"] for one in answer["all"]] == ["Oslo", "Rome"] and answer["all"][1]["id"] == 3


def test_of_several_choices_the_one_that_keeps_most_is_taken() -> None:
    cat, dog = thing("kind", kind={"const": "cat"}, lives={"type": "integer"}), thing("kind", kind={"const": "dog"}, tricks=TEXT)
    output = {"oneOf": [cat, dog]}
    assert shown(output, {"kind": "dog", "tricks": "sit", "id": "P1"}) == {"kind": "dog", "tricks": "sit"}


def test_written_fields_that_no_answer_has_room_for_are_cut_and_maps_keep_all() -> None:
    record = {"id": "P1", "name": "Rex", "secret": 1}
    assert shown(thing("id", id=TEXT, name=TEXT), record) == {"id": "P1", "name": "Rex"}
    assert shown({**thing("id", id=TEXT), "additionalProperties": TEXT}, record) == {"id": "P1", "name": "Rex"}
    assert shown({}, record) == record


def test_two_tools_that_show_one_record_agree_on_what_the_service_itself_wrote() -> None:
    made = ("createdAt", "status")
    pet = thing("id", id=TEXT, status={"enum": ["a", "b", "c"]}, createdAt={"type": "string", "format": "date-time"})
    look_up = ONE.model_copy(update={"made": made})
    search = Behaviour(kind="search", entity="pet", id_field="id", result="pets", made=made)
    create = Behaviour(kind="create", entity="pet", id_field="id", result="data", made=made)
    read = shown(pet, {"id": "P1"}, look_up)
    assert set(read) == {"id", *made}
    assert shown(thing("pets", pets={"type": "array", "items": pet}), {"pets": [{"id": "P1"}]}, search) == {"pets": [read]}
    assert shown(thing("data", data=pet), {"data": {"id": "P1"}}, create) == {"data": read}
    assert shown(pet, {"id": "P2"}, look_up)["createdAt"] != read["createdAt"]


@pytest.mark.parametrize(
    ("kind", "output", "answer"),
    [
        ("create", TEXT, "7"),
        ("create", {"type": "integer"}, 7),
        ("delete", {"type": "null"}, None),
        ("delete", {"type": "boolean"}, True),
        ("look_up", thing("id", id=TEXT), {"id": "7"}),
    ],
)
def test_answers_that_are_one_value_tell_the_id_or_that_it_worked(kind: Any, output: dict[str, Json], answer: Json) -> None:
    behaviour = Behaviour(kind=kind, entity="pet", id_field="id", key="id", id_schema={"type": "integer"})
    assert shown(output, {"id": 7, "name": "Rex"}, behaviour) == answer


def test_references_and_choices_are_followed_and_circles_end() -> None:
    root: dict[str, Json] = {
        "$defs": {
            "Node": {"allOf": [{"$ref": "#/$defs/Base"}, thing("next", next={"$ref": "#/$defs/Node"})]},
            "Base": thing("name", name=TEXT),
            "Round": {"$ref": "#/$defs/Round"},
        }
    }
    node = shapes.flat({"$ref": "#/$defs/Node"}, root)
    assert set(shapes.properties(node)) == {"name", "next"} and set(node["required"]) == {"name", "next"}
    assert shapes.flat({"$ref": "#/$defs/Round"}, root) == {}
    assert shapes.flat({"$ref": "#/$defs/None"}, root) == {}
    found = list(shapes.choices({"anyOf": [{"type": "null"}, {"oneOf": [TEXT, {"$ref": "#/$defs/Base"}]}]}, root))
    assert [shapes.types(choice) for choice in found] == [{"string"}, {"object"}, {"null"}]
