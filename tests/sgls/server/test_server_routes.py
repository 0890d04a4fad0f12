"""The service's own routes: arguments come from where the route places them, answers and errors have the right status."""

import pytest
from serving import Client, notes, serving

from slca.params import Simulator
from slca.sgls.server import Service
from slca.sgls.tool import load_tools


def test_a_record_lives_through_its_routes(client: Client) -> None:
    created = client.send("POST", "/notes", {"title": "Łódź 東京", "stars": 3})
    assert created.status == 201
    note = created.json
    assert note == {"id": note["id"], "title": "Łódź 東京", "stars": 3}
    path = f"/notes/{note['id']}"
    assert client.send("GET", path).json == note
    assert client.send("PATCH", path, {"stars": 5}).json == {**note, "stars": 5}
    assert client.send("GET", "/notes?min-stars=5&q=%C5%82%C3%B3D").json == {"notes": [{**note, "stars": 5}]}
    deleted = client.send("DELETE", path)
    assert (deleted.status, deleted.body) == (204, b"")
    gone = client.send("GET", path)
    assert (gone.status, gone.error) == (404, "not_found")
    assert client.send("GET", "/notes").json == {"notes": [{"id": "first", "title": "Buy milk", "stars": 2}]}


def test_a_literal_path_comes_before_a_parameter(client: Client) -> None:
    assert isinstance(client.send("GET", "/notes/words?text=a").json, int)


def test_every_refusal_has_a_status_and_a_type(client: Client) -> None:
    note = {"title": "a", "stars": 1}
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    json_type = {"Content_Type": "application/json"}
    cases = [
        (client.send("GET", "/nowhere"), 404, "unknown_path"),
        (client.send("GET", "/notes/"), 404, "unknown_path"),
        (client.send("PUT", "/notes"), 405, "method_not_allowed"),
        (client.send("POST", "/notes", {**note, "stars": "1"}), 422, "invalid_arguments"),
        (client.send("POST", "/notes", {"title": "a"}), 422, "invalid_arguments"),
        (client.send("POST", "/notes", {**note, "colour": 1}), 422, "invalid_arguments"),
        (client.send("POST", "/notes", [note]), 422, "invalid_arguments"),
        (client.send("POST", "/notes"), 422, "invalid_arguments"),
        (client.send("PATCH", "/notes/first", {"note_id": "x"}), 422, "invalid_arguments"),
        (client.send("POST", "/notes", raw=b"{", **json_type), 400, "malformed_request"),
        (client.send("POST", "/notes", raw=b"a", Content_Type="image/png"), 415, "unsupported_media_type"),
        (client.send("POST", "/notes", raw=b"title=%ff", **form), 400, "malformed_request"),
        (client.send("POST", "/notes", raw=b"title=a&stars=1&colour=1", **form), 422, "invalid_arguments"),
        (client.send("PATCH", "/notes/first", raw=b"note_id=first&stars=1", **form), 422, "invalid_arguments"),
        (client.send("PATCH", "/notes/first", raw=b"null", **json_type), 422, "invalid_arguments"),
        (client.send("GET", "/notes?min-stars=two"), 422, "invalid_arguments"),
        (client.send("GET", "/notes?min-stars=1e999"), 422, "invalid_arguments"),
        (client.send("GET", "/notes?q=%ff"), 400, "malformed_request"),
        (client.send("GET", "/notes/%ff"), 400, "malformed_request"),
        (client.send("GET", "/notes/..%2F..%2Fetc%2Fpasswd"), 404, "not_found"),
        (client.call("nothing", {}), 404, "unknown_tool"),
        (client.call("create_note", {"title": ""}), 422, "invalid_arguments"),
        (client.send("GET", "/notes", X_SLCA_Session="no spaces"), 400, "malformed_request"),
    ]
    for number, (reply, status, kind) in enumerate(cases):
        assert (reply.status, reply.error) == (status, kind), (number, reply)
    assert cases[2][0].headers["Allow"] == "GET, POST"
    assert client.send("GET", "/notes").json["notes"] == [{"id": "first", "title": "Buy milk", "stars": 2}]


def test_forms_carry_typed_fields(client: Client) -> None:
    body = b"title=S%C3%A3o+Paulo&stars=4&tags=a&tags=b%2Cc"
    note = client.send("POST", "/notes", raw=body, Content_Type="application/x-www-form-urlencoded").json
    assert (note["title"], note["stars"], note["tags"]) == ("São Paulo", 4, ["a", "b,c"])
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'
        for name, text in (("title", "ü"), ("stars", "0"))
    ]
    body = ("".join(parts) + "--x--\r\n").encode()
    assert client.send("POST", "/notes", raw=body, Content_Type="multipart/form-data; boundary=x").json["title"] == "ü"


PLACES = {
    "id": ({"type": "integer"}, {"part": "path", "name": "id"}, "7", 7),
    "ids": ({"type": "array", "items": {"type": "integer"}}, {"part": "path", "name": "ids"}, "1,2", [1, 2]),
    "flag": ({"type": "boolean"}, {"part": "query", "name": "flag"}, "flag=true", True),
    "text": ({"type": "string"}, {"part": "query", "name": "text"}, "text=12", "12"),
    "any": ({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/size"}]}, {"part": "query", "name": "any"}, "any=2.5", 2.5),
    "none": ({"type": ["integer", "null"]}, {"part": "query", "name": "none"}, "none=", None),
    "many": (
        {"type": "array", "items": {"type": "string"}},
        {"part": "query", "name": "many[]"},
        "many[]=a,b&many[]=c",
        ["a,b", "c"],
    ),
    "comma": (
        {"type": "array", "items": {"type": "number"}},
        {"part": "query", "name": "c", "style": "comma"},
        "c=1,2.5",
        [1, 2.5],
    ),
    "pipe": (
        {"type": "array", "items": {"type": "string"}},
        {"part": "query", "name": "p", "style": "pipe"},
        "p=a%7Cb",
        ["a", "b"],
    ),
    "space": (
        {"type": "array", "items": {"type": "string"}},
        {"part": "query", "name": "s", "style": "space"},
        "s=a+b",
        ["a", "b"],
    ),
    "deep": (
        {"type": "object", "properties": {"min": {"type": "integer"}, "name": {"type": "string"}}},
        {"part": "query", "name": "deep", "style": "deep"},
        "deep[min]=3&deep%5Bname%5D=4",
        {"min": 3, "name": "4"},
    ),
    "spread": (
        {"type": "object", "properties": {"x": {"type": "integer"}, "text": {"type": "string"}}},
        {"part": "query", "name": "spread"},
        "x=5",
        {"x": 5},
    ),
    "json": ({"type": "object"}, {"part": "query", "name": "json", "style": "json"}, "json=%7B%22a%22:[1]%7D", {"a": [1]}),
}


@pytest.fixture(scope="module")
def places() -> Service:
    """A tool that keeps every argument in a record, so that what arrived can be read from the session's state."""
    properties = {name: schema for name, (schema, _, _, _) in PLACES.items()} | {
        "trace": {"type": "array", "items": {"type": "integer"}},
        "token": {"type": "string"},
    }
    arguments = {name: place for name, (_, place, _, _) in PLACES.items()}
    arguments |= {"trace": {"part": "header", "name": "X-Trace"}, "token": {"part": "cookie", "name": "token"}}
    keep = {
        "name": "keep",
        "parameters": {"type": "object", "properties": properties, "$defs": {"size": {"type": "number"}}},
        "behaviour": {"kind": "create", "entity": "kept", "id_field": "key", "fields": {name: name for name in properties}},
        "route": {"method": "GET", "path": "/keep/{id}.{ids}", "arguments": arguments},
    }
    name_argument = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    several = [
        {
            "name": f"keep_{number}",
            "parameters": name_argument,
            "behaviour": {
                "kind": "create",
                "entity": "name",
                "id_field": "key",
                "fields": {"name": "name"},
                "defaults": {"by": number},
            },
            "route": {
                "method": "POST",
                "path": path,
                "arguments": {"name": {"part": "path" if "{" in path else "query", "name": "name"}},
            },
        }
        for number, path in enumerate(
            ("/v1/{name=projects/*}", "/v1/{name=projects/*/jobs/*}:run", "/v1/{name=**}", "/v1/projects/one")
        )
    ]
    whole = {
        "name": "keep_body",
        "parameters": {"type": "object", "properties": {"body": {"type": ["array", "string"]}}, "required": ["body"]},
        "behaviour": {"kind": "create", "entity": "body", "id_field": "key", "fields": {"body": "body"}},
        "route": {"method": "POST", "path": "/body", "arguments": {"body": {"part": "body", "name": ""}}},
    }
    return Service(load_tools([keep, *several, whole], "places"), Simulator())


def test_arguments_come_from_every_place_in_every_style(places: Service) -> None:
    query = "&".join(text for _, place, text, _ in PLACES.values() if place["part"] == "query")
    with serving(places) as server:
        client = server.client()
        kept = client.send("GET", f"/keep/7.1,2?{query}", X_Trace="3,4", Cookie="token=abc")
        wanted = {name: value for name, (_, _, _, value) in PLACES.items()} | {"trace": [3, 4], "token": "abc"}
        assert {key: value for key, value in kept.json.items() if key != "key"} == wanted
        for path, by, name in (
            ("/v1/projects/a", 0, "projects/a"),
            ("/v1/projects/a/jobs/b:run", 1, "projects/a/jobs/b"),
            ("/v1/projects/a/jobs/b", 2, "projects/a/jobs/b"),
        ):
            reply = client.send("POST", path)
            assert (reply.json["by"], reply.json["name"]) == (by, name), (path, reply)
        assert client.send("POST", "/v1/projects/one").status == 422  # the literal path, which gives no name
        assert client.send("POST", "/body", [1, {"a": None}]).json["body"] == [1, {"a": None}]
        assert client.send("POST", "/body", raw="é".encode(), Content_Type="text/plain").json["body"] == "é"


def test_faults_are_acted_out_and_labelled() -> None:
    """Every call meets a fault here; the four kinds come in some order, and a client sees status, label and wait."""
    seen = set()
    with serving(notes(fault_rate=1.0, fault_kinds=("timeout", "rate_limit", "server_error", "empty_page"))) as server:
        client = server.client()
        for number in range(40):
            reply = client.send("GET", f"/notes?min-stars={number}")
            kind = reply.headers["X-SLCA-Fault"]
            seen.add(kind)
            if kind == "empty_page":
                assert (reply.status, reply.json) == (200, {"notes": []})
            else:
                assert reply.error == "fault"
                assert reply.status in {"timeout": (504,), "rate_limit": (429,), "server_error": (500, 502, 503)}[kind]
                assert (int(reply.headers["Retry-After"]) >= 1) if kind == "rate_limit" else "Retry-After" not in reply.headers
        counts = client.send("GET", "/_slca/sessions/default").json
        assert sum(counts["faults"].values()) == counts["calls"] == 40
    assert seen == {"timeout", "rate_limit", "server_error", "empty_page"}
