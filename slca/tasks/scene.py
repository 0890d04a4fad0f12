"""The state around a call: records that make it succeed, beside others that it must not confuse them with."""

import random
from collections.abc import Collection, Mapping
from typing import Any

from slca.records import Json, State
from slca.sgls.tool import Condition, Tool
from slca.tasks.phrasing import Domain
from slca.tasks.values import Part, draw

_TRIES = 200


class Scene:
    """Draws arguments and the records that they need, which go into ``state``. ``fixed`` slots always get their one value."""

    def __init__(
        self, domain: Domain, rng: random.Random, part: Part, state: State, fixed: Mapping[str, Json] | None = None
    ) -> None:
        self.domain, self.rng, self.part, self.state, self.fixed = domain, rng, part, state, fixed or {}

    def arguments(self, tool: Tool, names: Collection[str], bound: Mapping[str, Json] | None = None) -> dict[str, Json]:
        """Values of ``names``, those in ``bound`` as given, in the schema's order; adds the records that the call needs."""
        given: dict[str, Json] = dict(bound or {})
        wanted = [name for name in tool.properties if name in names and name not in given]
        entities = _record_arguments(tool)
        if tool.behaviour is not None and tool.behaviour.kind == "search":
            given |= self._criteria(str(tool.behaviour.entity), [c for c in tool.behaviour.where if c.argument in wanted])
        for name in wanted:
            if name in entities:
                given[name] = self.record(entities[name])
            elif name not in given:
                given[name] = self.value(name, given)
        return {name: given[name] for name in tool.properties if name in given}

    def value(self, slot: str, given: Mapping[str, Json]) -> Json:
        if slot in self.fixed:
            return self.fixed[slot]
        if slot in self.domain.follows:
            follows = self.domain.follows[slot]
            return draw(follows.values[given[follows.slot]], self.rng, self.part)
        kind = self.domain.slots[slot]
        if isinstance(kind, str) and kind.startswith("ref:"):
            return self.record(kind.removeprefix("ref:"))
        return draw(kind, self.rng, self.part)

    def record(self, entity: str) -> str:
        """Adds a record of ``entity`` and returns its id."""
        spec = self.domain.records[entity]
        fields: dict[str, Json] = {}
        for field in spec.fields:
            fields[field] = self.value(field, fields)
        return self._insert(entity, fields)

    def crowd(self, tool: Tool, arguments: Mapping[str, Json]) -> None:
        """Adds one or two records beside each that the call needs; around a search they differ from the sought one in a field."""
        behaviour = tool.behaviour
        if behaviour is None:
            return
        same = [condition.field for condition in behaviour.where if condition.op == "eq" and condition.argument in arguments]
        if behaviour.kind == "search" and same:
            sought = next(reversed(self.state[str(behaviour.entity)].values()))
            for _ in range(self.rng.randint(1, 2)):
                field = self.rng.choice(same)
                self._insert(str(behaviour.entity), {**sought, field: self.value(field, {})})
        for entity in sorted(set(_record_arguments(tool).values())):
            for _ in range(self.rng.randint(1, 2)):
                self.record(entity)

    def _insert(self, entity: str, fields: dict[str, Json]) -> str:
        records = self.state.setdefault(entity, {})
        for _ in range(_TRIES):
            record_id = draw(f"id:{self.domain.records[entity].prefix}", self.rng, self.part)
            if record_id not in records:
                records[record_id] = fields
                return str(record_id)
        raise ValueError(f"no free id is left for {entity}")

    def _criteria(self, entity: str, where: list[Condition]) -> dict[str, Json]:
        record_id = self.record(entity)
        sought = self.state[entity][record_id]
        return {condition.argument: self._criterion(condition, sought[condition.field]) for condition in where}

    def _criterion(self, condition: Condition, value: Any) -> Json:
        if condition.op not in ("le", "ge"):
            return value
        for _ in range(_TRIES):
            bound = self.value(condition.argument, {})
            if (condition.op == "le" and bound >= value) or (condition.op == "ge" and bound <= value):
                return bound
        return value


def _record_arguments(tool: Tool) -> dict[str, str]:
    """Arguments that name a record which must exist -> its entity."""
    behaviour = tool.behaviour
    if behaviour is None:
        return {}
    named = {copy.argument: copy.entity for copy in behaviour.copies}
    named |= {adjust.key: adjust.entity for adjust in behaviour.adjusts}
    if behaviour.key is not None:
        named[behaviour.key] = str(behaviour.entity)
    return named
