"""A model of effects: workers, desks and crashes in any order, beside a world that counts effects.

`Agents` plays a conversation and its copies. A model asks for calls, people decide on what their
screens show, workers dispatch and resume one step at a time and may be killed between any two
steps. What a tool does is done in the `World`, which the log cannot see. After each step the world
is held against the log:

1. A call takes effect at most once. A person who says that it took none has asked the world.
2. A call that needs a decision takes effect with the arguments that a person allowed, by an attempt
   that began before the approval ended. One that was refused never does.
3. A call that the log has as completed took effect. One that was rejected, or failed without a
   doubt, did not.
4. No call starts while an equal one is in doubt, or is to run again. A call of a response that was
   cut off never starts.
5. A copy never runs a call of its origin.
6. No worker starts a call beside one that lives and has a lease on it. One that came to its end
   leaves no attempt without an end.
7. Each response counts once.
8. What the model was shown of a call answers no call, here and elsewhere.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from eventstore import (
    Completed,
    Conversation,
    Dispatcher,
    EventStore,
    Failed,
    FunctionTool,
    IllegalTransition,
    Outcome,
    Rejected,
    RetryPolicy,
    Running,
    Tool,
)
from eventstore.attempt import Attempt
from eventstore.dispatch.effects import RunConcurrently, Workflow
from eventstore.domain.leases import is_leased
from eventstore.latch import Latch
from eventstore.testing import FrozenClock
from projections import model_history, usage_statistics

T = TypeVar("T")

EXPIRES = timedelta(minutes=10)
MICROSECONDS = 1_000_000


class NeedsPerson(Exception):
    """A tool pauses: a person has to decide on what it is about to do."""


DEEDS: dict[str, tuple[bool, type[Exception] | None]] = {
    "acts": (True, None),
    "acts, and the answer is lost": (True, ConnectionResetError),
    "acts, and the answer is late": (True, TimeoutError),
    "is refused": (False, ConnectionRefusedError),
    "is lost on the way": (False, ConnectionResetError),
    "asks a person": (False, NeedsPerson),
}
"""What an attempt does: whether it takes effect, and what it then raises."""


class Effect(NamedTuple):
    """What a call did to the world."""

    conversation_id: str
    call_id: str


class Superseded(Exception):
    """The outside system refuses an attempt that it has called "not done" before."""


class World:
    """What is outside of the log: the effects, and a system that can be asked about them."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.deeds: dict[str, list[str]] = {}
        self._not_done: dict[str, int] = {}

    def tools(self, conversation_id: str) -> list[FunctionTool[..., str]]:
        """Return the tools of a conversation."""
        wait = RetryPolicy(3, 0, 0)

        def act(tool: Tool, order: int) -> str:
            does, error = DEEDS[self.deeds[tool.id].pop()] if self.deeds[tool.id] else (True, None)
            if does:
                self.effects.append(Effect(conversation_id, tool.id))
            if error is not None:
                raise error
            return f"done {order}"

        def put(tool: Tool, order: int) -> str:
            return "done before" if self.count(conversation_id, tool.id) else act(tool, order)

        def book(tool: Tool, order: int) -> str:
            if tool.attempts <= self._not_done.get(tool.id, 0):
                raise Superseded
            return act(tool, order)

        def verify(tool: Tool) -> Outcome:
            if self.count(conversation_id, tool.id):
                return Outcome.done("done before")
            self._not_done[tool.id] = tool.attempts
            return Outcome.not_done()

        common: dict[str, Any] = {"effect": "mutating", "takes_tool": True, "retry": wait}
        return [
            FunctionTool(act, "pay", **common, needs_approval=True),
            FunctionTool(act, "mail", **common),
            FunctionTool(put, "put", **common, idempotent=True),
            FunctionTool(book, "book", **common, verify=verify, sure=Superseded),
        ]

    def count(self, conversation_id: str, call_id: str) -> int:
        """Return how often a call took effect."""
        return self.effects.count(Effect(conversation_id, call_id))


class Worker(Dispatcher):
    """A dispatcher that stops after each step, where others go on, or it is killed."""

    def steps(self, calls: list[Tool] | None) -> Iterator[None]:
        """Dispatch the calls, or resume, until all that can be done is done."""
        if calls is None:
            batch, found = yield from self._stepped(self._resume_workflow.find(Latch()))
            work: Workflow[Any] = self._resume_workflow.resume(batch, found)
        else:
            batch = self._workflow.new_batch(calls, Latch())
            work = self._workflow.dispatch(batch)
        try:
            yield from self._stepped(work)
        except Exception as error:  # noqa: BLE001 - as `dispatch` does
            yield from self._stepped(self._workflow.close(batch, error))

    def _stepped(self, workflow: Workflow[T]) -> Generator[None, None, T]:
        answer: object = None
        error: BaseException | None = None
        while True:
            try:
                effect = workflow.send(answer) if error is None else workflow.throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = error = None
            if isinstance(effect, RunConcurrently):
                for each in effect.workflows:
                    yield from self._stepped(each)
                continue
            try:
                answer = self._perform(effect)
            except Exception as raised:  # noqa: BLE001 - the workflow decides
                error = raised
            yield


class Job:
    """A worker at work; `begun` has the attempts that it started."""

    def __init__(self, steps: Iterator[None]) -> None:
        self.steps = steps
        self.begun: dict[str, int] = {}


class Allowed(NamedTuple):
    """What a person has allowed: an order, until a time."""

    order: int
    until: int | None


orders = st.integers(1, 2)
picks = st.integers(0, 5)


class Agents(RuleBasedStateMachine):
    """The machine; its rules are what may happen next."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FrozenClock()
        self.store = EventStore.open("sqlite://", clock=self.clock)
        self.world = World()
        self.chat = self.store.conversation("chat")
        self.chat.add_message("user", "Settle the orders.")
        self.jobs: list[Job] = []
        self.killed: list[Job] = []  # never closed: a killed process runs no clean-up
        self.screens: list[Tool] = []
        self.allowed: dict[str, Allowed] = {}
        self.refused: set[str] = set()
        self.known: list[tuple[Tool, bool]] = []
        self.cut_off: set[str] = set()
        self.asked = 0
        self.copies = 0
        self.last: tuple[int, dict[str, Any]] | None = None

    def teardown(self) -> None:
        """Close the store."""
        self.store.close()

    # the model

    @rule(
        made=st.lists(
            st.tuples(st.sampled_from(["pay", "mail", "put", "book"]), orders),
            min_size=1,
            max_size=2,
        ),
        deeds=st.lists(st.sampled_from(sorted(DEEDS)), max_size=3),
        reason=st.sampled_from(["tool_calls", "tool_calls", "tool_calls", "length"]),
        number=st.integers(0, 1),
        works=st.booleans(),
    )
    def ask(
        self,
        made: list[tuple[str, int]],
        deeds: Sequence[str] = (),
        reason: str = "tool_calls",
        number: int = 0,
        *,
        works: bool = False,
    ) -> None:
        """The model asks for calls; ids of responses repeat; a worker may take them."""
        self.asked += 1
        calls = [
            {
                "id": f"c{self.asked}_{index}",
                "type": "function",
                "function": {"name": name, "arguments": f'{{"order": {order}}}'},
            }
            for index, (name, order) in enumerate(made)
        ]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        response = {
            "id": f"r{number}",
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        tools = self.chat.record(response, "openai")
        self.last = self.chat.version, response
        for tool in tools:
            self.world.deeds[tool.id] = list(deeds)
            if reason == "length":
                self.cut_off.add(tool.id)
        if works:
            self._work(tools)

    @precondition(lambda self: self.last is not None)
    @rule()
    def tell_again(self) -> None:
        """The host records a response once more, with nothing between."""
        version, response = self.last  # type: ignore[misc]
        if version == self.chat.version:
            self.chat.record(response, "openai")
            assert self.chat.version == version

    @precondition(lambda self: self.chat.tools)
    @rule()
    def hand_back(self) -> None:
        """A front end sends what the model was shown, and a host records it somewhere else."""
        self.copies += 1
        shown = model_history(self.chat.events()).render("openai")["messages"]
        other = self.store.conversation(f"copy{self.copies}")
        other.import_messages(shown, "openai")
        here = self.chat.tools
        for tool in other.tools.values():
            assert here[tool.id].is_resolved or not tool.is_resolved, "our own text is a result"
            if isinstance(tool.status, Completed):
                done = isinstance(here[tool.id].status, Completed)
                assert done, "a call that did not complete is handed back as done"
        answers = [message for message in shown if message["role"] == "tool"]
        self.chat.record_messages(answers, "openai")
        after = self.chat.tools
        assert after == here, "what the model was shown is an answer"

    # workers

    @rule()
    def resume(self) -> None:
        """A worker comes, on the word of the log alone."""
        self._work(None)

    def _work(self, tools: list[Tool] | None) -> None:
        self.jobs.append(Job(self._worker(self.chat).steps(tools)))

    def _worker(self, chat: Conversation) -> Worker:
        tools = self.world.tools(chat.id)
        clock, sleep = self.clock, self.clock.advance
        return Worker(chat, tools, pauses=NeedsPerson, clock=clock, sleep=sleep)

    @precondition(lambda self: self.jobs)
    @rule(pick=picks, steps=st.sampled_from([1, 2, 3, 5, 50, 50]))
    def go_on(self, pick: int = 0, steps: int = 50) -> None:
        """A worker takes some steps."""
        job = self.jobs[pick % len(self.jobs)]
        for _ in range(steps):
            before = self.chat.tools
            try:
                next(job.steps)
            except StopIteration:
                self.jobs.remove(job)
                self._check_ended(job)
                return
            finally:
                self._check_starts(job, before)

    @precondition(lambda self: self.jobs)
    @rule(pick=picks)
    def kill(self, pick: int = 0) -> None:
        """A worker dies where it is."""
        self.killed.append(self.jobs.pop(pick % len(self.jobs)))

    @rule(pick=picks, dies=st.booleans())
    def run_by_hand(self, pick: int = 0, *, dies: bool = False) -> None:
        """A loop by hand runs a call that may start; it dies before it records the end, or not."""
        known = self.chat.tools
        ready = [t for t in known.values() if t.call.name != "pay" or t.decided_at is not None]
        if not ready:
            return
        tool = ready[pick % len(ready)]
        if any(o.in_doubt or o.retry_announced for o in self.chat.equal_calls(tool)):
            return
        job = Job(iter(()))
        try:
            attempt = self.chat.begin(tool.id)
        except IllegalTransition:
            return
        finally:
            self._check_starts(job, known)
        self._run(attempt, dies=dies)

    @rule(pick=picks)
    def ask_before_another_attempt(self, pick: int = 0) -> None:
        """A loop by hand begins the next attempt of a call in doubt, and first asks a person."""
        under_way = {call for job in self.jobs for call in job.begun}
        doubts = [
            t
            for t in self.chat.tools.values()
            if isinstance(t.status, Failed | Running) and t.in_doubt and t.id not in under_way
        ]
        if doubts:
            tool = doubts[pick % len(doubts)]
            with suppress(IllegalTransition):
                self.chat.begin(tool.id, attempt=tool.attempts + 1).pause()

    def _run(self, attempt: Attempt, *, dies: bool) -> None:
        named = {each.name: each for each in self.world.tools("chat")}
        try:
            done = named[attempt.tool.call.name].call(attempt.tool, arguments=attempt.arguments)
        except NeedsPerson:
            if not dies:
                attempt.pause()
        except Exception as error:  # noqa: BLE001 - of any tool
            if not dies:
                attempt.fail(error)
        else:
            if not dies:
                attempt.complete(done)

    # people

    @rule(pick=picks)
    def look(self, pick: int = 0) -> None:
        """A person opens a call, and may decide on it much later."""
        waiting = [tool for tool in self.chat.tools.values() if tool.is_pending]
        if waiting:
            self.screens.append(waiting[pick % len(waiting)])

    @precondition(lambda self: self.screens)
    @rule(
        pick=picks,
        yes=st.sampled_from([True, True, False]),
        edit=st.sampled_from([None, None, 1, 2]),
        expires=st.booleans(),
    )
    def decide(
        self, pick: int = 0, *, yes: bool = True, edit: int | None = None, expires: bool = False
    ) -> None:
        """A person decides on what the screen shows."""
        shown = self.screens[pick % len(self.screens)]
        order = shown.effective_call.arguments["order"] if edit is None else edit
        version = self.chat.version
        try:
            if yes:
                edited = None if edit is None else {"order": edit}
                ends = EXPIRES if expires else None
                self.chat.approve(shown.id, edited, by="ann", seen=shown, expires=ends)
            else:
                self.chat.reject(shown.id, by="ann", seen=shown)
        except IllegalTransition:
            return
        if self.chat.version == version:
            return  # it was decided so before
        if yes:
            until = self.clock.now + MICROSECONDS * EXPIRES.seconds if expires else None
            self.allowed[shown.id] = Allowed(order, until)
        else:
            self.refused.add(shown.id)

    @rule(pick=picks)
    def ask_the_world(self, pick: int = 0) -> None:
        """A person asks the outside system about a call in doubt that nobody runs."""
        under_way = {call for job in self.jobs for call in job.begun}
        doubts = [t for t in self.chat.tools.values() if t.in_doubt and t.id not in under_way]
        if doubts:
            tool = doubts[pick % len(doubts)]
            self.known.append((tool, self.world.count("chat", tool.id) > 0))

    @precondition(lambda self: self.known)
    @rule(pick=picks, again=st.booleans())
    def settle(self, pick: int = 0, *, again: bool = False) -> None:
        """The person says what was so then, perhaps much later."""
        tool, is_done = self.known[pick % len(self.known)]
        outcome: dict[str, Any] = {"failed": "not done, says the bank"}
        if is_done:
            outcome = {"completed": "done, says the bank"}
        elif again:
            outcome = {"run_again": True}
        with suppress(IllegalTransition):
            self.chat.settle(tool.id, seen=tool, by="ann", **outcome)

    # the rest of the world

    @rule()
    def wait(self) -> None:
        """Time passes, and approvals end."""
        self.clock.advance(2 * EXPIRES.seconds)

    @rule()
    def fork(self) -> None:
        """The conversation is copied, and a worker resumes the copy."""
        self.copies += 1
        name = f"copy{self.copies}"
        if not self.chat.tools:
            return
        copy = self.chat.fork(self.chat.version, name)
        for _ in self._worker(copy).steps(None):
            pass

    # what must hold

    def _check_starts(self, job: Job, before: dict[str, Tool]) -> None:
        for tool in self.chat.tools.values():
            was = before.get(tool.id)
            if was is None or tool.attempts == was.attempts:
                continue
            at_it = any(
                other is not job and other.begun.get(tool.id) == was.attempts for other in self.jobs
            )
            is_alone = not (at_it and is_leased(was, self.clock.now))
            assert is_alone, "a call started beside a worker that lives"
            job.begun[tool.id] = tool.attempts
            order = tool.effective_call.arguments["order"]
            if tool.call.name == "pay":
                allowed = self.allowed.get(tool.id)
                assert allowed is not None, "a call started that nobody allowed"
                assert allowed.order == order, "a call started with what nobody allowed"
                until = allowed.until
                assert until is None or (tool.started_at or 0) < until, "an approval had ended"
            if tool.attempts == 1 and tool.call.name != "put":
                same = [other.id for other in self.chat.equal_calls(tool)]
                firsts = [before[other] for other in same if other in before]
                doubts = any(first.in_doubt for first in firsts)
                assert not doubts, "a call started beside an equal one in doubt"
                again = any(first.retry_announced and first.id not in job.begun for first in firsts)
                assert not again, "a call started beside an equal one that is to run again"

    def _check_ended(self, job: Job) -> None:
        tools = self.chat.tools
        for call, attempt in job.begun.items():
            status = tools[call].status
            left = isinstance(status, Running) and status.attempt == attempt
            assert not left, "a worker came to its end, and its attempt has none"

    @invariant()
    def the_log_tells_the_truth(self) -> None:
        """Each call took effect as often as it may, and as the log says."""
        for tool in self.chat.tools.values():
            effects = self.world.count("chat", tool.id)
            assert effects <= 1, "a call took effect twice"
            if isinstance(tool.status, Completed):
                assert effects, "a call is told as done that never ran"
            if isinstance(tool.status, Failed | Rejected) and not tool.in_doubt:
                assert not effects, "a call took effect, and the log says that it did not"
            assert not (effects and tool.id in self.refused), "a call ran that a person refused"
            assert not (effects and tool.id in self.cut_off), "a call ran that was cut off"

    @invariant()
    def a_copy_runs_nothing(self) -> None:
        """Only the origin has effects."""
        here = {each.conversation_id for each in self.world.effects} <= {"chat"}
        assert here, "a copy ran a call of its origin"

    @invariant()
    def each_response_counts_once(self) -> None:
        """However often ids repeat."""
        counted = usage_statistics(self.chat.events()).overall.responses
        assert counted == self.asked, "a response counts once"
