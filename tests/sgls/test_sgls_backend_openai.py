"""Backend openai against a real server on loopback: what is sent, and what comes of a server that misbehaves."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from chat_service import ChatService, running

from slca.params import Simulator
from slca.records import CallError, Json
from slca.sgls.backends import BACKENDS, Backend, BackendFailure, Request, Unreadable
from slca.sgls.simulator import Session
from slca.sgls.tool import load_tools

WEATHER: dict[str, Any] = {"type": "object", "properties": {"sky": {"type": "string"}}, "required": ["sky"]}
STRICT = {**WEATHER, "additionalProperties": False}
RAIN = '{"sky": "rain"}'


class Server(ChatService):
    """The scripted server, seen from outside."""

    def formats(self) -> list[str]:
        return [body.get("response_format", {"type": "text"})["type"] for body in self.bodies()]

    def params(self, **changes: Json) -> Simulator:
        values = {"model": "some-model", "base_url": f"{self.address}/v1", "timeout": 20.0, "retries": 0, **changes}
        return Simulator(backend="openai", **values)

    def backend(self, **changes: Json) -> Backend:
        return BACKENDS["openai"](self.params(**changes))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as port:
        yield Server(port)


def request(schema: dict[str, Any] = WEATHER, seed: int = 0, repair: int = 0, problem: str = "") -> Request:
    arguments = {"city": "Łódź"}
    return Request(schema, ["forecast", arguments], arguments, {}, seed, {"name": "forecast"}, repair=repair, problem=problem)


def test_a_request_carries_model_settings_schema_and_a_seed_of_its_own(server: Server) -> None:
    server.plan({"text": RAIN})
    backend = server.backend(temperature=0.25, max_tokens=77)
    for asked in (request(), request(), request(seed=1), request(repair=1, problem="sky is missing.")):
        assert backend.fill(asked) == {"sky": "rain"}
    first, again, other_seed, repaired = server.bodies()
    assert first == again
    assert (first["model"], first["temperature"], first["max_tokens"]) == ("some-model", 0.25, 77)
    assert first["response_format"]["json_schema"] == {"name": "result", "schema": WEATHER, "strict": False}
    assert len({body["seed"] for body in (first, other_seed, repaired)}) == 3
    assert all(0 <= body["seed"] < 2**31 for body in server.bodies())
    assert "Łódź" in first["messages"][1]["content"] and "sky is missing." in repaired["messages"][1]["content"]


def test_a_server_and_a_model_must_be_named() -> None:
    with pytest.raises(ValueError, match="backend openai needs base_url and model"):
        Simulator(backend="openai")
    with pytest.raises(ValueError, match="backend transformers needs model"):
        Simulator(backend="transformers")


def test_the_key_comes_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.plan({"text": RAIN})
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server.backend(max_tokens=11).fill(request())
    monkeypatch.setenv("OPENAI_API_KEY", "abc")
    server.backend(max_tokens=12).fill(request())
    assert [seen["key"] for seen in server.seen()["requests"]] == ["Bearer none", "Bearer abc"]


def test_sessions_share_one_backend_for_each_server_and_model(server: Server) -> None:
    assert server.backend(seed=1, fault_rate=0.5) is server.backend(seed=2)
    assert server.backend(model="other") is not server.backend()


def test_strict_mode_is_asked_for_where_the_schema_meets_its_rules(server: Server) -> None:
    nested = {**STRICT, "properties": {"sky": {"type": "array", "items": {"type": "object", "properties": {"a": {}}}}}}
    server.plan({"text": RAIN})
    for schema in (STRICT, WEATHER, nested):
        server.backend().fill(request(schema))
    assert [body["response_format"]["json_schema"]["strict"] for body in server.bodies()] == [True, False, False]


def test_a_server_that_refuses_the_format_gets_a_plainer_one_and_is_not_asked_for_the_first_again(server: Server) -> None:
    backend = server.backend(max_tokens=21)
    server.plan({"takes": ["json_object", "text"], "text": RAIN})
    assert [backend.fill(request(seed=seed)) for seed in (0, 1)] == [{"sky": "rain"}] * 2
    assert server.formats() == ["json_schema", "json_object", "json_object"]
    server.plan({"takes": ["text"], "text": f"```json\n{RAIN}\n```"})
    assert [backend.fill(request(STRICT, seed)) for seed in (0, 1)] == [{"sky": "rain"}] * 2
    assert server.formats() == ["json_schema", "json_schema", "json_object", "text", "text"]


def test_a_request_refused_in_every_format_fails_and_no_format_is_blamed(server: Server) -> None:
    backend = server.backend(max_tokens=22)
    server.plan({"status": 400})
    with pytest.raises(BackendFailure, match=r"status 400: .*no luck"):
        backend.fill(request())
    server.plan({"text": RAIN})
    assert backend.fill(request()) == {"sky": "rain"} and server.formats() == ["json_schema"]


def test_an_array_is_never_asked_for_as_an_object(server: Server) -> None:
    server.plan({"takes": ["text"], "text": "[1]"})
    assert server.backend(max_tokens=23).fill(request({"type": "array"})) == [1]
    assert server.formats() == ["json_schema", "text"]


def test_retry_after_is_honoured(server: Server) -> None:
    server.plan({"status": 429, "headers": {"retry-after": "1"}}, {"text": RAIN})
    assert server.backend(retries=1).fill(request()) == {"sky": "rain"}
    first, second = (seen["at"] for seen in server.seen()["requests"])
    assert 1.0 <= second - first < 10.0  # the client's own first pause is at most half a second


def test_a_server_error_is_tried_again_and_the_pauses_grow(server: Server) -> None:
    server.plan({"status": 500}, {"status": 503}, {"text": RAIN})
    assert server.backend(retries=2).fill(request()) == {"sky": "rain"}
    first, second, third = (seen["at"] for seen in server.seen()["requests"])
    # Half a second, then a second, each up to a quarter shorter.
    assert second - first > 0.37 and third - second > 0.74


@pytest.mark.parametrize(
    ("step", "changes", "told", "tries"),
    [
        ({"status": 503}, {"retries": 1}, "status 503", 2),
        ({"status": 429, "headers": {"retry-after": "3600"}}, {"retries": 3}, "status 429", 1),
        ({"status": 401}, {"retries": 3}, "status 401", 1),
        ({"hang": True}, {"timeout": 0.2, "retries": 1}, "not answer in time", 2),
        ({"body": "<html>"}, {}, "no chat completion", 1),
        ({"body": "{}"}, {}, "no choices", 1),
        ({"body": '{"choices": []}'}, {}, "no choices", 1),
        ({"body": "[1]"}, {}, "no choices", 1),
    ],
)
def test_the_last_failure_is_one_sentence(
    server: Server, step: dict[str, Json], changes: dict[str, Json], told: str, tries: int
) -> None:
    server.plan(step)
    with pytest.raises(BackendFailure, match=told) as failure:
        server.backend(**changes).fill(request())
    assert not isinstance(failure.value, Unreadable)
    assert len(server.bodies()) == tries and len(str(failure.value)) < 300


def test_a_silent_server_is_left_after_the_time_out(server: Server) -> None:
    server.plan({"hang": True}, {"text": RAIN})
    assert server.backend(timeout=0.2, retries=1).fill(request()) == {"sky": "rain"}
    first, second = (seen["at"] for seen in server.seen()["requests"])
    assert 0.2 <= second - first < 15.0  # without the setting the client waits for ten minutes


def test_a_server_that_is_down_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(BackendFailure, match="Connection error"):
        Server(port).backend().fill(request())


@pytest.mark.parametrize(
    "step",
    [
        {"text": "It rains."},
        {"text": ""},
        {"text": None},
        {"text": '{"sky": NaN}'},
        {"text": '{"sky": 1e999}'},
        {"text": '{"sky": "\\ud800"}'},
        {"text": RAIN, "finish": "length"},
        {"text": "[" * 100_000},
        {"text": "9" * 5000},
    ],
)
def test_a_text_that_is_no_json_value_is_unreadable(server: Server, step: dict[str, Json]) -> None:
    server.plan(step)
    with pytest.raises(Unreadable):
        server.backend().fill(request())


def test_the_concurrency_limit_is_shared_by_threads(server: Server) -> None:
    server.plan({"together": 3, "text": RAIN})
    with ThreadPoolExecutor(12) as pool:
        backends = [server.backend(concurrency=3) for _ in range(24)]
        answers = list(pool.map(lambda numbered: numbered[1].fill(request(seed=numbered[0])), enumerate(backends)))
    assert answers == [{"sky": "rain"}] * 24
    assert server.seen()["at_once"] == 3 and len(server.bodies()) == 24


TOOLS = load_tools(
    [
        {
            "name": "forecast",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            "output": STRICT,
        }
    ],
    "test",
)


def test_a_session_repairs_what_the_server_gets_wrong(server: Server) -> None:
    server.plan({"text": "It rains."}, {"text": '{"sky": 5}'}, {"text": RAIN})
    session = Session(TOOLS, {}, server.params(), "s")
    attempt = session.call("forecast", {"city": "Oslo"})
    assert attempt.error is None and attempt.result == {"sky": "rain"} and not session.failed
    prompts = [body["messages"][1]["content"] for body in server.bodies()]
    assert "refused" not in prompts[0]
    assert "not one JSON value" in prompts[1] and "sky must be of type string, not integer" in prompts[2]


@pytest.mark.parametrize(("step", "tries"), [({"status": 500}, 1), ({"text": '{"sky": 5}'}, 4), ({"text": "It rains."}, 4)])
def test_a_session_without_an_answer_is_marked_and_goes_on(server: Server, step: dict[str, Json], tries: int) -> None:
    server.plan(step)
    session = Session(TOOLS, {}, server.params(), "s")
    attempt = session.call("forecast", {"city": "Oslo"})
    assert attempt.error is CallError.SIMULATOR_FAILURE and session.failed
    assert len(server.bodies()) == tries
    server.plan({"text": RAIN})
    assert json.loads(json.dumps(session.call("forecast", {"city": "Oslo"}).result)) == {"sky": "rain"}
