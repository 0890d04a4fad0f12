"""A service written out as YAML: its tools and what their calls do, to be read, edited by hand and loaded again.

The format is the catalog's (``slca.sgls.importers.service``): ``domain``, the file's name, and ``tools``. Definitions come back
as they were written; comments, which tell what each tool was taken to do, are for readers only.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from slca.errors import ToolError
from slca.files import write_text
from slca.records import Json
from slca.sgls.tool import Behaviour, Tool

_WIDTH = 128

_ORDER = ("name", "original", "description", "source", "held_out", "behaviour", "route", "parameters", "output")
_NUMBER_LIKE = re.compile(r"[-+.]?[0-9.][0-9a-zA-Z_.:+-]*")

_HEADER = """\
# What each call does to the service's records stands under `behaviour`; slca/sgls/tool.py says what its fields mean.
# Edit freely: a tool without `behaviour` is answered from its `output` schema alone, the same call always the same way.
"""


def write_service(path: Path, name: str, tools: Sequence[Tool]) -> None:
    """Write ``tools`` to ``path``, whole or not at all. Raises ToolError for a name that is not the file's, or a tool of another
    domain: neither would come back from the file."""
    if path.stem != name:
        raise ToolError(f"{path.name}: the service is called {name!r}; it must be the file's name, {path.stem!r}.")
    for tool in tools:
        if tool.domain != name:
            raise ToolError(f"{path.name}: tool {tool.name!r}: domain is {tool.domain!r}; it must be the service's, {name!r}.")
    write_text(path, service_text(name, tools))


def service_text(name: str, tools: Sequence[Tool]) -> str:
    """The file's text."""
    parts = [_HEADER, f"domain: {_dumped(name).removesuffix('...' + chr(10))}", "tools:\n" if tools else "tools: []\n"]
    for tool in tools:
        parts += ["\n", f"# {_told(tool)}\n", _dumped([_definition(tool)])]
    return "".join(parts)


def _definition(tool: Tool) -> dict[str, Json]:
    """The tool as the loader reads it, what is likeliest to be edited first; the domain stands at the top of the file."""
    definition = {**tool.to_json(), "source": tool.source}
    return {key: definition[key] for key in _ORDER if key in definition}


def _told(tool: Tool) -> str:
    """One line on what the tool does, for readers."""
    route = f"{tool.route.method} {tool.route.path}: " if tool.route is not None else ""
    line = "".join(letter if letter.isprintable() else " " for letter in f"{route}{_effect(tool.behaviour)}")
    return " ".join(line.split())


def _effect(behaviour: Behaviour | None) -> str:
    if behaviour is None:
        return "no behaviour, answered from the output schema"
    entity = behaviour.entity
    within = ", ".join(copy.argument for copy in behaviour.copies)
    inside = f", within {within}" if within else ""
    match behaviour.kind:
        case "compute":
            return f"computes {behaviour.function}"
        case "look_up":
            return f"shows one {entity}{inside}"
        case "search":
            filters = ", ".join(
                condition.argument for condition in behaviour.where if condition.argument not in within.split(", ")
            )
            paged = ", in pages" if behaviour.page is not None else ""
            return f"lists every {entity}{inside}{f', filtered by {filters}' if filters else ''}{paged}"
        case "create":
            named = f", called {behaviour.key} if that is given" if behaviour.key is not None else ""
            return f"makes a new {entity}{inside}{named}"
        case "update":
            made = ", or makes it" if behaviour.upsert else ""
            return f"{'replaces' if behaviour.replace else 'changes'} one {entity}{inside}{made}"
        case "delete":
            return f"removes one {entity}{inside}"


class _Dumper(yaml.SafeDumper):
    """Repeats what occurs twice, so that every definition can be read by itself, and quotes what any YAML takes for a number."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    # PyYAML writes YAML 1.1, where 0o17 and 1e5 are words; the loader reads 1.2, where they are numbers.
    style = "'" if _NUMBER_LIKE.fullmatch(value) else None
    if not value.replace("\n", "").isprintable():
        style = '"'  # escapes what other styles write as it is, and readers take for the end of a line
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def _dumped(value: Json) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH, default_flow_style=None)
    return text
