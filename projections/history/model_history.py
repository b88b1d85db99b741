"""The result: the turns to show the model, the repairs made for them, and the request of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import is_

from eventstore.domain.json_types import JsonObject
from eventstore.providers import (
    AnyProvider,
    Change,
    LastRequest,
    Reasoning,
    Rendered,
    Turn,
    render,
)
from projections.formatting import NotebookText, plural
from projections.history.collapse import CollapsedCalls
from projections.history.compaction import Compactions, last_version
from projections.history.entries import Entries, Repair
from projections.history.explanation import explanation
from projections.history.options import HistoryOptions
from projections.history.shown_turns import ShownTurns, copied
from projections.history.trace import Trace
from projections.history.window import CountedTurns, Cut, apply_window

_DEFAULTS = HistoryOptions()


class ModelHistory(NotebookText):
    """The turns to show the model, and the repairs that were made for them."""

    def __init__(
        self,
        turns: list[Turn],
        repairs: list[Repair],
        trace: Trace,
        options: HistoryOptions = _DEFAULTS,
        last: LastRequest | None = None,
    ) -> None:
        self._turns = turns
        self._last = last
        self._trace = trace
        self._options = options
        self.repairs = repairs

    @property
    def turns(self) -> list[Turn]:
        """The neutral turns, in order: copies, which may be changed."""
        return [copied(turn) for turn in self._turns if not turn.hidden]

    def render(
        self,
        provider: AnyProvider,
        *,
        model: str | None = None,
        cache: bool = False,
        reasoning: Reasoning | None = None,
    ) -> JsonObject:
        """Return the keyword arguments of the provider's SDK call, ready for `**`.

        They are JSON values: `{"messages": [...]}` for OpenAI, `{"system": "...", "messages":
        [...]}` for Anthropic, `{"system_instruction": ..., "contents": [...]}` for Gemini.

        What is known of `model`, or of the server in its name (`groq/…`, `us.anthropic.…`), is kept
        to: which rules it enforces or does without. An unknown name changes nothing.

        `model` and `reasoning`, where they are not given, are those of `model_history`.

        With `cache`, Anthropic and Bedrock are told to cache the system text and the messages: the
        next request reads them from there. These marks stand in place of those that the messages
        carried. `Toolbox.schemas(provider, cache=True)` marks the tools. Other providers cache
        without a mark.

        Raises:
            ValueError: the provider is unknown.
        """
        return self._rendered(provider, model, cache=cache, reasoning=reasoning).arguments

    def _rendered(
        self,
        provider: AnyProvider,
        model: str | None,
        *,
        cache: bool = False,
        reasoning: Reasoning | None = None,
    ) -> Rendered:
        options = self._options
        return render(
            self._turns,
            provider,
            model=model or options.model,
            prefill=options.prefill,
            cache=cache,
            later_system=options.later_system,
            reasoning=reasoning or options.reasoning,
            server_kept=options.server_kept,
            last=self._last,
        )

    def repairs_for(self, provider: AnyProvider, *, model: str | None = None) -> list[Repair]:
        """Return `repairs`, and the changes that this provider's form asks for.

        Raises:
            ValueError: the provider is unknown.
        """
        return self.rendered(provider, model=model)[1]

    def rendered(
        self, provider: AnyProvider, *, model: str | None = None
    ) -> tuple[JsonObject, list[Repair]]:
        """Return what `render` and `repairs_for` return, made once.

        Raises:
            ValueError: the provider is unknown.
        """
        rendered = self._rendered(provider, model)
        return rendered.arguments, [*self.repairs, *_repairs_of(rendered.changes)]

    def only_adds_to(self, before: ModelHistory) -> bool:
        """Return whether it has the turns of `before`, and then others."""
        old, new = before._turns, self._turns
        return len(old) <= len(new) and all(map(is_, old, new))

    def place_of_last(self, count: int) -> int:
        """Return the place of the first of so many turns that are shown last."""
        for place in range(len(self._turns) - 1, -1, -1):
            count -= not self._turns[place].hidden
            if not count:
                return place
        return 0

    def since_place(self, place: int) -> ModelHistory:
        """Return a history of the turns from a place on."""
        return ModelHistory(self._turns[place:], self.repairs, self._trace, self._options)

    def __str__(self) -> str:
        return self.explain()

    def explain(self, provider: AnyProvider | None = None, *, model: str | None = None) -> str:
        """Return the turns, their calls and answers, and the reason of each change, as text.

        It also shows what the gates said of each offer, and the hooks of each call.

        With a `provider`, this includes the changes that its form asks for.

        Raises:
            ValueError: the provider is unknown.
        """
        repairs = self.repairs if provider is None else self.repairs_for(provider, model=model)
        return explanation(self._turns, repairs, self._trace)


def _repairs_of(changes: Iterable[Change]) -> list[Repair]:
    """Return a renderer's changes as repairs."""
    return [
        Repair(
            what=change.what,
            rule=change.rule,
            why=change.why,
            call_id=change.call_id,
            versions=() if change.version is None else (change.version,),
        )
        for change in changes
    ]


class KeptView:
    """What views of one growing history hand on: turns as shown, as counted, and as sent."""

    def __init__(self) -> None:
        self.collapsed = CollapsedCalls()
        self.shown = ShownTurns()
        self.request = LastRequest()
        self.counted = CountedTurns()


def history_to_show(
    entries: Entries,
    repairs: Sequence[Repair],
    options: HistoryOptions,
    trace: Trace,
    kept: KeptView | None,
    compactions: Compactions,
) -> ModelHistory:
    """Return what the model sees of `entries`, which took `repairs` to collect.

    `kept` is what views of them hand on, None for a view that no other follows.

    Raises:
        NonResolvedToolError: a call is open and `open_calls` is "raise".
    """
    made = list(repairs)
    begun = kept or KeptView()
    hidden = compactions.hidden(entries, options.pinned)
    notes = begun.collapsed.of(entries, options.collapse, made, hidden)
    turns, of_turns = begun.shown.of(entries, options, notes)
    made += chain.from_iterable(of_turns)
    last_versions: Sequence[int] = ()
    if compactions:
        made += compactions.repairs(entries, hidden)
        shown = [*compactions.shown(turns, entries, hidden)]
        turns, last_versions = [turn for turn, _ in shown], [last for _, last in shown]
    elif options.has_window:
        last_versions = [last_version(entry) for entry in entries]
    if options.has_window:
        cuts = apply_window(turns, last_versions, options, begun.counted)
        made += [_cut_off(cut, options.summary) for cut in cuts]
    return ModelHistory(turns, made, trace, options, None if kept is None else kept.request)


def _cut_off(cut: Cut, summary: str | None) -> Repair:
    versions = cut.versions
    turns = f"{plural(len(versions), 'older turn')} outside of {cut.window}"
    if summary is None:
        return Repair("dropped", "window", turns, None, versions)
    return Repair("collapsed", "window", f"a summary stands for {turns}", None, versions)
