"""`MemoryCounters`: the counters of error statistics in memory, with a limit of fingerprints."""

from __future__ import annotations

from collections.abc import Collection

from projections.statistics.counters import (
    CountedConversation,
    CountedStatus,
    FingerprintCounter,
    LiveCall,
    ToolCounter,
)
from projections.statistics.counts import Counts

_NUMBER_BITS = 40  # of a fingerprint's number, in a pair of conversation and fingerprint
_NUMBER_MASK = (1 << _NUMBER_BITS) - 1


class Fingerprints:
    """The counters of fingerprints, `limit` of them at most; `forgotten` were dropped for that.

    Raises:
        ValueError: `limit` is not 1 or more.
    """

    def __init__(
        self, counters: dict[str, FingerprintCounter], limit: int, numbered: int, forgotten: int
    ) -> None:
        if type(limit) is not int or limit < 1:
            raise ValueError(f"fingerprints is {limit!r}: pass 1 or more")
        self.counters = counters
        self.numbered = numbered
        self.forgotten = forgotten
        self._limit = limit

    def add(self, fingerprint: str, tool: str) -> FingerprintCounter:
        """Return the counter of a new fingerprint; where there is no room, half are forgotten."""
        if len(self.counters) >= self._limit:
            self._forget_half()
        self.numbered += 1
        counter = FingerprintCounter(tool=tool, number=self.numbered, fingerprint=fingerprint)
        self.counters[fingerprint] = counter
        return counter

    def _forget_half(self) -> None:
        """Make room: keep the half with the most failures and repeats."""
        # Among equals the oldest comes first: the sort is stable.
        lightest_first = sorted(self.counters.values(), key=FingerprintCounter.weight)
        half = (len(lightest_first) + 1) // 2
        self.forgotten += half
        for counter in lightest_first[:half]:
            del self.counters[counter.fingerprint]
            counter.number = 0  # what its calls still add to it is not kept

    def forget(self, numbers: Collection[int]) -> None:
        """Forget the fingerprints with these numbers, and all that is said of them."""
        for counter in [each for each in self.counters.values() if each.number in numbers]:
            self.forgotten += 1
            del self.counters[counter.fingerprint]
            counter.number, counter.fingerprint, counter.arguments = 0, "", None


class _Conversation:
    """One conversation: its number, its highest version, and its open or failed calls."""

    __slots__ = ("_edits", "_number", "_requests", "calls", "version")

    def __init__(self, number: int, requests: set[int], edits: set[int]) -> None:
        self.version = 0
        self.calls: dict[str, LiveCall] = {}
        self._number = number
        self._requests = requests
        self._edits = edits

    def resume(self, _call_id: str, /) -> LiveCall | None:
        """Return None: all open calls are in `calls`."""
        return None

    def note_request(self, fingerprint: FingerprintCounter) -> bool:
        """Note that it asks for a call; return whether it had asked for the same before."""
        before = len(self._requests)
        self._requests.add(self._number << _NUMBER_BITS | fingerprint.number)
        return len(self._requests) == before

    def note_edit(self, fingerprint: FingerprintCounter) -> None:
        """Note that a call of it was edited to this one."""
        self._edits.add(self._number << _NUMBER_BITS | fingerprint.number)


class _Conversations(dict[str, CountedConversation]):
    """The conversations by their ids; each is there as soon as it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: set[int] = set()  # pairs of conversation and fingerprint, by number
        self.edits: set[int] = set()  # the same, of what calls were edited to

    def __missing__(self, conversation_id: str) -> CountedConversation:
        added = self[conversation_id] = _Conversation(len(self), self.requests, self.edits)
        return added


class MemoryCounters:
    """The counters of tools, error kinds and at most `fingerprints` fingerprints, in memory.

    Raises:
        ValueError: `fingerprints` is not 1 or more.
    """

    def __init__(self, fingerprints: int) -> None:
        self.conversations = _Conversations()
        self.counts = Counts()
        self.fingerprints = Fingerprints(self.counts.fingerprints, fingerprints, 0, 0)

    def tool(self, name: str, _asked_at: int, /) -> ToolCounter:
        """Return the counter of a tool."""
        return self.counts.tools.get(name) or self.counts.tool(name)

    def fingerprint(self, fingerprint: str | None, tool: str) -> FingerprintCounter:
        """Return the counter of a fingerprint; one that is not kept for None."""
        if fingerprint is None:  # no other call can equal these arguments
            return FingerprintCounter(tool=tool)
        counter = self.counts.fingerprints.get(fingerprint)
        if counter is None:
            forgotten = self.fingerprints.forgotten
            counter = self.fingerprints.add(fingerprint, tool)
            if self.fingerprints.forgotten != forgotten:
                self._forget_requests()
        return counter

    def _forget_requests(self) -> None:
        """Forget the requests for fingerprints that were dropped."""
        kept = {counter.number for counter in self.counts.fingerprints.values()}
        for pairs in (self.conversations.requests, self.conversations.edits):
            pairs -= {pair for pair in pairs if pair & _NUMBER_MASK not in kept}

    def forget(self, conversation_id: str) -> None:
        """Forget the fingerprints that a conversation has asked for, or edited calls to."""
        number = list(self.conversations).index(conversation_id)  # in the order of numbers
        pairs = (*self.conversations.requests, *self.conversations.edits)
        self.fingerprints.forget(
            {pair & _NUMBER_MASK for pair in pairs if pair >> _NUMBER_BITS == number}
        )
        self._forget_requests()

    def count_live_calls(self) -> None:
        """Count the open and failed calls as they stand now."""
        for counter in (*self.counts.tools.values(), *self.counts.fingerprints.values()):
            counter.open = counter.running = counter.terminal = 0
        for kind in self.counts.kinds.values():
            kind.terminal = 0
        for conversation in self.conversations.values():
            for call in conversation.calls.values():
                if (counted := CountedStatus.if_counted(call)) is not None:
                    counted.add()
