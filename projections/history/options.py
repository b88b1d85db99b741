"""The options of `model_history`, declared and checked once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal, TypeAlias, TypedDict, cast, get_args

import msgspec

from eventstore import ResultLimits, Tool
from eventstore.providers import LaterSystem, Reasoning, ServerKept
from projections.history.bounded_results import ResultLimitsByTool
from projections.history.token_counter import TokenCounter

OpenCalls: TypeAlias = Literal["answer", "raise", "drop"]
Collapse: TypeAlias = Literal["earlier", "failed", "all", "none"]

Results: TypeAlias = Literal["whole", "shorten"]
NeedsApproval: TypeAlias = Callable[[Tool], bool]
Marks: TypeAlias = int | tuple[int, int]
"""A limit; or a lower and an upper mark, from the upper of which it is cut down to the lower."""

SHARE_OF_A_RESULT = 4
"""A shortened result takes one in so many of the tokens of a window, at most."""

_MARKS = 2
_BYTES_PER_TOKEN, _LEAST_BYTES = 4, 100  # `ResultLimits` take no less
_OPEN_CALLS: tuple[str, ...] = get_args(OpenCalls)
_RESULTS: tuple[str, ...] = get_args(Results)
_COLLAPSE: tuple[str, ...] = get_args(Collapse)
_LATER_SYSTEM: tuple[str, ...] = get_args(LaterSystem)
_REASONING: tuple[str, ...] = get_args(Reasoning)
_SERVER_KEPT: tuple[str, ...] = get_args(ServerKept)


class HistoryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to show the model; several limits hold all at once.

    - `open_calls`: a call without a result is answered with what the log knows ("answer"), left
      out ("drop"), or refused with `NonResolvedToolError` ("raise").
    - `collapse`: which repeated calls are left out; see `collapse.py`.
    - `result_limits`: how much of each result is shown, or of the results of some tools by name.
    - `results`: every result as it is ("whole"), or each cut so that it takes a quarter of
      `max_tokens` at most ("shorten"), at four bytes a token.
    - `last_turns`: the number of assistant turns to keep. With two marks, `(10, 30)`, there are 30
      at most; when there is one more, the last 10 are kept.
    - `max_tokens`: the number of tokens to keep, or two marks, counted by `count_tokens`, otherwise
      by `estimate_tokens`.
    - `since`: keep the turns to which something happened from this version on.
    - `pinned`: the versions of messages that no limit cuts off.
    - `summary`: the text in place of the turns that are cut off.
    - `prefill`: a history that stops on the assistant's words ends with them, and the model goes
      on from there; otherwise, where newer models refuse that, a user's message says that nothing
      was said since.
    - `later_system`: a system message inside of the conversation goes back to its provider as it is
      ("keep"), or as text of the user ("user"), as models before Claude Opus 4.8 want it.
    - `model`: what is known of this model or server is kept to; see `render`.
    - `server_kept`: what the provider's server keeps is named as it was ("keep"), or told in a note
      ("note"): code containers, files and items, which are gone after a time.
    - `reasoning`: what another provider's model thought is left out ("drop"), or told in a note of
      the user's ("note").
    - `needs_approval`: whether a person has to decide on a call that has not started; the model is
      told so.

    Raises:
        ValueError: an option makes no sense.
    """

    open_calls: OpenCalls = "answer"
    collapse: Collapse = "earlier"
    result_limits: ResultLimitsByTool | None = None
    results: Results = "whole"
    last_turns: Marks | None = None
    max_tokens: Marks | None = None
    count_tokens: TokenCounter | None = None
    since: int | None = None
    pinned: Collection[int] = ()
    summary: str | None = None
    prefill: bool = False
    later_system: LaterSystem = "keep"
    model: str | None = None
    reasoning: Reasoning = "drop"
    server_kept: ServerKept = "keep"
    needs_approval: NeedsApproval | None = None

    def __post_init__(self) -> None:
        _require_one_of("open_calls", self.open_calls, _OPEN_CALLS)
        _require_one_of("collapse", self.collapse, _COLLAPSE)
        _require_one_of("later_system", self.later_system, _LATER_SYSTEM)
        _require_one_of("reasoning", self.reasoning, _REASONING)
        _require_one_of("server_kept", self.server_kept, _SERVER_KEPT)
        if self.result_limits is not None:
            _require_limits(self.result_limits)
        _require_one_of("results", self.results, _RESULTS)
        _require_shortening(self.results, self.result_limits, self.max_tokens)
        _require_marks("last_turns", self.last_turns)
        _require_positive("since", self.since, "a version (1 or more)")
        _require_marks("max_tokens", self.max_tokens)
        _require_counter(self.count_tokens, self.max_tokens)
        _require_function("needs_approval", self.needs_approval)
        if self.pinned != ():
            _require_versions("pinned", self.pinned)
        _require_text("summary", self.summary)
        _require_text("model", self.model)

    @property
    def limits(self) -> ResultLimitsByTool | None:
        """How much of each result is shown; of a shortened one, whatever else is in the window."""
        if self.results == "whole" or self.max_tokens is None:
            return self.result_limits
        tokens, _ = marks_of(self.max_tokens)
        most = max(_LEAST_BYTES, tokens * _BYTES_PER_TOKEN // SHARE_OF_A_RESULT)
        return ResultLimits(characters=None, items=None, bytes=most)

    @property
    def has_window(self) -> bool:
        """Whether there is a limit beyond which older turns are cut off."""
        return (self.last_turns, self.max_tokens, self.since) != (None, None, None)


def marks_of(limit: Marks) -> tuple[int, int]:
    """Return the lower and the upper mark of a limit."""
    return limit if isinstance(limit, tuple) else (limit, limit)


class HistoryKeywords(TypedDict, total=False):
    """The fields of `HistoryOptions` as keyword arguments."""

    open_calls: OpenCalls
    collapse: Collapse
    result_limits: ResultLimitsByTool | None
    results: Results
    last_turns: Marks | None
    max_tokens: Marks | None
    count_tokens: TokenCounter | None
    since: int | None
    pinned: Collection[int]
    summary: str | None
    prefill: bool
    later_system: LaterSystem
    model: str | None
    reasoning: Reasoning
    server_kept: ServerKept
    needs_approval: NeedsApproval | None


def _require_one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} is {value!r}: pass one of {', '.join(known)}")


def _require_limits(limits: object) -> None:
    known: Iterable[object] = (limits,)
    if isinstance(limits, Mapping):
        known = cast("Mapping[str, object]", limits).values()
    if not all(isinstance(each, ResultLimits) for each in known):
        raise ValueError(
            f"result_limits is {limits!r}: pass ResultLimits(), or them by the names of tools"
        )


def _require_shortening(results: Results, limits: object, max_tokens: object) -> None:
    if results == "shorten" and max_tokens is None:
        raise ValueError('results="shorten" has no effect without max_tokens: pass both')
    if results == "shorten" and limits is not None:
        raise ValueError('results="shorten" and result_limits say two things: pass one of them')


def _require_positive(name: str, value: object, wanted: str) -> None:
    if value is not None and (type(value) is not int or value < 1):
        raise ValueError(f"{name} is {value!r}: pass {wanted}, or None for all")


def _require_marks(name: str, limit: object) -> None:
    if limit is None or (type(limit) is int and limit >= 1):
        return
    marks: tuple[object, ...] = cast("tuple[object, ...]", limit) if type(limit) is tuple else ()
    are_numbers = len(marks) == _MARKS and all(type(mark) is int for mark in marks)
    if not are_numbers or not 1 <= cast("int", marks[0]) <= cast("int", marks[1]):
        raise ValueError(
            f"{name} is {limit!r}: pass 1 or more, a lower and an upper mark such as (10, 30), "
            "or None for all"
        )


def _require_versions(name: str, versions: object) -> None:
    is_given = isinstance(versions, Collection) and not isinstance(versions, str | bytes)
    known: Iterable[object] = cast("Collection[object]", versions) if is_given else ()
    if not is_given or not all(type(each) is int and each >= 1 for each in known):
        raise ValueError(f"{name} is {versions!r}: pass the versions of messages, such as [1]")


def _require_counter(count_tokens: object, max_tokens: object) -> None:
    if count_tokens is not None and not callable(count_tokens):
        raise ValueError(f"count_tokens is {count_tokens!r}: pass a function from text to a number")
    if count_tokens is not None and max_tokens is None:
        raise ValueError("count_tokens has no effect without max_tokens: pass both")


def _require_function(name: str, function: object) -> None:
    if function is not None and not callable(function):
        raise ValueError(f"{name} is {function!r}: pass a function of a call, or None")


def _require_text(name: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}: pass text, or None")
    if value is not None and not value.strip():
        raise ValueError(f"{name} is blank: pass what it should say, or None")
