"""Exports of Open WebUI and LibreChat: calls, branches, and both forms of each."""

from __future__ import annotations

import json
from html import escape
from typing import Any

import pytest
from support import chat_exports as chats
from support.importing import AT, Importer, states

from eventstore import Completed
from eventstore.importers import SourceError

FOUR = [("find", "Completed"), ("find", "Failed"), ("book", "Rejected"), ("book", "Pending")]


@pytest.mark.parametrize("form", ["all chats", "one chat"])
def test_calls_of_open_webui_end_as_their_items_say(importer: Importer, form: str) -> None:
    """A result has a status; a call that waits for a person has none."""
    chat = chats.open_webui(chats.OUTPUT)
    tools = importer.document("chats.json", [chat] if form == "all chats" else chat)
    assert (importer.ids, importer.problems) == (["c1"], [])
    assert states(tools) == FOUR
    assert [tool.requested_at for tool in tools] == [AT + 1_000_000] * 4
    said = [("user", "Find it."), ("assistant", "I look."), ("assistant", "Done.")]
    assert [*importer.said()] == said


def test_calls_in_texts_of_open_webui_are_read(importer: Importer) -> None:
    """Older versions wrote calls as escaped HTML, with the result as an attribute or inside."""
    find = escape(json.dumps({"q": "<a>"}))
    said = (
        '<details type="reasoning" done="true"><summary>Thought</summary>\n&gt; Hm.\n</details>\n'
        "I look.\n"
        f'<details type="tool_calls" done="true" id="a" name="find" arguments="{find}" '
        f'result="{escape(json.dumps("<b>found</b>"))}">\n<summary>Tool Executed</summary>\n'
        "</details>\n"
        f'<details type="tool_calls" done="true" id="b" name="find" arguments="{find}">\n'
        f"<summary>Tool Executed</summary>\n{escape(json.dumps('Error: gone'))}\n</details>\n"
        f'<details type="tool_calls" done="false" id="c" name="book" arguments="{{}}">\n'
        "<summary>Executing...</summary>\n</details>\nDone."
    )
    tools = importer.document("chat.json", chats.open_webui(said))
    assert states(tools) == [("find", "Completed"), ("find", "Failed"), ("book", "Pending")]
    assert tools[0].call.arguments == {"q": "<a>"}
    assert isinstance(tools[0].status, Completed)
    assert tools[0].status.response.result == "<b>found</b>"


def test_other_branches_of_a_chat_are_conversations_of_their_own(importer: Importer) -> None:
    """The current message says which branch is the conversation."""
    chat = chats.open_webui(chats.OUTPUT)
    held = chat["chat"]["history"]["messages"]
    held["u2"] = {**held["u1"], "id": "u2", "content": "Never mind."}
    held["a2"] = {**held["a1"], "id": "a2", "parentId": "u2", "output": [], "content": "Good."}
    importer.document("chat.json", chat)
    assert importer.ids == ["c1", "c1/left-1"]
    assert ("user", "Never mind.") in importer.said()


@pytest.mark.parametrize("form", ["messages", "messagesTree"])
def test_calls_of_librechat_end_with_their_outputs(importer: Importer, form: str) -> None:
    """A call without an output is open; an output that begins with an error has failed."""
    tools = importer.document("convo.json", chats.librechat(form))
    assert (importer.ids, importer.problems) == (["l1", "l1/left-1"], [])
    assert states(tools) == [
        ("find", "Completed"),
        ("find", "Failed"),
        ("book", "Pending"),
        ("code_interpreter", "Completed"),
    ]
    assert tools[0].call.arguments == {"q": 1}
    assert tools[0].requested_at == AT + 2_000_000


@pytest.mark.parametrize(
    "value",
    [{"chat": {"history": {"messages": {}, "currentId": "1"}}}, {"conversationId": "c"}],
)
def test_an_export_without_messages_is_refused(importer: Importer, value: dict[str, Any]) -> None:
    """An export in which nothing was said holds no conversation."""
    with pytest.raises(SourceError, match="holds no messages"):
        importer.document("empty.json", value)
