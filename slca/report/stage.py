"""The ``report`` stage: results.json, results.md and the figures, from what the other stages left."""

import shutil
from pathlib import Path

from slca.files import replacing, write_json, write_text
from slca.params import Params
from slca.report import figures, inputs, markdown, results


def run(params: Params, root: Path = Path(".")) -> None:
    """Writes results.json, results.md, figures/*.{svg,png} and training/<run>.csv (copies of the learning curves) under reports/.

    Methods and seeds are those of ``params.train``. Raises DataError that names a missing or contradictory file and
    the stage to run.
    """
    found = inputs.load(params, root)
    built = results.build(params, found)
    with replacing(root / "reports" / "training") as folder:
        folder.mkdir()
        for name, path in found.curve_files.items():
            shutil.copyfile(root / path, folder / f"{name}.csv")
    figures.write_all(root / "reports" / "figures", built, found.curves)
    write_text(root / "reports" / "results.md", markdown.render(built))
    write_json(root / "reports" / "results.json", built)
