"""`RedactionPlan`: which payloads of a conversation get which marker. It writes nothing.

1. A payload goes as a whole, or without what the selection names of it.
2. Where the arguments of a call are concerned, so is every place that tells of them: the form in
   which the provider wrote the message that asked for the call, and the fingerprint of the
   arguments on each of the call's events. An event that has such a fingerprint loses its salt with
   it, and keeps the rest of its payload.
3. Rows of an older version, without a salt, keep their fingerprint: their digest covers it as it
   is. These rows are told, because what they held can be guessed at, and the guess confirmed.
4. A payload that is encrypted goes as a whole, also where a part of it is selected.
5. Nothing of a call is redacted that is open or in doubt: the log alone says what was asked for.
6. Identifiers stay, and so do the records of redactions: those that hold the text are told.
7. A payload that is not JSON goes as a whole, if the text stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from eventstore.domain.codec import DECODERS, decode
from eventstore.domain.envelopes import is_envelope
from eventstore.domain.events import (
    SCHEMAS,
    MessageAdded,
    ToolApproved,
    ToolPending,
    UnknownEvent,
)
from eventstore.domain.json_types import is_json_object
from eventstore.domain.marker_proofs import proof_after, proof_for
from eventstore.domain.redaction import (
    FORMS,
    SALTED_DIGEST_BYTES,
    TAGS_WITH_TEXT,
    RedactedPayload,
    identifiers,
    is_marker,
    kept_digest,
    left_of,
    marker_digest,
    parsed_marker,
    partial_marker,
    whole_marker,
)
from eventstore.domain.tool import Tool
from eventstore.errors import RedactionRefused
from eventstore.redaction.members import (
    RECORDS,
    foreign_without_text,
    identifiers_with,
    is_foreign,
    steps_in,
    without_member,
    without_text,
    without_texts,
)
from eventstore.redaction.selection import Selection
from eventstore.storage.chain import payload_digest
from eventstore.storage.interface import Rewrite, StoredPayload


class RedactionPlan(NamedTuple):
    """The markers to be, the calls that are left for now with their states, and what stays.

    `kept` has the names of members that hold the text and stay, by version. `locked` are versions
    of events that are encrypted, and could not be looked at for want of a key.
    """

    payloads: list[Planned]
    left: dict[str, str]
    kept: dict[int, tuple[str, ...]]
    locked: tuple[int, ...]


class Planned(msgspec.Struct, frozen=True):
    """The marker of one payload, and how it is recorded."""

    rewrite: Rewrite
    record: RedactedPayload
    salted: bool
    """Whether nothing that was in it can be confirmed by a guess."""


def plan(
    conversation_id: str,
    payloads: Iterable[StoredPayload],
    tools: Mapping[str, Tool],
    wanted: Selection,
    nonce: Callable[[], bytes],
) -> RedactionPlan:
    """Return what is to be done for a selection, in the order of versions.

    `nonce` returns 16 random bytes.

    Raises:
        RedactionRefused: a call is open or in doubt, or an event cannot be read without what is to
            go; nothing is to be done.
    """
    rows = [_Row(stored) for stored in payloads]
    found = {row.version for row in rows}
    if missing := sorted(wanted.versions - found):
        raise RedactionRefused(
            f"conversation {conversation_id!r} has no version {missing[0]}: it ends at "
            f"{max(found, default=0)}; name one of its versions"
        )
    unknown = sorted(wanted.calls - tools.keys())
    if unknown and not wanted.spares:
        raise RedactionRefused(
            f"conversation {conversation_id!r} has no call {unknown[0]!r}: look at `chat.tools`, "
            "and name one of them"
        )
    for row in rows:
        if wanted.names(row.version, row.call_id):
            row.select(wanted)
    left: dict[str, str] = {}
    if wanted.spares:
        open_calls = unsettled(tools)
        changed = {row.call_id for row in rows if row.is_changed}
        left = {call_id: state for call_id, state in open_calls.items() if call_id in changed}
        rows = [row for row in rows if row.call_id not in left]
    concerned = {row.call_id for row in rows if row.is_changed and row.call_id is not None}
    _check_settled(tools, concerned)
    bare = {row.call_id for row in rows if row.call_id is not None and row.loses_arguments}
    turns = {tools[call_id].turn for call_id in bare if call_id in tools}
    for row in rows:
        if row.call_id in bare:
            row.forget_fingerprint()
        elif row.tells_of(turns):
            row.drop_forms()
    kept = {row.version: row.keeps for row in rows if row.keeps}
    locked = tuple(row.version for row in rows if row.is_locked)
    planned = [row.planned(nonce) for row in rows if row.is_changed]
    return RedactionPlan(planned, left, kept, locked)


def unsettled(tools: Mapping[str, Tool]) -> dict[str, str]:
    """Return the calls of which nothing can be redacted yet: their states by their ids."""
    return {
        call_id: "in doubt" if tool.in_doubt else tool.status.name.lower()
        for call_id, tool in tools.items()
        if not tool.is_resolved or tool.in_doubt or tool.retry_announced
    }


def _check_settled(tools: Mapping[str, Tool], concerned: set[str]) -> None:
    for call_id, state in unsettled(tools).items():
        if call_id in concerned:
            raise RedactionRefused(
                f"call {call_id!r} is {state}, and only the log says what was asked for: complete, "
                "reject or settle it first; nothing was redacted"
            )


class _Row:
    """A stored payload, and what becomes of it."""

    def __init__(self, stored: StoredPayload) -> None:
        self._stored = stored
        self.version = stored.version
        self._is_encrypted = is_envelope(stored.payload)
        self._event: Any = decode(stored.tag, stored.schema, stored.plain or stored.payload)
        if type(self._event) is UnknownEvent and is_marker(stored.payload):
            self._event = _of_old_marker(stored) or self._event
        self.call_id: str | None = getattr(self._event, "call_id", None)
        self._kept: bytes | None = _readable(stored)
        self._is_whole = False
        self._forgets = False
        self.is_changed = False
        self.loses_arguments = False
        self.keeps: tuple[str, ...] = ()
        """The names of members that hold the text and stay."""
        self.is_locked = False
        """Whether it could not be looked at for want of a key."""

    def select(self, wanted: Selection) -> None:
        """Take out what is selected."""
        if wanted.is_whole:
            self._take_all(named=self.version in wanted.versions and not wanted.spares)
        elif self._kept is not None and self._stored.tag not in RECORDS:
            self._take_out(wanted)
        elif self._is_encrypted:
            self.is_locked = True
        if wanted.text is not None:
            self.keeps = identifiers_with(self._left(), wanted.text, self._stored.tag)

    def _take_all(self, *, named: bool) -> None:
        stored = self._stored
        if stored.tag in SCHEMAS and stored.tag not in TAGS_WITH_TEXT:
            self._take_texts(named=named)
            return
        marker = parsed_marker(stored.payload) if is_marker(stored.payload) else None
        if marker is not None and not named and marker.kept is msgspec.UNSET:
            return  # it is gone
        self._is_whole = self.is_changed = True
        self.loses_arguments = self._brings_arguments()

    def _take_texts(self, *, named: bool) -> None:
        """Take out what an event with identifiers and numbers has of other texts."""
        value = self._left()
        if is_json_object(value) and without_texts(value, self._stored.tag):
            self._keep(value)
        elif named:
            raise RedactionRefused(
                f"version {self.version} ({self._stored.tag}) holds identifiers and numbers alone: "
                "there is nothing to redact; name other events"
            )

    def _take_out(self, wanted: Selection) -> None:
        tag, value, found = self._stored.tag, self._left(), False
        is_ours = is_json_object(value) and not is_foreign(tag)
        if wanted.text is not None and not is_ours:
            self._take_text_of_others(wanted.text)
            return
        brings = self._brings_arguments()
        before = _arguments(value) if brings else None
        if wanted.text is not None:
            found = without_text(value, wanted.text)
        for path in wanted.paths:
            steps = steps_in(path, tag)
            if steps is not None and without_member(value, steps):
                found = True
        if not found:
            return
        if wanted.paths and is_ours:
            for name in FORMS:
                value.pop(name, None)
        self.loses_arguments = brings and _arguments(value) != before
        self._keep(value)

    def _take_text_of_others(self, text: re.Pattern[str]) -> None:
        payload = (self._kept or b"").decode("utf-8", "replace")
        covered = foreign_without_text(payload, text)
        if covered == payload:
            return
        try:
            self._keep(msgspec.json.decode(covered))
        except (ValueError, RecursionError):  # not JSON: the errors of msgspec are ValueErrors
            self._is_whole = self.is_changed = True

    def _left(self) -> Any:
        """Return what is left of the payload, or a marker; None for what is not JSON."""
        try:
            return msgspec.json.decode(self._stored.payload if self._kept is None else self._kept)
        except (ValueError, RecursionError):  # the errors of msgspec are ValueErrors
            return None

    def _value(self) -> Any:
        return msgspec.json.decode(self._kept or b"{}")

    def _keep(self, value: Any) -> None:
        if self._is_encrypted:  # what is left of it would be in clear
            self._is_whole = self.is_changed = True
            return
        stored = self._stored
        kept = msgspec.json.encode(value)
        if type(self._event) is not UnknownEvent:
            event = decode(stored.tag, stored.schema, kept)
            if type(event) is UnknownEvent or identifiers(event) != identifiers(self._event):
                raise RedactionRefused(
                    f"version {self.version} ({stored.tag}) cannot be read without that, or its "
                    f"identifiers would be others: nothing was redacted; name the whole event, by "
                    f"versions=[{self.version}] alone"
                )
        self._kept, self.is_changed = kept, True

    def _brings_arguments(self) -> bool:
        event = self._event
        if type(event) is ToolPending:
            return True
        return type(event) is ToolApproved and event.edited_call is not None

    def forget_fingerprint(self) -> None:
        """Give up the fingerprint, which tells of arguments that are gone."""
        if self._stored.fingerprint is not None and self.is_salted:
            self._forgets = self.is_changed = True
        if self._stored.tag == "running" and not self._is_whole:
            self._is_whole = self.is_changed = True  # it repeats the arguments

    def tells_of(self, turns: set[int]) -> bool:
        """Return whether it is a message that holds calls of these turns as its provider wrote."""
        event = self._event
        is_asking = type(event) is MessageAdded and event.role == "assistant"
        return bool(is_asking and event.turn in turns and event.native is not None)

    def drop_forms(self) -> None:
        """Give up the form in which the provider wrote it."""
        if self._kept is None or self._is_whole:
            return
        value = self._value()
        for name in FORMS:
            value.pop(name, None)
        self._keep(value)

    @property
    def is_salted(self) -> bool:
        """Whether its digest covers a salt."""
        kept = kept_digest(self._stored.payload) or b""
        return bool(self._stored.salt) or len(kept) == SALTED_DIGEST_BYTES

    def _proof(self, left: bytes | None) -> Any:
        """Return the proof that what is left was there; None where there can be none."""
        stored, is_known = self._stored, type(self._event) is not UnknownEvent
        tag = stored.tag if is_known and not self._is_encrypted else ""
        if stored.salt:
            return proof_for(tag, stored.payload, stored.salt, left)
        marker = parsed_marker(stored.payload)
        return None if marker is None else proof_after(tag, marker, left)

    def planned(self, nonce: Callable[[], bytes]) -> Planned:
        """Return its marker."""
        stored = self._stored
        digest = kept_digest(stored.payload) if not stored.salt else None
        if digest is None:
            digest = payload_digest(stored.payload, stored.salt, stored.fingerprint)
        left = None if self._is_whole or self._is_encrypted else self._kept
        if left is not None:
            left = msgspec.json.encode(msgspec.json.decode(left))  # in one form
        proof = self._proof(left)
        # The fingerprint stays with the row that brings the arguments, as long as it has them.
        has_arguments = left is not None and self._brings_arguments() and not self._forgets
        fingerprint = stored.fingerprint if self.is_salted else None
        stays, forgotten = (fingerprint, None) if has_arguments else (None, fingerprint)
        if left is None:
            marker = whole_marker(digest, self._event, proof, stays)
        else:
            marker = partial_marker(digest, left, nonce(), proof, stays)
        record = RedactedPayload(self.version, marker_digest(marker), self.call_id)
        return Planned(Rewrite(self.version, marker, forgotten), record, self.is_salted)


def _readable(stored: StoredPayload) -> bytes | None:
    """Return the payload, or what a marker has kept of it; None where it is gone or encrypted."""
    if is_envelope(stored.payload):
        return stored.plain
    if not is_marker(stored.payload):
        return stored.payload
    marker = parsed_marker(stored.payload)
    return None if marker is None else left_of(marker)


def _arguments(value: Any) -> tuple[Any, Any]:
    call: Any = value.get("call") or value.get("edited_call")
    if not is_json_object(call):
        return call, None
    return msgspec.json.encode(call.get("arguments")), call.get("raw")


def _of_old_marker(stored: StoredPayload) -> Any:
    """Return the event of a marker that was made by hand, as far as it has the form's members."""
    try:
        return DECODERS[stored.tag, stored.schema](stored.payload)
    except Exception:  # noqa: BLE001 - it has not
        return None
