"""Envelopes: what is encrypted comes back whole, in its own place alone, and never as garbage."""

from __future__ import annotations

from contextlib import suppress

import pytest

pytest.importorskip("cryptography")

from hypothesis import given
from hypothesis import strategies as st

from eventstore import SubjectSecret, WrongKey
from eventstore.domain.codec import DECODERS, decode
from eventstore.domain.envelopes import Place, is_envelope, parsed_envelope
from eventstore.domain.event_headers import HEADER_DECODERS, OtherHeader
from eventstore.domain.events import EVENT_CLASSES, UnknownEvent
from eventstore.domain.redaction import TAGS_WITH_TEXT, identifiers
from eventstore.subjects.keys import SubjectKey
from eventstore.subjects.vault import Vault
from eventstore.testing import completed, message, pending

SECRET = SubjectSecret(bytes(range(32)))
ANN, BOB = SECRET.digest("ann"), SECRET.digest("bob")


class Keys:
    """Keys in memory, as a service of one's own has them."""

    def __init__(self) -> None:
        self.held: dict[str, SubjectKey] = {}
        self.made = 0

    def key_for(self, subject: str) -> SubjectKey:
        """Return the key of a subject."""
        if subject not in self.held:
            self.made += 1
            self.held[subject] = SubjectKey(f"key-{self.made}", bytes([self.made]) * 32)
        return self.held[subject]

    def key(self, key_id: str) -> bytes | None:
        """Return a key by its id."""
        return dict(self.held.values()).get(key_id)

    def destroy(self, subject: str) -> None:
        """Destroy a key."""
        self.held.pop(subject, None)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
places = st.builds(
    Place,
    texts,
    st.binary(min_size=16, max_size=16),
    st.sampled_from(["message", "pending"]),
    st.integers(1, 2),
)


@given(place=places, other=places, payload=st.binary(max_size=100), flip=st.integers(0, 10_000))
def test_an_envelope_is_read_in_its_place_alone(
    place: Place, other: Place, payload: bytes, flip: int
) -> None:
    """Moved, or with any character changed, it is refused, or is no envelope."""
    vault = Vault(Keys(), SECRET)
    stored = vault.encrypt(place, payload, {"role": "user", "turn": 3}, [ANN, BOB])
    assert is_envelope(stored)
    assert vault.decrypt(place, stored) == payload
    if other != place:
        with pytest.raises(WrongKey, match="does not open an event of conversation"):
            vault.decrypt(other, stored)
    at = flip % len(stored)
    changed = stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :]
    try:
        read = vault.decrypt(place, changed)
    except WrongKey:
        return
    # Otherwise it is no envelope, or only one of its two wrapped keys can be used.
    assert read is None or (read == payload and b'"keys"' in stored[: at + 6])


def test_one_key_of_several_subjects_is_enough_and_none_is_not() -> None:
    """A destroyed key does not come back: the next one of the subject has another id."""
    keys = Keys()
    vault, place = Vault(keys, SECRET), Place("chat", bytes(16), "message", 1)
    stored = vault.encrypt(place, b"{}", {}, [ANN, BOB])
    vault.destroy(ANN)
    assert vault.decrypt(place, stored) == b"{}"
    vault.destroy(BOB)
    assert vault.decrypt(place, stored) is None
    again = vault.encrypt(place, b"{}", {}, [ANN])
    assert vault.decrypt(place, again) == b"{}"
    assert vault.decrypt(place, stored) is None


def test_no_event_looks_like_an_envelope_and_no_envelope_like_an_event() -> None:
    """Readers find an envelope where the decoder of its tag fails, so each of them must."""
    vault = Vault(Keys(), SECRET)
    for tag in TAGS_WITH_TEXT:
        cls = EVENT_CLASSES[tag]
        assert "encrypted" not in cls.__struct_fields__
        place = Place("chat", bytes(16), tag, cls.schema)
        stored = vault.encrypt(place, b"{}", {}, [ANN])
        with pytest.raises(ValueError, match="missing required field"):
            DECODERS[tag, cls.schema](stored)
        header = HEADER_DECODERS[tag, cls.schema]
        with suppress(ValueError):
            assert isinstance(header(stored), OtherHeader)


@pytest.mark.parametrize("event", [message("I am Ann"), pending(q="Ann"), completed(result="Ann")])
def test_without_a_key_identifiers_are_read_alone(event: object) -> None:
    """The event is shown as if it had been redacted; what is not as we write it is unknown."""
    vault, tag = Vault(Keys(), SECRET), event.tag  # type: ignore[attr-defined]
    place = Place("chat", bytes(16), tag, 1)
    stored = vault.encrypt(place, b"{}", identifiers(event), [ANN])
    shown = decode(tag, 1, stored)
    assert identifiers(shown) == identifiers(event)
    assert "Ann" not in str(shown)
    assert parsed_envelope(stored.replace(b'"keys"', b' "keys"')) is None
    assert isinstance(decode(tag, 1, stored.replace(b'"keys"', b' "keys"')), UnknownEvent)
