"""Schemathesis, unmodified, on the server's own OpenAPI document: no server error, and everything as the document says."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from serving import notes, serving

from slca.sgls.importers.openapi import from_openapi
from slca.sgls.inference import infer
from slca.sgls.server import Service

DOCUMENTS = Path(__file__).parent.parent / "documents"
NOT_OURS = "ignored_auth,object_level_authorization"
"""The simulator has no accounts."""


def _imported(name: str) -> Service:
    document = yaml.safe_load((DOCUMENTS / f"{name}.yaml").read_text(encoding="utf-8"))
    return Service(tuple(infer(from_openapi(document, name).tools)), title=name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["notes", "petstore", "comments_recursive"])
def test_schemathesis_finds_no_fault(name: str, tmp_path: Path) -> None:
    """All its checks, in all its phases, with few examples each."""
    with serving(notes() if name == "notes" else _imported(name)) as server:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json", "--exclude-checks", NOT_OURS]
        limits = ["--max-examples", "4", "--phases", "examples,coverage,fuzzing,stateful", "--seed", "1", "--no-color"]
        done = subprocess.run([*command, *limits], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
