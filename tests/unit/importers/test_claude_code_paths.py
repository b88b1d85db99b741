"""Sessions of Claude Code in which a person went back, or that were compacted, and sub-agents.

The records are made up; their form is that of Claude Code 2.1.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.importing import Importer, states

from eventstore import EventStore, HistoryCompacted, RunStarted, Text
from eventstore.importers.file_import import import_file
from projections import model_history

Record = dict[str, Any]


class Session:
    """Records of a session, each of which follows the last unless it says otherwise."""

    def __init__(self, session: str = "s") -> None:
        self.records: list[Record] = []
        self.session = session

    def add(self, uuid: str, record: Record, **others: Any) -> None:
        """Add a record."""
        parent = self.records[-1]["uuid"] if self.records else None
        own = {"uuid": uuid, "parentUuid": parent, "sessionId": self.session}
        self.records.append({**own, **record, **others})

    def user(self, uuid: str, content: Any = None, **others: Any) -> None:
        """Add what the user said, by default the name of the record, or a result."""
        message = {"role": "user", "content": content or uuid}
        self.add(uuid, {"type": "user", "message": message}, **others)

    def assistant(self, uuid: str, *calls: str, message_id: str = "", **others: Any) -> None:
        """Add an answer of the model: the name of the record, or calls by their ids."""
        made = [
            {"type": "tool_use", "id": call, "name": "Bash", "input": {"n": call}} for call in calls
        ]
        content = made or [{"type": "text", "text": uuid}]
        message = {"role": "assistant", "id": message_id or f"m-{uuid}", "content": content}
        self.add(uuid, {"type": "assistant", "message": message}, **others)

    def result(self, uuid: str, call: str, **others: Any) -> None:
        """Add the result of a call."""
        block = {"type": "tool_result", "tool_use_id": call, "content": f"{call} done"}
        self.user(uuid, [block], **others)

    def compact(self, uuid: str, before: str, **facts: Any) -> None:
        """Add a boundary, and the summary after it."""
        facts = {"trigger": "auto", "preTokens": 9000, **facts}
        system = {"type": "system", "subtype": "compact_boundary", "compactMetadata": facts}
        self.add(uuid, system, parentUuid=None, logicalParentUuid=before)
        self.user(f"{uuid}-summary", isCompactSummary=True, isVisibleInTranscriptOnly=True)


def shown(store: EventStore, conversation_id: str) -> list[str]:
    """Return what the model is shown: words, and results of calls."""
    lines: list[str] = []
    for turn in model_history(store.conversation(conversation_id)).turns:
        lines += [part.text for part in turn.parts if isinstance(part, Text)]
        lines += [call.answer.text for call in turn.calls]
    return lines


def logged(store: EventStore, conversation_id: str) -> str:
    """Return the whole log as text."""
    return repr([recorded.event for recorded in store.conversation(conversation_id).events()])


def test_a_rewind_leaves_a_branch_of_its_own(importer: Importer) -> None:
    """The conversation has what was kept; the branch says whose it is, and keeps its calls."""
    session = Session()
    session.user("one")
    session.assistant("answer")
    session.user("taken back")
    session.assistant("call", "toolu_1")
    session.result("result", "toolu_1")
    session.user("two", parentUuid="answer")
    session.assistant("answer two")
    tools = importer.lines("s.jsonl", *session.records)
    assert importer.ids == ["s", "s/rolled-back-1"]
    assert shown(importer.store, "s") == ["one", "answer", "two", "answer two"]
    assert shown(importer.store, "s/rolled-back-1") == ["taken back", "toolu_1 done"]
    assert states(tools) == [("Bash", "Completed")]
    first = next(importer.store.conversation("s/rolled-back-1").events()).event
    assert isinstance(first, RunStarted)
    assert first.parent_conversation_id == "s"


def test_an_open_call_of_a_branch_may_have_taken_effect(importer: Importer) -> None:
    """The log cannot know more of it."""
    session = Session()
    session.user("one")
    session.assistant("answer")
    session.user("taken back")
    session.assistant("call", "toolu_1")
    session.user("again", parentUuid="answer")
    (tool,) = importer.lines("s.jsonl", *session.records)
    assert (tool.status.name, tool.in_doubt) == ("Pending", True)
    assert "whether it ran is not known" in shown(importer.store, "s/rolled-back-1")[-1]
    assert shown(importer.store, "s") == ["one", "answer", "again"]


def test_the_first_question_may_be_asked_again(importer: Importer) -> None:
    """Its record has no parent, as that of the first one has none."""
    session = Session()
    session.user("one")
    session.assistant("answer")
    session.user("one again", parentUuid=None)
    importer.lines("s.jsonl", *session.records)
    assert shown(importer.store, "s") == ["one again"]
    assert shown(importer.store, "s/rolled-back-1") == ["one", "answer"]


def test_records_of_the_program_between_are_passed_through(importer: Importer) -> None:
    """A question may follow a record that says nothing to the model."""
    session = Session()
    session.user("one")
    session.assistant("answer")
    session.add("hook", {"type": "system", "subtype": "stop_hook_summary"})
    session.user("taken back")
    session.assistant("answer two")
    session.add("file", {"type": "attachment"}, parentUuid="hook")
    session.user("two")
    importer.lines("s.jsonl", *session.records)
    assert shown(importer.store, "s") == ["one", "answer", "two"]
    assert shown(importer.store, "s/rolled-back-1") == ["taken back", "answer two"]


def test_parallel_calls_are_no_branches(importer: Importer) -> None:
    """Their pieces and results name older records, and so may the question after them."""
    session = Session()
    session.user("one")
    session.assistant("a", "toolu_1", message_id="m")
    session.assistant("b", "toolu_2", message_id="m")
    session.result("ra", "toolu_1", parentUuid="a")
    session.add("p", {"type": "progress"}, parentUuid="a")
    session.result("rb", "toolu_2", parentUuid="b")
    session.user("two", parentUuid="ra")
    session.assistant("answer", parentUuid="rb")
    importer.lines("s.jsonl", *session.records)
    assert importer.ids == ["s"]
    assert shown(importer.store, "s") == ["one", "toolu_1 done", "toolu_2 done", "two", "answer"]


def test_the_last_words_decide_where_two_branches_alternate(importer: Importer) -> None:
    """A person who returns to the first branch leaves the second."""
    session = Session()
    session.user("one")
    session.assistant("answer")
    session.user("left")
    session.assistant("answer left")
    session.user("right", parentUuid="answer")
    session.assistant("answer right")
    session.user("left again", parentUuid="answer left")
    importer.lines("s.jsonl", *session.records)
    assert shown(importer.store, "s") == ["one", "answer", "left", "answer left", "left again"]
    assert shown(importer.store, "s/rolled-back-1") == ["right", "answer right"]


def test_a_session_that_was_imported_before_keeps_what_it_was(
    store: EventStore, tmp_path: Path
) -> None:
    """The words since then are a part of their own, however often the person went back."""
    session = Session()
    session.user("one")
    session.assistant("answer")
    session.user("two")
    session.assistant("answer two")
    path = tmp_path / "s.jsonl"

    def again() -> list[str]:
        path.write_text("".join(json.dumps(each) + "\n" for each in session.records))
        return import_file(store, path).ids

    assert again() == ["s"]
    session.user("three", parentUuid="answer")
    assert again() == ["s/rewound-1", "s/rolled-back-1"]
    session.user("four", parentUuid=None)
    assert again() == ["s/rewound-2", "s/rolled-back-1", "s/rolled-back-2"]
    assert shown(store, "s") == ["one", "answer", "two", "answer two"]
    assert shown(store, "s/rewound-1") == ["one", "answer", "three"]
    assert shown(store, "s/rewound-2") == ["four"]
    assert shown(store, "s/rolled-back-1") == ["two", "answer two"]
    assert shown(store, "s/rolled-back-2") == ["one", "answer", "three"]


def test_a_compacted_session_continues_with_its_summary(importer: Importer) -> None:
    """The past is in the log; the facts of the boundary are kept."""
    session = Session()
    session.user("one")
    session.assistant("call", "toolu_1")
    session.result("result", "toolu_1")
    session.compact("c", "result")
    session.user("two")
    importer.lines("s.jsonl", *session.records)
    assert shown(importer.store, "s") == ["c-summary", "two"]
    assert "toolu_1 done" in logged(importer.store, "s")
    (event,) = compactions(importer.store)
    assert (event.until, event.trigger, event.tokens_before) == (4, "auto", 9000)


def compactions(store: EventStore) -> list[HistoryCompacted]:
    """Return those of the session."""
    events = [recorded.event for recorded in store.conversation("s").events()]
    return [event for event in events if isinstance(event, HistoryCompacted)]


def test_each_of_several_boundaries_stands_for_all_before(importer: Importer) -> None:
    """Five times over, the prompt is short."""
    session = Session()
    for number in range(5):
        session.user(f"question {number}")
        session.assistant(f"answer {number}")
        session.compact(f"c{number}", f"answer {number}")
    session.user("last")
    importer.lines("s.jsonl", *session.records)
    assert len(compactions(importer.store)) == 5
    assert shown(importer.store, "s") == ["c4-summary", "last"]


def test_a_boundary_whose_parent_is_missing_hides_all_before(importer: Importer) -> None:
    """The record that it follows may be in another file."""
    session = Session()
    session.user("one")
    session.compact("c", "not here")
    session.user("two")
    importer.lines("s.jsonl", *session.records)
    assert shown(importer.store, "s") == ["c-summary", "two"]


def test_a_file_that_begins_with_a_boundary_begins_with_its_summary(importer: Importer) -> None:
    """Nothing is there to hide."""
    session = Session()
    session.compact("c", "not here")
    session.user("two")
    importer.lines("s.jsonl", *session.records)
    assert shown(importer.store, "s") == ["c-summary", "two"]
    assert compactions(importer.store) == []


def test_a_boundary_without_a_summary_says_nothing(importer: Importer) -> None:
    """The model would see no conversation at all."""
    session = Session()
    session.user("one")
    session.compact("c", "one")
    del session.records[-1]
    session.user("two")
    importer.lines("s.jsonl", *session.records)
    assert shown(importer.store, "s") == ["one", "two"]


def test_a_preserved_segment_follows_the_summary(importer: Importer) -> None:
    """The next question names the last record of the segment, and goes not back to it."""
    session = Session()
    session.user("one")
    session.assistant("answer")
    session.user("kept")
    session.assistant("kept answer")
    segment = {"headUuid": "kept", "anchorUuid": "c-summary", "tailUuid": "kept answer"}
    session.compact("c", "kept answer", preservedSegment=segment)
    session.user("two", parentUuid="kept answer")
    importer.lines("s.jsonl", *session.records)
    assert importer.ids == ["s"]
    assert shown(importer.store, "s") == ["c-summary", "kept", "kept answer", "two"]


def test_a_segment_before_the_summary_stays_there(importer: Importer) -> None:
    """A person may let the end of a session be summarised, and keep its beginning."""
    session = Session()
    session.user("kept")
    session.assistant("kept answer")
    session.user("one")
    session.assistant("answer")
    segment = {"headUuid": "kept", "anchorUuid": "c", "tailUuid": "kept answer"}
    named = {"uuids": ["kept", "kept answer"]}
    session.compact("c", "answer", preservedSegment=segment, preservedMessages=named)
    session.user("two")
    importer.lines("s.jsonl", *session.records)
    assert shown(importer.store, "s") == ["kept", "kept answer", "c-summary", "two"]


def test_a_rewind_behind_a_boundary_brings_back_the_past(importer: Importer) -> None:
    """The way to the last words does not lead over the boundary."""
    session = Session()
    session.user("one")
    session.assistant("answer")
    session.user("two")
    session.compact("c", "two")
    session.user("three")
    session.user("other", parentUuid="answer")
    importer.lines("s.jsonl", *session.records)
    assert shown(importer.store, "s") == ["one", "answer", "other"]
    assert shown(importer.store, "s/rolled-back-1") == ["c-summary", "three"]


@pytest.mark.parametrize("facts", ['{"toolUseId": "toolu_1"}', "{", "[]", '{"toolUseId": 3}'])
def test_a_sub_agent_in_a_file_of_its_own_names_its_call(
    store: EventStore, tmp_path: Path, facts: str
) -> None:
    """The call stands beside the file; where it cannot be read, the session alone is named."""
    side = Session()
    side.user("count", isSidechain=True, agentId="a1")
    path = tmp_path / "agent-a1.jsonl"
    path.write_text(json.dumps(side.records[0]))
    path.with_suffix(".meta.json").write_text(facts)
    (name,) = import_file(store, path).ids
    started = next(store.conversation(name).events()).event
    assert isinstance(started, RunStarted)
    call = "toolu_1" if "toolu_1" in facts else None
    assert (name, started.parent_conversation_id, started.parent_call_id) == (
        "s/sidechain-a1",
        "s",
        call,
    )


def test_a_side_chain_of_an_abandoned_branch_names_that(importer: Importer) -> None:
    """Its call is not in the conversation."""
    session = Session()
    session.user("one")
    session.assistant("answer")
    session.user("taken back")
    prompt = {"type": "tool_use", "id": "toolu_1", "name": "Agent", "input": {"prompt": "count"}}
    message = {"role": "assistant", "id": "m", "content": [prompt]}
    session.add("call", {"type": "assistant", "message": message})
    session.user("count", isSidechain=True, agentId="a1", parentUuid=None)
    session.user("two", parentUuid="answer")
    importer.lines("s.jsonl", *session.records)
    started = next(importer.store.conversation("s/sidechain-a1").events()).event
    assert isinstance(started, RunStarted)
    assert started.parent_conversation_id == "s/rolled-back-1"
    assert started.parent_call_id == "toolu_1"
