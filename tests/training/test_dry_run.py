"""`slca train --dry-run`: the 7B numbers by hand, a small model through the same path, one list of what is missing."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch
from tiny_run import RUN, make
from transformers import AutoModelForCausalLM, Qwen2Config

from slca import params as p
from slca.errors import ParamsError
from slca.files import write_json, write_text
from slca.training import budget, stage
from slca.training.batches import Batches
from slca.training.budget import GIB, Shape
from slca.training.dry_run import QWEN2_5_7B, dry_run
from slca.training.missing import missing_pieces

SEVEN = p.of_profile("qwen7b")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    make(root)
    return root


@pytest.fixture(scope="module")
def shape() -> Shape:
    config = Qwen2Config(**QWEN2_5_7B)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return Shape.of(config, sum(parameter.numel() for parameter in model.parameters()))


def named(items: list[budget.Item]) -> dict[str, float]:
    return {item.name: item.value for item in items}


def test_the_shape_of_7b_has_the_parameters_that_its_layers_add_up_to(shape: Shape) -> None:
    attention = 2 * 3584 * 3584 + 3584 + 2 * (3584 * 512 + 512)
    layer = attention + 3 * 3584 * 18944 + 2 * 3584
    assert shape.parameters == 2 * 152064 * 3584 + 28 * layer + 3584 == 7_615_616_512
    assert (shape.head, shape.key_value_heads, shape.positions) == (128, 4, 32768)


def test_memory_of_a_device_under_the_published_protocol(shape: Shape) -> None:
    figures = budget.assumed({})
    items = named(budget.memory(shape, SEVEN, Batches.of(SEVEN, 8), True, 0.0, figures))
    assert items["weights, fp32"] == pytest.approx(7_615_616_512 * 4 / 8 / GIB)  # 3.55
    assert items["AdamW's two moments, fp32"] == 2 * items["weights, fp32"]
    assert items["reference model, fp32"] == items["gradients, fp32"] == items["weights, fp32"]
    assert items["logits and their gradient"] == pytest.approx(8192 * 152064 * 2 * 2 / GIB)  # 4.64
    assert items["distributions"] == pytest.approx(1024 * 152064 * 4 * 4 / GIB)  # a piece at a time, 2.32
    whole = 32768 * (8 * 3584 + 2 * 4 * 128 + 3 * 18944) * 2
    assert items["activations"] == pytest.approx((whole + 28 * 32768 * 3584 * 2) / GIB)
    assert items["together"] == pytest.approx(sum(value for name, value in items.items() if name != "together"))
    alone = named(budget.memory(shape, SEVEN, Batches.of(SEVEN, 8), False, 0.0, figures))
    assert alone["weights, fp32"] == 8 * items["weights, fp32"]
    stored = p.changed(SEVEN, {"train": {"gradient_checkpointing": False}}, "t")
    kept = named(budget.memory(shape, stored, Batches.of(SEVEN, 8), True, 0.0, figures))
    assert kept["activations"] == pytest.approx(28 * whole / GIB)
    # vLLM beside it: 40 GiB of 80, less 2 bytes per weight, over 2 * 28 * 4 * 128 * 2 = 57,344 bytes of keys and values.
    assert budget.cache_tokens(shape, 0.5, figures).value == pytest.approx((40 * GIB - 2 * 7_615_616_512) / 57344)


def test_work_of_the_published_protocol_with_given_figures(shape: Shape) -> None:
    given = {"prompt_tokens": 1000.0, "response_tokens": 500.0, "sampled_share": 0.5, "sampled_per_second": 1000.0, "calls": 2.0}
    figures = budget.assumed({**given, "simulator_seconds": 3.0, "device_tflops": 1000.0, "utilisation": 0.5})
    items = named(budget.work(shape, SEVEN, Batches.of(SEVEN, 8), False, figures))
    rollouts = 248 * 2048
    assert (items["rollouts"], items["optimizer steps"]) == (rollouts, 992)
    assert items["tokens"] == rollouts * 1500
    assert items["hours of sampling"] == pytest.approx(rollouts * 250 / 8000 / 3600)
    assert items["hours of simulating"] == pytest.approx(rollouts * 2 * 3 / 256 / 3600)
    # 8 with checkpointing, 2 for the log-probs before four updates, 2 for the reference.
    operations = rollouts * 1500 * 12 * (7_615_616_512 + 28 * 3584 * 1500)
    assert items["hours of learning"] == pytest.approx(operations / (8 * 0.5e15) / 3600)
    assert figures["device_tflops"].source == "given with --assume"
    assert figures["judge_seconds"].source.startswith("assumption")


def test_a_figure_that_is_not_known_is_refused() -> None:
    with pytest.raises(ParamsError, match="--assume speed: there is no such figure"):
        budget.assumed({"speed": 1.0})
    with pytest.raises(ParamsError, match="above 0"):
        budget.assumed({"calls": 0.0})


@pytest.mark.slow
def test_a_small_qwen_is_resolved_and_then_trains_as_it_was_resolved(project: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(project, tmp_path / "project"))
    params = p.changed(RUN, {"train": {"steps": 1, "mini_batch": 2, "kl": 0.01}}, "test")
    files = sorted(root.rglob("*"))
    found = dry_run(params, "slca", 0, {}, root)
    assert sorted(root.rglob("*")) == files, "a dry run writes nothing"
    assert not found.missing, found.missing
    assert found.model["architecture"] == "Qwen2ForCausalLM" and found.model["layers"] == 2
    assert found.rehearsal["chat_format"] == "hermes" and not found.rehearsal["made_up"]
    assert (found.rehearsal["tasks"], found.rehearsal["optimizer_steps"]) == (6, 2)
    assert found.figures["prompt_tokens"].source == "measured: mean of 6 of the tasks"
    json.dumps(found.to_json(), allow_nan=False)
    trainer = stage.build(params, stage.Run("slca", 0), root, tmp_path / "work")
    assert found.config == {name: trainer.args.to_dict()[name] for name in found.config}
    assert found.model["parameters"] == trainer.model.num_parameters()
    stage.run(params, "slca", 0, root)
    curve = (root / "data/training/slca-0/curve.csv").read_text().splitlines()
    assert len(curve) == 2
    assert dict(zip(curve[0].split(","), curve[1].split(","), strict=True))["rollouts"] == str(found.batches.rollouts)


@pytest.mark.slow
def test_everything_that_is_missing_is_in_one_list_and_the_status_says_so(tmp_path: Path) -> None:
    write_text(tmp_path / "params.yaml", p.to_yaml(SEVEN))
    write_json(tmp_path / "models/warmstart/config.json", {"model_type": "qwen2", **QWEN2_5_7B})
    command = [sys.executable, "-m", "slca", "train", "--method", "slca", "--seed", "0", "--dry-run", "--json"]
    done = subprocess.run([*command, "--assume", "calls=5"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2, done.stderr
    found = json.loads(done.stdout)
    assert found["model"]["parameters"] == 7_615_616_512 and found["figures"]["calls"]["value"] == 5
    assert found["config"]["max_steps"] == 992 and found["rehearsal"]["optimizer_steps"] == 4
    told = "\n".join(piece["what"] for piece in found["missing"])
    wanted = [
        "models/warmstart (tokenizer.json, model.safetensors)",
        "data/released/rl_train.parquet",
        "data/tasks/train.parquet",
    ]
    wanted += ["the server of the simulator", "the server of the judge"]
    assert [part for part in wanted if part not in told] == []
    if not torch.cuda.is_available():
        assert "8 GPUs, where there are none" in told
    assert all(piece["how"] for piece in found["missing"])


class _Models(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"data": [{"id": "served"}]}).encode()
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Models)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


def test_servers_are_asked_for_their_models_and_processes_for_a_shared_cache(project: Path, url: str) -> None:
    def lacking(model: str, **changes: dict[str, Any]) -> list[str]:
        simulator = {"backend": "openai", "base_url": url, "model": model}
        return [piece.what for piece in missing_pieces(p.changed(RUN, {"simulator": simulator, **changes}, "t"), project)]

    assert lacking("served") == []
    assert lacking("other") == [f"model 'other' on the server of the simulator at {url}"]
    launched = {"launcher": "accelerate", "accelerate_config": "two_cpus"}
    assert lacking("served", execution=launched) == ["a cache of the simulator that all processes share"]


def test_a_missing_configuration_of_accelerate_is_a_piece_too(project: Path) -> None:
    params = p.changed(RUN, {"execution": {"launcher": "accelerate", "accelerate_config": "nowhere"}}, "t")
    assert "accelerate's configuration" in [piece.what for piece in dry_run(params, "grpo", 0, {}, project).missing]
