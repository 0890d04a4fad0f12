"""Sampled tokens per second of this engine and of TRL's own tool loop, side by side.

Both sides: the same model object and thread count, the same groups of tasks, prompts equal token by token, the same simulated
tools, temperature 1, at most 4 turns, of at most 128 tokens (SmolLM2: 48). TRL's side is ``GRPOTrainer`` with
``environment_factory``, from prompts to completions (its ``_generate``): rewards and log-probs, which it computes afterwards,
are not timed, though this engine's time includes log-probs and labels. Sides alternate, and the ratio is taken pair by pair, in
time that passed and in processor time, which other programs disturb less; figures of one run compare with each other only. What
remains is compared with the floor: transformers' forward passes alone, of the same rollouts in the same batches.

* ``step`` and ``shard``: the pipeline's model, in the 8 groups of a training step and the 32 of a shard. Its warm start if this
  working tree holds one, else one made here from 2,000 demonstrations. TRL gets the model's chat template with a branch that
  writes calls, which TRL demands, and Qwen3's response template.
* ``smollm2``: 4 groups on SmolLM2-135M-Instruct (tests/smollm.py). Both sides get TRL's Qwen2.5 template, the one with tools
  that fits its markers.
"""

import copy
import functools
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import smollm
import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen2_5_chat_template, qwen3_template

from slca import params as p
from slca.chat import format_of
from slca.policy import warmstart
from slca.policy.model import Policy, load_policy, prepare_torch
from slca.records import Task
from slca.rollouts.engine import Engine, Request
from slca.rollouts.lean import Lean
from slca.rollouts.slots import Slots
from slca.rollouts.stage import choose_tasks
from slca.sgls import stage as schemas
from slca.sgls.simulator import Session, render_result
from slca.sgls.tool import load_tools
from slca.tables import read_tasks
from slca.tasks import stage as tasks_stage

pytestmark = [pytest.mark.slow, pytest.mark.bench]

ROOT = Path(__file__).parents[2]
MEMBERS = 8
WRITES_CALLS = """
    {%- if message.tool_calls is defined and message.tool_calls -%}
        {{- '<|im_start|>assistant\\n' -}}
        {%- for call in message.tool_calls -%}{{- '<tool_call>' + (call.function | tojson) + '</tool_call>' -}}{%- endfor -%}
        {{- '<|im_end|>\\n' -}}
    {%- elif message.role != 'tool' -%}"""


class Took(NamedTuple):
    """One side's run: seconds that passed, seconds of the processor, sampled tokens, turns per rollout."""

    seconds: float
    busy: float
    sampled: int
    turns: float


class TimedTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer; remembers what its generation with tools took and gave."""

    def _generate(self, prompts: list[Any]) -> Any:
        start, busy = time.perf_counter(), time.process_time()
        output = super()._generate(prompts)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
        self.generated_prompts, _, masks = output[:3]
        turns = sum(1 + sum(a > b for a, b in itertools.pairwise(mask)) for mask in masks) / len(masks)
        self.took = Took(seconds, busy, sum(sum(mask) for mask in masks), turns)
        return output


def trl_side(policy: Policy, tasks: Sequence[Task], settings: p.Rollouts, folder: Path) -> Callable[[], Took]:
    """Rolls the groups out with TRL."""
    by_id = {task.task_id: task for task in tasks}
    tokenizer = copy.deepcopy(policy.format.tokenizer)
    if "tool_calls" not in tokenizer.chat_template:
        marker = "\n    {%- if message.role != 'tool' -%}"
        assert marker in tokenizer.chat_template
        tokenizer.chat_template = tokenizer.chat_template.replace(marker, WRITES_CALLS)
    tokenizer.response_template = qwen3_template
    config = GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=len(tasks) * MEMBERS,
        num_generations=MEMBERS,
        max_completion_length=policy.max_positions,
        generation_kwargs={"max_new_tokens": settings.max_turn_tokens},
        max_tool_calling_iterations=settings.max_turns - 1,
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        beta=0.0,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    trainer = TimedTrainer(
        model=policy.model,
        args=config,
        processing_class=tokenizer,
        train_dataset=Dataset.from_dict({"prompt": [[{"role": "user", "content": "."}]]}),
        reward_funcs=[lambda completions, **_: [0.0] * len(completions)],
        environment_factory={task.task_id: environment(task) for task in tasks},
    )
    # The definitions themselves, as this project's prompts render them, instead of what TRL reads off the methods.
    trainer._env_tools = {task.task_id: functions(task) for task in tasks}
    rows: list[dict[str, Any]] = [
        {"prompt": [{"role": "user", "content": task.question}], "environment": task.task_id}
        for task in by_id.values()
        for _ in range(MEMBERS)
    ]

    def run() -> Took:
        trainer._generate_and_score_completions(rows)
        for ids, row in zip(trainer.generated_prompts, rows, strict=True):
            assert ids == policy.format.prompt_ids(row["prompt"], by_id[row["environment"]].tools)
        policy.model.eval()
        return trainer.took

    return run


def functions(task: Task) -> list[dict[str, Any]]:
    keys = ("name", "description", "parameters")
    return [{"type": "function", "function": {key: tool.get(key, "") for key in keys}} for tool in task.tools]


def environment(task: Task) -> type:
    """A class as TRL wants it: ``reset``, and a method for each tool of the task, answered by this project's simulator."""

    def reset(self: Any, **_: Any) -> None:
        self._session = Session(load_tools(task.tools, task.task_id), task.state, p.Simulator(), session=task.task_id)

    def method(name: str) -> Callable[..., str]:
        def call(self: Any, **arguments: Any) -> str:
            return render_result(self._session.call(name, arguments).result, p.Simulator().max_result_chars)

        call.__name__ = name
        return call

    return type("Environment", (), {"reset": reset, **{str(tool["name"]): method(str(tool["name"])) for tool in task.tools}})


def our_side(policy: Policy, tasks: Sequence[Task], settings: p.Rollouts) -> Callable[[int], Took]:
    """Rolls the groups out with this engine, from a seed."""
    requests = [Request(task, member) for task in tasks for member in range(MEMBERS)]

    def run(seed: int) -> Took:
        engine = Engine(policy, settings, p.Simulator(), seed)
        start, busy = time.perf_counter(), time.process_time()
        rollouts = engine.run(requests)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
        turns = sum(len(r.steps) for r in rollouts) / len(rollouts)
        return Took(seconds, busy, sum(r.sampled_tokens for r in rollouts), turns)

    return run


@contextmanager
def timed(owner: Any, name: str) -> Iterator[list[float]]:
    """Calls of ``owner.name`` meanwhile: the processor time of each."""
    function, spent = getattr(owner, name), []

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        result = function(*args, **kwargs)
        spent.append(time.process_time() - start)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, call)
        yield spent


def where_time_goes(run: Callable[[int], Took], policy: Policy) -> str:
    """Of a run's processor time, what its forward passes took; and what transformers' own take in the same run."""
    with timed(Lean, "__call__") as model, timed(Slots, "forward") as passes:
        busy = run(0).busy
    with timed(policy.model, "forward") as floor:  # replaced so, it is no longer passed by
        run(0)
    assert len(floor) == len(passes) == len(model)
    return (
        f"our time: {len(passes)} forward passes {sum(model) / busy:.0%}, masks {(sum(passes) - sum(model)) / busy:.0%}, "
        f"all else {1 - sum(passes) / busy:.0%}; all of it is {busy / sum(floor):.2f} times the floor of {sum(floor):.2f} s"
    )


@pytest.fixture(scope="module")
def default_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the default model's warm start and its tasks."""
    if (ROOT / "models" / "warmstart").exists() and (ROOT / "data" / "tasks" / "train.parquet").exists():
        return ROOT
    root = tmp_path_factory.mktemp("warmstart")
    settings = p.Params(tasks=p.Tasks(train=2000, test=8, unseen_tools=8), warmstart=p.Warmstart(demonstrations=2000))
    for stage in (schemas, tasks_stage, warmstart):
        stage.run(settings, root)
    return root


def the_default(root: Path) -> Policy:
    prepare_torch(p.Execution().threads)
    return load_policy(root / "models" / "warmstart")


def the_smollm2(root: Path) -> Policy:
    prepare_torch(p.Execution().threads)
    policy = load_policy(smollm.model_folder())
    policy.format.tokenizer.chat_template = qwen2_5_chat_template
    policy.model.config.max_position_embeddings = 2048
    return Policy(policy.model, format_of(policy.format.tokenizer), policy.version)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(
    ("load", "groups", "turn_tokens", "pairs"),
    [(the_default, 8, 128, 5), (the_default, 32, 128, 3), (the_smollm2, 4, 48, 2)],
    ids=["step", "shard", "smollm2"],
)
def test_sampled_tokens_per_second_against_trl(
    load: Callable[[Path], Policy],
    groups: int,
    turn_tokens: int,
    pairs: int,
    default_root: Path,
    benchmark: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    policy = load(default_root)
    settings = p.Rollouts(tasks=groups, max_turn_tokens=turn_tokens)
    tasks = choose_tasks(read_tasks(default_root / "data" / "tasks" / "train.parquet"), settings)
    ours, theirs = our_side(policy, tasks, settings), trl_side(policy, tasks, settings, tmp_path)
    if load is the_default:
        ours(0), theirs()  # to warm up
    both: list[tuple[Took, Took]] = []
    names = ("ours", "TRL's")

    def pair() -> None:
        both.append((ours(len(both)), theirs()))

    benchmark.pedantic(pair, rounds=pairs)
    passed = [(a.sampled / a.seconds) / (b.sampled / b.seconds) for a, b in both]
    busy = [(a.sampled / a.busy) / (b.sampled / b.busy) for a, b in both]
    benchmark.extra_info.update(ratios=passed, busy_ratios=busy)
    with capsys.disabled():
        print(f"\n{policy.model.num_parameters():,} parameters, {groups} groups of {MEMBERS}, {torch.get_num_threads()} threads")
        for side, took in ((name, took) for each in both for name, took in zip(names, each, strict=True)):
            rate, own = took.sampled / took.seconds, took.sampled / took.busy
            print(
                f"{side:<6}{took.seconds:7.2f} s{took.sampled:7d} tokens{took.turns:6.2f} turns{rate:8.0f} tokens/s, "
                f"{own:.0f} per second of processor time"
            )
        for what, ratios in (("sampled tokens per second", passed), ("the same, in processor time", busy)):
            print(f"{what}: {statistics.median(ratios):.2f} times TRL's, {min(ratios):.2f} to {max(ratios):.2f} in {pairs} pairs")
        print(where_time_goes(ours, policy))
