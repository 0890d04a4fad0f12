"""One of the processes that ``slca.training.launch`` starts under accelerate: ``python -m slca.training.worker WORK``.

A run that stops itself does so in all processes at the same step, so they end in peace and the reason is passed on. Any other
failure may be this process's alone, while the others wait for it: it ends with a status that makes the launcher end them.
"""

import os
import sys
import threading
from pathlib import Path

import psutil

from slca import params as p
from slca.errors import RunStopped, SlcaError
from slca.files import read_json, write_json
from slca.training.launch import ORDER, OUTCOME


def main(work: Path) -> int:
    """Train as ``work`` orders; the exit status."""
    order = read_json(work / ORDER)
    threading.Thread(target=_end_with, args=(int(order["watched"]),), daemon=True).start()
    import torch  # takes seconds, in which the watch is kept already

    from slca.training.runs import Run
    from slca.training.stage import train_in

    try:
        run = Run(order["method"], order["seed"], work.parent.name)
        train_in(p.Params.model_validate(order["params"]), run, Path(order["root"]), work)
    except SlcaError as error:
        write_json(work / OUTCOME, {"exit_code": error.exit_code, "sentence": str(error)})
        return 0 if isinstance(error, RunStopped) else 1
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    return 0


def _end_with(watched: int) -> None:
    try:
        psutil.Process(watched).wait()
    finally:
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
