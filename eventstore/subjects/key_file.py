"""`KeyFile`: the keys of subjects in a file, which its owner alone can read.

1. It is changed with a lock on a file beside it, so that processes that make keys at the same time
   lose none. The new content is written to another file, synced, and put in its place.
2. The old content is overwritten then, so that a destroyed key does not stay on the disk. Copies
   that others made of the file, and what a disk keeps of overwritten blocks, are not reached.
3. Another process's changes are seen: the file is read again when it is another one.
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import msgspec

from eventstore.errors import StorageError
from eventstore.subjects.keys import KEY_BYTES, SubjectKey, SubjectKeys
from eventstore.subjects.secret import SubjectSecret, check_private
from eventstore.subjects.vault import Vault

FORMAT = 1


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    """A key in the file, in Base64."""

    id: str
    key: str


class _Content(msgspec.Struct, forbid_unknown_fields=True):
    """What the file holds: keys by the digests of their subjects, in hex."""

    format: int
    keys: dict[str, _Stored] = {}


class KeyFile:
    """The keys of subjects in a file; see `SubjectKeys`. Make the file with `KeyFile.create`.

    Raises:
        ValueError: it is no such file, or others than its owner may use it.
        OSError: it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._keys: dict[str, SubjectKey] = {}
        self._by_id: dict[str, bytes] = {}
        check_private(path, "KeyFile.create")
        with self._lock:
            self._refresh()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self._path)!r}>"

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> KeyFile:
        """Make a new file without keys, which its owner alone can use.

        Raises:
            FileExistsError: there is a file of that name.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            _write(file, msgspec.json.encode(_Content(FORMAT)))
        _sync_folder(Path(path).parent)
        return cls(path)

    def key_for(self, subject: str) -> SubjectKey:
        """Return the key of a subject, made and kept for good if there is none."""
        with self._in_use():
            self._refresh()
            found = self._keys.get(subject)
            if found is None:
                made = SubjectKey(uuid4().hex, os.urandom(KEY_BYTES))
                self._change(lambda keys: {subject: made, **keys})
                found = self._keys[subject]
            return found

    def key(self, key_id: str) -> bytes | None:
        """Return a key by its id; None where it was destroyed, or is not known."""
        with self._in_use():
            self._refresh()
            return self._by_id.get(key_id)

    def destroy(self, subject: str) -> None:
        """Destroy the key of a subject for good; without one nothing is done."""
        with self._in_use():
            self._change(lambda keys: {of: key for of, key in keys.items() if of != subject})

    @contextmanager
    def _in_use(self) -> Generator[None]:
        """Let one thread at a time use the file, which may be gone since it was opened.

        Raises:
            StorageError: it cannot be read, or written.
        """
        with self._lock:
            try:
                yield
            except OSError as error:
                raise StorageError(
                    f"the file of keys {str(self._path)!r} cannot be used ({error.strerror}), and "
                    "without its keys nothing about their subjects is stored or read: put it back, "
                    "or restore it from a copy"
                ) from error

    def _refresh(self) -> None:
        """Read the file again if it is another one."""
        while (seen := self._stamp()) != self._seen:
            try:
                self._take(self._path.read_bytes())
            except ValueError:
                if seen == self._stamp():
                    raise
                continue  # it was replaced meanwhile, and overwritten
            self._seen = seen

    def _stamp(self) -> tuple[int, int, int]:
        found = self._path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _take(self, stored: bytes) -> None:
        try:
            content = msgspec.json.decode(stored, type=_Content)
            keys = {
                of: SubjectKey(each.id, base64.b64decode(each.key, validate=True))
                for of, each in content.keys.items()
            }
        except ValueError as error:  # those of msgspec and of Base64 are
            raise ValueError(self._refusal("it is damaged")) from error
        if content.format != FORMAT:
            raise ValueError(self._refusal(f"its format is {content.format}"))
        if any(len(each.key) != KEY_BYTES for each in keys.values()):
            raise ValueError(self._refusal("it is damaged"))
        self._keys, self._by_id = keys, dict(keys.values())

    def _refusal(self, why: str) -> str:
        return (
            f"{str(self._path)!r} is no file of keys that this version can read ({why}): restore "
            "it from a copy, or make a new one with KeyFile.create(path)"
        )

    def _change(self, change: Callable[[dict[str, SubjectKey]], dict[str, SubjectKey]]) -> None:
        """Put a new file in the place of the old one, which is then overwritten."""
        with _locked(self._path.with_name(f"{self._path.name}.lock")):
            self._refresh()
            keys = change(self._keys)
            if keys == self._keys:
                return
            stored = {
                of: _Stored(each.id, base64.b64encode(each.key).decode())
                for of, each in keys.items()
            }
            new = self._path.with_name(f"{self._path.name}.new")
            new.unlink(missing_ok=True)  # of a process that was killed
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                _write(file, msgspec.json.encode(_Content(FORMAT, stored)))
            with self._path.open("r+b") as old:
                new.replace(self._path)
                _sync_folder(self._path.parent)
                _write(old, bytes(os.fstat(old.fileno()).st_size))
            self._refresh()


def vault_of(keys: SubjectKeys | str | os.PathLike[str], secret: SubjectSecret | None) -> Vault:
    """Return the vault of the keys that a caller passed, or the path of.

    Raises:
        ValueError: there is no secret, by which keys are found.
    """
    if secret is None:
        raise ValueError("keys need the secret of the index of subjects: pass subjects=, too")
    return Vault(KeyFile(keys) if isinstance(keys, str | os.PathLike) else keys, secret)


def _write(file: BinaryIO, content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make a new name last, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """Let one process at a time change what a lock file stands for."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.name == "posix":
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        else:  # pragma: no cover - Windows
            import msvcrt

            windows: Any = msvcrt
            windows.locking(descriptor, windows.LK_LOCK, 1)
        yield
    finally:
        os.close(descriptor)
