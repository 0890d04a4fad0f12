"""``slca simulate`` as a user types it: every command in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from slca.sgls.catalog_loader import load_service

ROOT = Path(__file__).parents[2]
PETS = ROOT / "tests" / "sgls" / "documents" / "petstore.yaml"
SLCA = (sys.executable, "-m", "slca", "simulate")


def simulate(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    command = [*SLCA, *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=120)


def mistake(*arguments: object) -> str:
    done = simulate(*arguments)
    assert done.returncode == 2 and done.stdout == "" and "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_an_import_is_a_file_to_read_edit_and_call(tmp_path: Path) -> None:
    service = tmp_path / "pets.yaml"
    done = simulate("import", PETS, "-o", service)
    assert done.returncode == 0, done.stderr
    assert "search listPets" in done.stderr and "10 tools" in done.stderr
    assert {tool.domain for tool in load_service(service)} == {"pets"}
    service.write_text(service.read_text().replace("description: Read one pet.", "description: Shows a pet."), encoding="utf-8")
    assert {tool.description for tool in load_service(service)} >= {"Shows a pet."}
    first = json.loads(simulate("call", "--from", service, "listPets").stdout)
    pet = first["pets"][0]
    assert first["total"] == 3
    assert json.loads(simulate("call", "--from", service, "getPet", json.dumps({"petId": pet["id"]})).stdout) == pet
    refused = simulate("call", "--from", service, "getPet", '{"petId": 1}')
    assert refused.returncode == 0 and json.loads(refused.stdout)["error"]["type"] == "not_found"
    assert json.loads(simulate("call", "--from", service, "--records", "0", "listPets").stdout) == {"pets": [], "total": 0}


def test_what_is_left_out_of_an_import_is_told_with_its_place(tmp_path: Path) -> None:
    tools = [{"name": "whole", "parameters": {"type": "object"}}, {"name": "broken", "parameters": {"type": "nothing"}}]
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    done = simulate("import", tmp_path / "tools.json", "-o", tmp_path / "out.yaml")
    assert done.returncode == 0 and re.search(r"not imported: #/1 \(broken\)", done.stderr)
    # A place and its reason stay on one line, to be searched and copied, however narrow the terminal.
    assert "not imported: #/1 (broken): parameters is not a valid JSON Schema" in done.stderr
    (tmp_path / "bad.json").write_text(json.dumps(tools[1:]))
    assert "nothing was imported. #/0 (broken)" in mistake("import", tmp_path / "bad.json", "-o", tmp_path / "no.yaml")
    assert not (tmp_path / "no.yaml").exists()


def test_a_report_is_printed_and_written(tmp_path: Path) -> None:
    done = simulate("report", "--from", PETS, "--calls", "2", "-o", tmp_path / "fidelity", "--set", "seed=3")
    assert done.returncode == 0, done.stderr
    assert re.search(r"answers valid under their schema\s+│ 100.0 %", done.stdout)
    assert json.loads((tmp_path / "fidelity" / "fidelity.json").read_text())["seed"] == 3


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("call", "--from", "nowhere.yaml", "x"), "There is no file 'nowhere.yaml'"),
        (("call", "--from", PETS, "getPet", "{"), "The arguments are not JSON"),
        (("call", "--from", PETS, "getPet", "--set", "seed"), "--set 'seed': write NAME=VALUE"),
        (("call", "--from", PETS, "getPet", "--set", "sed=1"), "--set sed:"),
        (("call", "--from", PETS, "getPet", "--set", "fault_rate=2"), "--set fault_rate:"),
        (("serve", "--from", PETS, "--limit", "depth=x"), "--limit depth:"),
        (("import", PETS, "-o", "x.yaml", "--kind", "soap"), "no kind of source 'soap'"),
        (("cache", "list", "no-folder"), "no-folder is no folder"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: tuple[object, ...], fault: str) -> None:
    assert fault in mistake(*arguments)


def test_the_cache_is_listed_verified_and_pruned(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    weather = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
    (tmp_path / "tools.json").write_text(json.dumps([weather]))
    asked = ("call", "--from", tmp_path / "tools.json", "weather", '{"city": "Oslo"}', "--set", f"cache_folder={folder}")
    first = simulate(*asked)
    assert first.returncode == 0, first.stderr
    assert simulate(*asked, "--set", "cache=replay").stdout == first.stdout
    listed = simulate("cache", "list", folder).stdout
    assert re.search(r"weather\s+│ schema", listed) and "1 entries" in listed
    assert simulate("cache", "verify", folder).stdout == "1 entries, none damaged\n"
    (entry,) = folder.glob("*/*.json")
    entry.write_text(entry.read_text()[:-10])
    assert "1 entries are damaged" in mistake("cache", "verify", folder)
    assert simulate("cache", "prune", folder).stdout.startswith("removed 1 entries")
    assert "simulator.cache is replay" in mistake(*asked, "--set", "cache=replay")


def test_a_served_document_answers_on_its_own_routes_until_it_is_stopped() -> None:
    command = [*SLCA, "serve", "--from", str(PETS), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}) as server:
        assert server.stderr is not None
        line = server.stderr.readline()
        found = re.search(r"serving 10 tools at (http://127\.0\.0\.1:[0-9]+)", line)
        assert found, line
        with urllib.request.urlopen(f"{found[1]}/pets", timeout=10) as answer:
            pets = json.load(answer)
        assert pets["total"] == 3
        with urllib.request.urlopen(f"{found[1]}/pets/{pets['pets'][0]['id']}", timeout=10) as answer:
            assert json.load(answer) == pets["pets"][0]
        with pytest.raises(urllib.error.HTTPError) as missing:
            urllib.request.urlopen(f"{found[1]}/pets/1", timeout=10)
        assert missing.value.code == 404
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
