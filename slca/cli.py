"""The command line: one subcommand per stage, with the stage's name. Stages are imported when called, so `--help` is quick."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from slca import params as p
from slca.errors import ParamsError, SlcaError
from slca.sgls.cli import app as simulate

app = typer.Typer(
    help="Segment-locked credit assignment for tool-calling RL. One subcommand per pipeline stage.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ParamsFile = Annotated[Path, typer.Option("--params", help="Parameter file.")]
DEFAULT = Path("params.yaml")
CHECKPOINTS = Path("reports/checkpoints")


app.add_typer(simulate, name="simulate")


@app.command()
def schemas(params: ParamsFile = DEFAULT) -> None:
    """Tool catalog and imported lists -> data/schemas.parquet."""
    from slca.sgls.stage import run

    run(p.load(params))


@app.command()
def tasks(params: ParamsFile = DEFAULT) -> None:
    """Schemas -> data/tasks/{train,test,unseen_tools}.parquet."""
    from slca.tasks.stage import run

    run(p.load(params))


@app.command()
def base(params: ParamsFile = DEFAULT) -> None:
    """The pretrained model that warmstart.base names -> models/base; a note where it names none."""
    from slca.policy.pretrained import run

    run(p.load(params))


@app.command()
def warmstart(params: ParamsFile = DEFAULT) -> None:
    """Train tasks, models/base -> models/warmstart, a model trained on demonstrations."""
    from slca.policy.warmstart import run

    run(p.load(params))


@app.command()
def rollouts(params: ParamsFile = DEFAULT) -> None:
    """The warm start's groups of rollouts -> data/rollouts/part-*.parquet."""
    from slca.rollouts.stage import run

    run(p.load(params))


@app.command()
def rewards(params: ParamsFile = DEFAULT) -> None:
    """HierR scores of the rollouts -> data/rewards.parquet, reports/rewards.json."""
    from slca.hierr.stage import run

    run(p.load(params))


@app.command()
def train(
    method: Annotated[str, typer.Option(help="A name in train.methods.")],
    seed: Annotated[int, typer.Option(help="A seed in train.seeds.")],
    params: ParamsFile = DEFAULT,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Train nothing; say what the run would be and lacks.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: print JSON.")] = False,
    assume: Annotated[list[str] | None, typer.Option(help="With --dry-run: NAME=VALUE, a figure of its arithmetic.")] = None,
) -> None:
    """One training run -> models/<method>-<seed>, its records, and its learning curve."""
    if dry_run:
        from slca.training.dry_run import command

        raise typer.Exit(command(p.load(params), method, seed, assume or (), as_json))
    from slca.training.stage import run

    run(p.load(params), method, seed)


@app.command()
def evaluate(
    method: Annotated[str | None, typer.Option(help="A name in train.methods, or warmstart.")] = None,
    seed: Annotated[int | None, typer.Option(help="A seed in train.seeds; none for warmstart.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Instead of a method: a model folder, or the name of one in models.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="With --checkpoint: the folder for its scores.")] = CHECKPOINTS,
    profile: Annotated[str | None, typer.Option(help="With --checkpoint: a profile instead of a parameter file.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="With --checkpoint: another value, such as evaluate.tasks=64.")
    ] = None,
    params: ParamsFile = DEFAULT,
) -> None:
    """One checkpoint on held-out tasks and benchmarks -> reports/evaluation/<method>-<seed>.json.

    With --checkpoint any model folder, whoever made it -> reports/checkpoints/<name>.json; the pipeline's outputs stay untouched.
    """
    if (method is None) == (checkpoint is None):
        raise ParamsError("Give either --method, for a run of the pipeline, or --checkpoint, for a model folder.")
    if checkpoint is None and (profile or changes or output != CHECKPOINTS):
        raise ParamsError("--output, --profile and --set go with --checkpoint: a run of the pipeline has its own.")
    if checkpoint is not None and seed is not None:
        raise ParamsError("--seed goes with --method: a checkpoint is one model.")
    chosen = _with_settings(p.of_profile(profile) if profile else p.load(params), changes or ())
    from slca.benchmarks.stage import run, run_checkpoint

    if method is not None:
        run(chosen, method, seed)
    elif checkpoint is not None:
        typer.echo(f"Scores of {checkpoint}: {run_checkpoint(chosen, checkpoint, output)}")


@app.command()
def report(params: ParamsFile = DEFAULT) -> None:
    """All results -> reports/results.{md,html,json}, metrics.json and figures."""
    from slca.report.stage import run

    run(p.load(params))


@app.command()
def accept() -> None:
    """Keep the present results as those to compare with -> reports/accepted.json, to be committed."""
    from slca.report.gate import ACCEPTED, accept

    for method, splits in accept().success.items():
        for split, success in splits.items():
            typer.echo(f"{method} on {split}: {success.mean:.3f} [{success.low:.3f}, {success.high:.3f}]")
    typer.echo(f"Accepted: {ACCEPTED}")


@app.command()
def gate() -> None:
    """Compare success with the accepted run's: exit code 3 if it fell by more than its interval, 2 if that cannot be said."""
    from slca.report.gate import check, verdict

    typer.echo(verdict(check()))


@app.command()
def experiment(
    plan: Annotated[str, typer.Option(help="A plan that comes with the package (plan, smoke), or a .yaml file.")] = "plan",
    only: Annotated[list[str] | None, typer.Option(help="A cell to make; all of them if not given.")] = None,
    limit_minutes: Annotated[
        float | None, typer.Option(min=0, help="Begin no run after this time; the rest is for later.")
    ] = None,
    params: ParamsFile = DEFAULT,
) -> None:
    """Many training runs under equal budgets, evaluated and compared -> reports/experiment."""
    from slca.experiment.run import run

    run(p.load(params), plan, only or (), limit_minutes)


@app.command()
def diagnose(
    path: Annotated[Path, typer.Argument(help="data/rollouts, data/training/<run>, or JSONL or Parquet of another stack.")],
    rewards: Annotated[Path | None, typer.Option(help="Rewards table, where it does not lie beside the rollouts.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="A method to measure; all of them if not given.")] = None,
    model: Annotated[Path | None, typer.Option(help="Model folder: measures gradient cosines and norms too.")] = None,
    limit: Annotated[int, typer.Option(help="Rollouts behind the gradients, at the least; whole groups.")] = 256,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for table, JSON and figure.")] = None,
    params: ParamsFile = DEFAULT,
) -> None:
    """Contamination, zero variance and presence in recorded rollouts, for every method."""
    from slca.diagnosis.cli import diagnose

    diagnose(path, rewards, method or (), model, limit, output, params)


@app.command()
def inspect(
    path: Annotated[Path, typer.Argument(help="data/rollouts, data/training/<run>, or JSONL or Parquet of another stack.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("credit.html"),
    rewards: Annotated[Path | None, typer.Option(help="Rewards table, where it does not lie beside the rollouts.")] = None,
    model: Annotated[Path, typer.Option(help="Model folder whose tokenizer gives the tokens' texts.")] = Path("models/warmstart"),
    limit: Annotated[int, typer.Option(help="Rollouts on the page, at the most by about a group.")] = 5000,
    params: ParamsFile = DEFAULT,
) -> None:
    """A page that shows the credit of every token, under every method: open it in a browser."""
    from slca.diagnosis.cli import inspect

    inspect(path, output, rewards, model, limit, params)


@app.command()
def profile(
    name: Annotated[str, typer.Argument(help="A profile; `default` holds every parameter at its default.")],
    write: Annotated[bool, typer.Option("--write", help="Replace params.yaml instead of printing.")] = False,
) -> None:
    """Print a complete params.yaml for a profile, or put it in place."""
    from slca.files import write_text

    text = p.to_yaml(p.of_profile(name))
    if write:
        write_text(DEFAULT, text)
    else:
        typer.echo(text, nl=False)


def _with_settings(params: p.Params, settings: Sequence[str]) -> p.Params:
    """``params`` with the values of SECTION.FIELD=VALUE, VALUE in YAML as in params.yaml. Raises ParamsError."""
    changes: dict[str, dict[str, Any]] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        section, dot, field = name.partition(".")
        if not (equals and dot):
            raise ParamsError(f"--set {setting!r} is not of the form SECTION.FIELD=VALUE, such as evaluate.tasks=64.")
        try:
            changes.setdefault(section, {})[field] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ParamsError(f"--set {setting!r}: {' '.join(str(error).split())}.") from None
    return p.changed(params, changes, "--set")


def main() -> None:
    """Entry point. A user's mistake is one sentence and the error's exit code; a defect keeps its traceback."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # Two threads that spin while they wait for each other come to a crawl as soon as anything else wants a core: beside two busy
    # processes, the warm start took four times as long with the default spin count. Read once, when torch is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        app()
    except SlcaError as error:
        sys.stderr.write(f"slca: {error}\n")
        raise SystemExit(error.exit_code) from None


if __name__ == "__main__":
    main()
