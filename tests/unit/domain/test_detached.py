"""What stands in the place of a payload that is in an archive."""

from __future__ import annotations

import pytest

from eventstore.domain.detached import detached, detached_digest, detached_members, is_detached
from eventstore.domain.redaction import kept_digest
from eventstore.storage.chain import payload_digest, stored_digest

DIGEST = bytes(range(160, 192))


@pytest.mark.parametrize("digest", [DIGEST, DIGEST[:16]])
def test_a_digest_is_read_as_it_was_written(digest: bytes) -> None:
    """Nothing else is: capitals, blanks, another length, another member."""
    stored = detached(digest)
    assert is_detached(stored)
    assert is_detached(stored.decode())
    assert detached_digest(stored) == stored_digest(stored, None, None) == digest
    rooted = detached(digest, DIGEST)
    assert (detached_digest(rooted), detached_members(rooted)) == (digest, DIGEST)
    assert detached_members(stored) is None
    for other in (
        stored.replace(b"a", b"A"),
        stored + b" ",
        rooted[:-3] + b'"}',
        stored.replace(b"a", b"", 1),
        stored[:-1] + b',"by":"mia"}',
        stored.replace(b"detached", b"redacted"),
    ):
        assert detached_digest(other) is None


def test_the_digest_of_a_marker_is_not_read_in_capitals() -> None:
    """A marker with one changed bit is another marker."""
    marker = b'{"redacted":"%s"}' % DIGEST.hex().encode()
    assert kept_digest(marker) == stored_digest(marker, None, None) == DIGEST
    assert kept_digest(marker.replace(b"a", b"A").replace(b"redActed", b"redacted")) is None


def test_a_payload_that_is_there_has_its_own_digest() -> None:
    """With a salt it is another one than without."""
    assert stored_digest(b"{}", None, None) == payload_digest(b"{}")
    assert stored_digest(b"{}", b"s" * 16, None) == payload_digest(b"{}", b"s" * 16)
    assert stored_digest("text", None, None) is None
