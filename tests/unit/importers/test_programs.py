"""Agents' own sessions: every call of a file is in the log, with its end and its times."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.importing import Importer, states
from support.program_files import path_of, values_of

from eventstore.domain.events import ToolCompleted
from eventstore.importers.programs.opencode import children_of


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("opencode-1.18.33.export.json", {"Completed": 4, "Failed": 4}),
    ],
)
def test_every_call_of_a_file_has_its_end_and_its_times(
    name: str, ends: dict[str, int], importer: Importer
) -> None:
    """Ends are those that the program's own marks say; a second import adds nothing."""
    tools = importer.file(path_of(name))
    assert importer.problems == []
    assert Counter(tool.status.name for tool in tools) == ends
    events = [each for one in importer.ids for each in importer.store.conversation(one).events()]
    assert all(each.occurred_at for each in events if each.call_id is not None)


# OpenCode


def opencode(*parts: dict[str, Any], **session: Any) -> dict[str, Any]:
    """Return an export with one message of the model."""
    info = {"id": "m1", "role": "assistant", "time": {"created": 1_795_752_549_874}}
    return {"info": {"id": "ses_1"} | session, "messages": [{"info": info, "parts": [*parts]}]}


def opencode_call(call_id: str, **state: Any) -> dict[str, Any]:
    """Return a part that is a call."""
    given = {"input": {"command": "make"}} | state
    return {"type": "tool", "tool": "bash", "callID": call_id, "state": given}


def test_a_call_of_opencode_ends_as_its_state_says(importer: Importer) -> None:
    """What a person or a rule refused is rejected; of what was interrupted no end is known."""
    refused = "The user rejected permission to use this specific tool call."
    ruled = (
        "The user has specified a rule which prevents you from using this specific tool call. []"
    )
    tools = importer.document(
        "export.json",
        opencode(
            opencode_call("a", status="error", error=refused),
            opencode_call("b", status="error", error=ruled),
            opencode_call("c", status="error", error="No file: the user rejected permission"),
            opencode_call("d", status="error", error="aborted", metadata={"interrupted": True}),
            opencode_call("e", status="running"),
            opencode_call("f", status="completed", output="fine: exit 3", metadata={"exit": None}),
        ),
    )
    assert [status for _, status in states(tools)] == [
        *("Rejected", "Rejected", "Failed", "Pending", "Pending", "Completed")
    ]


def test_a_sub_agent_of_opencode_names_its_parent(importer: Importer) -> None:
    """The parent's file has the call that started it."""
    importer.document("child.json", opencode({"type": "text", "text": "One file."}, parentID="p"))
    first = next(iter(importer.store.conversation("ses_1").events())).event
    assert getattr(first, "parent_conversation_id", None) == "p"
    messages = values_of("opencode-1.18.33.export.json")["messages"]
    assert list(children_of(messages)) == [("ses_de4ce07f3ffe6f1HkAeYkbHsUE", "call_5f547744cf")]


def test_a_session_of_opencode_that_has_grown_adds_its_new_parts(importer: Importer) -> None:
    """A call whose end was not known gets it, though a later one ended before."""
    times = {"start": 1_795_752_550_000, "end": 1_795_752_551_000}
    late = times | {"end": 1_795_752_559_000}
    done = opencode_call("b", status="completed", output="b", time=times)
    importer.document("x.json", opencode(opencode_call("a", status="running"), done))
    ended = opencode_call("a", status="completed", output="a", time=late)
    tools = importer.document("x.json", opencode(ended, done))
    assert [(tool.call.id, tool.status.name) for tool in tools] == [
        ("a", "Completed"),
        ("b", "Completed"),
    ]
    ends = [each.event for each in importer.store.conversation("ses_1").events()]
    assert [each.duration for each in ends if isinstance(each, ToolCompleted)] == [
        *(1_000_000, 9_000_000)
    ]
