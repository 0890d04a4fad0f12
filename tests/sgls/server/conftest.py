"""One server of notes for all tests that change no more than sessions of their own."""

import itertools
from collections.abc import Iterator

import pytest
from serving import Client, Running, notes, serving

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    with serving(notes()) as running:
        yield running


@pytest.fixture
def client(server: Running) -> Iterator[Client]:
    """A client with a session that no other test speaks to."""
    client = server.client(f"test-{next(_NUMBERS)}")
    yield client
    client.close()
