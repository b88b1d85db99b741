"""Importers: files of conversations that other programs wrote, read as transcripts.

`read(path)` opens a file; each of its `transcripts()` goes to `Conversation.import_messages`;
its `problems` list what could not be read.
"""

from __future__ import annotations

from eventstore.importers.event_folder import with_event_folders
from eventstore.importers.problems import Problem, Problems, SourceError
from eventstore.importers.recorded_requests import Request, RequestFile
from eventstore.importers.source import PROVIDERS, Source, read
from eventstore.importers.transcript import Transcript, is_refusal

__all__ = [
    "PROVIDERS",
    "Problem",
    "Problems",
    "Request",
    "RequestFile",
    "Source",
    "SourceError",
    "Transcript",
    "is_refusal",
    "read",
    "with_event_folders",
]
