"""Tags and envelopes of older versions are found and read: their stored forms never change."""

from __future__ import annotations

import pytest

from eventstore import SubjectSecret
from eventstore.domain.envelopes import Place
from eventstore.subjects.keys import SubjectKey

SECRET = SubjectSecret(bytes(range(32)))
STORED = (
    b'{"encrypted":"UGpC+HMToW8FZ4qQU25dMJDZsWRmo1KKUcHUSsWmKeD4eFeWSR9RajyrVDpH+f9c+z7gN5I5zbOUM0x0'
    b'ajhJnrwZuuGl0t9Urtdk4LwFwn4BQ9n7DDbX","keys":[{"id":"key-1","key":"VtlZNVOQaJbQkF/NwC9atj+tzj5b'
    b'12A0v+xcC/Kwev0PNpdh8NAxK+yioi9zAH+WOee3/58ZGps5f6kG"}],"of":{"role":"user"}}'
)


class Keys:
    """One key."""

    def key_for(self, subject: str) -> SubjectKey:
        """Return the key."""
        raise NotImplementedError

    def key(self, key_id: str) -> bytes | None:
        """Return the key by its id."""
        return {"key-1": bytes(32)}.get(key_id)

    def destroy(self, subject: str) -> None:
        """Destroy the key."""
        raise NotImplementedError


def test_the_digests_of_a_secret_are_what_they_were() -> None:
    """Another digest would lose every tag that is stored."""
    assert SECRET.digest("customer-17").hex() == "2d293246f4bbc11e74423b73c24acb38"
    assert SECRET.check.hex() == "84d5b481f3429d65c5978178e73ae7a9"
    assert SECRET.keyed(bytes(16)).hex() == "9a59db0f2c45b35914cb0c38cc78ba1d"


def test_an_envelope_of_the_first_version_is_read() -> None:
    """The same key, and the same place, give the same event."""
    pytest.importorskip("cryptography")
    from eventstore.subjects.vault import Vault

    plain = Vault(Keys(), SECRET).decrypt(Place("chat", bytes(16), "message", 1), STORED)
    assert plain == b'{"role":"user","parts":[{"type":"text","text":"I am Ann"}]}'
