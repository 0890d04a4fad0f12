"""Random JSON Schemas that are satisfiable by construction: each is built around a value that it accepts.

``random_schema`` takes any ``random.Random``, so that hypothesis draws from it (``schemas``) and a benchmark counts with it.
"""

import random
from typing import Any

import jsonschema
from hypothesis import strategies as st

from slca.sgls.validation import FORMATS

Json = Any

TEXTS = {
    "AB-12": (r"^[A-Z]{2}-\d{2}$", r"-", r"^\w+-\w+$"),
    "red7": (r"^(red|blue)\d?$", r"\d", r"^[a-z0-9]+$"),
    "Zürich": (r"^\p{L}+$", r"[À-ÿ]"),
    "a/b": (r"^\w\/\w$", r"^[^ ]+$"),
    "x.y@mail.org": (r"^\S+@\S+\.(com|org)$",),
    "": (r"^$", r"^\d*$"),
    "Abc1defg": (r"^(?=.*[A-Z])(?=.*\d).{8,}$",),
}
"""Text -> patterns that accept it."""
FORMATTED = {
    "2026-03-01": "date",
    "18:30:00Z": "time",
    "2026-03-01T18:30:00Z": "date-time",
    "x@y.org": "email",
    "https://example.org/a": "uri",
    "00000000-0000-4000-a000-000000000000": "uuid",
}
NAMES = ("city", "price", "bookingId", "start_date", "status", "user name", "x-1", "x-2", "kind")


def random_schema(rng: random.Random) -> tuple[dict[str, Json], Json]:
    """A schema, and a value that it accepts."""
    while True:
        value = random_value(rng, 3)
        maker = _Maker(rng)
        schema = maker.around(value, 3)
        if maker.definitions:
            schema = {**schema, "$defs": maker.definitions}
        if accepts(schema, value):
            return schema, value


def accepts(schema: Json, value: Json) -> bool:
    """Whether jsonschema itself accepts ``value``, with patterns in Python's dialect, and formats asserted as we assert them."""
    return jsonschema.Draft202012Validator(_for_python(schema), format_checker=_FORMATS).is_valid(value)


_FORMATS = jsonschema.FormatChecker(formats=())
for _name, (_test, _) in FORMATS.items():
    _FORMATS.checks(_name)(lambda value, test=_test: not isinstance(value, str) or test(value))


def _for_python(schema: Json) -> Json:
    if isinstance(schema, dict):
        return {key: _for_python(value) for key, value in schema.items()}
    if isinstance(schema, str):
        return schema.replace(r"\p{L}", r"[^\W\d_]")
    return [_for_python(item) for item in schema] if isinstance(schema, list) else schema


schemas: st.SearchStrategy[dict[str, Json]] = st.integers(0, 2**32).map(lambda seed: random_schema(random.Random(seed))[0])


def random_value(rng: random.Random, depth: int) -> Json:
    kind = rng.choice(
        ["object", "object", "array", "text", "formatted", "integer", "number", "boolean", "null"][2 * (not depth) :]
    )
    match kind:
        case "object":
            names = rng.sample(NAMES, rng.randrange(5))
            return {name: random_value(rng, depth - 1) for name in names}
        case "array":
            if not depth or rng.random() < 0.5:
                return [rng.randrange(50) for _ in range(rng.randrange(4))]
            return [random_value(rng, depth - 1) for _ in range(rng.randrange(4))]
        case "text":
            return rng.choice(list(TEXTS))
        case "formatted":
            return rng.choice(list(FORMATTED))
        case "integer":
            return rng.choice([0, 3, 12, 70, -5, 2026, 10**6])
        case "number":
            return rng.choice([0.5, 1.25, -3.75, 99.5])
        case "boolean":
            return rng.random() < 0.5
        case _:
            return None


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.definitions: dict[str, Json] = {}

    def maybe(self, share: float = 0.4) -> bool:
        return self.rng.random() < share

    def around(self, value: Json, depth: int) -> dict[str, Json]:
        """A schema that accepts ``value``."""
        rng = self.rng
        plain = self.typed(value, depth)
        if not depth:
            return plain
        other = random_value(rng, 1)
        match rng.choice(["plain", "plain", "plain", "enum", "const", "allOf", "anyOf", "oneOf", "not", "if", "ref", "types"]):
            case "enum":
                values = [value, *(item for item in (other, "blue", 4) if item != value)]
                rng.shuffle(values)
                return {"enum": values, **(plain if self.maybe() else {})}
            case "const":
                return {"const": value, **(plain if self.maybe() else {})}
            case "allOf":
                parts = [self.around(value, depth - 1) for _ in range(rng.randint(1, 3))]
                return {"allOf": parts, **(plain if self.maybe() else {})}
            case "anyOf":
                return {"anyOf": self.shuffled(self.around(value, depth - 1), self.around(other, depth - 1))}
            case "oneOf":
                branches = self.shuffled(plain, self.around(other, depth - 1), {"type": "string", "maxLength": 0})
                return {"oneOf" if sum(accepts(self.whole(part), value) for part in branches) == 1 else "anyOf": branches}
            case "not":
                unwanted = self.around(other, depth - 1)
                return plain if accepts(self.whole(unwanted), value) else {**plain, "not": unwanted}
            case "if":
                condition = self.around(self.rng.choice([value, other]), depth - 1)
                holds = accepts(self.whole(condition), value)
                chosen, left = self.around(value, depth - 1), self.around(other, depth - 1)
                return {**plain, "if": condition, "then" if holds else "else": chosen, "else" if holds else "then": left}
            case "ref":
                name = f"d{len(self.definitions)}"
                self.definitions[name] = True
                self.definitions[name] = self.around(value, depth - 1)
                return {"$ref": f"#/$defs/{name}", **(plain if self.maybe(0.3) else {})}
            case "types":
                kind = plain.get("type")
                return {**plain, "type": self.shuffled(kind, "boolean" if kind != "boolean" else "null")} if kind else plain
            case _:
                return plain

    def whole(self, schema: dict[str, Json]) -> dict[str, Json]:
        return {**schema, "$defs": self.definitions}

    def shuffled(self, *items: Json) -> list[Json]:
        self.rng.shuffle(mixed := list(items))
        return mixed

    def typed(self, value: Json, depth: int) -> dict[str, Json]:
        if value is None:
            return {"type": "null"}
        if isinstance(value, bool):
            return {"type": "boolean"}
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int | float):
            return self.number(value)
        return self.array(value, depth) if isinstance(value, list) else self.object(value, depth)

    def text(self, value: str) -> dict[str, Json]:
        schema: dict[str, Json] = {"type": "string"}
        if value in FORMATTED and self.maybe(0.7):
            schema["format"] = FORMATTED[value]
        elif value in TEXTS and self.maybe(0.7):
            schema["pattern"] = self.rng.choice(TEXTS[value])
        if self.maybe(0.3):
            schema["minLength"] = max(0, len(value) - self.rng.randrange(4))
        if self.maybe(0.3):
            schema["maxLength"] = len(value) + self.rng.randrange(8)
        return schema

    def number(self, value: int | float) -> dict[str, Json]:
        schema: dict[str, Json] = {"type": "integer" if isinstance(value, int) and self.maybe(0.8) else "number"}
        if self.maybe():
            schema[self.rng.choice(["minimum", "exclusiveMinimum"])] = value - self.rng.choice([0.5, 1, 7, 100])
        if self.maybe():
            schema[self.rng.choice(["maximum", "exclusiveMaximum"])] = value + self.rng.choice([0.5, 1, 7, 100])
        if self.maybe(0.2):
            schema["multipleOf"] = self.rng.choice([step for step in (0.25, 1, 2, 3, 5, 7, 10) if value % step == 0] or [0.25])
        return schema

    def array(self, value: list[Json], depth: int) -> dict[str, Json]:
        schema: dict[str, Json] = {"type": "array"}
        if value and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
            schema["items"] = {"type": "integer", "minimum": min(value), "maximum": max(value) + self.rng.randrange(3)}
        elif value and self.maybe(0.7):
            schema["prefixItems"] = [self.around(item, max(0, depth - 1)) for item in value]
            if self.maybe():
                schema["items"] = False
        if self.maybe(0.3):
            schema["minItems"] = max(0, len(value) - self.rng.randrange(2))
        if self.maybe(0.3):
            schema["maxItems"] = len(value) + self.rng.randrange(3)
        distinct = len({str(item) for item in value}) == len(value)
        if distinct and self.maybe(0.3):
            schema["uniqueItems"] = True
        if value and self.maybe(0.3):
            schema["contains"] = self.around(self.rng.choice(value), max(0, depth - 1))
            matching = sum(accepts(self.whole(schema["contains"]), item) for item in value)
            if self.maybe():
                schema["minContains"] = self.rng.randint(0, matching)
            if self.maybe():
                schema["maxContains"] = matching + self.rng.randrange(2)
        return schema

    def object(self, value: dict[str, Json], depth: int) -> dict[str, Json]:
        rng = self.rng
        names = list(value)
        patterned = [name for name in names if name.startswith("x-")] if self.maybe() else []
        declared = {
            name: self.around(value[name], max(0, depth - 1)) for name in names if name not in patterned and self.maybe(0.9)
        }
        schema: dict[str, Json] = {"type": "object", "properties": declared}
        if patterned:
            branches = [self.around(value[name], 0) for name in patterned]
            schema["patternProperties"] = {r"^x-\d$": branches[0] if len(branches) == 1 else {"anyOf": branches}}
        absent = [name for name in NAMES if name not in value]
        if self.maybe(0.2) and absent:
            declared[absent[0]] = self.around(random_value(rng, 0), 0)
        schema["required"] = [name for name in names if self.maybe(0.6)]
        if len(declared) + len(patterned) >= len(names) and self.maybe():
            schema["additionalProperties"] = False
        elif self.maybe(0.2):
            schema["additionalProperties"] = True
        if self.maybe(0.2):
            schema["minProperties"] = max(0, len(value) - rng.randrange(2))
        if self.maybe(0.2):
            schema["maxProperties"] = len(value) + rng.randrange(3)
        if self.maybe(0.2):
            schema["propertyNames"] = rng.choice([{"maxLength": 10}, {"enum": [*NAMES]}, {"pattern": "^[a-zA-Z]"}])
        if names and self.maybe(0.2):
            schema["dependentRequired"] = {rng.choice(names): rng.sample(names, min(2, len(names)))}
        if names and depth and self.maybe(0.2):
            schema["dependentSchemas"] = {rng.choice(names): self.object(value, 0)}
        return schema
