"""``slca simulate``: import tool lists, serve them, measure their fidelity, look after the cache."""

import typer

app = typer.Typer(
    help="Simulate a service from its tool list: import, serve, report, cache.", no_args_is_help=True, add_completion=False
)
