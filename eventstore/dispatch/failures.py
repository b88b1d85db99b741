"""`FailureRules`: the failure to record for an attempt, and the text that the model reads of it.

1. The tool's own answer stands: a `Failure` that it returned, a `ModelRetry` or `NotApplicable`
   that it raised, or what its `classify` says.
2. The model's text follows the policy: `"raw"` is the failure's own text, `"kind"` a sentence for
   its kind, which holds nothing that an exception said, and a function returns the text itself. A
   text that was written for the model (`model_message`) is kept, except by a function.
3. An attempt that may have taken effect is in doubt (`in_doubt`), and `Failure.model_text` tells
   the model so, whatever the policy says. A timeout, a cancel and an interruption have codes.
4. `redact` sees the failure last, before it is stored. Nothing is stored that it did not return.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec.structs import replace

from eventstore.domain.doubt import says_of_effect, unknown_outcome
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.tool_effect import ToolEffect

if TYPE_CHECKING:
    from eventstore.dispatch.effects import RunResult
    from eventstore.dispatch.function_tool import AnyFunctionTool, Classify
    from eventstore.dispatch.host_errors import Raised

ModelText: TypeAlias = Literal["raw", "kind"] | Callable[[Failure], str]
"""What the model reads of a failure."""

Redact: TypeAlias = Callable[[Failure], Failure]
"""Returns the failure to store."""

TEXTS_BY_KIND = {
    ErrorKind.TRANSIENT: "The tool failed: a temporary problem. It may work later.",
    ErrorKind.RATE_LIMIT: "The tool failed: too many requests. Wait before the next call.",
    ErrorKind.QUOTA: "The tool failed: a budget is used up. Do not call it again.",
    ErrorKind.AUTH: "The tool failed: access was refused. Do not call it again.",
    ErrorKind.PERMANENT: "The tool failed: the same call will fail again. Change it.",
    ErrorKind.VALIDATION: "The tool failed: it does not accept this input. Correct it.",
    ErrorKind.INTERNAL: "The tool failed: an internal error.",
}
"""What the model reads of a failure under the policy `"kind"`."""


_REFUSALS = frozenset(ErrorKind) - {ErrorKind.TRANSIENT, ErrorKind.INTERNAL}
_REFUSING_STATUSES = range(400, 500)
_REQUEST_TIMEOUT = 408


class FailureRules:
    """Makes the failures that a dispatcher records; `clock` gives microseconds since 1970 UTC."""

    def __init__(
        self,
        model_text: ModelText,
        redact: Redact | None,
        clock: Callable[[], int],
        *,
        tracebacks: bool,
    ) -> None:
        self._model_text = model_text
        self._redact = redact
        self._clock = clock
        self._tracebacks = tracebacks

    def of_attempt(
        self, definition: AnyFunctionTool, ran: RunResult, raised: Raised | None = None
    ) -> Failure:
        """Return the failure of an attempt; `raised` takes what the host's functions raised."""
        if type(ran.result) is Failure:
            return self.stored(ran.result)  # returned by the tool in place of raising
        error = ran.error
        if error is None:
            raise TypeError("a result that is not a Failure is not a failed attempt")
        failure = Failure.from_exception(error, with_traceback=self._tracebacks, now=self._clock())
        default = failure
        if definition.classify is not None and not failure.answers_model:
            try:
                failure = _classified(definition.classify, error, failure)
            except Exception as unsorted:  # noqa: BLE001 - the failure is recorded all the same
                if raised is not None:
                    raised.append(("classifier", definition.name, unsorted))
        in_doubt = _in_doubt(definition, error, failure, default)
        code = unknown_outcome(error) if default.in_doubt else None
        return self.stored(replace(failure, in_doubt=in_doubt, code=code or failure.code))

    def stored(self, failure: Failure) -> Failure:
        """Return the failure to store."""
        text = self._text(failure)
        if text != failure.model_message:
            failure = replace(failure, model_message=text)
        return failure if self._redact is None else _redacted(self._redact, failure)

    def _text(self, failure: Failure) -> str | None:
        policy = self._model_text
        if callable(policy):
            return _text_of(policy, failure)
        if policy == "raw" or failure.model_message is not None:
            return failure.model_message
        return TEXTS_BY_KIND[failure.kind]


def _in_doubt(
    definition: AnyFunctionTool, error: BaseException, failure: Failure, default: Failure
) -> bool | None:
    """Return what is stored of the doubt that an exception leaves; see `FunctionTool`.

    `default` is the failure without the tool's own `classify`.
    """
    if isinstance(error, definition.sure):
        return False
    if failure.in_doubt not in (None, default.in_doubt):
        return failure.in_doubt  # a failure that `classify` made says so itself
    word = says_of_effect(error)
    if word:
        return None if definition.effect is ToolEffect.READ_ONLY else True
    if definition.idempotent or word is False:
        return None
    mutates = definition.effect in (ToolEffect.MUTATING, ToolEffect.DESTRUCTIVE)
    return True if mutates and not _was_refused(failure, default) else None


def _was_refused(failure: Failure, default: Failure) -> bool:
    """Return whether the other side, or the tool itself, said that it did not do what was asked."""
    if failure.answers_model:
        return True
    if failure.http_status in _REFUSING_STATUSES and failure.http_status != _REQUEST_TIMEOUT:
        return True
    return failure is not default and failure.kind in _REFUSALS


def _text_of(policy: Callable[[Failure], str], failure: Failure) -> str:
    """Return the text of a function; the sentence for the kind if it raises or returns no text."""
    try:
        text: object = policy(failure)
    except Exception:  # noqa: BLE001 - the failure is recorded, whatever the policy raises
        text = None
    return text if isinstance(text, str) else TEXTS_BY_KIND[failure.kind]


def _classified(classify: Classify, error: BaseException, default: Failure) -> Failure:
    """Return the failure as the tool's own `classify` sees it."""
    found = classify(error)
    if isinstance(found, Failure):
        return found
    return replace(default, kind=ErrorKind(found))


def _redacted(redact: Redact, failure: Failure) -> Failure:
    """Return the failure as `redact` returns it; without any text of its own if that raises."""
    try:
        stored: object = redact(failure)
        end = f"returned {type(stored).__name__}"
    except Exception as error:  # noqa: BLE001 - the failure is recorded, but nothing unredacted
        stored, end = None, f"raised {type(error).__name__}"
    if not isinstance(stored, Failure):
        text = TEXTS_BY_KIND[failure.kind]
        stored = Failure(failure.kind, f"the failure is not shown: its redaction {end}", text)
    # A resume, and the dispatcher itself, rely on these.
    keeps_code = failure.leaves_doubt or failure.answers_model
    code = failure.code if keeps_code else stored.code
    return replace(stored, code=code, in_doubt=failure.in_doubt)
