"""A bundle: chosen events with their proofs, for a person who does not trust the log's owner.

1. Chosen are conversations, those that have events about a person, a span of time, or a span of
   these: of each conversation the events from the first to the last that was recorded in the span,
   so that a gap is a fault; and behind them the records of their redactions. A person is named by
   the keyed digest of the tags alone.
2. `events.jsonl` has a line for each event: its leaf, the path to the root of the newest seal, the
   name of its lane's note, and the payload with its salt. Instead of a payload that was redacted it
   has the marker. An event after the last seal has no path.
3. The folder appears as a whole, and takes the place of nothing.
4. `manifest.json` says what was chosen, with the versions of each conversation, and the digests of
   all files. `check.py` checks with the verifier key what is proven, and `check_more.py` the rest.
   They need nothing of this library.
"""

from __future__ import annotations

import shutil
from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from eventstore import PayloadsRedacted
from eventstore.seals import NotSealed, leaf_of, openings, prove_all
from projections.audit.about import SCRIPTS, Bundle, about
from projections.audit.decisions import Decision, decisions
from projections.formatting import slug

if TYPE_CHECKING:
    from eventstore import EventStore, Recorded
    from eventstore.seals import Inclusion, Opening, VerifierKey


class Span(NamedTuple):
    """A span of time, in microseconds since 1970 UTC: from one moment to before another."""

    start: int | None = None
    end: int | None = None

    def has(self, at: int) -> bool:
        """Return whether a moment is in it."""
        return (self.start is None or at >= self.start) and (self.end is None or at < self.end)


class AboutSubject(NamedTuple):
    """The conversations that the index of subjects names for one person."""

    digest: bytes
    conversation_ids: tuple[str, ...]
    archived: Mapping[str, str]
    """The places of the archives that hold the others of this tenant."""
    other_tenants: Mapping[str, int]
    """How many conversations of other tenants there are."""


class _Proven(NamedTuple):
    """The proofs of the chosen events by lane and position, and the notes by lane."""

    paths: dict[tuple[int, int], Inclusion]
    notes: dict[int, str]


def about_subject(store: EventStore, subject: str) -> AboutSubject:
    """Return the conversations with events about a person; those of other tenants are counted.

    Raises:
        ValueError: it is no subject, or the store was opened without its secret.
        WrongKey: the secret is not that of the tags.
    """
    digest = store.session.digest_of(subject)
    ours: list[str] = []
    archived: dict[str, str] = {}
    others: Counter[str] = Counter()
    for each in store.session.storage.subjects.find(digest):
        if not each.versions:  # erased meanwhile
            continue
        if each.tenant != store.tenant:
            others[each.tenant] += 1
        elif each.archive is not None:
            archived[each.conversation_id] = each.archive
        else:
            ours.append(each.conversation_id)
    return AboutSubject(digest, tuple(ours), archived, dict(others))


def write_bundle(
    store: EventStore,
    folder: Path,
    conversation_ids: Sequence[str],
    trusted: Collection[VerifierKey],
    span: Span | None = None,
    subject: bytes | None = None,
) -> Bundle:
    """Write a bundle of conversations to a new folder; return what it holds.

    `subject` is the digest of the person by whose tags they were chosen; see `about_subject`.

    Raises:
        ValueError: the folder exists, or no event was chosen.
        NotSigned: a stored seal is not signed by a trusted key.
        SealMismatch: the log is not what was sealed.
    """
    if folder.exists():
        raise ValueError(f"{folder} exists: name a new folder")
    chosen = {
        name: versions
        for name in conversation_ids
        if (versions := _chosen(store, name, span or Span()))
    }
    if not chosen:
        raise ValueError("no event was recorded there: choose other conversations or another time")
    with _whole_folder(folder) as part:
        writer = _Writer(store, part, _proven(store, chosen, trusted))
        return writer.write(chosen, trusted, span or Span(), subject)


def _chosen(store: EventStore, name: str, span: Span) -> list[Recorded]:
    events = list(store.conversation(name).events())
    within = [number for number, each in enumerate(events) if span.has(each.recorded_at)]
    if not within:
        return []
    chosen, later = events[within[0] : within[-1] + 1], events[within[-1] + 1 :]
    versions = {each.version for each in chosen}
    return chosen + [each for each in later if _redacts(each, versions)]


def _redacts(recorded: Recorded, versions: Collection[int]) -> bool:
    event = recorded.event
    return isinstance(event, PayloadsRedacted) and any(
        each.version in versions for each in event.payloads
    )


def _proven(
    store: EventStore,
    chosen: Mapping[str, Sequence[Recorded]],
    trusted: Collection[VerifierKey],
) -> _Proven:
    positions: dict[int, set[int]] = {}
    for events in chosen.values():
        for each in events:
            positions.setdefault(each.lane, set()).add(each.position)
    paths: dict[tuple[int, int], Inclusion] = {}
    notes: dict[int, str] = {}
    for lane, some in sorted(positions.items()):
        try:
            proofs = prove_all(store, lane, some, trusted)
        except NotSealed:
            continue
        for position, proof in proofs.items():
            paths[lane, position] = proof
            notes[lane] = proof.note
        last = None if proofs else store.sealable_log.last_seal(lane)
        if last is not None:  # all of them come after it, as its size shows
            notes[lane] = last.note
    return _Proven(paths, notes)


class _Writer:
    """Writes the files of a bundle."""

    def __init__(self, store: EventStore, folder: Path, proven: _Proven) -> None:
        self._store = store
        self._folder = folder
        self._proven = proven

    def write(
        self,
        chosen: Mapping[str, Sequence[Recorded]],
        trusted: Collection[VerifierKey],
        span: Span,
        subject: bytes | None,
    ) -> Bundle:
        """Write all files; return what they hold."""
        made: list[Decision] = []
        count = proven = redacted = 0
        with (self._folder / "events.jsonl").open("wb") as file:
            for name, events in chosen.items():
                opened = {each.version: each for each in openings(self._store, name)}
                markers = self._markers(name, opened)
                for recorded in events:
                    opening = opened.get(recorded.version)
                    is_proven = (recorded.lane, recorded.position) in self._proven.paths
                    line = self._line(recorded, opening)
                    line["marker"] = markers.get(recorded.version)
                    file.write(msgspec.json.encode(line) + b"\n")
                    count, proven = count + 1, proven + is_proven
                    redacted += opening is None
                made += decisions(events)
        for lane, note in self._proven.notes.items():
            self._file(f"notes/lane-{lane}.note", note.encode())
        (self._folder / "notes").mkdir(exist_ok=True)
        redactions = [each for each in made if each.what == "redacted"]
        self._file("decisions.json", _pretty(made))
        self._file("redactions.json", _pretty(redactions))
        self._pages(chosen)
        for name in SCRIPTS:
            self._file(name, Path(__file__).with_name(name).read_bytes())
        bundle = Bundle(len(chosen), count, proven, redacted, len(made))
        keys = [str(key) for key in trusted]
        self._file("README.md", about(bundle, self._store.sealable_log.epoch, keys).encode())
        self._file("manifest.json", _pretty(self._manifest(bundle, chosen, span, subject)))
        return bundle

    def _line(self, recorded: Recorded, opening: Opening | None) -> dict[str, object]:
        proof = self._proven.paths.get((recorded.lane, recorded.position))
        return {
            "leaf": (self._leaf(recorded) if proof is None else proof.leaf).decode(),
            "note": f"lane-{recorded.lane}.note" if recorded.lane in self._proven.notes else None,
            "path": None if proof is None else [b64encode(each).decode() for each in proof.path],
            "payload": None if opening is None else opening.payload,
            "salt": None if opening is None else opening.salt,
            "fingerprint": None if opening is None else opening.fingerprint,
        }

    def _markers(self, name: str, opened: Collection[int]) -> dict[int, str]:
        stored = self._store.session.storage.payloads(name)
        gone = (each for each in stored if each.version not in opened)
        return {each.version: each.payload.decode() for each in gone}

    def _leaf(self, recorded: Recorded) -> bytes:
        log, at = self._store.sealable_log, recorded.position
        (row,) = log.sealable_rows(recorded.lane, at - 1, at)
        return leaf_of(row)

    def _pages(self, chosen: Mapping[str, Sequence[Recorded]]) -> None:
        from projections.report.page import html_report  # loads jinja2

        for number, (name, events) in enumerate(chosen.items(), 1):
            self._file(f"pages/{number}-{slug(name)}.html", html_report(events).encode())

    def _manifest(
        self,
        bundle: Bundle,
        chosen: Mapping[str, Sequence[Recorded]],
        span: Span,
        subject: bytes | None,
    ) -> dict[str, object]:
        files = sorted(path for path in self._folder.rglob("*") if path.is_file())
        return {
            "store": self._store.sealable_log.epoch,
            "tenant": self._store.tenant,
            "subject": None if subject is None else subject.hex(),
            "from": span.start,
            "until": span.end,
            "conversations": {name: _scope(events, span) for name, events in chosen.items()},
            "holds": bundle,
            "sha256": {
                str(path.relative_to(self._folder)): sha256(path.read_bytes()).hexdigest()
                for path in files
            },
        }

    def _file(self, name: str, data: bytes) -> None:
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)


def _scope(events: Sequence[Recorded], span: Span) -> dict[str, object]:
    """Return the first and the last version of the span, and those of redactions after it."""
    last = max(each.version for each in events if span.has(each.recorded_at))
    records = [each.version for each in events if each.version > last]
    return {"versions": [events[0].version, last], "records": records}


def _pretty(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"


@contextmanager
def _whole_folder(folder: Path) -> Generator[Path]:
    """Give a folder to fill for oneself alone, which is there as a whole at the end."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(mode=0o700)
    try:
        yield part
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
