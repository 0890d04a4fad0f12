import pytest

from slca.tasks.phrasing import Book, load_book


@pytest.fixture(scope="session")
def book() -> Book:
    return load_book()
