"""The parameters: defaults, profiles, the sentences that refuse, and dvc.yaml's entries against the fields."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from slca.errors import ParamsError
from slca.params import PROFILES, Params, Train, load, of_profile, to_yaml

ROOT = Path(__file__).parents[1]
NAMES = sorted(file.stem for file in PROFILES.glob("*.yaml"))


def refused(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ParamsError) as raised:
        load(path)
    sentence = str(raised.value)
    assert sentence.startswith(f"{path}") and sentence.endswith(".") and "\n" not in sentence
    return sentence


def test_the_committed_file_is_the_default_profile() -> None:
    assert load(ROOT / "params.yaml") == of_profile("default") == Params()
    assert (ROOT / "params.yaml").read_text(encoding="utf-8") == to_yaml(of_profile("default"))


@pytest.mark.parametrize("name", NAMES)
def test_a_written_profile_loads_back(name: str, tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(to_yaml(of_profile(name)), encoding="utf-8")
    assert load(file) == of_profile(name)
    assert load(file).profile == name


@pytest.mark.parametrize("value", [1e-5, 3e-4, 1.25e-7, 2e16, 0.1, 1.0])
def test_floats_are_written_as_numbers_for_every_yaml_reader(value: float, tmp_path: Path) -> None:
    """`1e-5` is text to PyYAML, which DVC's parameters and ours would then disagree on."""
    params = Params(train=Train(learning_rate=value))
    assert yaml.safe_load(to_yaml(params))["train"]["learning_rate"] == value
    file = tmp_path / "params.yaml"
    file.write_text(to_yaml(params), encoding="utf-8")
    assert load(file) == params


def test_a_handwritten_exponent_is_a_number_too(tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    file.write_text("train: {learning_rate: 1e-5}\n", encoding="utf-8")
    assert load(file).train.learning_rate == 1e-5


@pytest.mark.parametrize(
    ("text", "field", "given"),
    [
        ("trian: {steps: 3}", "trian", "no such parameter"),
        ("train: {stepz: 3}", "train.stepz", "3"),
        ("nonsense: 5", "nonsense", "5"),
        ("train: {steps: many}", "train.steps", "'many'"),
        ("train: {steps: 0}", "train.steps", "0"),
        ("train: {steps: 1.5}", "train.steps", "1.5"),
        ("train: {learning_rate: .nan}", "train.learning_rate", "nan"),
        ("train: {learning_rate: .inf}", "train.learning_rate", "inf"),
        ("train: {methods: [slac]}", "train.methods", "'slac'"),
        ("train: 7", "train", "7"),
        ("train:", "train", "None"),
        ("rollouts: {segments: last}", "rollouts.segments", "'last'"),
        ("rewards: {success_threshold: 1.5}", "rewards.success_threshold", "1.5"),
        ("tasks: {kinds: {single: 0.5, poem: 0.5}}", "poem", "'poem'"),
        ("tasks: {kinds: {single: 0.5, chain: 0.4}}", "tasks: kinds", "0.9"),
        ("tasks: {train: 100}", "rollouts.tasks", "128 exceeds tasks.train = 100"),
        ("tasks: {train: 4}\nrollouts: {tasks: 4}", "train.tasks_per_step", "8 exceeds tasks.train = 4"),
        ("train: {seeds: [0, 1, 1]}", "train.seeds", "[0, 1, 1]"),
        ("train: {seeds: []}", "train.seeds", "[]"),
        ("train: {methods: [slca, slca]}", "train.methods", "['slca', 'slca']"),
        ("warmstart: {hidden_size: 30, heads: 4}", "warmstart: hidden_size", "30"),
        ("warmstart: {base: 'pypi:some-model'}", "warmstart: base", "'pypi:some-model' must name one version"),
        ("warmstart: {base: 'pypi:some-model==1.0'}", "warmstart: base_sha256", "names a wheel on PyPI"),
        ("warmstart: {base: models/x, base_sha256: ABC}", "warmstart: base_sha256", "'ABC'"),
        ("warmstart: {lora_rank: 8}", "warmstart: lora_rank", "of no use without a base"),
        ("warmstart: {data: released}", "warmstart: data 'released'", "give both"),
        ("warmstart: {released_path: x.parquet}", "warmstart: data 'released'", "give both"),
        ("train: {share_prompts: true, micro_batch: 3}", "train.share_prompts", "train.micro_batch = 3 must be 0 or a"),
        ("rollouts: {temperature: 0.7}", "rollouts.temperature", "0.7"),
        ("train: {mini_batch: 3}", "train.mini_batch", "3 must divide train.tasks_per_step = 8"),
        ("rewards: {judge: openai}", "judge openai needs", "judge_model and judge_url"),
        ("execution: {launcher: accelerate}", "execution", "accelerate_config"),
        ("tasks: {released_eval: x}", "tasks", "go together"),
    ],
)
def test_a_bad_value_is_refused_with_file_field_and_value(text: str, field: str, given: str, tmp_path: Path) -> None:
    sentence = refused(tmp_path / "params.yaml", text)
    assert field in sentence
    assert given in sentence


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    sentence = refused(tmp_path / "params.yaml", "train: {steps: many}\nrollouts: {seed: x}")
    assert "train.steps" in sentence and "rollouts.seed" in sentence


@pytest.mark.parametrize(
    ("text", "fault"),
    [("train: [", "not valid YAML"), ("a: b: c", "not valid YAML"), ("- train", "list"), ("5", "int"), ("", "NoneType")],
)
def test_a_file_that_holds_no_sections_is_refused(text: str, fault: str, tmp_path: Path) -> None:
    assert fault in refused(tmp_path / "params.yaml", text)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_bytes(b"train: \xff\xfe")
    with pytest.raises(ParamsError, match=r"params\.yaml is not valid YAML"):
        load(tmp_path / "params.yaml")


def test_a_missing_file_and_profile_are_named(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"elsewhere\.yaml does not exist"):
        load(tmp_path / "elsewhere.yaml")
    with pytest.raises(ParamsError, match=r"'qwen'.*default, .*smoke"):
        of_profile("qwen")


def test_parameters_are_frozen() -> None:
    params = Params()
    with pytest.raises(ValidationError):
        params.train.steps = 5  # type: ignore[misc]
    with pytest.raises(ValidationError):
        params.train = Train()  # type: ignore[misc]


def stages() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"])


def entries() -> list[tuple[str, str]]:
    return [(stage, entry) for stage, body in stages().items() for entry in body.get("params", [])]


@pytest.mark.parametrize(("stage", "entry"), entries())
def test_every_parameter_of_dvc_yaml_exists(stage: str, entry: str) -> None:
    value: Any = Params()
    for part in entry.split("."):
        assert isinstance(value, BaseModel) and part in type(value).model_fields, f"{stage}: {entry}"
        value = getattr(value, part)


def test_the_train_stage_depends_on_every_field_that_can_change_its_output() -> None:
    """Not on the matrix itself, which would make all runs stale for a new seed, nor on how often it is saved."""
    listed = {entry for stage, entry in entries() if stage == "train" and entry.startswith("train.")}
    harmless = {"methods", "seeds", "checkpoint_steps"}
    assert listed == {f"train.{field}" for field in Train.model_fields if field not in harmless}
