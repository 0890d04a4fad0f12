"""From what a behaviour found to what the output schema promises: listed properties only, missing ones filled in.

Filled values depend on the record's entity and id, not on the tool that shows it: two tools that show the same record agree.

``completed`` lays the answer out along the schema's first choices and trusts what it finds. Where that does not validate,
``careful=True`` looks at every value: one that the schema refuses is completed inside (a stored object that lacks what the
answer promises), else filled anew; of several choices the one that keeps most of the record is taken; and an answer that cannot
be laid out at all is filled as a whole, by the same subject.
"""

from collections.abc import Callable
from typing import Any

from jsonschema.protocols import Validator

from slca.records import Json
from slca.sgls import record_ids, shapes, validation
from slca.sgls.tool import Behaviour, Tool

Fill = Callable[[dict[str, Any], Json, dict[str, Json], Json], Json]
"""(schema, subject, arguments, record) -> a value that validates against ``schema``; see ``slca.sgls.backends.Request``."""


def completed(
    tool: Tool, result: Json, arguments: dict[str, Json], fill: Fill, careful: bool = False, compiled: Validator | None = None
) -> Json:
    """A behaviour's result cut to what the output schema lists, missing values filled in; found records likewise.

    compiled: the output schema's validator, for those who have it at hand: finding it takes a while where the schema is large.
    """
    output: dict[str, Any] = tool.output or {}
    layout = _Layout(output, arguments, fill, careful, compiled)
    answer = _laid_out(tool, result, arguments, layout)
    if careful and not layout.fits(answer, output):
        return fill(output, _subject(tool, result, arguments), arguments, result)
    return answer


def record_schema(tool: Tool) -> dict[str, Any] | None:
    """The schema of the records that a tool with a behaviour shows, with the definitions it needs; None where it shows none."""
    if tool.output is None or tool.behaviour is None or tool.behaviour.kind == "compute":
        return None
    return part_schema(tool.output, tool.behaviour.kind == "search", tool.behaviour.result)


def part_schema(output: dict[str, Any], is_list: bool, result: str | None) -> dict[str, Any] | None:
    """The schema of the record, or of the items of the list, at property ``result`` of an answer (or the answer itself)."""
    schema: Json = output
    if result:
        schema = shapes.properties(shapes.flat(schema, output)).get(result)
    if is_list:
        schema = shapes.flat(schema, output).get("items")
    return {**shapes.definitions(output), **schema} if isinstance(schema, dict) else None


def _laid_out(tool: Tool, result: Json, arguments: dict[str, Json], layout: "_Layout") -> Json:
    output: dict[str, Any] = tool.output or {}
    behaviour = tool.behaviour
    call: Json = [tool.name, arguments]
    if behaviour is None or behaviour.kind == "compute":
        return layout.cut(output, result, call)
    shape = shapes.flat(output, output)
    if shapes.is_scalar(shape):
        return _scalar(behaviour, shape, result, arguments, layout)
    if behaviour.kind == "search":
        listed = shapes.properties(shape).get(str(behaviour.result)) if behaviour.result else output
        items = shapes.flat(listed, output).get("items")
        found = result[behaviour.result] if behaviour.result else result
        if isinstance(items, dict):
            found = [layout.record(behaviour, items, record, _about(behaviour, record, arguments)) for record in found]
        if not behaviour.result:
            return found
        return layout.cut(output, {**result, behaviour.result: found}, call)
    if not behaviour.result:
        return layout.record(behaviour, output, result, _about(behaviour, result, arguments))
    record = result[behaviour.result]
    inner = shapes.properties(shape).get(behaviour.result, {})
    record = layout.record(behaviour, inner, record, _about(behaviour, record, arguments))
    return layout.cut(output, {**result, behaviour.result: record}, call)


def _subject(tool: Tool, result: Json, arguments: dict[str, Json]) -> Json:
    behaviour = tool.behaviour
    if behaviour is None or behaviour.kind in ("compute", "search"):
        return [tool.name, arguments]
    return _about(behaviour, result[behaviour.result] if behaviour.result else result, arguments)


def _about(behaviour: Behaviour, record: dict[str, Json], arguments: dict[str, Json]) -> Json:
    """What a record's filled values depend on: its entity and the state's key of it."""
    own = record_ids.as_id(record[behaviour.id_field]) if behaviour.id_field is not None else str(behaviour.only)
    return [behaviour.entity, record_ids.scoped(own, behaviour.scope, arguments)]


def _scalar(behaviour: Behaviour, shape: dict[str, Any], result: Json, arguments: dict[str, Json], layout: "_Layout") -> Json:
    """An answer that is one value: nothing, that it worked, or the record's id; else whatever the schema allows."""
    if behaviour.kind == "search":
        return None
    record = result[behaviour.result] if behaviour.result else result
    known = [None, True] if behaviour.kind == "delete" else [None]
    if behaviour.id_field is not None:
        known = [*_spellings(record[behaviour.id_field]), *known]
    for value in known:
        if layout.fits(value, shape):
            return value
    return layout.filled({"value": shape}, _about(behaviour, record, arguments), {}, record)["value"]


def _spellings(value: Json) -> list[Json]:
    """An id as it is, as text, and as a number if it is one."""
    text = record_ids.as_id(value)
    return [value, text, *([int(text)] if text.isdecimal() and text.isascii() else [])]


class _Layout:
    """Lays values out along the schemas of one answer. root: the whole output schema, which references lead into."""

    def __init__(
        self, root: dict[str, Any], arguments: dict[str, Json], fill: Fill, careful: bool, compiled: Validator | None
    ) -> None:
        self._root = root
        self._compiled = compiled
        self._objects: dict[int, tuple[Json, list[dict[str, Any]]]] = {}
        self._arguments = arguments
        self._fill = fill
        self._careful = careful

    def record(self, behaviour: Behaviour, schema: dict[str, Any], record: dict[str, Json], subject: Json) -> Json:
        id_field = behaviour.id_field
        if self._careful and id_field is not None:
            wanted = shapes.properties(shapes.flat(schema, self._root)).get(id_field, {})
            fitting = [value for value in _spellings(record[id_field]) if self.fits(value, wanted)]
            record = {**record, id_field: fitting[0]} if fitting else record
        return self.cut(schema, record, subject, behaviour.made)

    def cut(self, schema: Json, value: Json, subject: Json, made: tuple[str, ...] = ()) -> Json:
        """The properties of ``value`` that ``schema`` lists (all if it lists none), required and ``made`` ones filled in."""
        if not isinstance(value, dict):
            return value
        shape = self._shape(schema, value)
        listed = shapes.properties(shape)
        required = [name for name in shape.get("required", ()) if name in listed or self._careful]
        if not listed and not (self._careful and required):
            return value
        listed = {**listed, **{name: {} for name in required if name not in listed}}
        known = {name: value[name] for name in listed if name in value}
        if self._careful:
            known = self._fitting(listed, known, subject)
        wanted = {name: listed[name] for name in (*made, *required) if name in listed and name not in known}
        filled = self.filled(wanted, subject, self._arguments, value)
        answer = {name: known[name] if name in known else filled[name] for name in listed if name in known or name in filled}
        if shape.get("additionalProperties"):
            answer |= {name: value[name] for name in value if name not in listed and self._has_room(shape, value[name])}
        return answer

    def filled(self, wanted: dict[str, Any], subject: Json, arguments: dict[str, Json], record: Json) -> dict[str, Json]:
        """A value for each property in ``wanted``."""
        if not wanted:
            return {}
        # Definitions travel along, so that references in the properties still lead somewhere.
        schema = {**shapes.definitions(self._root), "type": "object", "properties": wanted, "required": list(wanted)}
        values: dict[str, Json] = self._fill(schema, subject, arguments, record)
        return values

    def fits(self, value: Json, schema: Json) -> bool:
        if self._compiled is None:
            self._compiled = validation.validator(self._root)
        return validation.fault(self._compiled.evolve(schema=schema), value, "value") is None

    def _shape(self, schema: Json, value: dict[str, Json]) -> dict[str, Any]:
        """The choice of the schema that keeps most of ``value``, then leaves least to fill; the first of those."""
        if id(schema) not in self._objects:  # the same few for every record of a list
            objects = [choice for choice in shapes.choices(schema, self._root) if shapes.is_object(choice)]
            self._objects[id(schema)] = schema, objects
        _, found = self._objects[id(schema)]
        if len(found) < 2:
            return found[0] if found else shapes.flat(schema, self._root)

        def rank(choice: dict[str, Any]) -> tuple[int, int]:
            listed = shapes.properties(choice)
            kept = [name for name in value if name in listed and self.fits(value[name], listed[name])]
            return len(kept), -len(set(choice.get("required", ())) - set(kept))

        return max(found, key=rank)

    def _has_room(self, shape: dict[str, Any], value: Json) -> bool:
        return not self._careful or self.fits(value, shape["additionalProperties"])

    def _fitting(self, listed: dict[str, Any], known: dict[str, Json], subject: Json) -> dict[str, Json]:
        """What of the known values the schema takes, completed inside where that helps."""
        fitting = {}
        for name, value in known.items():
            if self.fits(value, listed[name]):
                fitting[name] = value
            elif isinstance(value, dict | list):
                whole = self._completed_inside(listed[name], value, [subject, name])
                if self.fits(whole, listed[name]):
                    fitting[name] = whole
        return fitting

    def _completed_inside(self, schema: Json, value: Json, subject: Json) -> Json:
        if isinstance(value, dict):
            return self.cut(schema, value, subject)
        items = shapes.flat(schema, self._root).get("items")
        if isinstance(value, list) and items is not None:
            return [self._completed_inside(items, item, [subject, index]) for index, item in enumerate(value)]
        return value
