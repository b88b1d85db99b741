"""Encrypting the drafts of an append for the subjects that they are about.

1. An event is encrypted whose tag holds text; see `eventstore.domain.redaction`. The others hold
   identifiers and numbers alone.
2. The fingerprint of arguments that are encrypted is keyed: a plain one would tell of them. It
   stays that of all later events of the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventstore.domain.envelopes import Place
from eventstore.domain.redaction import TAGS_WITH_TEXT, identifiers

if TYPE_CHECKING:
    from eventstore.append.conversation_state import StagedEvents
    from eventstore.storage.interface import Draft
    from eventstore.subjects.tags import Tag
    from eventstore.subjects.vault import Vault


def marked(
    vault: Vault, tags: Sequence[Tag], fingerprint: bytes | None, version: int
) -> bytes | None:
    """Return the fingerprint that an event at a version brings, keyed if it has a tag."""
    if fingerprint is None or not _subjects(tags, version):
        return fingerprint
    return vault.mark(fingerprint)


def encrypted(
    vault: Vault, conversation_id: str, tags: Sequence[Tag], staged: StagedEvents
) -> list[Draft]:
    """Return the drafts to be stored: those that have a tag are encrypted."""
    drafts: list[Draft] = []
    pairs = zip(staged.events, staged.drafts, strict=True)
    for version, (event, draft) in enumerate(pairs, staged.follows + 1):
        subjects = _subjects(tags, version)
        if subjects and draft.tag in TAGS_WITH_TEXT:
            place = Place(conversation_id, draft.event_id, draft.tag, draft.schema)
            payload = vault.encrypt(place, draft.payload, identifiers(event), subjects)
            drafts.append(replace(draft, payload=payload))
        else:
            drafts.append(draft)
    return drafts


def _subjects(tags: Sequence[Tag], version: int) -> list[bytes]:
    """Return the subjects of an event; a whole conversation's are tagged, and not encrypted for."""
    found = (tag.subject for tag in tags if tag.version is None or tag.version == version)
    return list(dict.fromkeys(found))
