"""JSON and YAML files of unknown origin: read whole as plain JSON (``slca.sgls.importers.document``), or refused in one sentence.

No name occurs twice in an object, and sizes are bounded, so nothing behind this module meets a document that it cannot
hash, write or walk.

YAML is read by the core schema of YAML 1.2, as OpenAPI asks, and not by PyYAML's 1.1: ``2026-03-01``, ``no`` and ``12:30`` are
text, ``010`` is ten, and a key is its own text (``200`` of a response is "200"). Merge keys (``<<``) of 1.1 are kept, since
many documents use them. Aliases count as often as they stand there, which is what refuses a document that unfolds without bound.
"""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from slca.errors import DataError
from slca.records import Json
from slca.sgls.importers.document import DEEPEST_DOCUMENT, plain_json

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # a PyYAML built without libyaml: the same documents, about ten times slower
    from yaml import SafeLoader  # type: ignore[assignment]

LARGEST_JSON = 32 << 20
"""Bytes of a JSON file. The largest public API descriptions take about 10 MiB."""

LARGEST_YAML = 16 << 20
"""Bytes of a YAML file, which takes many times longer to read."""

LONGEST_SHOWN = 80
"""Characters of a name or number that a message repeats."""

MOST_UNFOLDED = 2_000_000
"""Values of a YAML file, those behind an alias counted at every use."""

_NULL, _BOOL, _INT, _FLOAT, _STR, _MERGE = (
    f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "merge")
)


def read_document(path: Path) -> Json:
    """The JSON or YAML document in ``path``, as the module says. Raises DataError that names file, fault and place."""
    if not path.is_file():
        raise DataError(f"{path} is no file; name a JSON or YAML document.")
    try:
        with path.open("rb") as stream:
            data = stream.read(LARGEST_JSON + 1)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    is_yaml = _is_yaml(path, data)
    kind, largest = ("YAML", LARGEST_YAML) if is_yaml else ("JSON", LARGEST_JSON)
    if len(data) > largest:
        raise DataError(
            f"{path} is larger than {largest >> 20} MiB, the most for a {kind} document; leave out what is not needed."
        )
    try:
        text = data.decode("utf-8-sig")
        return plain_json(_parse_yaml(text) if is_yaml else parse_json(text), str(path))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise DataError(f"{path} cannot be read as YAML{_place(mark)}: {_cut(str(error.problem or error.context))}.") from None
    except yaml.YAMLError as error:  # characters that YAML does not allow
        raise DataError(f"{path} cannot be read as YAML: {' '.join(str(error).split())}.") from None
    except RecursionError:
        raise DataError(f"{path} cannot be read as {kind}: it is nested more than {DEEPEST_DOCUMENT} levels deep.") from None
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are such
        raise DataError(f"{path} cannot be read as {kind}: {str(error).rstrip('.')}.") from None


def _is_yaml(path: Path, data: bytes) -> bool:
    """By the name's ending; without a known one, JSON is what starts with a bracket."""
    suffix = path.suffix.lower()
    if suffix in (".json", ".yaml", ".yml"):
        return suffix != ".json"
    return not data[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))


def parse_json(text: str) -> Json:
    """Strict JSON: no name twice in an object, finite numbers. Raises ValueError, RecursionError."""
    return json.loads(text, object_pairs_hook=_object, parse_float=_finite, parse_constant=_finite)


def _object(pairs: Sequence[tuple[str, Json]]) -> dict[str, Json]:
    members: dict[str, Json] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the name {_cut(name)!r} occurs twice in one object")
        members[name] = value
    return members


def _finite(text: str) -> float:
    number = float(text.replace("Infinity", "inf"))
    if not math.isfinite(number):
        raise ValueError(f"the number {_cut(text)} is not finite")
    return number


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


class _Loader(SafeLoader):
    """PyYAML's safe loader with the scalars of the YAML 1.2 core schema."""


_Loader.yaml_implicit_resolvers = {}  # none of PyYAML's own

_SCALARS = {
    _NULL: (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    _BOOL: (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    _INT: (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    _FLOAT: (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    _MERGE: (r"<<", ["<"]),
}
for _tag, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), _first)


def _integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    base = {"0o": 8, "0x": 16}.get(node.value[:2], 10)
    return int(node.value, base)


def _number(loader: _Loader, node: yaml.ScalarNode) -> float:
    return _finite(node.value.lower().replace(".inf", "inf").replace(".nan", "nan"))


_Loader.add_constructor(_INT, _integer)
_Loader.add_constructor(_FLOAT, _number)


def _parse_yaml(text: str) -> Json:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_node(node, {}, 0)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check_node(node: yaml.Node, counts: dict[int, int], depth: int) -> int:
    """The number of values that ``node`` unfolds to; ``counts`` remembers those of other nodes. Makes every key text.

    Done on nodes, before anything is unfolded: merging copies. Raises YAMLError, ValueError for what unfolds without
    bound, RecursionError.
    """
    known = counts.get(id(node))
    if known is not None:
        if not known:
            raise yaml.MarkedYAMLError(problem="an alias stands inside what it names", problem_mark=node.start_mark)
        return known
    if depth > DEEPEST_DOCUMENT:
        raise RecursionError
    counts[id(node)] = 0  # under way
    count = 1
    if isinstance(node, yaml.MappingNode):
        _name_keys(node)
        count += sum(1 + _check_node(value, counts, depth + 1) for _, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        count += sum(_check_node(value, counts, depth + 1) for value in node.value)
    if count > MOST_UNFOLDED:
        raise ValueError(f"with its aliases unfolded it holds more than {MOST_UNFOLDED} values")
    counts[id(node)] = count
    return count


def _name_keys(node: yaml.MappingNode) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(problem="a key must be plain text", problem_mark=key.start_mark)
        if key.tag != _MERGE:
            key.tag = _STR
        if key.value in seen:
            raise yaml.MarkedYAMLError(
                problem=f"the key {_cut(key.value)!r} occurs twice in one mapping", problem_mark=key.start_mark
            )
        seen.add(key.value)


def _place(mark: Any) -> str:
    return f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
