"""What a provider's server keeps and a history names: code containers, files, stored items.

The server deletes them after a time, and refuses a request that names one. Where they are to be
told as a note, they become parts that no provider takes for its own.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from eventstore.domain.json_types import JsonValue
from eventstore.domain.messages import Opaque, Part
from eventstore.providers.json_values import members_of
from eventstore.providers.model import Answer, Turn
from eventstore.providers.parts_as_text import REASONING_KINDS, kind_of

ServerKept: TypeAlias = Literal["keep", "note"]
"""Whether a request names what the provider's server keeps, or a note tells of it."""

_OWNER: Final = "{}'s server"


def without_server_data(turn: Turn, provider: str) -> Turn:
    """Return a turn of a provider in which nothing names what its server keeps.

    The words of the turn stay, and so do its calls.
    """
    named = {n for n, part in enumerate(turn.parts) if _is_named(part, provider)}
    ids = {name for n in named for name in _ids(turn.parts[n])}
    named |= {n for n, part in enumerate(turn.parts) if not ids.isdisjoint(_ids(part))}
    for place in sorted(named):  # what the model thought before it belongs to it
        before = place - 1
        while before >= 0 and _is_reasoning(turn.parts[before], provider):
            named.add(before)
            before -= 1
    calls = [
        replace(call, answer=_plain_answer(call.answer))
        if call.answer.provider == provider and _names_server_data(call.answer.native)
        else call
        for call in turn.calls
    ]
    is_kept = turn.server_call is not None and turn.provider == provider
    if not named and not is_kept and calls == turn.calls:
        return turn
    parts = tuple(_noted(part) if n in named else part for n, part in enumerate(turn.parts))
    if not named and not is_kept:
        return replace(turn, calls=calls, results_message=None)
    return replace(
        turn,
        parts=parts,
        calls=calls,
        provider=None,
        native=None,
        well_formed=False,
        results_message=None,
        server_call=None,
    )


def _is_named(part: Part, provider: str) -> bool:
    if not isinstance(part, Opaque) or part.provider != provider:
        return False
    data = members_of(part.data)
    return _names_server_data(data) or _runs_code(data.get("name")) or _runs_code(data.get("type"))


def _names_server_data(value: JsonValue, depth: int = 8) -> bool:
    if isinstance(value, list):
        return depth > 0 and any(_names_server_data(each, depth - 1) for each in value)
    data = members_of(value)
    if any(isinstance(data.get(key), str) and data[key] for key in _NAMES):
        return True
    if data.get("type") == "item_reference" or _is_stored_file(data):
        return True
    return depth > 0 and any(_names_server_data(each, depth - 1) for each in data.values())


def _is_stored_file(data: JsonValue) -> bool:
    address = members_of(data).get("fileUri") or members_of(data).get("file_uri")
    return isinstance(address, str) and "generativelanguage.googleapis.com" in address


def _runs_code(name: JsonValue) -> bool:
    """Return whether a name is that of a tool, or of its result, that runs in a container."""
    return isinstance(name, str) and any(word in name for word in _CODE_TOOLS)


def _ids(part: Part) -> set[str]:
    data = members_of(part.data) if isinstance(part, Opaque) else {}
    if kind_of(data) in REASONING_KINDS:
        return set()
    return {each for key in ("id", "tool_use_id") if isinstance(each := data.get(key), str)}


def _is_reasoning(part: Part, provider: str) -> bool:
    if not isinstance(part, Opaque) or part.provider != provider:
        return False
    return kind_of(members_of(part.data)) in REASONING_KINDS


def _noted(part: Part) -> Part:
    return Opaque(_OWNER.format(part.provider), part.data) if isinstance(part, Opaque) else part


def _plain_answer(answer: Answer) -> Answer:
    return replace(answer, provider=None, native=None)


_NAMES: Final = ("container_id", "file_id", "container_file_id")
_CODE_TOOLS: Final = ("code_execution", "code_interpreter", "container_upload")
