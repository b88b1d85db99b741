"""Session logs of Claude Code: one record a line, with content blocks of Anthropic.

A message of the model is split over several records with one message id, and some records occur
twice. The records of sub-agents (side chains) stand between the records of the session that started
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeGuard

import msgspec

from eventstore.domain.json_types import JsonObject, is_json_list, is_json_object
from eventstore.importers.programs.denials import Denials
from eventstore.importers.programs.persisted_outputs import PersistedOutputs, session_folder
from eventstore.importers.programs.qwen_code import is_record as is_record_of_qwen
from eventstore.importers.reading.about import About
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.problems import Problems
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript

_OWN_RECORDS = frozenset({"api-request", "api-request-blob", "api-request-shape"})
"""Records of the program's own that may have a message: what it keeps of its requests."""

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
        failures="marked",
        places=("~/.claude/projects/*/*.jsonl",),
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a line or an item is a record of a session log."""
        return unit != "file" and is_record(value)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the conversations: each session before its side chains."""
        outputs = PersistedOutputs(
            session_folder(content.folder, content.file_stem), content.problems
        )
        log = SessionLog(content.problems, outputs)
        log.extend(content.values)
        yield from log.transcripts(content.file_stem, content.name)


class _Chain:
    """One conversation of a log, built up from its records."""

    def __init__(self, parent: _Chain | None = None, agent: str | None = None) -> None:
        self.parent = parent
        self.agent = agent
        self.sessions: list[str] = []
        self.messages: list[JsonObject] = []
        self.times: list[int | None] = []
        self.blocks: dict[str, set[bytes]] = {}  # message id to its content blocks so far
        self.side_chains = 0
        self.denials = Denials()
        self._calls: dict[tuple[str, str], JsonObject] = {}  # by message id and call id

    def add(self, record: JsonObject, message: JsonObject) -> None:
        """Add a message, with the time of its record."""
        self.messages.append(message)
        self.times.append(time_of(record.get("timestamp")))
        self.denials.add(record)

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

    def __init__(self, problems: Problems, outputs: PersistedOutputs) -> None:
        self._problems = problems
        self._outputs = outputs
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

    def transcripts(self, stem: str, name: str | None) -> Iterator[Transcript]:
        """Yield the conversations: each session before its side chains."""
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
        calls: dict[int, list[tuple[str, str]]] = {id(c): list(_agent_calls(c)) for c in mains}
        for chain in mains + sides:
            if not chain.messages:
                continue
            parent = chain.parent
            yield Transcript(
                ids[id(chain)],
                "anthropic",
                chain.messages,
                ids[id(parent)] if parent else None,
                _claim(calls[id(parent)], _opening(chain)) if parent else None,
                chain.times,
                is_rejection=chain.denials,
                full_text=self._outputs,
            )

    def _record(self, line: int, record: JsonObject) -> None:
        uuid = record.get("uuid")
        if isinstance(uuid, str) and uuid in self._by_record:
            self._problems.add("the same record again", line)
            return
        if record["type"] not in ("user", "assistant"):
            if isinstance(uuid, str) and (chain := self._parent(record)):
                self._by_record[uuid] = chain
            if not _is_bookkeeping(record):
                named = _with_article(f"{record['type']} record")
                self._problems.add(f"{named}, whose message is not known", line)
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
            chain.add(record, {"role": "assistant", "content": content})
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
            chain.add(record, {"role": "assistant", "id": key, "content": remaining})
            chain.keep_calls(key, new)

    def _parent(self, record: JsonObject) -> _Chain | None:
        return self._by_record.get(_text(record, "parentUuid"))

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


def _is_bookkeeping(value: object) -> bool:
    """Return whether a record is the program's own: titles, modes, snapshots, progress."""
    if not is_json_object(value) or not isinstance(value.get("type"), str):
        return False
    return "message" not in value or value["type"] in _OWN_RECORDS


def _with_article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _text(record: JsonObject, key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""


def _canonical_key(block: object) -> bytes:
    try:
        return _canonical(block)
    except (TypeError, ValueError, RecursionError):
        return repr(block).encode("utf-8", "backslashreplace")


def _agent_calls(chain: _Chain) -> Iterator[tuple[str, str]]:
    """Yield prompt and id of the calls that start a sub-agent."""
    for message in chain.messages:
        content = message["content"]
        for block in content if is_json_list(content) else ():
            if is_json_object(block) and block.get("type") == "tool_use":
                arguments, call_id = block.get("input"), block.get("id")
                prompt = arguments.get("prompt") if is_json_object(arguments) else None
                if isinstance(prompt, str) and isinstance(call_id, str):
                    yield prompt, call_id


def _opening(chain: _Chain) -> str:
    """Return what a sub-agent was asked."""
    content = chain.messages[0]["content"]
    if is_json_list(content) and content and is_json_object(content[0]):
        content = content[0].get("text")
    return content if isinstance(content, str) else ""


def _claim(calls: list[tuple[str, str]], prompt: str) -> str | None:
    """Take the first call with this prompt that no other side chain has claimed."""
    for index, (asked, call_id) in enumerate(calls):
        if asked == prompt:
            del calls[index]
            return call_id
    return None
