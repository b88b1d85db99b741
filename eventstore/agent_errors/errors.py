"""The errors of an agent: whether its loop may ask the provider again, and which action they need.

    AgentError                   an agent could not continue
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

from typing import Any, Self

import msgspec

from eventstore.agent_errors.json_form import (
    AnyErrorJson,
    CancelledJson,
    ConfigJson,
    ContextOverflowJson,
    ErrorJson,
    InternalJson,
    ProviderJson,
    ProviderMembers,
    ToolJson,
    UsageLimitJson,
)
from eventstore.agent_errors.of_exception import (
    own_suggestion,
    provider_cause,
    safe_text,
    suggestion_for,
)
from eventstore.agent_errors.provider_causes import CONSEQUENCES, check_details, kind_of_status
from eventstore.domain.credentials import without_credentials
from eventstore.domain.doubt import ENDED_FROM_OUTSIDE, unknown_outcome
from eventstore.domain.error_codes import CODES, code_of_status
from eventstore.domain.failure import (
    ERROR_KINDS,
    ErrorKind,
    Failure,
    classify,
    storable,
)
from eventstore.domain.foreign_errors import CAUSES_KEPT, ERROR_STATUSES, transport_code_of
from eventstore.domain.provider_error_kinds import AuthErrorKind, ProviderErrorKind
from eventstore.domain.sdk_errors import is_misconfigured, overflow_of
from eventstore.domain.usage import UsageLimitBreach
from eventstore.errors import restore_exception


class AgentError(Exception):
    """An agent could not continue: `message` says why, `suggestion` what its user can do.

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
        """Make the agent's error of any exception, such as one of a provider's SDK.

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
        return msgspec.json.encode(_json_of(self, CAUSES_KEPT))

    @staticmethod
    def decode(data: str | bytes) -> AgentError:
        """Return the error that `encode` wrote.

        Raises:
            msgspec.ValidationError: the JSON does not have that form; the error names the place.
        """
        decoded: AnyErrorJson = msgspec.json.decode(data, type=AnyErrorJson)
        return _error_of(decoded)

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
        check_details(self.kind, auth, retry_after)
        is_auth = self.kind is ProviderErrorKind.AUTHENTICATION
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
        kind, auth = kind_of_status(status, retry_after)
        return cls(
            kind, message, status=status, retry_after=retry_after, auth=auth, suggestion=suggestion
        )

    def _text(self, message: str) -> str:
        text = CONSEQUENCES[self.kind].text
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
        return CONSEQUENCES[self.kind].seconds if hint is None else hint

    @property
    def code(self) -> str:
        """Code for programs: of the HTTP status, otherwise of the kind."""
        if self.status is not None:
            return code_of_status(self.status)
        if self.kind is ProviderErrorKind.TRANSPORT:
            code = transport_code_of(self)
            if code is not None:
                return code
        return CONSEQUENCES[self.kind].code

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


def _of_foreign(exc: BaseException, suggestion: str | None, now: int | None) -> AgentError:
    failure = Failure.from_exception(exc, now=now)  # accepts any foreign exception
    message = safe_text(exc, failure)
    suggestion = suggestion or own_suggestion(exc)
    if unknown_outcome(exc) in ENDED_FROM_OUTSIDE:
        return Cancelled(suggestion=suggestion, cause=exc)
    if overflow := overflow_of(exc):
        return ContextOverflow(*overflow, suggestion=suggestion, cause=exc)
    if is_misconfigured(exc):
        return ConfigError(message, suggestion=suggestion, cause=exc)
    if cause := provider_cause(exc, failure):
        return ProviderError(
            cause.kind,
            message,
            status=failure.http_status if failure.http_status in ERROR_STATUSES else None,
            retry_after=failure.retry_after,
            auth=cause.auth,
            suggestion=suggestion or suggestion_for(cause),
            cause=exc,
        )
    return InternalError(message, suggestion=suggestion, cause=exc, exception=failure.exception)


def _tokens(number: int | None) -> int | str:
    return "unknown" if number is None else number


def _json_of(error: BaseException, max_causes: int) -> ErrorJson:
    """Return the JSON of an error and of at most `max_causes` causes."""
    cause = error.__cause__
    common: Any = {
        "suggestion": _storable(getattr(error, "suggestion", None)),
        "cause": _json_of(cause, max_causes - 1) if cause is not None and max_causes else None,
    }
    data: ErrorJson
    match error:
        case ProviderError():
            data = ProviderJson(kind={error.kind: _kind_members(error)}, **common)
        case ToolError():
            data = ToolJson(
                name=storable(error.name),
                call_id=_storable(error.call_id),
                message=storable(error.message),
                **common,
            )
        case ContextOverflow():
            data = ContextOverflowJson(used=error.used, limit=error.limit, **common)
        case UsageLimitExceeded(breach=breach):
            data = UsageLimitJson(
                axis=breach.axis, limit=breach.limit, observed=breach.observed, **common
            )
        case ConfigError():
            data = ConfigJson(message=storable(error.message), **common)
        case Cancelled():
            data = CancelledJson(**common)
        case InternalError():
            data = InternalJson(
                message=storable(error.message), exception=error.exception, **common
            )
        case _:
            failure = Failure.from_exception(error)  # accepts any foreign exception
            text = without_credentials(failure.message, error)
            data = InternalJson(message=text, exception=failure.exception, **common)
    return data


def _error_of(data: AnyErrorJson) -> AgentError:
    """Return the error that its JSON stands for, with its causes."""
    error: AgentError
    match data:
        case ProviderJson():
            ((kind, members),) = data.kind.items()
            error = ProviderError(
                kind,
                members.message,
                status=members.status,
                retry_after=members.retry_seconds,
                auth=members.auth_kind,
            )
        case ToolJson():
            error = ToolError(data.name, data.call_id, data.message)
        case ContextOverflowJson():
            error = ContextOverflow(data.used, data.limit)
        case UsageLimitJson():
            error = UsageLimitExceeded(UsageLimitBreach(data.axis, data.limit, data.observed))
        case ConfigJson():
            error = ConfigError(data.message)
        case CancelledJson():
            error = Cancelled()
        case InternalJson():
            error = InternalError(data.message, exception=data.exception)
    error.suggestion = data.suggestion
    if data.cause is not None:
        error.__cause__ = _error_of(data.cause)
    return error


def _kind_members(error: ProviderError) -> ProviderMembers:
    wait: int | msgspec.UnsetType | None = msgspec.UNSET
    if error.kind in (ProviderErrorKind.RATE_LIMIT, ProviderErrorKind.SERVER_ERROR):
        wait = None
    if error.retry_after_hint is not None:
        wait = round(error.retry_after_hint * 1000)
    return ProviderMembers(storable(error.message), error.auth, error.status, wait)


def _storable(text: str | None) -> str | None:
    return storable(text) if isinstance(text, str) else None
