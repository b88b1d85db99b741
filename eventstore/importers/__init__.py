"""Importers: files of conversations that other programs wrote, read as transcripts.

`import_file(store, path)` imports the conversations of a file, `import_files` of several files.
`read(path)` opens a file alone: its `transcripts()` are the conversations, its `problems` list what
could not be read. `discover()` finds the sessions that programs have left on this machine, and
`import_sessions(store, sessions)` imports some.
"""

from __future__ import annotations

from eventstore.importers.discovery import (
    Discovered,
    Session,
    UnknownSession,
    described,
    discover,
    import_sessions,
)
from eventstore.importers.file_import import (
    ImportCounts,
    ImportedFile,
    import_file,
    import_files,
)
from eventstore.importers.reading.file_format import FileContent, FileFormat
from eventstore.importers.reading.problems import NoMessages, Problem, Problems, SourceError
from eventstore.importers.reading.transcript import Transcript, is_refusal
from eventstore.importers.recorded_requests import Request, RequestFile
from eventstore.importers.source import PROVIDERS, Source, read

__all__ = [
    "PROVIDERS",
    "Discovered",
    "FileContent",
    "FileFormat",
    "ImportCounts",
    "ImportedFile",
    "NoMessages",
    "Problem",
    "Problems",
    "Request",
    "RequestFile",
    "Session",
    "Source",
    "SourceError",
    "Transcript",
    "UnknownSession",
    "described",
    "discover",
    "import_file",
    "import_files",
    "import_sessions",
    "is_refusal",
    "read",
]
