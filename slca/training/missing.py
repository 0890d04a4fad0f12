"""What a training run needs and does not have: files, packages, devices, servers. All of it at once, and nothing is changed."""

import json
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import torch

from slca import params as p
from slca.errors import SlcaError
from slca.training.launch import read_config
from slca.training.runs import inputs

SHARDING = ("FSDP", "DEEPSPEED")
"""accelerate's ``distributed_type`` where no process holds the whole model."""

_SECONDS = 3.0


@dataclass(frozen=True)
class Missing:
    """what is missing, and how to get it."""

    what: str
    how: str


def missing_pieces(params: p.Params, root: Path) -> list[Missing]:
    return [*_files(params, root), *_packages(params, root), *_devices(params, root), *_servers(params), *_settings(params, root)]


def _files(params: p.Params, root: Path) -> list[Missing]:
    model, tasks = inputs(root)
    found = []
    base = params.warmstart.base
    lacking = [name for name in ("config.json", "tokenizer.json", "model.safetensors") if not (model / name).is_file()]
    if lacking:
        start = f", which starts from {base}" if base else ""
        found.append(Missing(f"{model} ({', '.join(lacking)})", f"run: dvc repro warmstart{start}"))
    if not tasks.is_file():
        splits = [params.tasks.released_train, params.tasks.released_eval]
        lost = [split for split in splits if split and not (root / split).is_file()]
        found += [Missing(split, "download the released Parquet split and put it there") for split in lost]
        found.append(Missing(str(tasks), "run: dvc repro tasks"))
    return found


def _packages(params: p.Params, root: Path) -> list[Missing]:
    needed = {}
    if "openai" in (params.simulator.backend, params.rewards.judge):
        needed["openai"] = "pip install 'slca[openai]'"
    if params.rollouts.generator.startswith("vllm") or params.simulator.backend == "vllm":
        needed["vllm"] = "pip install 'slca[vllm]'"
    if params.execution.launcher == "accelerate" and _distributed(params, root) == "DEEPSPEED":
        needed["deepspeed"] = "pip install deepspeed"
    return [Missing(f"the package {name}", f"run: {how}") for name, how in needed.items() if find_spec(name) is None]


def _devices(params: p.Params, root: Path) -> list[Missing]:
    try:
        config = read_config(params.execution, root) if params.execution.launcher == "accelerate" else {}
    except SlcaError:
        return []  # told elsewhere
    wanted = 0 if config.get("use_cpu") else int(config.get("num_processes", 0))
    wanted = wanted or int(params.rollouts.generator == "vllm_server")
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if there >= wanted:
        return []
    if not torch.cuda.is_available():
        how = f"run on a machine with {wanted}, and a torch that is built for CUDA (here: torch {torch.__version__})"
        return [Missing(f"{wanted} GPUs, where there are none", how)]
    return [
        Missing(
            f"{wanted} GPUs, where there are {there}", "set num_processes in accelerate's configuration, or use a larger machine"
        )
    ]


def _servers(params: p.Params) -> list[Missing]:
    found = []
    if params.simulator.backend == "openai":
        found += _server("simulator", params.simulator.base_url, params.simulator.model)
    if params.rewards.judge == "openai":
        found += _server("judge", params.rewards.judge_url, params.rewards.judge_model)
    url = params.rollouts.vllm_url
    if params.rollouts.generator == "vllm_server":
        found += _server("rollouts", url, "")
    return found


def _server(name: str, url: str, model: str) -> list[Missing]:
    """model: checked where it is given and the server lists its models; the rollouts' server is asked for its health alone."""
    address = f"{url.rstrip('/')}/models" if model else f"{url.rstrip('/').removesuffix('/v1')}/health/"
    how = "start it as slca/profiles/qwen7b.md shows, or name another address"
    request = Request(address, headers={"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY') or 'none'}"})
    try:
        with urlopen(request, timeout=_SECONDS) as response:
            body = response.read()
    except (URLError, OSError, ValueError) as error:
        return [Missing(f"the server of the {name} at {url} ({' '.join(str(error).split())[:120]})", how)]
    try:
        listed = [str(entry["id"]) for entry in json.loads(body)["data"]] if model else []
    except (ValueError, KeyError, TypeError):
        return []  # it is there, and does not say what it serves
    if listed and model not in listed:
        return [Missing(f"model {model!r} on the server of the {name} at {url}", f"it serves {', '.join(listed)[:200]}")]
    return []


def _settings(params: p.Params, root: Path) -> list[Missing]:
    """Parameters that are valid each, and do not go together in several processes."""
    found = []
    generator = params.rollouts.generator
    if params.execution.launcher == "accelerate" and generator == "transformers" and _distributed(params, root) in SHARDING:
        how = "set rollouts.generator to vllm or vllm_server: transformers cannot sample from a model that is sharded"
        found.append(Missing("a generator for a sharded model", how))
    shared = params.simulator.backend == "schema" or params.simulator.cache_folder or params.simulator.cache == "off"
    if params.execution.launcher == "accelerate" and not shared:
        how = "set simulator.cache_folder: processes that share none get different answers to the same call"
        found.append(Missing("a cache of the simulator that all processes share", how))
    return found


def _distributed(params: p.Params, root: Path) -> str:
    try:
        return str(read_config(params.execution, root).get("distributed_type", ""))
    except SlcaError:
        return ""
