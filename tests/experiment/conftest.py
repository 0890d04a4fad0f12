"""Parameters and inputs of an experiment that is small enough for a test."""

from pathlib import Path

import pytest

from slca import params as p


@pytest.fixture(scope="session")
def smoke_params() -> p.Params:
    """Small enough for a test, on one core."""
    chosen = p.of_profile("smoke")
    return p.changed(
        chosen,
        {
            "tasks": {"train": 48, "test": 12, "unseen_tools": 6},
            "rollouts": {"tasks": 4},
            "warmstart": {"hidden_size": 32, "demonstrations": 48},
            "report": {"bootstrap": 50},
            "execution": {"processes": 1},
        },
        "test",
    )


@pytest.fixture(scope="session")
def pipeline(smoke_params: p.Params, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the inputs of an experiment, made by the stages. Read only."""
    from slca.policy.warmstart import run as warmstart
    from slca.sgls.stage import run as schemas
    from slca.tasks.stage import run as tasks

    root = tmp_path_factory.mktemp("experiment") / "pipeline"
    for stage in (schemas, tasks, warmstart):
        stage(smoke_params, root)
    (root / "params.yaml").write_text(p.to_yaml(smoke_params))
    return root
