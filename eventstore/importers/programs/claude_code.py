"""Session logs of Claude Code: one record a line, with content blocks of Anthropic.

A message of the model is split over several records with one message id, and some records occur
twice. The records of sub-agents (side chains) stand between the records of the session that started
them, or in a file of their own, with the call beside it. What a person took back is a conversation
of its own, and so is what a compaction hides; see `claude_code_paths`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeGuard

import msgspec

from eventstore.domain.fingerprint import content_id
from eventstore.domain.finish_reasons import ending_of
from eventstore.domain.json_types import JsonObject, is_json_list, is_json_object
from eventstore.importers.programs.claude_code_paths import SessionPath, messages_on, place_of
from eventstore.importers.programs.denials import Denials
from eventstore.importers.programs.persisted_outputs import PersistedOutputs, session_folder
from eventstore.importers.programs.qwen_code import is_record as is_record_of_qwen
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_lines import decode
from eventstore.importers.reading.json_members import text
from eventstore.importers.reading.kept_items import KeptItems
from eventstore.importers.reading.problems import Problems
from eventstore.importers.reading.regular_files import fault_of
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript
from eventstore.providers.model import CopiedMessage

_MAX_META_BYTES = 1024 * 1024

_KEPT_REQUESTS = ("api-request", "api-request-blob", "api-request-shape")
"""Parts of requests to the model, whose messages stand in the session, too."""

_canonical = msgspec.json.Encoder(order="deterministic").encode


def is_record(value: object) -> TypeGuard[JsonObject]:
    """Return whether a value is a record of a session log."""
    if not is_json_object(value) or not isinstance(value.get("type"), str):
        return False
    if is_record_of_qwen(value):  # with the same members around another message
        return False
    if value["type"] in ("user", "assistant"):
        return isinstance(value.get("message"), dict) and ("sessionId" in value or "uuid" in value)
    return "sessionId" in value or "leafUuid" in value or value["type"] == "file-history-snapshot"


class SessionLogs:
    """The file format: one record a line."""

    name = "claude-code"
    about = About(
        program="Claude Code",
        files="session logs, `.jsonl`",
        failures="marked; denials are rejections",
        places=("$CLAUDE_CONFIG_DIR/projects/*/*.jsonl", "~/.claude/projects/*/*.jsonl"),
        listing=Listing(
            call=r'"type": ?"tool_use"(?:, ?"id": ?"([^"\\]{1,200})")?',
            parent=r'\A\{"parentUuid": ?null, ?"isSidechain": ?true,.*?'
            r'"sessionId": ?"([^"\\]{1,200})"',
            sub_agents=(
                "{id}/subagents/agent-*.jsonl",
                "{id}/subagents/workflows/*/agent-*.jsonl",
            ),
            companions=(
                "{id}.meta.json",
                "{id}/tool-results/*",
                "{id}/workflows/*.json",
                "{id}/subagents/workflows/*/journal.jsonl",
                "sessions-index.json",
            ),
        ),
        kept="thinking, images, compactions, abandoned branches, sub-agents, large results",
        lost="token counts, models, hooks, titles, snapshots of files",
        tried="2.1.332",
        on="2026-11-28",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a line or an item is a record of a session log."""
        return unit != "file" and is_record(value)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the conversations: each session before its side chains."""
        log = SessionLog(content.problems)
        log.extend(content.values)
        caller = None if content.path is None else _caller(content.path)
        outputs = PersistedOutputs(session_folder(content.path), content.problems)
        for transcript in log.transcripts(content.file_stem, content.name, caller):
            transcript.full_text = outputs
            yield transcript


class _Chain:
    """One conversation of a log, built up from its records."""

    def __init__(self, parent: _Chain | None = None, agent: str | None = None) -> None:
        self.parent = parent
        self.agent = agent
        self.sessions: list[str] = []
        self.messages: KeptItems[JsonObject] = KeptItems(may_wait=_is_of_user)
        self.times: list[int | None] = []
        self.blocks: dict[str, set[bytes]] = {}  # message id to digests of its blocks so far
        self.side_chains = 0
        self.denials = Denials()
        self.path = SessionPath()
        self.copied = 0
        self.origin: str | None = None
        self._calls: dict[tuple[str, str], JsonObject] = {}  # by message id and call id

    def add(self, record: JsonObject, message: JsonObject) -> None:
        """Add a message, with the time of its record."""
        origin = record.get("forkedFrom")
        if self.copied == len(self.messages) and is_json_object(origin):
            self.copied += 1
            self.origin = self.origin or _text(origin, "sessionId") or None
        self.path.add(record, len(self.messages))
        self.messages.append(message)
        self.times.append(time_of(record.get("timestamp")))
        self.denials.add(record)

    def transcripts(self, conversation_id: str) -> Iterator[Transcript]:
        """Yield the conversation, and the branches of it that were abandoned."""
        paths = self.path.paths()
        for number, path in enumerate(paths):
            messages, times = messages_on(path, self.messages, self.times)
            repeated = [each for each in path if place_of(each) < self.copied]
            transcript = Transcript(
                conversation_id,
                "anthropic",
                messages,
                None if self.parent else self.origin,
                times=times,
                is_rejection=self.denials,
                copied=len(messages_on(repeated, self.messages, self.times)[0]),
                may_repeat=True,
            )
            if number:
                transcript.id = f"{conversation_id}/rolled-back-{number}"
                transcript.parent_id = conversation_id
            elif len(paths) > 1:  # an earlier import may have had what was taken back
                transcript.part_id = f"{conversation_id}/rewound-{len(paths) - 1}"
            yield transcript

    def keep_calls(self, key: str, blocks: Iterable[object]) -> None:
        """Keep the calls of a message, which may be written again."""
        for block in blocks:
            if is_json_object(block) and block.get("type") == "tool_use":
                self._calls[key, str(block.get("id"))] = block

    def has_grown(self, key: str, block: object) -> bool:
        """Return whether a block is a call that the message has, after putting it in its place.

        Some programs write a message again as it grows: the last has the arguments whole.
        """
        if not is_json_object(block) or block.get("type") != "tool_use":
            return False
        known = self._calls.get((key, str(block.get("id"))))
        if known is None or known == block:
            return False
        known.clear()
        known.update(block)
        return True


class SessionLog:
    """The conversations of one session log."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._chains: list[_Chain] = []
        self._by_record: dict[str, _Chain] = {}
        self._by_session: dict[str, _Chain] = {}
        self._by_agent: dict[str, _Chain] = {}

    def extend(self, values: Iterable[tuple[int, object]]) -> None:
        """Add the records of a file, with their lines."""
        for line, value in values:
            if is_record(value):
                self._record(line, value)
            elif not _is_bookkeeping(value):
                self._problems.add("not a record of a session log", line)

    def transcripts(
        self, stem: str, name: str | None, caller: str | None = None
    ) -> Iterator[Transcript]:
        """Yield the conversations: each session before its side chains.

        `caller` is the call whose sub-agent wrote the file.
        """
        ids: dict[int, str] = {}
        mains = [chain for chain in self._chains if chain.parent is None]
        for chain in mains:
            own = stem if stem in chain.sessions or not chain.sessions else chain.sessions[-1]
            ids[id(chain)] = own if name is None else name if len(mains) == 1 else f"{name}/{own}"
        sides = [chain for chain in self._chains if chain.parent is not None]
        for chain in sides:
            if chain.parent is not None:
                chain.parent.side_chains += 1
                ids[id(chain)] = (
                    f"{ids[id(chain.parent)]}/sidechain-{chain.agent or chain.parent.side_chains}"
                )
        calls: dict[int, list[_AgentCall]] = {}
        for chain in mains:
            transcripts = [*chain.transcripts(ids[id(chain)])]
            calls[id(chain)] = [call for each in transcripts for call in _agent_calls(each)]
            yield from transcripts
        for chain in sides:
            for transcript in chain.transcripts(ids[id(chain)]):
                if transcript.parent_id is None and chain.parent is not None:
                    call = _claim(calls[id(chain.parent)], _opening(chain))
                    transcript.parent_id = call.conversation_id if call else ids[id(chain.parent)]
                    transcript.parent_call_id = call.id if call else caller
                yield transcript

    def _record(self, line: int, record: JsonObject) -> None:
        uuid = record.get("uuid")
        if isinstance(uuid, str) and uuid in self._by_record:
            self._problems.add("the same record again", line)
            return
        if record["type"] not in ("user", "assistant"):
            if isinstance(uuid, str) and (chain := self._parent(record)):
                self._by_record[uuid] = chain
                chain.path.add(record, None)
            if not _is_bookkeeping(record):
                kind = record["type"]
                self._problems.add(f"a record of type {kind}, whose message is not known", line)
            return
        if not isinstance(uuid, str):
            self._problems.add("a record without a uuid, from another stream", line)
            return
        chain = self._by_record[uuid] = self._chain(record)
        message = record["message"]
        if record["type"] == "user":
            chain.add(record, {"role": "user", "content": message.get("content")})
        else:
            self._assistant(line, chain, record)

    def _assistant(self, line: int, chain: _Chain, record: JsonObject) -> None:
        message = record["message"]
        key, content = message.get("id"), message.get("content")
        if not isinstance(key, str):
            chain.add(record, {"role": "assistant", "content": content, **_cut_off(message)})
            return
        known = chain.blocks.setdefault(key, set())
        blocks = content if is_json_list(content) else [content]
        blocks = [each for each in blocks if not chain.has_grown(key, each)]
        keyed = [(_canonical_key(block), block) for block in blocks]
        new = [block for block_key, block in keyed if block_key not in known]
        known.update(block_key for block_key, _ in keyed)
        if len(new) < len(blocks):
            self._problems.add("the same assistant message again", line, detail=key)
        if new:
            remaining = new if isinstance(content, list) else content
            said = {"role": "assistant", "id": key, "content": remaining, **_cut_off(message)}
            chain.add(record, said)
            chain.keep_calls(key, new)
        else:
            chain.path.add(record, None)

    def _parent(self, record: JsonObject) -> _Chain | None:
        """Return the chain of the record before; a boundary names that as the logical one."""
        before = _text(record, "parentUuid") or _text(record, "logicalParentUuid")
        chain = self._by_record.get(before)
        if chain is None and record.get("subtype") == "compact_boundary":
            chain = self._by_session.get(_text(record, "sessionId"))
        return chain

    def _chain(self, record: JsonObject) -> _Chain:
        chain = self._parent(record)
        if record.get("isSidechain") is True:
            return chain if chain and chain.parent else self._side(record)
        session = _text(record, "sessionId")
        if chain is None or chain.parent:
            chain = self._by_session.get(session) or self._new()
        if session and session not in chain.sessions:
            chain.sessions.append(session)
        self._by_session.setdefault(session, chain)
        return chain

    def _side(self, record: JsonObject) -> _Chain:
        agent, session = _text(record, "agentId"), _text(record, "sessionId")
        if agent in self._by_agent:
            return self._by_agent[agent]
        main = self._by_session.get(session)
        if main is None:
            main = self._by_session[session] = self._new()
            main.sessions.append(session)
        side = self._new(main, agent or None)
        if agent:
            self._by_agent[agent] = side
        return side

    def _new(self, parent: _Chain | None = None, agent: str | None = None) -> _Chain:
        chain = _Chain(parent, agent)
        self._chains.append(chain)
        return chain


def _cut_off(message: JsonObject) -> JsonObject:
    """Return the member that says why a response was not whole, if it was not."""
    reason = message.get("stop_reason")
    is_whole = not isinstance(reason, str) or ending_of("anthropic", reason) == "whole"
    return {} if is_whole else {"stop_reason": reason}


def _is_bookkeeping(value: object) -> bool:
    """Return whether a record is the program's own: titles, modes, snapshots, progress."""
    if not is_json_object(value) or not isinstance(value.get("type"), str):
        return False
    return "message" not in value or value["type"] in _KEPT_REQUESTS


def _is_of_user(message: JsonObject) -> bool:
    """Return whether a message is written once: one of the model may be written again, longer."""
    return bool(message["role"] == "user")


def _text(record: JsonObject, key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""


def _canonical_key(block: object) -> bytes:
    try:
        form = _canonical(block)
    except (TypeError, ValueError, RecursionError):
        form = repr(block).encode("utf-8", "backslashreplace")
    return content_id(form)


class _AgentCall(msgspec.Struct, frozen=True):
    """A call that starts a sub-agent: what it asks, its id, and its conversation."""

    prompt: str
    id: str
    conversation_id: str


def _agent_calls(transcript: Transcript) -> Iterator[_AgentCall]:
    """Yield the calls that start a sub-agent."""
    for each in transcript.messages:
        message = each.message if isinstance(each, CopiedMessage) else each
        content = message["content"] if is_json_object(message) else None
        for block in content if is_json_list(content) else ():
            if is_json_object(block) and block.get("type") == "tool_use":
                arguments, call_id = block.get("input"), block.get("id")
                prompt = arguments.get("prompt") if is_json_object(arguments) else None
                if isinstance(prompt, str) and isinstance(call_id, str):
                    yield _AgentCall(prompt, call_id, transcript.id)


def _opening(chain: _Chain) -> str:
    """Return what a sub-agent was asked."""
    content = chain.messages[0]["content"]
    if is_json_list(content) and content and is_json_object(content[0]):
        content = content[0].get("text")
    return content if isinstance(content, str) else ""


def _claim(calls: list[_AgentCall], prompt: str) -> _AgentCall | None:
    """Take the first call with this prompt that no other side chain has claimed."""
    found = next((call for call in calls if call.prompt == prompt), None)
    if found is not None:
        calls.remove(found)
    return found


def _caller(path: Path) -> str | None:
    """Return the call whose sub-agent wrote a file, which the program puts in another beside it."""
    beside = path.with_suffix(".meta.json")
    if fault_of(beside, path.parent, _MAX_META_BYTES) is not None:
        return None
    try:
        facts = decode(beside.read_bytes())
    except (OSError, ValueError):
        return None
    return text(facts, "toolUseId") or None if is_json_object(facts) else None
