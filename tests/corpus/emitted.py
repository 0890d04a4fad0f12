"""Documents that installed services write of themselves, each asked of the service's own code in this process."""

from collections.abc import Callable

from slca.records import Json


def prefect_server() -> tuple[str, str, Json]:
    """Package, version and document of Prefect's own server."""
    import prefect
    from prefect.server.api.server import create_app

    return "prefect", prefect.__version__, create_app(ephemeral=True).openapi()


EMITTED: dict[str, Callable[[], tuple[str, str, Json]]] = {"prefect_server": prefect_server}
