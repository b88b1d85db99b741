"""Rendering of turns into a provider's request.

A turn that came from the same provider goes back as it was. Content of
another provider is made neutral first; what the target cannot hold is listed as a change.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

import msgspec

from eventstore.providers.crossing import Reasoning
from eventstore.providers.foreign_summary import since_summary
from eventstore.providers.kept_messages import KeptMessages
from eventstore.providers.model import Change, Rendered, Turn
from eventstore.providers.preparation import (
    LaterSystem,
    PreparedTurn,
    Target,
    prepared,
)
from eventstore.providers.registry import adapter_of, model_rules
from eventstore.providers.server_kept_data import ServerKept
from eventstore.providers.server_mends import mend_for_server


class LastRequest:
    """What was made of each turn for the last request, and the messages that it began with.

    The next request takes it up where its turns are the same objects. Threads may share it: each
    takes up what one of them has left.
    """

    def __init__(self) -> None:
        self._made = _Made(None, [], KeptMessages())  # replaced as one

    def continued(
        self, turns: Sequence[Turn], target: Target
    ) -> tuple[list[PreparedTurn], KeptMessages]:
        """Return each of `turns` prepared for `target`, and the messages kept for it."""
        last = self._made
        if last.target != target:
            last = _Made(target, [], KeptMessages())
        before = [each.turn for each in last.prepared]
        same = list(map(is_, before, turns))  # most requests begin as the last one did
        begun = same.index(False) if False in same else len(same)
        known = {id(each.turn): each for each in last.prepared[begun:]}
        made = last.prepared[:begun]
        made += [known.get(id(turn)) or prepared(turn, target) for turn in turns[begun:]]
        self._made = _Made(target, made, last.messages)
        return made, last.messages


class _Made(msgspec.Struct, frozen=True):
    target: Target | None
    prepared: list[PreparedTurn]
    messages: KeptMessages


def render(  # noqa: PLR0913 - each with a default
    turns: Sequence[Turn],
    provider: str,
    *,
    model: str | None = None,
    prefill: bool = False,
    cache: bool = False,
    later_system: LaterSystem = "keep",
    reasoning: Reasoning = "drop",
    server_kept: ServerKept = "keep",
    last: LastRequest | None = None,
) -> Rendered:
    """Return the keyword arguments of the provider's SDK call for `turns`, which stay as they are.

    What is known of `model` is kept to. With `prefill` they may end with the assistant's words,
    from which the model continues, unless it is known to refuse that. With `cache` they are marked
    where the provider is to cache them. With `later_system="user"` the user says what a system
    message inside says. Another provider's reasoning is left out, or with `reasoning="note"` told
    in a note; so is with `server_kept="note"` what the provider's own server keeps. `last` keeps
    what was made of each turn for the next request.

    Raises:
        ValueError: the provider is unknown.
    """
    known = model_rules(provider, model)
    adapter = adapter_of(known.provider)
    before: list[Change] = []
    turns = since_summary(turns, known.provider, before)
    target = Target(known.provider, known.takes_later_system, later_system, reasoning, server_kept)
    if last is None:
        turns_made = [prepared(turn, target) for turn in turns]
        messages = KeptMessages(is_last=True)
    else:
        turns_made, messages = last.continued(turns, target)
    kept = _without_merged(turns_made, known.provider)
    rendered = adapter.render_next([turn for each in kept for turn in each.shown], messages)
    adapter.finish_request(rendered, prefill=prefill and known.takes_prefill)
    mend_for_server(rendered, adapter.list_key, known.refuses)
    if cache:
        adapter.mark_for_cache(rendered)
    changes = rendered.changes
    changes[:0] = before
    changed = [each for each in turns_made if not each.goes_as_it_was]
    for each in kept:
        changes += each.of_turn
    for each in changed:
        changes += each.of_answers
    for each in changed:
        changes += each.left_out_of_turn
    for each in changed:
        changes += each.left_out_of_answers
    return rendered


def _without_merged(turns: Sequence[PreparedTurn], provider: str) -> Sequence[PreparedTurn]:
    """Return the turns without those that the message with the results before them holds."""
    messages = [
        each.turn.results_message
        for each in turns
        if each.turn.results_message is not None and not each.turn.hidden
    ]
    merged = {id(each.native) for each in messages if each.provider == provider}
    merged.discard(id(None))
    if not merged:
        return turns
    return [
        each for each in turns if not (each.said.shares_message and id(each.said.native) in merged)
    ]
