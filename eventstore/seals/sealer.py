"""`Sealer`: a thread that seals a store every so many events, or after so much time.

Several may run at the same time, in any processes: the first one to store a seal wins.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple, Self

from eventstore.latch import Latch
from eventstore.seals.sealing import seal

if TYPE_CHECKING:
    from types import TracebackType

    from eventstore.seals.anchors import Anchor
    from eventstore.seals.keys import SigningKey, VerifierKey
    from eventstore.storage.sealable_log import SealableStore

_logger = logging.getLogger(__name__)


class SealingPace(NamedTuple):
    """When a lane is sealed: after `events` new ones, or `seconds` after the last seal with any."""

    events: int = 1_000
    seconds: float = 600.0
    poll_seconds: float = 1.0
    """How often the lanes' counters are read."""


DEFAULT_PACE = SealingPace()


def lanes_due(
    pace: SealingPace, heads: Mapping[int, int], sealed: Mapping[int, int], waited_seconds: float
) -> set[int]:
    """Return the lanes to seal now, by their counters and the sizes of their last seals.

    A counter that went back is due at once: the seal will say that the database was put back.
    """
    least = 1 if waited_seconds >= pace.seconds else pace.events
    new = {lane: head - sealed.get(lane, 0) for lane, head in heads.items()}
    return {lane for lane, events in new.items() if events >= least or events < 0}


class Sealer:
    """A thread that seals a store until it is closed, and once more then.

    What fails is logged and tried again after `pace.seconds`; `error` is the last failure, None
    when a later seal has succeeded. Close it before the store.
    """

    def __init__(
        self,
        store: SealableStore,
        key: SigningKey,
        *,
        anchors: Sequence[Anchor] = (),
        trusted: Collection[VerifierKey] = (),
        pace: SealingPace = DEFAULT_PACE,
    ) -> None:
        if pace.events < 1 or pace.seconds <= 0 or pace.poll_seconds <= 0:
            raise ValueError(f"{pace}: pass numbers above 0")
        self.error: Exception | None = None
        self._store = store
        self._key = key
        self._anchors = anchors
        self._trusted = trusted
        self._pace = pace
        self._sealed: dict[int, int] = {}
        self._stop = Latch()
        self._thread = Thread(target=self._run, name="toolledger-sealer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Seal what was appended until now, and stop; a second call does nothing.

        Raises:
            Exception: this last seal failed.
        """
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            self._seal(None)

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(self._pace.poll_seconds):
            waited = time.monotonic() - began
            if self.error is not None and waited < self._pace.seconds:
                continue
            try:
                due = lanes_due(self._pace, self._store.sealable_log.heads(), self._sealed, waited)
                if due:
                    self._seal(due)
                elif waited < self._pace.seconds:
                    continue
            except Exception as error:  # noqa: BLE001 - an anchor's or a storage's; the thread continues
                self.error = error
                _logger.warning("a log was not sealed, and is tried again: %s", error)
            began = time.monotonic()

    def _seal(self, lanes: Collection[int] | None) -> None:
        newest = seal(
            self._store, self._key, anchors=self._anchors, trusted=self._trusted, lanes=lanes
        )
        self._sealed.update({each.lane: each.size for each in newest})
        self.error = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
