"""The result: the turns to show the model, the repairs made for them, and the request of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
from projections.history.collapse import collapsed_calls
from projections.history.entries import Entry, Repair
from projections.history.explanation import explanation
from projections.history.options import HistoryOptions
from projections.history.shown_turns import ShownTurns, copied
from projections.history.trace import Trace
from projections.history.window import Cut, apply_window

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
    """What views of one growing history hand on: turns as they are shown, and as they are sent."""

    def __init__(self) -> None:
        self.shown = ShownTurns()
        self.request = LastRequest()


def history_to_show(
    entries: Sequence[Entry],
    repairs: Sequence[Repair],
    options: HistoryOptions,
    trace: Trace,
    kept: KeptView | None,
) -> ModelHistory:
    """Return what the model sees of `entries`, which took `repairs` to collect.

    `kept` is what views of them hand on, None for a view that no other follows.

    Raises:
        NonResolvedToolError: a call is open and `open_calls` is "raise".
    """
    made = list(repairs)
    notes = collapsed_calls(entries, options.collapse, made)
    shown = (ShownTurns() if kept is None else kept.shown).of(entries, options, notes)
    turns = [each.turn for each in shown]
    made += [repair for each in shown for repair in each.repairs]
    if options.has_window:
        cuts = apply_window(turns, [_last_version(entry) for entry in entries], options)
        made += [_cut_off(entries, cut, options.summary) for cut in cuts]
    return ModelHistory(turns, made, trace, options, None if kept is None else kept.request)


def _last_version(entry: Entry) -> int:
    """Return the version of the last event that concerns an entry."""
    return max((entry.version, *(call.versions[-1] for call in entry.calls)))


def _cut_off(entries: Sequence[Entry], cut: Cut, summary: str | None) -> Repair:
    versions = tuple(entries[place].version for place in cut.turns)
    turns = f"{plural(len(cut.turns), 'older turn')} outside of {cut.window}"
    if summary is None:
        return Repair("dropped", "window", turns, None, versions)
    return Repair("collapsed", "window", f"a summary stands for {turns}", None, versions)
