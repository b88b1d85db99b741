"""A filled value of each type that an SDK declares, as the wire has it: built from annotations.

1. A value is what its provider would send: JSON, with members under the wire's names.
2. Every member is filled. Where it may be of several types, there is a value with each of them.
3. The same type gives the same values in every process.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import typing_extensions

MAX_DEPTH = 6
"""Objects inside of objects; below that a member that may be left out is left out."""

TEXTS: Mapping[str, str] = {
    "arguments": "{}",
    "media_type": "image/png",
    "mimeType": "image/png",
    "tool_use_id": "srvtoolu_1",
}
"""Texts of members whose content has a form; the others are words of their own."""
_EMPTY = frozenset({"input", "args"})
"""Members that hold what a tool is called with."""
_PLAIN: Mapping[Any, list[Any]] = {
    bool: [True, False],
    int: [7],
    float: [0.5],
    bytes: ["aGVsZA=="],
    type(None): [],
    None: [],
}
_NEVER = ("Base64FileInput", "IO", "IOBase", "NotGiven", "Omit", "PathLike", "Unset", "UnsetType")
"""Names of types of members that are not there, or that never reach the wire."""
_UNKNOWN = ("Unknown", "Unrecognized")
"""How names of types begin that stand for what this version of an SDK does not know."""
_SPECIAL: Mapping[str, list[Any]] = {
    **{name: [] for name in _NEVER},
    "Image": ["aGVsZA=="],  # Ollama's client reads a file, or takes base64 text
}


class Member(NamedTuple):
    """A member of an object: its name on the wire, its type, and whether it must be there."""

    name: str
    annotation: Any
    is_required: bool


def members_of_type(kind: Any) -> list[Member]:
    """Return the members of a TypedDict or of a pydantic model."""
    fields: Mapping[str, Any] | None = getattr(kind, "model_fields", None)
    if fields is not None:
        return [
            Member(_alias_of_field(field) or name, field.annotation, field.is_required())
            for name, field in fields.items()
        ]
    required = typing.cast("frozenset[str]", kind.__required_keys__)
    hints = typing_extensions.get_type_hints(kind, include_extras=True)
    return [Member(_alias(each) or name, each, name in required) for name, each in hints.items()]


def variants(annotation: Any) -> list[Any]:
    """Return the types that an annotation stands for: those of a union, at any depth."""
    bare = _bare(annotation)
    if get_origin(bare) in (Union, types.UnionType):
        return [kind for each in get_args(bare) for kind in variants(each)]
    return [bare]


def items_of(annotation: Any) -> list[Any]:
    """Return the types of the items of all lists that an annotation allows."""
    lists = [kind for kind in variants(annotation) if get_origin(kind) in _LISTS]
    return [item for kind in lists for each in get_args(kind)[:1] for item in variants(each)]


def values_of(annotation: Any, name: str = "value", around: tuple[Any, ...] = ()) -> list[Any]:
    """Return values of a type, which together have each type of each member at least once."""
    kinds = variants(annotation)
    if str in kinds and any(get_origin(kind) is Literal for kind in kinds):
        kinds.remove(str)  # what this version of the SDK does not know
    return [value for kind in kinds for value in _values(kind, name, around)]


def name_of(kind: Any) -> str:
    """Return the name of a type."""
    return getattr(kind, "__name__", None) or repr(kind)


_LISTS = (list, Iterable, Sequence, tuple, set, frozenset)


def _values(kind: Any, name: str, around: tuple[Any, ...]) -> Sequence[Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    known = _SPECIAL.get(name_of(kind), _PLAIN.get(kind))
    if known is not None or kind in around or name_of(kind).startswith(_UNKNOWN):
        values: Sequence[Any] = known or ()
    elif origin is Literal:
        values = arguments
    elif origin in _LISTS or kind is list:
        values = [[value] for value in values_of(arguments[0] if arguments else str, name, around)]
    elif origin in (dict, Mapping) or kind in (dict, object, Any):
        values = [{} if name in _EMPTY else {f"{name}_key": f"{name} words"}]
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        values = [each.value for each in kind]
    elif hasattr(kind, "model_fields") or typing_extensions.is_typeddict(kind):
        values = [*_objects(kind, (*around, kind))]
    else:
        values = [TEXTS.get(name, f"{name}_words")]
    return values


def _objects(kind: Any, around: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    """Yield objects, as many as the most types of a member; the values of others come in turn."""
    filled = {
        name: values
        for name, annotation, is_required in members_of_type(kind)
        if is_required or len(around) <= MAX_DEPTH
        if (values := values_of(annotation, name, around))
    }
    for number in range(max(map(len, filled.values()), default=0)):
        yield {name: values[number % len(values)] for name, values in filled.items()}


def _alias_of_field(field: Any) -> str | None:
    """Return the name that a field of a pydantic model has on the wire."""
    named = (getattr(each, "alias", None) for each in field.metadata)
    return field.serialization_alias or field.alias or next(filter(None, named), None)


def _alias(annotation: Any) -> str | None:
    """Return the name that an annotation gives a member on the wire."""
    if get_origin(annotation) in (typing_extensions.Required, typing_extensions.NotRequired):
        return _alias(get_args(annotation)[0])
    for each in get_args(annotation)[1:] if get_origin(annotation) is Annotated else ():
        alias = getattr(each, "alias", None)
        if isinstance(alias, str) and alias != "None":
            return alias
    return None


def _bare(annotation: Any) -> Any:
    """Return an annotation without what is around its type."""
    origin = get_origin(annotation)
    if origin in (Annotated, typing_extensions.Required, typing_extensions.NotRequired):
        return _bare(get_args(annotation)[0])
    if isinstance(origin, typing_extensions.TypeAliasType):  # Mistral's, of what may be left out
        return _bare(get_args(annotation)[0])
    if isinstance(annotation, typing_extensions.TypeAliasType):
        return _bare(annotation.__value__)
    return annotation
