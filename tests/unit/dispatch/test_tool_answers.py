"""What a tool may raise to answer the model, or to end the run."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from support.dispatchers import Waits, answers, last, make, raising, tags

from eventstore import (
    Conversation,
    ErrorEnvelope,
    ErrorKind,
    Failed,
    Failure,
    FatalToolError,
    FunctionTool,
    ModelRetry,
    NotApplicable,
    Outcome,
    RetryClass,
    RetryPolicy,
    RunEnded,
    RunStarted,
    ToolErrorPolicy,
    ToolErrorTerminal,
)
from eventstore.policies.retry import DefaultRetryClassifier
from projections import error_statistics

HINT = "Give the date as YYYY-MM-DD."
EVERY_KIND = ToolErrorPolicy(frozenset(ErrorKind))  # type: ignore[arg-type]


class AlwaysAgain:
    """A classifier that takes every error as transient."""

    def classify(self, _: object) -> RetryClass:
        """Return TRANSIENT."""
        return RetryClass.TRANSIENT


def failure_of(chat: Conversation, call_id: str) -> Failure:
    """Return the failure of a call in the log."""
    status = chat.tools[call_id].status
    assert isinstance(status, Failed)
    return status.failure


def foreign_model_retry() -> Exception:
    """Return the error of another library: its class is known by name alone."""

    class ModelRetry(Exception):
        """The form of pydantic-ai's class."""

        def __init__(self, message: str) -> None:
            self.message = message
            super().__init__(message)

    ModelRetry.__module__ = "pydantic_ai.exceptions"
    return ModelRetry(HINT)


# a hint for the model


@pytest.mark.parametrize("make_error", [lambda: ModelRetry(HINT), foreign_model_retry])
@pytest.mark.parametrize("model_text", ["raw", "kind"])
def test_the_model_reads_the_hint_of_a_model_retry(
    kind: str, chat: Conversation, make_error: Callable[[], Exception], model_text: str
) -> None:
    """A hint was written for the model, so that no policy replaces it by a sentence."""
    call = chat.request("book")
    make(kind, chat, {"book": raising(make_error())}, model_text=model_text).dispatch([call])
    assert answers(chat)[call.id] == HINT
    failure = failure_of(chat, call.id)
    assert (failure.kind, failure.code) == (ErrorKind.VALIDATION, "model_retry")


@pytest.mark.slow
def test_the_model_retry_of_pydantic_ai_is_recognised() -> None:
    """The class of the installed version is known by its name."""
    pydantic_ai = pytest.importorskip("pydantic_ai")
    failure = Failure.from_exception(pydantic_ai.ModelRetry(HINT))
    assert (failure.code, failure.model_message) == ("model_retry", HINT)


@pytest.mark.parametrize("error", [ModelRetry(HINT), NotApplicable("no such shop")])
def test_an_answer_of_the_tool_is_one_failure_that_is_not_retried(
    kind: str, chat: Conversation, error: Exception
) -> None:
    """Neither a classifier nor the tool's own `classify` makes another attempt of it."""
    waits = Waits()
    tool = FunctionTool(
        raising(error), "t", retry=RetryPolicy(5), classify=lambda _: ErrorKind.TRANSIENT
    )
    dispatcher = make(kind, chat, [tool], retry_classifier=AlwaysAgain(), sleep=waits)
    (ended,) = dispatcher.dispatch([chat.request("t")])
    assert (ended.attempts, waits.seconds) == (1, [])
    assert tags(chat) == ["pending", "running", "failed"]
    assert failure_of(chat, ended.id).kind is ErrorKind.VALIDATION


@pytest.mark.parametrize("error", [ModelRetry(HINT), NotApplicable("no such shop")])
@pytest.mark.parametrize("redact", [None, lambda failure: Failure(failure.kind, "hidden")])
def test_an_answer_of_the_tool_does_not_end_the_run_by_its_kind(
    kind: str, chat: Conversation, error: Exception, redact: Any
) -> None:
    """The strictest policy lets the model go on, also if the redaction drops the code."""
    dispatcher = make(kind, chat, {"t": raising(error)}, policy=EVERY_KIND, redact=redact)
    (ended,) = dispatcher.dispatch([chat.request("t")])
    assert ended.status.name == "Failed"


def test_a_model_retry_that_a_tool_returns_counts_as_one_that_it_raises(
    kind: str, chat: Conversation
) -> None:
    """The code says what the failure is."""
    failure = Failure(ErrorKind.TRANSIENT, "m", HINT, code="model_retry")
    tool = FunctionTool(lambda: failure, "t", retry=RetryPolicy(5))
    (ended,) = make(kind, chat, [tool], policy=EVERY_KIND).dispatch([chat.request("t")])
    assert ended.attempts == 1
    assert answers(chat)[ended.id] == HINT


def test_a_model_retry_stops_siblings_where_the_tool_asks_for_it(
    kind: str, chat: Conversation
) -> None:
    """The call has failed. One that is not applicable leaves its siblings alone."""
    for error, status in ((ModelRetry(HINT), "Rejected"), (NotApplicable("no"), "Completed")):
        tools = {"t": FunctionTool(raising(error), "t", abort_siblings=True), "next": lambda: 1}
        calls = [chat.request("t"), chat.request("next")]
        assert make(kind, chat, tools).dispatch(calls)[1].status.name == status


def booking(most: int | None) -> FunctionTool[..., str]:
    """Return a tool that accepts one form of day alone."""

    def book(day: str) -> str:
        if day == "lost":
            raise ConnectionRefusedError("lost")
        if not day[:4].isdigit():
            raise ModelRetry(HINT)
        return "booked"

    return FunctionTool(book, max_model_retries=most)


def test_a_tool_may_limit_the_hints_that_it_gives_in_a_row(kind: str, chat: Conversation) -> None:
    """The one after the last ends the run. Its failure is recorded, and the hint is the cause."""
    dispatcher = make(kind, chat, [booking(2)])
    for day in ("soon", "lost", "later"):
        dispatcher.dispatch([chat.request("book", {"day": day})])
    call, late = chat.request("book", {"day": "never"}), chat.request("book", {"day": "2026-01-01"})
    with pytest.raises(ToolErrorTerminal) as ended:
        dispatcher.dispatch([call, late])
    assert isinstance(ended.value.__cause__, ModelRetry)
    assert ended.value.tool.id == call.id
    assert failure_of(chat, call.id).code == "model_retry"
    assert answers(chat)[late.id] == "not executed: `book` failed before it"
    assert last(chat, RunEnded).reason == "terminated"


@pytest.mark.parametrize("step", ["completed", "user", "run", "other tool"])
def test_a_row_of_hints_ends_with_a_success_or_a_new_question(
    kind: str, chat: Conversation, step: str
) -> None:
    """The success of another tool does not end it."""
    tools = [booking(1), FunctionTool(lambda: 1, "other")]
    make(kind, chat, tools).dispatch([chat.request("book", {"day": "soon"})])
    again = make(kind, chat, tools)  # as after a restart
    match step:
        case "completed":
            again.dispatch([chat.request("book", {"day": "2026-01-01"})])
        case "user":
            chat.add_message("user", "and now?")
        case "run":
            chat.append(RunStarted())
        case _:
            again.dispatch([chat.request("other")])
    call = chat.request("book", {"day": "soon"})
    if step == "other tool":
        with pytest.raises(ToolErrorTerminal):
            again.dispatch([call])
    else:
        assert again.dispatch([call])[0].status.name == "Failed"


@pytest.mark.parametrize("most", [-1, 1.5, True, "2"])
def test_the_limit_of_hints_is_a_number_from_zero_on(most: Any) -> None:
    """The error names the tool and the value."""
    with pytest.raises(ValueError, match=f"max_model_retries of tool 'book' is {most!r}"):
        booking(most)


def test_an_attempt_of_a_host_records_the_hint_too(chat: Conversation) -> None:
    """Without a dispatcher the error is recorded, and raised as any other."""
    call = chat.request("book")
    with pytest.raises(ModelRetry), chat.running(call.id):
        raise ModelRetry(HINT)
    assert answers(chat)[call.id] == HINT


@pytest.mark.parametrize("error", [ModelRetry(HINT), foreign_model_retry()])
def test_programs_read_the_code_of_entelix(error: Exception) -> None:
    """The envelope names the error as entelix-core does."""
    envelope = ErrorEnvelope.of(Failure.from_exception(error))
    assert (envelope.code, envelope.error_class) == ("model_retry_exhausted", "client")


@pytest.mark.parametrize(
    "error", [ModelRetry(HINT), NotApplicable("no such shop"), FatalToolError("the disk is gone")]
)
def test_the_retry_class_of_an_error_and_of_its_failure_is_permanent(error: Exception) -> None:
    """The log gives the same answer as the exception did."""
    classifier = DefaultRetryClassifier()
    failure = Failure.from_exception(error)
    assert classifier.classify(error) is RetryClass.PERMANENT
    assert classifier.classify(failure) is RetryClass.PERMANENT


@pytest.mark.parametrize(
    "error", [ModelRetry(HINT), NotApplicable("no such shop"), FatalToolError("the disk is gone")]
)
def test_errors_of_tools_can_be_copied_and_pickled(error: Exception) -> None:
    """A tool may run in another process."""
    for same in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own
        assert (type(same), str(same), vars(same)) == (type(error), str(error), vars(error))
        assert Failure.from_exception(same) == Failure.from_exception(error)


# not applicable


def test_a_tool_that_is_not_applicable_is_counted_apart(kind: str, chat: Conversation) -> None:
    """The model reads the reason; operators read the words of rig-compose."""
    tools = {"t": raising(NotApplicable("orders are in the other shop")), "u": raising(KeyError())}
    call, _ = make(kind, chat, tools).dispatch([chat.request("t"), chat.request("u")])
    assert answers(chat)[call.id] == "orders are in the other shop"
    assert failure_of(chat, call.id).message == "tool not applicable: orders are in the other shop"
    statistics = error_statistics(chat.events())
    assert (statistics.overall.failures, statistics.overall.not_applicable) == (2, 1)
    assert {name: n.not_applicable for name, n in statistics.by_tool.items()} == {"t": 1, "u": 0}
    assert "2 failed (1 not applicable)" in str(statistics)
    assert ErrorEnvelope.of(failure_of(chat, call.id)).code == "not_applicable"


# the end of the run


class DiskGone(Exception):
    """An error of a tool's own."""


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (FatalToolError("the disk is gone"), {}),
        (DiskGone("the disk is gone"), {"fatal": DiskGone}),
        (DiskGone("the disk is gone"), {"fatal": (KeyError, DiskGone)}),
    ],
)
def test_a_fatal_error_of_a_tool_ends_the_run(
    kind: str, chat: Conversation, error: Exception, options: dict[str, Any]
) -> None:
    """The failure is recorded once, later calls are rejected as siblings, the caller gets it."""
    tool = FunctionTool(raising(error), "write", retry=RetryPolicy(5), **options)
    calls = [chat.request(name) for name in ("ok", "write", "ok")]
    with pytest.raises(ToolErrorTerminal, match="the disk is gone") as caught:
        make(kind, chat, [tool, FunctionTool(lambda: 1, "ok")]).dispatch(calls)
    assert caught.value.__cause__ is error
    assert caught.value.tool == chat.tools[calls[1].id]
    tools = chat.tools.values()
    assert [tool.status.name for tool in tools] == ["Completed", "Failed", "Rejected"]
    assert [tool.attempts for tool in tools] == [1, 1, 0]
    assert chat.tools[calls[2].id].status.source == "sibling"  # type: ignore[union-attr]
    assert last(chat, RunEnded).failure == failure_of(chat, calls[1].id)


def test_a_fatal_error_has_the_kind_of_its_cause(chat: Conversation) -> None:
    """The kind is internal without a cause."""
    call = chat.request("write")

    def write() -> None:
        raise FatalToolError("cannot write") from PermissionError("read-only")

    with pytest.raises(ToolErrorTerminal) as caught:
        make("threads", chat, [write]).dispatch([call])
    assert isinstance(caught.value.__cause__, FatalToolError)
    assert caught.value.error_kind is failure_of(chat, call.id).kind is ErrorKind.AUTH
    assert Failure.from_exception(FatalToolError("x")).kind is ErrorKind.INTERNAL


def test_a_fatal_error_leaves_concurrent_siblings_to_their_end(
    kind: str, chat: Conversation
) -> None:
    """A call that has started gets its own answer."""

    async def slow() -> str:
        await asyncio.sleep(0)
        return "done"

    tools = [
        FunctionTool(raising(FatalToolError("gone")), "write", parallel=True),
        FunctionTool(slow, parallel=True),
    ]
    calls = [chat.request("slow"), chat.request("write")]
    with pytest.raises(ToolErrorTerminal):
        make(kind, chat, tools).dispatch(calls)
    assert [tool.status.name for tool in chat.tools.values()] == ["Completed", "Failed"]


@pytest.mark.parametrize(
    ("found", "raises"), [(Outcome.not_done(), True), (Outcome.done("done"), False)]
)
def test_a_fatal_timeout_is_verified_and_never_retried(
    kind: str, chat: Conversation, found: Outcome, raises: bool
) -> None:
    """The run goes on if the work was done after all."""
    tool = FunctionTool(
        raising(TimeoutError()),
        "t",
        retry=RetryPolicy(5),
        fatal=TimeoutError,
        verify=lambda _: found,
    )
    call = chat.request("t")
    dispatcher = make(kind, chat, [tool])
    if raises:
        with pytest.raises(ToolErrorTerminal):
            dispatcher.dispatch([call])
    else:
        dispatcher.dispatch([call])
    assert chat.tools[call.id].attempts == 1
    assert chat.tools[call.id].status.name == ("Failed" if raises else "Completed")


@pytest.mark.parametrize("fatal", [5, KeyboardInterrupt, (KeyError, "no")])
def test_only_classes_of_exceptions_are_fatal(fatal: Any) -> None:
    """Ctrl-C ends the run by itself."""
    with pytest.raises(TypeError, match=r"fatal of tool 't' has .*: pass classes of exceptions"):
        FunctionTool(lambda: 1, "t", fatal=fatal)
