"""Events as a Parquet file, a row each; DuckDB writes it, and most programs for tables read it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import msgspec

from eventstore import Recorded
from eventstore.retention import ArchiveLine, Proof, StoredPart
from projections.debugging.event_lines import event_line

COLUMNS = {
    "conversation_id": "VARCHAR",
    "version": "BIGINT",
    "lane": "BIGINT",
    "position": "BIGINT",
    "event_id": "VARCHAR",
    "recorded_at": "BIGINT",
    "occurred_at": "BIGINT",
    "tag": "VARCHAR",
    "call_id": "VARCHAR",
    "fingerprint": "VARCHAR",
    "event": "JSON",
}
"""The columns, and the types that they are read with; the two times are written as timestamps."""

_TIMES = ("recorded_at", "occurred_at")
_LEAST_LINE_BYTES = 16 * 2**20
"""The buffer for a line that DuckDB takes by default."""


def write_parquet(file: IO[bytes], events: Iterable[Recorded]) -> int:
    """Write events to a Parquet file; return how many there were.

    Times are timestamps in UTC with microseconds, and `event` is JSON.

    Raises:
        ModuleNotFoundError: duckdb is not installed; the error names the `pip install`.
    """
    with TemporaryDirectory(prefix="toolledger-") as folder:
        lines, parquet = Path(folder, "events.jsonl"), Path(folder, "events.parquet")
        count, longest = _write(lines, map(event_line, events))
        _convert(lines, parquet, COLUMNS, longest)
        with parquet.open("rb") as written:
            shutil.copyfileobj(written, file)
    return count


def _duckdb() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Parquet is written by DuckDB: pip install 'toolledger[parquet]'", name="duckdb"
        ) from error
    return duckdb


def _write(path: Path, lines: Iterable[bytes]) -> tuple[int, int]:
    """Write lines; return their number, and the bytes of the longest one."""
    count, longest = 0, 0
    with path.open("wb") as file:
        for line in lines:
            longest = max(longest, file.write(line + b"\n"))
            count += 1
    return count, longest


def _convert(lines: Path, parquet: Path, columns: Mapping[str, str], longest: int) -> None:
    """Write lines of JSON with these columns as Parquet."""
    with _duckdb().connect() as connection:
        rows = connection.read_json(
            str(lines),
            columns=dict(columns),
            format="newline_delimited",
            maximum_object_size=max(longest, _LEAST_LINE_BYTES),
        )
        rows.project(", ".join(map(_column, columns))).write_parquet(
            str(parquet), compression="zstd"
        )


def _column(name: str) -> str:
    if name == "event":
        return "event::JSON AS event"
    return f"make_timestamp({name}) AS {name}" if name in _TIMES else name


class ParquetArchive:
    """Archives of `EventStore.retain` as Parquet: `write_parquet`'s columns, and what proves them.

    `schema`, `digest`, `payload_digest`, `salt`, `begins` and `id_given` are those of an archive's
    lines. `stored` is the payload where `event` is not all of it.
    """

    suffix = ".parquet"

    def write(self, file: IO[bytes], lines: Iterable[ArchiveLine]) -> None:
        """Write lines; see `ArchiveForm.write`."""
        with TemporaryDirectory(prefix="toolledger-") as folder:
            rows, parquet = Path(folder, "rows.jsonl"), Path(folder, "events.parquet")
            longest = _write(rows, (msgspec.json.encode(_flat(line)) for line in lines))[1]
            _convert(rows, parquet, _ARCHIVE_COLUMNS, longest)
            with parquet.open("rb") as written:
                shutil.copyfileobj(written, file)

    def read(self, path: Path) -> Iterator[ArchiveLine]:
        """Yield the lines of a file; see `ArchiveForm.read`.

        Raises:
            ModuleNotFoundError: duckdb is not installed; the error names the `pip install`.
        """
        duckdb = _duckdb()
        columns = ", ".join(
            f"epoch_us({name})"
            if name in _TIMES
            else f"{name}::VARCHAR"
            if name == "event"
            else name
            for name in _ARCHIVE_COLUMNS
        )
        with duckdb.connect() as connection:
            try:
                found = connection.execute(f"FROM read_parquet(?) SELECT {columns}", [str(path)])
                while rows := found.fetchmany(_ROWS):
                    yield from map(_line, rows)
            except (duckdb.Error, ValueError, TypeError, AttributeError) as error:  # a damaged file
                raise ValueError(f"{path} is not an archive ({error})") from error


_ARCHIVE_COLUMNS = {
    **COLUMNS,
    "event": "VARCHAR",
    "schema": "INTEGER",
    "digest": "VARCHAR",
    "payload_digest": "VARCHAR",
    "salt": "VARCHAR",
    "begins": "BOOLEAN",
    "id_given": "BOOLEAN",
    "stored": "VARCHAR",
}
_ROWS = 1000


def _flat(line: ArchiveLine) -> dict[str, Any]:
    proof = line.archive
    return {
        **{name: getattr(line, name) for name in COLUMNS},
        "event": bytes(line.event).decode(),
        **{name: getattr(proof, name) for name in proof.__struct_fields__},
        "stored": None if line.stored is None else line.stored.payload,
    }


def _line(row: Sequence[Any]) -> ArchiveLine:
    members = dict(zip(_ARCHIVE_COLUMNS, row, strict=True))
    proof = Proof(**{name: members.pop(name) for name in Proof.__struct_fields__})
    stored, event = members.pop("stored"), msgspec.Raw(members.pop("event").encode())
    part = None if stored is None else StoredPart(members["tag"], proof.schema, stored)
    return ArchiveLine(**members, event=event, archive=proof, stored=part)
