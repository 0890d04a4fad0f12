"""The client of a vLLM server, against a server of ours that answers as vLLM does, or fails as servers do."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from slca.errors import DataError, MissingDependency, ParamsError
from slca.rollouts import vllm_server
from slca.rollouts.vllm_server import VllmServerGenerator

STOP = 7
Answer = Callable[[dict[str, Any]], tuple[int, Any]]


def turn(ids: list[int]) -> tuple[int, Any]:
    logprobs = [-token / 8 for token in ids]
    return 200, {"choices": [{"token_ids": ids, "logprobs": {"token_logprobs": logprobs}}]}


def echo(body: dict[str, Any]) -> tuple[int, Any]:
    """The prompt's last token, then the end of the turn."""
    return turn([body["prompt"][-1], STOP])


class Served:
    """A server. answer: what it answers to a completion; asked: the requests that it was sent."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.models: Any = {"data": [{"id": "models/small", "max_model_len": 64}]}
        self.asked: list[dict[str, Any]] = []
        self.most = self.now = 0
        self.lock = threading.Lock()
        self.url = ""

    def generator(self, model: str = "models/small", positions: int = 64, rows: int = 4) -> VllmServerGenerator:
        return VllmServerGenerator(self.url, model, positions, frozenset({STOP}), 0.5, rows)


@contextmanager
def serve(answer: Answer) -> Iterator[Served]:
    served = Served(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.reply(200, served.models)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with served.lock:
                served.asked.append(body)
                served.now += 1
                served.most = max(served.most, served.now)
            status, content = served.answer(body)
            with served.lock:
                served.now -= 1
            if status:
                self.reply(status, content)
            else:
                self.close_connection = True  # and nothing is said

        def reply(self, status: int, content: Any) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def next_turns(generator: VllmServerGenerator, count: int) -> dict[int, Any]:
    found: dict[int, Any] = {}
    while len(found) < count:
        found.update(generator.step())
    return found


def test_turns_are_requests_that_hold_all_ids_so_far_and_nothing_is_left_to_the_server() -> None:
    with serve(echo) as served:
        generator = served.generator()
        generator.add(3, [1, 2], 5, seed=11)
        (ended,) = next_turns(generator, 1).values()
        assert (ended.ids, ended.logprobs, ended.ended) == ([2, STOP], [-2 / 8, -STOP / 8], True)
        generator.go_on(3, [5, 4], 6)
        next_turns(generator, 1)
        generator.drop(3)
        generator.add(4, [1, 2], 5, seed=11)  # after the last one is gone, too
        next_turns(generator, 1)
        generator.drop(4)
    first, second, third = served.asked
    assert (first["prompt"], second["prompt"]) == ([1, 2], [1, 2, 2, STOP, 5, 4])
    assert (first["max_tokens"], second["max_tokens"]) == (5, 6)
    assert first["seed"] == third["seed"] != second["seed"]
    assert first.items() >= {"model": "models/small", "temperature": 0.5, "top_p": 1.0, "top_k": 0, "min_p": 0.0}.items()
    assert first.items() >= {"repetition_penalty": 1.0, "ignore_eos": True, "stop_token_ids": [STOP], "logprobs": 0}.items()
    assert first.items() >= {"return_token_ids": True, "add_special_tokens": False}.items()


def test_many_requests_are_under_way_and_never_more_than_rows() -> None:
    together = threading.Barrier(4, timeout=20)

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        together.wait()  # as soon as four are there
        return echo(body)

    with serve(answer) as served:
        generator = served.generator(rows=4)
        for key in range(12):
            generator.add(key, [key + 10], 5, seed=key)
        turns = next_turns(generator, 12)
        assert {key: turns[key].ids for key in turns} == {key: [key + 10, STOP] for key in range(12)}
        for key in range(12):
            generator.drop(key)
    assert served.most == 4


@pytest.mark.parametrize("failure", [0, 429, 500, 503])
def test_a_request_that_failed_is_asked_again_word_for_word(failure: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_server, "_WAITS", (0.01, 0.01))
    failures = [failure, failure]
    with serve(lambda body: (failures.pop(), {}) if failures else echo(body)) as served:
        generator = served.generator()
        generator.add(0, [9], 5, seed=1)
        assert next_turns(generator, 1)[0].ids == [9, STOP]
        generator.drop(0)
    assert served.asked[0] == served.asked[1] == served.asked[2]


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        ((503, {}), MissingDependency, r"failed 3 times in a row \(status 503\); start it again and repeat the command"),
        ((0, {}), MissingDependency, r"failed 3 times in a row \(RemoteProtocolError"),
        ((400, {"error": "too long"}), ParamsError, r"refuses a request \(400: .*too long"),
        ((200, {"choices": [{"text": "hello"}]}), ParamsError, "answers without token ids and log-probs; vLLM 0.22 or later"),
        (turn([3, 3]), DataError, "returned 2 tokens and 2 log-probs for a turn that may have 5"),
    ],
)
def test_a_server_in_trouble_ends_the_run_with_a_sentence(
    answer: tuple[int, Any], kind: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_server, "_WAITS", (0.01, 0.01))
    with serve(lambda _: answer) as served:
        generator = served.generator()
        for key in range(6):
            generator.add(key, [9], 5, seed=key)
        with pytest.raises(kind, match=message):
            next_turns(generator, 1)


def test_a_turn_may_meet_its_limit() -> None:
    with serve(lambda _: turn([3, 4, 5])) as served:
        generator = served.generator()
        generator.add(0, [9], 3, seed=0)
        assert not next_turns(generator, 1)[0].ended
        generator.drop(0)


@pytest.mark.parametrize(
    ("models", "wanted", "positions", "message"),
    [
        (None, "models/slca-0", 64, "serves models/small, and models/slca-0 is needed; .*--served-model-name models/slca-0"),
        (None, "models/small", 65, r"takes 64 tokens of models/small, and rollouts may have 65; set rollouts.max_context: 64"),
        ({"data": []}, "", 64, "serves nothing, and a model is needed"),
        ([], "", 64, "is no vLLM server: it lists no models"),
    ],
)
def test_the_server_must_hold_the_policy(models: Any, wanted: str, positions: int, message: str) -> None:
    with serve(echo) as served:
        served.models = served.models if models is None else models
        with pytest.raises(ParamsError, match=message):
            served.generator(wanted, positions)
        if models is None:
            assert served.generator("")._model == "models/small"  # in training: whatever is there


def test_where_no_server_is_the_user_reads_how_to_start_one() -> None:
    with serve(echo) as served:
        pass
    with pytest.raises(MissingDependency, match=r"no vLLM server answers at http://127.* start one with: vllm serve models/"):
        served.generator()
