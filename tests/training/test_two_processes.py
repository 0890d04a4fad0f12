"""Groups that span processes: two real processes (accelerate launch, gloo) credit as one process does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slca.policy.model import Policy

HERE = Path(__file__).parent


@pytest.mark.slow
def test_a_group_that_spans_two_processes_gets_the_advantages_of_one_process(policy: Policy, tmp_path: Path) -> None:
    policy.model.save_pretrained(tmp_path / "model")
    policy.format.tokenizer.save_pretrained(tmp_path / "model")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "PYTHONPATH": str(HERE.parents[1])}
    script = str(HERE / "made_up.py")
    # Groups of four rollouts; each of the two processes holds two of every group.
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
    launch += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0", script]
    commands = {"one": [sys.executable, script], "two": launch}
    for name, per_device in (("one", "4"), ("two", "2")):
        arguments = [*commands[name], str(tmp_path / "model"), str(tmp_path / name), per_device, "4", "3"]
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
    (alone,) = (json.loads(file.read_text()) for file in (tmp_path / "one").glob("process-*.json"))
    parts = [json.loads(file.read_text()) for file in sorted((tmp_path / "two").glob("process-*.json"))]
    assert [part["processes"] for part in parts] == [2, 2] and alone["processes"] == 1
    assert not parts[0]["advantages"].keys() & parts[1]["advantages"].keys()
    assert parts[0]["advantages"] | parts[1]["advantages"] == alone["advantages"]
    assert len(alone["advantages"]) == 12 and any(any(row) for row in alone["advantages"].values())
    # The weights agree up to the order in which gradients are summed.
    assert parts[0]["norm"] == parts[1]["norm"] == pytest.approx(alone["norm"], rel=1e-6)
