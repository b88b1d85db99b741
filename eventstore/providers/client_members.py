"""Members of a message that the wire does not have: an SDK's client added or renamed them.

1. A client adds what it parsed of the model's text, and the places of streamed calls.
2. A member whose name is a word of Python, such as `from`, is an attribute with a `_` behind it. A
   dump that was made without `by_alias=True` names it so.

Providers refuse both. What the model wrote is not looked at: arguments may have any names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from operator import is_
from typing import Final

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.providers.model import Change

_HOLDERS: Final = frozenset(
    {"choices", "content", "custom", "function", "item", "message", "output", "tool_calls", "tools"}
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

    def may_be_in(self, json: bytes) -> bool:
        """Return whether messages of this JSON may have such members; their arguments may, too."""
        names = self.added | self.added_to_calls | {*self.renamed.values()}
        return _as_members(names).search(json) is not None

    def without(self, message: JsonValue, rule: str, changes: list[Change]) -> JsonValue:
        """Return a message with the members of the wire; the same where it has no others."""
        return self._mended(message, "", rule, changes)

    def _mended(self, given: JsonValue, holder: str, rule: str, changes: list[Change]) -> JsonValue:
        if isinstance(given, list):
            made = [
                self._mended(each, holder, rule, changes) if type(each) in _NESTED else each
                for each in given
            ]
            return given if all(map(is_, made, given)) else made
        return (
            self._mended_object(given, holder, rule, changes) if isinstance(given, dict) else given
        )

    def _mended_object(
        self, given: JsonObject, holder: str, rule: str, changes: list[Change]
    ) -> JsonObject:
        made = given
        for key, value in given.items():
            if type(value) in _NESTED and key in _HOLDERS:
                inner = self._mended(value, key, rule, changes)
                if inner is not value:
                    made = {**made, key: inner}
        for key in self._found_in(given, holder):
            made = _without_member(made, key, rule, changes)
        return made

    def _found_in(self, given: JsonObject, holder: str) -> Iterator[str]:
        """Yield the client's own members of an object that stands in the member `holder`."""
        if not self.added.isdisjoint(given):
            yield from (key for key in given if key in self.added)
        if holder == "tool_calls" and not self.added_to_calls.isdisjoint(given):
            yield from (key for key in given if key in self.added_to_calls)
        if self.renamed and isinstance(kind := given.get("type"), str):
            renamed = self.renamed.get(kind)
            if renamed is not None and renamed in given:
                yield renamed


@cache
def _as_members(names: frozenset[str]) -> re.Pattern[bytes]:
    return re.compile(b'"(?:%b)":' % b"|".join(sorted(name.encode() for name in names)))


def _without_member(given: JsonObject, key: str, rule: str, changes: list[Change]) -> JsonObject:
    name = key.removesuffix("_")
    if name == key or name in given or given[key] is None:
        changes.append(Change("dropped", rule, f"{key} is not the provider's: the client added it"))
        return {each: value for each, value in given.items() if each != key}
    changes.append(Change("rewritten", rule, f"{key} is {name} on the wire"))
    return {name if each == key else each: value for each, value in given.items()}
