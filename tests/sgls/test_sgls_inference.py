"""Inferred behaviours against an independent model: dicts of records, driven through sessions over generated small APIs."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.params import Simulator
from slca.records import Attempt, CallError, Json, State
from slca.sgls import validation
from slca.sgls.importers.openapi import from_openapi
from slca.sgls.inference import infer, seed_state, summary
from slca.sgls.inference.names import singular
from slca.sgls.inference.paths import target
from slca.sgls.simulator import Session
from slca.sgls.tool import Behaviour, Method, Place, Route, Tool

DOCUMENTS = Path(__file__).parent / "documents"


def imported(paths: dict[str, Json], schemas: dict[str, Json] | None = None) -> dict[str, Tool]:
    """The tools of a small OpenAPI document, with what is inferred of them."""
    document = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths}
    read = from_openapi({**document, "components": {"schemas": schemas or {}}}, "api")
    assert not read.refused
    return {tool.name: tool for tool in infer(read.tools)}


def operation(name: str, output: Json = None, body: Json = None, query: Json = None, status: int = 200) -> dict[str, Json]:
    answer: dict[str, Json] = {"description": "d"}
    if output is not None:
        answer["content"] = {"application/json": {"schema": output}}
    found: dict[str, Json] = {"operationId": name, "responses": {str(status): answer}}
    if body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if query is not None:
        found["parameters"] = [{"name": key, "in": "query", "schema": schema} for key, schema in query.items()]
    return found


def record(*required: str, **properties: Json) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": list(required)}


def listed(items: Json) -> dict[str, Json]:
    return {"type": "array", "items": items}


TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
UUID = {"type": "string", "format": "uuid"}
FLAG = {"type": "boolean"}


def session(tools: dict[str, Tool], state: State | None = None) -> Session:
    return Session(tuple(tools.values()), state or {}, Simulator(), "s")


def ok(service: Session, tool: str, /, **arguments: Json) -> Any:
    attempt = service.call(tool, arguments)
    assert attempt.error is None, attempt.result
    return attempt.result


# Generated APIs ---------------------------------------------------------------------------------------------------------------

VALUES: dict[str, tuple[Json, st.SearchStrategy[Json]]] = {
    "title": (TEXT, st.text(max_size=6)),
    "size": (WHOLE, st.integers(-5, 5)),
    "weight": ({"type": "number"}, st.sampled_from([0.5, 2, 2.25])),
    "open": (FLAG, st.booleans()),
    "colour": ({"enum": ["red", "blue"]}, st.sampled_from(["red", "blue"])),
    "tags": (listed(TEXT), st.lists(st.sampled_from(["a", "b"]), max_size=2)),
    "address": (
        record("city", city=TEXT, zip=TEXT),
        st.fixed_dictionaries({"city": st.text(max_size=4)}, optional={"zip": st.just("1")}),
    ),
}
IDS: dict[str, Json] = {"integer": WHOLE, "string": TEXT, "uuid": UUID, "short": {"type": "string", "pattern": "^[a-f0-9]{6}$"}}


@dataclass(frozen=True)
class Api:
    fields: tuple[str, ...]
    required: tuple[str, ...]
    id_name: str
    id_kind: str
    named: bool
    list_shape: str
    wrapped: bool
    delete_shape: str
    create_shape: str
    replaces: bool
    nested: bool
    made: bool
    prefix: str

    @property
    def path(self) -> str:
        return f"{self.prefix}/owners/{{owner_id}}/pets" if self.nested else f"{self.prefix}/pets"

    def document(self) -> dict[str, Json]:
        id_schema = IDS[self.id_kind]
        fields = {name: VALUES[name][0] for name in self.fields}
        made = {"createdAt": {"type": "string", "format": "date-time", "readOnly": True}} if self.made else {}
        body = record(*self.required, **fields)
        if self.named:
            body = record(*self.required, self.id_name, **fields, **{self.id_name: id_schema})
        pet = record(*self.required, *made, self.id_name, **fields, **made, **{self.id_name: id_schema})
        change = body if self.replaces else {**body, "required": []}

        def one(schema: Json) -> Json:
            return record("data", data=schema) if self.wrapped else schema

        lists = {
            "bare": listed(pet),
            "items": record("items", "total", items=listed(pet), total=WHOLE),
            "pets": record("pets", pets=listed(pet), nextPageToken=TEXT),
        }
        deletes = {"nothing": None, "record": one(pet), "message": record("message", "deleted", message=TEXT, deleted=FLAG)}
        creates = {"record": one(pet), "id": record(self.id_name, **{self.id_name: id_schema})}
        page = {"limit": WHOLE, "offset": WHOLE} if self.list_shape == "items" else {"pageSize": WHOLE, "pageToken": TEXT}
        filters = {name: VALUES[name][0] for name in self.fields if name in ("title", "size", "colour")}
        own = [{"name": "pet_id", "in": "path", "required": True, "schema": id_schema}]
        above = [{"name": "owner_id", "in": "path", "required": True, "schema": TEXT}] if self.nested else []
        deleted = deletes[self.delete_shape]
        paths: dict[str, Json] = {
            self.path: {
                "parameters": above,
                "get": operation("list", lists[self.list_shape], query={**page, **filters}),
                "post": operation("create", creates[self.create_shape], body, status=201),
            },
            f"{self.path}/{{pet_id}}": {
                "parameters": above + own,
                "get": operation("read", one(pet)),
                ("put" if self.replaces else "patch"): operation("change", one(pet), change),
                "delete": operation("delete", deleted, status=204 if deleted is None else 200),
            },
        }
        if self.nested:
            owner = record("id", "name", id=TEXT, name=TEXT)
            paths[f"{self.prefix}/owners"] = {"post": operation("create_owner", owner, record("name", name=TEXT))}
            paths[f"{self.prefix}/owners/{{owner_id}}"] = {"parameters": above, "get": operation("read_owner", owner)}
        return paths


@st.composite
def apis(draw: st.DrawFn) -> Api:
    fields = tuple(draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4, unique=True)))
    return Api(
        fields=fields,
        required=tuple(name for name in fields if draw(st.booleans())),
        id_name=draw(st.sampled_from(["id", "petId", "pet_id"])),
        id_kind=draw(st.sampled_from(sorted(IDS))),
        named=draw(st.booleans()) and draw(st.booleans()),
        list_shape=draw(st.sampled_from(["bare", "items", "pets"])),
        wrapped=draw(st.booleans()),
        delete_shape=draw(st.sampled_from(["nothing", "record", "message"])),
        create_shape=draw(st.sampled_from(["record", "id"])),
        replaces=draw(st.booleans()),
        nested=draw(st.booleans()),
        made=draw(st.booleans()),
        prefix=draw(st.sampled_from(["", "/api/v1", "/shop"])),
    )


class Model:
    """What a client of one generated API may rely on."""

    def __init__(self, api: Api, draw: st.DrawFn) -> None:
        self.api, self.draw = api, draw
        self.tools = imported(api.document())
        self.service = session(self.tools)
        self.pets: dict[tuple[str, Json], dict[str, Json]] = {}
        self.made: dict[tuple[str, Json], Json] = {}
        self.owners = [ok(self.service, "create_owner", name=name)["id"] for name in ("Ada", "Ben")] if api.nested else [""]

    def call(self, name: str, arguments: dict[str, Json]) -> Attempt:
        attempt = self.service.call(name, arguments)
        if attempt.error is None:
            assert validation.fault(validation.validator(self.tools[name].output or {}), attempt.result, "result") is None
        return attempt

    def values(self, all_required: bool) -> dict[str, Json]:
        names = [name for name in self.api.fields if (all_required and name in self.api.required) or self.draw(st.booleans())]
        return {name: self.draw(VALUES[name][1]) for name in names}

    def where(self, owner: str) -> dict[str, Json]:
        return {"owner_id": owner} if self.api.nested else {}

    def bare(self, answer: Json) -> dict[str, Json]:
        return dict(answer["data"] if self.api.wrapped else answer)

    def agree(self, key: tuple[str, Json], shown: dict[str, Json]) -> None:
        assert shown[self.api.id_name] == key[1]
        written = self.pets[key]
        assert {name: shown[name] for name in written} == written
        assert set(shown) - set(written) <= {self.api.id_name, "createdAt", *self.api.required}
        if self.api.made:
            assert self.made.setdefault(key, shown["createdAt"]) == shown["createdAt"]

    def create(self) -> None:
        owner = self.draw(st.sampled_from(self.owners))
        values = self.values(True)
        given: dict[str, Json] = {}
        if self.api.named:
            choices = {
                "integer": [7, 8],
                "string": ["x", "y/z"],
                "short": ["0a0a0a"],
                "uuid": ["0" * 8 + "-0000-4000-a000-" + "0" * 12],
            }
            given = {self.api.id_name: self.draw(st.sampled_from(choices[self.api.id_kind]))}
        attempt = self.call("create", {**values, **given, **self.where(owner)})
        if self.api.named and (owner, given[self.api.id_name]) in self.pets:
            assert attempt.error is CallError.CONFLICT
            return
        assert attempt.error is None, attempt.result
        whole = self.api.create_shape == "record"
        shown = self.bare(attempt.result) if whole else attempt.result
        key = (owner, shown[self.api.id_name])
        assert key not in self.pets and (not given or given[self.api.id_name] == key[1])
        self.pets[key] = values
        if whole:
            self.agree(key, shown)

    def some(self) -> tuple[str, Json]:
        missing = {"integer": 3, "string": "none", "short": "ffffff", "uuid": "9" * 8 + "-9999-4999-a999-" + "9" * 12}
        return self.draw(st.sampled_from([*self.pets, (self.owners[0], missing[self.api.id_kind])]))

    def one(self, name: str) -> None:
        key = self.some()
        values = self.values(self.api.replaces) if name == "change" else {}
        if name == "change" and self.api.named and self.api.replaces:
            values[self.api.id_name] = key[1]
        # Where the body has a property of the path's name, it is one argument.
        body = {"body": dict(values)} if "body" in self.tools[name].properties else dict(values)
        attempt = self.call(name, {**body, **self.where(key[0]), "pet_id": key[1]})
        values.pop(self.api.id_name, None)
        if key not in self.pets:
            assert attempt.error is CallError.NOT_FOUND, attempt.result
            return
        assert attempt.error is None, attempt.result
        if name == "change":
            self.pets[key] = values if self.api.replaces else {**self.pets[key], **values}
            self.agree(key, self.bare(attempt.result))
        elif name == "read":
            self.agree(key, self.bare(attempt.result))
        else:
            del self.pets[key]
            self.made.pop(key, None)
            assert self.api.delete_shape != "nothing" or attempt.result is None
            assert self.api.delete_shape != "message" or attempt.result["deleted"] is True
            assert self.service.call("read", {**self.where(key[0]), "pet_id": key[1]}).error is CallError.NOT_FOUND

    def listing(self) -> None:
        owner = self.draw(st.sampled_from(self.owners))
        filters = {
            name: self.draw(VALUES[name][1])
            for name in self.api.fields
            if name in ("size", "colour") and self.draw(st.booleans())
        }
        found = self.pages(owner, filters)
        expected = {
            key
            for key, pet in self.pets.items()
            if key[0] == owner and all(name in pet and pet[name] == value for name, value in filters.items())
        }
        assert [(owner, pet[self.api.id_name]) for pet in found if (owner, pet[self.api.id_name]) not in expected] == []
        assert len(found) == len(expected)
        for pet in found:
            self.agree((owner, pet[self.api.id_name]), pet)

    def pages(self, owner: str, filters: dict[str, Json]) -> list[dict[str, Json]]:
        """All records, read page by page where the list has pages."""
        shape, size = self.api.list_shape, self.draw(st.integers(1, 3))
        call = {**filters, **self.where(owner)}
        if shape == "bare":
            return list(ok(self.service, "list", **call))
        found: list[dict[str, Json]] = []
        if shape == "items":
            while True:
                page = ok(self.service, "list", **call, limit=size, offset=len(found))
                found += page["items"]
                if not page["items"]:
                    assert page["total"] == len(found)
                    return found
        token: dict[str, Json] = {}
        while True:
            page = ok(self.service, "list", **call, pageSize=size, **token)
            found += page["pets"]
            assert len(page["pets"]) <= size
            if "nextPageToken" not in page:
                return found
            token = {"pageToken": page["nextPageToken"]}


@settings(max_examples=60, deadline=None)
@given(st.data(), apis())
def test_what_was_written_is_read_listed_updated_and_gone_after_delete(data: st.DataObject, api: Api) -> None:
    model = Model(api, data.draw)
    assert {tool.name for tool in model.tools.values() if tool.behaviour is None} == set()
    for _ in range(data.draw(st.integers(1, 10))):
        step = data.draw(st.sampled_from(["create", "create", "read", "change", "delete", "list"]))
        if step == "create":
            model.create()
        elif step == "list":
            model.listing()
        else:
            model.one(step)
    assert not model.service.failed


# Single cases -----------------------------------------------------------------------------------------------------------------

PET = record("id", "name", id={**WHOLE, "readOnly": True}, name=TEXT, status={"enum": ["new", "sold"]}, owner_id=TEXT)
NEW_PET = record("name", name=TEXT, status={"enum": ["new", "sold"], "default": "new"})


def pets(path: str = "/pets", **more: Json) -> dict[str, Json]:
    """A plain collection with everything, and ``more`` operations by path."""
    ids = [{"name": "pet_id", "in": "path", "required": True, "schema": WHOLE}]
    return {
        path: {"get": operation("list", listed(PET)), "post": operation("create", PET, NEW_PET, status=201)},
        f"{path}/{{pet_id}}": {
            "parameters": ids,
            "get": operation("read", PET),
            "put": operation("replace", PET, NEW_PET),
            "patch": operation("change", PET, {**NEW_PET, "required": []}),
            "delete": operation("delete", status=204),
        },
        **more,
    }


def in_path(*names: str, schema: Json = TEXT) -> list[Json]:
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in names]


def test_custom_verbs_and_unclear_lists_are_left_alone() -> None:
    one = in_path("pet_id", schema=WHOLE)
    tools = imported(
        pets(
            **{
                "/pets/{pet_id}/archive": {"parameters": one, "post": operation("archive", PET)},
                "/pets/{pet_id}:publish": {"parameters": one, "post": operation("publish", PET)},
                "/pets/search": {"get": operation("search", listed(PET), query={"q": TEXT})},
                "/pets/count": {"get": operation("count", record(total=WHOLE))},
                "/pets/bulk": {"post": operation("bulk", listed(PET), listed(NEW_PET))},
                "/health": {"get": operation("health", record(status=TEXT))},
                "/login": {"post": operation("login", record(token=TEXT), record(user=TEXT))},
            }
        )
    )
    assert {name for name, tool in tools.items() if tool.behaviour is None} == {
        *("archive", "publish", "search", "count", "bulk", "health", "login")
    }
    rows = {row.entity: row for row in summary(tuple(tools.values()))}
    assert set(rows["pet"].uninferred) == {"archive", "publish", "search", "count", "bulk"}
    assert set(rows["pet"].operations) == {
        *("search list", "create create", "look_up read", "update replace", "update change", "delete delete")
    }
    assert set(rows[""].uninferred) == {"health", "login"} and rows[""].operations == ()


def test_a_search_whose_arguments_are_all_fields_is_a_filtered_list() -> None:
    query = {"status": listed({"enum": ["new", "sold"]})}
    tools = imported(pets(**{"/pets/findByStatus": {"get": operation("by_status", listed(PET), query=query)}}))
    service = session(tools)
    made = [ok(service, "create", name=name, status=status) for name, status in (("a", "new"), ("b", "sold"))]
    assert ok(service, "by_status", status=["sold"]) == [made[1]]
    assert len(ok(service, "by_status", status=["sold", "new"])) == 2


def test_a_filter_on_what_the_service_itself_writes_finds_new_records() -> None:
    order = record(
        "id", "state", id=WHOLE, state={"enum": ["open", "paid"], "readOnly": True}, archived={**FLAG, "readOnly": True}
    )
    paths: dict[str, Json] = {
        "/orders": {
            "get": operation("list", listed(order), query={"state": {"enum": ["open", "paid"]}, "archived": FLAG}),
            "post": operation("create", order, record(note=TEXT)),
        }
    }
    service = session(imported(paths))
    made = ok(service, "create", note="n")
    assert (made["state"], made["archived"]) == ("open", False)
    assert ok(service, "list", state="open", archived=False) == [made]
    assert ok(service, "list", state="paid") == []


def test_put_replaces_patch_merges_and_defaults_are_those_of_the_request() -> None:
    service = session(imported(pets()))
    pet = ok(service, "create", name="Rex")
    assert pet["status"] == "new" and isinstance(pet["id"], int)
    assert ok(service, "change", pet_id=pet["id"], status="sold")["name"] == "Rex"
    assert ok(service, "replace", pet_id=pet["id"], name="Max")["status"] == "new"
    assert ok(service, "delete", pet_id=pet["id"]) is None
    assert ok(service, "list") == []


def test_a_record_that_is_alone_is_there_before_it_is_written_one_for_each_parent() -> None:
    settings_of = record("theme", theme={"enum": ["dark", "light"]}, size=WHOLE)
    paths: dict[str, Json] = {
        "/me": {
            "get": operation("me", record("name", name=TEXT)),
            "patch": operation("rename", record(name=TEXT), record(name=TEXT)),
        },
        "/users/{user}/settings": {
            "parameters": in_path("user"),
            "get": operation("settings", settings_of),
            "put": operation("set", settings_of, settings_of),
        },
    }
    service = session(imported(paths))
    before = ok(service, "me")["name"]
    assert before == ok(service, "me")["name"]
    ok(service, "rename", name="Ada")
    assert ok(service, "me") == {"name": "Ada"}
    ok(service, "set", user="a/b", theme="dark", size=3)
    ok(service, "set", user="a", theme="light")
    assert ok(service, "settings", user="a/b") == {"theme": "dark", "size": 3}
    assert ok(service, "settings", user="a") == {"theme": "light"}


def test_put_to_an_item_without_post_makes_it_and_names_count_within_their_parent() -> None:
    label = record("name", "colour", name=TEXT, colour=TEXT)
    paths: dict[str, Json] = {
        "/repos/{repo}/labels": {"parameters": in_path("repo"), "get": operation("list", listed(label))},
        "/repos/{repo}/labels/{name}": {
            "parameters": in_path("repo", "name"),
            "get": operation("read", label),
            "put": operation("put", label, record("colour", colour=TEXT)),
            "delete": operation("delete"),
        },
    }
    service = session(imported(paths))
    for repo, colour in (("a", "red"), ("b", "blue"), ("a/x", "green")):
        assert ok(service, "put", repo=repo, name="bug", colour=colour) == {"name": "bug", "colour": colour}
    assert ok(service, "list", repo="a") == [{"name": "bug", "colour": "red"}]
    ok(service, "delete", repo="a", name="bug")
    assert service.call("read", {"repo": "a", "name": "bug"}).error is CallError.NOT_FOUND
    assert ok(service, "read", repo="b", name="bug")["colour"] == "blue"
    assert ok(service, "read", repo="a/x", name="bug")["colour"] == "green"


def test_a_parent_that_is_kept_must_exist_and_records_are_one_kind_on_all_their_paths() -> None:
    owner = record("id", id=TEXT, name=TEXT)
    paths = pets(
        **{
            "/owners": {"get": operation("owners", listed(owner)), "post": operation("own", owner, record(name=TEXT))},
            "/owners/{owner_id}/pets": {
                "parameters": in_path("owner_id"),
                "get": operation("pets_of", listed(PET)),
                "post": operation("give", PET, NEW_PET),
            },
        }
    )
    service = session(imported(paths))
    assert service.call("pets_of", {"owner_id": "nobody"}).error is CallError.NOT_FOUND
    assert service.call("give", {"owner_id": "nobody", "name": "Rex"}).error is CallError.NOT_FOUND
    ada = ok(service, "own", name="Ada")["id"]
    pet = ok(service, "give", owner_id=ada, name="Rex")
    assert pet["owner_id"] == ada
    ok(service, "create", name="Stray")
    assert ok(service, "pets_of", owner_id=ada) == [pet] and ok(service, "read", pet_id=pet["id"]) == pet
    assert len(ok(service, "list")) == 2


def test_records_inside_different_parents_are_not_mixed_up() -> None:
    label = record("name", "colour", name=TEXT, colour=TEXT)
    paths: dict[str, Json] = {}
    for parent in ("repos", "users"):
        paths[f"/{parent}/{{{parent[:-1]}}}/labels/{{name}}"] = {
            "parameters": in_path(parent[:-1], "name"),
            "get": operation(f"read_{parent}", label),
            "put": operation(f"put_{parent}", label, record("colour", colour=TEXT)),
        }
    tools = imported(paths)
    assert {row.entity for row in summary(tuple(tools.values()))} == {"label", "user_label"}
    service = session(tools)
    ok(service, "put_repos", repo="a", name="bug", colour="red")
    assert service.call("read_users", {"user": "a", "name": "bug"}).error is CallError.NOT_FOUND


def test_wrapped_bodies_and_answers_that_tell_only_the_id() -> None:
    item = record("id", id=UUID, title=TEXT)
    body = record("item", item=record("title", title=TEXT))
    paths: dict[str, Json] = {
        "/items": {
            "get": operation(
                "list", record("data", "success", data=listed(item), success=FLAG, error={"type": ["string", "null"]})
            ),
            "post": operation("create", UUID, body),
        },
        "/items/{uuid}": {"parameters": in_path("uuid", schema=UUID), "get": operation("read", record(data=item))},
    }
    service = session(imported(paths))
    made = ok(service, "create", item={"title": "tea"})
    assert ok(service, "read", uuid=made) == {"data": {"id": made, "title": "tea"}}
    assert ok(service, "list") == {"data": [{"id": made, "title": "tea"}], "success": True, "error": None}


def test_what_stands_beside_a_list_tells_of_the_page() -> None:
    meta = record("total", "page", "has_more", "next_cursor", total=WHOLE, page=WHOLE, has_more=FLAG, next_cursor=TEXT)
    paths = pets()
    query = {"per_page": {"type": "integer", "default": 2}, "cursor": TEXT}
    paths["/pets"]["get"] = operation("list", record("data", "meta", data=listed(PET), meta=meta), query=query)
    service = session(imported(paths))
    made = {ok(service, "create", name=str(number))["id"] for number in range(3)}
    first = ok(service, "list")
    assert {**first["meta"], "next_cursor": ""} == {"total": 3, "page": 1, "has_more": True, "next_cursor": ""}
    rest = ok(service, "list", cursor=first["meta"]["next_cursor"])
    assert rest["meta"] == {"total": 3, "page": 2, "has_more": False, "next_cursor": ""}
    assert {pet["id"] for pet in first["data"] + rest["data"]} == made


def test_put_on_the_collection_names_the_record_in_its_body_and_post_on_an_item_changes_it() -> None:
    pet = record("name", id=WHOLE, name=TEXT, status=TEXT)
    changing = operation("form", pet, query={"name": TEXT, "status": TEXT})
    paths: dict[str, Json] = {
        "/pet": {"post": operation("add", pet, pet), "put": operation("put", pet, pet)},
        "/pet/{petId}": {
            "parameters": in_path("petId", schema=WHOLE),
            "get": operation("read", pet),
            "post": changing,
            "delete": operation("drop", TEXT),
        },
        "/pet/{petId}/uploadImage": {
            "parameters": in_path("petId", schema=WHOLE),
            "post": operation("upload", record(code=WHOLE)),
        },
    }
    tools = imported(paths)
    assert {name for name, tool in tools.items() if tool.behaviour is None} == {"upload"}
    service = session(tools)
    assert ok(service, "add", id=7, name="Rex", status="new") == {"id": 7, "name": "Rex", "status": "new"}
    assert service.call("add", {"id": 7, "name": "Max"}).error is CallError.CONFLICT
    assert ok(service, "put", id=7, name="Max") == {"id": 7, "name": "Max"} == ok(service, "read", petId=7)
    assert service.call("put", {"id": 8, "name": "Max"}).error is CallError.NOT_FOUND
    assert service.call("put", {"name": "Max"}).error is CallError.INVALID_ARGUMENTS
    assert ok(service, "form", petId=7, status="sold") == {"id": 7, "name": "Max", "status": "sold"}
    assert ok(service, "drop", petId=7) == "7"
    assert service.call("read", {"petId": 7}).error is CallError.NOT_FOUND


def test_a_field_is_what_the_record_calls_it_however_the_request_spells_it() -> None:
    shown = record("sid", sid=TEXT, friendly_name=TEXT, max_size=WHOLE)
    sent = record(FriendlyName=TEXT, MaxSize=WHOLE, StatusCallback=TEXT)
    item = {"parameters": in_path("Sid"), "get": operation("fetch", shown), "post": operation("change", shown, sent)}
    tools = imported({"/queues": {"post": operation("make", shown, sent)}, "/queues/{Sid}": item})
    service = session(tools)
    made = ok(service, "make", FriendlyName="support", MaxSize=7)
    assert (made["friendly_name"], made["max_size"]) == ("support", 7)
    ok(service, "change", Sid=made["sid"], FriendlyName="sales", StatusCallback="https://example.com")
    assert ok(service, "fetch", Sid=made["sid"]) == {"sid": made["sid"], "friendly_name": "sales", "max_size": 7}


def test_names_that_are_alike_and_stand_beside_each_other_stay_apart() -> None:
    shown = record("id", id=TEXT, name=TEXT)
    sent = record(name=TEXT, Name=TEXT)
    tools = imported(
        {
            "/pets": {"post": operation("make", shown, sent)},
            "/pets/{id}": {"parameters": in_path("id"), "get": operation("read", shown)},
        }
    )
    service = session(tools)
    made = ok(service, "make", name="Rex", Name="Max")
    assert ok(service, "read", id=made["id"])["name"] == "Rex"


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_body_that_names_another_parent_than_the_path_does_not_move_the_record(method: Method) -> None:
    object_ = record(id=TEXT, bucket=TEXT, size=WHOLE)

    def tool(name: str, method: Method, path: str, body: bool = False) -> Tool:
        places = {place: Place(part="path", name=place) for place in ("bucket", "id") if f"{{{place}}}" in path}
        properties: dict[str, Json] = dict.fromkeys(places, TEXT)
        if body:
            places, properties = {**places, "body": Place(part="body", name="")}, {**properties, "body": object_}
        return Tool(
            name=name,
            parameters={"type": "object", "properties": properties, "required": list(properties)},
            output=object_,
            route=Route(method=method, path=path, arguments=places),
        )

    one = "/b/{bucket}/o/{id}"
    tools = [tool("make", "POST", "/b/{bucket}/o", True), tool("read", "GET", one), tool("change", method, one, True)]
    service = session({tool.name: tool for tool in infer(tools)})
    made = ok(service, "make", bucket="a", body={"size": 1})
    assert ok(service, "change", bucket="a", id=made["id"], body={"bucket": "b", "size": 2})["bucket"] == "a"
    assert ok(service, "read", bucket="a", id=made["id"]) == {"id": made["id"], "bucket": "a", "size": 2}


def test_where_creating_is_unclear_the_whole_collection_is_left_alone() -> None:
    for output, body in ((listed(PET), listed(NEW_PET)), (PET, TEXT), (record("data", data=listed(PET)), NEW_PET)):
        paths = pets()
        paths["/pets"]["post"] = operation("create", output, body)
        assert all(tool.behaviour is None for tool in imported(paths).values())
    hidden = record("name", name=TEXT, size=WHOLE)  # no answer tells the id that the paths ask for
    unlearnable = {
        "/boxes": {"post": operation("create", hidden, hidden)},
        "/boxes/{box_id}": {"parameters": in_path("box_id", schema=WHOLE), "get": operation("read", hidden)},
    }
    assert all(tool.behaviour is None for tool in imported(unlearnable).values())


def test_a_written_value_that_the_answer_cannot_show_is_filled_and_the_rest_is_kept() -> None:
    shown = record("id", "size", id=WHOLE, size=WHOLE, name=TEXT, home=record("street", "zip", street=TEXT, zip=WHOLE))
    body = record("size", size=TEXT, name=TEXT, secret=TEXT, home=record("street", street=TEXT))
    paths: dict[str, Json] = {
        "/pets": {"post": operation("create", shown, body)},
        "/pets/{id}": {"parameters": in_path("id", schema=WHOLE), "get": operation("read", shown)},
    }
    service = session(imported(paths))
    pet = ok(service, "create", size="large", name="Rex", secret="s", home={"street": "Oak"})
    assert isinstance(pet["size"], int) and pet["name"] == "Rex" and "secret" not in pet
    assert pet["home"]["street"] == "Oak" and isinstance(pet["home"]["zip"], int)
    assert ok(service, "read", id=pet["id"]) == pet


def test_another_name_for_the_same_records() -> None:
    user = record("id", "email", id=UUID, email=TEXT, name=TEXT)
    paths: dict[str, Json] = {
        "/users": {"post": operation("create", user, record("email", email=TEXT, name=TEXT))},
        "/users/{id}": {"parameters": in_path("id", schema=UUID), "get": operation("read", user)},
        "/users/email/{email}": {
            "parameters": in_path("email"),
            "get": operation("by_email", user),
            "delete": operation("drop", status=204),
        },
    }
    service = session(imported(paths))
    ada = ok(service, "create", email="ada@example.com")
    assert ok(service, "by_email", email="ada@example.com") == ada
    assert service.call("by_email", {"email": "ben@example.com"}).error is CallError.NOT_FOUND
    ok(service, "drop", email="ada@example.com")
    assert service.call("read", {"id": ada["id"]}).error is CallError.NOT_FOUND


def topics() -> tuple[Tool, ...]:
    """As Google's APIs have it: ids are whole resource names."""
    topic = {"type": "object", "properties": {"name": TEXT, "label": TEXT}}
    parent = {"type": "string", "pattern": "^projects/[^/]+$"}
    name = {"type": "string", "pattern": "^projects/[^/]+/topics/[^/]+$"}
    listing = {"type": "object", "properties": {"topics": listed(topic), "nextPageToken": TEXT}}

    def tool(title: str, method: Any, path: str, output: Json, places: dict[str, Place], **properties: Json) -> Tool:
        required = [key for key, place in places.items() if place.part == "path"]
        parameters = {"type": "object", "properties": properties, "required": required}
        return Tool(name=title, parameters=parameters, output=output, route=Route(method=method, path=path, arguments=places))

    above, one = Place(part="path", name="parent"), Place(part="path", name="name")
    query, label = {"topicId": Place(part="query", name="topicId")}, {"label": Place(part="field", name="label")}
    page = {key: Place(part="query", name=key) for key in ("pageSize", "pageToken")}
    return infer(
        [
            tool(
                "list",
                "GET",
                "/v1/{parent=projects/*}/topics",
                listing,
                {"parent": above, **page},
                parent=parent,
                pageSize=WHOLE,
                pageToken=TEXT,
            ),
            tool(
                "make",
                "POST",
                "/v1/{parent=projects/*}/topics",
                topic,
                {"parent": above, **query, **label},
                parent=parent,
                topicId=TEXT,
                label=TEXT,
            ),
            tool("get", "GET", "/v1/{name=projects/*/topics/*}", topic, {"name": one}, name=name),
            tool("patch", "PATCH", "/v1/{name=projects/*/topics/*}", topic, {"name": one, **label}, name=name, label=TEXT),
            tool(
                "drop", "DELETE", "/v1/{name=projects/*/topics/*}", {"type": "object", "properties": {}}, {"name": one}, name=name
            ),
            tool("publish", "POST", "/v1/{name=projects/*/topics/*}:publish", topic, {"name": one}, name=name),
        ]
    )


def test_whole_resource_names_are_ids() -> None:
    tools = topics()
    assert {tool.name for tool in tools if tool.behaviour is None} == {"publish"}
    service = Session(tools, {}, Simulator(), "s")
    named = ok(service, "make", parent="projects/p", topicId="news", label="a")
    assert named == {"name": "projects/p/topics/news", "label": "a"}
    drawn = ok(service, "make", parent="projects/p", label="b")["name"]
    assert drawn.startswith("projects/p/topics/")
    other = ok(service, "make", parent="projects/p2", label="c")
    assert ok(service, "get", name=drawn)["label"] == "b"
    assert ok(service, "patch", name=drawn, label="d")["label"] == "d"
    first = ok(service, "list", parent="projects/p", pageSize=1)
    rest = ok(service, "list", parent="projects/p", pageSize=1, pageToken=first["nextPageToken"])
    assert "nextPageToken" not in rest
    assert {topic["name"] for topic in first["topics"] + rest["topics"]} == {named["name"], drawn}
    assert ok(service, "list", parent="projects/p2")["topics"] == [other]
    ok(service, "drop", name=drawn)
    assert service.call("get", {"name": drawn}).error is CallError.NOT_FOUND
    seeds = seed_state(tools, 2, 0)["topic"]
    assert len(seeds) == 2 and all(key.startswith("projects/") for key in seeds)
    assert ok(Session(tools, {"topic": seeds}, Simulator(), "s"), "get", name=min(seeds))["name"] == min(seeds)


def test_what_has_a_behaviour_or_no_route_stays_as_it_is() -> None:
    mine = Behaviour(kind="look_up", entity="cat", id_field="id", key="pet_id")
    tools = tuple(imported(pets()).values())
    edited = tuple(tool.model_copy(update={"behaviour": mine}) if tool.name == "read" else tool for tool in tools)
    assert infer(edited) == edited
    plain = Tool(name="plain", parameters={"type": "object"})
    assert infer((plain,)) == (plain,)


@pytest.mark.parametrize(
    ("path", "collection", "item"),
    [
        ("/pets", ("pets",), None),
        ("/pets/", ("pets",), None),
        ("/api/v1/pets/{id}", ("api", "v1", "pets"), "id"),
        ("/pets/{id}.json", ("pets",), "id"),
        ("/pets.json", ("pets",), None),
        ("/pets/{id}/toys/{toy}", ("pets", "{}", "toys"), "toy"),
        ("/pets/{id}/archive", ("pets", "{}", "archive"), None),
        ("/pets/{id}:archive", None, None),
        ("/repos/{id}/{toy}", None, None),
        ("/{id}", None, None),
        ("/", None, None),
        ("/v1/{id=projects/*/topics/*}", ("v1", "projects", "{}", "topics"), "id"),
        ("/v1/{id=projects/*}/topics", ("v1", "projects", "{}", "topics"), None),
        ("/v1/{id=projects/*/topics/*}:publish", None, None),
        ("/v1/{id=**}", None, None),
        ("/v1/{id=projects/*}/topics/{toy}", None, None),
    ],
)
def test_paths_show_their_collection_and_item(path: str, collection: tuple[str, ...] | None, item: str | None) -> None:
    route = Route(method="GET", path=path, arguments={name: Place(part="path", name=name) for name in ("id", "toy")})
    found = target(route)
    assert (found.collection if found else None) == collection
    assert found is None or found.item == item


@pytest.mark.parametrize(
    ("many", "one"),
    [
        *(("pets", "pet"), ("categories", "category"), ("boxes", "box"), ("addresses", "address"), ("status", "status")),
        *(("analysis", "analysis"), ("branches", "branch"), ("caches", "cache"), ("settings", "setting"), ("me", "me")),
    ],
)
def test_collections_are_called_by_one_of_theirs(many: str, one: str) -> None:
    assert singular(many) == one


def test_where_the_path_has_but_a_letter_records_are_called_after_what_names_them() -> None:
    bucket, item = record(id=TEXT), {"parameters": in_path("bucketId"), "get": operation("read", record(id=TEXT))}
    tools = imported({"/b": {"post": operation("make", bucket)}, "/b/{bucketId}": item})
    refused = session(tools).call("read", {"bucketId": "B1"})
    assert "there is no bucket 'B1'" in str(refused.result)


def test_what_is_inferred_and_seeded_is_the_same_in_any_process() -> None:
    script = """
import sys, yaml
from slca.files import digest
from slca.sgls.importers.openapi import from_openapi
from slca.sgls.inference import infer, seed_state
from slca.sgls.service_file import service_text
tools = infer(from_openapi(yaml.safe_load(open(sys.argv[1], encoding="utf-8")), "petstore").tools)
print(digest(service_text("petstore", tools), seed_state(tools, 3, 0)))
"""
    runs = {
        subprocess.run(
            [sys.executable, "-c", script, str(DOCUMENTS / "petstore.yaml")],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


# States to begin with ---------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(apis(), st.integers(0, 3), st.integers(0, 2))
def test_a_seeded_state_can_be_read_and_listed_and_its_parents_exist(api: Api, count: int, seed: int) -> None:
    tools = tuple(imported(api.document()).values())
    state = seed_state(tools, count, seed)
    assert state == seed_state(tools, count, seed)
    assert {entity: len(records) for entity, records in state.items()} == dict.fromkeys(state, count)
    service = Session(tools, state, Simulator(), "s")
    owners = list(state.get("owner", {})) if api.nested else [""]
    seen = 0
    for owner in owners:
        where = {"owner_id": owner} if api.nested else {}
        answer = ok(service, "list", **where)
        for pet in answer if isinstance(answer, list) else answer.get("items", answer.get("pets")):
            shown = ok(service, "read", **where, pet_id=pet[api.id_name])
            assert (shown["data"] if api.wrapped else shown) == pet
            seen += 1
    assert seen == count


def test_petstore_is_inferred_whole_and_its_visits_belong_to_pets_that_exist() -> None:
    document = yaml.safe_load((DOCUMENTS / "petstore.yaml").read_text(encoding="utf-8"))
    tools = infer(from_openapi(document, "petstore").tools)
    assert [(row.entity, len(row.operations), row.uninferred) for row in summary(tools)] == [("pet", 5, ()), ("visit", 5, ())]
    state = seed_state(tools, 3, 1)
    assert {str(visit["petId"]) for visit in state["visit"].values()} == set(state["pet"])
