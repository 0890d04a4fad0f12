"""``slca train --dry-run``: everything that a training run would do, but for the training.

It builds what the stage builds, through the same functions (``slca.training.stage``: TRL's configuration, batches, chat format,
tasks, trainer) and takes one rehearsal step with them, on a stand-in for the model: the same architecture with two narrow layers.
The stand-in has the run's tokenizer and tasks where they are there, else made-up ones; simulator and judge are the embedded
ones, and groups and turns are short. Nothing is downloaded, and nothing is written in the project.

What is missing for the real run is told in one list, each entry with the way to get it.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, Qwen2Config

from slca import params as p
from slca.chat import ChatFormat, format_of
from slca.credit import METHODS
from slca.errors import ParamsError, SlcaError
from slca.policy.model import new_model, prepare_torch
from slca.policy.tokenizer import train_tokenizer
from slca.records import Call, Task, TaskKind
from slca.tables import read_tasks, write_tasks
from slca.training import budget
from slca.training.batches import Batches
from slca.training.budget import Figure, Item, Shape
from slca.training.config import grpo_config
from slca.training.launch import processes_of, read_config
from slca.training.missing import SHARDING, Missing, missing_pieces
from slca.training.runs import Run, inputs
from slca.training.stage import build

QWEN2_5_7B: dict[str, Any] = {
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
}
"""Shape of Qwen2.5-7B and its Instruct variant, for a dry run before the model is there."""

KNOWN: dict[str, dict[str, Any]] = {"Qwen/Qwen2.5-7B-Instruct": QWEN2_5_7B, "Qwen/Qwen2.5-7B": QWEN2_5_7B}

_MEASURED_PROMPTS = 256
_TASK = Task(
    task_id="made-up-0",
    kind=TaskKind.SINGLE,
    question="What is the weather in Oslo?",
    tools=(
        {
            "name": "get_weather",
            "description": "Weather in a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    ),
    gold=((Call("get_weather", {"city": "Oslo"}),),),
    facts=(),
    reply="It is cold in Oslo.",
    state={},
    end_state="",
)


@dataclass(frozen=True)
class DryRun:
    """What a run would be. rehearsal: the numbers of the step that the stand-in took. figures: what the arithmetic rests on."""

    run: str
    model: dict[str, Any]
    batches: Batches
    config: dict[str, Any]
    memory: list[Item]
    work: list[Item]
    figures: Mapping[str, Figure]
    rehearsal: dict[str, Any]
    missing: list[Missing]

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "model": self.model,
            "batches": asdict(self.batches),
            "config": self.config,
            "memory": [item.to_json() for item in self.memory],
            "work": [item.to_json() for item in self.work],
            "figures": {name: asdict(figure) for name, figure in self.figures.items()},
            "rehearsal": self.rehearsal,
            "missing": [asdict(piece) for piece in self.missing],
        }


def dry_run(params: p.Params, method: str, seed: int, given: Mapping[str, float], root: Path = Path(".")) -> DryRun:
    """Resolve a run. Raises ParamsError where the parameters contradict each other; what is merely not there is listed."""
    prepare_torch(params.execution.threads)
    if method not in METHODS:
        raise ParamsError(f"--method {method!r}: there is no such method; the methods are {', '.join(METHODS)}.")
    run = Run(method, seed)
    pieces = missing_pieces(params, root)
    try:
        processes = processes_of(params, root)
        sharded = read_config(params.execution, root).get("distributed_type") in SHARDING if processes > 1 else False
    except SlcaError as error:
        pieces.append(Missing("accelerate's configuration", str(error)))
        processes, sharded = 1, False
    batches = Batches.of(params, processes)
    with tempfile.TemporaryDirectory(prefix="slca-dry-run-") as folder:
        place = Path(folder)
        settings = grpo_config(_sampling_here(params), seed, place, processes).to_dict()
        config, source, problems = _architecture(params, root)
        chat, tasks, stand_ins = _tokenizer_and_tasks(params, root)
        pieces += [Missing("the model", problem) for problem in problems]
        rehearsal = _rehearse(params, run, place, config, chat, tasks)
    with torch.device("meta"):
        whole = AutoModelForCausalLM.from_config(config)
    shape = Shape.of(config, sum(parameter.numel() for parameter in whole.parameters()))
    figures = budget.assumed(given, _measured(chat, tasks, stand_ins))
    share = _vllm_share(params)
    memory = budget.memory(shape, params, batches, sharded, share, figures)
    if share:
        memory.append(budget.cache_tokens(shape, share, figures))
    work = budget.work(shape, params, batches, params.rollouts.generator == "vllm_server", figures)
    pieces += _too_little(params, root, memory, work, figures)
    return DryRun(
        run=run.name,
        model={"source": source, "architecture": type(whole).__name__, **asdict(shape)},
        batches=batches,
        config={key: settings[key] for key in _SHOWN},
        memory=memory,
        work=work,
        figures=figures,
        rehearsal={"chat_format": chat.name, "made_up": stand_ins, **rehearsal},
        missing=pieces,
    )


def command(params: p.Params, method: str, seed: int, assume: Sequence[str], as_json: bool) -> int:
    """What the command line calls; the exit status: 0 where the run can begin, 2 where something is missing."""
    given = {}
    for pair in assume:
        name, _, text = pair.partition("=")
        try:
            given[name] = float(text)
        except ValueError:
            raise ParamsError(f"--assume {pair!r}: write NAME=NUMBER.") from None
    result = dry_run(params, method, seed, given)
    if as_json:
        sys.stdout.write(json.dumps(result.to_json(), indent=2, ensure_ascii=False) + "\n")
    else:
        show(result)
    return 2 if result.missing else 0


_SHOWN = (
    *("max_steps", "per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation", "num_generations"),
    *("learning_rate", "lr_scheduler_type", "warmup_steps", "weight_decay", "max_grad_norm", "beta", "epsilon", "loss_type"),
    *("entropy_coef", "num_iterations", "temperature", "max_completion_length", "bf16", "gradient_checkpointing", "save_steps"),
)


def show(result: DryRun) -> None:
    """Print it for people."""
    console = Console()
    table = Table("setting", "value", title=f"train {result.run}, dry run")
    model = result.model
    table.add_row("model", f"{model['architecture']}, {model['parameters'] / 1e9:.3f} G parameters ({model['source']})")
    for name in ("layers", "hidden", "intermediate", "heads", "key_value_heads", "head", "vocabulary", "positions"):
        table.add_row(name, str(model[name]))
    for name, value in [*asdict(result.batches).items(), *result.config.items()]:
        table.add_row(name, str(value))
    console.print(table)
    for title, items in (("memory of a device, at the longest rollout", result.memory), ("work", result.work)):
        table = Table("item", "value", "how", title=title)
        for item in items:
            table.add_row(item.name, f"{item.value:,.2f} {item.unit}".strip(), item.how)
        console.print(table)
    table = Table("figure", "value", "source", title="what the arithmetic rests on; --assume NAME=VALUE replaces a figure")
    for name, figure in result.figures.items():
        table.add_row(name, f"{figure.value:g}", figure.source)
    console.print(table)
    console.print("rehearsal on a two-layer stand-in: " + json.dumps(result.rehearsal, ensure_ascii=False), markup=False)
    if result.missing:
        table = Table("missing", "how to get it", title=f"{len(result.missing)} pieces are missing")
        for piece in result.missing:
            table.add_row(piece.what, piece.how)
        console.print(table)
    else:
        console.print("Nothing is missing.")


def _architecture(params: p.Params, root: Path) -> tuple[Any, str, list[str]]:
    """transformers' configuration of the model, where it is from, and why it could not be read, if so."""
    base = params.warmstart.base
    for folder in (inputs(root)[0], root / base if base else root / "-"):
        if (folder / "config.json").is_file():
            return AutoConfig.from_pretrained(folder, local_files_only=True), str(folder), []
    if base in KNOWN:
        return Qwen2Config(**KNOWN[base]), f"known shape of {base}", []
    if base:
        return (
            Qwen2Config(**QWEN2_5_7B),
            "assumption: the shape of Qwen2.5-7B",
            [f"the shape of {base} is not known before it is there"],
        )
    settings = params.warmstart
    with torch.device("meta"):
        model = new_model(settings, settings.vocab_size, 0, 1)
    return model.config, "what warmstart makes", []


def _tokenizer_and_tasks(params: p.Params, root: Path) -> tuple[ChatFormat, list[Task], list[str]]:
    """Those of the run; what is not there yet is made up, and named."""
    made_up = []
    base = params.warmstart.base
    folders = [folder for folder in (inputs(root)[0], root / base) if (folder / "tokenizer.json").is_file()]
    if folders:
        chat = format_of(AutoTokenizer.from_pretrained(folders[0], local_files_only=True))
    else:
        made_up.append("tokenizer")
        chat = format_of(train_tokenizer([_TASK.question, _TASK.reply, json.dumps(_TASK.tools)] * 4, 420))
    task_file = inputs(root)[1]
    if task_file.is_file():
        return chat, read_tasks(task_file), made_up
    return chat, [replace(_TASK, task_id=f"made-up-{number}") for number in range(8)], [*made_up, "tasks"]


def _rehearse(params: p.Params, run: Run, place: Path, config: Any, chat: ChatFormat, tasks: list[Task]) -> dict[str, Any]:
    """One step on a stand-in, through the functions of the stage."""
    updates = Batches.of(params, 1).updates
    changes: dict[str, dict[str, Any]] = {
        "tasks": {"train": max(len(tasks), updates)},
        "simulator": {"backend": "schema", "cache_folder": "", "cache": "readwrite"},
        "rollouts": {"tasks": 1, "group_size": 2, "max_turns": 2, "max_turn_tokens": 16},
        "rewards": {"judge": "rubric", "max_unscorable": 1.0},
        "train": {"steps": 1, "tasks_per_step": updates, "mini_batch": 1 if updates > 1 else 0, "micro_batch": 0},
        "execution": {"processes": 1, "launcher": "python"},
    }
    small = p.changed(_sampling_here(params), changes, "the rehearsal")
    torch.manual_seed(run.seed)
    model = AutoModelForCausalLM.from_config(_shrunk(config, chat.tokenizer))
    model_folder, task_file = inputs(place)
    model.save_pretrained(model_folder)
    chat.tokenizer.save_pretrained(model_folder)
    write_tasks(task_file, tasks)
    credited: list[float] = []

    def on_batch(batch: Any) -> None:
        credited.extend(value for row in batch.advantages for value in row)

    trainer = build(small, run, place, place / "work", on_batch=on_batch)
    trainer.train()
    log = next(row for row in reversed(trainer.state.log_history) if "loss" in row)
    return {
        "tasks": len(trainer.train_dataset),
        "optimizer_steps": trainer.state.global_step,
        "credited_tokens": len(credited),
        "loss": float(log["loss"]),
        "grad_norm": float(log["grad_norm"]),
    }


def _shrunk(config: Any, tokenizer: Any) -> Any:
    """The same architecture with two narrow layers; positions stay, for prompts are as long as ever."""
    small = type(config).from_dict(config.to_dict())
    ratio = config.num_attention_heads // config.num_key_value_heads
    changes = {"num_hidden_layers": 2, "hidden_size": 16 * ratio, "num_attention_heads": ratio, "num_key_value_heads": 1}
    changes |= {"intermediate_size": 32, "vocab_size": len(tokenizer)}
    changes |= {name: getattr(tokenizer, name) for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
    for name, value in changes.items():
        setattr(small, name, value)
    if getattr(small, "head_dim", None):
        small.head_dim = 16
    if getattr(small, "layer_types", None):
        small.layer_types = small.layer_types[:2]
    return small


def _measured(chat: ChatFormat, tasks: list[Task], made_up: list[str]) -> dict[str, Figure]:
    """Figures that the tasks, and the device, tell."""
    found = {}
    if not made_up:
        part = tasks[:: max(1, len(tasks) // _MEASURED_PROMPTS)][:_MEASURED_PROMPTS]
        lengths = [len(chat.prompt_ids([{"role": "user", "content": task.question}], task.tools)) for task in part]
        found["prompt_tokens"] = Figure(sum(lengths) / len(lengths), f"measured: mean of {len(part)} of the tasks")
    if torch.cuda.is_available():
        device = torch.cuda.get_device_properties(0)
        found["device_gib"] = Figure(device.total_memory / budget.GIB, f"measured: {device.name}")
    return found


def _sampling_here(params: p.Params) -> p.Params:
    """With transformers, since vLLM and its server need not be there for a dry run."""
    if params.rollouts.generator == "transformers":
        return params
    return p.changed(params, {"rollouts": {"generator": "transformers"}}, "the dry run")


def _vllm_share(params: p.Params) -> float:
    return params.rollouts.vllm_memory if params.rollouts.generator == "vllm" else 0.0


def _too_little(
    params: p.Params, root: Path, memory: list[Item], work: list[Item], figures: Mapping[str, Figure]
) -> list[Missing]:
    """Memory of a device and disk, where what is there is known to be less than what is needed."""
    found = []
    needed = next(item.value for item in memory if item.name == "together")
    device = figures["device_gib"]
    if needed > device.value and (params.execution.launcher == "accelerate" or torch.cuda.is_available()):
        how = "lower train.micro_batch, rollouts.max_response_tokens or vLLM's share, or spread over more devices"
        found.append(Missing(f"{needed:.0f} GiB on a device that has {device.value:.0f} ({device.source})", how))
    disk = next(item.value for item in work if item.name == "disk")
    free = shutil.disk_usage(root).free / 1e9
    if disk > free:
        found.append(Missing(f"{disk:.0f} GB of disk, where {free:.0f} are free", "make room in the project's file system"))
    return found
