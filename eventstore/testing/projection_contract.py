"""What every projection keeps, as a test suite."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
import pytest

from eventstore.domain.calls import FunctionCall, FunctionResponse
from eventstore.domain.events import (
    MessageAdded,
    ModelResponded,
    Recorded,
    RunEnded,
    RunStarted,
    ToolApproved,
    ToolCompleted,
    ToolPaused,
    ToolPending,
    ToolRunning,
    UnknownEvent,
)
from eventstore.domain.statuses import Approved, Failed, Pending, Running
from eventstore.domain.usage import Usage
from eventstore.store import EventStore

if TYPE_CHECKING:
    from eventstore.conversation import Conversation

_LOGS: Final = 6
"""The number of logs that each test goes through."""

_STEPS: Final = 60
"""The number of steps in each."""


_CARD: Final = "4111-1111-hunter2"


class _Fold(Protocol):
    def apply(self, recorded: Recorded) -> None: ...

    def extend(self, events: Iterable[Recorded]) -> object: ...


class ProjectionContract:
    """The guarantees of a projection: derive a class of tests that makes yours.

    Its logs have three conversations with calls in every status, whose ids are the same in each,
    and damaged copies of them.
    """

    def projection(self) -> _Fold:
        """Return a new projection, which has seen no event."""
        raise NotImplementedError("override the method `projection`")

    def answer(self, projection: Any) -> object:
        """Return all that a projection can be asked, as a value that can be compared.

        Where your projection promises no order, sort.
        """
        raise NotImplementedError("override the method `answer`")

    @pytest.fixture(params=range(_LOGS))
    def log(self, request: pytest.FixtureRequest) -> list[Recorded]:
        """Return a log as a store gives it."""
        return sample_log(request.param)

    @pytest.fixture(params=range(_LOGS))
    def hostile(self, request: pytest.FixtureRequest) -> list[Recorded]:
        """Return events of such a log, damaged."""
        return _damaged(sample_log(request.param), random.Random(request.param))

    def test_no_event_is_needed(self) -> None:
        """A new projection has an answer, and two have the same."""
        assert self._answers([]) == self._answers([])

    def test_a_prefix_and_then_the_rest_is_the_whole(self, log: list[Recorded]) -> None:
        """A projection that is asked in between, and continued, has the answer for all events."""
        whole = self._answers(log)
        for cut in range(0, len(log), 7):
            assert self._answers(log[:cut], log[cut:]) == whole
        assert self._answers(*([recorded] for recorded in log)) == whole

    def test_events_one_by_one_are_events_at_once(self, log: list[Recorded]) -> None:
        """`apply` of each event is `extend` of all."""
        fold = self.projection()
        for recorded in log:
            fold.apply(recorded)
        assert self.answer(fold) == self._answers(log)

    def test_the_answer_depends_on_the_events_alone(self, log: list[Recorded]) -> None:
        """Equal events give equal answers, and asking twice changes none."""
        copies = [msgspec.structs.replace(recorded) for recorded in log]
        fold = self.projection()
        fold.extend(copies)
        assert self.answer(fold) == self.answer(fold) == self._answers(log)

    def test_no_event_is_changed(self, log: list[Recorded]) -> None:
        """Others hold the same events."""
        before = repr(log)
        self._answers(log)
        assert repr(log) == before

    def test_conversations_come_in_any_interleaving(self, log: list[Recorded]) -> None:
        """Only the order within each conversation is kept by a log of several lanes."""
        for seed in range(3):
            assert self._answers(_interleaved(log, random.Random(seed))) == self._answers(log)

    def test_events_that_it_does_not_know_are_taken(self, log: list[Recorded]) -> None:
        """An event of a newer version, or of a tag of your own, raises nothing anywhere."""
        for unknown in (UnknownEvent("of_tomorrow", 9, '{"a": 1}'), UnknownEvent("running", 9, "")):
            for at in range(0, len(log), 5):
                event = msgspec.structs.replace(log[at], event=unknown)
                self._answers([*log[:at], event, *log[at + 1 :]])

    def test_no_log_raises(self, hostile: list[Recorded]) -> None:
        """Events that are missing, repeated, out of order or damaged give an answer, too."""
        first = self._answers(hostile)
        assert self._answers(hostile[:20], hostile[20:]) == first

    def test_content_that_is_redacted_later_is_given_up(self) -> None:
        """The record of a redaction is an event; the answer has no word of what is gone then."""
        with EventStore.open("sqlite://") as store:
            chat = store.conversation("chat")
            chat.add_message("user", f"My card is {_CARD}.")
            for number in range(4):
                call_id = chat.request("pay", {"card": _CARD}, f"call_{number}").id
                chat.start(call_id)
                if number:
                    chat.fail(call_id, f"the card {_CARD}")
                else:
                    chat.complete(call_id, f"the card {_CARD}")
            fold = self.projection()
            fold.extend(list(chat.events()))
            store.redact("chat", by="ada", text=_CARD)
            fold.extend(list(store.redactions()))
        assert _CARD not in repr(self.answer(fold))

    def _answers(self, *parts: Sequence[Recorded]) -> object:
        """Return the answer of a projection that is asked after each part."""
        fold = self.projection()
        said = self.answer(fold)
        for part in parts:
            fold.extend(part)
            said = self.answer(fold)
        return said


def sample_log(seed: int) -> list[Recorded]:
    """Return the log of random steps in three conversations; an equal seed gives an equal one."""
    return deepcopy(_played(seed))


@functools.cache
def _played(seed: int) -> list[Recorded]:
    chance = random.Random(seed)
    with EventStore.open("sqlite://") as store:
        chats = [store.conversation(f"chat{number}") for number in range(3)]
        for chat in chats:
            chat.append(RunStarted("agent"))
        for _ in range(_STEPS):
            _step(chance.choice(chats), chance)
        chats[0].append(RunEnded("completed"))
        return list(store.read())


def _step(chat: Conversation, chance: random.Random) -> None:
    """Record one thing that may happen next in a conversation."""
    tool = chance.choice([*chat.tools.values(), None])
    number = chance.randrange(4)
    next_steps: Sequence[Callable[[], object]] = ()
    if tool is not None:
        call_id, attempt = tool.id, tool.attempts
        match tool.status:
            case Pending():
                next_steps = (
                    lambda: chat.approve(call_id, {"number": number}, by="ada"),
                    lambda: chat.start(call_id, attempt + 1),
                    lambda: chat.reject(call_id, "too risky", by="ada"),
                    lambda: chat.defer(call_id, 10**15, "later"),
                )
            case Approved() | Failed():
                next_steps = (lambda: chat.start(call_id, attempt + 1),)
            case Running():
                next_steps = (
                    lambda: chat.complete(call_id, {"found": number}),
                    lambda: chat.fail(call_id, ValueError("wrong")),
                    lambda: chat.fail(call_id, TimeoutError("no answer"), delay=0.5),
                    lambda: chat.append(ToolPaused(call_id, attempt, None, "asks a person")),
                    lambda: chat.start(call_id, attempt + 1),
                )
            case _:
                pass
    usage = Usage(number, 10)
    chance.choice(
        next_steps
        or (
            lambda: chat.request(
                f"tool{number % 2}", {"number": number}, f"call_{len(chat.tools)}"
            ),
            lambda: chat.add_message(("user", "assistant")[number % 2], f"Words {number}."),
            lambda: chat.append(ModelResponded("openai", "gpt", usage=usage)),
        )
    )()


def _interleaved(log: list[Recorded], chance: random.Random) -> list[Recorded]:
    """Return the events in another order, which is the same within each conversation."""
    names = sorted({recorded.conversation_id for recorded in log})
    queues = [[each for each in log if each.conversation_id == name] for name in names]
    mixed: list[Recorded] = []
    while any(queues):
        mixed.append(chance.choice([queue for queue in queues if queue]).pop(0))
    return mixed


_STRANGE: Final = (
    MessageAdded("tool", call_id="call_0"),
    ToolPending(FunctionCall("f", {}, None)),
    ToolPending(FunctionCall("f", None, "call_1", "{oops")),
    ToolPending(FunctionCall("\ud800", {"n": float("nan")}, "call_2"), imported=True),
    ToolApproved("unknown", FunctionCall("g", {}, "other")),
    ToolRunning("unknown", 10**30),
    ToolRunning("unknown", -1),
    ToolCompleted("unknown", FunctionResponse("f", float("nan")), -1, -(10**30)),
    RunEnded("an error of tomorrow"),
)
"""Events that fit no log."""


def _damaged(log: list[Recorded], chance: random.Random) -> list[Recorded]:
    """Return events of a log in any order, some missing, repeated, replaced or mislabelled."""
    damaged: list[Recorded] = []
    for recorded in chance.choices(log, k=len(log)):
        changes: dict[str, Any] = {}
        if not chance.randrange(4):
            changes["event"] = chance.choice(_STRANGE)
        if not chance.randrange(6):
            changes["call_id"] = chance.choice([None, "", "unknown"])
            changes["fingerprint"] = chance.choice([None, "", "x1:f", "\ud800"])
            changes["version"] = chance.randint(-2, 50)
            changes["recorded_at"] = chance.choice([0, -5, 10**30])
        damaged.append(msgspec.structs.replace(recorded, **changes))
    return damaged
