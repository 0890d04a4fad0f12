"""Behaviours for tools that stand for HTTP operations: what a REST-like API does to its records (method section 5, step 2).

Read from paths, methods and schemas alone: GET, POST, PUT, PATCH and DELETE on collections (``/pets``), on their items
(``/pets/{pet_id}``), and on records that are alone (``/settings``). A tool is given a behaviour only where its entity can be
written, or both listed and read, and where a client can learn the ids that it is to name. Everything else stays as it is: custom
verbs, searches whose arguments are no fields, and answers whose shape says nothing.

A list's filters see what is stored. Of the fields that the service itself makes (``Behaviour.made``), new records store those
that have a likely first value; a filter on another one finds seeded records only.
"""

from collections.abc import Sequence
from typing import Any, Literal

from slca.sgls import shapes
from slca.sgls.inference import answers, names
from slca.sgls.inference.paths import Target, segments
from slca.sgls.inference.plans import Plan, constants_of, own_id, page_of, parent_field, parents_of, plan_for
from slca.sgls.inference.resources import Operation, entities
from slca.sgls.inference.writing import Writes
from slca.sgls.tool import Behaviour, Condition, Copy, Page, Tool


def infer(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """The same tools in the same order; those with a route and no behaviour have one where one can be inferred."""
    known = [plan_for(entity) for entity in entities(tool for tool in tools if tool.behaviour is None)]
    plans = [plan for plan in known if plan is not None]
    behaviours: dict[str, Behaviour] = {}
    for plan in plans:
        for operation in plan.entity.operations:
            behaviour = _behaviour(operation, plan, plans)
            if behaviour is not None:
                behaviours[operation.tool.name] = behaviour
    for tool in tools:
        if tool.name not in behaviours and tool.behaviour is None:
            found = _filtered_list(tool, plans)
            if found is not None:
                behaviours[tool.name] = found
    return tuple(
        tool.model_copy(update={"behaviour": behaviours[tool.name]}) if tool.name in behaviours else tool for tool in tools
    )


def _behaviour(operation: Operation, plan: Plan, plans: Sequence[Plan]) -> Behaviour | None:
    entity, target, tool = plan.entity, operation.target, operation.tool
    written = plan.written[tool.name]
    fields = {
        parent.argument: parent_field(entity, parent.collection, parent.argument, operation, plan.id_field)
        for parent in parents_of(operation)
    }
    common: dict[str, Any] = {
        "entity": entity.name,
        "id_field": own_id(operation, plan) or plan.id_field,
        "id_schema": plan.id_schema,
        "scope": tuple(fields) if plan.scoped else (),
        "where": tuple(Condition(argument=argument, field=name, op="id") for argument, name in fields.items()),
        "copies": _copies(target, plans),
        "made": plan.made,
        "answer": constants_of(operation, plan),
        "result": operation.part.result,
        "by": operation.by,
        "prefix": plan.stem,
    }
    if entity.alone:
        common |= {"only": entity.name, "id_field": None, "where": ()}
    match operation.role:
        case "read":
            return Behaviour(kind="look_up", key=target.item, **common)
        case "delete":
            if target.item is None and not entity.alone:
                return None
            return Behaviour(kind="delete", key=target.item, **common)
        case "list":
            return _search(operation, plan, common)
        case "create":
            return None if written is None or entity.alone else _create(operation, plan, common, written, fields)
        case "replace" | "merge":
            return None if written is None else _update(operation, plan, common, written, fields)


def _create(operation: Operation, plan: Plan, common: dict[str, Any], written: Writes, parents: dict[str, str]) -> Behaviour:
    target, key = operation.target, written.key
    if target.whole:
        parent = target.parents[0].argument
        common["prefix"] = f"{{{parent}}}/{target.last}/"
    if common["prefix"] is not None:
        # Google's APIs take the last part of the new name, if any, from a query parameter: clusterId.
        wanted = f"{names.norm(names.singular(target.last))}id"
        query = [name for name, place in operation.route.arguments.items() if place.part == "query"]
        key = next((name for name in query if names.norm(name) == wanted), None)
    common.pop("where")
    return Behaviour(
        kind="create",
        key=key,
        fields={**written.fields, **parents},
        record=written.record,
        defaults={**plan.initial, **written.defaults},
        **common,
    )


def _update(
    operation: Operation, plan: Plan, common: dict[str, Any], written: Writes, parents: dict[str, str]
) -> Behaviour | None:
    target, entity = operation.target, plan.entity
    key = target.item
    if key is None and not entity.alone:
        # PUT /pet: the body says which one.
        key = written.key
        if key is None:
            return None
    if operation.route.method == "POST" and not set(written.fields.values()) & set(entity.properties) and written.record is None:
        return None
    replaces = operation.role == "replace"
    # What the path says of parents counts, whatever the body repeats of it: the record stays where it is.
    inside = parents if written.record is not None else {}
    upsert = replaces and plan.upsert and target.item is not None and operation.by is None
    return Behaviour(
        kind="update",
        key=key,
        fields={**written.fields, **(parents if upsert else inside)},
        record=written.record,
        defaults=written.defaults if replaces else {},
        replace=replaces,
        upsert=upsert,
        **common,
    )


def _search(operation: Operation, plan: Plan, common: dict[str, Any]) -> Behaviour:
    tool, target = operation.tool, operation.target
    page = page_of(tool, operation)
    taken = {page.limit, page.offset, page.number, page.token} if page else set()
    filters = _filters(operation, plan, taken)
    if target.whole:
        parent = target.parents[0].argument
        filters = (Condition(argument=parent, field=common["id_field"], op="under"), *filters)
        common["prefix"] = f"{{{parent}}}/{target.last}/"
    common["where"] = (*common["where"], *filters)
    counted = answers.counts(tool, operation.part, page.token if page else None) if operation.part.result else {}
    return Behaviour(kind="search", page=page, counts=counted, **common)


def _filters(operation: Operation, plan: Plan, taken: set[str | None]) -> tuple[Condition, ...]:
    """Query parameters that are called like a field of the record."""
    tool = operation.tool
    declared = {**plan.entity.properties, **operation.part.properties}
    found = []
    for argument, place in operation.route.arguments.items():
        if place.part != "query" or argument in taken:
            continue
        name = next((name for name in declared if names.norm(name) == names.norm(place.name)), None)
        if name is None:
            continue
        given = shapes.types(shapes.flat(tool.properties[argument], tool.parameters)) - {"null"}
        root = _root_of(name, operation, plan)
        shape = shapes.flat(declared[name], root)
        stored, items = shapes.types(shape) - {"null"}, shapes.flat(shape.get("items"), root)
        if "object" in given | stored or (stored == {"array"} and ("array" in given or shapes.is_object(items))):
            continue
        op: Literal["contains", "in", "eq"] = "contains" if stored == {"array"} else "in" if given == {"array"} else "eq"
        found.append(Condition(argument=argument, field=name, op=op))
    return tuple(found)


def _root_of(name: str, operation: Operation, plan: Plan) -> dict[str, Any]:
    """The schema that a property's references lead into."""
    for one in (operation, *plan.entity.operations):
        if name in one.part.properties:
            return one.tool.output or {}
    return {}


def _copies(target: Target, plans: Sequence[Plan]) -> tuple[Copy, ...]:
    """The parents that must exist: those that are kept themselves."""
    found = []
    arguments = [parent.argument for parent in target.parents]
    for index, parent in enumerate(target.parents):
        for plan in plans:
            if parent.collection in plan.entity.collections and not plan.entity.alone:
                above = arguments[:index] if plan.scoped else ()
                found.append(Copy(argument=parent.argument, entity=plan.entity.name, scope=tuple(above)))
    return tuple(found)


def _filtered_list(tool: Tool, plans: Sequence[Plan]) -> Behaviour | None:
    """``GET /pets/findByStatus?status=``: a list of an entity's records all of whose arguments are fields or choose a page."""
    if tool.route is None or tool.route.method != "GET":
        return None
    path = segments(tool.route.path)
    if any(":" in segment or "{" in segment for segment in path):
        return None
    for plan in plans:
        entity = plan.entity
        if entity.alone or plan.scoped or path[:-1] not in entity.collections:
            continue
        whole = entity.operations[0].target.whole
        part = answers.list_part(tool, path[-2])
        if part is None or whole or not part.properties or set(part.properties) != set(entity.properties):
            return None
        parents = next(one.target.parents for one in entity.operations if one.target.collection == path[:-1])
        operation = Operation(tool, tool.route, Target(path[:-1], parents, None), "list", part)
        if any(argument not in tool.route.arguments for argument in (parent.argument for parent in parents)):
            return None
        plan.written[tool.name] = None
        behaviour = _behaviour(operation, plan, plans)
        if behaviour is None:
            return None
        page = behaviour.page or Page()
        used = {condition.argument for condition in behaviour.where} | {page.limit, page.offset, page.number, page.token}
        asked = {name for name, place in tool.route.arguments.items() if place.part in ("query", "path")}
        return behaviour if asked and asked <= used else None
    return None
