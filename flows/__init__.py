"""Thin Prefect flows: when, where and how the DVC pipeline is run and watched. What is stale is DVC's to know.

Importing the package gives these environment variables a value where they have none. It happens here, before any module of
the package imports Prefect, because Prefect reads its settings once, at its own import.
"""

import os

QUIET_AND_OFFLINE = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
    "HF_HUB_OFFLINE": "1",
    # The server that Prefect starts on its own took 17-18 s on two cores; Prefect gives up after 20.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "90",
}

for _name, _value in QUIET_AND_OFFLINE.items():
    os.environ.setdefault(_name, _value)
