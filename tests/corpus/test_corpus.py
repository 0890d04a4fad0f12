"""The bar on documents of installed services, nothing downloaded; ``python -m tests.corpus`` measures the whole corpus."""

from pathlib import Path

import pytest
from corpus.measure import BAR, measured, sources, summary


@pytest.mark.slow
def test_documents_of_installed_services_are_imported_to_the_bar(tmp_path: Path) -> None:
    documents = [measured(source, tmp_path) for source in sources(origins=["installed"])]
    totals = summary(documents)
    assert totals["failed"] == 0
    assert totals["operations"] > 100
    assert totals["share"] >= BAR
    assert all(refused["place"].startswith("#/") for one in documents for refused in one.refused)


def test_the_corpus_names_at_least_fifty_documents_once_each_with_a_pinned_version() -> None:
    listed = sources()
    assert len(listed) == len(set(listed)) >= 50
    assert all(source.version for source in listed if source.origin != "installed")
