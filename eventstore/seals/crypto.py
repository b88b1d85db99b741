"""The door to `cryptography`, which the extra `seal` brings: Ed25519, and certificates.

Nothing is made up here: keys and signatures are those of RFC 8032, as raw bytes. It is loaded when
something is signed or checked, so that a log with seals can be read without it.

Raises:
    ImportError: `cryptography` is not installed; each function does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from cryptography.x509 import Certificate


def new_seed() -> bytes:
    """Return 32 random bytes, from which a key is made."""
    seed: bytes = _ed25519().Ed25519PrivateKey.generate().private_bytes_raw()
    return seed


def public_key(seed: bytes) -> bytes:
    """Return the public key of a seed of 32 bytes."""
    key = _ed25519().Ed25519PrivateKey.from_private_bytes(seed)
    public: bytes = key.public_key().public_bytes_raw()
    return public


def sign(seed: bytes, message: bytes) -> bytes:
    """Return the signature of a message, of 64 bytes."""
    signature: bytes = _ed25519().Ed25519PrivateKey.from_private_bytes(seed).sign(message)
    return signature


def is_signed(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether the owner of a public key has signed a message."""
    ed25519 = _ed25519()
    from cryptography.exceptions import InvalidSignature

    try:
        ed25519.Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def certificates(pem: bytes) -> list[Certificate]:
    """Return the certificates of a PEM text.

    Raises:
        ValueError: there are none, or they cannot be read.
    """
    _ed25519()
    from cryptography.x509 import load_pem_x509_certificates

    return load_pem_x509_certificates(pem)


def _ed25519() -> ModuleType:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise ImportError(
            "seals are signed with cryptography: pip install 'toolledger[seal]'", name=error.name
        ) from error
    return ed25519
