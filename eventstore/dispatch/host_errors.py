"""`HostErrors`: what the host's own functions raise, kept in the log.

1. A gate, a hook, an approver or another function of the host that raises decides nothing. The log
   keeps which one raised what (`HookRaised`), and the answers before it; then the caller gets the
   error.
2. What an after-hook raised is in the result that it withheld: see `after_hooks`. No word of its
   error is kept, which may hold what it was about to hide.
3. A classifier cannot stop the recording of a failure: that is recorded without it, and what it
   raised is kept after it.
4. An error that is not the function's own (Ctrl-C, a cancelled run) is no answer of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from eventstore.domain.events import (
    HookRaised,
)
from eventstore.domain.failure import Failure
from eventstore.domain.tools_offered import GateAnswer
from eventstore.errors import EventStoreError
from eventstore.policies.gate_checks import gate_name
from eventstore.policies.gates import Question, Questions

if TYPE_CHECKING:
    from eventstore.dispatch.batch import DispatchedCall
    from eventstore.dispatch.call_log import CallLog
    from eventstore.dispatch.effects import Workflow

T = TypeVar("T")

Raised = list[tuple[str, str, Exception]]
"""What functions raised while a failure was made: what each was asked as, its name, its error."""


class HostErrors:
    """Records what functions of the host raise; `stored` makes the failure to store of one."""

    def __init__(self, log: CallLog, stored: Callable[[Failure], Failure]) -> None:
        self._log = log
        self._stored = stored

    def note(
        self, error: Exception, asked: str, name: str, call: DispatchedCall | None = None
    ) -> Workflow[None]:
        """Record what a function raised, with the answers of the hooks before it."""
        raised = HookRaised(name, asked, self._stored(Failure.from_exception(error)))
        if call is not None:
            raised = replace(raised, call_id=call.tool.id, hooks=call.hook_answers)
        yield from self._append(raised, error)
        if call is not None:
            call.hook_answers = ()

    def note_all(self, raised: Raised, call: DispatchedCall) -> Workflow[None]:
        """Record what functions raised while the failure of a call was made."""
        for asked, name, error in raised:
            yield from self.note(error, asked, name, call)

    def asking_gates(
        self, questions: Questions[T], call: DispatchedCall | None = None
    ) -> Workflow[T]:
        """Run a decision that asks gates; if one raises, record which."""
        watched = _Watched()
        try:
            return (yield from watched.run(questions))
        except Exception as error:
            if watched.last is not None:
                failure = self._stored(Failure.from_exception(error))
                raised = HookRaised(gate_name(watched.last.gate), "gate", failure)
                about = None if call is None else call.tool.id
                raised = replace(raised, call_id=about, gates=tuple(watched.answers))
                yield from self._append(raised, error)
            raise

    def _append(self, raised: HookRaised, error: Exception) -> Workflow[None]:
        try:
            yield from self._log.append(raised)
        except EventStoreError as unrecorded:
            error.add_note(f"that {raised.hook} raised was not recorded: {unrecorded}")


class _Watched:
    """The last question of a decision that asks gates, and the answers to those before it."""

    def __init__(self) -> None:
        self.last: Question | None = None
        self.answers: list[GateAnswer] = []

    def run(self, questions: Questions[T]) -> Generator[Question, Any, T]:
        """Ask the questions, and return the decision."""
        answer: Any = None
        while True:
            try:
                question = questions.send(answer)
            except StopIteration as end:
                decision: T = end.value
                return decision
            self._answered(answer)
            self.last = question
            answer = yield question

    def _answered(self, answer: Any) -> None:
        """Take in the answer to the last question, which the decision has accepted."""
        if self.last is not None and self.last.method == "allowlist":
            allow = None if answer is None else tuple(sorted(answer))
            self.answers.append(GateAnswer(gate_name(self.last.gate), allow))
