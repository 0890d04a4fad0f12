"""Every parameter of the pipeline: typed, frozen, cross-checked at load. The only reader of params.yaml.

params.yaml always holds the whole truth: a profile (an overlay in ``slca/profiles``) is put to work by writing it out with
``slca profile NAME --write``. Sections are named after the stages that read them. Unknown and contradictory values are refused
with the field's name.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from slca.benchmarks.bfcl.groups import Category, Style
from slca.errors import ParamsError

PROFILES = Path(__file__).parent / "profiles"

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[int, Field(ge=1)]
Method = Literal["grpo", "slca", "slca_call", "gdpo", "routed_joint", "toolpo", "rltr"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Schemas(_Section):
    domains: tuple[str, ...] = Field(default=("*",), description="catalog domains to use; * is all of them, none: []")
    imports: str = Field(default="slca/sgls/catalog/mcp", description="your tools: a document, or a folder of documents")


class Tasks(_Section):
    seed: int = 0
    train: Positive = Field(default=20000, description="tasks in the training split; each is demonstrated once by default")
    test: Positive = Field(default=768, description="tasks with held-out phrasings and values")
    unseen_tools: Positive = Field(default=128, description="tasks on held-out tools")
    kinds: dict[Literal["single", "parallel", "chain", "distractors", "abstain", "missing"], Share] = Field(
        default={"single": 0.3, "parallel": 0.15, "chain": 0.15, "distractors": 0.2, "abstain": 0.1, "missing": 0.1},
        description="share of each kind of task; they add up to 1",
    )

    @model_validator(mode="after")
    def _shares(self) -> "Tasks":
        if abs(sum(self.kinds.values()) - 1.0) > 1e-9:
            raise ValueError(f"kinds must add up to 1, not {sum(self.kinds.values()):g}")
        return self


class Simulator(_Section):
    backend: Literal["schema", "transformers", "vllm", "openai"] = Field(
        default="schema", description="what fills values that the state does not define"
    )
    model: str = Field(default="", description="of a model backend: a folder, or a name that the server or hub knows")
    base_url: str = Field(default="", description="backend openai: the server, such as http://127.0.0.1:8000/v1")
    temperature: Annotated[float, Field(ge=0)] = Field(default=0.6, description="of a model backend")
    max_tokens: Positive = Field(default=1024, description="of a model backend's answer")
    timeout: Annotated[float, Field(gt=0)] = Field(default=60.0, description="seconds for one request of backend openai")
    retries: Annotated[int, Field(ge=0)] = Field(default=2, description="further tries of a request that failed")
    concurrency: Positive = Field(default=8, description="requests under way at once")
    seed: int = 0
    cache: Literal["off", "readwrite", "replay"] = "readwrite"
    cache_folder: str = Field(default="", description="where answers are kept; empty: in memory, for the run alone")
    fault_rate: Share = Field(default=0.0, description="share of calls that meet an injected fault")
    fault_rates: dict[str, Share] = Field(default={}, description="other shares, by tool name")
    fault_kinds: tuple[Literal["timeout", "rate_limit", "server_error", "empty_page", "slow"], ...] = (
        "timeout",
        "rate_limit",
        "server_error",
        "empty_page",
    )
    max_result_chars: Annotated[int, Field(ge=64)] = Field(default=2048, description="longer results are cut in their middle")
    max_parallel_calls: Positive = Field(default=20, description="calls beyond this in one step get an error result")
    schemas: bool = Field(default=True, description="false: the ablation w/o SGLS: answers know no schema and no state")

    @model_validator(mode="after")
    def _named(self) -> "Simulator":
        needs = {"schema": (), "transformers": ("model",), "vllm": ("model",), "openai": ("base_url", "model")}[self.backend]
        missing = [name for name in needs if not getattr(self, name)]
        if missing:
            raise ValueError(f"backend {self.backend} needs {' and '.join(missing)}")
        return self


class Warmstart(_Section):
    seed: int = 0
    vocab_size: Annotated[int, Field(ge=320)] = 2048
    hidden_size: Positive = 192
    layers: Positive = Field(default=2, description="two are the fewest that can copy, and learn it soonest")
    heads: Positive = 6
    max_positions: Positive = 1024
    demonstrations: Positive = Field(default=20000, description="conversations to imitate, on tasks of the train split")
    corrupted: Share = Field(default=0.35, description="share of demonstrations with a planted mistake")
    batch_size: Positive = 8
    learning_rate: Annotated[float, Field(gt=0)] = 4.0e-3
    checkpoint_steps: Positive = Field(default=200, description="optimizer steps between checkpoints")
    threads: Positive = Field(default=2, description="torch threads; this stage has the machine to itself")

    @model_validator(mode="after")
    def _shape(self) -> "Warmstart":
        if self.hidden_size % (2 * self.heads):
            raise ValueError(f"hidden_size {self.hidden_size} must be a multiple of 2 * heads = {2 * self.heads}")
        return self


class Rollouts(_Section):
    seed: int = 0
    tasks: Positive = Field(default=128, description="training tasks to roll out")
    group_size: Annotated[int, Field(ge=2)] = 8
    shard_tasks: Positive = Field(default=32, description="tasks in one shard, the unit of resuming")
    temperature: Annotated[float, Field(ge=0)] = 1.0
    max_turns: Positive = Field(default=4, description="assistant turns in one rollout")
    max_turn_tokens: Positive = Field(default=128, description="sampled tokens in one turn")
    max_rows: Positive = Field(default=64, description="rollouts generated at once; the others of a shard or step wait")
    max_failures: Positive = Field(default=2, description="consecutive steps with only failing calls before a rollout ends")
    segments: Literal["structural", "last_run"] = "structural"
    mixed_turns: Literal["tool", "split"] = "tool"
    on_broken_prefix: Literal["keep", "fail"] = Field(
        default="keep", description="when a template would render earlier turns otherwise than sampled: go on as sampled, or stop"
    )


class Rewards(_Section):
    hierr: Literal["strict", "paper"] = "strict"
    tool_reward: Literal["process", "outcome", "none"] = Field(default="process", description="none: the ablation w/o HierR")
    judge: Literal["rubric"] = "rubric"
    judge_noise: Annotated[float, Field(ge=0)] = Field(default=0.0, description="deviation of noise on the summary score")
    success_threshold: Share = 0.9
    max_unscorable: Share = Field(default=0.2, description="stop when a larger share of rollouts cannot be scored")


class Train(_Section):
    methods: tuple[Method, ...] = ("grpo", "slca")
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: Positive = 75
    tasks_per_step: Positive = Field(default=8, description="groups in one optimizer step")
    learning_rate: Annotated[float, Field(gt=0)] = 3.0e-4
    warmup_steps: Annotated[int, Field(ge=0)] = Field(default=10, description="steps of rising learning rate, constant after")
    kl: Annotated[float, Field(ge=0)] = Field(default=0.0, description="weight of the KL term to the warm start (TRL's beta)")
    clip: Annotated[float, Field(gt=0)] = Field(default=0.2, description="PPO clip range")
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    lambda_tool: Annotated[float, Field(ge=0)] = 1.0
    lambda_sum: Annotated[float, Field(ge=0)] = 1.0
    presence_tool: Literal["all", "members"] = "all"
    presence_sum: Literal["all", "members"] = "members"
    omission_guard: Literal["tool_side", "paper", "off"] = "tool_side"
    toolpo_success: Literal["rule", "judge"] = Field(default="rule", description="toolpo: what success is")
    rltr_repeat: Annotated[float, Field(ge=0)] = Field(default=0.1, description="rltr: cost of a repeated call")
    rltr_error: Annotated[float, Field(ge=0)] = Field(default=0.2, description="rltr: cost of an erroneous call")
    checkpoint_steps: Positive = Field(default=10, description="steps between checkpoints")
    max_zero_variance: Share = Field(default=1.0, description="stop when more groups than this lack signal for 10 steps")
    min_call_rate: Share = Field(default=0.0, description="stop when fewer rollouts than this call a tool for 10 steps")
    max_clip_fraction: Share = Field(default=1.0, description="stop when more tokens than this are clipped for 10 steps")
    max_kl: Annotated[float, Field(ge=0)] = Field(default=0.0, description="stop beyond this KL for 10 steps; 0 is no limit")


class Evaluate(_Section):
    seed: int = 0
    tasks: Positive = Field(default=768, description="tasks at the most from each split")
    temperature: Annotated[float, Field(ge=0)] = Field(default=1.0, description="as in training; 0 is greedy. BFCL is greedy")
    bfcl_categories: tuple[Category, ...] = ("simple_python", "multiple", "parallel", "irrelevance", "multi_turn_base")
    bfcl_limit: Positive | None = Field(default=40, description="the first items of each BFCL category; null: all of them")
    bfcl_style: Style = Field(
        default="native", description="prompt: BFCL's system prompt lists the functions, in place of the chat template"
    )


class Report(_Section):
    bootstrap: Positive = Field(default=2000, description="resamples behind each interval")
    seed: int = 0


class Execution(_Section):
    processes: Positive = Field(default=2, description="independent runs or shards side by side")
    threads: Positive = Field(default=1, description="torch threads in each process; part of what makes results repeatable")
    runner: Literal["local", "threads", "dask"] = Field(
        default="local", description="shards: in processes of this machine, or in a Prefect flow on threads or on Dask"
    )
    dask_address: str = Field(default="", description="runner dask: the scheduler; empty: a local cluster of `processes` workers")


class Params(_Section):
    profile: str = "default"
    schemas: Schemas = Schemas()
    tasks: Tasks = Tasks()
    simulator: Simulator = Simulator()
    warmstart: Warmstart = Warmstart()
    rollouts: Rollouts = Rollouts()
    rewards: Rewards = Rewards()
    train: Train = Train()
    evaluate: Evaluate = Evaluate()
    report: Report = Report()
    execution: Execution = Execution()

    @model_validator(mode="after")
    def _consistent(self) -> "Params":
        if self.rollouts.tasks > self.tasks.train:
            raise ValueError(f"rollouts.tasks = {self.rollouts.tasks} exceeds tasks.train = {self.tasks.train}")
        if self.train.tasks_per_step > self.tasks.train:
            raise ValueError(f"train.tasks_per_step = {self.train.tasks_per_step} exceeds tasks.train = {self.tasks.train}")
        if self.rollouts.temperature != 1.0 and self.train.steps:
            raise ValueError(
                f"rollouts.temperature must be 1.0 for training, not {self.rollouts.temperature}: "
                "any other value biases the importance ratio"
            )
        if not self.simulator.schemas and self.rewards.tool_reward == "outcome":
            raise ValueError("simulator.schemas = false leaves no state to judge: rewards.tool_reward cannot be 'outcome'")
        for name in ("methods", "seeds"):
            values = getattr(self.train, name)
            if not values or len(set(values)) != len(values):
                raise ValueError(f"train.{name} must name at least one value, each once, not {list(values)}")
        return self


def load(path: Path = Path("params.yaml")) -> Params:
    """The parameters in ``path``. Raises ParamsError that names file, field and fault."""
    return _validated(_read(path), path)


def of_profile(name: str) -> Params:
    """The defaults with a profile's overlay."""
    overlay = PROFILES / f"{name}.yaml"
    if not overlay.exists():
        known = ", ".join(sorted(file.stem for file in PROFILES.glob("*.yaml")))
        raise ParamsError(f"There is no profile {name!r}; the profiles are: {known}.")
    return _validated({**_read(overlay), "profile": name}, overlay)


def changed(params: Params, changes: Mapping[str, Mapping[str, Any]], where: str) -> Params:
    """``params`` with other values in some sections (section -> field -> value). Raises ParamsError, beginning with ``where``."""
    values = params.model_dump()
    for section, fields in changes.items():
        values[section] = {**values[section], **fields} if section in values else fields
    return _validated(values, where)


def to_yaml(params: Params) -> str:
    """A params.yaml with every parameter and its description."""
    lines = [f"# Profile {params.profile}. Written by: slca profile {params.profile}", f"profile: {params.profile}"]
    for name, section in params:
        if isinstance(section, _Section):
            lines += ["", f"{name}:"]
            for field, information in type(section).model_fields.items():
                note = f"  # {information.description}" if information.description else ""
                lines.append(f"  {field}: {_yaml_value(getattr(section, field))}{note}")
    return "\n".join(lines) + "\n"


def _yaml_value(value: Any) -> str:
    if isinstance(value, float) and "e" in repr(value):
        mantissa, exponent = repr(value).split("e")
        return f"{float(mantissa)}e{exponent}"  # YAML 1.1 reads 1e-05 as text and 1.0e-05 as a number
    return json.dumps(value)


def _validated(values: dict[str, Any], where: Path | str) -> Params:
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        raise ParamsError(f"{where}: {sentence(error)}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ParamsError(f"{path} does not exist; run from the repository's root or name the file with --params.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ParamsError(f"{path} is not valid YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(values, dict):
        raise ParamsError(f"{path} must hold sections of parameters, not {type(values).__name__}.")
    return values


def sentence(error: ValidationError) -> str:
    """Every fault of a validation, each with its field and the value given, as one sentence."""
    parts = []
    for fault in error.errors():
        field = ".".join(str(part) for part in fault["loc"])
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = "there is no such parameter; remove it or mend its name"
        given = "" if isinstance(fault["input"], dict) else f" (given: {fault['input']!r})"
        parts.append(f"{field}: {message}{given}" if field else message)
    return "; ".join(parts) + "."
