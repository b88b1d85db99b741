"""Events as a Parquet file, a row each; DuckDB writes it, and most programs for tables read it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from eventstore import Recorded
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
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Parquet is written by DuckDB: pip install 'toolledger[parquet]'", name="duckdb"
        ) from error
    with TemporaryDirectory(prefix="toolledger-") as folder:
        lines, parquet = Path(folder, "events.jsonl"), Path(folder, "events.parquet")
        count, longest = _write_lines(lines, events)
        with duckdb.connect() as connection:
            rows = connection.read_json(
                str(lines),
                columns=COLUMNS,
                format="newline_delimited",
                maximum_object_size=max(longest, _LEAST_LINE_BYTES),
            )
            columns = ", ".join(map(_column, COLUMNS))
            rows.project(columns).write_parquet(str(parquet), compression="zstd")
        with parquet.open("rb") as written:
            shutil.copyfileobj(written, file)
    return count


def _write_lines(path: Path, events: Iterable[Recorded]) -> tuple[int, int]:
    """Write events as JSON lines; return their number, and the bytes of the longest line."""
    count, longest = 0, 0
    with path.open("wb") as file:
        for recorded in events:
            longest = max(longest, file.write(event_line(recorded) + b"\n"))
            count += 1
    return count, longest


def _column(name: str) -> str:
    return f"make_timestamp({name}) AS {name}" if name in _TIMES else name
