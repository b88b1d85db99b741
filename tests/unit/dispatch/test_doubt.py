"""An exception that leaves open whether the effect took place leaves the call in doubt."""

from __future__ import annotations

import asyncio
import http.client
import socket
import sqlite3
import ssl
import subprocess
import urllib.error
from collections.abc import Callable
from typing import Any

import pytest
from support.dispatchers import Waits, answers, make, raising

from eventstore import (
    AsyncEventStore,
    Conversation,
    ErrorKind,
    Failure,
    FunctionTool,
    IllegalTransition,
    ModelRetry,
    RetryPolicy,
    ToolEffect,
)
from eventstore.domain.doubt import MAY_HAVE_TAKEN_EFFECT, says_of_effect
from projections import model_history, resume_plan

httpx = pytest.importorskip("httpx")


class BankError(Exception):
    """An error of the host's own."""


def caused(error: BaseException, cause: BaseException) -> BaseException:
    """Return the error, raised from a cause."""
    error.__cause__ = cause
    return error


def raised_meanwhile(error: BaseException, first: BaseException) -> BaseException:
    """Return the error, raised while the first was handled."""
    error.__context__ = first
    return error


def second_try(first: BaseException, second: BaseException, cause: BaseException) -> BaseException:
    """Return the error of a tool's second try, raised from its cause after the first has failed."""
    try:
        try:
            raise first
        except type(first):
            try:
                raise cause
            except type(cause):
                raise second from cause
    except type(second) as error:
        return error


def broken_tls(*, handshake: bool) -> BaseException:
    """Return the error of TLS that reads what is no TLS, in the handshake or after it."""
    incoming = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(incoming, ssl.MemoryBIO(), server_hostname="bank")
    incoming.write(b"HTTP/1.1 502 Bad Gateway")
    try:
        tls.do_handshake() if handshake else tls.read()
    except ssl.SSLError as error:
        return error
    raise AssertionError


def a_hundred_causes(last: BaseException) -> BaseException:
    """Return an error that was raised from a hundred others."""
    for number in range(100):
        last = caused(BankError(str(number)), last)
    return last


REFUSED = ConnectionRefusedError("refused")
DOUBTS: list[BaseException] = [
    TimeoutError("read timed out"),
    ConnectionResetError("reset"),
    BrokenPipeError("pipe"),
    ConnectionAbortedError("aborted"),
    http.client.RemoteDisconnected("gone"),
    http.client.IncompleteRead(b"half"),
    subprocess.TimeoutExpired("pay", 1),
    subprocess.CalledProcessError(-9, "pay"),
    urllib.error.URLError(TimeoutError("late")),
    ssl.SSLEOFError(8, "EOF occurred"),
    httpx.ReadTimeout("read timed out"),
    httpx.WriteTimeout("write timed out"),
    httpx.ReadError("reset"),
    httpx.RemoteProtocolError("cut off"),
    caused(BankError("no answer"), httpx.ReadTimeout("read timed out")),
    raised_meanwhile(BankError("no answer"), ConnectionResetError("reset")),
    raised_meanwhile(ConnectionRefusedError("the second try"), httpx.ReadTimeout("the first")),
    second_try(TimeoutError("late"), httpx.ConnectError("down"), ConnectionRefusedError("no")),
    second_try(TimeoutError("late"), urllib.error.URLError(REFUSED), REFUSED),
    ExceptionGroup("two", [ValueError("x"), httpx.ReadTimeout("late")]),
    ExceptionGroup("many", [*[httpx.ConnectError("down")] * 20, httpx.ReadTimeout("late")]),
    caused(ExceptionGroup("one", [httpx.ConnectError("down")]), httpx.ReadTimeout("late")),
    a_hundred_causes(ValueError("x")),
    broken_tls(handshake=False),
    http.client.HTTPException("got more than 100 headers"),
    subprocess.CalledProcessError(124, "timeout 1 pay"),
    httpx.HTTPStatusError(
        "504",
        request=httpx.Request("POST", "https://bank.example"),
        response=httpx.Response(504),
    ),
]
BEFORE: list[BaseException] = [
    ConnectionRefusedError("refused"),
    socket.gaierror("no such name"),
    ssl.SSLCertVerificationError("expired"),
    broken_tls(handshake=True),
    http.client.CannotSendRequest("Idle"),
    urllib.error.URLError(ConnectionRefusedError("refused")),
    httpx.ConnectError("refused"),
    caused(httpx.ConnectError("TLS"), ConnectionResetError("reset")),
    httpx.ConnectTimeout("timed out"),
    httpx.PoolTimeout("no place"),
    caused(BankError("down"), httpx.ConnectError("refused")),
    ExceptionGroup("two", [httpx.ConnectError("a"), socket.gaierror("b")]),
]
NO_WORD: list[BaseException] = [
    ValueError("x"),
    OSError(2, "no such file"),
    subprocess.CalledProcessError(1, "pay"),
    sqlite3.IntegrityError("not unique"),
    raised_meanwhile(ValueError("x"), ConnectionRefusedError("handled")),
    httpx.HTTPStatusError(
        "404", request=httpx.Request("GET", "https://bank.example"), response=httpx.Response(404)
    ),
]


@pytest.mark.parametrize(
    ("error", "word"),
    [
        *((error, True) for error in DOUBTS),
        *((error, False) for error in BEFORE),
        *((error, None) for error in NO_WORD),
    ],
    ids=repr,
)
def test_an_exception_says_what_it_leaves_open(error: BaseException, word: bool | None) -> None:
    """The errors that it wraps count, and a later refusal does not hide an earlier doubt."""
    assert says_of_effect(error) is word


@pytest.mark.parametrize(
    ("module", "make_error", "word"),
    [
        ("requests", lambda m: m.ConnectionError("reset"), True),
        ("requests", lambda m: m.ReadTimeout("late"), True),
        ("requests", lambda m: m.exceptions.ChunkedEncodingError("half"), True),
        ("requests", lambda m: m.ConnectTimeout("late"), False),
        ("requests", lambda m: m.ConnectionError(ConnectionRefusedError("no")), False),
        ("aiohttp", lambda m: m.ServerDisconnectedError(), True),
        ("aiohttp", lambda m: m.ConnectionTimeoutError(), False),
        (
            "aiohttp",
            lambda m: caused(
                m.ClientResponseError(None, (), status=400), m.http_exceptions.BadStatusLine("\0")
            ),
            True,
        ),
        ("urllib3", lambda m: m.exceptions.ProtocolError("reset"), True),
        ("urllib3", lambda m: m.exceptions.NewConnectionError(None, "no"), False),
        ("botocore.exceptions", lambda m: m.ReadTimeoutError(endpoint_url="x"), True),
        ("botocore.exceptions", lambda m: m.EndpointConnectionError(endpoint_url="x"), None),
        ("botocore.exceptions", lambda m: m.ParamValidationError(report="x"), False),
        (
            "openai",
            lambda m: caused(
                m.APIConnectionError(request=httpx.Request("POST", "https://x.example")),
                httpx.ConnectError("the last try"),
            ),
            None,
        ),
        ("psycopg", lambda m: m.OperationalError("server closed the connection"), True),
        ("psycopg", lambda m: m.errors.AdminShutdown("terminating"), True),
        ("psycopg", lambda m: m.errors.UniqueViolation("twice"), None),
        ("pymysql", lambda m: m.err.OperationalError(2013, "lost"), True),
        ("pymysql", lambda m: m.err.OperationalError(2003, "refused"), False),
        ("asyncpg", lambda m: m.exceptions.ConnectionDoesNotExistError("closed"), True),
    ],
)
def test_errors_of_libraries_are_known(
    module: str, make_error: Callable[[Any], BaseException], word: bool | None
) -> None:
    """The errors are those of the libraries themselves."""
    assert says_of_effect(make_error(pytest.importorskip(module))) is word


@pytest.mark.parametrize(
    ("status", "details", "word"),
    [
        ("UNAVAILABLE", "Socket closed", True),
        ("UNAVAILABLE", "failed to connect to all addresses", False),
        ("DATA_LOSS", "", True),
        ("RESOURCE_EXHAUSTED", "quota", False),
        ("RESOURCE_EXHAUSTED", "CLIENT: Received message larger than max (9 vs. 4)", True),
        ("RESOURCE_EXHAUSTED", "CLIENT: Sent message larger than max (9 vs. 4)", False),
    ],
)
def test_the_status_and_details_of_grpc_are_read(status: str, details: str, word: bool) -> None:
    """The class stands in for that of `grpcio`, which no extra of ours installs."""
    named = type("Code", (), {"name": status})
    members = {"__module__": "grpc._channel", "code": named, "details": lambda _: details}
    assert says_of_effect(type("_InactiveRpcError", (Exception,), members)()) is word


def test_a_timeout_before_the_connection_stood_is_sure_with_asyncio() -> None:
    """The cancel by which the event loop ended the wait belongs to it."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        address = server.getsockname()
        with socket.create_connection(address):  # the queue is full

            async def ask() -> None:
                async with httpx.AsyncClient(timeout=0.05) as client:
                    await client.post(f"http://{address[0]}:{address[1]}", content=b"pay")

            with pytest.raises(httpx.ConnectTimeout) as caught:
                asyncio.run(ask())
    assert says_of_effect(caught.value) is False


def test_an_async_tool_of_a_dispatcher_keeps_the_error_of_its_first_try(
    kind: str, chat: Conversation
) -> None:
    """The refusal of the second one stands in front of it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        unused_port = server.getsockname()[1]

    async def pay() -> None:
        try:
            raising(TimeoutError("late"))()
        except TimeoutError:
            await asyncio.open_connection("127.0.0.1", unused_port)

    tool = FunctionTool(pay, effect="mutating", retry=RetryPolicy(3))
    (done,) = make(kind, chat, [tool], sleep=Waits()).dispatch([chat.request("pay")])
    assert done.in_doubt
    assert done.attempts == 1


class Effect:
    """A tool that takes effect, and then raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.runs = 0

    def __call__(self) -> None:
        """Take effect."""
        self.runs += 1
        raise self.error


@pytest.mark.parametrize("error", DOUBTS, ids=repr)
def test_a_call_in_doubt_is_not_run_again(
    kind: str, chat: Conversation, error: BaseException
) -> None:
    """The plan names it, the model is told, no retry runs it, and a start needs its number."""
    pay = Effect(error)
    tool = FunctionTool(pay, "pay", effect="mutating", retry=RetryPolicy(3))
    call = chat.request("pay")
    make(kind, chat, [tool], sleep=Waits()).dispatch([call])
    check_doubt(chat, call.id)
    make(kind, chat, [tool]).resume()
    assert pay.runs == 1


@pytest.mark.parametrize(
    "error", [*DOUBTS, KeyboardInterrupt(), SystemExit(1), asyncio.CancelledError("task 0x7f")]
)
def test_a_loop_by_hand_leaves_the_same_doubt(chat: Conversation, error: BaseException) -> None:
    """With a context manager, and with asyncio."""
    call = chat.request("pay")
    with pytest.raises(type(error)), chat.running(call.id):
        raise error
    check_doubt(chat, call.id)
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return  # asyncio would end the whole loop

    async def run() -> None:
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("c")
            call = await chat.request("pay")
            with pytest.raises(type(error)):
                async with chat.running(call.id):
                    raise error
            with pytest.raises(IllegalTransition, match="pass attempt=2"):
                await chat.start(call.id)
            assert (await chat.tool(call.id)).in_doubt

    asyncio.run(run())


def check_doubt(chat: Conversation, call_id: str) -> None:
    """Require what must hold for a call in doubt."""
    assert [step.id for step in resume_plan(chat.events()).unknown] == [call_id]
    text = answers(chat)[call_id]
    assert text.endswith(MAY_HAVE_TAKEN_EFFECT)
    assert not any(word in text for word in ("Interrupt", "Cancelled", "Exit", "0x"))
    with pytest.raises(IllegalTransition, match="ended in doubt, it may have taken effect"):
        chat.start(call_id)


@pytest.mark.parametrize("error", BEFORE, ids=repr)
def test_an_error_before_the_effect_is_retried(
    kind: str, chat: Conversation, error: BaseException
) -> None:
    """Nothing was sent, so that even a mutating tool may run again."""
    pay = Effect(error)
    tool = FunctionTool(
        pay, "pay", effect="mutating", retry=RetryPolicy(2), classify=lambda _: ErrorKind.TRANSIENT
    )
    call = chat.request("pay")
    (done,) = make(kind, chat, [tool], sleep=Waits()).dispatch([call])
    assert (pay.runs, done.in_doubt) == (2, False)
    assert resume_plan(chat.events()).unknown == []


class SaysSo(Exception):
    """An error that says itself that nothing took effect."""

    in_doubt = False


@pytest.mark.parametrize(
    ("options", "error", "in_doubt"),
    [
        ({}, ValueError("x"), False),
        ({}, ConnectionResetError("x"), True),
        ({"sure": ConnectionResetError}, ConnectionResetError("x"), False),
        ({"effect": "mutating"}, ValueError("x"), True),
        ({"effect": "destructive", "needs_approval": False}, KeyError("x"), True),
        ({"effect": "mutating", "sure": ValueError}, ValueError("x"), False),
        ({"effect": "mutating", "idempotent": True}, ValueError("x"), False),
        ({"effect": "mutating"}, SaysSo("declined"), False),
        ({"effect": "mutating"}, ModelRetry("Give the order."), False),
        ({"effect": "mutating"}, NO_WORD[-1], False),
        ({"effect": "mutating", "classify": lambda _: ErrorKind.AUTH}, ValueError("x"), False),
        ({"effect": "read_only"}, ConnectionResetError("x"), False),
        ({"idempotent": True}, ConnectionResetError("x"), True),
    ],
)
def test_the_effect_of_a_tool_says_what_a_doubt_is(
    kind: str, chat: Conversation, options: dict[str, Any], error: BaseException, in_doubt: bool
) -> None:
    """Any exception of a mutating tool leaves one; of other tools the table decides."""
    call = chat.request("pay")
    (done,) = make(kind, chat, [FunctionTool(raising(error), "pay", **options)]).dispatch([call])
    assert done.in_doubt is in_doubt
    assert (MAY_HAVE_TAKEN_EFFECT in answers(chat)[call.id]) is in_doubt


def test_a_read_only_call_that_timed_out_has_no_effect_to_check(
    kind: str, chat: Conversation
) -> None:
    """The call may run again at a resume, and the model reads no warning."""
    tool = FunctionTool(raising(TimeoutError("late")), "look", effect=ToolEffect.READ_ONLY)
    call = chat.request("look")
    make(kind, chat, [tool]).dispatch([call])
    assert answers(chat)[call.id] == "late"


def test_a_failure_settles_a_doubt(chat: Conversation) -> None:
    """A person who has asked the bank says so; a second one is refused."""
    call = chat.request("pay")
    chat.start(call.id)
    chat.fail(call.id, TimeoutError("late"))
    assert chat.fail(call.id, "the bank did not get it").in_doubt is False
    assert resume_plan(chat.events()).unknown == []
    assert answers(chat)[call.id] == "the bank did not get it"
    with pytest.raises(IllegalTransition):
        chat.fail(call.id, "again")
    assert chat.start(call.id).attempts == 2


def test_a_planned_retry_after_a_doubt_asks_as_well(chat: Conversation) -> None:
    """The announcement does not say that anybody has checked."""
    call = chat.request("pay")
    chat.start(call.id)
    chat.fail(call.id, httpx.ReadTimeout("late"), delay=1)
    assert [step.action for step in resume_plan(chat.events()).steps] == ["unknown"]
    with pytest.raises(IllegalTransition, match="pass attempt=2"):
        chat.start(call.id)
    assert chat.start(call.id, attempt=2).attempts == 2


def test_an_older_log_reads_as_it_did(chat: Conversation) -> None:
    """A failure without a word of its own is in doubt by its code, and its text is kept."""
    failure = Failure(ErrorKind.TRANSIENT, "timed out", code="timeout")
    assert failure.leaves_doubt
    assert failure.model_text == "timed out"
    assert not Failure(
        ErrorKind.TRANSIENT, "timed out", code="timeout", in_doubt=False
    ).leaves_doubt
    chat.request("pay")
    assert MAY_HAVE_TAKEN_EFFECT not in str(model_history(chat.events()).render("openai"))
