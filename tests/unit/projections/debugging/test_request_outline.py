"""A provider's request as people read it on the command line."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore import EventStore
from eventstore.providers import PROVIDERS
from projections import model_history
from projections.debugging.request_outline import request_lines


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_every_provider_s_request_reads_the_same(provider: str) -> None:
    """Roles, calls and results are shown as lines; only arguments and results are JSON."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.add_message("system", "Be brief.")
        chat.add_message("user", "Where is it?")
        for number in (1, 2):
            call = chat.request("find", {"n": number})
            chat.start(call.id)
            if number == 1:
                chat.complete(call.id, "in Oslo")
            else:
                chat.fail(call.id, TimeoutError("too slow"))
        lines = list(request_lines(model_history(chat.events()).render(provider)))
    assert lines[:4] == ["── system", "    Be brief.", "── user", "    Where is it?"]
    assert [line[:16] for line in lines if "►" in line] == ['    ► find({"n":', '    ► find({"n":']
    first, second = (line for line in lines if "◄" in line)
    assert "in Oslo" in first
    assert "too slow" in second
    assert not [line for line in lines if "tool_use" in line or "toolUse" in line]


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"input": "hello"}, ["── user", "    hello"]),
        (
            {"input": [{"type": "reasoning", "id": "rs_1"}]},
            ["── reasoning", '    {"type":"reasoning","id":"rs_1"}'],
        ),
        (
            {"system": [{"text": "Be"}, {"text": "brief"}], "messages": []},
            ["── system", "    Be", "    brief"],
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "url": "u"}, "text"]}]},
            ["── user", '    {"type":"image","url":"u"}', "    text"],
        ),
        ({"messages": [{"role": "assistant", "content": None}]}, ["── assistant"]),
        (
            {"messages": [{"role": "tool", "tool_call_id": "c", "content": None}], "model": "m"},
            ["── tool", "    ◄ c: ", "── model", '    "m"'],
        ),
        (
            {"contents": [{"role": "user", "parts": [{"inlineData": {"data": "aGk="}}]}]},
            ["── user", '    {"inlineData":{"data":"aGk="}}'],
        ),
        (
            {"messages": [{"role": "user", "content": {"odd": 1}}, "said"]},
            ["── user", '    {"odd":1}', "── user", "    said"],
        ),
        (
            {"messages": [{"role": "user", "content": ""}, {"role": "user", "content": "a\n\nb"}]},
            ["── user", "── user", "    a", "    ", "    b"],
        ),
    ],
)
def test_every_kind_of_request_is_shown_as_lines(
    arguments: dict[str, Any], lines: list[str]
) -> None:
    """Content without a form of its own is shown as JSON."""
    assert list(request_lines(arguments)) == lines
