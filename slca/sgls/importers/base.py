"""What every importer gives: tools, and for whatever it could not import the place in the document and the reason.

An importer is a pure function ``(document, source) -> Imported``. ``document`` is parsed JSON, YAML or Parquet rows; ``source``
names it in messages and is the tools' ``source`` and ``domain``. It raises DataError only where the document as a whole is not of
its kind; one bad operation never stops the others.
"""

from dataclasses import dataclass

from slca.sgls.tool import Tool


@dataclass(frozen=True)
class Refused:
    """One operation, tool or row that was not imported. place: a JSON pointer (``#/paths/~1pets/get``), or ``row 12``."""

    place: str
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place} ({self.name}): {self.reason}"


@dataclass(frozen=True)
class Imported:
    """tools: checked, names unique. refused: in the document's order. notes: what was imported with less than the source says."""

    tools: tuple[Tool, ...]
    refused: tuple[Refused, ...] = ()
    notes: tuple[Refused, ...] = ()
