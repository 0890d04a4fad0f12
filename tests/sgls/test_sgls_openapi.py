"""What an OpenAPI document's operations become as tools."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from slca.sgls import validation
from slca.sgls.importers.base import Imported, Refused
from slca.sgls.importers.openapi import from_openapi
from slca.sgls.importers.rest import LONGEST_DESCRIPTION
from slca.sgls.tool import Place, Route, Tool, load_tools
from slca.sgls.validation import check_usable, validator

DOCUMENTS = Path(__file__).with_name("documents")
OK = {"200": {"description": "ok"}}


def imported(name: str) -> Imported:
    result = from_openapi(yaml.safe_load((DOCUMENTS / name).read_text(encoding="utf-8")), name)
    for tool in load_tools([tool.to_json() for tool in result.tools], name):
        assert tool.source == tool.domain == name
        for schema in (tool.parameters, tool.output):
            assert schema is not None
            check_usable(schema, tool.name)
    return result


def tools_of(name: str) -> dict[str, Tool]:
    return {tool.name: tool for tool in imported(name).tools}


def tool_of(operation: dict[str, Any], path: str = "/a", method: str = "post", version: str = "3.1.0", **components: Any) -> Tool:
    """The one tool of a document with one operation, all of which has to be imported."""
    result = from_openapi({"openapi": version, "paths": {path: {method: operation}}, "components": components}, "one")
    assert not result.refused
    (tool,) = result.tools
    load_tools([tool.to_json()], "one")
    return tool


def taking(schema: Any, required: bool = True, kind: str = "application/json", **components: Any) -> Tool:
    body = {"content": {kind: {"schema": schema}}, "required": required}
    return tool_of({"requestBody": body, "responses": OK}, schemas=components)


def answering(**responses: Any) -> Tool:
    return tool_of({"responses": {code.removeprefix("_"): response for code, response in responses.items()}})


def fault(schema: Any, value: Any) -> str | None:
    return validation.fault(validator(schema), value, "value")


def test_each_operation_of_the_pet_store_becomes_a_tool() -> None:
    result = imported("petstore.yaml")
    assert not result.refused
    assert not result.notes
    assert {tool.name: (tool.route.method, tool.route.path, tool.route.status) for tool in result.tools if tool.route} == {
        "listPets": ("GET", "/pets", 200),
        "createPet": ("POST", "/pets", 201),
        "getPet": ("GET", "/pets/{petId}", 200),
        "updatePet": ("PUT", "/pets/{petId}", 200),
        "deletePet": ("DELETE", "/pets/{petId}", 204),
        "listVisits": ("GET", "/pets/{petId}/visits", 200),
        "createVisit": ("POST", "/pets/{petId}/visits", 201),
        "getVisit": ("GET", "/pets/{petId}/visits/{visitId}", 200),
        "changeVisit": ("PATCH", "/pets/{petId}/visits/{visitId}", 200),
        "deleteVisit": ("DELETE", "/pets/{petId}/visits/{visitId}", 204),
    }


def test_parameters_of_path_item_operation_and_body_become_arguments() -> None:
    update = tools_of("petstore.yaml")["updatePet"]
    assert update.required == ("petId", "name", "status")
    assert update.parameters["additionalProperties"] is False
    assert update.properties["petId"] == {"type": "integer", "format": "int64", "description": "The pet's id."}
    assert update.route == Route(
        method="PUT",
        path="/pets/{petId}",
        arguments={
            "petId": Place(part="path", name="petId"),
            **{name: Place(part="field", name=name) for name in ("name", "status", "tag", "weight")},
        },
    )


def test_words_of_openapi_3_0_become_those_of_2020_12() -> None:
    properties = tools_of("petstore.yaml")["createPet"].properties
    assert properties["name"] == {"type": "string", "minLength": 1, "maxLength": 80, "examples": ["Bello"]}
    assert properties["tag"] == {"type": ["string", "null"]}
    assert properties["weight"] == {"type": "number", "exclusiveMinimum": 0}


def test_a_schema_carries_the_definitions_that_it_needs_and_no_others() -> None:
    tools = tools_of("petstore.yaml")
    assert set(tools["createPet"].parameters["$defs"]) == {"Status"}
    listed = tools["listPets"].output
    assert listed is not None and set(listed["$defs"]) == {"NewPet", "Pet", "Status"}
    assert "$defs" not in tools["getVisit"].parameters
    pet = {"id": 1, "name": "Bello", "status": "sold"}
    assert fault(listed, {"pets": [pet], "total": 1}) is None
    assert fault(listed, {"pets": [{**pet, "status": "lost"}], "total": 1}) is not None


def test_requests_lose_what_only_answers_have_and_the_other_way_round() -> None:
    account = {
        "type": "object",
        "required": ["id", "password", "name"],
        "properties": {
            "id": {"type": "string", "readOnly": True},
            "password": {"type": "string", "writeOnly": True},
            "name": {"type": "string"},
            "stamp": {"$ref": "#/components/schemas/Stamp"},
        },
    }
    reference = {"$ref": "#/components/schemas/Account"}
    answer = {"200": {"description": "ok", "content": {"application/json": {"schema": reference}}}}
    body = {"content": {"application/json": {"schema": reference}}}
    stamp = {"type": "string", "readOnly": True}
    tool = tool_of({"requestBody": body, "responses": answer}, schemas={"Account": account, "Stamp": stamp})
    assert list(tool.properties) == ["password", "name"]
    assert tool.required == ("password", "name")
    assert tool.output is not None
    assert list(tool.output["properties"]) == ["id", "name", "stamp"]
    assert tool.output["required"] == ["id", "name"]


def test_the_answer_without_content_is_null() -> None:
    assert tools_of("petstore.yaml")["deletePet"].output == {"type": "null"}


@pytest.mark.parametrize(
    ("responses", "output", "status"),
    [
        ({"_404": {}, "_201": {"content": {"application/json": {"schema": {"type": "integer"}}}}}, {"type": "integer"}, 201),
        ({"_200": {}, "_202": {"content": {"application/json": {"schema": {"type": "integer"}}}}}, {"type": "integer"}, 202),
        ({"_2XX": {"content": {"text/csv": {}, "application/hal+json": {"schema": {"type": "array"}}}}}, {"type": "array"}, 200),
        ({"default": {"content": {"*/*": {"schema": {"type": "boolean"}}}}}, {"type": "boolean"}, 200),
        ({"_204": {}, "default": {"content": {"application/json": {"schema": {"title": "Error"}}}}}, {"type": "null"}, 204),
        ({"_200": {"content": {"application/pdf": {}}}}, {"type": "string"}, 200),
        ({"_200": {"content": {"application/json": {}}}}, {}, 200),
        ({"_204": {"content": {"application/json": {"schema": {"type": "integer"}}}}}, {"type": "null"}, 204),
        ({"_302": {}}, {"type": "null"}, 302),
        ({"_500": {}}, {"type": "null"}, 200),
    ],
)
def test_the_answer_is_that_of_the_first_success_with_json(responses: Any, output: Any, status: int) -> None:
    tool = answering(**{code: {"description": "", **response} for code, response in responses.items()})
    assert tool.output == output
    assert tool.route is not None and tool.route.status == status


def test_of_several_content_types_json_is_taken_then_forms_then_text() -> None:
    def body(*kinds: str) -> tuple[str, dict[str, Any]]:
        content = {kind: {"schema": {"type": "object", "properties": {kind[-3:]: {"type": "string"}}}} for kind in kinds}
        tool = tool_of({"requestBody": {"content": content}, "responses": OK})
        assert tool.route is not None
        return tool.route.media_type, tool.properties

    text = {"type": "string"}
    assert body("text/plain", "multipart/form-data", "a/b+json", "application/json") == ("application/json", {"son": text})
    assert body("text/plain", "multipart/form-data", "a/b+json") == ("a/b+json", {"son": text})
    assert body("text/plain", "multipart/form-data") == ("multipart/form-data", {"ata": text})
    assert body("application/xml", "text/plain") == ("text/plain", {"body": text})
    assert body("application/xml") == ("application/xml", {"body": text})
    assert body("Application/JSON; charset=utf-8")[0] == "application/json"
    assert body("*/*")[0] == "application/json"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]},
        {"type": "object"},
        {"type": "object", "properties": {"a": {}}, "patternProperties": {"^x": {}}},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        {"type": ["object", "null"], "properties": {"a": {}}},
        {"type": "object", "properties": {"a b": {}, "a-b": {}}},
        {"allOf": [{"type": "object", "properties": {"a": {}}}, {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}]},
    ],
)
def test_a_body_that_is_no_plain_object_stays_in_one_piece(schema: Any) -> None:
    tool = taking(schema)
    assert list(tool.properties) == ["body"]
    assert tool.required == ("body",)
    assert tool.route is not None and tool.route.arguments == {"body": Place(part="body", name="")}


def test_a_body_whose_field_is_called_like_a_parameter_stays_in_one_piece() -> None:
    body = {"content": {"application/json": {"schema": {"type": "object", "properties": {"id": {}, "name": {}}}}}}
    parameter = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    tool = tool_of({"parameters": [parameter], "requestBody": body, "responses": OK}, path="/a/{id}")
    assert list(tool.properties) == ["id", "body"]
    assert tool.required == ("id",)


def test_the_parts_of_a_body_by_all_of_are_joined() -> None:
    base = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "c": {"minimum": 1}}}
    own = {"properties": {"b": {"type": "integer"}, "c": {"maximum": 9}}, "required": ["b"]}
    tool = taking({"allOf": [{"$ref": "#/components/schemas/Base"}, own]}, Base=base)
    assert tool.properties == {
        "a": {"type": "string"},
        "c": {"allOf": [{"minimum": 1}, {"maximum": 9}]},
        "b": {"type": "integer"},
    }
    assert tool.required == ("a", "b")


def test_a_refusal_of_further_properties_beside_all_of_does_not_refuse_what_all_of_describes() -> None:
    page = {"type": "object", "properties": {"next": {"type": "string"}}}
    nested = {"allOf": [{"$ref": "#/components/schemas/Page"}]}

    def output(**shape: Any) -> tuple[dict[str, Any], list[str]]:
        answer = {"description": "d", "content": {"application/json": {"schema": {"additionalProperties": False, **shape}}}}
        paths = {"/a": {"get": {"responses": {"200": answer}}}}
        read = from_openapi({"openapi": "3.0.0", "paths": paths, "components": {"schemas": {"Page": page}}}, "one")
        assert read.tools[0].output is not None
        return read.tools[0].output, [note.place.rsplit("/", 1)[1] for note in read.notes]

    for part in ({"properties": {"pets": {"type": "array"}}}, nested):
        shape, notes = output(allOf=[part])
        assert fault(shape, {"pets": [], "next": "a"}) is None and notes == ["additionalProperties"]
    shape, notes = output(properties=page["properties"], allOf=[nested])
    assert fault(shape, {"next": "a"}) is None and fault(shape, {"pets": []}) is not None and not notes


def test_an_optional_body_with_required_fields_counts_as_required() -> None:
    tool = taking({"type": "object", "required": ["a"], "properties": {"a": {}, "b": {}}}, required=False)
    assert tool.required == ("a",)
    assert taking({"type": "array"}, required=False).required == ()


def test_references_are_followed_wherever_they_may_stand() -> None:
    document = {
        "openapi": "3.0.3",
        "paths": {"/a~b/{id}": {"$ref": "#/x-items/one"}},
        "x-items": {
            "one": {
                "parameters": [{"$ref": "#/components/parameters/Id"}],
                "post": {
                    "operationId": "post",
                    "requestBody": {"$ref": "#/components/requestBodies/Again"},
                    "responses": {"200": {"$ref": "#/components/responses/Ok"}},
                },
            }
        },
        "components": {
            "parameters": {
                "Id": {"name": "id", "in": "path", "required": True, "schema": {"$ref": "#/components/schemas/a~1b%20c"}}
            },
            "requestBodies": {
                "Again": {"$ref": "#/components/requestBodies/Body"},
                "Body": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
            },
            "responses": {
                "Ok": {"description": "", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Alias"}}}}
            },
            "schemas": {
                "a/b c": {"type": "integer"},
                "Alias": {"$ref": "#/components/schemas/Thing"},
                "Thing": {
                    "type": "object",
                    "properties": {"part": {"$ref": "#/components/schemas/Thing/properties/whole"}, "whole": {}},
                },
            },
        },
    }
    result = from_openapi(document, "references")
    assert not result.refused
    (tool,) = result.tools
    assert tool.properties["id"] == {"$ref": "#/$defs/a_b_c"}
    assert tool.parameters["$defs"] == {"a_b_c": {"type": "integer"}, "whole": {}}
    assert tool.output == {
        "type": "object",
        "properties": {"part": {"$ref": "#/$defs/whole"}, "whole": {}},
        "$defs": {"whole": {}},
    }


def test_recursive_schemas_check_values_of_any_depth() -> None:
    tools = tools_of("comments_recursive.yaml")
    comment = {"text": "a", "replies": [{"text": "b", "author": {"lastComment": {"text": "c"}}}]}
    assert fault(tools["writeComment"].parameters, comment) is None
    comment["replies"][0]["author"]["lastComment"] = {}  # type: ignore[index]
    assert fault(tools["writeComment"].parameters, comment) == "replies[0].author.lastComment.text is missing."


def test_a_base_that_lists_its_children_can_be_checked() -> None:
    parameters = tools_of("comments_recursive.yaml")["drawShape"].parameters
    assert fault(parameters, {"body": {"kind": "circle", "radius": 1.5}}) is None
    assert fault(parameters, {"body": {"kind": "circle"}}) is not None
    assert fault(parameters, {"body": {"radius": 1.5}}) is not None


def test_schemas_without_end_are_refused_with_their_place() -> None:
    places = {refused.place: refused.reason for refused in imported("comments_recursive.yaml").refused}
    assert places == {
        "#/paths/~1endless/get": "at #/components/schemas/Endless: the schema applies itself to the same value without end",
        "#/paths/~1circle/get": "at #/components/schemas/Round: the schema refers to itself in a circle",
    }


def test_openapi_3_1_is_imported_with_what_is_missing_named() -> None:
    result = imported("library_31.yaml")
    assert [tool.name for tool in result.tools] == ["book", "lend", "get_books_by_isbn_cover", "storeCover"]
    (elsewhere,) = result.refused
    assert (elsewhere.place, elsewhere.name) == ("#/paths/~1elsewhere/get", "elsewhere")
    assert "'other.yaml#/Thing' leaves the document" in elsewhere.reason
    assert [(note.place, note.name) for note in result.notes] == [
        ("#/paths/~1loans/post/callbacks", "lend"),
        ("#/paths/~1books~1{isbn}~1cover/put/requestBody/content/image~1png", "storeCover"),
        ("#/webhooks/newBook", "newBook"),
    ]


def test_headers_and_cookies_are_arguments_but_not_those_that_steer_http() -> None:
    lend = tools_of("library_31.yaml")["lend"]
    assert lend.route is not None
    assert lend.route.arguments == {
        "X_Reader": Place(part="header", name="X-Reader"),
        "branch": Place(part="cookie", name="branch"),
        "body": Place(part="body", name=""),
    }
    assert lend.properties["branch"]["default"] == "São Paulo"
    assert lend.route.media_type == "application/vnd.library+json"
    assert "discriminator" not in lend.properties["body"] and len(lend.properties["body"]["oneOf"]) == 2


def test_odd_names_become_safe_ones_that_lead_back_to_the_originals() -> None:
    tools = tools_of("odd_names.yaml")
    read = tools["Stadte_lesen"]
    assert read.original == "Städte/lesen"
    assert read.description == "Reads São Paulo or 東京."
    assert read.route is not None
    assert {name: place.name for name, place in read.route.arguments.items() if name != place.name} == {
        "id_query": "id",
        "filter": "$filter",
        "filter_grosse": "filter[größe]",
        "created_lt": "created<",
        "created_gt": "created>",
        "from_": "from",
        "u6771_u4eac": "東京",
        "X_Request_Id": "X-Request-Id",
    }
    assert read.properties["u6771_u4eac"]["enum"] == ["東京", "São Paulo"]
    assert read.output is not None and "Größe (km²)" in read.output["properties"]
    assert (tools["delete_stadte_by_id"].original, tools["twice_2"].original) == ("DELETE /städte/{id}", "twice")


def test_a_parameter_of_the_path_that_nothing_declares_is_text_with_a_note() -> None:
    result = imported("odd_names.yaml")
    assert Refused(
        "#/paths/~1städte~1{id}/delete", "delete_stadte_by_id", "path parameter id is not declared; it is taken as text"
    ) in (result.notes)
    delete = next(tool for tool in result.tools if tool.name == "delete_stadte_by_id")
    assert delete.required == ("id",)


@pytest.mark.parametrize(
    ("parameter", "style"),
    [
        ({"schema": {"type": "array"}}, ""),
        ({"schema": {"type": "array"}, "explode": False}, "comma"),
        ({"schema": {"type": "array"}, "style": "pipeDelimited", "explode": False}, "pipe"),
        ({"schema": {"type": "array"}, "style": "spaceDelimited"}, "space"),
        ({"schema": {"type": "object"}, "style": "deepObject"}, "deep"),
        ({"schema": {"type": "object"}}, ""),
        ({"content": {"application/json": {"schema": {"type": "object"}}}}, "json"),
    ],
)
def test_how_a_list_or_an_object_is_written_is_kept(parameter: dict[str, Any], style: str) -> None:
    tool = tool_of({"parameters": [{"name": "q", "in": "query", **parameter}], "responses": OK})
    assert tool.route is not None and tool.route.arguments["q"] == Place(part="query", name="q", style=style)  # type: ignore[arg-type]


def test_what_cannot_be_written_in_a_path_is_refused() -> None:
    parameter = {"name": "q", "in": "path", "required": True, "style": "matrix", "schema": {"type": "array"}}
    document = {"openapi": "3.0.0", "paths": {"/a{q}": {"get": {"parameters": [parameter], "responses": OK}}}}
    (refused,) = from_openapi(document, "matrix").refused
    assert refused.place == "#/paths/~1a{q}/get"
    assert refused.reason == "at #/paths/~1a{q}/get/parameters/0: style matrix of a path parameter is not supported"


def test_a_keyword_with_a_wrong_value_is_left_out_with_its_place() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "int", "required": True, "pattern": "(", "minimum": 3}}}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}
    operation = {"operationId": "post", "requestBody": body, "responses": OK}
    result = from_openapi(
        {"openapi": "3.1.0", "paths": {"/a": {"post": operation}}, "components": {"schemas": {"A": schema}}}, "w"
    )
    assert result.tools[0].properties == {"a": {"minimum": 3}}
    assert [note.place for note in result.notes] == [
        f"#/components/schemas/A/properties/a/{keyword}" for keyword in ("type", "required", "pattern")
    ]


def test_one_bad_operation_does_not_stop_its_neighbours() -> None:
    paths = {
        "/a": {"get": {"responses": OK}, "put": "nothing", "post": {"parameters": 3}, "patch": {"parameters": [{"in": "body"}]}},
        "/b": None,
        "/c": {"$ref": "c.yaml"},
        "/d": {"summary": "empty", "get": {"operationId": "d", "responses": OK}},
    }
    result = from_openapi({"openapi": "3.0.0", "paths": paths}, "some")
    assert [tool.name for tool in result.tools] == ["get_a", "d"]
    assert [(refused.place, refused.name) for refused in result.refused] == [
        ("#/paths/~1a/put", "/a"),
        ("#/paths/~1a/post", "POST /a"),
        ("#/paths/~1a/patch", "PATCH /a"),
        ("#/paths/~1b", "/b"),
        ("#/paths/~1c", "/c"),
    ]


def test_summary_and_description_are_cut_visibly() -> None:
    tool = tool_of({"summary": "Does it.", "description": "Really. " * 400, "deprecated": True, "responses": OK})
    assert tool.description.startswith("Deprecated.\n\nDoes it.\n\nReally. Really.")
    assert tool.description.endswith(" [...]")
    assert LONGEST_DESCRIPTION - 10 < len(tool.description) <= LONGEST_DESCRIPTION
    assert tool_of({"responses": OK}).description == "POST /a"


def test_swagger_2_0_is_imported_as_its_3_0_counterpart_would_be() -> None:
    result = imported("tasks_swagger.yaml")
    assert not result.refused
    listed, add, attach, log = result.tools
    assert listed.route is not None and attach.route is not None and add.route is not None
    assert listed.properties["page"] == {"type": "integer", "default": 1, "exclusiveMinimum": 0}
    assert {name: place.style for name, place in listed.route.arguments.items()} == {"page": "", "tags": "", "ids": "comma"}
    assert listed.output is not None and listed.output["items"] == {"$ref": "#/$defs/Task"}
    assert add.required == ("title",) and add.properties["due"]["type"] == ["string", "null"] and "id" not in add.properties
    assert add.route.status == 201 and add.output is not None and "id" in add.output["properties"]
    assert attach.route.media_type == "multipart/form-data"
    assert attach.required == ("id", "file")
    assert attach.properties["file"] == {"type": "string", "format": "binary"}
    assert attach.properties["note"] == {"type": "string", "description": "What it shows."}
    assert log.output == {"type": "string"}


def test_a_list_separated_by_tabs_is_refused() -> None:
    parameter = {"name": "ids", "in": "query", "type": "array", "items": {"type": "string"}, "collectionFormat": "tsv"}
    (refused,) = from_openapi(
        {"swagger": "2.0", "paths": {"/a": {"get": {"parameters": [parameter], "responses": OK}}}}, "t"
    ).refused
    assert refused.place == "#/paths/~1a/get"
    assert "collectionFormat 'tsv' is not supported" in refused.reason


def test_the_same_document_gives_the_same_tools_whatever_was_imported_before() -> None:
    first = imported("petstore.yaml")
    imported("odd_names.yaml")
    assert imported("petstore.yaml") == first


def test_the_document_itself_is_not_changed() -> None:
    document = yaml.safe_load((DOCUMENTS / "petstore.yaml").read_text(encoding="utf-8"))
    before = repr(document)
    from_openapi(document, "kept")
    assert repr(document) == before


def test_another_process_imports_the_same_bytes() -> None:
    code = (
        "import sys, yaml; from slca.files import digest; from slca.sgls.importers.openapi import from_openapi; "
        "imported = from_openapi(yaml.safe_load(open(sys.argv[1], encoding='utf-8')), 'same'); "
        "print(digest([tool.to_json() for tool in imported.tools], [str(one) for one in (*imported.refused, *imported.notes)]))"
    )
    for name in ("petstore.yaml", "comments_recursive.yaml"):
        command = [sys.executable, "-c", code, str(DOCUMENTS / name)]
        runs = [
            subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout
            for seed in ("1", "2")
        ]
        assert runs[0] == runs[1] != ""
