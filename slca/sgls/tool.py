"""What a tool is: a name, a parameter schema, an output schema, and what calling it does to the service's state.

A *behaviour* declares the effect of a call on records, so that the simulator executes it in code and a model is asked only for
leaf values that the state does not define (method section 5, step 2). A tool without a behaviour is answered from its
output schema alone.
"""

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from slca.errors import ToolError
from slca.sgls import validation

NAME_PATTERN = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Condition(_Frozen):
    """A filter: records whose ``field`` stands in relation ``op`` to ``argument`` stay; absent arguments filter nothing.

    ``eq``: JSON equality. ``le``, ``ge``: numbers, or strings in order. ``contains``: the field holds the argument, as text or in
    a list, whatever the case. ``in``: the field is one of the argument's values. ``id``: both name the same record, as number or
    as text. ``under``: the field is a path below the argument (``projects/p/jobs/j`` is under ``projects/p``).
    """

    argument: str
    field: str
    op: Literal["eq", "le", "ge", "contains", "in", "id", "under"] = "eq"


class Copy(_Frozen):
    """The record that ``argument`` names must exist in ``entity``; a create or update copies its ``fields`` (source -> target).

    ``scope``: arguments that the record's id is unique within, as in ``Behaviour``.
    """

    argument: str
    entity: str
    fields: dict[str, str] = {}
    scope: tuple[str, ...] = ()


class Adjust(_Frozen):
    """Add ``sign`` times the number in ``argument`` to ``field`` of the record that ``key`` names; below 0 is a conflict."""

    entity: str
    key: str
    field: str
    argument: str
    sign: Literal[1, -1]


class Page(_Frozen):
    """Arguments by which a search answers one page of what it found; each is None where the tool has none.

    Absent ``limit``: ``size`` records, or all if that is None too. ``offset``: records to skip. ``number``: of the page, from
    ``first`` on. ``token``: what an earlier page gave as the token of the next one.
    """

    limit: str | None = None
    offset: str | None = None
    number: str | None = None
    first: int = 1
    token: str | None = None
    size: int | None = None


Counted = Literal["total", "shown", "pages", "page", "limit", "offset", "more", "token"]
"""What a search can say of its page: records in all, on this page; pages in all; which page this is, its size and its start;
whether more follow; and the token of the next page (absent on the last)."""


class Behaviour(_Frozen):
    """The effect of a call. Which fields matter depends on ``kind``:

    * ``look_up``: the record of ``entity`` whose id is argument ``key``; not_found otherwise.
    * ``search``: all records that meet ``where``, in id order, or one ``page`` of them. They are the answer's ``result``;
      ``counts`` (property -> what it tells; ``meta.total`` is ``total`` in the object ``meta``) stand beside them.
    * ``create``: a new record from ``fields`` (argument -> record field), ``record`` (an argument whose properties are all
      written), ``defaults`` and ``copies``. Its id is argument ``key`` where that is given (if ``key`` is ``record``: its
      ``id_field``); otherwise it depends on entity and content only, so that the order of parallel creations does not change the
      end state, and validates against ``id_schema``.
    * ``update``: writes the same onto the record that ``key`` names. ``replace``: what the call could write and did not is
      removed. ``upsert``: a record that does not exist is made.
    * ``delete``: removes the record that ``key`` names.
    * ``compute``: ``function`` (a name in ``slca.sgls.compute.FUNCTIONS``) of the arguments; the state is not touched.

    look_up, create, update and delete answer with the record (its id under ``id_field``), in property ``result`` where one is
    named. A search's ``result`` is "" where the answer is the bare list. ``answer``: properties that answers hold in any case.
    ``adjusts`` change numbers of other records. All records that ``copies`` name must exist, and the record itself must meet
    ``where``, or the call is not_found.

    ``by``: the field that ``key`` names an existing record by, where that is not its id (``/users/email/{email}``); of several
    records the first. ``only``: the id of a record that is alone and needs no ``key`` (settings); it is there, empty, before
    anyone writes it. ``scope``: arguments that a record's id is unique within; they stand before it in the state. ``prefix``:
    what ids begin with, arguments in braces (``{parent}/jobs/``). ``made``: fields that the service itself writes; where a
    record lacks them, they are filled by its entity and id when it is shown. Answers hold what the output schema lists, no more.
    """

    kind: Literal["look_up", "search", "create", "update", "delete", "compute"]
    entity: str | None = None
    id_field: str | None = None
    id_schema: dict[str, Any] | None = None
    key: str | None = None
    by: str | None = None
    only: str | None = None
    scope: tuple[str, ...] = ()
    prefix: str | None = None
    result: str | None = None
    where: tuple[Condition, ...] = ()
    page: Page | None = None
    counts: dict[str, Counted] = {}
    answer: dict[str, Any] = {}
    fields: dict[str, str] = {}
    record: str | None = None
    defaults: dict[str, Any] = {}
    made: tuple[str, ...] = ()
    replace: bool = False
    upsert: bool = False
    copies: tuple[Copy, ...] = ()
    adjusts: tuple[Adjust, ...] = ()
    function: str | None = None

    @model_validator(mode="after")
    def _complete(self) -> "Behaviour":
        of_one = ("entity",) if self.only is not None else ("entity", "id_field", "key")
        needs = {
            "look_up": of_one,
            "search": ("entity", "id_field", "result"),
            "create": ("entity", "id_field"),
            "update": of_one,
            "delete": of_one,
            "compute": ("function",),
        }[self.kind]
        missing = [name for name in needs if getattr(self, name) is None]
        if missing:
            raise ValueError(f"behaviour {self.kind} needs {', '.join(missing)}")
        beside = {*self.counts, *self.answer}
        doubled = next((name for name in sorted(beside) if any(other.startswith(f"{name}.") for other in beside)), None)
        if doubled is not None:
            raise ValueError(f"{doubled!r} cannot be both a value and an object of the answer")
        return self


Method = Literal["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"]


class Place(_Frozen):
    """Where an argument travels in an HTTP request. ``body``: it is the whole body; ``field``: one field of the body's object."""

    part: Literal["path", "query", "header", "cookie", "body", "field"]
    name: str = Field(description="as the source spells it; empty for a whole body")
    style: Literal["", "comma", "space", "pipe", "deep", "json"] = Field(
        default="",
        description="how a list or an object is written outside a body. '': in the query a list as repeated parameters and an"
        " object as one for each property, elsewhere with commas; comma, space, pipe: joined by that sign; deep:"
        " name[key]=value; json: as JSON text",
    )


class Route(_Frozen):
    """The HTTP operation behind an imported tool. ``arguments``: argument name -> its place.

    path: as in the source, without the server's base path. ``{pet_id}`` stands for one segment or a part of one.
    ``{name=projects/*/topics/*}`` (google.api.http) stands for several: ``*`` is one segment, ``**`` one or more. What stands in
    braces, up to ``=``, is the place's name.
    """

    method: Method
    path: str
    arguments: dict[str, Place] = {}
    media_type: str = Field(default="application/json", description="of the request's body")
    status: int = Field(default=200, description="of the answer to a call that succeeds; 204 has no body")


class Tool(_Frozen):
    """One tool. ``parameters`` and ``output`` are JSON Schemas (draft 2020-12, or draft-07 where ``$schema`` says so).

    An argument's schema may set ``x-compare`` (``case``, ``set``, or a number: the tolerance) to loosen HierR's comparison.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any]
    output: dict[str, Any] | None = None
    behaviour: Behaviour | None = None
    domain: str = ""
    source: str = ""
    original: str = Field(default="", description="the name in the source, where that is no name for chat formats")
    route: Route | None = Field(default=None, description="the HTTP operation that the tool stands for")
    held_out: bool = Field(default=False, description="kept for the unseen_tools split; never in a training task")

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_defaults=True)

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(self.parameters.get("required", ()))

    @property
    def properties(self) -> dict[str, Any]:
        return dict(self.parameters.get("properties", {}))


def load_tool(definition: dict[str, Any], where: str) -> Tool:
    """A checked tool from its JSON definition. Raises ToolError that names ``where``, the tool, the field and the fault."""
    name = definition.get("name") if isinstance(definition, dict) else None
    try:
        return _checked_tool(json.dumps(definition))
    except RecursionError:
        raise ToolError(f"{where}: tool {name!r}: its definition is nested too deeply.") from None
    except (TypeError, ValueError) as error:
        raise ToolError(f"{where}: tool {name!r}: its definition is no JSON: {error}.") from None
    except ToolError as error:
        raise ToolError(f"{where}: tool {name!r}: {error}") from None


@lru_cache(maxsize=4096)
def _checked_tool(text: str) -> Tool:
    """The tool that a definition's JSON describes. Raises ToolError that names the field and the fault.

    The same few definitions come with every task, and checking a schema costs far more than finding it again.
    """
    try:
        tool = Tool.model_validate(json.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "definition"
        raise ToolError(f"field {field}: {first['msg']}.") from None
    if not NAME_PATTERN.fullmatch(tool.name):
        raise ToolError("a name has 1 to 64 letters, digits, '_' or '-' and starts with a letter or '_'.")
    for field, schema in (("parameters", tool.parameters), ("output", tool.output)):
        if schema is not None:
            validation.check_schema(schema, field)
    if tool.parameters.get("type") != "object":
        raise ToolError(f"parameters must be a schema of type 'object', not {tool.parameters.get('type')!r}.")
    return tool


def load_tools(definitions: Iterable[dict[str, Any]], where: str) -> tuple[Tool, ...]:
    """A checked tool list. Raises ToolError also for a name that occurs twice."""
    tools = tuple(load_tool(definition, where) for definition in definitions)
    refuse_duplicates(tools, where)
    return tools


def refuse_duplicates(tools: Sequence[Tool], where: str) -> None:
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            raise ToolError(f"{where}: tool name {tool.name!r} occurs twice; rename one of them.")
        seen.add(tool.name)
