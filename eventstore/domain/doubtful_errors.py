"""What an exception says of the effect of the attempt that it ended: a table of classes.

1. No library is imported: a class is known by its package and name, or by its nearest known base.
2. `BEFORE`: the effect was surely still to come (no connection, no name, no place in a pool, a
   request that was refused before it was sent).
3. `DOUBT`: something was sent, or may have been, and its answer did not come whole.
4. `ASK_DOUBT` and `ASK_BEFORE`: the class covers both. What it wraps decides; the second word holds
   where that says nothing.
5. `LAST_TRY` and `ASK_LAST_TRY`: the client tries again by itself, and raises the error of its last
   try. That nothing of this one was sent says nothing of those before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any

from eventstore.domain.foreign_errors import by_class, or_none, package_of, status_of
from eventstore.domain.value_paths import dig


class Sign(Enum):
    """What the class of an exception says of the effect."""

    BEFORE = auto()
    DOUBT = auto()
    ASK_DOUBT = auto()
    ASK_BEFORE = auto()
    LAST_TRY = auto()
    ASK_LAST_TRY = auto()


_CONNECT_PHASE = "ConnectError ConnectTimeout PoolTimeout ProxyError UnsupportedProtocol InvalidURL"

_CLASSES: tuple[tuple[Sign, str, str], ...] = (
    # the standard library
    (Sign.BEFORE, "builtins", "ConnectionRefusedError"),
    (Sign.DOUBT, "builtins", "ConnectionError TimeoutError"),
    (Sign.BEFORE, "socket", "gaierror herror"),
    (Sign.BEFORE, "ssl", "SSLError"),  # but see `_of_ssl`
    (Sign.DOUBT, "ssl", "SSLEOFError SSLSyscallError SSLZeroReturnError"),
    (Sign.DOUBT, "asyncio", "CancelledError IncompleteReadError"),
    (Sign.DOUBT, "concurrent", "BrokenExecutor CancelledError"),
    (Sign.DOUBT, "multiprocessing", "TimeoutError"),
    (Sign.DOUBT, "subprocess", "TimeoutExpired"),
    (Sign.DOUBT, "http", "HTTPException"),  # of an answer that cannot be read
    (Sign.BEFORE, "http", "InvalidURL NotConnected CannotSendRequest CannotSendHeader"),
    (Sign.ASK_DOUBT, "urllib", "URLError"),
    (Sign.DOUBT, "urllib", "ContentTooShortError"),
    (Sign.DOUBT, "smtplib", "SMTPServerDisconnected"),
    (Sign.BEFORE, "smtplib", "SMTPConnectError SMTPResponseException SMTPRecipientsRefused"),
    (Sign.DOUBT, "imaplib", "abort"),
    # clients for HTTP
    *((Sign.BEFORE, package, _CONNECT_PHASE) for package in ("httpx", "httpx2")),
    *((Sign.BEFORE, package, "LocalProtocolError") for package in ("httpx", "httpx2")),
    *((Sign.DOUBT, package, "TransportError DecodingError") for package in ("httpx", "httpx2")),
    (Sign.BEFORE, "httpcore", _CONNECT_PHASE),
    (Sign.DOUBT, "httpcore", "TimeoutException NetworkError RemoteProtocolError"),
    (Sign.BEFORE, "requests", "ConnectTimeout InvalidURL MissingSchema InvalidSchema"),
    (Sign.BEFORE, "requests", "InvalidHeader InvalidProxyURL"),
    (Sign.DOUBT, "requests", "Timeout ChunkedEncodingError ContentDecodingError RetryError"),
    (Sign.ASK_DOUBT, "requests", "ConnectionError"),
    (Sign.ASK_BEFORE, "requests", "ProxyError SSLError"),
    (Sign.BEFORE, "urllib3", "ConnectTimeoutError NewConnectionError LocationParseError"),
    (Sign.BEFORE, "urllib3", "EmptyPoolError FullPoolError ClosedPoolError"),
    (Sign.DOUBT, "urllib3", "TimeoutError ProtocolError DecodeError ResponseError"),
    (Sign.ASK_DOUBT, "urllib3", "MaxRetryError"),
    (Sign.ASK_BEFORE, "urllib3", "ProxyError SSLError"),
    (Sign.BEFORE, "aiohttp", "ClientConnectorError ConnectionTimeoutError InvalidURL"),
    (Sign.DOUBT, "aiohttp", "ClientConnectionError ClientPayloadError BadHttpMessage"),
    (Sign.DOUBT, "aiohttp", "PayloadEncodingError"),
    (Sign.DOUBT, "h11", "ProtocolError"),
    (Sign.DOUBT, "websockets", "ConnectionClosed"),
    (Sign.BEFORE, "websockets", "InvalidHandshake"),
    (Sign.DOUBT, "anyio", "BrokenResourceError ClosedResourceError EndOfStream IncompleteRead"),
    (Sign.DOUBT, "trio", "BrokenResourceError ClosedResourceError TooSlowError"),
    # clients of services
    (Sign.LAST_TRY, "botocore", "ConnectTimeoutError EndpointConnectionError SSLError"),
    (Sign.LAST_TRY, "botocore", "ProxyConnectionError"),
    (Sign.BEFORE, "botocore", "NoRegionError ParamValidationError UnknownEndpointError"),
    (Sign.BEFORE, "botocore", "NoCredentialsError PartialCredentialsError"),
    (Sign.BEFORE, "botocore", "CredentialRetrievalError TokenRetrievalError"),
    (Sign.DOUBT, "botocore", "ConnectionError HTTPClientError IncompleteReadError"),
    (Sign.DOUBT, "botocore", "ResponseParserError"),
    (Sign.LAST_TRY, "azure", "ServiceRequestError"),
    (Sign.DOUBT, "azure", "ServiceResponseError IncompleteReadError DecodeError"),
    (Sign.DOUBT, "google", "Cancelled DeadlineExceeded GatewayTimeout RetryError Unknown"),
    (Sign.DOUBT, "google", "InternalServerError ServiceUnavailable"),
    (Sign.ASK_LAST_TRY, "anthropic", "APIConnectionError"),
    (Sign.ASK_LAST_TRY, "openai", "APIConnectionError"),
    (Sign.ASK_LAST_TRY, "stripe", "APIConnectionError"),
    (Sign.ASK_LAST_TRY, "elastic_transport", "ConnectionError ConnectionTimeout"),
    (Sign.ASK_LAST_TRY, "opensearchpy", "ConnectionError ConnectionTimeout"),
    (Sign.DOUBT, "paramiko", "ChannelException"),
    (Sign.BEFORE, "paramiko", "AuthenticationException NoValidConnectionsError"),
    (Sign.DOUBT, "pika", "AMQPConnectionError ConnectionClosed StreamLostError"),
    # databases
    (Sign.DOUBT, "eventstore", "OutcomeUnknown"),
    (Sign.BEFORE, "sqlalchemy", "TimeoutError"),
    (Sign.BEFORE, "psycopg", "ConnectionTimeout"),
    (Sign.BEFORE, "psycopg_pool", "PoolTimeout PoolClosed TooManyRequests"),
    (Sign.DOUBT, "asyncpg", "ConnectionDoesNotExistError"),
    (Sign.ASK_LAST_TRY, "redis", "ConnectionError TimeoutError"),
    (Sign.BEFORE, "redis", "AuthenticationError BusyLoadingError MaxConnectionsError"),
    (Sign.DOUBT, "pymongo", "ConnectionFailure ExecutionTimeout WTimeoutError"),
    (Sign.BEFORE, "pymongo", "ServerSelectionTimeoutError WaitQueueTimeoutError"),
    (Sign.DOUBT, "cassandra", "OperationTimedOut WriteTimeout"),
    (Sign.BEFORE, "cassandra", "NoHostAvailable"),
    (Sign.DOUBT, "neo4j", "IncompleteCommit ServiceUnavailable SessionExpired"),
)
_BY_CLASS = {(package, name): sign for sign, package, names in _CLASSES for name in names.split()}

# Packages of errors that an operating system or event loop gives, without a word of what ended.
_SYSTEM = frozenset({"builtins", "socket", "ssl", "asyncio", "concurrent", "anyio", "trio"})

# A gateway had no whole answer of the server behind it; 520 and 524 are Cloudflare's.
_GATEWAY_STATUSES = frozenset({502, 504, 520, 524})

# SQLSTATE: connection exceptions, a COMMIT without an answer, a server that stops, ODBC's timeouts.
_DOUBTFUL_STATES = re.compile("08...|40003|57P01|57P02|HYT00")
_REFUSED_STATES = re.compile("0800[14]|28...|3D000|53300|57P03|HYT01")
_NO_CONNECTION = re.compile(
    r"connection to server (?:at|on) .{0,300} failed"
    r"|could not (?:connect to server|translate host name)"
)
# MySQL's numbers: no connection or a refused one; one that was lost or killed.
_REFUSED_NUMBERS = frozenset({1040, 1044, 1045, 1049, 1129, 1130, 2002, 2003, 2005})
_LOST_NUMBERS = frozenset({1053, 1927, 2006, 2013, 2055, 4031})

_TRANSFERS = frozenset({"read", "recv", "recv_into", "write", "send", "sendall"})

_LOST_CODES = frozenset(
    {"CANCELLED", "DATA_LOSS", "DEADLINE_EXCEEDED", "INTERNAL", "UNAVAILABLE", "UNKNOWN"}
)
_TOO_LARGE_ANSWER = re.compile("[Rr]eceived message larger than max")
_NOT_CONNECTED = re.compile("failed to connect to all addresses|DNS resolution failed")

# The MCP SDK's own codes: no answer in time, a closed connection, an answer that cannot be read.
_MCP_LOST = frozenset({408, -32000, -32001, -32700})
# Its own texts of an answer over HTTP that does not follow the protocol, as from a gateway.
_MCP_NO_ANSWER = re.compile(
    "Server returned an error response|Unexpected content type: |server answered a request with 202"
)

_FIRST_SIGNAL = 128  # what a shell adds to the number of the signal that ended a program
_TIMED_OUT = 124  # of the program `timeout`


def sign_of(error: BaseException) -> Sign | None:
    """Return what the exception itself says of the effect, without what it wraps; None: nothing."""
    if (judge := _judge_of(error)) is not None and (sign := or_none(judge, error)) is not None:
        return sign
    asks = (Sign.ASK_DOUBT, Sign.ASK_LAST_TRY)
    if (sign := by_class(error, _BY_CLASS)) is not None and sign not in asks:
        return sign
    if or_none(status_of, error) in _GATEWAY_STATUSES:
        return Sign.DOUBT
    is_answer = or_none(status_of, error) is not None
    return None if is_answer else sign


def is_of_system(error: BaseException) -> bool:
    """Return whether a library that tried to connect would explain the exception as its own."""
    return isinstance(error, OSError) or package_of(type(error)) in _SYSTEM


def was_handled_in(error: BaseException, packages: frozenset[str]) -> bool:
    """Return whether code of one of the packages, or of the system, handled the exception."""
    if not packages or error.__traceback__ is None:
        return False
    module = str(error.__traceback__.tb_frame.f_globals.get("__name__"))
    return module.partition(".")[0] in packages | _SYSTEM


def _judge_of(error: BaseException) -> Callable[[Any], Sign | None] | None:
    """Return what reads the words of the nearest base whose package has some, or None."""
    packages = (package_of(cls) for cls in type(error).__mro__)
    return next((_JUDGES[package] for package in packages if package in _JUDGES), None)


def _of_ssl(error: BaseException) -> Sign | None:
    """Return the sign of an error of TLS that came after the handshake, in what was read."""
    level = error.__traceback__
    while level is not None:
        frame = level.tb_frame
        if frame.f_globals.get("__name__") == "ssl" and frame.f_code.co_name in _TRANSFERS:
            return Sign.DOUBT
        level = level.tb_next
    return None


def _of_grpc(error: Any) -> Sign | None:
    """Return the sign of a status of gRPC."""
    name, details = str(error.code().name), str(or_none(error.details))
    if name in _LOST_CODES:
        return Sign.BEFORE if _NOT_CONNECTED.search(details) else Sign.DOUBT
    return Sign.DOUBT if _TOO_LARGE_ANSWER.search(details) else Sign.BEFORE


def _of_postgresql(error: Any) -> Sign | None:
    """Return the sign of an error of a driver for PostgreSQL, or for ODBC."""
    state = _sql_state(error)
    if not state:
        if type(error).__name__ != "OperationalError":
            return None
        return Sign.BEFORE if _NO_CONNECTION.search(str(error)) else Sign.DOUBT
    if _REFUSED_STATES.fullmatch(state):
        return Sign.BEFORE
    return Sign.DOUBT if _DOUBTFUL_STATES.fullmatch(state) else None


def _sql_state(error: Any) -> str:
    for name in ("sqlstate", "pgcode"):
        if isinstance(state := dig(error, name), str):
            return state
    first = next(iter(error.args), None)
    return first if isinstance(first, str) and re.fullmatch("[0-9A-Z]{5}", first) else ""


def _of_mysql(error: Any) -> Sign | None:
    """Return the sign of a number of MySQL or MariaDB."""
    number = dig(error, "errno")
    number = next(iter(error.args), None) if number is None else number
    if number in _REFUSED_NUMBERS:
        return Sign.BEFORE
    return Sign.DOUBT if number in _LOST_NUMBERS else None


def _of_sqlite(error: Any) -> Sign | None:
    """Return the sign of an error of SQLite: the disk may have failed under a COMMIT."""
    return Sign.DOUBT if str(dig(error, "sqlite_errorname")).startswith("SQLITE_IOERR") else None


def _of_subprocess(error: Any) -> Sign | None:
    """Return the sign of a program that a signal has ended."""
    status = dig(error, "returncode")
    is_ended = isinstance(status, int) and (status < 0 or status > _FIRST_SIGNAL)
    return Sign.DOUBT if is_ended or status == _TIMED_OUT else None


def _of_mcp(error: Any) -> Sign | None:
    """Return the sign of an answer that the MCP SDK made itself."""
    code = dig(error, "error", "code") or dig(error, "code")
    is_lost = code in _MCP_LOST or _MCP_NO_ANSWER.match(str(error))
    return Sign.DOUBT if is_lost else None


def _each(packages: str, judge: Callable[[Any], Sign | None]) -> Iterable[Any]:
    return ((package, judge) for package in packages.split())


_JUDGES: dict[str, Callable[[Any], Sign | None]] = dict(
    (
        *_each("ssl", _of_ssl),
        *_each("grpc", _of_grpc),
        *_each("psycopg psycopg2 asyncpg pyodbc", _of_postgresql),
        *_each("pymysql MySQLdb mysql mariadb aiomysql asyncmy", _of_mysql),
        *_each("sqlite3", _of_sqlite),
        *_each("subprocess", _of_subprocess),
        *_each("mcp", _of_mcp),
    )
)
"""Package to what reads the words of its errors. Elsewhere the class says all."""
