"""A pretrained base through the command line: base, warm start and three training steps, twice with the same seed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_base import save_base

from slca import params as p
from slca.files import file_digest, write_text
from slca.params import to_yaml

pytestmark = pytest.mark.slow


def slca(root: Path, *arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "slca", *arguments], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def learn(root: Path) -> dict[str, str]:
    """Relative path -> digest of every file that the three stages write."""
    for stage in (["base"], ["warmstart"], ["train", "--method", "slca", "--seed", "0"]):
        slca(root, *stage)
    files = [file for name in ("models", "data/training") for file in sorted((root / name).rglob("*")) if file.is_file()]
    return {file.relative_to(root).as_posix(): file_digest(file) for file in files}


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    base = str(save_base(tmp_path / "given"))
    params = p.Params(
        schemas=p.Schemas(imports="imports"),
        tasks=p.Tasks(train=24, test=8, unseen_tools=8),
        warmstart=p.Warmstart(base=base, demonstrations=16, max_positions=2048, learning_rate=1e-3, threads=1),
        rollouts=p.Rollouts(tasks=8, group_size=4, max_turns=2, max_turn_tokens=24),
        train=p.Train(steps=3, tasks_per_step=2, micro_batch=4, share_prompts=True, seeds=(0,), methods=("slca",)),
        execution=p.Execution(processes=1),
    )
    first, second = tmp_path / "first", tmp_path / "second"
    write_text(first / "params.yaml", to_yaml(params))
    (first / "imports").mkdir()
    slca(first, "schemas")
    slca(first, "tasks")
    shutil.copytree(first, second)
    made = learn(first)
    assert made == learn(second)
    assert made["models/base/model.safetensors"] != made["models/warmstart/model.safetensors"]
    # So small a model earns no reward yet, so credit is 0: that updates repeat is tested by test_running_everything_again.
    assert sum(name.startswith("data/training/slca-0/rollouts/") for name in made) == 3
