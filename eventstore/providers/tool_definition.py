"""`ToolDefinition`: what a model is told of a tool."""

from __future__ import annotations

from typing import cast

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object

_DEFS = "$defs"
_REF = "$ref"


class ToolDefinition(msgspec.Struct, frozen=True):
    """A tool's name, its description, and the JSON schema of its arguments, `parameters`."""

    name: str
    description: str
    parameters: JsonObject

    def with_schema_as(self, key: str) -> JsonObject:
        """Return name, description (if there is one) and schema, the schema under `key`."""
        description = {"description": self.description} if self.description else {}
        return {"name": self.name, **description, key: self.parameters}


def inlined(schema: JsonObject) -> JsonObject:
    """Return a schema with its definitions in the places of the references to them.

    Definitions that contain themselves keep their references, and stay in `$defs`.
    """
    named: JsonObject = schema.get(_DEFS, {})
    kept: set[str] = set()
    members = {key: value for key, value in schema.items() if key != _DEFS}
    whole = cast("JsonObject", _inlined(members, named, (), kept))
    # The definition of a type that contains itself may refer to others: all are kept with it.
    return {**whole, _DEFS: named} if kept else whole


def _inlined(
    value: JsonValue, named: JsonObject, outer: tuple[str, ...], kept: set[str]
) -> JsonValue:
    if is_json_list(value):
        return [_inlined(item, named, outer, kept) for item in value]
    if not is_json_object(value):
        return value
    name = str(value.get(_REF, "")).rpartition("/")[2]
    if name in outer:
        kept.add(name)
    elif name in named:
        others = {key: item for key, item in value.items() if key != _REF}
        found = _inlined(named[name], named, (*outer, name), kept)
        return {**cast("JsonObject", found), **others}
    return {key: _inlined(item, named, outer, kept) for key, item in value.items()}
