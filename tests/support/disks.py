"""A disk below SQLite whose writes, truncations and syncs can fail, made of SQLite's own VFS.

The functions of the copy of SQLite that the stores use are called by ctypes. Where its library does
not show them, `Disk` raises `OSError`.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Generator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p, sizeof
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from eventstore.storage.sqlite.driver import driver

_FULL, _IOERR_WRITE, _IOERR_FSYNC, _IOERR_TRUNCATE = 13, 778, 1034, 1546
_ERRORS = {"write": _IOERR_WRITE, "sync": _IOERR_FSYNC, "truncate": _IOERR_TRUNCATE}

_Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = CFUNCTYPE(c_int, c_void_p, c_int)


class _Vfs(Structure):
    _fields_ = [
        ("version", c_int),
        ("file_size", c_int),
        ("longest_path", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", _Open),
        ("others", c_void_p * 14),
    ]


class _Methods(Structure):
    _fields_ = [
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", _Write),
        ("truncate", _Truncate),
        ("sync", _Sync),
        ("others", c_void_p * 13),
    ]


class Fault(Enum):
    """How an operation fails."""

    IO_ERROR = "EIO"
    FULL = "ENOSPC"
    TORN = "half of it is written, then EIO"


class Operation(NamedTuple):
    """One operation on a file; `data` was written at `offset`, or the file was cut there."""

    kind: str
    path: str
    offset: int = 0
    data: bytes = b""


class Disk:
    """A VFS that notes what is done to files, and fails one operation or all from one on.

    A store on it has the URL `url(path)`, while `mounted()` lasts.
    """

    def __init__(self, name: str = "faulty") -> None:
        self.operations: list[Operation] = []
        self.fault: Fault | None = None
        self.first = 0
        """The number of the operation that fails."""
        self.lasting = False
        """Whether those after it fail, too."""
        module = importlib.import_module(
            "_sqlite3" if driver().__name__ == "sqlite3" else "pysqlite3._sqlite3"
        )
        try:
            self._library = ctypes.CDLL(str(module.__file__))
            self._find = self._library.sqlite3_vfs_find
        except (AttributeError, OSError) as error:
            raise OSError(f"SQLite's functions cannot be called: {error}") from error
        self._find.restype = POINTER(_Vfs)
        self._name = name
        self._real: _Vfs = self._find(None).contents
        self._vfs = _Vfs.from_buffer_copy(self._real)
        self._vfs.name = name.encode()
        self._vfs.open = _Open(self._open)
        self._paths: dict[int, str] = {}
        self._methods: dict[int, tuple[_Methods, _Methods]] = {}

    def url(self, path: Path) -> str:
        """Return the URL of a store on this disk."""
        return f"sqlite:///file:{path}?uri=true&vfs={self._name}"

    @contextmanager
    def mounted(self) -> Generator[None]:
        """Make the disk known to SQLite; all stores on it must be closed at the end."""
        vfs = ctypes.byref(self._vfs)
        assert self._library.sqlite3_vfs_register(vfs, 0) == 0
        try:
            yield
        finally:
            self._library.sqlite3_vfs_unregister(vfs)

    def begin(self, fault: Fault | None, first: int, *, lasting: bool = False) -> None:
        """Count operations from here on, and let one fail."""
        self.operations.clear()
        self.fault, self.first, self.lasting = fault, first, lasting

    def _open(self, vfs: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        code: int = self._real.open(vfs, name, file, flags, out)
        methods = c_void_p.from_address(file)  # the first member of a file
        if code == 0 and methods.value:
            self._paths[file] = ctypes.string_at(name).decode() if name else ""
            methods.value = ctypes.addressof(self._patched(methods.value)[1])
        return code

    def _patched(self, address: int) -> tuple[_Methods, _Methods]:
        """Return the methods of a kind of file, and the ones that stand before them."""
        if address not in self._methods:
            real = _Methods.from_address(address)
            ours = _Methods()
            size = sizeof(_Methods) if real.version >= 3 else _Methods.others.offset + 13 * 8
            ctypes.memmove(ctypes.addressof(ours), address, size)

            def write(file: int, data: int, size: int, offset: int) -> int:
                said = Operation("write", self._paths[file], offset, ctypes.string_at(data, size))
                if self._fails(said):
                    if self.fault is Fault.TORN:
                        real.write(file, data, size // 2, offset)
                    return _FULL if self.fault is Fault.FULL else _IOERR_WRITE
                code: int = real.write(file, data, size, offset)
                return code

            def truncate(file: int, size: int) -> int:
                if self._fails(Operation("truncate", self._paths[file], size)):
                    return _IOERR_TRUNCATE
                code: int = real.truncate(file, size)
                return code

            def sync(file: int, flags: int) -> int:
                if self._fails(Operation("sync", self._paths[file])):
                    return _IOERR_FSYNC
                code: int = real.sync(file, flags)
                return code

            ours.write, ours.truncate, ours.sync = _Write(write), _Truncate(truncate), _Sync(sync)
            self._methods[address] = real, ours
        return self._methods[address]

    def _fails(self, operation: Operation) -> bool:
        number = len(self.operations)
        self.operations.append(operation)
        if self.fault is None:
            return False
        return number >= self.first if self.lasting else number == self.first


def after_power_cut(
    before: dict[str, bytes], operations: list[Operation], *, torn: bool
) -> dict[str, bytes]:
    """Return the files as a disk has them that keeps only what was synced.

    With `torn`, it also has the first half of the last write, without those before it.
    """
    synced = {path: bytearray(data) for path, data in before.items()}
    waiting: dict[str, list[Operation]] = {}
    for operation in operations:
        if operation.kind == "sync":
            _apply(synced, waiting.pop(operation.path, []))
        else:
            waiting.setdefault(operation.path, []).append(operation)
    if torn and operations and operations[-1].kind == "write":
        last = operations[-1]
        _apply(synced, [last._replace(data=last.data[: len(last.data) // 2])])
    return {path: bytes(data) for path, data in synced.items()}


def _apply(files: dict[str, bytearray], operations: list[Operation]) -> None:
    for kind, path, offset, data in operations:
        file = files.setdefault(path, bytearray())
        if kind == "truncate":
            del file[offset:]
        else:
            file.extend(bytes(max(offset - len(file), 0)))
            file[offset : offset + len(data)] = data
