"""Starting and ending a real server process, with real signals."""

import signal
import socket
import threading

import pytest
from serving import NOTES, notes, serving

from slca.errors import SlcaError, ToolError
from slca.sgls.server import Limits, Service
from slca.sgls.server.app import app
from slca.sgls.server.serve import serve


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_requests_in_flight_finish(number: signal.Signals) -> None:
    """The request waits for a second in an injected time-out; an idle connection holds nothing up."""
    with serving(notes(fault_rate=1.0, fault_kinds=["timeout"]), Limits(timeout_seconds=1.0)) as server:
        idle, client, replies = server.client(), server.client("waits"), []
        thread = threading.Thread(target=lambda: replies.append(client.send("GET", "/notes")))
        thread.start()
        while idle.send("GET", "/_slca/sessions/waits").status == 404:
            pass
        server.process.send_signal(number)
        thread.join()
        assert [(reply.status, reply.error) for reply in replies] == [(504, "fault")]
        assert server.process.wait(20) == 0
        with pytest.raises(ConnectionRefusedError):
            server.client().send("GET", "/notes")


def test_what_does_not_finish_in_the_grace_period_is_cut_off() -> None:
    limits = Limits(timeout_seconds=600.0, grace_seconds=1.0)
    with serving(notes(fault_rate=1.0, fault_kinds=["timeout"]), limits) as server:
        client, outcome = server.client("waits"), []
        thread = threading.Thread(target=lambda: outcome.append(client.send("GET", "/notes")))
        thread.start()
        while server.client().send("GET", "/_slca/sessions/waits").status == 404:
            pass
        server.process.send_signal(signal.SIGTERM)
        thread.join()
        assert (outcome[0].status, outcome[0].error) == (503, "shutting_down")
        assert server.process.wait(20) == 0


def test_a_taken_port_is_a_mistake_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SlcaError, match=rf"Port {port} of 127.0.0.1 .* --port"):
            serve(notes(), port=port)
    with pytest.raises(SlcaError, match="--port must be from 0"):
        serve(notes(), port=99999)


def test_a_server_that_others_can_reach_says_so() -> None:
    with serving(notes(), host="0.0.0.0") as server:
        assert server.log[0].startswith("note: 0.0.0.0 can be reached from other machines")
        assert server.client().send("GET", "/notes").status == 200


@pytest.mark.parametrize(("path", "message"), [("/_slca/sessions", "simulator's own"), ("/notes", "lacks {id}")])
def test_a_route_that_cannot_be_served_is_refused_before_the_start(path: str, message: str) -> None:
    read = next(tool for tool in NOTES if tool.name == "read_note")
    assert read.route is not None
    moved = read.model_copy(update={"route": read.route.model_copy(update={"path": path})})
    with pytest.raises(ToolError, match=message):
        app(Service((moved,)))


@pytest.mark.parametrize(
    "limit", [{"body_bytes": 0}, {"sessions": -1}, {"arrival_seconds": float("nan")}, {"grace_seconds": 0.0}]
)
def test_a_limit_that_is_none_is_refused(limit: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"limit {next(iter(limit))} must be a number of at least"):
        Limits(**limit)


@pytest.mark.parametrize("base_path", ["v1", "/", "/v1/", "/{x}", "//v1"])
def test_a_base_path_that_is_none_is_refused_before_the_start(base_path: str) -> None:
    with pytest.raises(SlcaError, match="must be like /v1"):
        app(Service(NOTES, base_path=base_path))
