"""Backend vllm: without vLLM a clear sentence; with it (any environment that holds both) the real model under the schema."""

from importlib.util import find_spec

import jsonschema
import pytest
import smollm

from slca.errors import MissingDependency
from slca.params import Simulator
from slca.sgls.backends import BACKENDS, Request

TOOL = {
    "name": "forecast",
    "description": "Weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "degrees": {"type": "integer", "minimum": -40, "maximum": 50}},
    "required": ["city", "degrees"],
}
# vLLM itself refuses this schema for uniqueItems.
UNIQUE = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 2, "maxItems": 3}


def request(schema: dict[str, object], seed: int) -> Request:
    return Request(schema, ["forecast", {"city": "Łódź"}], {"city": "Łódź"}, {}, seed, TOOL)


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_the_user_reads_what_to_install() -> None:
    with pytest.raises(MissingDependency, match=r"needs the package vllm, .* pip install 'slca\[vllm\]'"):
        BACKENDS["vllm"](Simulator(backend="vllm", model="some-model"))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")
def test_a_real_model_answers_under_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"KVCACHE_SPACE": "1", "OMP_THREADS_BIND": "0-1"}.items():
        monkeypatch.setenv(f"VLLM_CPU_{name}", value)
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    backend = BACKENDS["vllm"](Simulator(backend="vllm", model=str(smollm.model_folder()), max_tokens=60))
    answers = [backend.fill(request(SCHEMA, seed)) for seed in (0, 1, 2, 0)]
    for answer in answers:
        jsonschema.Draft202012Validator(SCHEMA).validate(answer)
    assert answers[0] == answers[3]
    assert any(answer["city"] == "Łódź" for answer in answers)
    assert isinstance(backend.fill(request(UNIQUE, 0)), list)
