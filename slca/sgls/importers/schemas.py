"""Schemas of a foreign document as JSON Schema 2020-12 that stands by itself and validates by construction.

``Schemas.convert`` walks one schema: its dialect's words are translated, each keyword's value is checked, references become
``#/$defs/NAME``. Each referenced schema is converted once per document, and tools share the result: it is not to be changed.
``Schemas.closed`` adds the definitions that can be reached, and no others.

* What has no place in 2020-12 (``discriminator``, ``xml``, ``externalDocs``, extensions) is left out; the choice that a
  discriminator speaks of stays.
* A keyword whose value is none for it (``required: true``, a pattern that cannot be used) is left out with a note.
* Requests lose read-only properties, answers lose write-only ones.
* Where a base lists its children as a choice and a child builds on the base by ``allOf``, the child gets the base without the
  choice (``NAME_base``), or no value could ever be checked.
* Patterns are those that ``slca.sgls.regexes`` takes.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

from slca.records import Json
from slca.sgls import validation
from slca.sgls.importers.base import Refused
from slca.sgls.importers.dialects import Dialect
from slca.sgls.importers.document import Document, Fault, pointer, tokens
from slca.sgls.regexes import BadPattern, compiled_pattern

Side = Literal["request", "answer"]

DEEPEST_SCHEMA = validation.DEEPEST_SCHEMA // 2 - 2
"""Levels of schemas within one schema, references not counted. A level is two of JSON (``properties`` and a name, ``allOf`` and a
place), and definitions lie two below the top."""
LONGEST_TEXT = 400
"""Characters of a title or description inside a schema; a longer one is cut at its end, visibly."""
MOST_IN_A_ROW = DEEPEST_SCHEMA
"""Schemas that may apply to one and the same value, one inside the other: what a validator's stack takes."""
MOST_DEFINITIONS = 2000
"""Definitions that one tool may need."""
MOST_GATHERED = 500_000
"""Definitions that are gathered for all tools of a document together. Google's largest document, 1,600 methods, takes 9,000."""

_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_UNSEEN = {"request": "readOnly", "answer": "writeOnly"}
_PREFIX = "#/$defs/"


class _Bad(Exception):
    """A keyword's value is none that the keyword may have; the message says what it must be."""


def shortened(text: str, limit: int) -> str:
    """``text`` of at most ``limit`` characters; a longer one ends in ``[...]``."""
    return text if len(text) <= limit else f"{text[: limit - 6].rstrip()} [...]"


class Schemas:
    """The schemas of one document. notes: what was left out of them so far, with its place."""

    def __init__(self, document: Document, dialect: Dialect) -> None:
        self._document = document
        self._dialect = dialect
        self._names: dict[tuple[str, bool], str] = {}
        self._targets: dict[str, str] = {}
        self._bases: set[str] = set()
        self._definitions: dict[tuple[str, Side], Json | Fault] = {}
        self._edges: dict[tuple[str, Side], tuple[str, ...]] = {}
        self._closures: dict[tuple[tuple[str, ...], Side], dict[str, Json]] = {}
        self._heights: dict[tuple[str, Side], int] = {}
        self._gathered = 0
        self._noted: dict[tuple[str, str], Refused] = {}

    @property
    def notes(self) -> tuple[Refused, ...]:
        return tuple(self._noted.values())

    def convert(self, node: Json, place: str, side: Side) -> Json:
        """``node`` in 2020-12: an object or a boolean, with references into ``$defs``. Raises Fault."""
        return self._converted(node, place, side, 0)

    def definition(self, name: str, side: Side) -> Json:
        """The converted schema that ``#/$defs/name`` stands for. Raises Fault."""
        key = (name, side)
        if key not in self._definitions:
            target = self._targets[name]
            try:
                node = self._document.at(target, target)
                if name in self._bases:
                    node = {keyword: value for keyword, value in node.items() if keyword not in _CHOICES}
                self._definitions[key] = self._converted(node, target, side, 0)
            except Fault as fault:
                self._definitions[key] = fault
        found = self._definitions[key]
        if isinstance(found, Fault):
            raise Fault(found.place, found.reason)
        return found

    def opened(self, schema: Json, side: Side) -> Json:
        """``schema``, or what it refers to where it is nothing but a reference (and a description). Raises Fault for a circle."""
        seen: set[str] = set()
        while isinstance(schema, dict) and "$ref" in schema and schema.keys() <= {"$ref", "description", "title"}:
            name = schema["$ref"].removeprefix(_PREFIX)
            if name in seen:
                raise Fault(self._targets[name], "the schema refers to itself in a circle")
            seen.add(name)
            schema = self.definition(name, side)
        return schema

    def closed(self, schema: dict[str, Json], side: Side) -> dict[str, Json]:
        """``schema`` with the ``$defs`` that it needs. Raises Fault where one cannot be had, or no value can be checked."""
        definitions = self._closure(tuple(sorted(set(references(schema)))), side)
        return {**schema, "$defs": definitions} if definitions else schema

    def _closure(self, names: tuple[str, ...], side: Side) -> dict[str, Json]:
        if (names, side) not in self._closures:
            found = set(names)
            waiting = list(names)  # in a fixed order, since definitions are named when they are first met
            for name in waiting:
                self._gathered += 1
                if self._gathered > MOST_GATHERED:
                    raise Fault(self._targets[names[0]], f"the document's tools need more than {MOST_GATHERED} schemas together")
                if len(found) > MOST_DEFINITIONS:
                    raise Fault(self._targets[names[0]], f"it leads to more than {MOST_DEFINITIONS} other schemas")
                further = [other for other in self._leads_to(name, side) if other not in found]
                found.update(further)
                waiting += further
            self._closures[names, side] = {name: self.definition(name, side) for name in sorted(found)}
        return self._closures[names, side]

    def _leads_to(self, name: str, side: Side) -> tuple[str, ...]:
        """The definitions that the one called ``name`` refers to. Raises Fault where it cannot be had or checked against."""
        if (name, side) not in self._edges:
            definition = self.definition(name, side)
            if self._height({"$ref": _PREFIX + name}, side, (), 0) > MOST_IN_A_ROW:
                raise Fault(self._targets[name], f"more than {MOST_IN_A_ROW} schemas in a row apply to the same value")
            self._edges[name, side] = tuple(dict.fromkeys(references(definition)))
        return self._edges[name, side]

    def _height(self, schema: Json, side: Side, above: tuple[str, ...], level: int) -> int:
        """How many schemas in a row ``schema`` applies to one and the same value.

        Raises Fault where that has no end, or is more than the stack of a validator takes.
        """
        height = 0
        if level > MOST_IN_A_ROW and above:
            raise Fault(self._targets[above[0]], f"more than {MOST_IN_A_ROW} schemas in a row apply to the same value")
        for part in in_place(schema):
            if isinstance(part, str):
                if part in above:
                    raise Fault(self._targets[part], "the schema applies itself to the same value without end")
                if (part, side) not in self._heights:
                    self._heights[part, side] = self._height(self.definition(part, side), side, (*above, part), level + 1)
                inner = self._heights[part, side]
            else:
                inner = self._height(part, side, above, level + 1)
            height = max(height, 1 + inner)
        return height

    def _converted(self, node: Json, place: str, side: Side, depth: int) -> Json:
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict):
            self._note(place, "a schema must be an object or a boolean; anything is accepted here")
            return {}
        if depth > DEEPEST_SCHEMA:
            raise Fault(place, f"schemas are nested deeper than {DEEPEST_SCHEMA} levels")
        new: dict[str, Json] = {}
        for keyword, value in self._dialect(node).items():
            rule = _RULES.get(keyword)
            try:
                if rule is not None:
                    new[keyword] = rule(value)
                elif keyword in _INNER:
                    self._inner(new, keyword, value, place, side, depth)
            except _Bad as problem:
                self._note(f"{place}/{keyword}", f"{keyword} must be {problem}; it is left out")
        self._hide(new, node, side)
        if new.get("additionalProperties") is False and "allOf" in new and self._parts_declare_more(node):
            del new["additionalProperties"]
            reason = "false beside allOf refuses the very properties that allOf describes; it is left out"
            self._note(f"{place}/additionalProperties", reason)
        return new

    def _parts_declare_more(self, node: dict[str, Json]) -> bool:
        """Whether the parts of ``allOf`` declare properties that the schema itself does not."""
        own = node.get("properties")
        known = own.keys() if isinstance(own, dict) else set()
        waiting, seen = [node], set()
        for schema in waiting:
            parts = schema.get("allOf")
            for part in parts if isinstance(parts, list) else ():
                try:
                    target, _ = self._document.follow(part, "")
                except Fault:
                    continue
                if isinstance(target, dict) and id(target) not in seen:
                    seen.add(id(target))
                    waiting.append(target)
                    declared = target.get("properties")
                    if isinstance(declared, dict) and not declared.keys() <= known:
                        return True
        return False

    def _inner(self, new: dict[str, Json], keyword: str, value: Json, place: str, side: Side, depth: int) -> None:
        """Convert the schemas under ``keyword`` into ``new``. Raises _Bad."""

        def inside(schema: Json, *tokens: str) -> Json:
            return self._converted(schema, f"{place}/{pointer(keyword, *tokens)[2:]}", side, depth + 1)

        if keyword == "$ref":
            new["$ref"] = _PREFIX + self._name(_text(value), place)
        elif keyword == "allOf" and isinstance(value, list) and value:
            new["allOf"] = [
                {"$ref": _PREFIX + self._name(part["$ref"], f"{place}/allOf/{index}", is_base=True)}
                if self._lists(part, place)
                else inside(part, str(index))
                for index, part in enumerate(value)
            ]
        elif keyword in ("allOf", *_CHOICES, "prefixItems") or (keyword == "items" and isinstance(value, list)):
            if not isinstance(value, list) or not value:
                raise _Bad("a list of schemas")
            # A list of items is how older drafts spell prefixItems.
            new["prefixItems" if keyword == "items" else keyword] = [inside(part, str(index)) for index, part in enumerate(value)]
        elif keyword in ("properties", "patternProperties", "dependentSchemas"):
            if not isinstance(value, dict):
                raise _Bad("an object of schemas")
            names = [_pattern(name) for name in value] if keyword == "patternProperties" else value
            new[keyword] = {name: inside(value[name], name) for name in names}
        else:
            new[keyword] = inside(value)

    def _hide(self, new: dict[str, Json], node: dict[str, Json], side: Side) -> None:
        """Take out the properties that this side does not see, and the demand for them."""
        properties = node.get("properties")
        if not isinstance(new.get("properties"), dict) or not isinstance(properties, dict):
            return
        hidden = {name for name in new["properties"] if self._is_unseen(properties[name], side)}
        if hidden:
            new["properties"] = {name: schema for name, schema in new["properties"].items() if name not in hidden}
            if "required" in new:
                new["required"] = [name for name in new["required"] if name not in hidden]

    def _is_unseen(self, schema: Json, side: Side) -> bool:
        if not isinstance(schema, dict):
            return False
        if schema.get(_UNSEEN[side]) is True:
            return True
        try:
            target, _ = self._document.follow(self._dialect(schema), "")
        except Fault:
            return False
        return isinstance(target, dict) and target.get(_UNSEEN[side]) is True

    def _lists(self, part: Json, place: str) -> bool:
        """Whether ``part`` refers to a schema that has the one at ``place`` among its choices."""
        if not isinstance(part, dict) or not isinstance(part.get("$ref"), str):
            return False
        base = self._document.at(part["$ref"], place)
        choices = [base.get(keyword) for keyword in _CHOICES] if isinstance(base, dict) else []
        branches = [branch for choice in choices if isinstance(choice, list) for branch in choice]
        return any(isinstance(branch, dict) and branch.get("$ref") == place for branch in branches)

    def _name(self, target: str, place: str, is_base: bool = False) -> str:
        """The definition's name for a reference: the end of its pointer, with a number where another has that name."""
        self._document.at(target, f"{place}/$ref")
        target = pointer(*tokens(target))  # however it is spelled
        key = (target, is_base)
        if key not in self._names:
            last = re.sub(r"[^A-Za-z0-9._-]+", "_", tokens(target)[-1] if target != "#" else "") or "_"
            wanted = name = f"{last}_base" if is_base else last
            number = 1
            while name in self._targets:
                number += 1
                name = f"{wanted}_{number}"
            self._names[key] = name
            self._targets[name] = target
            if is_base:
                self._bases.add(name)
        return self._names[key]

    def _note(self, place: str, reason: str) -> None:
        name = place.rsplit("/", 1)[-1]
        self._noted[place, reason] = Refused(place, name, reason)


def references(schema: Json) -> Iterator[str]:
    """The names under ``$defs`` that a converted schema refers to, in its order."""
    if isinstance(schema, dict):
        for keyword, value in schema.items():
            if keyword == "$ref":
                yield value.removeprefix(_PREFIX)
            elif keyword in _OF_NAMES:
                for part in value.values():
                    yield from references(part)
            elif keyword in _INNER:
                yield from references(value)
    elif isinstance(schema, list):
        for part in schema:
            yield from references(part)


def in_place(schema: Json) -> Iterator[Json]:
    """What a converted schema applies to the very value that it is applied to: names under ``$defs``, and schemas."""
    if isinstance(schema, dict):
        for keyword, value in schema.items():
            if keyword == "$ref":
                yield value.removeprefix(_PREFIX)
            elif keyword in _IN_PLACE:
                yield from value if isinstance(value, list) else [value]
            elif keyword == "dependentSchemas":
                yield from value.values()


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise _Bad("a text")
    return value


def _short(value: Json) -> str:
    return shortened(_text(value), LONGEST_TEXT)


def _flag(value: Json) -> bool:
    if not isinstance(value, bool):
        raise _Bad("true or false")
    return value


def _number(value: Json) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        raise _Bad("a number")
    return value


def _positive(value: Json) -> int | float:
    if not _number(value) > 0:
        raise _Bad("a number above 0")
    return _number(value)


def _count(value: Json) -> int:
    number = _number(value)
    if number < 0 or number != int(number) or number > 2**53:
        raise _Bad("a whole number of at least 0")
    return int(number)


def _pattern(value: Json) -> str:
    text = _text(value)
    try:
        compiled_pattern(text)
    except BadPattern as bad:
        raise _Bad(f"a pattern that can be used ({bad})") from None
    return text


def _type(value: Json) -> Json:
    kinds = value if isinstance(value, list) else [value]
    if not kinds or any(kind not in _TYPES for kind in kinds):
        raise _Bad(f"one of {', '.join(_TYPES)}")
    unique = list(dict.fromkeys(kinds))
    return unique if len(unique) > 1 else unique[0]


def _names(value: Json) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise _Bad("a list of names")
    return list(dict.fromkeys(value))


def _needs(value: Json) -> dict[str, list[str]]:
    if not isinstance(value, dict):
        raise _Bad("an object of lists of names")
    return {name: _names(needed) for name, needed in value.items()}


def _values(value: Json) -> list[Json]:
    if not isinstance(value, list) or not value:
        raise _Bad("a list of values")
    return value


_RULES: dict[str, Callable[[Json], Any]] = {
    **dict.fromkeys(("title", "description"), _short),
    **dict.fromkeys(("format", "contentMediaType", "contentEncoding"), _text),
    **dict.fromkeys(("readOnly", "writeOnly", "deprecated", "uniqueItems"), _flag),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _count),
    **dict.fromkeys(("minContains", "maxContains"), _count),
    **dict.fromkeys(("default", "const"), lambda value: value),
    **dict.fromkeys(("enum", "examples"), _values),
    "multipleOf": _positive,
    "pattern": _pattern,
    "type": _type,
    "required": _names,
    "dependentRequired": _needs,
}
"""What a keyword's value must be, for the keywords that hold no schemas."""

_CHOICES = ("oneOf", "anyOf")
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_OF_NAMES = ("properties", "patternProperties", "dependentSchemas")
_INNER = {
    *("$ref", *_IN_PLACE, *_OF_NAMES, "prefixItems", "items", "contains", "additionalProperties", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties"),
}
"""Keywords that hold schemas."""
