"""The errors of an agent: may its loop ask the provider again, and who has to act?

    AgentError                   an agent could not go on
    ├── ProviderError            the model's provider refused or did not answer: nine causes
    ├── ToolError                a tool failed: the model is told
    ├── ContextOverflow          the messages do not fit the model: compact them
    ├── ConfigError              the agent is set up wrongly: somebody has to mend it
    ├── Cancelled                somebody stopped the agent
    └── InternalError            anything else: a defect

Each has a text for operators, one for the model, a code for programs, and goes through JSON.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any, NamedTuple, Self

import msgspec

from eventstore.envelope import CODES, code_of_status
from eventstore.failure import ErrorKind, Failure, classify, storable

CAUSES_KEPT = 16
"""How many causes, each of the one before, the JSON of an error keeps."""


class AuthErrorKind(StrEnum):
    """What is wrong with the credentials. The values are stored: they never change."""

    MISSING = "missing"
    """There are none: log in, or set a key."""

    INVALID = "invalid"
    """They are wrong: set others."""

    EXPIRED = "expired"
    """They were good once: log in again."""

    INSUFFICIENT_PERMISSIONS = "insufficient_permissions"
    """They do not allow this: ask for more rights."""

    UNKNOWN = "unknown"
    """The provider does not say."""


class ProviderErrorKind(StrEnum):
    """Why a model request failed. The values are stored: they never change."""

    AUTHENTICATION = "Authentication"
    """The credentials were refused: stop, and tell the user."""

    RATE_LIMIT = "RateLimit"
    """Too many requests: wait as long as `retry_after` says, then ask again."""

    QUOTA_EXCEEDED = "QuotaExceeded"
    """The budget is used up: stop, and tell the user."""

    INVALID_REQUEST = "InvalidRequest"
    """The request breaks the provider's rules: mend it."""

    CONTENT_FILTERED = "ContentFiltered"
    """The provider's filter refused: the same content will be refused again."""

    SERVER_ERROR = "ServerError"
    """The provider is in trouble: wait, then ask again."""

    TRANSPORT = "Transport"
    """No answer came: ask again; a model request has no side effect."""

    INVALID_RESPONSE = "InvalidResponse"
    """The answer makes no sense: look at it."""

    UNKNOWN = "Unknown"
    """The provider gives no cause that is known."""


class _Cause(NamedTuple):
    """What follows from a provider error's kind; seconds are waited where it names none."""

    text: str
    error_kind: ErrorKind
    code: str
    seconds: float | None = None


_CAUSES = {
    ProviderErrorKind.AUTHENTICATION: _Cause(
        "authentication failed", ErrorKind.AUTH, "auth_failed"
    ),
    ProviderErrorKind.RATE_LIMIT: _Cause(
        "rate limited", ErrorKind.RATE_LIMIT, "rate_limited", 30.0
    ),
    ProviderErrorKind.QUOTA_EXCEEDED: _Cause("quota exceeded", ErrorKind.QUOTA, "quota_exceeded"),
    ProviderErrorKind.INVALID_REQUEST: _Cause(
        "invalid request", ErrorKind.VALIDATION, "invalid_request"
    ),
    ProviderErrorKind.CONTENT_FILTERED: _Cause(
        "content filtered", ErrorKind.PERMANENT, "content_filtered"
    ),
    ProviderErrorKind.SERVER_ERROR: _Cause(
        "provider internal error", ErrorKind.TRANSIENT, "upstream_unavailable", 20.0
    ),
    ProviderErrorKind.TRANSPORT: _Cause(
        "transport error", ErrorKind.TRANSIENT, "transport_failure"
    ),
    ProviderErrorKind.INVALID_RESPONSE: _Cause(
        "invalid response", ErrorKind.INTERNAL, "invalid_response"
    ),
    ProviderErrorKind.UNKNOWN: _Cause(
        "unknown provider error", ErrorKind.INTERNAL, "upstream_error"
    ),
}

# modules and names of the exceptions behind a transport error that have a code of their own
_TRANSPORTS = {("ssl", "SSLError"): "tls_failure", ("socket", "gaierror"): "dns_failure"}


_AUTH_STATUSES = {401: AuthErrorKind.INVALID, 403: AuthErrorKind.INSUFFICIENT_PERMISSIONS}
_INVALID_REQUESTS = (400, 422)
_SERVER_ERRORS = range(500, 600)


class AgentError(Exception):
    """An agent could not go on: `message` says why, `suggestion` what its user can do.

    `retryable`: may the loop ask the provider again, after `retry_after` seconds? It is not the
    question whether a tool call may run again (`RetryClassifier`).
    """

    _code = "internal_error"
    _error_kind = ErrorKind.INTERNAL

    def __init__(
        self,
        message: str,
        *,
        suggestion: str | None = None,
        cause: BaseException | None = None,
    ) -> None:
        super().__init__(self._text(message))
        self.message = message
        self.suggestion = suggestion
        if cause is not None:
            self.__cause__ = cause

    def _text(self, message: str) -> str:
        return message

    @property
    def code(self) -> str:
        """What programs are told; see `ErrorEnvelope`."""
        return self._code

    @property
    def error_kind(self) -> ErrorKind:
        """The kind of the failure that it is where a tool raises it."""
        return self._error_kind

    @property
    def retryable(self) -> bool:
        """Whether the loop may ask the provider again."""
        return False

    @property
    def retry_after(self) -> float | None:
        """How many seconds to wait before, where it may."""
        return None

    @property
    def model_message(self) -> str | None:
        """What the model reads in place of the text, which is for operators; None for no other."""
        return CODES[self.code].told

    def encode(self) -> bytes:
        """The error as JSON, with its causes; a cause of another class becomes internal."""
        return msgspec.json.encode(_data_of(self, CAUSES_KEPT))

    @staticmethod
    def decode(data: str | bytes) -> AgentError:
        """The error that `encode` wrote.

        Raises:
            msgspec.ValidationError: it is no such JSON; the error names the place.
        """
        decoded: _Data = msgspec.json.decode(data, type=_AnyData)
        return decoded.error()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.args, self.__dict__)


class ProviderError(AgentError):
    """The model's provider refused or did not answer.

    `status` is the HTTP status where there was one, `auth` says more of an authentication error.
    """

    def __init__(
        self,
        kind: ProviderErrorKind,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        auth: AuthErrorKind | None = None,
        suggestion: str | None = None,
        cause: BaseException | None = None,
    ) -> None:
        self.kind = ProviderErrorKind(kind)
        is_auth = self.kind is ProviderErrorKind.AUTHENTICATION
        if auth is not None and not is_auth:
            raise ValueError(f"auth is {auth!r} and kind {kind!r}: auth is of AUTHENTICATION only")
        if retry_after is not None and not _is_wait(retry_after):
            raise ValueError(f"retry_after is {retry_after!r}: pass seconds, 0 or more")
        self.status = status
        self.auth = AuthErrorKind(auth or AuthErrorKind.UNKNOWN) if is_auth else None
        self._hint = retry_after
        super().__init__(message, suggestion=suggestion, cause=cause)

    @classmethod
    def from_http_status(
        cls,
        status: int,
        message: str,
        *,
        retry_after: float | None = None,
        suggestion: str | None = None,
    ) -> Self:
        """The error of a provider's HTTP status; `retry_after` is the server's hint in seconds."""
        kind, auth = _kind_of_status(status, retry_after)
        return cls(
            kind, message, status=status, retry_after=retry_after, auth=auth, suggestion=suggestion
        )

    def _text(self, message: str) -> str:
        text = _CAUSES[self.kind].text
        if self.kind is ProviderErrorKind.SERVER_ERROR and self.status is not None:
            text += f" ({self.status})"
        text = f"provider error: {text}: {message}"
        return f"{text} ({self.auth})" if self.auth else text

    @property
    def error_kind(self) -> ErrorKind:
        """The one thing that retry class and `retryable` follow from."""
        return _CAUSES[self.kind].error_kind

    @property
    def retryable(self) -> bool:
        """Whether the loop may ask the provider again."""
        return self.error_kind.is_retryable

    @property
    def retry_after(self) -> float | None:
        """The provider's hint in seconds, else what its cause takes; None if not `retryable`."""
        if not self.retryable:
            return None
        return _CAUSES[self.kind].seconds if self._hint is None else self._hint

    @property
    def code(self) -> str:
        """What programs are told: of its HTTP status, else of its kind."""
        if self.status is not None:
            return code_of_status(self.status)
        if self.kind is ProviderErrorKind.TRANSPORT:
            for cls in type(self.__cause__).__mro__:
                if code := _TRANSPORTS.get((cls.__module__, cls.__name__)):
                    return code
        return _CAUSES[self.kind].code

    @property
    def model_message(self) -> str | None:
        """What the model reads in place of the text, which is for operators."""
        if self.code == "invalid_request":
            return f"invalid input: {self.message}"
        return super().model_message


class ToolError(AgentError):
    """A tool failed. The model is told, and may choose another way."""

    _code = "tool_failed"

    def __init__(
        self,
        name: str,
        call_id: str | None,
        message: str,
        *,
        suggestion: str | None = None,
        cause: BaseException | None = None,
    ) -> None:
        self.name = name
        self.call_id = call_id
        super().__init__(message, suggestion=suggestion, cause=cause)

    def _text(self, message: str) -> str:
        return f"tool `{self.name}` failed: {message}"

    @property
    def error_kind(self) -> ErrorKind:
        """The kind of its cause; internal without one."""
        return ErrorKind.INTERNAL if self.__cause__ is None else classify(self.__cause__)


class ContextOverflow(AgentError):
    """The messages do not fit the model's context: compact them."""

    _code = "context_overflow"
    _error_kind = ErrorKind.VALIDATION

    def __init__(
        self,
        used: int,
        limit: int,
        *,
        suggestion: str | None = None,
        cause: BaseException | None = None,
    ) -> None:
        self.used = used
        self.limit = limit
        super().__init__(
            f"context overflow: {used}/{limit} tokens", suggestion=suggestion, cause=cause
        )


class ConfigError(AgentError):
    """The agent is set up wrongly: somebody has to mend it."""

    _code = "config_error"

    def _text(self, message: str) -> str:
        return f"config error: {message}"


class Cancelled(AgentError):
    """Somebody stopped the agent."""

    _code = "cancelled"

    def __init__(
        self,
        *,
        suggestion: str | None = None,
        cause: BaseException | None = None,
    ) -> None:
        super().__init__("cancelled", suggestion=suggestion, cause=cause)


class InternalError(AgentError):
    """Anything else, from its text or from the exception that it was: a defect.

    `exception` is the class of an error that was no `AgentError` before it went through JSON.
    """

    def __init__(
        self,
        error: str | BaseException,
        *,
        suggestion: str | None = None,
        cause: BaseException | None = None,
        exception: str | None = None,
    ) -> None:
        self.exception = exception
        if isinstance(error, BaseException):
            self.exception = exception or type(error).__qualname__
            cause = cause or error
        super().__init__(str(error), suggestion=suggestion, cause=cause)


def _is_wait(seconds: object) -> bool:
    return isinstance(seconds, int | float) and 0 <= seconds < math.inf


def _kind_of_status(
    status: int, retry_after: float | None
) -> tuple[ProviderErrorKind, AuthErrorKind | None]:
    """Retryable exactly where `ErrorKind.from_http_status` is."""
    match ErrorKind.from_http_status(status, retry_after):
        case ErrorKind.AUTH:
            return ProviderErrorKind.AUTHENTICATION, _AUTH_STATUSES[status]
        case ErrorKind.RATE_LIMIT:
            return ProviderErrorKind.RATE_LIMIT, None
        case ErrorKind.QUOTA:
            return ProviderErrorKind.QUOTA_EXCEEDED, None
        case ErrorKind.PERMANENT:
            is_invalid = status in _INVALID_REQUESTS
            kind = ProviderErrorKind.INVALID_REQUEST if is_invalid else ProviderErrorKind.UNKNOWN
            return kind, None
        case _:
            is_server = status in _SERVER_ERRORS
            kind = ProviderErrorKind.SERVER_ERROR if is_server else ProviderErrorKind.TRANSPORT
            return kind, None


def _rebuilt(cls: type[AgentError], args: tuple[Any, ...], state: dict[str, Any]) -> AgentError:
    """What was pickled: the constructors take other arguments than the text."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class _Data(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="type"):
    """The JSON of any error."""

    suggestion: str | None = None
    cause: _AnyData | None = None

    def error(self) -> AgentError:
        """The error that it says."""
        error = self._build()
        error.suggestion = self.suggestion
        if self.cause is not None:
            error.__cause__ = self.cause.error()
        return error

    def _build(self) -> AgentError:
        raise NotImplementedError


class _Kind(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the JSON of a provider error says under the name of its kind; milliseconds."""

    message: str
    auth: AuthErrorKind | None = None
    status: int | None = None
    retry_after: int | msgspec.UnsetType | None = msgspec.UNSET


class _ProviderData(_Data, tag="provider"):
    kind: dict[ProviderErrorKind, _Kind]

    def __post_init__(self) -> None:
        if len(self.kind) != 1:
            raise ValueError(f"kind names {len(self.kind)} causes, it takes one")
        self._build()  # refuses what makes no sense

    def _build(self) -> ProviderError:
        ((kind, said),) = self.kind.items()
        wait = said.retry_after
        return ProviderError(
            kind,
            said.message,
            status=said.status,
            retry_after=wait / 1000 if isinstance(wait, int) else None,
            auth=said.auth,
        )


class _ToolData(_Data, tag="tool"):
    name: str
    call_id: str | None
    message: str

    def _build(self) -> ToolError:
        return ToolError(self.name, self.call_id, self.message)


class _ContextOverflowData(_Data, tag="context_overflow"):
    used: int
    limit: int

    def _build(self) -> ContextOverflow:
        return ContextOverflow(self.used, self.limit)


class _ConfigData(_Data, tag="config"):
    message: str

    def _build(self) -> ConfigError:
        return ConfigError(self.message)


class _CancelledData(_Data, tag="cancelled"):
    def _build(self) -> Cancelled:
        return Cancelled()


class _InternalData(_Data, tag="internal"):
    message: str
    exception: str | None = None

    def _build(self) -> InternalError:
        return InternalError(self.message, exception=self.exception)


_AnyData = (
    _ProviderData | _ToolData | _ContextOverflowData | _ConfigData | _CancelledData | _InternalData
)


def _data_of(error: BaseException, left: int) -> _Data:
    """The JSON of an error and of `left` causes."""
    cause = error.__cause__
    common: Any = {
        "suggestion": _storable(getattr(error, "suggestion", None)),
        "cause": _data_of(cause, left - 1) if cause is not None and left else None,
    }
    data: _Data
    match error:
        case ProviderError():
            data = _ProviderData(kind={error.kind: _kind_of(error)}, **common)
        case ToolError():
            data = _ToolData(
                name=storable(error.name),
                call_id=_storable(error.call_id),
                message=storable(error.message),
                **common,
            )
        case ContextOverflow():
            data = _ContextOverflowData(used=error.used, limit=error.limit, **common)
        case ConfigError():
            data = _ConfigData(message=storable(error.message), **common)
        case Cancelled():
            data = _CancelledData(**common)
        case InternalError():
            data = _InternalData(
                message=storable(error.message), exception=error.exception, **common
            )
        case _:
            failure = Failure.from_exception(error)  # reads whatever a foreign exception is
            data = _InternalData(message=failure.message, exception=failure.exception, **common)
    return data


def _kind_of(error: ProviderError) -> _Kind:
    wait: int | msgspec.UnsetType | None = msgspec.UNSET
    if error.kind in (ProviderErrorKind.RATE_LIMIT, ProviderErrorKind.SERVER_ERROR):
        wait = None
    if error._hint is not None:  # noqa: SLF001 - what was given, not what follows from it
        wait = int(error._hint * 1000)  # noqa: SLF001
    return _Kind(storable(error.message), error.auth, error.status, wait)


def _storable(text: str | None) -> str | None:
    return storable(text) if isinstance(text, str) else None
