"""How people ask for a tool and how a good reply reads: the files ``phrasings/<domain>.yaml``, read and checked.

Notation of a question: ``{slot}`` is an argument; ``[with {slot}|without]`` gives its left side when all its slots have values,
else its right side (empty when not written). A required argument that occurs in brackets only can be left out: that makes the
question of a missing-parameter task. ``test`` questions are held out of training. In a reply, slots are fields of the
call's result.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slca.errors import DataError
from slca.records import Json
from slca.tasks.values import Part

FOLDER = Path(__file__).parent / "phrasings"

_BRACKET = re.compile(r"\[([^\[\]|]*)(?:\|([^\[\]|]*))?\]")
_SLOT = re.compile(r"\{(\w+)\}")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Phrases(_Frozen):
    train: tuple[str, ...]
    test: tuple[str, ...]
    replies: tuple[str, ...] = ()

    def questions(self, part: Part) -> tuple[str, ...]:
        return self.train if part == "train" else self.test


class ToolPhrases(_Phrases):
    """Questions and replies of one tool."""


class ChainPhrases(_Phrases):
    """Questions that need two steps. link: argument of the second call <- field of the first result (or of its only record).

    ``fixed`` sets slots to one value. The reply is that of the second tool.
    """

    steps: tuple[str, str]
    link: dict[str, str]
    fixed: dict[str, Json] = {}


class Entity(_Frozen):
    """Records of one kind in the state: ids are ``prefix`` + digits, ``fields`` are slots."""

    prefix: str
    fields: tuple[str, ...]


class Follows(_Frozen):
    """A slot whose values depend on another ``slot``'s: ``values[that value]`` are the choices."""

    slot: str
    values: dict[str, tuple[Json, ...]]


class Domain(_Frozen):
    """One file. slots: argument or record field -> kind of value (``slca.tasks.values``), a closed list, or ``ref:<entity>``."""

    domain: str
    slots: dict[str, str | tuple[Json, ...]]
    follows: dict[str, Follows] = {}
    nouns: dict[str, str] = Field(default={}, description="what an argument is called when it is asked for")
    records: dict[str, Entity]
    tools: dict[str, ToolPhrases]
    chains: tuple[ChainPhrases, ...] = ()

    def noun(self, argument: str) -> str:
        return self.nouns.get(argument, words(argument))


@dataclass(frozen=True)
class Book:
    """All domains' phrasings, and requests that no tool at all serves."""

    domains: Mapping[str, Domain]
    out_of_scope: ToolPhrases


@lru_cache(maxsize=1)
def load_book(folder: Path = FOLDER) -> Book:
    """Every phrasing file of ``folder``. Raises DataError that names file, field and fault."""
    domains = {}
    out_of_scope = ToolPhrases(train=(), test=())
    for path in sorted(folder.glob("*.yaml")):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.stem == "out_of_scope":
            out_of_scope = _checked(ToolPhrases, content, path)
        else:
            domains[path.stem] = _checked(Domain, content, path)
    return Book(domains, out_of_scope)


def _checked(model: Any, content: Any, path: Path) -> Any:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise DataError(f"{path.name}: field {field}: {first['msg']}; mend the phrasing file.") from None


def render(template: str, values: Mapping[str, Json]) -> str:
    """``template`` with its slots filled. A slot outside brackets needs a value: KeyError."""

    def bracket(match: re.Match[str]) -> str:
        left, right = match.group(1), match.group(2) or ""
        return left if all(slot in values for slot in _SLOT.findall(left)) else right

    return _SLOT.sub(lambda match: str(values[match.group(1)]), _BRACKET.sub(bracket, template))


def slots(template: str) -> tuple[str, ...]:
    """Names of all slots in their order."""
    return tuple(_SLOT.findall(template))


def droppable(template: str) -> tuple[str, ...]:
    """Slots that occur in brackets only, in their order."""
    fixed = set(_SLOT.findall(_BRACKET.sub("", template)))
    return tuple(slot for slot in slots(template) if slot not in fixed)


def words(name: str) -> str:
    """``repo_path`` or ``repoPath`` as "repo path"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").replace("-", " ").strip().lower()
