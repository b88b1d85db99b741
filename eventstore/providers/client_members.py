"""Members of a message that the wire does not have: an SDK's client added or renamed them.

1. A client adds what it parsed of the model's text, and the places of streamed calls.
2. A member whose name is a word of Python, such as `from`, is an attribute with a `_` behind it. A
   dump that was made without `by_alias=True` names it so.

Providers refuse both. What the model wrote is not looked at: arguments may have any names.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from typing import Final

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.providers.model import Change

_HOLDERS: Final = frozenset(
    {"choices", "content", "function", "item", "message", "output", "tool_calls", "tools"}
)
"""Members that hold objects with such members."""
_NESTED: Final = (dict, list)


class ClientMembers(msgspec.Struct, frozen=True, kw_only=True):
    """What the client of a provider's SDK puts into messages."""

    added: frozenset[str] = frozenset()
    """Members that the wire has nowhere."""
    added_to_calls: frozenset[str] = frozenset()
    """Members that the wire does not have in `tool_calls`."""
    renamed: Mapping[str, str] = {}
    """Type of an object to the member of it that bears a `_` behind its name."""

    def found_in(self, given: JsonObject, holder: str) -> list[str]:
        """Return the client's own members of an object that stands in the member `holder`."""
        found = [key for key in given if key in self.added]
        if holder == "tool_calls":
            found += [key for key in given if key in self.added_to_calls]
        kind = given.get("type") if self.renamed else None
        renamed = self.renamed.get(kind) if isinstance(kind, str) else None
        if renamed is not None and renamed in given:
            found.append(renamed)
        return found

    def without(self, message: JsonValue, rule: str, changes: list[Change]) -> JsonValue:
        """Return a message with the members of the wire; the same where it has no others."""
        return self._mended(message, "", rule, changes)

    def _mended(self, given: JsonValue, holder: str, rule: str, changes: list[Change]) -> JsonValue:
        if isinstance(given, list):
            return self._mended_list(given, holder, rule, changes)
        if not isinstance(given, dict):
            return given
        made = given
        for key, value in given.items():
            if key in _HOLDERS and type(value) in _NESTED:
                inner = self._mended(value, key, rule, changes)
                if inner is not value:
                    made = {**made, key: inner}
        for key in self.found_in(given, holder):
            made = _mended_object(made, key, rule, changes)
        return made

    def _mended_list(
        self, given: list[JsonValue], holder: str, rule: str, changes: list[Change]
    ) -> list[JsonValue]:
        made = [
            self._mended(each, holder, rule, changes) if type(each) in _NESTED else each
            for each in given
        ]
        return given if all(map(is_, made, given)) else made


def _mended_object(given: JsonObject, key: str, rule: str, changes: list[Change]) -> JsonObject:
    name = key.removesuffix("_")
    if name == key or name in given or given[key] is None:
        changes.append(Change("dropped", rule, f"{key} is not the provider's: the client added it"))
        return {each: value for each, value in given.items() if each != key}
    changes.append(Change("rewritten", rule, f"{key} is {name} on the wire"))
    return {name if each == key else each: value for each, value in given.items()}
