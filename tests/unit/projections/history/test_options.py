"""The options of a model history are the same wherever a user can pass them."""

from __future__ import annotations

from inspect import signature

from msgspec.structs import fields

from projections import History, model_history
from projections.history.options import HistoryKeywords, HistoryOptions


def test_every_signature_has_the_options_with_their_defaults() -> None:
    """`model_history`, `History.view` and the keywords of a replay's frame agree."""
    options = {field.name: field.default for field in fields(HistoryOptions)}
    for function in (model_history, History.view):
        parameters = signature(function).parameters.values()
        keywords = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        keywords.pop("cached", None)  # of `model_history`: says how it reads, not what it shows
        assert keywords == options
    assert HistoryKeywords.__optional_keys__ == options.keys()
