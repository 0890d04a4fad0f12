"""Sessions: each has a state of its own; they are shown, reset, forked and ended; there is a bound on them."""

from serving import Client, Running, notes, serving

from slca.sgls.server import Limits, Service
from slca.sgls.tool import load_tools

FIRST = {"id": "first", "title": "Buy milk", "stars": 2}


def _titles(client: Client) -> list[str]:
    return [note["title"] for note in client.send("GET", "/notes").json["notes"]]


def _write(client: Client, title: str) -> None:
    assert client.send("POST", "/notes", {"title": title, "stars": 1}).status == 201


def test_sessions_do_not_see_each_other(server: Running, client: Client) -> None:
    _write(client, "mine")
    other = server.client(client.session + "-other")
    assert _titles(other) == ["Buy milk"] and sorted(_titles(client)) == ["Buy milk", "mine"]


def test_a_reset_brings_the_first_state_back(client: Client) -> None:
    client.send("DELETE", "/notes/first")
    path = f"/_slca/sessions/{client.session}"
    assert client.send("POST", f"{path}/reset").status == 200
    assert client.send("GET", "/notes/first").json == FIRST


def test_a_fork_goes_on_alone(server: Running, client: Client) -> None:
    _write(client, "before")
    new_id = client.session + "-fork"
    path = f"/_slca/sessions/{client.session}/fork"
    assert client.send("POST", path, {"id": new_id}).status == 201
    fork = server.client(new_id)
    _write(fork, "there")
    _write(client, "here")
    assert sorted(_titles(fork)) == ["Buy milk", "before", "there"]
    assert sorted(_titles(client)) == ["Buy milk", "before", "here"]
    again = client.send("POST", path, {"id": new_id})
    assert (again.status, again.error) == (409, "conflict")
    assert client.send("POST", path, {"id": "no spaces"}).status == 400
    assert client.send("POST", path, {"name": "x"}).status == 422


def test_a_session_shows_its_counts_and_state(client: Client) -> None:
    _write(client, "a")
    client.send("GET", "/notes/none")
    path = f"/_slca/sessions/{client.session}"
    shown = client.send("GET", path).json
    assert (shown["id"], shown["calls"], shown["errors"], shown["faults"]) == (client.session, 2, {"not_found": 1}, {})
    assert [record["title"] for record in shown["state"]["note"].values()] == ["Buy milk", "a"]
    assert client.session in client.send("GET", "/_slca/sessions").json["sessions"]
    assert client.send("DELETE", path).status == 204
    for method, end in (("GET", ""), ("DELETE", ""), ("POST", "/fork")):
        gone = client.send(method, path + end)
        assert (gone.status, gone.error) == (404, "unknown_session")


def test_a_session_too_many_is_refused_and_none_is_lost() -> None:
    with serving(notes(), Limits(sessions=3)) as server:
        one, two, three = (server.client(name) for name in ("one", "two", "three"))
        _write(one, "kept")
        _write(two, "kept")
        refused = three.send("GET", "/notes")
        assert (refused.status, refused.error) == (429, "too_many_sessions")
        assert "kept" in _titles(one)
        assert two.send("DELETE", "/_slca/sessions/two").status == 204
        assert _titles(three) == ["Buy milk"]


def test_a_service_keeps_its_own_paths_and_ours_stay_below_the_prefix() -> None:
    """A service with ``/tools``, ``/mcp`` and a path of any name at the root."""
    definitions = [
        {
            "name": name,
            "parameters": {"type": "object", "properties": {}},
            "output": {"type": "object", "properties": {"own": {"const": name}}, "required": ["own"]},
            "route": {"method": method, "path": path},
        }
        for name, method, path in (("theirs", "GET", "/tools"), ("call", "POST", "/tools/{x}"), ("any", "GET", "/{x}"))
    ]
    with serving(Service(load_tools(definitions, "own"))) as server:
        client = server.client()
        assert client.send("GET", "/tools").json == {"own": "theirs"}
        assert client.send("POST", "/tools/any", {}).json == {"own": "call"}
        assert client.send("GET", "/_slca").json == {"own": "any"}
        assert [tool["name"] for tool in client.send("GET", "/_slca/tools").json["tools"]] == ["theirs", "call", "any"]
        assert client.send("POST", "/_slca/tools/any", {}).json == {"own": "any"}
        document = client.send("GET", "/openapi.json").json
        assert document == client.send("GET", "/_slca/openapi.json").json
        assert "/_slca/tools/any" in document["paths"] and document["paths"]["/tools"]["get"]["operationId"] == "theirs"
