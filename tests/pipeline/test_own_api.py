"""A user trains on their own API by naming its file: an OpenAPI document, from schemas to rewards."""

import shutil
from pathlib import Path

import pytest
from scratch import ROOT, Repository, stages_run

from slca.tables import read_rewards, read_rollouts, read_tasks

pytestmark = pytest.mark.slow


def test_an_openapi_document_is_all_it_takes(tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "own", "smoke")
    document = repository.path / "petstore.yaml"
    shutil.copy(ROOT / "tests" / "sgls" / "documents" / "petstore.yaml", document)
    repository.set_parameter("schemas", "imports", "petstore.yaml")
    repository.set_parameter("schemas", "domains", [])
    repository.dvc("repro", "rewards")
    tasks = read_tasks(repository.path / "data" / "tasks" / "train.parquet")
    names = {tool["name"] for task in tasks for tool in task.tools}
    assert {"getPet", "createVisit"} <= names and {call.name for task in tasks for step in task.gold for call in step} <= names
    assert any(task.state.get("pet") for task in tasks)
    rollouts = list(read_rollouts(repository.path / "data" / "rollouts"))
    rewards = read_rewards(repository.path / "data" / "rewards.parquet")
    assert {reward.rollout_id for reward in rewards} == {rollout.rollout_id for rollout in rollouts}
    assert not any(reward.masked for reward in rewards)
    # The document is a dependency: a change of it, and nothing else, makes the schemas stale.
    assert stages_run(repository.dvc("repro", "rewards")) == []
    document.write_text(document.read_text(encoding="utf-8").replace("Read one pet.", "Read a pet."), encoding="utf-8")
    assert stages_run(repository.dvc("repro", "--dry", "schemas")) == ["schemas"]
