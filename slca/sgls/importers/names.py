"""Names for chat formats and Python calls, made from whatever a document calls its operations and parameters.

A safe name holds ASCII letters, digits and ``_``, starts with a letter or ``_`` and has at most 64 characters. What is safe
already stays as it is, so a document with clean names keeps all of them. The same originals always give the same names.
"""

import keyword
import re
import unicodedata
from collections.abc import Callable, Sequence

from slca.files import digest
from slca.sgls.tool import NAME_PATTERN

LONGEST_NAME = 64
ARGUMENT_PATTERN = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")

_SPOKEN = {"<": "_lt_", ">": "_gt_", "+": "_plus_"}
"""Signs that tell names apart in real documents (``StartTime>``)."""
_LETTERS = dict(zip("ßæÆœŒøØłŁđĐ", ("ss", "ae", "AE", "oe", "OE", *"oOlLdD"), strict=True))
"""Latin letters that Unicode does not split into a base letter and an accent."""


def tool_names(originals: Sequence[str]) -> tuple[str, ...]:
    """A safe, distinct tool name for each original, in order."""
    return _distinct(originals, _tool_name, [()] * len(originals))


def argument_names(places: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """A safe, distinct argument name for each (original, part of the request): of two ``id`` the second is ``id_query``."""
    return _distinct([name for name, _ in places], argument_name, [(part,) for _, part in places])


def argument_name(text: str) -> str:
    """The name that a parameter or property has as an argument, where no other one wants it. Python's keywords end in ``_``."""
    name = text if ARGUMENT_PATTERN.fullmatch(text) else _plain(text) or "argument"
    return f"{name}_" if keyword.iskeyword(name) else name


def route_name(method: str, path: str) -> str:
    """What an operation without a name of its own is called: ``GET /pets/{id}/toys`` -> ``get_pets_by_id_toys``."""
    return f"{method.lower()}_{path.replace('{', 'by_')}"


def _tool_name(text: str) -> str:
    return text if NAME_PATTERN.fullmatch(text) else _plain(text) or "tool"


def _plain(text: str) -> str:
    for sign, letters in (_SPOKEN | _LETTERS).items():
        text = text.replace(sign, letters)
    letters = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    letters = "".join(letter if letter.isascii() or not letter.isalnum() else f"_u{ord(letter):x}_" for letter in letters)
    name = re.sub(r"[^a-zA-Z0-9]+", "_", letters).strip("_")
    return _cut(f"_{name}" if name[:1].isdigit() else name)


def _cut(name: str) -> str:
    """A name that is too long ends in a digest of the whole, so that two with the same beginning stay apart."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 9].rstrip('_')}_{digest(name)[:8]}"


def _distinct(originals: Sequence[str], safe: Callable[[str], str], endings: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Originals that are safe come first and keep their name; the others take what is left, by an ending, then by a number."""
    names: dict[int, str] = {}
    taken: set[str] = set()
    for index, original in enumerate(originals):
        if original not in taken and safe(original) == original:
            names[index] = original
            taken.add(original)
    last: dict[str, int] = {}
    for index, original in enumerate(originals):
        if index in names:
            continue
        name = base = safe(original)
        for ending in endings[index]:
            if name in taken:
                name = base = _cut(f"{base}_{ending}")
        while name in taken:
            last[base] = last.get(base, 1) + 1
            name = _cut(f"{base}_{last[base]}")
        names[index] = name
        taken.add(name)
    return tuple(names[index] for index in range(len(originals)))
