"""A summary of another provider: what was before it is sent no more.

Its own provider ignores what is before the summary, and gets it as it is. Another one reads the
summary as text, if there is any to read, and nothing that it stands for. The system's words stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from eventstore.domain.messages import Opaque
from eventstore.providers.json_values import members_of
from eventstore.providers.model import Change, Turn


def since_summary(turns: Sequence[Turn], provider: str, changes: list[Change]) -> Sequence[Turn]:
    """Return the turns without those before the last summary of another provider."""
    place = len(turns) - 1
    while place > 0 and not _has_summary(turns[place], provider):
        place -= 1
    if place <= 0:
        return turns
    kept = [turn for turn in turns[:place] if turn.role == "system" or turn.hidden]
    if len(kept) < place:
        why = f"the summary of {turns[place].provider} stands for what was before it"
        changes.append(Change("dropped", "compaction", why, None, turns[place].version))
    return [*kept, *turns[place:]]


def _has_summary(turn: Turn, provider: str) -> bool:
    if turn.provider is None or turn.provider == provider or turn.role != "assistant":
        return False
    return not turn.hidden and any(map(_is_summary, turn.parts))


def _is_summary(part: object) -> bool:
    data = members_of(part.data) if isinstance(part, Opaque) else {}
    return data.get("type") == "compaction" and isinstance(data.get("content"), str)
