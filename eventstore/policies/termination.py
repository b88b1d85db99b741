"""Termination policy: which failures end the run, decided from their final kind. Pure."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import force_setattr

from eventstore.domain.failure import ErrorKind, ErrorKindSet, Failure, classify
from eventstore.domain.tool import Tool
from eventstore.errors import restore_exception

TERMINATED = "terminated"
"""The code of a failure that ended a run."""


class ToolErrorTerminal(Exception):
    """A tool failed in a way that ends the run: the caller gets the error, the model does not.

    Its `__cause__` is the exception that the tool raised, if it raised one. Called
    `Error::ToolErrorTerminal` in entelix-core.
    """

    code = TERMINATED

    def __init__(self, failure: Failure, tool: Tool) -> None:
        super().__init__(
            f"call {tool.id!r} of tool {tool.call.name!r} failed for good "
            f"({failure.kind}): {failure.message}"
        )
        self.failure = failure
        self.tool = tool

    @property
    def error_kind(self) -> ErrorKind:
        """Kind of the failure that it carries."""
        return self.failure.kind

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_exception, (type(self), self.args, self.__dict__)


class FatalToolError(Exception):
    """A tool ends the run: its failure is recorded, and the caller gets `ToolErrorTerminal`.

    The failure is of the kind of the `__cause__` (`raise FatalToolError(...) from error`), and
    internal without one. It is never run again. Called `ToolError::Fatal` in clark-agent, whose
    `ToolError::Aborted` is a cancellation here.
    """

    code = TERMINATED

    @property
    def error_kind(self) -> ErrorKind:
        """Kind of the failure that is recorded."""
        return ErrorKind.INTERNAL if self.__cause__ is None else classify(self.__cause__)


class ToolErrorPolicy(msgspec.Struct, frozen=True, gc=False):
    """The error kinds that end a run when a tool has failed with one after all its retries.

    Failures of all other kinds go back to the model, which may choose another way. A dispatcher
    never ends a run by the kind of a failure with which the tool answers the model (`ModelRetry`,
    `NotApplicable`). Called `ToolErrorPolicy` in entelix-core, too, and its driver
    `ToolErrorPolicyLayer`.
    """

    terminate_on: ErrorKindSet = ErrorKindSet()

    def __post_init__(self) -> None:
        """Accept a kind or a collection of kinds as a set."""
        kinds: Any = self.terminate_on
        if not isinstance(kinds, ErrorKindSet):
            force_setattr(self, "terminate_on", ErrorKindSet(kinds))

    @classmethod
    def new(cls) -> ToolErrorPolicy:
        """Return the policy that ends no run."""
        return cls()

    @classmethod
    def operator_safe(cls) -> ToolErrorPolicy:
        """Return the policy that ends a run if only an operator can help: auth, quota, permanent.

        Internal is not among them, because errors that are not classified are internal.
        """
        return cls(ErrorKindSet.of(ErrorKind.AUTH, ErrorKind.QUOTA, ErrorKind.PERMANENT))

    def add_terminal_kind(self, kind: ErrorKind) -> ToolErrorPolicy:
        """Return a new policy that also ends runs on `kind`."""
        return ToolErrorPolicy(self.terminate_on.with_(kind))

    def classifies_terminal(self, kind: ErrorKind) -> bool:
        """Return whether a failure of `kind` ends the run."""
        return kind in self.terminate_on
