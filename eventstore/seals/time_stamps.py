"""Time stamps by RFC 3161: an authority says when a note was there.

1. What is stamped is SHA-256 over the note exactly as it is kept, signature lines and all. The
   answer is kept next to it, in the DER form that `openssl ts -verify -data NOTE` reads.
2. An answer is taken if it is granted, is one to this very question (the nonce), and is of this
   note. Whether its certificates lead to an authority that is trusted, `stamped_at` tells, with the
   authority's roots, at any later time.

This is the door to `rfc3161-client`, which the extra `time-stamp` brings. It refuses answers whose
certificates are not in the order of DER, which some authorities send.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from eventstore.seals import crypto
from eventstore.seals.anchors import ObjectAnchor, ObjectStore, keep
from eventstore.seals.errors import StampRefused

if TYPE_CHECKING:
    from datetime import datetime

    from rfc3161_client import TimeStampResponse

try:
    from rfc3161_client import (
        HashAlgorithm,
        PKIStatus,
        TimestampRequestBuilder,
        VerificationError,
        VerifierBuilder,
        decode_timestamp_response,
    )
except ImportError as error:
    raise ImportError(
        "time stamps need rfc3161-client: pip install 'toolledger[time-stamp]'", name=error.name
    ) from error

Authority = Callable[[bytes], bytes]
"""Sends a request in DER to an authority, and returns its answer."""

_MOST_BYTES = 1 << 20


def http_authority(url: str, timeout_seconds: float = 30.0) -> Authority:
    """Return what asks the authority at a URL, by the protocol of RFC 3161, section 3.4."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError("the URL of an authority begins with https:// or http://")

    def ask(request: bytes) -> bytes:
        headers = {"Content-Type": "application/timestamp-query"}
        question = Request(url, request, headers)  # noqa: S310 - the scheme is checked above
        with urlopen(question, timeout=timeout_seconds) as answer:  # noqa: S310 - likewise
            return bytes(answer.read(_MOST_BYTES))

    return ask


class TimeStampAnchor:
    """An object store that keeps notes, each with its time stamp next to it, as `.tsr`.

    A note is kept when its stamp is, so one whose stamp was refused is offered again.
    """

    def __init__(self, authority: Authority, store: ObjectStore, prefix: str = "") -> None:
        self._authority = authority
        self._notes = ObjectAnchor(store, prefix)

    def publish(self, origin: str, size: int, note: str) -> None:
        """Have a note stamped, and keep both.

        Raises:
            StampRefused: the authority's answer is no stamp of this note.
        """
        store, name = self._notes.store, self._notes.name(origin, size).removesuffix("note")
        stamp = f"{name}tsr"
        if stamp not in store.names(f"{name.rpartition('/')[0]}/", name):
            keep(store, stamp, stamped(note.encode(), self._authority))
        self._notes.publish(origin, size, note)

    def latest(self, origin: str) -> str | None:
        """Return the note of the greatest size of an origin that was stamped."""
        return self._notes.latest(origin)


def stamped(note: bytes, authority: Authority) -> bytes:
    """Return an authority's time stamp of a note, in DER.

    Raises:
        StampRefused: the answer is no stamp of this note.
    """
    request = TimestampRequestBuilder(note, HashAlgorithm.SHA256).build()
    answer = authority(request.as_bytes())
    response = _decoded(answer)
    if response.status not in (PKIStatus.GRANTED, PKIStatus.GRANTED_WITH_MODS):
        reason = " ".join(response.status_string) or PKIStatus(response.status).name
        raise StampRefused(f"the authority did not grant a time stamp ({reason}): try another one")
    info = response.tst_info
    if info.nonce != request.nonce or info.message_imprint.message != sha256(note).digest():
        raise StampRefused("the authority's answer is not to this question: try another authority")
    return answer


def stamped_at(note: bytes, stamp: bytes, roots: bytes) -> datetime:
    """Return when an authority has stamped a note; `roots` are certificates that are trusted, PEM.

    Raises:
        StampRefused: the stamp is not one of this note by such an authority.
        ValueError: the roots cannot be read.
    """
    response = _decoded(stamp)
    try:
        trusted = crypto.certificates(roots)
    except ValueError as error:
        raise ValueError(f"the roots are no certificates in PEM: {error}") from error
    verifier = VerifierBuilder(roots=trusted).build()
    try:
        verifier.verify_message(response, note)
    except (ValueError, VerificationError) as error:
        raise StampRefused(
            f"the time stamp is not one of this note ({error}): take that next to it"
        ) from error
    return response.tst_info.gen_time


def _decoded(answer: bytes) -> TimeStampResponse:
    try:
        return decode_timestamp_response(answer)
    except ValueError as error:
        raise StampRefused(
            f"the time stamp cannot be read ({error}): try an authority whose certificates are in "
            "the order of DER"
        ) from error
