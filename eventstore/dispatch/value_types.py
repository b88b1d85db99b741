"""Types of arguments and results: how a JSON value is checked, and what its schema is.

1. msgspec checks what it knows: plain types, containers, `Literal`, enums, times, dataclasses,
   attrs classes, TypedDicts, NamedTuples and its own Structs, with the constraints of its `Meta`.
2. pydantic checks a type that mentions one of its models or a `Field`, and unions that msgspec
   does not take. It is used where the program has imported it, and never imported here.
3. A type that neither of them knows cannot come from JSON: there is no `ValueType` of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import NoneType
from typing import Any, Protocol, TypeAlias, cast, get_args

import msgspec

from eventstore.domain.failure import Failure
from eventstore.domain.json_types import JsonObject
from eventstore.domain.messages import Audio, Document, Image, Text

DEFS = "$defs"

Annotation: TypeAlias = Any
"""What may stand in an annotation: a class, a generic alias, a union, `Annotated`."""

_PLAIN = frozenset({str, int, float, bool, NoneType, dict, list, object, Any, Failure})
_PARTS = frozenset({Audio, Document, Image, Text})
_PYDANTIC_PACKAGES = frozenset({"annotated_types", "pydantic"})


class Adapter(Protocol):
    """What is used of a `pydantic.TypeAdapter`."""

    def validate_python(self, value: object, /) -> Any:
        """Return the value as its type."""
        ...

    def json_schema(self) -> JsonObject:
        """Return the JSON schema of the type."""
        ...


class ValueType(msgspec.Struct, frozen=True):
    """A type that comes from JSON; `adapter` is pydantic's, where pydantic checks it."""

    annotation: Annotation
    schema: JsonObject
    adapter: Adapter | None = None

    def convert(self, value: object, path: str = "$") -> Any:
        """Return a JSON value as its type.

        Raises:
            msgspec.ValidationError: it does not have the type; the error names the path.
        """
        if self.adapter is None:
            return msgspec.convert(value, self.annotation)
        try:
            return self.adapter.validate_python(value)
        except Exception as error:
            raise msgspec.ValidationError(_complaint(error, path)) from error


def value_type(annotation: Annotation) -> ValueType:
    """Return the type of an annotation.

    Raises:
        TypeError: neither msgspec nor pydantic takes it.
    """
    if annotation is object:
        annotation = Any
    if not _mentions_pydantic(annotation):
        try:
            (schema,), named = msgspec.json.schema_components(
                [annotation], ref_template=f"#/{DEFS}/{{name}}"
            )
        except (AttributeError, NameError, TypeError) as error:
            if "pydantic" not in sys.modules:
                raise TypeError(str(error)) from error
        else:
            return ValueType(annotation, {**schema, DEFS: named} if named else schema)
    return _pydantic_type(annotation)


def is_plain(annotation: Annotation) -> bool:
    """Return whether results of the type are JSON values, or parts of a message, as they are."""
    members = {member for member in _members(annotation) if isinstance(member, type)}
    return members <= _PLAIN or bool(members & _PARTS)


def to_json(value: object) -> Any:
    """Return a value of a declared type as JSON values.

    Raises:
        Exception: it has no such form.
    """
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_dumped)


def _pydantic_type(annotation: Annotation) -> ValueType:
    pydantic = sys.modules.get("pydantic")
    if pydantic is None:
        raise TypeError(f"{annotation!r} has constraints of pydantic, which is not imported")
    try:
        adapter = cast("Adapter", pydantic.TypeAdapter(annotation))
        return ValueType(annotation, adapter.json_schema(), adapter)
    except (AttributeError, NameError, TypeError, pydantic.errors.PydanticUserError) as error:
        raise TypeError(str(error).partition("\n")[0]) from error


def _mentions_pydantic(annotation: Annotation) -> bool:
    return any(
        hasattr(member, "__pydantic_validator__")
        or type(member).__module__.partition(".")[0] in _PYDANTIC_PACKAGES
        for member in _members(annotation)
    )


def _members(annotation: Annotation) -> Iterator[Any]:
    """Yield the classes and the metadata that an annotation is made of, at any depth."""
    yield getattr(annotation, "__origin__", annotation)
    for argument in get_args(annotation):
        # The arguments of a Literal are values, those of a callable may be a list.
        for inner in cast("Iterable[Any]", argument) if isinstance(argument, list) else (argument,):
            yield from _members(inner)


def _dumped(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True)


def _complaint(error: Exception, path: str) -> str:
    """Return the first complaint of pydantic, with its path as msgspec writes it."""
    errors = getattr(error, "errors", None)
    if not callable(errors):  # raised by a validator of the model
        return f"{type(error).__name__}: {error} - at `{path}`"
    first = cast("list[JsonObject]", errors(include_url=False, include_input=False))[0]
    for step in first["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return f"{first['msg']} - at `{path}`"
