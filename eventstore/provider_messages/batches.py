"""Which messages of a history are appended together, and when.

1. A batch ends before a user message, as soon as it has so many messages or bytes; without one,
   later.
2. No batch is appended before it is sure that the messages are in the provider's form: batches are
   held back until one makes a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from eventstore.provider_messages.history_messages import HistoryMessage
from eventstore.providers.detection import refuse_foreign

Batch: TypeAlias = list[HistoryMessage]

BATCH_MESSAGES = 500
"""Messages that are appended together; a batch ends before a user message."""

MAX_BATCH_MESSAGES = 5000
"""Messages at most that are appended together when there is no user message."""

BATCH_BYTES = 8 * 1024 * 1024
MAX_BATCH_BYTES = 32 * 1024 * 1024
"""Bytes of messages with which a batch is as full as with that many messages."""

MAX_UNJUDGED_MESSAGES = 20_000
"""Messages that are held back at most until a call shows which provider's form they have. Then
those are judged together, and then the next."""

MAX_UNJUDGED_BYTES = 64 * 1024 * 1024
"""Bytes of messages that are held back at most."""


class ImportSizes(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages an import appends together and holds back; see the constants above."""

    batch_messages: int = BATCH_MESSAGES
    max_batch_messages: int = MAX_BATCH_MESSAGES
    batch_bytes: int = BATCH_BYTES
    max_batch_bytes: int = MAX_BATCH_BYTES
    max_unjudged_messages: int = MAX_UNJUDGED_MESSAGES
    max_unjudged_bytes: int = MAX_UNJUDGED_BYTES


DEFAULT_SIZES = ImportSizes()


def in_batches(messages: Iterable[HistoryMessage], sizes: ImportSizes) -> Iterator[Batch]:
    """Yield the messages in batches."""
    batch: Batch = []
    size = 0
    for message in messages:
        if len(batch) >= sizes.batch_messages or size >= sizes.batch_bytes:
            is_over = len(batch) >= sizes.max_batch_messages or size >= sizes.max_batch_bytes
            if is_over or message.is_of_user:
                yield batch
                batch, size = [], 0
        batch.append(message)
        size += message.size
    if batch:
        yield batch


def in_own_form(batches: Iterable[Batch], provider: str, sizes: ImportSizes) -> Iterator[Batch]:
    """Yield the batches, each once it is sure that the messages are in the provider's form.

    Raises:
        ForeignForm: they are not. Batches that were held back are not yielded.
    """
    has_calls = False
    held: list[Batch] = []
    unjudged = passed = size = 0  # messages, and their bytes
    for batch in batches:
        if has_calls:
            yield batch
            continue
        held.append(batch)
        unjudged += sum(message.given is not msgspec.UNSET for message in batch)
        size += sum(message.size for message in batch)
        is_full = unjudged >= sizes.max_unjudged_messages or size >= sizes.max_unjudged_bytes
        if is_full or any(message.makes_calls for message in batch):
            has_calls = _judge(held, provider, passed)
            passed += sum(map(len, held))
            yield from held
            held, unjudged, size = [], 0, 0
    _judge(held, provider, passed)
    yield from held


def _judge(batches: list[Batch], provider: str, first: int) -> bool:
    """Refuse messages in another provider's form; return whether they make calls.

    `first` is the number of the first message.
    """
    messages = [message for batch in batches for message in batch]
    given = [message.given for message in messages if message.given is not msgspec.UNSET]
    items = (item for message in messages for item in message.items)
    return refuse_foreign(given, items, provider, first=first)
