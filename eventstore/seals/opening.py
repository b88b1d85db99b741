"""Openings: what a payload's digest in a leaf was made of, so that a stranger can compare it.

1. The digest is BLAKE2b, 32 bytes long, personalized with `toolledger/salt`, over the salt, the
   fingerprint of the arguments where the event has one, and the payload. An event of an older
   version has no salt: there it is BLAKE2b over the payload alone, 16 bytes long. See
   `eventstore.storage.chain`.
2. A redaction has deleted payload and salt: such an event has no opening, and the digest in its
   leaf can be compared with nothing. Where a part of the payload is gone, the rest is in the log,
   and proven by nothing but the record of the redaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import msgspec

from eventstore.domain.redaction import is_marker
from eventstore.storage.chain import payload_digest

if TYPE_CHECKING:
    from eventstore.session import LogSession


class Opening(msgspec.Struct, frozen=True):
    """A payload with its salt and fingerprint in hex, which are null where there is none."""

    version: int
    payload: str
    salt: str | None
    fingerprint: str | None

    def digest(self) -> bytes:
        """Return the digest of the payload, as the event's leaf has it."""
        mark = None if self.fingerprint is None else bytes.fromhex(self.fingerprint)
        return payload_digest(self.payload.encode(), bytes.fromhex(self.salt or ""), mark)


class OpenStore(Protocol):
    """An `EventStore`."""

    session: LogSession


def openings(store: OpenStore, conversation_id: str) -> Iterator[Opening]:
    """Yield the openings of a conversation's events, in the order of versions.

    Events that were redacted have none.
    """
    for stored in store.session.storage.payloads(conversation_id):
        if not is_marker(stored.payload):
            mark = stored.fingerprint
            yield Opening(
                stored.version,
                stored.payload.decode(),
                stored.salt.hex() or None,
                None if mark is None else mark.hex(),
            )
