"""Session logs of Claude Code: one record a line, Anthropic content blocks inside.

A message of the model stands in several records with one message id, some of them twice. The
records of sub-agents (side chains) stand between those of the session that started them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from projections.sources.problems import Problems
from projections.sources.transcripts import Transcript

NAME = "claude-code"

_SAYS_NOTHING = frozenset(
    {"summary", "system", "file-history-snapshot", "queue-operation", "progress", "attachment"}
)
_canonical = msgspec.json.Encoder(order="deterministic").encode


def is_record(value: Any) -> bool:
    """Whether a value is a record of a session log."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    if value["type"] in ("user", "assistant"):
        return isinstance(value.get("message"), dict) and ("sessionId" in value or "uuid" in value)
    return "sessionId" in value or "leafUuid" in value or value["type"] == "file-history-snapshot"


class _Chain:
    """One conversation of a log, as its records come."""

    def __init__(self, parent: _Chain | None = None, agent: str | None = None) -> None:
        self.parent = parent
        self.agent = agent
        self.sessions: list[str] = []
        self.messages: list[dict[str, Any]] = []
        self.lines: list[int] = []
        self.said: dict[str, set[bytes]] = {}  # message id -> its content blocks so far
        self.chains = 0  # of sub-agents

    def add(self, line: int, message: dict[str, Any]) -> None:
        """Take in a message."""
        self.messages.append(message)
        self.lines.append(line)


class SessionLog:
    """The conversations of one session log."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._chains: list[_Chain] = []
        self._by_record: dict[str, _Chain] = {}
        self._by_session: dict[str, _Chain] = {}
        self._by_agent: dict[str, _Chain] = {}

    def extend(self, values: Iterable[tuple[int, Any]]) -> None:
        """Take in the records of a file, with their lines."""
        for line, value in values:
            if is_record(value):
                self._record(line, value)
            else:
                self._problems.add("not a record of a session log", line)

    def transcripts(self, stem: str, name: str | None) -> Iterator[Transcript]:
        """The conversations: each session before its side chains."""
        ids: dict[int, str] = {}
        mains = [chain for chain in self._chains if chain.parent is None]
        for chain in mains:
            own = stem if stem in chain.sessions or not chain.sessions else chain.sessions[-1]
            ids[id(chain)] = own if name is None else name if len(mains) == 1 else f"{name}/{own}"
        sides = [chain for chain in self._chains if chain.parent is not None]
        for chain in sides:
            if chain.parent is not None:
                chain.parent.chains += 1
                ids[id(chain)] = (
                    f"{ids[id(chain.parent)]}/sidechain-{chain.agent or chain.parent.chains}"
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
                chain.lines,
                ids[id(parent)] if parent else None,
                _claim(calls[id(parent)], _opening(chain)) if parent else None,
            )

    # records

    def _record(self, line: int, record: dict[str, Any]) -> None:
        uuid = record.get("uuid")
        if isinstance(uuid, str) and uuid in self._by_record:
            self._problems.add("the same record again", line)
            return
        if record["type"] not in ("user", "assistant"):
            if isinstance(uuid, str) and (chain := self._parent(record)):
                self._by_record[uuid] = chain
            if record["type"] not in _SAYS_NOTHING:
                self._problems.add(f"a {record['type']} record, which holds no message", line)
            return
        if not isinstance(uuid, str):
            self._problems.add("a record without a uuid, from another stream", line)
            return
        chain = self._by_record[uuid] = self._chain(record)
        message = record["message"]
        if record["type"] == "user":
            chain.add(line, {"role": "user", "content": message.get("content")})
        else:
            self._assistant(line, chain, message)

    def _assistant(self, line: int, chain: _Chain, message: dict[str, Any]) -> None:
        key, content = message.get("id"), message.get("content")
        if not isinstance(key, str):
            chain.add(line, {"role": "assistant", "content": content})
            return
        said = chain.said.setdefault(key, set())
        blocks = content if isinstance(content, list) else [content]
        marked = [(_mark(block), block) for block in blocks]
        new = [block for mark, block in marked if mark not in said]
        said.update(mark for mark, _ in marked)
        if len(new) < len(blocks):
            self._problems.add("the same assistant message again", line, detail=key)
        if new:
            fresh = new if isinstance(content, list) else content
            chain.add(line, {"role": "assistant", "id": key, "content": fresh})

    def _parent(self, record: dict[str, Any]) -> _Chain | None:
        return self._by_record.get(_text(record, "parentUuid"))

    def _chain(self, record: dict[str, Any]) -> _Chain:
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

    def _side(self, record: dict[str, Any]) -> _Chain:
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


def _text(record: dict[str, Any], key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""


def _mark(block: Any) -> bytes:
    try:
        return _canonical(block)
    except (TypeError, ValueError, RecursionError):
        return repr(block).encode("utf-8", "backslashreplace")


def _agent_calls(chain: _Chain) -> Iterator[tuple[str, str]]:
    """The calls that start a sub-agent: prompt and id."""
    for message in chain.messages:
        content = message["content"]
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_use":
                given, call_id = block.get("input"), block.get("id")
                prompt = given.get("prompt") if isinstance(given, dict) else None
                if isinstance(prompt, str) and isinstance(call_id, str):
                    yield prompt, call_id


def _opening(chain: _Chain) -> str:
    """What a sub-agent was asked."""
    content = chain.messages[0]["content"]
    if isinstance(content, list) and content and isinstance(content[0], dict):
        content = content[0].get("text")
    return content if isinstance(content, str) else ""


def _claim(calls: list[tuple[str, str]], prompt: str) -> str | None:
    """The first call with this prompt that no other side chain has claimed."""
    for place, (asked, call_id) in enumerate(calls):
        if asked == prompt:
            del calls[place]
            return call_id
    return None
