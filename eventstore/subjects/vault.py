"""`Vault`: encrypts payloads for their subjects, and decrypts them with the keys that are there."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from eventstore.domain.envelopes import Envelope, Place, WrappedKey, encoded, parsed_envelope
from eventstore.errors import WrongKey
from eventstore.subjects.keys import KEY_BYTES, SubjectKeys
from eventstore.subjects.secret import SubjectSecret

NONCE_BYTES = 12


class Vault:
    """The keys of subjects at work.

    Raises:
        ModuleNotFoundError: `cryptography` is not installed.
    """

    def __init__(self, keys: SubjectKeys, secret: SubjectSecret) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "keys of subjects need cryptography: pip install 'toolledger[encrypt]'",
                name=error.name,
            ) from error
        self._keys = keys
        self._secret = secret
        self._cipher = AESGCM
        self._invalid = InvalidTag

    def mark(self, fingerprint: bytes) -> bytes:
        """Return the fingerprint of arguments that are encrypted: it is keyed.

        Equal calls have equal ones within a store, and no guess at arguments can be confirmed
        without its secret.
        """
        return self._secret.keyed(fingerprint)

    def encrypt(
        self,
        place: Place,
        payload: bytes,
        identifiers: Mapping[str, Any],
        subjects: Iterable[bytes],
    ) -> bytes:
        """Return the envelope of a payload for its subjects."""
        of = msgspec.json.encode({name: each for name, each in identifiers.items() if each})
        bound, own = place.bound(of), os.urandom(KEY_BYTES)
        wrapped: list[WrappedKey] = []
        for subject in subjects:
            key = self._keys.key_for(subject.hex())
            wrapped.append(WrappedKey(key.id, self._encrypted(key.key, own, bound)))
        data = self._encrypted(own, payload, bound)
        return encoded(Envelope(data, tuple(wrapped), msgspec.Raw(of)))

    def decrypt(self, place: Place, payload: str | bytes) -> bytes | None:
        """Return the payload of an envelope; None where none of its keys is there.

        Raises:
            WrongKey: a key is there, and is another one; or the envelope was changed.
        """
        envelope = parsed_envelope(payload)
        if envelope is None:
            return None
        bound = place.bound(bytes(envelope.of))
        for each in envelope.keys:
            key = self._keys.key(each.id)
            if key is not None:
                try:
                    own = self._decrypted(key, each.key, bound)
                    return self._decrypted(own, envelope.encrypted, bound)
                except (self._invalid, ValueError) as error:
                    raise WrongKey(
                        f"the key {each.id!r} does not open an event of conversation "
                        f"{place.conversation_id!r} ({place.tag!r}), which names it: pass the keys "
                        "that the log was written with, or run `toolledger verify`"
                    ) from error
        return None

    def destroy(self, subject: bytes) -> None:
        """Destroy the key of a subject, and with it every copy of what is encrypted under it."""
        self._keys.destroy(subject.hex())

    def _encrypted(self, key: bytes, data: bytes, bound: bytes) -> str:
        nonce = os.urandom(NONCE_BYTES)
        return base64.b64encode(nonce + self._cipher(key).encrypt(nonce, data, bound)).decode()

    def _decrypted(self, key: bytes, text: str, bound: bytes) -> bytes:
        data = base64.b64decode(text, validate=True)
        return self._cipher(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound)
