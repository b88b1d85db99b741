"""Images and documents where only the user may show them: as text, or in a turn of the user's."""

from __future__ import annotations

from collections.abc import Iterator

from eventstore.domain.messages import Document, Image, Opaque, Part, Text
from eventstore.providers.model import Change, Turn
from eventstore.providers.parts_as_text import described, part_label


def without_media(parts: tuple[Part, ...], changes: list[Change]) -> tuple[Part, ...]:
    """Return `parts` with images and documents as text, where only the user may show them."""
    kinds = dict.fromkeys(part_label(p) for p in parts if isinstance(p, Image | Document))
    changes += (Change("wrapped", kind, f"only the user shows {kind}s here") for kind in kinds)
    return tuple(
        Text(described(part)) if isinstance(part, Image | Document) else part for part in parts
    )


def media_turns(turn: Turn, provider: str, changes: list[Change]) -> Iterator[Turn]:
    """Yield a user's turn with the media of results, for results that can only be text."""
    parts: list[Part] = []
    for call in turn.calls:
        answer = call.answer
        if not answer.shown_parts or call.hidden or answer.provider == provider:
            continue
        if shown := [part for part in answer.shown_parts if _is_shown_by_user(part, provider)]:
            why = "what the result shows follows it"
            changes.append(Change("moved", "foreign-part", why, call.id))
            parts += [Text(f"[Shown by {call.name or 'the tool'}:]"), *shown]
    if parts:
        yield Turn("user", tuple(parts))


def _is_shown_by_user(part: Part, provider: str) -> bool:
    """Return whether a user's message may show a part of a result."""
    if isinstance(part, Opaque):
        return part.provider == provider
    return not isinstance(part, Text)
