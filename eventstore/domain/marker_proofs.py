"""Proofs of markers: that what a redaction has left is a part of what was there.

1. A marker of a payload that had a salt has a proof, `members`; see `member_tree`. Where a part is
   gone it is the proof of `kept`. Where all is gone it is that of the identifiers, each at its
   place in the payload.
2. A value that is gone shows `REDACTED`. No member is missing but the forms in which a provider
   wrote a message, which are left out as a whole.
3. What is shown and not proven is named: a text around a part that is gone, and what a marker
   without a proof shows. One of a schema that was taken back, and with it the salts, keeps its
   proof, which proves nothing any more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from eventstore.domain.codec import decode
from eventstore.domain.events import SCHEMAS, UnknownEvent
from eventstore.domain.json_types import is_json_object
from eventstore.domain.member_tree import (
    MISSING,
    Path,
    is_salt,
    opened,
    proof_again,
    proof_of,
    root_from,
    shown,
)
from eventstore.domain.redaction import (
    FORMS,
    REDACTED,
    SALTED_DIGEST_BYTES,
    Marker,
    left_of,
    members_proof,
)
from eventstore.errors import UnhashableArguments

Place = tuple[str, ...]

_OF_CALL: dict[str, Place] = {
    "call_id": ("call_id",),
    "attempt": ("attempt",),
    "duration": ("duration",),
}
_OF_FAILURE: dict[str, Place] = {"word": ("failure", "kind")}

PLACES: dict[str, dict[str, Place]] = {
    **dict.fromkeys(("running", "paused", "ended_late"), _OF_CALL),
    "approved": {**_OF_CALL, "name": ("edited_call", "name")},
    "failed": {**_OF_CALL, **_OF_FAILURE, "delay": ("delay",)},
    "pending": {
        "call_id": ("call", "id"),
        "name": ("call", "name"),
        "turn": ("turn",),
        "index": ("index",),
        "provider_call_id": ("provider_call_id",),
        "imported": ("imported",),
    },
    "completed": {
        **_OF_CALL,
        "name": ("response", "name"),
        "synthetic": ("synthetic",),
        "lossy": ("lossy",),
    },
    "rejected": {"call_id": ("call_id",), "word": ("source",)},
    "message": {name: (name,) for name in ("role", "turn", "calls", "call_id")},
    "hook_raised": {"call_id": ("call_id",), **_OF_FAILURE},
    "history_compacted": {name: (name,) for name in ("until", "after", "hides_system")},
    "run_ended": {"word": ("reason",)},
}
"""Tag to the places of the identifiers in the payload, by the names of `Marker`."""

_OTHERWISE: dict[tuple[str, str], object] = {("rejected", "word"): "human"}
"""What an event says that has no such member, where that is not what a marker says."""

_DEFAULTS: dict[str, Any] = {each.name: each.default for each in msgspec.structs.fields(Marker)}

_OF_FORM = {"redacted", "nonce", "fingerprint", "members", "kept", "edited"}
"""The members of a marker that are no identifiers."""

_NONCE = re.compile("[0-9a-f]{32}")

_EDITS = {"approved": "edited_call", "running": "arguments"}
"""Tag to the member that replaces the arguments of a call."""


class Proven(NamedTuple):
    """What a marker proves."""

    root: bytes | None
    """The root over the members of the payload; None where it had no salt."""
    unproven: tuple[str, ...]
    """The paths of what is shown, and not proven."""


def proof_for(tag: str, payload: bytes, salt: bytes, left: bytes | None) -> Any:
    """Return the proof for a marker; None is left of a payload that goes as a whole."""
    if left is not None:
        return proof_of(payload, salt, left)
    return opened(payload, proof_of(payload, salt, _identifiers_in(tag, payload)))


def proof_after(tag: str, marker: Marker, left: bytes | None) -> Any:
    """Return the proof for a marker that takes the place of another one; None without its proof."""
    before = members_proof(marker)
    if before is None or marker.kept is msgspec.UNSET:
        return before
    kept = bytes(marker.kept)
    if left is not None:
        return proof_again(kept, before, left)
    return opened(kept, proof_again(kept, before, _identifiers_in(tag, kept)))


def proven(tag: str, schema: int, marker: Marker) -> Proven | None:
    """Return what a marker proves; None for one that is not as the library writes it."""
    left = left_of(marker)
    places = PLACES.get(tag, {}) if left is None and _is_known(tag, schema) else {}
    if not _has_form(marker, places):
        return None
    if marker.members is msgspec.UNSET or not _is_salted(marker):
        named = [name for name in places if getattr(marker, name) != _DEFAULTS[name]]
        return Proven(None, tuple(named) if left is None else ("",))
    try:
        proof = members_proof(marker)
        if left is None:
            return _of_identifiers(tag, places, marker, proof)
        return _of_part(tag, schema, marker, left, proof)
    except (ValueError, RecursionError, UnhashableArguments):  # those of msgspec are ValueErrors
        return None


def _is_salted(marker: Marker) -> bool:
    return len(marker.redacted) == 2 * SALTED_DIGEST_BYTES


def _is_known(tag: str, schema: int) -> bool:
    """Return whether this version reads events of a tag and schema."""
    return 1 <= schema <= SCHEMAS.get(tag, 0)


def _has_form(marker: Marker, places: Mapping[str, Place]) -> bool:
    """Return whether a marker holds nothing but what the library writes for its event."""
    others = _DEFAULTS.items() - {(name, _DEFAULTS[name]) for name in {*places, *_OF_FORM}}
    if any(getattr(marker, name) != default for name, default in others):
        return False
    if marker.nonce is not None and not _NONCE.fullmatch(marker.nonce):
        return False
    if marker.members is msgspec.UNSET:
        return True
    try:
        return msgspec.json.encode(members_proof(marker)) == bytes(marker.members)
    except (ValueError, RecursionError):
        return False


def _of_part(tag: str, schema: int, marker: Marker, left: bytes, proof: Any) -> Proven | None:
    value = msgspec.json.decode(left)
    if msgspec.json.encode(value) != left:
        return None  # of two members of one name, others may read the other one
    root, unproven, missing = root_from(left, proof), list[str](), set[str]()
    for path, each in shown(left, proof):
        if each is MISSING:
            missing.add(str(path[0]) if len(path) == 1 else "")
        elif each != REDACTED:
            if REDACTED.encode() not in msgspec.json.encode(each):
                return None
            unproven.append(_text_of(path))
    if _is_known(tag, schema):
        event: Any = decode(tag, schema, left)
        is_read = type(event) is not UnknownEvent and _has_identifiers(tag, proof)
        if not is_read or marker.fingerprint not in (None, _fingerprint(event)):
            return None
        left_out = missing - {*FORMS} or (missing and {*FORMS} & value.keys())
        return None if left_out else Proven(root, tuple(unproven))
    return None if missing or marker.fingerprint is not None else Proven(root, tuple(unproven))


def _text_of(path: Path) -> str:
    """Return a path as it is written: `parts[0].text`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")


def _has_identifiers(tag: str, proof: Any) -> bool:
    """Return whether all identifiers that a payload had are left of it."""
    nodes = [_at(proof, place) for place in PLACES.get(tag, {}).values()]
    return all(node in (MISSING, "") or is_salt(node) for node in nodes)


def _fingerprint(event: Any) -> str | None:
    """Return that of the arguments which an event brings; None where it brings none."""
    call = getattr(event, "call", None) or getattr(event, "edited_call", None)
    return None if call is None else call.digest().hex()


def _of_identifiers(
    tag: str, places: Mapping[str, Place], marker: Marker, proof: Any
) -> Proven | None:
    if marker.fingerprint is not None:
        return None
    edit = _EDITS.get(tag)
    if not is_json_object(proof):  # of an encrypted payload
        names = (*places, "edited") if edit else tuple(places)
        return Proven(root_from(b"{}", proof), names)
    if marker.edited != (edit in proof):
        return None
    left: dict[str, Any] = {}
    for name, place in places.items():
        value, node = getattr(marker, name), _at(proof, place)
        if node is MISSING:
            if value != _OTHERWISE.get((tag, name), _DEFAULTS[name]):
                return None
        elif not is_salt(node):
            return None
        else:
            _put(left, place, value)
    return Proven(root_from(msgspec.json.encode(left), proof), ())


def _identifiers_in(tag: str, payload: bytes) -> bytes | None:
    """Return what a marker keeps of a payload that goes as a whole, as a part of it."""
    places = PLACES.get(tag)
    if places is None:
        return None
    try:
        value, left = msgspec.json.decode(payload), dict[str, Any]()
    except ValueError:  # it is damaged
        return None
    for place in places.values():
        found = _at(value, place)
        if found is not MISSING:
            _put(left, place, found)
    return msgspec.json.encode(left)


def _at(value: Any, place: Place) -> Any:
    """Return what stands at a place; of a proof, the digest of what it is a part of."""
    for number, name in enumerate(place):
        if isinstance(value, str):
            return value if number and not is_salt(value) else ""
        value = value.get(name, MISSING) if is_json_object(value) else MISSING
    return value


def _put(value: dict[str, Any], place: Place, what: object) -> None:
    *before, last = place
    for name in before:
        value = value.setdefault(name, {})
    value[last] = what
