"""Seals, proofs and time stamps as programs of others see them: `aics-tlog` and `openssl`.

`aics-tlog` needs Python 3.12, so it is called by its command, from wherever it is installed. It is
skipped where it is not there; `TOOLLEDGER_REQUIRE=aics-tlog` turns the skip into a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from support.time_authority import TimeAuthority

from eventstore import EventStore
from eventstore.seals import (
    AnchorFailed,
    Checkpoint,
    FolderStore,
    Inclusion,
    SigningKey,
    StampRefused,
    prove,
    prove_since,
    seal,
)
from eventstore.seals.checkpoints import opened
from eventstore.storage.leaves import leaf_of

stamps = pytest.importorskip("eventstore.seals.time_stamps", exc_type=ImportError)

KEY = SigningKey("example.com/agents", bytes(range(32)))
TRUSTED = [KEY.verifier]
VKEY = str(KEY.verifier)

Run = Callable[..., bool]


@pytest.fixture(scope="module")
def log() -> Iterator[EventStore]:
    """Yield a log of 13 events, sealed at 6 and 13."""
    with EventStore.open("sqlite://") as store:
        for numbers in (range(6), range(6, 13)):
            for number in numbers:
                store.conversation(f"c{number % 2}").add_message("user", f"message {number}")
            store.seal(KEY)
        yield store


@pytest.fixture
def tlog(tmp_path: Path) -> Run:
    """Return what runs `aics-tlog` in a folder, and says whether it was satisfied."""
    program = shutil.which("aics-tlog")
    if program is None:
        if "aics-tlog" in os.environ.get("TOOLLEDGER_REQUIRE", "").split(","):
            pytest.fail("aics-tlog is not installed (TOOLLEDGER_REQUIRE asks for it)")
        pytest.skip("aics-tlog is not installed")

    def run(*words: object, **files: bytes | str) -> bool:
        for name, data in files.items():
            (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        command = (program, *map(str, words))
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert "usage:" not in done.stderr, done.stderr
        return done.returncode == 0

    return run


def test_aics_tlog_takes_notes_and_proofs(log: EventStore, tlog: Run) -> None:
    """A program of others verifies the note, an event's proof, and one of consistency."""
    old, new = log.sealable_log.seals(0)
    origin = Checkpoint.parse(new.note.partition("\n\n")[0] + "\n").origin
    note = ("verify-checkpoint", "--note", "note", "--log-key", VKEY, "--origin", origin)
    assert tlog(*note, note=new.note)
    assert not tlog(*note, note=new.note.replace("\n13\n", "\n12\n"))

    proof = Inclusion.parse(str(prove(log, "c1", 3, TRUSTED)))
    root = b64encode(opened(proof.note, TRUSTED).root).decode()
    path = "".join(f"{b64encode(each).decode()}\n" for each in proof.path)
    words = ("--leaf", "leaf", "--index", 5, "--size", 13, "--root", root, "--proof", "path")
    assert tlog("verify-inclusion", *words, leaf=proof.leaf, path=path)
    assert not tlog("verify-inclusion", *words, leaf=proof.leaf.replace(b"c1", b"c2"), path=path)

    since = prove_since(log, old.note, TRUSTED)
    path = "".join(f"{b64encode(each).decode()}\n" for each in since.path)
    words = ("--old-size", 6, "--new-size", 13, "--proof", "path", "--new-root", root, "--old-root")
    assert tlog("verify-consistency", *words, b64encode(old.root).decode(), path=path)
    assert not tlog("verify-consistency", *words, root, path=path)


def test_aics_tlog_builds_the_same_tree_from_the_leaves(
    log: EventStore, tlog: Run, tmp_path: Path
) -> None:
    """The entries of a lane, one a line, are all that a stranger needs in order to recompute it."""
    rows = log.sealable_log.sealable_rows(0, 0, 13)
    leaves = b"".join(leaf_of(row) + b"\n" for row in rows)
    assert tlog("build-tiles", "--leaves", "leaves", "--out", "tiles", leaves=leaves)
    _, new = log.sealable_log.seals(0)
    words = ("verify-inclusion", "--index", 12, "--log-key", VKEY, "--tiles", "tiles")
    last = ("--leaf-line", 13, "--leaves-file", "leaves")
    assert tlog(*words, *last, "--checkpoint", "note", note=new.note)
    assert not tlog(*words, *last, "--checkpoint", "note", note=new.note.replace("agents", "agent"))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TimeAuthority:
    """Return an authority of our own."""
    return TimeAuthority(tmp_path_factory.mktemp("authority") / "own")


def test_openssl_takes_the_time_stamp_of_a_note(
    log: EventStore, authority: TimeAuthority, tmp_path: Path
) -> None:
    """Note and stamp lie beside each other, and stand for the time at which they were made."""
    anchor = stamps.TimeStampAnchor(authority, FolderStore(tmp_path), "notes/")
    seal(log, KEY, anchors=[anchor])
    (note,) = tmp_path.rglob("*.note")
    (stamp,) = tmp_path.rglob("*.tsr")
    assert authority.verifies(note, stamp)
    when = stamps.stamped_at(note.read_bytes(), stamp.read_bytes(), authority.root)
    assert when.tzinfo is not None

    note.write_bytes(note.read_bytes().replace(b"\n13\n", b"\n12\n"))
    assert not authority.verifies(note, stamp)
    with pytest.raises(StampRefused, match="not one of this note"):
        stamps.stamped_at(note.read_bytes(), stamp.read_bytes(), authority.root)
    with pytest.raises(ValueError, match="no certificates in PEM"):
        stamps.stamped_at(b"note", stamp.read_bytes(), b"nothing")
    with pytest.raises(StampRefused, match="cannot be read"):
        stamps.stamped_at(note.read_bytes(), b"nothing", authority.root)


def test_an_answer_to_another_question_is_no_stamp(
    log: EventStore, authority: TimeAuthority, tmp_path: Path
) -> None:
    """An old answer, one of a stranger's authority, and a refusal keep the note to be offered."""
    other = TimeAuthority(tmp_path / "other")
    stamp = stamps.stamped(b"another note", other)
    with pytest.raises(StampRefused, match="not one of this note"):
        stamps.stamped_at(b"another note", stamp, authority.root)
    rejection = bytes.fromhex("30053003020102")
    for answer, problem in (
        (stamp, "not to this question"),
        (b"", "cannot be read"),
        (rejection, "did not grant a time stamp (REJECTION)"),
    ):
        anchor = stamps.TimeStampAnchor(lambda _, answer=answer: answer, FolderStore(tmp_path))
        with pytest.raises(AnchorFailed) as raised:
            seal(log, KEY, anchors=[anchor])
        assert isinstance(raised.value.__cause__, StampRefused)
        assert problem in str(raised.value.__cause__)
    assert list(tmp_path.rglob("*.note")) == list(tmp_path.rglob("*.tsr")) == []


def test_an_authority_is_asked_by_http(authority: TimeAuthority) -> None:
    """The request is posted in its media type, and the body of the answer is the answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/timestamp-query"
            answer = authority(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        ask = stamps.http_authority(f"http://127.0.0.1:{server.server_port}")
        assert stamps.stamped_at(b"note", stamps.stamped(b"note", ask), authority.root)
        thread.join()
    with pytest.raises(ValueError, match="begins with https"):
        stamps.http_authority("file:///etc/passwd")
