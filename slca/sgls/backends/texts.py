"""Short, plausible strings that meet a schema's ``format``, ``pattern`` and lengths, where the three can be met together."""

import random
from typing import Any

from slca.sgls.backends import patterns, words
from slca.sgls.regexes import BadPattern, TooCostly, finds
from slca.sgls.validation import FORMATS

TRIES = 24
LONGEST = 20_000
"""Characters; a schema that wants more gets nothing."""
PATTERNS = "x-patterns"
"""Keyword of this backend's own: further patterns, where several schemas were joined into one."""


def text(schema: dict[str, Any], name: str, rng: random.Random) -> str | None:
    """A string for a property called ``name``; None where none is found."""
    for attempt in range(TRIES if schema.get("minLength", 0) <= LONGEST else 0):
        drawn = _drawn(schema, name, rng, attempt)
        if _fits(schema, drawn):
            return drawn
    return None


def _drawn(schema: dict[str, Any], name: str, rng: random.Random, attempt: int) -> str:
    least, most = int(schema.get("minLength", 0)), schema.get("maxLength")
    format_name, known = schema.get("format"), _patterns(schema)
    pattern = known[attempt % len(known)] if known else None
    if format_name in words.FORMATS and not (pattern is not None and attempt % 2):
        drawn = (words.SHORT_FORMATS if attempt and format_name in words.SHORT_FORMATS else words.FORMATS)[format_name](rng)
        return words.lengthened(drawn, format_name, least)
    found = patterns.matching(pattern, rng, least, attempt) if pattern is not None else None
    if found is not None and _fits(schema, found):
        return found
    drawn = words.text_for(name)(rng) if found is None else found
    while len(drawn) < least:
        drawn += rng.choice("abcdefghijklmnopqrstuvwxyz")
    return drawn if most is None else drawn[: int(most)]


def _patterns(schema: dict[str, Any]) -> list[str]:
    return [*([schema["pattern"]] if "pattern" in schema else []), *schema.get(PATTERNS, ())]


def _fits(schema: dict[str, Any], text: str) -> bool:
    if not schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", len(text)):
        return False
    if schema.get("format") in FORMATS and not FORMATS[schema["format"]][0](text):
        return False
    try:
        return all(finds(pattern, text) for pattern in _patterns(schema))
    except (BadPattern, TooCostly):
        return False
