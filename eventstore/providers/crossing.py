"""A turn of one provider on its way to another: what it keeps besides its words.

1. Citations become a line of sources under the words, each with its title and address.
2. What the provider's own tools did is told in a note of the user's, at its place in the turn: the
   assistant never said it.
3. Reasoning is left out, or told in such a note.

The turn itself is not changed. What cannot arrive is named in the changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, Literal, TypeAlias, TypeGuard

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.messages import Opaque, Part, Text
from eventstore.domain.own_texts import DONE, THOUGHT
from eventstore.providers.json_values import members_of
from eventstore.providers.model import Change, Turn
from eventstore.providers.parts_as_text import REASONING_KINDS, foreign_text, kind_of

Reasoning: TypeAlias = Literal["drop", "note"]
"""What becomes of another provider's reasoning: it is left out, or told in a note."""


def crossed(
    turn: Turn, provider: str, reasoning: Reasoning, changes: list[Change]
) -> Iterator[Turn]:
    """Yield the turn as it goes to `provider`: as one, or its words with notes between them."""
    if turn.role != "assistant" or turn.hidden or turn.provider == provider:
        yield turn
        return
    parts = _with_sources(turn, provider, changes)
    if any(_belongs_in_note(part, provider, reasoning) for part in parts):
        yield from _with_notes(turn, parts, provider, reasoning, changes)
    elif parts is turn.parts:
        yield turn
    else:
        yield msgspec.structs.replace(turn, parts=parts)


def _is_foreign(part: Part, provider: str) -> TypeGuard[Opaque]:
    return isinstance(part, Opaque) and part.provider != provider


# sources


def _with_sources(turn: Turn, provider: str, changes: list[Change]) -> tuple[Part, ...]:
    """Return the parts of a turn, with the addresses of what it cites under its last words."""
    cited = [_citations(part) if _is_foreign(part, provider) else None for part in turn.parts]
    beside = [members_of(_native(turn)).get(key) for key in _BESIDE_TEXT]
    if not any(cited) and not any(beside):  # as nearly every turn: nothing to look through
        return turn.parts
    sources = list(dict.fromkeys(_sources([*cited, *beside])))
    words = [n for n, part in enumerate(turn.parts) if _said(part) is not None]
    if not sources or not words:
        return turn.parts
    parts = list(turn.parts)
    for index, citations in enumerate(cited):
        if any(_sources(citations)):
            parts[index] = _without_citations(parts[index])
    parts[words[-1]] = Text(f"{_said(parts[words[-1]])}\n\nSources: {', '.join(sources)}")
    rest = ", ".join(dict.fromkeys(_other_members([*cited, *beside])))
    why = "the addresses of what a text cites stand under it" + (rest and f", without {rest}")
    changes.append(Change("wrapped", "citations", why, version=turn.version))
    return tuple(parts)


_BESIDE_TEXT: Final = ("annotations", "citations")
"""Members of a whole message that say what its text cites."""
_CITED_TEXT: Final = "citationsContent"


def _native(turn: Turn) -> JsonValue:
    return turn.native


def _citations(part: Opaque) -> JsonValue:
    """Return what the text in a part cites."""
    data = members_of(part.data)
    held = members_of(data.get(_CITED_TEXT)) if _CITED_TEXT in data else data
    is_text = held is not data or data.get("type") in _TEXTS
    return [held[key] for key in _BESIDE_TEXT if held.get(key)] if is_text else None


_TEXTS: Final = ("text", "output_text")


def _said(part: Part) -> str | None:
    """Return the words of a text; None of any other part."""
    if isinstance(part, Text):
        return part.text
    data = members_of(part.data) if isinstance(part, Opaque) else {}
    is_text = data.get("type") in _TEXTS or _CITED_TEXT in data
    return foreign_text(part, []) if is_text and isinstance(part, Opaque) else None


def _without_citations(part: Part) -> Part:
    """Return a part without what says what its text cites."""
    if not isinstance(part, Opaque):
        return part
    data = members_of(part.data)
    held = members_of(data.get(_CITED_TEXT)) if _CITED_TEXT in data else data
    kept = {key: value for key, value in held.items() if key not in _BESIDE_TEXT}
    return Opaque(part.provider, kept if held is data else {**data, _CITED_TEXT: kept})


def _sources(value: JsonValue, depth: int = 8) -> Iterator[str]:
    """Yield each title with its address, or what there is of both, in citations of any form."""
    members = members_of(value)
    title = _first_text(members, _TITLES)
    address = _address(members, 3 if title else 0)
    if address:
        yield f"[{_in_brackets(title)}]({address})" if title else address
    elif title:
        yield _in_brackets(title)
    elif depth:
        for each in value if isinstance(value, list) else members.values():
            yield from _sources(each, depth - 1)


def _address(members: JsonObject, depth: int) -> str | None:
    """Return the address in a citation, or in the location that it holds."""
    own = _first_text(members, _ADDRESSES)
    if own is not None and not own.startswith("data:"):
        return own
    held = (members_of(each) for each in members.values()) if depth else ()
    return next((found for each in held if (found := _address(each, depth - 1))), None)


_TITLES: Final = ("title", "document_title", "filename")
_ADDRESSES: Final = ("url", "uri", "source")
_ARRIVING: Final = frozenset({*_TITLES, *_ADDRESSES, "type"})


def _first_text(members: JsonObject, keys: Sequence[str]) -> str | None:
    held = (members.get(key) for key in keys)
    return next((each for each in held if isinstance(each, str) and each.strip()), None)


def _in_brackets(title: str) -> str:
    return " ".join(title.replace("[", "(").replace("]", ")").split())


def _other_members(value: JsonValue, depth: int = 8) -> Iterator[str]:
    """Yield the names of members of citations that do not arrive."""
    held: list[JsonValue] = value if isinstance(value, list) else []
    if depth:
        members = members_of(value)
        yield from (str(key) for key in members if _is_left_out(key, members[key]))
        for each in (*held, *members.values()):
            yield from _other_members(each, depth - 1)


def _is_left_out(key: str, value: JsonValue) -> bool:
    is_nested = isinstance(value, dict | list)
    return key not in _ARRIVING and not is_nested and value not in (None, "")


# notes


def _belongs_in_note(part: Part, provider: str, reasoning: Reasoning) -> bool:
    """Return whether a note tells of a part, which is not the assistant's words."""
    if not _is_foreign(part, provider):
        return False
    return _is_done_by_tools(part) or (reasoning == "note" and _is_reasoning(part))


def _with_notes(
    turn: Turn,
    parts: tuple[Part, ...],
    provider: str,
    reasoning: Reasoning,
    changes: list[Change],
) -> Iterator[Turn]:
    """Yield the words of a turn, with the notes between them; its calls go with its last words."""
    pieces: list[Turn] = []
    for in_note, several in groupby(
        parts, lambda part: _belongs_in_note(part, provider, reasoning)
    ):
        said = tuple(several)
        if in_note:
            said = tuple(_notes([part for part in said if isinstance(part, Opaque)], changes))
        role = "user" if in_note else "assistant"
        if said and pieces and pieces[-1].role == role:
            pieces[-1].parts += said
        elif said:
            pieces.append(Turn(role, said, version=turn.version))
    last = next((n for n in range(len(pieces) - 1, -1, -1) if pieces[n].role != "user"), None)
    if last is None or (turn.calls and last < len(pieces) - 1):
        pieces.append(Turn(turn.role))
        last = len(pieces) - 1
    pieces[last] = msgspec.structs.replace(turn, parts=pieces[last].parts)
    yield from pieces


def _notes(parts: list[Opaque], changes: list[Change]) -> Iterator[Text]:
    """Yield the notes that tell of parts in a row."""
    for (by, is_thought), several in groupby(parts, lambda p: (p.provider, _is_reasoning(p))):
        notes = [text for part in several if (text := _note_of(part, changes))]
        if notes:
            header = THOUGHT if is_thought else DONE.format(by)
            what = "reasoning" if is_thought else "what its own tools did"
            rule = "reasoning" if is_thought else "foreign-part"
            changes.append(Change("moved", rule, f"{what} ({by}) is told in a note"))
            yield Text("\n".join([header, *notes]))


def _note_of(part: Opaque, changes: list[Change]) -> str | None:
    if _is_reasoning(part) and (thought := "\n".join(_thoughts(part.data))):
        return thought
    return foreign_text(part, changes)


def _is_done_by_tools(part: Opaque) -> bool:
    kind = kind_of(members_of(part.data))
    return kind in _DONE_KINDS or kind.endswith(_DONE_ENDS)


_DONE_KINDS: Final = frozenset(
    {
        "codeExecutionResult",
        "code_execution_result",
        "executableCode",
        "executable_code",
        "mcp_tool_use",
        "program",
        "program_output",
        "server_tool_use",
        "toolCall",
        "toolResponse",
        "toolResult",
        "toolUse",
    }
)
_DONE_ENDS: Final = ("_tool_result", "_call", "_call_output")


def _is_reasoning(part: Opaque) -> bool:
    data = members_of(part.data)
    return data.get("thought") is True or kind_of(data) in REASONING_KINDS


def _thoughts(value: JsonValue, depth: int = 8) -> Iterator[str]:
    """Yield the texts of reasoning of any form."""
    if isinstance(value, str) and value.strip():
        yield value
    members = members_of(value)
    held = value if isinstance(value, list) else [members[k] for k in _THOUGHTS if k in members]
    for each in held if depth else ():
        yield from _thoughts(each, depth - 1)


_THOUGHTS: Final = (
    "text",
    "thinking",
    "reasoning",
    "reasoning_content",
    "reasoningContent",
    "reasoningText",
    "summary",
    "content",
)
