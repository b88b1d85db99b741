"""`repair_history`: one entry for each distinct call, however often it was tried.

The rule, and its algebra, are in the docstring of `repair_history`.
"""

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
    """A call and how it ended: with `output`, or with `retry_class` and `message`.

    Called `HistoryEntry` in rig-compose, too; `history_entries` makes them of a log.
    """

    call: FunctionCall
    output: Any = None
    retry_class: RetryClass | None = None
    message: str | None = None

    @classmethod
    def completed(cls, call: FunctionCall, output: Any) -> Self:
        """Return the entry of a call that completed."""
        return cls(call, output)

    @classmethod
    def failed(
        cls,
        call: FunctionCall,
        error: BaseException | Failure | RetryClass,
        classifier: RetryClassifier = _DEFAULT,
        message: str | None = None,
    ) -> Self:
        """Return the entry of a call that failed.

        `error` is an exception, the failure that the log has, or a retry class as it is.
        `message` replaces the text of the error.
        """
        if isinstance(error, RetryClass):
            retry_class, text = error, str(error)
        elif isinstance(error, Failure):
            retry_class, text = classifier.classify(error), error.message
        else:
            retry_class, text = classifier.classify(error), Failure.from_exception(error).message
        return cls(call, None, retry_class, text if message is None else message)

    @property
    def is_completed(self) -> bool:
        """Whether the call completed."""
        return self.retry_class is None

    @property
    def digest(self) -> bytes:
        """The hash of tool name and canonical arguments: equal calls have equal digests."""
        return self.call.digest()

    @property
    def fingerprint(self) -> str:
        """The digest as text, as it is in the log."""
        return self.call.fingerprint


def repair_history(entries: Iterable[HistoryEntry]) -> list[HistoryEntry]:
    """Return one entry for each distinct call (same tool, same arguments).

    1. Calls are grouped by fingerprint over the whole history, not just neighbours.
    2. Where a group has a completion, its first completion stays.
    3. Otherwise its last failure stays, with that failure's class and message.
    4. The order is that of each fingerprint's first occurrence.

    Total, deterministic and idempotent; the input is not changed. A call without a fingerprint
    (its arguments are not JSON) equals no other call, and stays.
    """
    kept: dict[object, HistoryEntry] = {}
    for entry in entries:
        key = _key(entry)
        former = kept.get(key)
        if former is None or not former.is_completed:
            kept[key] = entry
    return list(kept.values())


def _key(entry: HistoryEntry) -> object:
    try:
        return entry.digest
    except UnhashableArguments:
        return object()
