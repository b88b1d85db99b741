"""`Sealer`: a thread that seals a log every so many events, or after so much time.

Several may run beside each other, in any processes: the first one to store a seal wins.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple, Self

from eventstore.errors import EventStoreError
from eventstore.latch import Latch
from eventstore.seals.sealing import seal

if TYPE_CHECKING:
    from types import TracebackType

    from eventstore.seals.anchors import Anchor
    from eventstore.seals.keys import SigningKey, VerifierKey
    from eventstore.seals.sealable_log import SealableLog

_log = logging.getLogger(__name__)


class SealingPace(NamedTuple):
    """When a lane is sealed: after `events` new ones, or `seconds` after the last seal with any."""

    events: int = 1_000
    seconds: float = 600.0
    poll_seconds: float = 1.0
    """How often the lanes' counters are read."""


def lanes_due(
    pace: SealingPace, heads: Mapping[int, int], sealed: Mapping[int, int], waited_seconds: float
) -> set[int]:
    """Return the lanes to seal now, by their counters and the sizes of their last seals."""
    least = 1 if waited_seconds >= pace.seconds else pace.events
    return {lane for lane, head in heads.items() if head - sealed.get(lane, 0) >= least}


class Sealer:
    """A thread that seals a log until it is closed, and once more then.

    What fails is logged and tried again after `pace.seconds`; `error` is the last failure, None
    when a later seal has succeeded. Close it before the store.
    """

    def __init__(
        self,
        log: SealableLog,
        key: SigningKey,
        *,
        anchors: Sequence[Anchor] = (),
        trusted: Collection[VerifierKey] = (),
        pace: SealingPace = SealingPace(),  # noqa: B008 - a frozen value
    ) -> None:
        if pace.events < 1 or pace.seconds <= 0 or pace.poll_seconds <= 0:
            raise ValueError(f"{pace}: pass numbers above 0")
        self.error: Exception | None = None
        self._arguments = (log, key, anchors, trusted)
        self._pace = pace
        self._sealed: dict[int, int] = {}
        self._stop = Latch()
        self._thread = Thread(target=self._run, name="toolledger-sealer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Seal what was appended until now, and stop; a second call does nothing.

        Raises:
            Exception: the last seal failed.
        """
        is_first = not self._stop.is_set()
        self._stop.set()
        self._thread.join()
        if is_first:
            self._seal(None)
            if self.error is not None:
                raise self.error

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(self._pace.poll_seconds):
            waited = time.monotonic() - began
            if waited < self._pace.seconds and self.error is not None:
                continue
            try:
                heads = self._arguments[0].heads()
            except EventStoreError as error:
                self._note(error)
                began = time.monotonic()
                continue
            due = lanes_due(self._pace, heads, self._sealed, waited)
            if due:
                self._seal(due)
            if due or waited >= self._pace.seconds:
                began = time.monotonic()

    def _seal(self, lanes: Collection[int] | None) -> None:
        log, key, anchors, trusted = self._arguments
        try:
            for each in seal(log, key, anchors=anchors, trusted=trusted, lanes=lanes):
                self._sealed[each.lane] = each.size
            self.error = None
        except Exception as error:  # noqa: BLE001 - an anchor's or a storage's; the thread goes on
            self._note(error)

    def _note(self, error: Exception) -> None:
        self.error = error
        _log.warning("a log was not sealed, and is tried again: %s", error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
