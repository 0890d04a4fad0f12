"""Backend transformers: even a model that knows nothing writes under the schema, the same in every process and thread.

The quick tests use a random model of a few thousand weights; the slow one a real language model (tests/smollm.py).
"""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import smollm
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from slca import params as p
from slca.chat import ChatFormat
from slca.errors import ParamsError
from slca.policy.model import new_model
from slca.records import CallError, Json
from slca.sgls.backends import BACKENDS, Backend, BackendFailure, Request, Unreadable
from slca.sgls.backends.transformers_backend import fitted_ids, identity, prompt_ids
from slca.sgls.simulator import Session
from slca.sgls.tool import load_tools

TOOL = {
    "name": "forecast",
    "description": "Weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
FORECAST: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "degrees": {"type": "integer", "minimum": -40, "maximum": 50},
        "days": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sky": {"enum": ["rain", "sun", "東"]}, "wind": {"type": ["string", "null"]}},
                "required": ["sky"],
            },
        },
    },
    "required": ["city", "degrees", "days"],
}
TREE: dict[str, Any] = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["name", "children"],
        }
    },
}


@pytest.fixture(scope="session")
def tiny(chat: ChatFormat, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random model and its byte-level tokenizer."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    torch.manual_seed(0)
    shape = p.Warmstart(hidden_size=32, layers=2, heads=2, max_positions=8192)
    new_model(shape, len(chat.tokenizer), chat.pad_id, chat.end_id).save_pretrained(folder)
    chat.tokenizer.save_pretrained(folder)
    return folder


def params(folder: Path, **changes: Json) -> p.Simulator:
    values = {"model": str(folder), "temperature": 1.0, "max_tokens": 160, **changes}
    return p.Simulator(backend="transformers", **values)


def backend(folder: Path, **changes: Json) -> Backend:
    return BACKENDS["transformers"](params(folder, **changes))


def request(schema: dict[str, Any] = FORECAST, seed: int = 0, city: str = "Łódź", **changes: Json) -> Request:
    return Request(schema, ["forecast", {"city": city}], {"city": city}, {}, seed, TOOL, **changes)


@pytest.mark.parametrize("schema", [FORECAST, TREE, {"type": "string", "format": "date-time"}, {"const": {"a": [1, "x"]}}])
@pytest.mark.parametrize("temperature", [0.0, 1.0, 3.0])
def test_a_random_model_writes_under_the_schema(tiny: Path, schema: dict[str, Any], temperature: float) -> None:
    for seed in range(5):
        value = backend(tiny, temperature=temperature).fill(request(schema, seed))
        jsonschema.Draft202012Validator(schema).validate(value)


def test_a_rambling_answer_is_brought_to_its_end_inside_the_budget(tiny: Path) -> None:
    # Of 314 tokens one ends a string: three strings in a row rarely fit by chance. Greedy, this model repeats one character.
    three = {"type": "array", "items": {"type": "string"}, "minItems": 3}
    for schema in (TREE, three):
        for temperature in (0.0, 1.0):
            writer = backend(tiny, temperature=temperature)
            for seed in range(4):
                jsonschema.Draft202012Validator(schema).validate(writer.fill(request(schema, seed)))


def test_what_cannot_end_inside_the_budget_is_unreadable(tiny: Path) -> None:
    with pytest.raises(Unreadable, match="longer than the 20 tokens"):
        backend(tiny, max_tokens=20).fill(request({"type": "string", "minLength": 500}))


def test_an_answer_of_exactly_the_budget_is_complete(tiny: Path) -> None:
    # Ten digits between quotes are twelve characters; the tokenizer knows no digits that are joined.
    schema = {"type": "string", "pattern": "^[0-9]{10}$"}
    with pytest.raises(Unreadable):
        backend(tiny, max_tokens=11).fill(request(schema))
    assert len(backend(tiny, max_tokens=12).fill(request(schema))) == 10


def test_equal_requests_give_equal_answers_and_other_seeds_subjects_and_repairs_others(tiny: Path) -> None:
    fill = backend(tiny).fill
    first = fill(request())
    assert fill(request()) == first
    others = [request(seed=1), request(city="Oslo"), request(repair=1), request(repair=2)]
    assert len({json.dumps(value) for value in (first, *map(fill, others))}) == 5


def test_greedy_answers_do_not_depend_on_the_seed(tiny: Path) -> None:
    fill = backend(tiny, temperature=0.0).fill
    assert fill(request(seed=1)) == fill(request(seed=2))


def test_the_same_answer_in_another_process_whose_generator_is_elsewhere(tiny: Path) -> None:
    program = (
        "import json, sys, torch\nfrom slca.params import Simulator\nfrom slca.sgls.backends import BACKENDS, Request\n"
        "torch.set_num_threads(1)\ntorch.manual_seed(99)\nparams, asked = json.load(sys.stdin)\n"
        "backend = BACKENDS['transformers'](Simulator(**params))\n"
        "print(json.dumps([backend.fill(Request(**asked)), backend.model, backend.prompt_version]))"
    )
    given_in = json.dumps([params(tiny).model_dump(), vars(request())])
    run = subprocess.run([sys.executable, "-c", program], input=given_in, capture_output=True, text=True, check=True)
    here = backend(tiny)
    assert json.loads(run.stdout) == [here.fill(request()), here.model, here.prompt_version]


def test_torchs_own_generator_is_left_as_it_was(tiny: Path) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    backend(tiny, max_tokens=150).fill(request())  # loads the model, too
    assert torch.equal(torch.get_rng_state(), before)


def test_threads_get_the_answers_that_one_would(tiny: Path) -> None:
    asked = [request(seed=seed) for seed in range(8)]
    shared = backend(tiny, max_tokens=161)  # not loaded yet: the threads meet there, too
    start = threading.Barrier(4)

    def fill(part: int) -> list[Json]:
        start.wait()
        return [shared.fill(one) for one in asked[part::4]]

    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(fill, range(4)))
    assert [parts[n % 4][n // 4] for n in range(8)] == [shared.fill(one) for one in asked]


NAMED: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
AWKWARD: dict[str, dict[str, Any]] = {
    "inheritance": {
        "allOf": [{"$ref": "#/$defs/Base"}, {"properties": {"price": {"type": "number"}}, "required": ["price"]}],
        "$defs": {"Base": NAMED},
    },
    "a note beside a reference": {
        "type": "object",
        "properties": {"owner": {"allOf": [{"$ref": "#/$defs/Base"}], "description": "who"}},
        "required": ["owner"],
        "$defs": {"Base": NAMED},
    },
    "recursion through allOf": {
        "allOf": [NAMED, {"properties": {"parts": {"type": "array", "items": {"$ref": "#"}}}, "required": ["parts"]}],
    },
    "one property in two parts": {
        "allOf": [
            {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}},
            {"properties": {"n": {"type": "number", "maximum": 5}}, "required": ["n"]},
        ]
    },
    "a choice beside properties": {
        **NAMED,
        "anyOf": [{"required": ["id"]}, {"properties": {"key": {"const": 1}}, "required": ["key"]}],
    },
    "draft-07 tuple": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": [{"type": "string"}, {"type": "integer"}],
        "minItems": 2,
    },
    "far and fractional bounds": {
        "type": "array",
        "items": {"type": "integer", "minimum": -(10**30), "exclusiveMaximum": 3.5},
        "minItems": 2,
    },
    "null in the enum of a string": {"type": "string", "enum": ["a", "b", None]},
    "a required property that is not declared": {"type": "object", "properties": {}, "required": ["id"]},
    "keywords beside a reference": {"$ref": "#/$defs/s", "minLength": 3, "$defs": {"s": {"type": "string", "maxLength": 5}}},
}


@pytest.mark.parametrize("shape", AWKWARD)
def test_shapes_that_grammars_lose_are_rewritten_and_kept(tiny: Path, shape: str) -> None:
    schema = AWKWARD[shape]
    compiled = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)(schema)
    for seed in range(6):
        compiled.validate(backend(tiny).fill(request(schema, seed)))


def test_schemas_that_the_grammar_engine_refuses_still_give_json(tiny: Path) -> None:
    for schema in ({"$ref": "#"}, {"$ref": "#/$defs/nowhere"}, {"enum": []}, {"type": "integer", "minimum": 2, "maximum": 1}):
        json.dumps(backend(tiny).fill(request(schema)), allow_nan=False)
    assert isinstance(backend(tiny).fill(request({"type": "object", "properties": {"a": False}})), dict)


def test_chat_markers_are_never_written(tiny: Path, chat: ChatFormat) -> None:
    markers = set(chat.tokenizer.get_added_vocab())
    texts = [backend(tiny, temperature=3.0).fill(request({"type": "string", "minLength": 60}, seed)) for seed in range(20)]
    assert not [text for text in texts for marker in markers if marker in text]


def test_a_prompt_that_leaves_no_room_is_a_failure(tiny: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    for file in tiny.iterdir():
        (small / file.name).write_bytes(file.read_bytes())
    config = json.loads((small / "config.json").read_text())
    (small / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 64}))
    with pytest.raises(BackendFailure, match=r"the shortest prompt has \d+ tokens, but the model takes 64"):
        backend(small).fill(request())
    assert identity(str(small)).split("@")[1] != identity(str(tiny)).split("@")[1]


def test_a_prompt_too_long_for_the_model_is_shortened(chat: ChatFormat) -> None:
    asked = Request({}, ["T", "x" * 9000], {}, {"a": {str(n): {"v": n} for n in range(999)}}, 0)
    whole = fitted_ids(chat.tokenizer, asked, 10**9, 100)
    for positions in (len(whole) + 100, len(whole) // 2 + 600, 2000):
        ids = fitted_ids(chat.tokenizer, asked, positions, 100)
        assert len(ids) + 100 <= positions and (ids == whole) is (positions == len(whole) + 100)
        assert "<request>" in chat.decode(ids) and "characters cut" in chat.decode(ids)
    assert len(fitted_ids(chat.tokenizer, asked, 4000, 10**9)) <= 2000  # half of the positions are the answer's


def test_the_cache_key_names_the_weights_and_not_the_place(tiny: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "tiny"
    moved.mkdir(parents=True)
    for file in tiny.iterdir():
        (moved / file.name).write_bytes(file.read_bytes())
    assert identity(str(moved)) == identity(str(tiny))
    weights = bytearray((moved / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (moved / "model.safetensors").write_bytes(weights)
    assert identity(str(moved)) != identity(str(tiny))
    versions = {backend(tiny, temperature=t, max_tokens=n).prompt_version for t in (0.5, 1.0) for n in (16, 32)}
    assert len(versions) == 4


def test_a_model_that_is_not_there_is_the_users_to_mend(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="there is no folder"):
        backend(tmp_path / "nowhere")
    with pytest.raises(ParamsError, match=r"holds no config\.json"):
        backend(tmp_path)
    for file in tiny.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    for name, content in {"model.safetensors": (tiny / "model.safetensors").read_bytes()[:-9], "config.json": b"{}"}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ParamsError, match="does not load"):
            backend(tmp_path).fill(request())


def test_formats_without_system_messages_or_without_a_chat_format_get_the_same_words(chat: ChatFormat) -> None:
    prompt = [{"role": "system", "content": "Be a service."}, {"role": "user", "content": "Answer."}]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=chat.tokenizer.backend_tokenizer)
    assert tokenizer.decode(prompt_ids(tokenizer, prompt)) == "Be a service.\n\nAnswer.\n\n"
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('none') }}{% endif %}"
        "<{{ m.role }}>{{ m.content }}{% endfor %}"
    )
    assert tokenizer.decode(prompt_ids(tokenizer, prompt)) == "<user>Be a service.\n\nAnswer.\n\n"


leaves = st.one_of(
    st.fixed_dictionaries({"type": st.just("string")}, optional={"maxLength": st.integers(3, 9), "minLength": st.integers(0, 3)}),
    st.tuples(st.integers(-50, 50), st.integers(0, 90)).map(lambda b: {"type": "integer", "minimum": b[0], "maximum": sum(b)}),
    st.integers(-50, 50).map(lambda low: {"type": "number", "minimum": low / 8, "maximum": low / 8 + 2}),
    st.lists(st.sampled_from(["a", 1, None, 2.5, "東京", [1]]), min_size=1, max_size=3).map(lambda values: {"enum": values}),
    st.sampled_from(
        [{"type": "boolean"}, {"type": ["integer", "null"]}, {"type": "string", "format": "date"}, {"$ref": "#/$defs/d"}]
    ),
)
names = st.sampled_from(["city", "price", "user name", "x", "日"])


def nodes(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arrays = st.tuples(inner, st.integers(0, 3)).map(lambda a: {"type": "array", "items": a[0], "maxItems": a[1]})
    objects = st.tuples(st.dictionaries(names, inner, max_size=3), st.sets(names)).map(
        lambda o: {"type": "object", "properties": o[0], "required": sorted(o[1] & o[0].keys())}
    )
    return arrays | objects | st.lists(inner, min_size=1, max_size=2).map(lambda parts: {"anyOf": parts})


schemas = st.recursive(leaves, nodes, max_leaves=5).map(
    lambda schema: {**schema, "$defs": {"d": {"type": "object", "properties": {"next": {"$ref": "#/$defs/d"}}}}}
)


@settings(max_examples=60)
@given(schemas, st.integers(0, 3))
def test_what_leaves_the_simulator_validates(tiny: Path, schema: dict[str, Any], seed: int) -> None:
    session = Session(load_tools([{**TOOL, "output": schema}], "test"), {}, params(tiny, seed=seed), "s")
    attempt = session.call("forecast", {"city": "Oslo"})
    assert attempt.error is None, attempt.result
    jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(attempt.result)


@settings(max_examples=30)
@given(
    schemas,
    st.sampled_from(
        [
            {"not": {"type": "object"}},
            {"multipleOf": 7},
            {"uniqueItems": True, "minItems": 2},
            {"if": {"type": "string"}, "then": {"minLength": 4}},
        ]
    ),
)
def test_beyond_the_grammar_an_answer_validates_or_the_rollout_is_marked(
    tiny: Path, schema: dict[str, Any], more: dict[str, Json]
) -> None:
    schema = {**schema, **more}
    session = Session(load_tools([{**TOOL, "output": schema}], "test"), {}, params(tiny), "s")
    attempt = session.call("forecast", {"city": "Oslo"})
    if attempt.error is None:
        jsonschema.Draft202012Validator(schema).validate(attempt.result)
    else:
        assert attempt.error is CallError.SIMULATOR_FAILURE and session.failed


@pytest.mark.slow
def test_a_real_model_answers_under_the_schema_and_copies_the_request() -> None:
    model = backend(smollm.model_folder(), temperature=0.6, max_tokens=80)
    wanted = {**FORECAST, "properties": {**FORECAST["properties"], "days": {**FORECAST["properties"]["days"], "maxItems": 1}}}
    answers = [model.fill(request(wanted, seed)) for seed in (0, 1, 0)]
    for answer in answers:
        jsonschema.Draft202012Validator(wanted).validate(answer)
    assert answers[0] == answers[2]
    assert any(answer["city"] == "Łódź" for answer in answers)
