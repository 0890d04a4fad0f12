"""Operations grouped into entities: the kinds of records that a service keeps.

Operations on one collection and on its items belong together. Collections that end in the same word are one entity where their
records have the same properties, or one the other's and more: ``/pets`` and ``/owners/{id}/pets``, ``/v1/pets`` and ``/v2/pets``;
but not ``/owners/{id}/notes`` and ``/pets/{id}/notes``, unless there is ``/notes``.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from slca.sgls import shapes
from slca.sgls.inference import answers, names
from slca.sgls.inference.answers import Part
from slca.sgls.inference.paths import PARAMETER, Collection, Target, segments, target
from slca.sgls.tool import Route, Tool

Role = Literal["read", "list", "create", "replace", "merge", "delete"]

_OF_ITEMS: dict[str, Role] = {"GET": "read", "PUT": "replace", "PATCH": "merge", "POST": "merge", "DELETE": "delete"}
_OF_COLLECTIONS: dict[str, Role] = {"GET": "list", "POST": "create", "PUT": "replace", "PATCH": "merge", "DELETE": "delete"}
_SHOW_RECORDS: tuple[Role, ...] = ("read", "create", "replace", "merge", "list")
"""Whose answers say what a record looks like, the likeliest first."""


@dataclass(frozen=True)
class Operation:
    """A tool and what it seems to do to the records of its path.

    part: where its answer shows them. by: the field that the path names a record by, where that is not its id.
    """

    tool: Tool
    route: Route
    target: Target
    role: Role
    part: Part
    by: str | None = None


@dataclass
class Entity:
    """Operations on one kind of record. alone: there is one record, whose path takes no id (settings).

    unclear: tools that write records of this kind in ways that their schemas do not show.
    """

    name: str
    operations: list[Operation]
    alone: bool = False
    collections: set[Collection] = field(default_factory=set)
    unclear: bool = False

    @property
    def properties(self) -> dict[str, object]:
        """Those of a record, as the answer shows them that is likeliest to show all."""
        for role in _SHOW_RECORDS:
            for operation in self.operations:
                if operation.role == role and operation.part.properties:
                    return operation.part.properties
        return {}

    @property
    def parameter(self) -> str:
        """What the paths call a record's id; "" where no path takes one."""
        for operation in self.operations:
            if operation.target.item is not None and operation.by is None:
                return operation.route.arguments[operation.target.item].name
        return ""

    def has(self, *roles: Role) -> bool:
        return any(operation.role in roles for operation in self.operations)


def operation(tool: Tool) -> Operation | None:
    """What the tool's route and answer show; None where they show nothing clear."""
    if tool.route is None:
        return None
    found = target(tool.route)
    if found is None:
        return None
    role = (_OF_COLLECTIONS if found.item is None else _OF_ITEMS).get(tool.route.method)
    entity = names.singular(found.last)
    part = answers.record_part(tool, entity)
    if role == "list":
        listed = answers.list_part(tool, found.last)
        if listed is not None:
            part = listed
        elif part is not None and part.properties:
            role = "read"
        else:
            return None
    if part is None and role in ("replace", "merge", "delete"):
        part = Part(None, {}, nothing=True)  # what it does to the record is clear, whatever it answers
    if role is None or part is None or (role == "read" and part.nothing):
        return None
    if role == "create" and _answers_many(tool, found, part):
        return None
    return Operation(tool, tool.route, found, role, part)


def _answers_many(tool: Tool, found: Target, part: Part) -> bool:
    """Whether a POST answers a list of records: it is a search, or makes several at once."""
    kind = names.norm(names.singular(found.last))
    named = any(names.norm(name) in ("id", "uuid", "name", "key", f"{kind}id") for name in part.properties)
    return not named and answers.list_part(tool, found.last) is not None


def entities(tools: Iterable[Tool]) -> list[Entity]:
    """The kinds of records that the tools show, parents first, then in the tools' order."""
    by_collection: dict[Collection, list[Operation]] = {}
    unclear: set[Collection] = set()
    for tool in tools:
        found = operation(tool)
        if found is not None:
            by_collection.setdefault(found.target.collection, []).append(found)
        elif tool.route is not None and tool.route.method == "POST":
            unclear.add(segments(tool.route.path))
    groups: list[Entity] = []
    # Collections outside others first, so that all that are inside find them.
    for collection, operations in sorted(by_collection.items(), key=lambda item: item[0].count(PARAMETER)):
        group = Entity("", operations, collections={collection}, unclear=collection in unclear)
        group.name = _called(collection[-1], group.parameter)
        group.alone = _is_alone(operations)
        # Where the path is no record that is alone, a GET of it that shows no list says nothing.
        if not group.alone:
            group.operations = [one for one in operations if one.role != "read" or one.target.item is not None]
        _place(group, collection, groups)
    for group in list(groups):
        for other in groups:
            if other is not group and _names_by_field(group, other):
                field_name = group.operations[0].target.last
                other.operations += [replace(one, by=field_name) for one in group.operations]
                groups.remove(group)
                break
    # A parent's path is shorter than that of what is inside it.
    return sorted(groups, key=lambda group: min(len(collection) for collection in group.collections))


def _called(word: str, parameter: str) -> str:
    """What records are called whose collection is ``word``; after the parameter where that is a letter: ``/b/{bucket}``."""
    name = names.snake(names.singular(word))
    return name if len(name) > 1 else names.snake(parameter or word).removesuffix("_id")


def _is_alone(operations: Sequence[Operation]) -> bool:
    of_collection = all(one.target.item is None for one in operations)
    roles = {one.role for one in operations}
    return of_collection and "read" in roles and bool(roles & {"replace", "merge"})


def _place(group: Entity, collection: Collection, groups: list[Entity]) -> None:
    """Put ``group`` to the entity that it is part of, or add it under a name of its own."""
    if not group.operations:
        return
    for other in groups:
        if not group.alone and not other.alone and _same(group, other):
            other.operations += group.operations
            other.collections |= group.collections
            other.unclear |= group.unclear
            return
    literal = [segment for segment in collection if segment != PARAMETER]
    taken = {other.name for other in groups}
    name = group.name
    if name in taken and len(literal) > 1:
        name = f"{names.snake(names.singular(literal[-2]))}_{name}"
    number = 2
    while name in taken:
        name, number = f"{group.name}_{number}", number + 1
    group.name = name
    groups.append(group)


def _same(one: Entity, other: Entity) -> bool:
    """Whether two collections of the same last word hold the same records."""
    last, whole = one.operations[0].target.last, one.operations[0].target.whole
    if (last, whole) != (other.operations[0].target.last, other.operations[0].target.whole):
        return False
    outside = any(PARAMETER not in collection for collection in one.collections | other.collections)
    if (whole or not outside) and not {*map(_unversioned, one.collections)} & {*map(_unversioned, other.collections)}:
        return False  # nothing says that records inside different parents are the same
    ours, theirs = set(one.properties), set(other.properties)
    return bool(ours and theirs) and (ours <= theirs or theirs <= ours)


def _unversioned(collection: Collection) -> Collection:
    return tuple(segment for segment in collection if not re.fullmatch(r"v[0-9]+[a-z0-9]*", segment))


def _names_by_field(group: Entity, other: Entity) -> bool:
    """Whether ``group`` is another way to name the records of ``other``: ``/users/email/{email}`` beside ``/users/{id}``."""
    targets = {one.target for one in group.operations}
    if len(targets) != 1 or group.alone or other.alone:
        return False
    found = targets.pop()
    return (
        found.item is not None
        and not found.whole
        and found.collection[:-1] in other.collections
        and found.last in other.properties
        and all(not one.part.properties or set(one.part.properties) == set(other.properties) for one in group.operations)
    )


def could_be_ids(operations: Sequence[Operation]) -> dict[str, dict[str, Any]]:
    """The records' properties that are a text or a number, with their joined schemas."""
    found: dict[str, dict[str, Any]] = {}
    for one in operations:
        for name, schema in one.part.properties.items():
            shape = shapes.flat(schema, one.tool.output or {})
            if not shapes.types(shape) or shapes.types(shape) & {"string", "integer", "number"}:
                found.setdefault(name, shape)
    return found
