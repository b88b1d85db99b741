"""Tables of plain text, aligned as a terminal shows them."""

from __future__ import annotations

import re
from html import escape
from typing import Any

import pytest

from eventstore import Conversation
from projections import (
    CurrentTools,
    PendingApproval,
    ResumePlan,
    diff,
    error_statistics,
    model_history,
    repair_messages,
    repeats,
    replay,
    scan,
    usage_statistics,
    what_if,
    why,
)
from projections.formatting import aligned_lines, display_width, table, visible_text


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("plain", 5),
        ("naïve", 5),
        ("日本語", 6),
        ("한글", 4),
        ("\u1112\u1161\u11ab", 2),  # one syllable of Hangul in three letters
        ("\uff46\uff55\uff4c\uff4c", 8),
        ("e\u0301", 1),
        ("zero\u200bwidth", 9),
        ("👍", 2),
        ("👩\u200d👩\u200d👧", 2),
        ("✓ →", 3),
    ],
)
def test_the_width_of_a_text_is_that_on_a_terminal(text: str, width: int) -> None:
    """Wide characters take two columns, and those that combine take none."""
    assert display_width(text) == width


def test_tables_are_aligned_by_width() -> None:
    """Columns stay straight, whatever script the cells are in."""
    rows = [("search", 1), ("検索", 1_200), ("cafe\u0301", 30), ("👍", 4)]
    lines = table(("tool", "calls"), rows, left=("tool",))
    assert lines == [
        "tool    calls",
        "search      1",
        "検索    1,200",
        "cafe\u0301       30",
        "👍          4",
    ]
    assert {display_width(line) for line in lines} == {13}


def test_columns_are_aligned_right_or_left() -> None:
    """The space after the last column is left out."""
    columns = [["名", "n"], ["x", "長い"]]
    assert aligned_lines(columns, [True, False]) == ["名  x", " n  長い"]


def test_columns_without_content_are_left_out() -> None:
    """A column in which every row has 0 or `-` says nothing."""
    assert table(("tool", "failed", "waiting"), [("f", 0, "-")], left=("tool",)) == ["tool", "f"]
    assert table(("tool",), [], left=("tool",)) == []


def test_a_notebook_shows_text(chat: Conversation) -> None:
    """Each value that people look at is its own text there, and no markup."""
    chat.add_message("user", "<script>alert(1)</script> \u202e & co")
    call = chat.request("find", {"q": "<b>"})
    chat.start(call.id)
    chat.fail(call.id, ValueError("<i>no</i>"))
    chat.request("wait", {"q": "<b>"})
    events = list(chat.events())
    unanswered = {"id": "<b>", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    repaired = repair_messages([{"role": "assistant", "tool_calls": [unanswered]}], "openai")
    shown: list[Any] = [
        why(events),
        error_statistics(events),
        usage_statistics(events),
        model_history(events),
        what_if(events),
        diff(events, events[:2]),
        CurrentTools().extend(events),
        ResumePlan().extend(events),
        PendingApproval.of("<b>", chat.tools[call.id]),
        *repeats(events * 3),
        *scan(events),
        *why(events).causes,
        repaired,
        *repaired.repairs,
        *replay(events),
    ]
    assert len(repaired.repairs) == 1
    for value in shown:
        page = value._repr_html_()
        assert page == f"<pre>{escape(visible_text(str(value)))}</pre>"
        assert re.findall("<[^>]*>", page) == ["<pre>", "</pre>"]
        assert "\u202e" not in page


def test_a_notebook_shows_a_call(chat: Conversation) -> None:
    """Its id, name, arguments and status, and no markup; a long one is cut."""
    call = chat.request("<b>", {"q": "<i>" * 500}, "c1")
    page = chat.start(call.id)._repr_html_()
    assert page.startswith("<pre>c1: &lt;b&gt;({&#x27;q&#x27;: &#x27;&lt;i&gt;")
    assert page.endswith(" running, 1 attempts</pre>")
    assert len(page) < 3_000


def test_hidden_characters_are_shown() -> None:
    """Line breaks stay."""
    assert visible_text("a\nb") == "a\nb"
    assert visible_text("a\u202eb\x1b\n") == "a\\u202eb\\x1b\n"
