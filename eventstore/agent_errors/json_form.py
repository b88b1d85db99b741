"""The JSON form of the agents' errors: a struct for each class; see `AgentError.encode`.

Times are in milliseconds. `suggestion` and `cause` are there for every class.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec

from eventstore.agent_errors.provider_causes import check_details
from eventstore.domain.provider_error_kinds import AuthErrorKind, ProviderErrorKind


class ErrorJson(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="type"):
    """What the JSON of every error has."""

    suggestion: str | None = None
    cause: AnyErrorJson | None = None


class ProviderMembers(msgspec.Struct, frozen=True, omit_defaults=True):
    """The members under the kind in the JSON of a provider error."""

    message: str
    kind: AuthErrorKind | None = None
    status: int | None = None
    retry_after: int | msgspec.UnsetType | None = msgspec.UNSET
    auth: AuthErrorKind | None = None
    """The former name of `kind`: read, and no longer written."""

    @property
    def auth_kind(self) -> AuthErrorKind | None:
        """The detail of an authentication error, under either name."""
        return self.kind or self.auth

    @property
    def retry_seconds(self) -> float | None:
        """The provider's hint in seconds, if there was one."""
        return self.retry_after / 1000 if isinstance(self.retry_after, int) else None


class ProviderJson(ErrorJson, tag="provider"):
    """A `ProviderError`: its kind is the one member of `kind`."""

    kind: dict[ProviderErrorKind, ProviderMembers]

    def __post_init__(self) -> None:
        if len(self.kind) != 1:
            raise ValueError(f"kind names {len(self.kind)} causes, it takes one")
        ((kind, members),) = self.kind.items()
        check_details(kind, members.auth_kind, members.retry_seconds)


class ToolJson(ErrorJson, tag="tool"):
    """A `ToolError`."""

    name: str
    call_id: str | None
    message: str


class ContextOverflowJson(ErrorJson, tag="context_overflow"):
    """A `ContextOverflow`; both are tokens."""

    used: int | None
    limit: int | None


class UsageLimitJson(ErrorJson, tag="usage_limit"):
    """A `UsageLimitExceeded`, with the members of its breach."""

    axis: str
    limit: Decimal
    observed: Decimal


class ConfigJson(ErrorJson, tag="config"):
    """A `ConfigError`."""

    message: str


class CancelledJson(ErrorJson, tag="cancelled"):
    """A `Cancelled`."""


class InternalJson(ErrorJson, tag="internal"):
    """An `InternalError`, or a cause that is not an agent's error."""

    message: str
    exception: str | None = None


AnyErrorJson = (
    ProviderJson
    | ToolJson
    | ContextOverflowJson
    | UsageLimitJson
    | ConfigJson
    | CancelledJson
    | InternalJson
)
