"""What a training run needs: memory of a device, tokens, time, disk. Arithmetic alone; nothing is loaded or measured here.

Every quantity is an ``Item`` with the formula that made it. What cannot be derived is a ``Figure`` with its source; those that
come with this package and are called "assumption" were measured by nobody here, and ``--assume NAME=VALUE`` replaces them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from slca import params as p
from slca.errors import ParamsError
from slca.training.batches import Batches
from slca.training.padding import PIECE

GIB = 2**30


@dataclass(frozen=True)
class Item:
    """name, value in ``unit``, and how it was computed."""

    name: str
    value: float
    unit: str
    how: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Figure:
    """A number that arithmetic needs and cannot derive."""

    value: float
    source: str


FIGURES: dict[str, Figure] = {
    "device_gib": Figure(80.0, "assumption: a GPU with 80 GiB, as published 7B runs use"),
    "device_tflops": Figure(989.0, "assumption: dense bf16 peak that the vendor states for H100 SXM"),
    "utilisation": Figure(0.35, "assumption: share of the peak that training reaches"),
    "prompt_tokens": Figure(3000.0, "assumption: mean tokens of a prompt, tool list included"),
    "response_tokens": Figure(1500.0, "assumption: mean tokens of a response, tool results included"),
    "sampled_share": Figure(0.5, "assumption: share of a response's tokens that the policy samples"),
    "sampled_per_second": Figure(2000.0, "assumption: tokens that one GPU samples per second, prompts included in the time"),
    "server_devices": Figure(8.0, "assumption: GPUs of a vLLM server, where one samples"),
    "calls": Figure(3.0, "assumption: tool calls in a rollout"),
    "simulator_seconds": Figure(4.0, "assumption: one answer of a simulator on a server"),
    "judge_seconds": Figure(4.0, "assumption: one rating of a judge on a server"),
    "record_bytes": Figure(3.6, "measured: bytes of the records of a step per token, default profile, run slca-0"),
}
"""What is assumed where nothing is known, by name."""


def assumed(given: Mapping[str, float], measured: Mapping[str, Figure] | None = None) -> dict[str, Figure]:
    """FIGURES, with what was measured on this machine, and above all what the user gave. Raises ParamsError."""
    unknown = [name for name in given if name not in FIGURES]
    if unknown:
        raise ParamsError(f"--assume {unknown[0]}: there is no such figure; they are {', '.join(FIGURES)}.")
    wrong = [name for name, value in given.items() if not value > 0]
    if wrong:
        raise ParamsError(f"--assume {wrong[0]}={given[wrong[0]]:g}: write a number above 0.")
    return {**FIGURES, **(measured or {}), **{name: Figure(value, "given with --assume") for name, value in given.items()}}


@dataclass(frozen=True)
class Shape:
    """A decoder's sizes. head: width of one attention head; positions: the most that it takes."""

    parameters: int
    layers: int
    hidden: int
    intermediate: int
    heads: int
    key_value_heads: int
    head: int
    vocabulary: int
    positions: int

    @staticmethod
    def of(config: Any, parameters: int) -> "Shape":
        """From a configuration of transformers."""
        return Shape(
            parameters=parameters,
            layers=config.num_hidden_layers,
            hidden=config.hidden_size,
            intermediate=config.intermediate_size,
            heads=config.num_attention_heads,
            key_value_heads=config.num_key_value_heads,
            head=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
            vocabulary=config.vocab_size,
            positions=config.max_position_embeddings,
        )


def memory(
    shape: Shape, params: p.Params, batches: Batches, sharded: bool, vllm_share: float, figures: Mapping[str, Figure]
) -> list[Item]:
    """GiB on one device at the longest rollout that the limits allow, in the worst micro batch; the last item is the sum.

    sharded: weights, gradients and optimizer states are spread over all processes (FSDP, ZeRO-3).
    """
    train, n = params.train, shape.parameters
    parts = batches.processes if sharded else 1
    over = f" / {parts} processes" if sharded else ""
    size = 2 if train.precision == "bf16" else 4
    response = min(params.rollouts.max_response_tokens or shape.positions, shape.positions)
    length = min((params.rollouts.max_prompt_tokens or shape.positions) + response, shape.positions)
    rows = batches.micro_batch
    tokens = rows * length
    layer = tokens * (8 * shape.hidden + 2 * shape.key_value_heads * shape.head + 3 * shape.intermediate) * size
    kept = tokens * shape.hidden * size
    layers = layer + shape.layers * kept if train.gradient_checkpointing else shape.layers * layer
    one_layer = f"{tokens} tokens * (8 hidden + 2 key-value + 3 intermediate) * {size} bytes (estimate)"
    how = f"one layer recomputed: {one_layer}, + {shape.layers} layer inputs" if train.gradient_checkpointing else one_layer
    if not train.gradient_checkpointing:
        how = f"{shape.layers} layers, each {how}"
    gathered = 2 * (n - 2 * shape.vocabulary * shape.hidden) / shape.layers * size + shape.vocabulary * shape.hidden * size
    items = [
        Item("weights, fp32", 4 * n / parts, "", f"{n} parameters * 4 bytes{over}"),
        Item("gradients, fp32", 4 * n / parts, "", f"{n} parameters * 4 bytes{over}"),
        Item("AdamW's two moments, fp32", 8 * n / parts, "", f"{n} parameters * 8 bytes{over}"),
    ]
    if train.kl:
        items.append(Item("reference model, fp32", 4 * n / parts, "", f"train.kl is not 0: {n} parameters * 4 bytes{over}"))
    if sharded:
        items.append(Item("layers put together", gathered, "", f"two layers and one embedding * {size} bytes"))
    pieces = rows * min(response, PIECE) * shape.vocabulary * 4 * 4
    items += [
        Item("activations", layers, "", how),
        Item(
            "logits and their gradient",
            2 * rows * response * shape.vocabulary * size,
            "",
            f"{rows} rollouts * {response} positions * {shape.vocabulary} entries * {size} bytes * 2",
        ),
        Item(
            "distributions", pieces, "", f"{rows} rollouts * {min(response, PIECE)} positions at once * entries * 4 fp32 tensors"
        ),
    ]
    items = [replace(item, value=item.value / GIB, unit="GiB") for item in items]
    if vllm_share:
        device = figures["device_gib"]
        reserved = vllm_share * device.value
        items.append(Item("vLLM, weights and cache", reserved, "GiB", f"rollouts.vllm_memory = {vllm_share:g} of the device"))
    total = sum(item.value for item in items)
    return [*items, Item("together", total, "GiB", "sum; without what CUDA, NCCL and fragmentation take")]


def cache_tokens(shape: Shape, vllm_share: float, figures: Mapping[str, Figure]) -> Item:
    """Tokens whose keys and values fit beside the weights in vLLM's share of a device."""
    each = 2 * shape.layers * shape.key_value_heads * shape.head * 2
    room = vllm_share * figures["device_gib"].value * GIB - 2 * shape.parameters
    how = f"(vLLM's share - {shape.parameters} parameters * 2 bytes) / {each} bytes of keys and values per token"
    return Item("tokens in vLLM's cache", max(0.0, room / each), "tokens", how)


def work(shape: Shape, params: p.Params, batches: Batches, server: bool, figures: Mapping[str, Figure]) -> list[Item]:
    """Rollouts, tokens, hours and disk of one run. Steps are synchronous: rolling out, scoring and learning take turns.

    server: whether a server on devices of its own samples.
    """
    train = params.train
    value = {name: figure.value for name, figure in figures.items()}
    sampling_devices = value["server_devices"] if server else batches.processes
    devices = batches.processes + (sampling_devices if server else 0)
    rollouts = train.steps * batches.rollouts
    length = value["prompt_tokens"] + value["response_tokens"]
    tokens = rollouts * length
    sampled = rollouts * value["response_tokens"] * value["sampled_share"]
    passes = 8 if train.gradient_checkpointing else 6
    kinds = [f"{passes} forward and backward"]
    if batches.updates > 1:
        passes += 2
        kinds.append("2 for the log-probs before the updates")
    if train.kl:
        passes += 2
        kinds.append("2 for the reference")
    # A forward pass is 2 operations per token and parameter, and 4 * layers * hidden per token of context, half of it on average.
    operations = tokens * passes * (shape.parameters + shape.layers * shape.hidden * length)
    learning = operations / (batches.processes * value["device_tflops"] * 1e12 * value["utilisation"]) / 3600
    sampling = sampled / (sampling_devices * value["sampled_per_second"]) / 3600
    items = [
        Item("optimizer steps", train.steps * batches.updates, "", f"{train.steps} steps * {batches.updates}"),
        Item("rollouts", rollouts, "", f"{train.steps} steps * {batches.rollouts}"),
        Item("tokens", tokens, "", f"rollouts * (prompt_tokens + response_tokens = {length:g})"),
        Item("sampled tokens", sampled, "", "rollouts * response_tokens * sampled_share"),
        Item(
            "hours of learning",
            learning,
            "h",
            f"tokens * {passes} [{', '.join(kinds)}] * (parameters + layers * hidden * length) / "
            f"({batches.processes} devices * device_tflops * utilisation)",
        ),
        Item("hours of sampling", sampling, "h", f"sampled tokens / ({sampling_devices:g} devices * sampled_per_second)"),
    ]
    if params.simulator.backend != "schema":
        at_once = params.simulator.concurrency * batches.processes
        hours = rollouts * value["calls"] * value["simulator_seconds"] / at_once / 3600
        how = f"rollouts * calls * simulator_seconds / {at_once} at once; answers from the cache would take none"
        items.append(Item("hours of simulating", hours, "h", how))
    if params.rewards.judge != "rubric":
        at_once = params.rewards.judge_concurrency * batches.processes
        hours = rollouts * value["judge_seconds"] / at_once / 3600
        items.append(Item("hours of judging", hours, "h", f"rollouts * judge_seconds / {at_once} at once"))
    hours = sum(item.value for item in items if item.unit == "h")
    items += [
        Item("hours together", hours, "h", "one after the other, as a synchronous step does"),
        Item("device hours", hours * devices, "h", f"hours together * {devices:g} devices; servers of simulator and judge apart"),
    ]
    disk = (2 * 12 + 2 * 4) * shape.parameters + tokens * value["record_bytes"]
    how = "2 checkpoints * 12 bytes + trained model twice * 4 bytes, per parameter, + tokens * record_bytes"
    return [*items, Item("disk", disk / 1e9, "GB", how)]
