"""The ``report`` stage: results.json, results.md, results.html, metrics.json and the figures, from what the other stages left."""

import shutil
from pathlib import Path

from slca.files import replacing, write_json, write_text
from slca.params import Params
from slca.report import figures, inputs, markdown, page, results


def run(params: Params, root: Path = Path(".")) -> None:
    """Writes results.{json,md,html}, metrics.json, figures/*.{svg,png} and training/<run>.csv (the learning curves) to reports/.

    Methods and seeds are those of ``params.train``. Raises DataError that names a missing or contradictory file and
    the stage to run.
    """
    found = inputs.load(params, root)
    built = results.build(params, found)
    reports = root / "reports"
    with replacing(reports / "training") as folder:
        folder.mkdir()
        for name, path in found.curve_files.items():
            shutil.copyfile(root / path, folder / f"{name}.csv")
    with replacing(reports / "figures") as folder:
        folder.mkdir()
        figures.write_all(folder, built, found.curves)
    text = markdown.render(built)
    write_text(reports / "results.md", text)
    write_text(reports / "results.html", page.render(text, reports))
    write_json(reports / "metrics.json", results.headlines(built))
    write_json(reports / "results.json", built)
