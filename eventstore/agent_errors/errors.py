"""The errors of an agent: whether its loop may ask the provider again, and which action they need.

    AgentError                   an agent could not go on
    ├── ProviderError            the model's provider refused or did not answer: nine causes
    ├── ToolError                a tool failed: the model sees why
    ├── ContextOverflow          the messages do not fit the model: compact them
    ├── UsageLimitExceeded       a run used more than it was allowed to: end it, or raise the limit
    ├── ConfigError              the agent is set up wrongly: correct its configuration
    ├── Cancelled                the agent was stopped
    └── InternalError            anything else: a defect

Each error has a text for operators, a text for the model, a code for programs, and a JSON form.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple, Self

import msgspec

from eventstore.domain.arguments import is_seconds
from eventstore.domain.credentials import without_credentials
from eventstore.domain.doubt import ENDED_FROM_OUTSIDE, unknown_outcome
from eventstore.domain.error_envelope import CODES, code_of_status
from eventstore.domain.events import UsageLimitBreach
from eventstore.domain.failure import (
    ERROR_KINDS,
    ErrorKind,
    Failure,
    classify,
    storable,
)
from eventstore.domain.foreign_errors import (
    CAUSES_KEPT,
    ERROR_STATUSES,
    dig,
    retry_after_of,
    transport_code_of,
)
from eventstore.domain.provider_error_kinds import AuthErrorKind, ProviderErrorKind
from eventstore.domain.sdk_errors import (
    ProviderCause,
    cause_of,
    is_misconfigured,
    overflow_of,
    text_of,
)
from eventstore.errors import EventStoreError, restore_exception


class _Cause(NamedTuple):
    """The consequences of a provider error's kind; `seconds` is the default of `retry_after`."""

    text: str
    code: str
    seconds: float | None = None


_CAUSES = {
    ProviderErrorKind.AUTHENTICATION: _Cause("authentication failed", "auth_failed"),
    ProviderErrorKind.RATE_LIMIT: _Cause("rate limited", "rate_limited", 30.0),
    ProviderErrorKind.QUOTA_EXCEEDED: _Cause("quota exceeded", "quota_exceeded"),
    ProviderErrorKind.INVALID_REQUEST: _Cause("invalid request", "invalid_request"),
    ProviderErrorKind.CONTENT_FILTERED: _Cause("content filtered", "content_filtered"),
    ProviderErrorKind.SERVER_ERROR: _Cause("provider internal error", "upstream_unavailable", 20.0),
    ProviderErrorKind.TRANSPORT: _Cause("transport error", "transport_failure"),
    ProviderErrorKind.INVALID_RESPONSE: _Cause("invalid response", "invalid_response"),
    ProviderErrorKind.UNKNOWN: _Cause("unknown provider error", "upstream_error"),
}

_AUTH_STATUSES = {401: AuthErrorKind.INVALID, 403: AuthErrorKind.INSUFFICIENT_PERMISSIONS}
_INVALID_REQUESTS = (400, 422)
_SERVER_ERRORS = range(500, 600)


class AgentError(Exception):
    """An agent could not go on: `message` says why, `suggestion` what its user can do.

    `retryable` says whether the loop may ask the provider again, after `retry_after` seconds. It
    does not say whether a tool call may run again (`RetryClassifier`). Called `Error` in katu-core.
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

    @staticmethod
    def from_exception(
        exc: BaseException, *, suggestion: str | None = None, now: int | None = None
    ) -> AgentError:
        """Make the agent's error of any exception, such as those of the providers' SDKs.

        The first rule that applies decides:

        1. An `AgentError` is returned as it is.
        2. A cancelled task, Ctrl-C and an exit are `Cancelled`.
        3. A prompt that is too long is `ContextOverflow`.
        4. A client that is set up wrongly (a bad URL, no region) is `ConfigError`.
        5. An error with an HTTP status or a cause that is known, a network that failed, and an
           answer that cannot be decoded, is `ProviderError`. What the provider says of the cause
           is stronger than the status.
        6. Anything else is `InternalError`.

        The error keeps the status and the provider's hint how long to wait, and has `exc` as its
        cause. Its text is the provider's own sentence, without credentials, and at most 2,000
        characters long. `suggestion` is for the user; without it there is one for credentials
        that were refused and for a budget that is used up. `now`, in microseconds since 1970 UTC,
        is the time that a date in a Retry-After header counts from. No SDK is imported, and
        nothing is raised.
        """
        return exc if isinstance(exc, AgentError) else _of_foreign(exc, suggestion, now)

    def _text(self, message: str) -> str:
        return message

    @property
    def code(self) -> str:
        """Code for programs; see `ErrorEnvelope`."""
        return self._code

    @property
    def error_kind(self) -> ErrorKind:
        """Kind of the failure if a tool raises this error."""
        return self._error_kind

    @property
    def retryable(self) -> bool:
        """Whether the loop may ask the provider again."""
        return False

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before asking again, if the loop may."""
        return None

    @property
    def model_message(self) -> str | None:
        """Text for the model in place of the text for operators; None if it is the same."""
        return CODES[self.code].model_message

    def encode(self) -> bytes:
        """Return the error as JSON, with its causes; a cause of another class becomes internal."""
        return msgspec.json.encode(_data_of(self, CAUSES_KEPT))

    @staticmethod
    def decode(data: str | bytes) -> AgentError:
        """Return the error that `encode` wrote.

        Raises:
            msgspec.ValidationError: the JSON does not have that form; the error names the place.
        """
        decoded: _Data = msgspec.json.decode(data, type=_AnyData)
        return decoded.error()

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_exception, (type(self), self.args, self.__dict__)


class ProviderError(AgentError):
    """The model's provider refused or did not answer.

    `status` is the HTTP status, if there was one; `auth` is the detail of an authentication error.
    `retry_after_hint` is the provider's own hint in seconds.
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
            raise ValueError(f"auth is {auth!r} and kind {kind!r}: auth is only for AUTHENTICATION")
        if retry_after is not None and not is_seconds(retry_after):
            raise ValueError(f"retry_after is {retry_after!r}: pass seconds, 0 or more")
        self.status = status
        self.auth = AuthErrorKind(auth or AuthErrorKind.UNKNOWN) if is_auth else None
        self.retry_after_hint = retry_after
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
        """Make the error of an HTTP status; `retry_after` is the server's hint in seconds."""
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
        """Kind that the retry class and `retryable` follow from."""
        return ERROR_KINDS[self.kind]

    @property
    def retryable(self) -> bool:
        """Whether the loop may ask the provider again."""
        return self.error_kind.is_retryable

    @property
    def retry_after(self) -> float | None:
        """Provider's hint in seconds, otherwise its kind's default; None if not `retryable`."""
        if not self.retryable:
            return None
        hint = self.retry_after_hint
        return _CAUSES[self.kind].seconds if hint is None else hint

    @property
    def code(self) -> str:
        """Code for programs: of the HTTP status, otherwise of the kind."""
        if self.status is not None:
            return code_of_status(self.status)
        if self.kind is ProviderErrorKind.TRANSPORT:
            code = transport_code_of(self)
            if code is not None:
                return code
        return _CAUSES[self.kind].code

    @property
    def model_message(self) -> str | None:
        """Text for the model in place of the text for operators."""
        if self.code == "invalid_request":
            return f"invalid input: {self.message}"
        return super().model_message


class ToolError(AgentError):
    """A tool failed. The model reads the error, and may choose another way."""

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
        """Kind of the cause; internal without one."""
        return ErrorKind.INTERNAL if self.__cause__ is None else classify(self.__cause__)


class ContextOverflow(AgentError):
    """The messages do not fit the model's context: compact them.

    `used` and `limit` are tokens; None where the provider does not say how many.
    """

    _code = "context_overflow"
    _error_kind = ErrorKind.VALIDATION

    def __init__(
        self,
        used: int | None,
        limit: int | None,
        *,
        suggestion: str | None = None,
        cause: BaseException | None = None,
    ) -> None:
        self.used = used
        self.limit = limit
        super().__init__(
            f"context overflow: {_tokens(used)}/{_tokens(limit)} tokens",
            suggestion=suggestion,
            cause=cause,
        )


class UsageLimitExceeded(AgentError):
    """A run used more than its `UsageLimits` allow: `breach` says on which axis.

    Called `Error::UsageLimitExceeded` in entelix-core.
    """

    _code = "quota_exceeded"
    _error_kind = ErrorKind.QUOTA

    def __init__(
        self,
        breach: UsageLimitBreach,
        *,
        suggestion: str | None = None,
        cause: BaseException | None = None,
    ) -> None:
        self.breach = breach
        super().__init__(f"usage limit exceeded: {breach}", suggestion=suggestion, cause=cause)


class ConfigError(AgentError):
    """The agent is set up wrongly: correct its configuration."""

    _code = "config_error"

    def _text(self, message: str) -> str:
        return f"config error: {message}"


class Cancelled(AgentError):
    """The agent was stopped."""

    _code = "cancelled"

    def __init__(
        self,
        *,
        suggestion: str | None = None,
        cause: BaseException | None = None,
    ) -> None:
        super().__init__("cancelled", suggestion=suggestion, cause=cause)


class InternalError(AgentError):
    """Any other error, made from its text or from the exception itself: a defect.

    `exception` is the class name of an error that was not an `AgentError`.
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


def _kind_of_status(
    status: int, retry_after: float | None
) -> tuple[ProviderErrorKind, AuthErrorKind | None]:
    """Return the kind and the auth detail: retryable exactly if `ErrorKind.from_http_status` is."""
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


_MAX_TEXT_CHARS = 2_000  # an answer may be a whole page of HTML

_SUGGESTIONS = {
    AuthErrorKind.MISSING: "set the API key or the credentials of the provider",
    AuthErrorKind.INVALID: "check the API key or the credentials of the provider",
    AuthErrorKind.EXPIRED: "log in again, or renew the credentials of the provider",
    AuthErrorKind.INSUFFICIENT_PERMISSIONS: "ask for the rights that this request needs",
    ProviderErrorKind.QUOTA_EXCEEDED: "raise the budget, or wait until its next period begins",
}


def _of_foreign(exc: BaseException, suggestion: str | None, now: int | None) -> AgentError:
    failure = Failure.from_exception(exc, now=now)  # accepts any foreign exception
    message = _safe_text(exc, failure)
    own = dig(exc, "suggestion")
    suggestion = suggestion or (own if isinstance(own, str) else None)
    if unknown_outcome(exc) in ENDED_FROM_OUTSIDE:
        return Cancelled(suggestion=suggestion, cause=exc)
    if overflow := overflow_of(exc):
        return ContextOverflow(*overflow, suggestion=suggestion, cause=exc)
    if is_misconfigured(exc):
        return ConfigError(message, suggestion=suggestion, cause=exc)
    if cause := _provider_cause(exc, failure):
        return ProviderError(
            cause.kind,
            message,
            status=failure.http_status if failure.http_status in ERROR_STATUSES else None,
            retry_after=failure.retry_after,
            auth=cause.auth,
            suggestion=suggestion or _SUGGESTIONS.get(cause.auth or cause.kind),
            cause=exc,
        )
    return InternalError(message, suggestion=suggestion, cause=exc, exception=failure.exception)


def _provider_cause(exc: BaseException, failure: Failure) -> ProviderCause | None:
    if cause := cause_of(exc):
        return cause
    if failure.http_status is not None:
        # Whether there is a hint decides the kind, also where the time that it means is not known.
        hint = retry_after_of(exc, now=0)
        return ProviderCause(*_kind_of_status(failure.http_status, hint))
    if failure.kind is ErrorKind.TRANSIENT:
        return ProviderCause(ProviderErrorKind.TRANSPORT)
    is_unreadable = failure.kind is ErrorKind.VALIDATION and failure.code in (None, "serde")
    if is_unreadable and not isinstance(exc, EventStoreError):
        return ProviderCause(ProviderErrorKind.INVALID_RESPONSE)
    return None


def _safe_text(exc: BaseException, failure: Failure) -> str:
    text = without_credentials(storable(text_of(exc) or failure.message), exc)
    return text if len(text) <= _MAX_TEXT_CHARS else f"{text[:_MAX_TEXT_CHARS]}…"


def _tokens(number: int | None) -> int | str:
    return "unknown" if number is None else number


class _Data(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="type"):
    """The JSON of any error."""

    suggestion: str | None = None
    cause: _AnyData | None = None

    def error(self) -> AgentError:
        """Return the error."""
        error = self._build()
        error.suggestion = self.suggestion
        if self.cause is not None:
            error.__cause__ = self.cause.error()
        return error

    def _build(self) -> AgentError:
        raise NotImplementedError


class _KindMembers(msgspec.Struct, frozen=True, omit_defaults=True):
    """The members under the kind in the JSON of a provider error; times in milliseconds."""

    message: str
    kind: AuthErrorKind | None = None
    status: int | None = None
    retry_after: int | msgspec.UnsetType | None = msgspec.UNSET
    auth: AuthErrorKind | None = None
    """The former name of `kind`: read, and no longer written."""


class _ProviderData(_Data, tag="provider"):
    kind: dict[ProviderErrorKind, _KindMembers]

    def __post_init__(self) -> None:
        if len(self.kind) != 1:
            raise ValueError(f"kind names {len(self.kind)} causes, it takes one")
        self._build()  # refuses invalid combinations

    def _build(self) -> ProviderError:
        ((kind, members),) = self.kind.items()
        wait = members.retry_after
        return ProviderError(
            kind,
            members.message,
            status=members.status,
            retry_after=wait / 1000 if isinstance(wait, int) else None,
            auth=members.kind or members.auth,
        )


class _ToolData(_Data, tag="tool"):
    name: str
    call_id: str | None
    message: str

    def _build(self) -> ToolError:
        return ToolError(self.name, self.call_id, self.message)


class _ContextOverflowData(_Data, tag="context_overflow"):
    used: int | None
    limit: int | None

    def _build(self) -> ContextOverflow:
        return ContextOverflow(self.used, self.limit)


class _UsageLimitData(_Data, tag="usage_limit"):
    axis: str
    limit: Decimal
    observed: Decimal

    def _build(self) -> UsageLimitExceeded:
        return UsageLimitExceeded(UsageLimitBreach(self.axis, self.limit, self.observed))


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
    _ProviderData
    | _ToolData
    | _ContextOverflowData
    | _UsageLimitData
    | _ConfigData
    | _CancelledData
    | _InternalData
)


def _data_of(error: BaseException, max_causes: int) -> _Data:
    """Return the JSON of an error and of at most `max_causes` causes."""
    cause = error.__cause__
    common: Any = {
        "suggestion": _storable(getattr(error, "suggestion", None)),
        "cause": _data_of(cause, max_causes - 1) if cause is not None and max_causes else None,
    }
    data: _Data
    match error:
        case ProviderError():
            data = _ProviderData(kind={error.kind: _kind_members(error)}, **common)
        case ToolError():
            data = _ToolData(
                name=storable(error.name),
                call_id=_storable(error.call_id),
                message=storable(error.message),
                **common,
            )
        case ContextOverflow():
            data = _ContextOverflowData(used=error.used, limit=error.limit, **common)
        case UsageLimitExceeded(breach=breach):
            data = _UsageLimitData(
                axis=breach.axis, limit=breach.limit, observed=breach.observed, **common
            )
        case ConfigError():
            data = _ConfigData(message=storable(error.message), **common)
        case Cancelled():
            data = _CancelledData(**common)
        case InternalError():
            data = _InternalData(
                message=storable(error.message), exception=error.exception, **common
            )
        case _:
            failure = Failure.from_exception(error)  # accepts any foreign exception
            text = without_credentials(failure.message, error)
            data = _InternalData(message=text, exception=failure.exception, **common)
    return data


def _kind_members(error: ProviderError) -> _KindMembers:
    wait: int | msgspec.UnsetType | None = msgspec.UNSET
    if error.kind in (ProviderErrorKind.RATE_LIMIT, ProviderErrorKind.SERVER_ERROR):
        wait = None
    if error.retry_after_hint is not None:
        wait = round(error.retry_after_hint * 1000)
    return _KindMembers(storable(error.message), error.auth, error.status, wait)


def _storable(text: str | None) -> str | None:
    return storable(text) if isinstance(text, str) else None
