"""Typed values that questions, records and arguments are filled with, in two disjoint parts.

A value belongs to part ``test`` when the hash of (kind, value) falls into one fifth of all hashes, else to ``train``: no value
drawn for the test split is ever drawn for a training task. Names, cities and titles are composed (parts in words.yaml), so that
there are hundreds of them and copying them is the skill to learn, not their spelling. Exempt are closed sets: enums of a
schema, states such as "delayed", and whole numbers below 2, which no split could share out.

Kinds: those of ``KINDS``, ``id:<PREFIX>`` (PREFIX + 3 digits) and ``int:<low>:<high>[:<step>]`` (both ends included).
"""

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal

import yaml

from slca.errors import DataError
from slca.files import derive_seed
from slca.records import Json

Part = Literal["train", "test"]

Words = dict[str, list[str]]


def _pairs(first: Iterable[str], second: Iterable[str], glue: str = " ") -> list[Json]:
    return [f"{a}{glue}{b}" for a, b in product(first, second)]


KINDS: dict[str, Callable[[Words], list[Json]]] = {
    "person": lambda words: _pairs(words["first_names"], words["last_names"]),
    "city": lambda words: [*_pairs(words["city_starts"], words["city_ends"], ""), *words["cities"]],
    "title": lambda words: _pairs(words["title_starts"], words["title_ends"]),
    "song": lambda words: _pairs(words["song_starts"], words["song_ends"]),
    "item": lambda words: _pairs(words["colours"], words["things"]),
    "text": lambda words: _pairs(words["verbs"], words["objects"]),
    "room": lambda words: _pairs(words["room_places"], words["rooms"]),
    "place": lambda words: _pairs(words["place_starts"], words["place_ends"]),
    "date": lambda _: [(date(2026, 1, 1) + timedelta(days=n)).isoformat() for n in range(720)],
    "time": lambda _: [f"{hour:02d}:{minute:02d}" for hour in range(6, 23) for minute in range(0, 60, 5)],
    "phone": lambda _: [f"555-{n:04d}" for n in range(1000, 10000, 7)],
    "seat": lambda _: [f"{row}{letter}" for row in range(1, 41) for letter in "ABCDEF"],
    "gate": lambda _: [f"{letter}{n}" for letter in "ABCDEFGH" for n in range(1, 41)],
}
"""Kind -> all its values."""


def part_of(kind: str, value: Json) -> Part:
    """The part that ``value`` belongs to; numbers and ids belong to one part in whatever range or context they are drawn."""
    return "test" if derive_seed("part", kind.partition(":")[0], value) % 5 == 0 else "train"


def draw(kind: str | Sequence[Json], rng: random.Random, part: Part) -> Json:
    """One value of ``kind``; a list in place of a kind is a closed set, which both parts share. Raises DataError if unknown."""
    return rng.choice(kind if not isinstance(kind, str) else pool(kind, part))


@cache
def pool(kind: str, part: Part) -> tuple[Json, ...]:
    """All values of ``kind`` in ``part``. Raises DataError for a kind that does not exist."""
    name, _, rest = kind.partition(":")
    if kind in KINDS:
        values: Iterable[Json] = KINDS[kind](_words())
    elif name == "id" and rest:
        values = (f"{rest}{n}" for n in range(100, 1000))
    elif name == "int" and rest.count(":") in (1, 2) and all(bound.lstrip("-").isdigit() for bound in rest.split(":")):
        low, high, step = ([int(bound) for bound in rest.split(":")] + [1])[:3]
        values = range(low, high + 1, step)
    else:
        known = ", ".join((*KINDS, "id:<PREFIX>", "int:<low>:<high>[:<step>]"))
        raise DataError(f"There is no kind of value {kind!r}; use one of: {known}.")
    chosen = tuple(value for value in values if (isinstance(value, int) and value < 2) or part_of(kind, value) == part)
    if not chosen:
        raise DataError(f"The kind of value {kind!r} has no value in part {part!r}; widen its range.")
    return chosen


@cache
def _words() -> Words:
    words: Words = yaml.safe_load((Path(__file__).parent / "words.yaml").read_text(encoding="utf-8"))
    return words
