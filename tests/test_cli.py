"""The command line: a subcommand per stage, quick help, and one sentence for each of a user's mistakes."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer
import yaml
from samples import STATE, TOOL

from slca import cli, tables
from slca.params import of_profile, to_yaml
from slca.records import FinishReason, Rollout, Task, TaskKind
from slca.sgls import stage as schemas_stage
from slca.sgls.catalog_loader import load_catalog
from slca.sgls.tool import Tool, load_tool

ROOT = Path(__file__).parents[1]

# Help


def dvc_stages() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"])


def test_there_is_a_subcommand_for_every_stage_under_the_stage_s_name() -> None:
    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    stages = {"evaluate" if name == "evaluate_warmstart" else name for name in dvc_stages()}
    assert stages <= commands.keys()
    assert all(command.help for command in commands.values())
    for name, body in dvc_stages().items():
        assert body["cmd"].startswith(f"python -m slca {name.removesuffix('_warmstart')}"), name


def test_help_lists_them_and_loads_neither_torch_nor_prefect() -> None:
    program = (
        "import sys\nfrom slca.cli import main\nsys.argv = ['slca', '--help']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    code = end.code\n"
        "print(code, sorted({'torch', 'transformers', 'prefect', 'pyarrow'} & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == "0 []\n"
    assert all(name.removesuffix("_warmstart") in done.stdout for name in dvc_stages())


# Mistakes


@dataclass
class Project:
    """A directory to run commands in."""

    root: Path
    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def __post_init__(self) -> None:
        self.patch.chdir(self.root)
        self.params()

    def params(self, **sections: dict[str, Any]) -> None:
        values = yaml.safe_load(to_yaml(of_profile("default"))) | {"execution": {"processes": 1}}
        (self.root / "params.yaml").write_text(json.dumps(values | sections))

    def files(self) -> dict[str, bytes]:
        """Everything outside of the work folders, which hold partial results by design."""
        files = (path for path in self.root.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in files if ".slca" not in path.parts}

    def mistake(self, *arguments: str, exit_code: int = 2) -> str:
        """The one sentence on stderr. Any exception but the exit would be a traceback, and fails the test."""
        before = self.files()
        self.patch.setattr(sys, "argv", ["slca", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = self.capture.readouterr()
        assert end.value.code == exit_code
        assert out == "" and err.startswith("slca: ") and err.endswith(".\n") and err.count("\n") == 1, err
        assert self.files() == before
        return err.removeprefix("slca: ").removesuffix("\n")


@pytest.fixture
def project(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(tmp_path, capfd, monkeypatch)


def test_a_mistake_seen_from_outside(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("train: [")
    command = [sys.executable, "-m", "slca", "schemas"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("slca: params.yaml is not valid YAML") and done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["params.yaml"]


STAGES = ["schemas", "tasks", "base", "warmstart", "rollouts", "rewards", "report"]


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_refuses_broken_parameters(stage: str, project: Project) -> None:
    project.params(train={"steps": "many"})
    assert "params.yaml: train.steps" in project.mistake(stage)
    assert "elsewhere.yaml does not exist" in project.mistake(stage, "--params", "elsewhere.yaml")


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["tasks"], "data/schemas.parquet does not exist; run the stage 'schemas'"),
        (["warmstart"], "data/tasks/train.parquet does not exist"),
        (["rollouts"], "models/warmstart does not exist"),
        (["rewards"], "data/rollouts"),
        (["train", "--method", "slca", "--seed", "0"], "models/warmstart does not exist"),
        (
            ["train", "--method", "slca", "--seed", "99"],
            "models/warmstart does not exist",
        ),  # seeds are free
        (["evaluate", "--method", "warmstart"], "models/warmstart"),
        (["evaluate", "--method", "slca", "--seed", "7"], "models/slca-7"),
        (["report"], ""),
    ],
)
def test_a_missing_input_is_named(arguments: list[str], missing: str, project: Project) -> None:
    assert missing in project.mistake(*arguments)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ([], "either --method, for a run of the pipeline, or --checkpoint"),
        (["--method", "slca", "--checkpoint", "slca-0"], "either --method, for a run of the pipeline, or --checkpoint"),
        (["--method", "slca", "--seed", "0", "--set", "evaluate.tasks=1"], "--set go with --checkpoint"),
        (["--checkpoint", "slca-0", "--seed", "0"], "--seed goes with --method"),
        (["--checkpoint", "slca-0", "--set", "evaluate.tasks"], "SECTION.FIELD=VALUE"),
        (["--checkpoint", "slca-0", "--set", "evaluate.tasks=[1"], "--set 'evaluate.tasks=[1'"),
        (["--checkpoint", "slca-0", "--set", "evaluate.tasks=many"], "--set: evaluate.tasks"),
        (["--checkpoint", "slca-0", "--set", "evaluation.tasks=1"], "there is no such parameter"),
        (["--checkpoint", "slca-0"], "neither a folder of that name nor models/slca-0 exists"),
        (["--checkpoint", ".", "--output", "elsewhere"], "There is no checkpoint ."),
    ],
)
def test_an_evaluation_takes_a_run_or_a_checkpoint_with_its_settings(arguments: list[str], fault: str, project: Project) -> None:
    assert fault in project.mistake("evaluate", *arguments)


def test_the_scores_of_a_checkpoint_stay_out_of_the_pipeline_s_folders(project: Project) -> None:
    Path("models/slca-0").mkdir(parents=True)
    for output in ("models", "reports/evaluation", "elsewhere/../data/evaluation"):
        assert "which the pipeline's stages own" in project.mistake("evaluate", "--checkpoint", "slca-0", "--output", output)


def test_an_unknown_method_is_named_with_the_known_ones(project: Project) -> None:
    sentence = project.mistake("train", "--method", "nonsense", "--seed", "0")
    assert "'nonsense'" in sentence and "train.methods" in sentence and "slca" in sentence


def test_an_unknown_profile_is_named_with_the_known_ones(project: Project) -> None:
    for arguments in (["profile", "nonsense"], ["profile", "nonsense", "--write"]):
        assert project.mistake(*arguments) == "There is no profile 'nonsense'; the profiles are: default, qwen7b, smoke, smollm2."


def test_an_unknown_domain_is_named(project: Project) -> None:
    project.params(schemas={"domains": ["toys"]})
    assert "schemas.domains" in project.mistake("schemas")


@pytest.mark.parametrize(
    ("tools", "fault"),
    [
        ([{"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "strang"}}}}], "not a valid JSON Schema"),
        ([{"name": "f", "parameters": {"type": "object"}}] * 2, "tool name 'f' occurs twice"),
        ([{"name": "1 f", "parameters": {"type": "object"}}], "'1 f'"),
    ],
)
def test_a_bad_catalog_is_refused(tools: list[dict[str, Any]], fault: str, project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "catalog"
    folder.mkdir()
    (folder / "toys.yaml").write_text(yaml.safe_dump({"domain": "toys", "tools": tools}))
    project.patch.setattr(schemas_stage, "load_catalog", partial(load_catalog, folder=folder))
    sentence = project.mistake("schemas")
    assert fault in sentence and "toys.yaml" in sentence


def stored_schema(path: Path) -> None:
    schema = {"type": "object", "properties": {"x": {"type": 3}}}
    tables.write_tools(path, [Tool.model_construct(name="f", parameters=schema, domain="toys", source="test")])


def stored_twice(path: Path) -> None:
    tables.write_tools(path, [load_tool(TOOL, "test")])
    table = pq.read_table(path)
    pq.write_table(table.take([0, 0]), path)


def truncated(path: Path) -> None:
    tables.write_tools(path, [load_tool(TOOL, "test")])
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (stored_schema, "tool 'f': parameters is not a valid JSON Schema"),
        (stored_twice, "get_weather"),
        (truncated, "cannot be read as Parquet"),
    ],
)
def test_a_bad_table_of_tools_is_refused(make: Callable[[Path], None], fault: str, project: Project) -> None:
    make(Path("data/schemas.parquet"))
    sentence = project.mistake("tasks")
    assert fault in sentence and "data/schemas.parquet" in sentence


TASK = Task("t", TaskKind.SINGLE, "?", (TOOL,), (), (), "No.", STATE, "")
ROLLOUT = Rollout("t/0", "t", 0, "v", (), (), (), (), (), FinishReason.STOP, "")


def test_a_truncated_table_of_rollouts_is_refused(project: Project) -> None:
    tables.write_tasks(Path("data/tasks/train.parquet"), [TASK])
    part = Path("data/rollouts/part-00000.parquet")
    tables.write_rollouts(part, [ROLLOUT])
    part.write_bytes(part.read_bytes()[:200])
    assert "part-00000.parquet cannot be read as Parquet" in project.mistake("rewards")


def test_a_model_that_cannot_be_loaded_is_refused(project: Project) -> None:
    project.params(rollouts={"tasks": 1, "shard_tasks": 1})
    tables.write_tasks(Path("data/tasks/train.parquet"), [TASK])
    folder = Path("models/warmstart")
    folder.mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / name).write_text("{")
    assert "models/warmstart does not hold a model that can be loaded" in project.mistake("rollouts")


def test_a_run_that_stopped_itself_has_an_exit_code_of_its_own(project: Project) -> None:
    tables.write_tasks(Path("data/tasks/train.parquet"), [TASK])
    tables.write_rollouts(Path("data/rollouts/part-00000.parquet"), [replace(ROLLOUT, simulator_failure=True)])
    assert "max_unscorable" in project.mistake("rewards", exit_code=3)


def test_a_profile_is_printed_or_put_in_place(project: Project) -> None:
    for arguments in ([], ["--write"]):
        project.patch.setattr(sys, "argv", ["slca", "profile", "smoke", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code
    assert project.capture.readouterr().out == Path("params.yaml").read_text() == to_yaml(of_profile("smoke"))
