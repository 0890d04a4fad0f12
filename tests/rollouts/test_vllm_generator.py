"""Generation on vLLM: what is chosen and asked for, here; what comes out, in an environment that has vLLM."""

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import vllm_on_cpu
from trl import GRPOConfig

from slca import params as p
from slca.errors import DataError, MissingDependency, ParamsError
from slca.policy.model import Policy
from slca.rollouts.generator import GENERATORS, context, new_generator
from slca.training.config import vllm_settings

ROOT = Path(__file__).parents[2]
without_vllm = pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")


def test_every_name_of_the_parameter_has_a_generator() -> None:
    assert set(GENERATORS) == set(p.Rollouts.model_fields["generator"].annotation.__args__)  # type: ignore[union-attr]


@without_vllm
@pytest.mark.parametrize("use", [lambda policy, rollouts: new_generator(policy, rollouts, 1.0, 4), lambda _, r: vllm_settings(r)])
def test_without_vllm_the_user_reads_what_to_install(policy: Policy, use: Any) -> None:
    with pytest.raises(MissingDependency, match=r"needs the package vllm.*slca\[vllm\].*make vllm"):
        use(policy, p.Rollouts(generator="vllm"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rollouts": {"generator": "vllm_server"}}, r"needs vllm_url, such as http://127.0.0.1:8000 \(given: ''\)"),
        ({"rollouts": {"generator": "vllm_server", "vllm_url": "localhost:8000"}}, "given: 'localhost:8000'"),
        ({"rollouts": {"generator": "vllm"}, "execution": {"processes": 2}}, "execution.processes = 2 would share one GPU"),
    ],
)
def test_settings_that_cannot_work_are_refused_when_they_are_loaded(changes: Any, message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        p.changed(p.Params(), changes, "test")


@pytest.mark.parametrize(("most", "expected"), [(0, 256), (100, 100), (9999, 256)])
def test_the_context_is_the_smaller_of_model_and_setting(policy: Policy, most: int, expected: int) -> None:
    assert context(policy, p.Rollouts(max_context=most)) == expected


def grpo_config(settings: dict[str, Any]) -> GRPOConfig:
    return GRPOConfig(output_dir="unused", use_cpu=True, bf16=False, report_to=[], **settings)


def test_trl_is_told_of_the_server_that_it_sends_weights_to(monkeypatch: pytest.MonkeyPatch) -> None:
    server = p.Rollouts(generator="vllm_server", vllm_url="http://gpu:8000/v1/")
    monkeypatch.setattr("slca.training.config.needs_vllm", lambda: None)
    with monkeypatch.context() as patch:
        patch.setattr("slca.training.config._needs_gpu", lambda generator: None)
        config = grpo_config(vllm_settings(server))
    assert (config.use_vllm, config.vllm_mode, config.vllm_server_base_url) == (True, "server", "http://gpu:8000")
    # The default, one factor for a whole completion, would mix the segments.
    assert config.vllm_importance_sampling_correction and config.vllm_importance_sampling_mode == "token_truncate"
    assert not grpo_config(vllm_settings(p.Rollouts())).use_vllm
    if not torch.cuda.is_available():
        with pytest.raises(ParamsError, match=r"generator vllm_server: TRL gives vLLM the weights .* on GPUs alone"):
            vllm_settings(server)


def test_trl_is_told_of_the_engine_that_it_starts_in_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("needs_vllm", "_needs_gpu"):
        monkeypatch.setattr(f"slca.training.config.{name}", lambda *_: None)
    inside = p.Rollouts(generator="vllm", vllm_memory=0.4, max_context=8192)
    config = grpo_config(vllm_settings(inside))
    assert (config.use_vllm, config.vllm_mode) == (True, "colocate")
    assert (config.vllm_gpu_memory_utilization, config.vllm_max_model_length, config.vllm_tensor_parallel_size) == (0.4, 8192, 1)
    with pytest.raises(ParamsError, match=r"vllm_tensor_parallel = 2.*set it to 1"):
        vllm_settings(inside.model_copy(update={"vllm_tensor_parallel": 2}))


def test_a_policy_in_memory_alone_cannot_be_given_to_a_new_engine(policy: Policy) -> None:
    from slca.rollouts.vllm_generator import engine_of

    with pytest.raises(DataError, match="Policy tiny lies in no folder"):
        engine_of(policy, p.Rollouts(generator="vllm"))
    engine = SimpleNamespace()
    trained = Policy(policy.model, policy.format, "slca-0@3", vllm=engine)
    assert engine_of(trained, p.Rollouts(generator="vllm")) is engine


@pytest.mark.slow
@pytest.mark.skipif(not vllm_on_cpu.PYTHON.exists(), reason="no .venv-vllm: make vllm, or set SLCA_VLLM_PYTHON")
def test_vllm_for_real() -> None:
    """test_vllm_real.py, in one process, since importing vLLM and starting an engine takes long."""
    command = [
        vllm_on_cpu.PYTHON,
        "-m",
        "pytest",
        "-rP",
        "-p",
        "no:logging",
        "-m",
        "slow or not slow",
        "tests/rollouts/test_vllm_real.py",
    ]
    environment = {**os.environ, **vllm_on_cpu.ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert "skipped" not in done.stdout.splitlines()[-1]
