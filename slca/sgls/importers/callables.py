"""Plain Python callables: type hints give the schemas, the docstring gives the words.

Each argument is a pydantic type, so whatever pydantic knows is known here: Optional, Literal, Enum, dataclasses, models,
TypedDict (before Python 3.12 the one of ``typing_extensions``), ``Annotated`` with ``Field``. The return annotation is the output
schema. Without an annotation anything goes. Docstrings are read in Google, NumPy and reST style. ``self`` of a method that is not
bound is skipped; ``**kwargs`` are additional properties; ``*args`` have no names to be called by and are refused.

Not ``transformers.utils.get_json_schema``: it refuses a function without a docstring, or with one that leaves out an argument;
it knows neither constraints nor enums, dataclasses and TypedDicts; and it loads transformers. Where it reads a function, the two
agree. Not pydantic's schema of the function as a whole: with it one argument's fault has no name.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from inspect import Parameter
from typing import Annotated, Any, get_type_hints

import docstring_parser
from pydantic import Field, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError

from slca.errors import DataError
from slca.files import canonical_json
from slca.records import Json
from slca.sgls.importers.base import Imported, Refused
from slca.sgls.importers.checked import Found, checked_tools


def from_callables(functions: Iterable[Callable[..., Any]], source: str) -> Imported:
    """A tool for each function, in order. Their places are ``module:function``. Nothing is called."""
    entries: list[Found | Refused] = []
    notes: list[Refused] = []
    for function in functions:
        place, name = _place(function), _name(function)
        try:
            definition, left_out = _definition(function)
        except _Bad as fault:
            entries.append(Refused(place, name, str(fault)))
        else:
            entries.append(Found(place, name, {**definition, "source": f"python:{source}"}))
            notes += [Refused(place, name, reason) for reason in left_out]
    imported = checked_tools(entries, source)
    return Imported(imported.tools, imported.refused, (*notes, *imported.notes))


def load_callables(text: str) -> Imported:
    """The functions that ``text`` names: ``package.module:function``, or ``package.module`` for all its public functions.

    Public are the names in ``__all__``, or else the functions that the module itself defines, without ``_`` before their names.
    Importing the module runs its code. Raises DataError where there is no such module, name or function.
    """
    name, _, attribute = text.partition(":")
    try:
        module = import_module(name)
    except (Exception, SystemExit) as error:
        # The named boundary to foreign code: whatever its import raises arrives here, a script's exit too.
        reason = f"{type(error).__name__}: {error}".rstrip(".")
        raise DataError(f"The module {name!r} cannot be imported ({reason}); install it, or run from its folder.") from None
    if attribute:
        function: Any = module
        for part in attribute.split("."):
            function = getattr(function, part, None)
        if not callable(function):
            raise DataError(f"{text}: the module {name!r} has no function {attribute!r}.")
        return from_callables([function], name)
    listed = getattr(module, "__all__", None)
    members = vars(module) if listed is None else {key: getattr(module, key, None) for key in listed}
    functions = [member for key, member in members.items() if inspect.isfunction(member) and (listed or not key.startswith("_"))]
    if listed is None:
        functions = [function for function in functions if function.__module__ == module.__name__]
    if not functions:
        raise DataError(f"The module {name!r} defines no public functions; name one as {name}:function.")
    return from_callables(functions, name)


class _Bad(Exception):
    """Why a function is no tool."""


class _Schemas(GenerateJsonSchema):
    """pydantic's generator; a default that is no JSON is left out without a warning."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Nothing: what a warning is about is seen in the schema."""

    def encode_default(self, dft: Any) -> Any:
        value = super().encode_default(dft)
        try:
            canonical_json(value)
        except ValueError as error:  # infinity is a common default
            raise PydanticSerializationError(str(error)) from None
        return value


def _definition(function: Callable[..., Any]) -> tuple[dict[str, Json], list[str]]:
    """The tool's definition without its name, and what was left out of it. Raises _Bad."""
    arguments, hints = _signature(function)
    description, described = _words(function)
    adapters = {argument.name: _adapter(argument, hints.get(argument.name, Any)) for argument in arguments}
    schemas, definitions = _generated(adapters, "validation")
    extra: Json = False
    left_out = []
    for argument in arguments:
        schema = schemas[argument.name]
        if argument.name in described:
            schema.setdefault("description", described[argument.name])
        if argument.kind is Parameter.VAR_KEYWORD:
            extra = schemas.pop(argument.name)
        elif argument.default is not Parameter.empty and not isinstance(argument.default, FieldInfo) and "default" not in schema:
            left_out.append(f"the default of {argument.name} is no JSON and is left out")
    required = [name for name in schemas if adapters[name].get_default_value() is None]
    parameters = {"type": "object", "properties": schemas, "required": required, "additionalProperties": extra, **definitions}
    definition: dict[str, Json] = {"description": description, "parameters": parameters}
    if "return" in hints:
        try:
            outputs, definitions = _generated({"return": _typed(hints["return"], "the answer")}, "serialization")
            if outputs["return"]:  # Any and object say nothing
                definition["output"] = outputs["return"] | definitions
        except _Bad as fault:
            left_out.append(f"imported without an output schema: {fault}")
    try:
        canonical_json(definition)
    except (TypeError, ValueError) as error:
        raise _Bad(f"a constraint or description is no JSON ({error})") from None
    return definition, left_out


def _signature(function: Callable[..., Any]) -> tuple[list[Parameter], dict[str, Any]]:
    """The arguments that a call may give, and the resolved type hints. Raises _Bad."""
    if inspect.isclass(function):
        raise _Bad("it is a class; name one of its methods, or a function that makes it")
    hinted: Any = _function(function)
    try:
        arguments = list(inspect.signature(function).parameters.values())
        hints = get_type_hints(hinted if inspect.isroutine(hinted) else type(hinted).__call__, include_extras=True)
    except Exception as error:
        # Hints are foreign code: names that are not there, and whatever else evaluating them raises.
        raise _Bad(f"its signature or type hints cannot be read ({_sentence(error)})") from None
    is_method = "." in getattr(function, "__qualname__", "").rpartition("<locals>.")[2]
    if is_method and not inspect.ismethod(function) and arguments and arguments[0].name == "self":
        del arguments[0]
    for argument in arguments:
        if argument.kind is Parameter.VAR_POSITIONAL:
            raise _Bad(f"*{argument.name} has no names to call its values by; use a list")
    return arguments, hints


def _adapter(argument: Parameter, annotation: Any) -> TypeAdapter[Any]:
    default = argument.default
    if default is not Parameter.empty:
        annotation = Annotated[annotation, default if isinstance(default, FieldInfo) else Field(default=default)]
    return _typed(annotation, f"argument {argument.name}")


def _typed(annotation: Any, what: str) -> TypeAdapter[Any]:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        adapter.json_schema(schema_generator=_Schemas)
    except Exception as error:
        # A type may say in its own code what its schema is, and pydantic has many ways to say that there is none.
        raise _Bad(f"{what} has no JSON Schema ({_sentence(error)})") from None
    return adapter


def _generated(
    adapters: Mapping[str, TypeAdapter[Any]], mode: JsonSchemaMode
) -> tuple[dict[str, dict[str, Json]], dict[str, Json]]:
    """A schema for each name, and what they share: ``{"$defs": ...}``, or nothing."""
    inputs = [(name, mode, adapter) for name, adapter in adapters.items()]
    schemas, definitions = TypeAdapter.json_schemas(inputs, schema_generator=_Schemas)
    return {name: schemas[name, mode] for name in adapters}, definitions


def _words(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The description of a function, and those of its arguments, as its docstring gives them."""
    text = inspect.getdoc(_function(function)) or ""
    try:
        read = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return text, {}
    described = {item.arg_name.lstrip("*"): " ".join((item.description or "").split()) for item in read.params}
    return (read.description or "").strip(), {name: words for name, words in described.items() if words}


def _function(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, partial):
        function = function.func
    return function


def _name(function: Callable[..., Any]) -> str:
    function = _function(function)
    return str(getattr(function, "__name__", type(function).__name__))


def _place(function: Callable[..., Any]) -> str:
    function = _function(function)
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', None) or 'builtins'}:{named.__qualname__}"


def _sentence(error: Exception) -> str:
    """The first sentence of what an exception says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].split(". ")[0].rstrip(".")
