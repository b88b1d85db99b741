"""`repair_history`: one entry for each call that was made, however often it was tried."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import msgspec

from eventstore import (
    DefaultRetryClassifier,
    Failure,
    FunctionCall,
    RetryClass,
    RetryClassifier,
    UnhashableArguments,
)

_DEFAULT = DefaultRetryClassifier()


class HistoryEntry(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A call and its end: `output` when it completed, `retry_class` and `message` when not."""

    call: FunctionCall
    output: Any = None
    retry_class: RetryClass | None = None
    message: str | None = None

    @classmethod
    def completed(cls, call: FunctionCall, output: Any) -> Self:
        """An entry for a call that completed."""
        return cls(call, output)

    @classmethod
    def failed(
        cls,
        call: FunctionCall,
        error: BaseException | Failure | RetryClass,
        classifier: RetryClassifier = _DEFAULT,
        message: str | None = None,
    ) -> Self:
        """An entry for a call that failed.

        With an exception, with the failure that the log has, or with a retry class as it is.
        """
        if isinstance(error, RetryClass):
            retry_class, text = error, str(error)
        elif isinstance(error, Failure):
            retry_class, text = classifier.classify(error.kind), error.message
        else:
            retry_class, text = classifier.classify(error), Failure.from_exception(error).message
        return cls(call, None, retry_class, text if message is None else message)

    @property
    def is_completed(self) -> bool:
        """Whether the call completed."""
        return self.retry_class is None

    @property
    def digest(self) -> bytes:
        """What tells this call from every other: tool name and canonical arguments."""
        return self.call.digest()

    @property
    def fingerprint(self) -> str:
        """The digest as text, as the log has it."""
        return self.call.fingerprint


def repair_history(entries: Iterable[HistoryEntry]) -> list[HistoryEntry]:
    """One entry for each distinct call (same tool, same arguments).

    1. Calls are grouped by fingerprint over the whole history, not just neighbours.
    2. Where a group has a completion, its first completion stays.
    3. Otherwise its last failure stays, with that failure's class and message.
    4. The order is that of each fingerprint's first occurrence.

    Total, deterministic and idempotent; the input is left alone. A call that no fingerprint can
    be taken of (JSON cannot say its arguments) is like no other, and stays.
    """
    kept: dict[object, HistoryEntry] = {}
    for entry in entries:
        mark = _mark(entry)
        former = kept.get(mark)
        if former is None or not former.is_completed:
            kept[mark] = entry
    return list(kept.values())


def _mark(entry: HistoryEntry) -> object:
    try:
        return entry.digest
    except UnhashableArguments:
        return object()
