"""How often model backends write valid answers at the first try, and how fast: for reading. Run with `make bench`."""

from pathlib import Path

import pytest
import smollm
import torch

from slca import params as p
from slca.chat import ChatFormat
from slca.policy.model import new_model
from slca.records import Json
from slca.sgls import validation
from slca.sgls.backends import BACKENDS, Request, Unreadable
from slca.sgls.catalog_loader import load_catalog
from slca.sgls.tool import Tool

pytestmark = [pytest.mark.slow, pytest.mark.bench]


def _random_model(chat: ChatFormat, folder: Path) -> Path:
    torch.manual_seed(0)
    shape = p.Warmstart(hidden_size=32, layers=2, heads=2, max_positions=8192)
    new_model(shape, len(chat.tokenizer), chat.pad_id, chat.end_id).save_pretrained(folder)
    chat.tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(("model", "tools"), [("random", 60), ("SmolLM2-135M", 6)])
def test_first_tries_on_the_catalogs_output_schemas(benchmark, chat: ChatFormat, tmp_path: Path, model: str, tools: int) -> None:
    """One answer for each of the catalog's tools; the share of valid ones is printed."""
    folder = _random_model(chat, tmp_path) if model == "random" else smollm.model_folder()
    settings = p.Simulator(backend="transformers", model=str(folder), max_tokens=256)
    backend = BACKENDS["transformers"](settings)

    def is_valid(tool: Tool) -> bool:
        output: dict[str, Json] = tool.output or {}
        try:
            value = backend.fill(Request(output, [tool.name, {}], {}, {}, 0, tool.to_json()))
        except Unreadable:
            return False
        return validation.fault(validation.validator(output), value, "result") is None

    catalog = [tool for tool in load_catalog() if tool.output is not None][:tools]
    is_valid(catalog[0])  # loads the model
    valid = benchmark.pedantic(lambda: [is_valid(tool) for tool in catalog], rounds=1)
    benchmark.extra_info |= {"valid at the first try": sum(valid), "of": len(valid)}
    print(f"\n{model}: {sum(valid)} of {len(valid)} answers valid at the first try")
