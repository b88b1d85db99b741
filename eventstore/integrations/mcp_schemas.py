"""The schema of a server's tool: a stranger's text, which the arguments of calls are checked by.

1. Nothing is fetched: a reference leads to a place in the schema itself, or to a metaschema of JSON
   Schema.
2. A schema that cannot be used has a `problem`; arguments are never checked against a part of it.
3. `pattern` and `patternProperties` are left to the server. They are expressions of ECMAScript, of
   which Python's mean something else, and one that never ends would stop the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import evolve
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.validators import extend, validator_for
from jsonschema_specifications import REGISTRY
from msgspec.json import encode
from referencing.jsonschema import specification_with

from eventstore.domain.nesting import MAX_LEVELS, too_deep
from eventstore.domain.one_line import one_line

if TYPE_CHECKING:
    from eventstore.domain.json_types import JsonObject

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_OVER_PATTERNS: Final = ("patternProperties", "additionalProperties", "unevaluatedProperties")
"""Keywords whose meaning depends on patterns, where there is one for the names of properties."""
_SHOWN_CHARACTERS: Final = 300


class ArgumentsSchema:
    """A JSON schema of a tool's arguments; `problem` says why it cannot be used, if so."""

    def __init__(self, schema: JsonObject) -> None:
        self.problem: str | None = None
        try:
            self._validator = _validator(schema)
        except Exception as error:  # noqa: BLE001 - a stranger's schema may break its reader anywhere
            self.problem = _described(error)

    def fault(self, arguments: object) -> str | None:
        """Return what is wrong with arguments, or with the schema; None if nothing is."""
        problem = self.problem
        if problem is None:
            try:
                wrong = best_match(self._validator.iter_errors(arguments))
            except Exception as error:  # noqa: BLE001 - references in a circle, for example
                problem = _described(error)
            else:
                return None if wrong is None else f"{wrong.json_path}: {wrong.message}"
        return f"the server's schema of its arguments cannot be used: {problem}"


def _validator(schema: JsonObject) -> Any:
    """Return what checks arguments.

    Raises:
        Exception: the schema cannot be used.
    """
    if (place := too_deep(schema)) is not None:
        raise ValueError(f"nested more than {MAX_LEVELS} levels deep - at `{place}`")
    cls: Any = validator_for(schema, default=Draft202012Validator)
    cls.check_schema(schema, format_checker=None)  # which would compile patterns
    _require_targets(schema, cls.META_SCHEMA["$schema"])
    unchecked = ["pattern", *(_OVER_PATTERNS if b'"patternProperties"' in encode(schema) else ())]
    cls = extend(cls, dict.fromkeys(unchecked, _left_to_the_server))
    cls.evolve = evolve  # its own would take another class for an inner schema with a `$schema`
    return cls(schema, registry=REGISTRY)


def _left_to_the_server(*_: object) -> None: ...


def _require_targets(schema: JsonObject, dialect: str) -> None:
    """Raise an error if a reference leads to nowhere, or to another address."""
    root: Any = specification_with(dialect).create_resource(schema)
    unseen = [(root, REGISTRY.resolver_with_root(root))]
    while unseen:
        resource, resolver = unseen.pop()
        if isinstance(resource.contents, dict):
            for keyword in _REFERENCES:
                if keyword in resource.contents:
                    resolver.lookup(resource.contents[keyword])
        unseen += [(each, resolver.in_subresource(each)) for each in resource.subresources()]


def _described(error: Exception) -> str:
    said = str(getattr(error, "message", "") or error)
    return one_line(f"{type(error).__name__.lstrip('_')}: {said}", _SHOWN_CHARACTERS)
