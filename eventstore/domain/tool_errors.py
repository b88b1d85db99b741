"""Errors that a tool raises to answer the model: a hint, or that it does not apply."""

from __future__ import annotations

from typing import Any

from eventstore.domain.failure import MODEL_RETRY, NOT_APPLICABLE, ErrorKind
from eventstore.errors import restore_exception


class ModelRetry(Exception):
    """A tool asks the model to call it again with other arguments, as the `hint` says.

    One failure of kind validation is recorded. Nothing runs it again by itself. It does not end the
    run, unless the tool has given more hints in a row than its `max_model_retries`. Called
    `Error::ModelRetry` in entelix-core. The `ModelRetry` of pydantic-ai is recorded alike.
    """

    code = MODEL_RETRY
    error_kind = ErrorKind.VALIDATION

    def __init__(self, hint: str) -> None:
        super().__init__(f"model retry requested: {hint}")
        self.hint = hint

    @property
    def model_message(self) -> str:
        """Text for the model: the hint, as it is."""
        return self.hint

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_exception, (type(self), self.args, self.__dict__)


class NotApplicable(Exception):
    """A tool says that it cannot help with this call: a soft failure, and no defect.

    The model reads the `reason` and may choose another tool. The call is not run again, it does not
    end the run or stop its siblings, and statistics count it as `not_applicable`. Called
    `KernelError::ToolNotApplicable` in rig-compose.
    """

    code = NOT_APPLICABLE
    error_kind = ErrorKind.VALIDATION

    def __init__(self, reason: str) -> None:
        super().__init__(f"tool not applicable: {reason}")
        self.reason = reason

    @property
    def model_message(self) -> str:
        """Text for the model: the reason, as it is."""
        return self.reason

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_exception, (type(self), self.args, self.__dict__)
