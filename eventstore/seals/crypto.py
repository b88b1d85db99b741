"""The door to `cryptography`, which the extra `seal` brings: Ed25519, and certificates.

Nothing is made up here: keys and signatures are those of RFC 8032, as raw bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
except ImportError as error:
    raise ImportError(
        "seals are signed with cryptography: pip install 'toolledger[seal]'", name=error.name
    ) from error


def new_seed() -> bytes:
    """Return 32 random bytes, from which a key is made."""
    return Ed25519PrivateKey.generate().private_bytes_raw()


def public_key(seed: bytes) -> bytes:
    """Return the public key of a seed of 32 bytes."""
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def sign(seed: bytes, message: bytes) -> bytes:
    """Return the signature of a message, of 64 bytes."""
    return Ed25519PrivateKey.from_private_bytes(seed).sign(message)


def is_signed(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether the owner of a public key has signed a message."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def certificates(pem: bytes) -> list[Certificate]:
    """Return the certificates of a PEM text.

    Raises:
        ValueError: there are none, or they cannot be read.
    """
    from cryptography.x509 import load_pem_x509_certificates

    return load_pem_x509_certificates(pem)
