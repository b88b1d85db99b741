"""Which failures end the run? A pure decision on the kind of a failure that has settled."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import force_setattr

from eventstore.failure import ErrorKind, ErrorKindSet, Failure
from eventstore.tool import Tool


class ToolErrorTerminal(Exception):
    """A tool failed in a way that ends the run: the caller hears of it, the model does not."""

    def __init__(self, failure: Failure, tool: Tool) -> None:
        super().__init__(
            f"call {tool.id!r} of tool {tool.call.name!r} failed for good "
            f"({failure.kind}): {failure.message}"
        )
        self.failure = failure
        self.tool = tool

    @property
    def error_kind(self) -> ErrorKind:
        """The kind of the failure that it carries."""
        return self.failure.kind

    def __reduce__(self) -> tuple[type[ToolErrorTerminal], tuple[Failure, Tool]]:
        return type(self), (self.failure, self.tool)


class ToolErrorPolicy(msgspec.Struct, frozen=True, gc=False):
    """The error kinds that end a run once a tool has failed with one, retries included.

    All others go back to the model, which may choose another way.
    """

    terminate_on: ErrorKindSet = ErrorKindSet()

    def __post_init__(self) -> None:
        """Take a kind, or any collection of kinds, as a set."""
        given: Any = self.terminate_on
        if not isinstance(given, ErrorKindSet):
            force_setattr(self, "terminate_on", ErrorKindSet(given))

    @classmethod
    def new(cls) -> ToolErrorPolicy:
        """The policy that ends no run."""
        return cls()

    @classmethod
    def operator_safe(cls) -> ToolErrorPolicy:
        """The policy that ends a run where only an operator can help: auth, quota, permanent.

        Internal is not among them: it is what errors are before anybody has classified them.
        """
        return cls(ErrorKindSet.of(ErrorKind.AUTH, ErrorKind.QUOTA, ErrorKind.PERMANENT))

    def add_terminal_kind(self, kind: ErrorKind) -> ToolErrorPolicy:
        """A new policy that ends runs on `kind`, too."""
        return ToolErrorPolicy(self.terminate_on.with_(kind))

    def classifies_terminal(self, kind: ErrorKind) -> bool:
        """Whether a failure of `kind` ends the run."""
        return kind in self.terminate_on
