"""Rules of a store see every text before it is stored, whichever way it comes in."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from eventstore import (
    AsyncDispatcher,
    AsyncEventStore,
    Conversation,
    Dispatcher,
    Document,
    ErrorKind,
    EventStore,
    Failure,
    FunctionCall,
    FunctionResponse,
    FunctionTool,
    HookAnswer,
    HookRaised,
    Image,
    MessageAdded,
    ModelResponded,
    Opaque,
    Redact,
    Reject,
    RuleFailed,
    RunEnded,
    RunStarted,
    Text,
    ToolApproved,
    ToolCompleted,
    ToolEndedLate,
    ToolFailed,
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRunning,
    ToolsOffered,
    UnknownEvent,
    recording,
)
from eventstore.domain.redaction import REDACTED
from eventstore.importers import import_file
from projections import model_history

CODE = "ZX-4711-QQ"
ESCAPED = CODE.replace("Z", "\\u005a")
RULE = Redact("code", re.compile("ZX-[0-9]{4}-QQ"))
MARK = "[redacted: code]"
ARGUMENTS = {"code": CODE, "deep": [{CODE: f"it is {CODE}"}], "text": json.dumps({"c": CODE})}
FAILURE = Failure(ErrorKind.INTERNAL, CODE, CODE, traceback=f"Traceback {CODE}")
HOOKS = (HookAnswer("check", "approve", CODE),)


def of_openai() -> dict[str, Any]:
    """Return a message of OpenAI whose arguments are JSON text, with escapes."""
    text = json.dumps({"code": CODE, "word": ESCAPED}).replace("\\\\", "\\")
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": text}}
    return {"role": "assistant", "content": CODE, "refusal": CODE, "tool_calls": [call]}


def of_anthropic() -> dict[str, Any]:
    """Return a message of Anthropic with a part that only Anthropic reads."""
    thinking = {"type": "thinking", "thinking": CODE, "signature": "s"}
    use = {"type": "tool_use", "id": "c1", "name": "look", "input": ARGUMENTS}
    return {"role": "assistant", "content": [thinking, {"type": "text", "text": CODE}, use]}


def recorded(chat: Conversation) -> None:
    """Record messages of providers, with answers."""
    chat.record({"role": "user", "content": CODE})
    chat.record(of_openai())
    chat.record({"role": "tool", "tool_call_id": "c1", "content": json.dumps({"c": ESCAPED})})
    chat.record(of_anthropic(), "anthropic")
    chat.record_messages([{"role": "system", "content": CODE}, of_openai()])
    chat.add_message("user", [Text(CODE), Document(url=f"https://x/{CODE}", name=CODE)])
    chat.turn(
        CODE, [FunctionCall.of("look", f'{{"code": "{ESCAPED}'), FunctionCall.of("a", [CODE])]
    )


def called(chat: Conversation) -> None:
    """Take calls through all their steps."""
    tool = chat.request("look", ARGUMENTS)
    seen = chat.approve(tool.id, {"code": CODE, "n": 1}, reason=CODE, seen=tool)
    assert chat.approve(tool.id, {"code": CODE, "n": 1}, reason=CODE, seen=tool) == seen
    with suppress(ValueError), chat.running(tool.id) as attempt:
        assert attempt.arguments == {"code": MARK, "n": 1}
        raise ValueError(CODE)
    assert chat.tool(tool.id).attempts == 1
    chat.start(tool.id, attempt=2)
    chat.complete(tool.id, {"found": [CODE], CODE: CODE})
    chat.reject(chat.request("look", {}).id, CODE, details={"why": [CODE]})
    chat.defer(chat.request("look", CODE).id, 4 * 10**15, CODE)
    failed = chat.request("look", json.dumps(ARGUMENTS)).id
    chat.start(failed)
    chat.fail(failed, CODE)


def appended(chat: Conversation) -> None:
    """Append an event of each class with texts."""
    call = FunctionCall("look", ARGUMENTS, "c1")
    native = {"content": [{CODE: CODE}, ESCAPED]}
    answer = FunctionResponse("look", [CODE, {"c": CODE}], "c1")
    chat.append(
        ToolPending(call),
        ToolApproved("c1", FunctionCall("look", {"x": CODE}, "c1"), "ann", CODE, HOOKS),
        ToolRunning("c1", 1, {"x": CODE}, HOOKS),
        ToolPaused("c1", 1, None, CODE, hooks=HOOKS),
        ToolRunning("c1", 2, {"x": CODE}),
        ToolFailed("c1", FAILURE, 2, provider="openai", native=native, hooks=HOOKS, reason=CODE),
        ToolEndedLate("c1", 1, answer, FAILURE, CODE),
        ToolCompleted("c1", answer, 2, provider="openai", native=native, by="ann", reason=CODE),
        ToolPending(FunctionCall("look", None, "c2", f"not {CODE}")),
        ToolRejected("c2", CODE, details={"d": CODE}, provider="openai", native=[CODE]),
        MessageAdded("user", (Opaque("openai", {CODE: CODE}), Image(url=f"https://x/{CODE}"))),
        MessageAdded("assistant", (Text("Hi"),), provider="openai", native=native, exact=True),
        ToolsOffered(1, ("look",), conflict={"text": CODE}),
        HookRaised("check", "hook", FAILURE, "c2", HOOKS),
        RunEnded("error", FAILURE),
        UnknownEvent("of_others", 1, json.dumps({"a": {"id": CODE}, "b": ESCAPED})),
    )


def streamed(chat: Conversation) -> None:
    """Record a stream that breaks off in the middle of arguments."""
    function = {"name": "look", "arguments": f'{{"code": "{ESCAPED}'}
    calls = [{"index": 0, "id": "c1", "type": "function", "function": function}]
    chunks = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": CODE[:4]}}]},
        {"choices": [{"index": 0, "delta": {"content": CODE[4:], "tool_calls": calls}}]},
    ]
    with recording(iter(chunks), chat) as stream:
        list(stream)


def _look(code: str) -> dict[str, str]:
    """Look."""
    assert code == MARK
    return {"code": CODE}


def _broken(code: str) -> str:
    """Break."""
    raise ValueError(f"{code} {CODE}")


def _refuse(tool: Any) -> Reject | None:
    return Reject(CODE) if tool.call.name == "never" else None


TOOLS = [FunctionTool(_look, name="look"), FunctionTool(_broken, name="broken")]
NAMES = ("look", "broken", "never")


def dispatched(chat: Conversation) -> None:
    """Let a dispatcher run calls, with hooks and failures with tracebacks."""
    calls = [chat.request(name, {"code": CODE}) for name in NAMES]
    Dispatcher(chat, TOOLS, hooks=[_refuse], tracebacks=True).dispatch(calls)


def imported(chat: Conversation) -> None:
    """Import a history of messages."""
    chat.import_messages([{"role": "user", "content": CODE}, of_openai()])
    chat.import_messages([{"role": "user", "content": CODE}, of_openai()])


def forked(chat: Conversation) -> None:
    """Fork."""
    recorded(chat)
    chat.fork(3, "copy")


WAYS = [recorded, called, appended, streamed, dispatched, imported, forked]


def bytes_of(path: Path) -> bytes:
    """Return the bytes of a database's files, with all that its log has."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return b"".join(each.read_bytes() for each in path.parent.glob("*.db*"))


def check_covered(path: Path, url: str) -> None:
    """Check that the code stands nowhere, that its mark does, and that the log is sound."""
    with closing(EventStore.open(url)) as store:
        assert list(store.verify()) == []
        for name, _ in store.conversations():
            chat = store.conversation(name)
            for provider in ("openai", "anthropic"):
                assert "4711" not in str(model_history(chat).render(provider))
            for tool in chat.tools.values():
                assert tool.fingerprint == tool.effective_call.fingerprint
    stored = bytes_of(path)
    assert MARK.encode() in stored
    assert b"4711" not in stored


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a database."""
    return tmp_path / "log.db"


@pytest.fixture
def url(path: Path) -> str:
    """Return its URL."""
    return f"sqlite:///{path}"


@pytest.mark.parametrize("way", WAYS)
def test_a_secret_stands_nowhere_whichever_way_it_came(
    way: Callable[[Conversation], None], path: Path, url: str
) -> None:
    """Not in the file of the database, nor in its log, nor in a prompt."""
    with closing(EventStore.open(url, redact=[RULE])) as store:
        way(store.conversation("chat"))
    check_covered(path, url)


def test_appends_of_asyncio_are_covered(path: Path, url: str) -> None:
    """The appends of tasks go the same way."""

    async def run() -> None:
        async with AsyncEventStore.open(url, redact=[RULE]) as store:
            chat = store.conversation("chat")
            await chat.record(of_openai())
            await chat.add_message("user", CODE)
            calls = [await chat.request(name, {"code": CODE}) for name in NAMES]
            await AsyncDispatcher(chat, TOOLS, hooks=[_refuse], tracebacks=True).dispatch(calls)

    asyncio.run(run())
    check_covered(path, url)


def test_appends_in_a_transaction_of_the_host_are_covered(path: Path, url: str) -> None:
    """Events inside of a host's transaction are covered, too."""
    with closing(EventStore.open(url, redact=[RULE])) as store:
        engine = create_engine(url)
        with engine.begin() as connection:
            called(store.conversation("chat", connection=connection))
        engine.dispose()
    check_covered(path, url)


def test_imported_files_of_other_tools_are_covered(tmp_path: Path, path: Path, url: str) -> None:
    """An importer appends through the store."""
    file = tmp_path / "messages.json"
    file.write_text(json.dumps([{"role": "user", "content": CODE}, of_openai()]))
    with closing(EventStore.open(url, redact=[RULE])) as store:
        import_file(store, file)
    check_covered(path, url)


def _raise(text: str) -> None:
    if "4711" in text:
        raise ValueError(text)


def test_nothing_of_a_text_is_stored_where_a_rule_fails(path: Path, url: str) -> None:
    """A message is refused; a result is stored without the text."""
    with closing(EventStore.open(url, redact=[Redact("own", _raise)])) as store:
        chat = store.conversation("chat")
        with pytest.raises(RuleFailed, match="'own' raised ValueError") as refused:
            chat.record(of_openai())
        assert "4711" not in str(refused.value)
        assert chat.version == 0
        tool = chat.request("look", {"n": 1})
        chat.start(tool.id)
        done = chat.complete(tool.id, {"id": 7, "text": CODE})
        assert done.response is not None
        withheld = "[withheld: the redaction rule own raised ValueError]"
        assert done.response.result == {"id": 7, "text": withheld}
    assert b"4711" not in bytes_of(path)


def test_calls_are_equal_that_differ_only_in_a_covered_text(url: str) -> None:
    """The arguments of the log count, because those run."""
    with closing(EventStore.open(url, redact=[RULE])) as store:
        chat = store.conversation("chat")
        first, second = chat.request("pay", {"to": CODE}), chat.request("pay", {"to": "ZX-1-QQ"})
        third = chat.request("pay", {"to": CODE.replace("7", "8")}, "c3")
        assert first.fingerprint == third.fingerprint != second.fingerprint
        assert chat.request("pay", {"to": CODE}, "c3") == third


def test_identifiers_persons_who_decided_and_images_stay() -> None:
    """A rule that finds every text does not change what an event is."""
    words = Redact("any", re.compile(r".{2,}"))
    with closing(EventStore.open("sqlite://", redact=[words])) as store:
        chat = store.conversation("chat")
        chat.add_message("user", Image(data="aGFsbG8=", media_type=None))
        chat.approve(chat.request("look", {"n": 1}, "c1").id, by="ann@example.com", reason="why")
        image, asked, approved = (each.event for each in chat.events())
        assert isinstance(image, MessageAdded)
        assert image.parts == (Image(data="aGFsbG8="),)
        assert (asked.call_id, asked.call.name) == ("c1", "look")
        assert (approved.by, approved.reason) == ("ann@example.com", "[redacted: any]")


NUMBER = Redact("code", re.compile("4711"))
VALUES: list[Any] = [
    CODE,
    {"a.b": CODE, CODE: [CODE, {"id": CODE, "type": "document", "name": CODE}]},
    [4711, 1.4711, True, None],
    json.dumps({"js": json.dumps([CODE, {CODE: 4711}])}),
    f"it is {json.dumps(CODE)}, or {ESCAPED.replace('Z', chr(92) + 'u005a')}",
    json.dumps({"js": json.dumps(CODE)})[:-3],
    4711,
]


def texts_of(store: EventStore) -> list[str]:
    """Return what is read of a log with each value at each place that has texts."""
    chat = store.conversation("chat")
    for value in VALUES:
        call = chat.request("look", value if isinstance(value, dict) else [value])
        chat.start(call.id)
        chat.complete(call.id, value)
        chat.append(
            MessageAdded("user", (Opaque("openai", value), Document(url="x", name=str(value)))),
            ToolsOffered(1, ("look",), conflict={"text": value}),
            RunStarted(str(value)),
            RunEnded("error", Failure(ErrorKind.INTERNAL, str(value))),
            UnknownEvent("of_others", 1, json.dumps(value)),
        )
    chat.append(*(ModelResponded("openai", finish_reason=str(value)) for value in VALUES))
    store.redact("chat", by="mia", text=re.compile("4711"))
    assert list(store.verify()) == []
    kept = [each.event for each in chat.events() if not isinstance(each.event, ToolRunning)]
    return [str(event).replace(MARK, REDACTED) for event in kept if event.tag != "redacted"]


def test_the_same_texts_are_covered_before_they_are_stored_and_afterwards() -> None:
    """The rules of a store and a redaction look at the same places, in the same way."""
    with (
        closing(EventStore.open("sqlite://", redact=[NUMBER])) as before,
        closing(EventStore.open("sqlite://")) as after,
    ):
        covered, redacted = texts_of(before), texts_of(after)
    assert [each for each in covered if "4711" in each] == []
    assert covered == redacted
