"""What a service's parameters do when it is served: models in threads, answers from a cache alone, slow answers."""

import socket
import threading
import time
from pathlib import Path

from serving import NOTES, notes, serving

from slca.params import Simulator
from slca.sgls.faults import draw_fault
from slca.sgls.server import Service


def test_a_model_that_is_slow_to_answer_holds_up_no_other_session() -> None:
    """The model's server takes a request and says nothing until it goes away."""
    with socket.create_server(("127.0.0.1", 0)) as model:
        url = f"http://127.0.0.1:{model.getsockname()[1]}/v1"
        with serving(notes(backend="openai", model="m", base_url=url, retries=0)) as server:
            replies = []
            waiting = server.client("waits")
            thread = threading.Thread(target=lambda: replies.append(waiting.send("GET", "/notes/words?text=a")))
            thread.start()
            asked, _ = model.accept()
            assert server.client("other").send("GET", "/notes/first").status == 200
            assert server.client("other").send("GET", "/_slca/sessions").status == 200
            assert replies == []
            model.close()
            asked.close()
            thread.join()
            assert (replies[0].status, replies[0].error) == (502, "simulator_failure")
            assert waiting.send("GET", "/_slca/sessions/waits").json["failed"] is True


def test_an_answer_that_is_not_there_to_replay_is_a_typed_error(tmp_path: Path) -> None:
    with serving(notes(cache_folder=str(tmp_path / "cache"))) as server:
        known = server.client().send("GET", "/notes/words?text=known").json
    with serving(notes(cache_folder=str(tmp_path / "cache"), cache="replay")) as server:
        client = server.client()
        assert client.send("GET", "/notes/words?text=known").json == known
        missing = client.send("GET", "/notes/words?text=new")
        assert (missing.status, missing.error) == (502, "simulator_failure")
        assert "replay" in missing.json["error"]["message"]


def test_a_slow_answer_comes_late_and_whole() -> None:
    delays = {}
    for number in range(200):
        fault = draw_fault(1.0, ["slow"], 0, "slow", "read_note", {"note_id": f"n{number}"}, 0, False)
        assert fault is not None
        delays[f"n{number}"] = fault.delay
    note_id = min(delays, key=lambda key: delays[key])
    service = Service(NOTES, Simulator(fault_rate=1.0, fault_kinds=("slow",)), {"note": {note_id: {"title": "late", "stars": 1}}})
    with serving(service) as server:
        client = server.client("slow")
        begin = time.monotonic()
        reply = client.send("GET", f"/notes/{note_id}")
        assert time.monotonic() - begin >= delays[note_id] >= 0.5
    assert (reply.status, reply.headers["X-SLCA-Fault"], reply.json["title"]) == (200, "slow", "late")


def test_a_base_path_stands_before_the_services_own_paths_alone() -> None:
    with serving(Service(NOTES, base_path="/v1")) as server:
        client = server.client()
        assert client.send("GET", "/v1/notes").json == {"notes": []}
        assert client.send("GET", "/notes").status == 404
        assert "/v1/notes/{id}" in client.send("GET", "/openapi.json").json["paths"]
        assert client.call("find_notes", {}).json == {"notes": []}
