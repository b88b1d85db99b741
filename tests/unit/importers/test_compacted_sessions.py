"""Sessions whose programs compacted the history: the prompt continues as the program's did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from eventstore import HistoryCompacted, Text, validate
from eventstore.providers import known_provider, list_key
from projections import model_history

if TYPE_CHECKING:
    from support.importing import Importer


def shown(importer: Importer, number: int = 0) -> list[str]:
    """Return what the model is shown of a conversation: words, and results of calls."""
    lines: list[str] = []
    for turn in model_history(importer.store.conversation(importer.ids[number])).turns:
        lines += [getattr(part, "text", repr(part)) for part in turn.parts]
        lines += [call.answer.text for call in turn.calls]
    return lines


def rendered(importer: Importer, provider: str) -> Any:
    """Return the messages of the next prompt, which must be valid."""
    name = known_provider(provider)
    chat = importer.store.conversation(importer.ids[0])
    messages = model_history(chat).render(name)[list_key(name)]
    assert validate(messages, name) == []
    return messages


# Codex CLI


def record(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Return a record of a rollout."""
    return {"timestamp": "2026-09-01T12:00:00.000Z", "type": kind, "payload": payload}


def said(role: str, words: str) -> dict[str, Any]:
    """Return an item of a rollout."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}


def item(role: str, words: str) -> dict[str, Any]:
    """Return the record of a message."""
    return record("response_item", said(role, words))


HEADER = record("session_meta", {"id": "thread"})
BEFORE = [HEADER, item("developer", "be brief"), item("user", "one"), item("assistant", "answer")]


def test_codex_continues_with_the_replacement(importer: Importer) -> None:
    """Its instructions are gone with the past, unless the replacement has them."""
    replaced = [said("user", "one"), said("user", "SUMMARY"), {"type": "ghost_snapshot"}]
    compacted = record("compacted", {"message": "SUMMARY", "replacement_history": replaced})
    importer.lines("r.jsonl", *BEFORE, compacted, item("user", "two"))
    assert shown(importer) == ["one", "SUMMARY", "two"]
    assert ("assistant", "answer") in importer.said()


def test_codex_before_replacements_keeps_what_the_user_said(importer: Importer) -> None:
    """The program's own words in the user's name are not among them; its instructions stay."""
    context = item("user", "<environment_context>here</environment_context>")
    compacted = record("compacted", {"message": "SUMMARY"})
    importer.lines("r.jsonl", *BEFORE[:2], context, *BEFORE[2:], compacted, item("user", "two"))
    assert shown(importer) == ["be brief", "one", "SUMMARY", "two"]


def test_codex_keeps_the_last_words_of_the_user_as_far_as_they_fit(importer: Importer) -> None:
    """The program keeps 20,000 tokens of them."""
    long = item("user", "x" * 50_000)
    compacted = record("compacted", {"message": "SUMMARY"})
    importer.lines("r.jsonl", HEADER, item("user", "one"), long, long, compacted)
    assert [len(line) for line in shown(importer)] == [50_000, len("SUMMARY")]


def test_a_summary_that_openai_alone_can_read_goes_back_to_it(importer: Importer) -> None:
    """Others are told that there is one."""
    summary = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
    replaced = [said("user", "one"), summary]
    compacted = record("compacted", {"message": "", "replacement_history": replaced})
    importer.lines("r.jsonl", *BEFORE, compacted, item("user", "two"))
    assert summary in rendered(importer, "openai-responses")
    assert "Only openai-responses can read it" in str(rendered(importer, "anthropic"))
    assert "gAAAA" not in str(rendered(importer, "anthropic"))


def test_turns_rolled_back_after_a_compaction_are_a_conversation(importer: Importer) -> None:
    """A rollback does not reach behind the boundary: there the log keeps what was."""
    replaced = record("compacted", {"message": "S", "replacement_history": [said("user", "S")]})
    back = record("event_msg", {"type": "thread_rolled_back", "num_turns": 9})
    gone = [item("user", "gone"), replaced, item("user", "gone too")]
    importer.lines("r.jsonl", *BEFORE, *gone, back, item("user", "two"))
    assert shown(importer) == ["S", "two"]
    assert shown(importer, 1) == ["gone too"]


# OpenHands


def v0(number: int, words: str, source: str = "user") -> dict[str, Any]:
    """Return a message of V0."""
    return {"id": number, "source": source, "action": "message", "args": {"content": words}}


def v1(number: int, words: str, source: str = "user") -> dict[str, Any]:
    """Return a message of V1."""
    role = "assistant" if source == "agent" else "user"
    message = {"role": role, "content": [{"type": "text", "text": words}]}
    return {**_event(number), "kind": "MessageEvent", "source": source, "llm_message": message}


def _event(number: int) -> dict[str, Any]:
    return {"id": f"e{number}", "timestamp": "2026-09-01T12:00:00", "source": "environment"}


def condensation(version: int, number: int, forgotten: list[int], summary: str | None) -> Any:
    """Return a condensation that forgets events."""
    if version == 0:
        facts = {"forgotten_event_ids": forgotten, "summary": summary, "summary_offset": 1}
        return {"id": number, "source": "agent", "action": "condensation", "args": facts}
    facts = {"forgotten_event_ids": [f"e{each}" for each in forgotten], "summary": summary}
    return {**_event(number), "kind": "Condensation", **facts, "summary_offset": 1}


@pytest.mark.parametrize("version", [0, 1])
def test_openhands_forgets_what_a_condensation_names(importer: Importer, version: int) -> None:
    """The summary stands where it was; a later one takes its place, and forgets more."""
    say = v1 if version else v0
    events = [say(0, "task"), say(1, "a", "agent"), say(2, "b"), say(3, "c", "agent")]
    events += [condensation(version, 4, [1, 2], "FIRST"), say(5, "d"), say(6, "e", "agent")]
    importer.lines("one.jsonl", *events)
    assert shown(importer) == ["task", "FIRST", "c", "d", "e"]
    events += [condensation(version, 7, [3, 5], "SECOND"), say(8, "f")]
    importer.lines("two.jsonl", *events)
    assert shown(importer, 1) == ["task", "SECOND", "e", "f"]


def test_openhands_forgets_a_range(importer: Importer) -> None:
    """V0 names the first and the last; without a summary of its own the last one stays."""
    facts = {"forgotten_events_start_id": 1, "forgotten_events_end_id": 2, "summary": None}
    action = {"id": 4, "source": "agent", "action": "condensation", "args": facts}
    first = condensation(0, 3, [1], "FIRST")
    events = [v0(0, "task"), v0(1, "a", "agent"), v0(2, "b"), first, action, v0(5, "c", "agent")]
    importer.lines("e.jsonl", *events)
    assert shown(importer) == ["task", "FIRST", "c"]


def test_openhands_forgets_events_that_are_not_in_a_row(importer: Importer) -> None:
    """The summary stands at the first of them."""
    forgotten = condensation(1, 5, [1, 3], "SUMMARY")
    events = [v1(0, "task"), v1(1, "a"), v1(2, "kept"), v1(3, "b"), v1(4, "kept too"), forgotten]
    importer.lines("e.jsonl", *events)
    assert shown(importer) == ["task", "SUMMARY", "kept", "kept too"]


def test_the_trigger_of_a_condensation_is_named(importer: Importer) -> None:
    """People see which program made it."""
    importer.lines("e.jsonl", v1(0, "task"), v1(1, "a"), condensation(1, 2, [1], "SUMMARY"))
    chat = importer.store.conversation(importer.ids[0])
    (event,) = [r.event for r in chat.events() if isinstance(r.event, HistoryCompacted)]
    assert (event.after, event.until, event.trigger) == (1, 2, "condensation")
    assert event.messages[0].parts == (Text("SUMMARY"),)


# pydantic-ai


def asked(words: str) -> dict[str, Any]:
    """Return a request with the words of the user."""
    return {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": words}]}


def answered(*parts: dict[str, Any]) -> dict[str, Any]:
    """Return a response."""
    return {"kind": "response", "parts": [*parts, {"part_kind": "text", "content": "answer"}]}


def test_pydantic_ai_continues_with_a_summary(importer: Importer) -> None:
    """A provider's stands in a response, an application's in a request."""
    part = {"part_kind": "compaction", "content": "SUMMARY", "provider_name": "anthropic"}
    importer.document("one.json", [asked("one"), answered(part), asked("two")])
    assert shown(importer) == ["SUMMARY", "answer", "two"]
    own = {"kind": "request", "parts": [{"part_kind": "compaction", "content": "OWN"}]}
    importer.document("two.json", [asked("one"), answered(), own, asked("two")])
    assert shown(importer, 1) == ["OWN", "two"]


def test_pydantic_ai_keeps_the_past_beside_a_summary_that_others_cannot_read(
    importer: Importer,
) -> None:
    """The summary goes back to its provider; another one gets a note, and the past."""
    details = {"encrypted_content": "gAAAA"}
    part = {"part_kind": "compaction", "id": "cmp_1", "provider_details": details}
    importer.document("m.json", [asked("one"), answered(part), asked("two")])
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
    assert item in rendered(importer, "openai-responses")
    others = str(rendered(importer, "anthropic"))
    assert "one" in others
    assert "Only openai-responses can read it" in others


# Gemini CLI: forms of 0.61.0


def gemini(number: str, role: str, words: str, *calls: str) -> dict[str, Any]:
    """Return a message of a session; its calls have run."""
    made: list[dict[str, Any]] = [
        {"id": call, "name": "ls", "args": {}, "status": "success", "resultDisplay": f"{call} ran"}
        for call in calls
    ]
    message = {"id": number, "type": role, "content": [{"text": words}]}
    return {**message, "toolCalls": made} if made else message


SESSION = {"sessionId": "s", "projectHash": "p", "kind": "main"}
SPOKEN = [
    gemini("1", "user", "one"),
    gemini("2", "gemini", "looks", "c1"),
    gemini("3", "user", "kept"),
    gemini("4", "gemini", "looks again", "c2"),
]
SNAPSHOT = "<state_snapshot>SUMMARY</state_snapshot>"


def again(number: str, role: str, **part: Any) -> dict[str, Any]:
    """Return a message of the history as the program tells it again: under another id."""
    return {"id": number, "type": role, "content": [part]}


COMPRESSED = [
    again("a", "user", text=SNAPSHOT),
    again("b", "gemini", text="Got it."),
    again("c", "user", text="kept"),
    again("d", "gemini", functionCall={"id": "c2", "name": "ls"}),
    again("e", "user", functionResponse={"id": "c2", "name": "ls"}),
]


def test_gemini_continues_with_a_snapshot_and_what_was_said_last(importer: Importer) -> None:
    """The messages after the summary are known again by their words and their calls."""
    change = {"$set": {"messages": COMPRESSED}}
    importer.lines("s.jsonl", SESSION, *SPOKEN, change, gemini("5", "user", "two"))
    kept = ["kept", "looks again", "c2 ran"]
    assert importer.ids == ["s"]
    assert shown(importer) == [SNAPSHOT, "Got it.", *kept, "two"]
    assert ("gemini", "looks") not in importer.said()
    assert ("assistant", "looks") in importer.said()


def test_gemini_takes_back_what_came_after_a_compression(importer: Importer) -> None:
    """By a history that is told again, and by a record that names what to go back to."""
    change = {"$set": {"messages": COMPRESSED}}
    gone = gemini("6", "gemini", "gone", "c3")
    for number, back in enumerate([change, {"$rewindTo": "5"}, {"$rewindTo": "c"}]):
        header = {**SESSION, "sessionId": f"s{number}"}
        lines = [header, *SPOKEN, change, gemini("5", "user", "gone too"), gone, back]
        importer.lines(f"s{number}.jsonl", *lines, gemini("7", "user", "two"))
        assert shown(importer, 2 * number)[-2:] == ["c2 ran", "two"]
        assert shown(importer, 2 * number)[0] == SNAPSHOT
        assert shown(importer, 2 * number + 1) == ["gone too", "gone", "c3 ran"]


# Qwen Code, and pi


def qwen(number: int, kind: str, *parts: dict[str, Any], **others: Any) -> dict[str, Any]:
    """Return a record of Qwen Code that follows the one before it."""
    own = {"uuid": f"q{number}", "parentUuid": f"q{number - 1}" if number else None}
    role = "model" if kind == "assistant" else "user"
    return {
        "sessionId": "s",
        "type": kind,
        **own,
        "message": {"role": role, "parts": parts},
        **others,
    }


def test_qwen_continues_with_the_compressed_history(importer: Importer) -> None:
    """Its record holds the history as it is from then on; calls in it are those of the log."""
    call = {"functionCall": {"id": "c2", "name": "ls", "args": {}}}
    answer = {"functionResponse": {"id": "c2", "name": "ls", "response": {"output": "c2 ran"}}}
    kept = [{"text": "looks again"}, call]
    history = [
        {"role": "user", "parts": [{"text": SNAPSHOT}]},
        {"role": "model", "parts": [{"text": "Got it."}]},
        {"role": "model", "parts": kept},
        {"role": "user", "parts": [answer]},
    ]
    system = {"uuid": "q4", "parentUuid": "q3", "sessionId": "s", "type": "system"}
    payload = {"info": {"originalTokenCount": 9}, "compressedHistory": history}
    importer.lines(
        "s.jsonl",
        qwen(0, "user", {"text": "one"}),
        qwen(1, "assistant", {"text": "looks"}),
        qwen(2, "assistant", *kept),
        qwen(3, "tool_result", answer),
        {**system, "subtype": "chat_compression", "systemPayload": payload},
        qwen(5, "user", {"text": "two"}),
    )
    assert shown(importer) == [SNAPSHOT, "Got it.", "looks again", "c2 ran", "two"]


def test_pi_continues_with_its_summary_and_what_it_kept(importer: Importer) -> None:
    """A compaction names the first entry that was kept."""
    time = "2026-09-01T12:00:00.000Z"
    entries: list[dict[str, Any]] = [{"type": "session", "id": "s", "cwd": "/", "timestamp": time}]
    for number, words in enumerate(["one", "kept", "two"]):
        message = {"role": "user", "content": words, "timestamp": 1_756_728_000_000}
        parent = f"p{number - 1}" if number else None
        entry = {"type": "message", "id": f"p{number}", "parentId": parent, "timestamp": time}
        entries.append({**entry, "message": message})
    change = {"type": "compaction", "id": "c", "parentId": "p1", "timestamp": time}
    change |= {"summary": "SUMMARY", "firstKeptEntryId": "p1", "tokensBefore": 9}
    entries.insert(3, change)
    entries[4]["parentId"] = "c"
    importer.lines("s.jsonl", *entries)
    assert shown(importer) == ["SUMMARY", "kept", "two"]
