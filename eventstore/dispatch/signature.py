"""`Signature`: the parameters of a function as a model may fill them, and its result.

1. A parameter is checked by its annotation; without one it takes any JSON value. A parameter with
   the default None also takes null.
2. A parameter of a type that no JSON value has is not offered to the model, and keeps its default.
3. `bind` turns the arguments of a call into those of the function: dates, enums, dataclasses and
   models are made of their JSON. A whole number may be written as a float (`5.0`), as JSON Schema
   has it; no other value is converted to fit.
4. A result of a declared type is stored as the JSON of that type. It is never refused: the tool has
   done its work.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import GenericAlias
from typing import Any, Optional, get_type_hints
from weakref import WeakKeyDictionary

import msgspec

from eventstore.dispatch.value_types import (
    DEFS,
    Annotation,
    ValueType,
    is_plain,
    to_json,
    value_type,
)
from eventstore.domain.json_types import JsonObject, as_whole_number, with_leaves

_NAMED_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_ANY = ValueType(Any, {})


class Signature:
    """What a function takes by name: `types` by parameter, `required` without a default.

    `extra` is the type of any other argument, None where the function takes no others. `result` is
    the declared type of the result, None where results are stored as they are.

    Raises:
        TypeError: the type of a parameter without a default is not one of JSON, it can only be
            passed by position, or an annotation names what does not exist at run time.
    """

    def __init__(self, function: Callable[..., Any], *, skip: bool, typed: bool) -> None:
        self.types: dict[str, ValueType] = {}
        self.defaults: JsonObject = {}
        self.extra: ValueType | None = None
        self.result: ValueType | None = None
        hints = _hints(function) if typed else {}
        try:
            parameters = list(inspect.signature(function).parameters.values())[int(skip) :]
        except (ValueError, TypeError):  # some builtin functions have no signature
            parameters, self.extra = [], _ANY
        for parameter in parameters:
            self._add(parameter, hints.get(parameter.name, Any))
        self.required = frozenset(self.types.keys() - self.defaults.keys())
        returned = hints.get("return", Any)
        if not is_plain(returned):
            self.result = _known(returned)
        self._adapted = {name: found for name, found in self.types.items() if found.adapter}
        self._arguments = _struct(self.types, self.required, takes_others=self.extra is not None)

    def _add(self, parameter: inspect.Parameter, annotation: Annotation) -> None:
        if parameter.kind is parameter.VAR_KEYWORD:
            self.extra = value_type(annotation)
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            raise TypeError(
                f"parameter {parameter.name!r} has no name for callers, and a call names its "
                "arguments: pass a function that takes it by name"
            )
        if parameter.kind not in _NAMED_KINDS:
            return
        if parameter.default is None:
            annotation = Optional[annotation]  # noqa: UP045 - the annotation is a value
        found = _known(annotation)
        if found is None and parameter.default is parameter.empty:
            raise TypeError(
                f"parameter {parameter.name!r} has the type {annotation!r}, which no JSON value "
                "has: give it a default, or pass typed=False"
            )
        if found is not None:
            self.types[parameter.name] = found
            if parameter.default is not parameter.empty:
                self.defaults[parameter.name] = parameter.default

    def complaint(self, arguments: JsonObject) -> str | None:
        """Return why the function cannot take the arguments; None if it can."""
        try:
            self.bind(arguments)
        except msgspec.ValidationError as error:
            return self._names_complaint(arguments) or f"got an invalid argument: {error}"
        except Exception as error:  # noqa: BLE001 - a class of the host may raise anything
            return f"got an invalid argument: {type(error).__name__}: {error}"
        return None

    def _names_complaint(self, arguments: JsonObject) -> str | None:
        names = arguments.keys()
        if not names >= self.required:
            return f"is missing {_listed(self.required - names)}"
        if self.extra is None and not names <= self.types.keys():
            return f"takes no {_listed(names - self.types.keys())}"
        return None

    def bind(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments as the types of the function.

        Raises:
            msgspec.ValidationError: one is missing, unknown, or does not have its type; the error
                names the path.
        """
        try:
            return self._bind(arguments)
        except msgspec.ValidationError:
            return self._bind(with_leaves(arguments, as_whole_number))

    def _bind(self, arguments: JsonObject) -> JsonObject:
        filled = msgspec.convert(arguments, self._arguments)
        if self.extra is None:
            bound = {name: getattr(filled, name) for name in arguments}
        else:
            others = {name: arguments[name] for name in arguments.keys() - self.types.keys()}
            bound = {name: getattr(filled, name) for name in arguments.keys() & self.types.keys()}
            bound |= msgspec.convert(others, GenericAlias(dict, (str, self.extra.annotation)))
        for name, found in self._adapted.items():
            if name in bound:
                bound[name] = found.convert(bound[name], f"$.{name}")
        return bound

    def taken(self, arguments: JsonObject) -> JsonObject:
        """Return what the function gets of the arguments: as its types, with its defaults.

        Arguments that it cannot take, as those of an older version of it, stay as they are.
        """
        try:
            bound = self.bind(arguments)
        except Exception:  # noqa: BLE001 - a class of the host may raise anything
            bound = arguments
        return {**self.defaults, **bound}

    def stored(self, result: object) -> object:
        """Return a result as JSON of its declared type; as it is where that has no such form."""
        if self.result is None:
            return result
        try:
            return to_json(result)
        except Exception:  # noqa: BLE001 - foreign code may raise anything, and the work is done
            return result

    def schema(self, descriptions: Mapping[str, str]) -> JsonObject:
        """Return the JSON schema of the arguments, with descriptions by parameter.

        Raises:
            TypeError: two types of the function have the same name.
        """
        named: JsonObject = {}
        properties = {
            name: self._property(name, found, descriptions, named)
            for name, found in self.types.items()
        }
        schema: JsonObject = {"type": "object", "properties": properties}
        if self.required:
            schema["required"] = [name for name in self.types if name in self.required]
        schema["additionalProperties"] = self.extra is not None
        return {**schema, DEFS: named} if named else schema

    def _property(
        self, name: str, found: ValueType, descriptions: Mapping[str, str], named: JsonObject
    ) -> JsonObject:
        schema = dict(found.schema)
        for other, definition in schema.pop(DEFS, {}).items():
            if named.setdefault(other, definition) != definition:
                raise TypeError(f"two types are named {other!r}: rename one of them")
        if name in descriptions:
            schema["description"] = descriptions[name]
        if name in self.defaults:
            try:
                schema["default"] = to_json(self.defaults[name])
            except Exception:  # noqa: BLE001 - a default without JSON is not shown
                return schema
        return schema


def signature_of(function: Callable[..., Any], *, skip: bool, typed: bool) -> Signature:
    """Return the signature of a function, without its first parameter if `skip`.

    It is made once, because programs pass the same functions to many dispatchers.

    Raises:
        TypeError: as `Signature` does.
    """
    if not inspect.isfunction(function):
        return Signature(function, skip=skip, typed=typed)
    made = _SIGNATURES.setdefault(function, {})
    found = made.get((skip, typed))
    if found is None:
        found = made[skip, typed] = Signature(function, skip=skip, typed=typed)
    return found


_SIGNATURES: WeakKeyDictionary[Callable[..., Any], dict[tuple[bool, bool], Signature]] = (
    WeakKeyDictionary()
)


def _hints(function: Callable[..., Any]) -> dict[str, Annotation]:
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = type(function).__call__
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, AttributeError) as error:
        raise TypeError(
            f"an annotation names what does not exist at run time ({error}): import it where the "
            "function is defined and not only for type checkers, or pass typed=False"
        ) from error
    except TypeError:  # some builtin functions have no annotations
        return {}


def _known(annotation: Annotation) -> ValueType | None:
    try:
        return _ANY if annotation is Any else value_type(annotation)
    except TypeError:
        return None


def _struct(
    types: Mapping[str, ValueType], required: frozenset[str], *, takes_others: bool
) -> type[msgspec.Struct]:
    """Return the type of the arguments; what pydantic checks is taken as it is here."""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for name, found in types.items():
        checked = Any if found.adapter else found.annotation
        fields.append((name, checked) if name in required else (name, checked, msgspec.UNSET))
    return msgspec.defstruct(
        "Arguments", fields, kw_only=True, forbid_unknown_fields=not takes_others
    )


def _listed(names: Iterable[str]) -> str:
    listed = sorted(names)
    return f"argument{'s' * (len(listed) > 1)} {', '.join(listed)}"
