"""One finished run of the smoke profile for all tests of a session, and copies of it to work on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from scratch import Repository


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The smoke pipeline, run from nothing. For reading only."""
    repository = Repository.create(tmp_path_factory.mktemp("pipeline") / "finished", "smoke")
    repository.dvc("repro")
    return repository


@pytest.fixture
def copy(finished: Repository, tmp_path: Path) -> Iterator[Repository]:
    """A copy of the finished pipeline; whatever still works in it after the test is ended."""
    repository = finished.copy(tmp_path / "copy")
    yield repository
    for process in repository.processes():
        process.kill()
