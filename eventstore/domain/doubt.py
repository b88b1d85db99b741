"""Doubt: whether an attempt that an exception ended may have taken effect. Pure.

1. The exception's own word stands: an attribute `in_doubt` that is True or False.
2. A cancel, Ctrl-C and an exit leave a doubt, and so does each sign of one (`doubtful_errors`) in
   the exception or in what it came from: its `__cause__`, its `__context__` and the exceptions that
   it holds, as `URLError.reason` does. In a group, one doubt is enough.
3. The effect was surely still to come where the exception says so, or its `__cause__`. Errors of
   the system from which a library made such an exception are not doubts. What the host's own code
   handled meanwhile may be the error of an earlier try.
4. Every other exception says nothing (`says_of_effect` returns None). Whether that leaves a doubt
   is for the effect of the tool to say; see `FunctionTool`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from eventstore.domain.doubtful_errors import Sign, is_of_system, sign_of, was_handled_in
from eventstore.domain.foreign_errors import or_none, package_of
from eventstore.domain.value_paths import dig

if TYPE_CHECKING:
    from collections.abc import Iterable

MAY_HAVE_TAKEN_EFFECT = "This call may have taken effect: check before running it again."
"""What the model reads of every call in doubt."""

ENDED_FROM_OUTSIDE = frozenset({"cancelled", "interrupted"})
"""The codes of attempts that were cut short. What such an error says are words of the runtime."""

CODES_OF_DOUBT = ENDED_FROM_OUTSIDE | {"timeout"}
"""The codes of failures that leave a doubt, also where the failure does not say so itself."""

_WORDS_OF_ENDS = {
    "cancelled": "The call was cancelled while it ran",
    "interrupted": "The call was interrupted while it ran",
    "timeout": "The call timed out",
}

_HELD = ("reason", "orig")  # where exceptions keep the one that they were made of
Packages: TypeAlias = frozenset[str]
NO_PACKAGES: Packages = frozenset()

_MOST_SEEN = 64  # what came from more exceptions is in doubt


def text_of_doubt(said: str | None, code: str | None) -> str:
    """Return what the model reads of a call in doubt.

    `said` is what the tool or its error said. Without it the model reads how the call ended.
    """
    said = said or _WORDS_OF_ENDS.get(code or "", "The call failed")
    if MAY_HAVE_TAKEN_EFFECT in said:
        return said
    return f"{said.removesuffix('.')}. {MAY_HAVE_TAKEN_EFFECT}"


def unknown_outcome(error: BaseException) -> str | None:
    """Return the failure code of an error that ended the attempt from outside, otherwise None."""
    return unknown_outcome_of(type(error))


def unknown_outcome_of(cls: type[BaseException]) -> str | None:
    """Return the failure code of the errors of a class that end an attempt from outside, or None.

    The outcome of such an attempt is unknown.
    """
    if issubclass(cls, TimeoutError):
        return "timeout"
    if issubclass(cls, KeyboardInterrupt | SystemExit | GeneratorExit):
        return "interrupted"
    # compared by name, so that asyncio is not loaded for this
    return "cancelled" if cls.__name__ == "CancelledError" else None


def says_of_effect(error: BaseException) -> bool | None:
    """Return whether an exception leaves the effect in doubt: True, False, or None for no word.

    False means that the effect was surely still to come.
    """
    return or_none(_Chain().word, error)


class _Chain:
    """One walk over an exception and what it came from; each is seen once."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def word(self, error: BaseException, explained_by: Packages = NO_PACKAGES) -> bool | None:
        """Return the word of an exception.

        `explained_by`: the libraries that made one of it that says more.
        """
        if id(error) in self._seen:
            return None
        if len(self._seen) >= _MOST_SEEN:
            return True
        self._seen.add(id(error))
        own = dig(error, "in_doubt")
        if isinstance(own, bool):
            return own
        word = self._of_one(error, explained_by)
        if word is not True and isinstance(error, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", error)
            return _of_all([self.word(each) for each in group.exceptions])
        return word

    def _of_one(self, error: BaseException, explained_by: Packages) -> bool | None:
        """Return the word of an exception and of what it came from, without that of a group."""
        if unknown_outcome(error) in ENDED_FROM_OUTSIDE and not explained_by:
            return True
        sign = sign_of(error)
        if not is_of_system(error):
            explained_by = NO_PACKAGES
        if sign is Sign.DOUBT and not explained_by:
            return True
        if sign is Sign.BEFORE:
            explained_by |= {package_of(type(error))}
        causes = [self.word(each, explained_by) for each in _causes_of(error)]
        context = error.__context__
        if context is not None:
            is_own = was_handled_in(context, explained_by)
            behind = self.word(context, explained_by if is_own else NO_PACKAGES)
            if behind is True or sign is not None:
                causes.append(behind)
        return _judged(sign, causes)


def _causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions that an exception was made of."""
    held: list[Any] = [error.__cause__, *error.args, *(dig(error, name) for name in _HELD)]
    return (each for each in held if isinstance(each, BaseException))


def _judged(sign: Sign | None, causes: Iterable[bool | None]) -> bool | None:
    words = set(causes)
    if True in words:
        return True
    if sign is Sign.LAST_TRY or (sign is Sign.ASK_LAST_TRY and False in words):
        return None
    if False in words or sign in (Sign.BEFORE, Sign.ASK_BEFORE):
        return False
    return True if sign in (Sign.ASK_DOUBT, Sign.ASK_LAST_TRY) else None


def _of_all(words: list[bool | None]) -> bool | None:
    """Return the word of a group: all of it must have come before the effect."""
    if True in words:
        return True
    return False if words and set(words) == {False} else None
