"""Redaction: what goes, what stays, what is recorded, and what nobody can forge or guess."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventstore import (
    Conversation,
    Document,
    ErrorKind,
    Event,
    EventsArchived,
    EventsRestored,
    EventStore,
    Failure,
    GateAnswer,
    HookRaised,
    IllegalTransition,
    MessageAdded,
    ModelResponded,
    PayloadsRedacted,
    Redact,
    RedactedPayload,
    RedactionRefused,
    RunEnded,
    RunStarted,
    StoreCorrupt,
    SubjectSecret,
    ToolApproved,
    ToolCompleted,
    ToolPending,
    ToolRunning,
    ToolsOffered,
    UnknownEvent,
)
from eventstore.domain.redaction import REDACTED
from eventstore.storage.chain import payload_digest
from eventstore.storage.sqlite.driver import driver
from projections import model_history
from projections.cli import app

CARD = "4111-1111"
ANSWER = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "1", "type": "function",
     "function": {"name": "pay", "arguments": f'{{"card":"{CARD}"}}'}},
    {"id": "2", "type": "function", "function": {"name": "find", "arguments": '{"n":1}'}},
]}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file of a log whose calls are settled."""
    path = tmp_path / "agent.db"
    with EventStore.open(f"sqlite:///{path}") as store:
        chat = store.conversation("chat")
        chat.add_message("user", f"My card is {CARD}, I am Ann.")
        chat.record(ANSWER, provider="openai")
        chat.approve("1", by="mia")
        chat.start("1")
        chat.complete("1", {"card": CARD, "paid": True, "rows": [{"m": "a@b"}, {"m": "c@d"}]})
        chat.start("2")
        chat.fail("2", f"no such card: {CARD}")
        chat.add_message("assistant", f"Paid with {CARD}.")
    return path


@pytest.fixture
def store(path: Path) -> Iterator[EventStore]:
    """Return the open log."""
    with EventStore.open(f"sqlite:///{path}") as store:
        yield store


def problems(store: EventStore) -> list[tuple[int | None, str]]:
    """Return what `verify` finds: versions and problems."""
    return [(found.version, found.problem) for found in store.verify()]


def run(path: Path, statement: str, *values: object) -> list[Any]:
    """Run a statement on the file, past the library."""
    with closing(driver().connect(str(path))) as file:
        rows = file.execute(statement, values).fetchall()
        file.commit()
        return rows


def texts(chat: Conversation) -> str:
    """Return all that is read of a conversation, as one text, without digests."""
    return re.sub("[0-9a-f]{32,}", "", str([recorded.event for recorded in chat.events()]))


CHOICES: dict[str, dict[str, Any]] = {
    "the whole conversation": {"whole": True},
    "a text": {"text": CARD},
    "a pattern": {"text": re.compile(r"\d{4}-\d{4}")},
}


@pytest.mark.parametrize("chosen", CHOICES.values(), ids=CHOICES)
def test_nothing_of_it_is_left_and_the_log_is_sound(
    path: Path, store: EventStore, chosen: dict[str, Any]
) -> None:
    """Not in what is read, not in prompts, not in the file, once the store is closed."""
    done = store.redact("chat", by="ann", reason="asked for", rule="cards", **chosen)
    chat = store.conversation("chat")
    assert done.recorded_at == (chat.version,)
    assert done.guessable == ()
    assert CARD not in texts(chat)
    assert problems(store) == []
    for provider in ("openai", "anthropic", "gemini"):
        shown = str(model_history(chat).render(provider))
        assert CARD not in shown
        assert REDACTED in shown
    (record,) = [each.event for each in store.redactions()]
    assert isinstance(record, PayloadsRedacted)
    assert (record.by, record.reason, record.rule) == ("ann", "asked for", "cards")
    assert tuple(each.version for each in record.payloads) == done.versions
    read = {each.version: each.redacted for each in chat.events() if each.redacted}
    assert read == {each.version: each.marker for each in record.payloads}
    store.close()
    assert CARD.encode() not in path.read_bytes()
    with EventStore.open(f"sqlite:///{path}") as again:
        assert problems(again) == []
        assert CARD not in texts(again.conversation("chat"))


def test_one_argument_goes_and_the_rest_stays(store: EventStore) -> None:
    """With it go its other places: the attempt, the provider's form, the fingerprint."""
    chat = store.conversation("chat")
    before = {each.version: each.event for each in chat.events()}
    mark = chat.tools["1"].fingerprint
    assert mark is not None
    store.redact("chat", by="ann", calls="1", paths="arguments.card")
    after = {each.version: each for each in chat.events()}
    pending = next(e.event for e in after.values() if isinstance(e.event, ToolPending))
    assert pending.call.arguments == {"card": REDACTED}
    assert CARD not in str([e.event for e in after.values() if isinstance(e.event, ToolRunning)])
    assert list(store.read_fingerprint(mark)) == []
    assert {e.fingerprint for e in after.values() if e.call_id == "1"} == {None}
    message = next(
        e.event for e in after.values() if getattr(e.event, "turn", 0) and e.call_id is None
    )
    assert isinstance(message, MessageAdded)
    assert message.native is None
    completed = next(e for e in after.values() if isinstance(e.event, ToolCompleted))
    assert completed.event == before[completed.version]
    assert problems(store) == []


def test_members_of_a_result_go(store: EventStore) -> None:
    """A path leads into lists; the call keeps its fingerprint."""
    chat = store.conversation("chat")
    mark = chat.tools["1"].fingerprint
    done = store.redact("chat", by="ann", calls=["1"], paths=["result.rows[*].m", "result.card"])
    assert len(done.versions) == 1
    result = chat.tools["1"].status
    assert result.response.result == {  # type: ignore[union-attr]
        "card": REDACTED,
        "paid": True,
        "rows": [{"m": REDACTED}, {"m": REDACTED}],
    }
    assert chat.tools["1"].fingerprint == mark
    assert problems(store) == []
    assert store.redact("chat", by="ann", paths="result.card").versions == ()


def test_a_partly_redacted_event_goes_as_a_whole(store: EventStore) -> None:
    """The last record counts; the first one tells nothing of what was kept then."""
    store.redact("chat", by="ann", versions=[1], text=CARD)
    store.redact("chat", by="ann", versions=[1])
    event = next(store.conversation("chat").events()).event
    assert event == MessageAdded("user", event.parts)
    assert str(event.parts) == f"(Text(text={REDACTED!r}),)"
    assert problems(store) == []


def test_a_dry_run_says_the_same_and_writes_nothing(store: EventStore) -> None:
    """The text is there until it is done."""
    chat = store.conversation("chat")
    version = chat.version
    said = store.redact("chat", by="ann", text=CARD, dry_run=True)
    assert chat.version == version
    assert CARD in texts(chat)
    assert store.redact("chat", by="ann", text=CARD).versions == said.versions


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"versions": 5}, ValueError, r"versions is 5: pass a list, such as versions=\[3, 4\]"),
    ({"calls": 5}, ValueError, "calls is 5"),
    ({"paths": b"a"}, ValueError, "paths is b'a'"),
    ({"text": b"4711"}, ValueError, "text is of type bytes: pass what is to be redacted, as text"),
    ({"text": re.compile(b"4711")}, ValueError, "text is of type bytes"),
    ({"text": 4711}, ValueError, "text is of type int"),
    ({"whole": True, "reason": 5}, ValueError, "reason is 5: pass text"),
    ({"paths": ["a b"]}, ValueError, r"'a b' leads nowhere.*'arguments\[\"a.b\"\]' where a name"),
    ({"paths": ['a["b]']}, ValueError, "leads nowhere"),
    ({"paths": ["a[" + "9" * 5000 + "]"]}, ValueError, "leads nowhere"),
    ({"versions": [99]}, RedactionRefused, "no version 99"),
    ({"calls": ["9"]}, RedactionRefused, "no call '9'"),
    ({"versions": [0]}, ValueError, "version is 0: pass a version of the conversation, 1 or more"),
    ({"versions": [-1]}, ValueError, "version"),
    ({}, ValueError, "whole=True"),
    ({"whole": True, "text": "x"}, ValueError, "whole=True"),
    ({"text": re.compile("x*")}, ValueError, "found everywhere"),
    ({"text": re.compile(r"\b")}, ValueError, "places without a text"),
    ({"paths": ["a..b"]}, ValueError, "'a..b' leads nowhere"),
    ({"paths": ["a"], "text": "x"}, ValueError, "one after the other"),
    ({"calls": [""]}, ValueError, "not empty"),
    ({"paths": "parts"}, RedactionRefused, "cannot be read without that"),
    ({"paths": "role"}, RedactionRefused, "cannot be read without that"),
    ({"by": " ", "whole": True}, ValueError, "name a person"),
]  # fmt: skip


@pytest.mark.parametrize(("chosen", "error", "said"), REFUSED)
def test_a_senseless_choice_is_refused(
    store: EventStore, chosen: dict[str, Any], error: type[Exception], said: str
) -> None:
    """One error, and nothing is written."""
    version = store.conversation("chat").version
    with pytest.raises(error, match=said):
        store.redact("chat", **{"by": "ann", **chosen})
    assert store.conversation("chat").version == version


def pending(chat: Conversation) -> None:
    """Leave it as it is."""


def running(chat: Conversation) -> None:
    """Start it."""
    chat.start("9")


@pytest.mark.parametrize("state", [pending, running])
@pytest.mark.parametrize("chosen", [{"calls": "9"}, {"whole": True}, {"text": "nine"}])
def test_a_call_that_is_open_keeps_its_content(
    store: EventStore, state: Callable[[Conversation], None], chosen: dict[str, Any]
) -> None:
    """Only the log says what was asked for."""
    chat = store.conversation("chat")
    chat.request("pay", {"n": "nine"}, "9")
    state(chat)
    with pytest.raises(RedactionRefused, match="call '9' is"):
        store.redact("chat", by="ann", **chosen)
    assert "nine" in texts(chat)


def test_a_redacted_event_never_frees_a_start(store: EventStore) -> None:
    """Neither in the process that redacted, nor in another; other calls start."""
    store.redact("chat", by="ann", calls=["2"])
    chat = store.conversation("chat")
    for log in (store, EventStore.open(store.url)):
        with pytest.raises(IllegalTransition, match="an event of the call was redacted"):
            log.conversation("chat").start("2", attempt=2)
        other = log.conversation("chat").request("pay", {"n": 3})
        log.conversation("chat").start(other.id)
    assert chat.tools["2"].attempts == 1
    log.close()


def test_a_forged_marker_is_not_read_and_is_named(path: Path, store: EventStore) -> None:
    """The true digest with a result of one's own beside it: as a redaction made by hand."""
    completed = next(
        e.version for e in store.conversation("chat").events() if isinstance(e.event, ToolCompleted)
    )
    ((payload, salt, mark),) = run(
        path,
        "SELECT payload, salt, fingerprint FROM toolledger_events WHERE version = ?",
        completed,
    )
    digest = payload_digest(payload.encode(), salt, mark).hex()
    response = {"name": "pay", "result": "forged", "id": "1"}
    forged = {"redacted": digest, "call_id": "1", "response": response}
    run(
        path,
        "UPDATE toolledger_events SET payload = ?, salt = NULL WHERE version = ?",
        msgspec.json.encode(forged).decode(),
        completed,
    )
    with EventStore.open(store.url) as log:
        chat = log.conversation("chat")
        assert isinstance(list(chat.events())[completed - 1].event, UnknownEvent)
        assert "forged" not in str(model_history(chat).render("openai"))
        assert [version for version, _ in problems(log)] == [completed]
        call = chat.request("pay", {"n": 3})
        with pytest.raises(StoreCorrupt, match=f"version {completed}"):
            chat.start(call.id)


def test_a_marker_that_nobody_recorded_is_named_until_it_is(path: Path, store: EventStore) -> None:
    """Such as one by SQL. Nothing starts meanwhile, because it may have been a start."""
    ((payload, salt),) = run(path, "SELECT payload, salt FROM toolledger_events WHERE version = 1")
    digest = payload_digest(payload.encode(), salt).hex()
    marker = f'{{"redacted":"{digest}","role":"user"}}'
    run(path, "UPDATE toolledger_events SET payload = ?, salt = NULL WHERE version = 1", marker)
    with EventStore.open(store.url) as log:
        assert problems(log) == [(1, "it was redacted, and no redaction is recorded")]
        chat = log.conversation("chat")
        call = chat.request("pay", {"n": 3})
        with pytest.raises(StoreCorrupt, match=r"version 1 .* no record says so"):
            chat.start(call.id)
        log.redact("chat", by="ann", versions=[1])
        assert problems(log) == []
        chat.start(call.id)


@pytest.mark.parametrize(("other", "named"), [("3", 6), ("2", 8)])
def test_a_changed_marker_is_named_and_holds_every_start(
    path: Path, store: EventStore, other: str, named: int
) -> None:
    """A bit of the id of a call: the attempt seems to be another's, or nobody's."""
    store.redact("chat", by="ann", calls=["1"])
    running_at = next(
        e.version for e in store.conversation("chat").events() if isinstance(e.event, ToolRunning)
    )
    run(
        path,
        """UPDATE toolledger_events SET payload = replace(payload, '"call_id":"1"', ?)
        WHERE version = ?""",
        f'"call_id":"{other}"',
        running_at,
    )
    with EventStore.open(store.url) as log:
        assert (running_at, "its marker is not the recorded one") in problems(log)
        call = log.conversation("chat").request("pay", {"n": 3})
        with pytest.raises(StoreCorrupt, match=f"version {named} "):
            log.conversation("chat").start(call.id)


def test_a_redacted_text_cannot_be_guessed(path: Path, store: EventStore) -> None:
    """No digest of any candidate stands in the file: the salt is gone."""
    chat = store.conversation("codes")
    chat.add_message("user", "The code is 4711.")
    call = chat.request("unlock", {"code": 4711})
    chat.start(call.id)
    chat.complete(call.id, "open")
    payloads = [stored.payload for stored in store.session.storage.payloads("codes")]
    marks = [call.fingerprint[3:]] if call.fingerprint else []
    assert marks
    store.redact("codes", by="ann", whole=True)
    store.close()
    stored = path.read_bytes()
    for payload in payloads:
        for digest in (payload_digest(payload), payload_digest(payload, bytes(16))):
            assert digest.hex().encode() not in stored
            assert digest not in stored
    assert all(bytes.fromhex(mark) not in stored for mark in marks)
    assert run(path, "SELECT COUNT(salt) FROM toolledger_events WHERE version < 5 AND "
               "conversation = (SELECT conversation FROM toolledger_conversations WHERE "
               "conversation_id = 'codes')") == [(0,)]  # fmt: skip


def test_an_approval_with_an_edit_goes_with_its_call(store: EventStore) -> None:
    """Edited arguments are arguments, too."""
    chat = store.conversation("edits")
    chat.request("pay", {"n": 1}, "1")
    chat.approve("1", {"n": 1, "note": CARD}, by="mia")
    chat.start("1")
    chat.complete("1", "ok")
    store.redact("edits", by="ann", paths="arguments.note")
    assert CARD not in texts(chat)
    approved = [e.event for e in chat.events() if isinstance(e.event, ToolApproved)]
    assert approved[0].edited_call is not None
    assert approved[0].edited_call.arguments == {"n": 1, "note": REDACTED}
    assert problems(store) == []


def test_a_text_goes_from_every_conversation(store: EventStore) -> None:
    """At once, whether or not the report is read; what is left is in it."""
    store.conversation("b").add_message("user", f"{CARD} again")
    store.conversation("b").request("pay", {"card": CARD}, "9")
    store.conversation("c").add_message("user", "nothing")
    store.redact_everywhere(CARD, by="ann")
    assert texts(store.conversation("chat")).count(CARD) == 0
    assert texts(store.conversation("b")).count(CARD) == 1
    assert store.conversation("c").version == 1
    (done,) = store.redact_everywhere(CARD, by="ann")
    assert (done.conversation_id, done.left, done.is_complete) == ("b", {"9": "pending"}, False)
    store.conversation("b").reject("9")
    (done,) = store.redact_everywhere(CARD, by="ann")
    assert done.is_complete
    assert problems(store) == []


SAID = [
    {"reason": f"lost {CARD}"},
    {"by": CARD},
    {"rule": CARD},
    {"reason": '{"n": "4111\\u002d1111"}'},
]


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("text", [CARD, re.compile(r"\d{4}-\d{4}")])
def test_words_about_a_redaction_that_hold_its_text_are_refused(
    store: EventStore, said: dict[str, str], text: Any
) -> None:
    """The text would be stored with the record; the error does not repeat it."""
    refused = pytest.raises(ValueError, match="holds the text that is to be redacted")
    given: dict[str, Any] = {"by": "ann", **said}
    with refused as caught:
        store.redact("chat", text=text, **given)
    assert "4111" not in str(caught.value)
    with refused:
        store.redact_everywhere(text, **given)
    given["reason"] = given.get("reason") or given.pop("rule", None)
    secret = SubjectSecret(bytes(32))
    with EventStore.open(store.url, subjects=secret) as tagged, refused:
        tagged.erase_subject("ann", text=text, **given)
    assert list(store.redactions()) == []


def test_identifiers_that_hold_the_text_are_named(store: EventStore) -> None:
    """Such members stay, as do the words about an earlier redaction; the report has their names."""
    chat = store.conversation("named")
    chat.request("ask_ann", {"to": "ann"}, "ann-1")
    chat.reject("ann-1", "no ann", by="mia")
    store.redact("named", by="mia", versions=[2], reason="ann asked")
    done = store.redact("named", by="mia", text="ann")
    assert done.versions == (1,)
    assert done.kept == {1: ("id", "name", "provider_call_id"), 2: ("call_id",), 3: ("reason",)}
    assert not done.is_complete


def test_a_redaction_holds_what_others_append_meanwhile(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The redaction is planned anew on the newer log."""
    chat, storage = store.conversation("chat"), store.session.storage
    read, late = storage.payloads, iter((f"late {CARD}",))

    def payloads(conversation_id: str) -> Iterator[Any]:
        yield from read(conversation_id)
        for text in late:
            chat.add_message("user", text)

    monkeypatch.setattr(storage, "payloads", payloads)
    done = store.redact("chat", by="ann", text=CARD)
    assert CARD not in texts(chat)
    assert max(done.versions) == chat.version - 1
    assert problems(store) == []


NESTED = {"who": "Zoë", "n": 4711, "lines": ['a"b\nc']}
HIDDEN: dict[str, Any] = {
    "as it is": NESTED,
    "JSON in a text": json.dumps(NESTED),
    "JSON in JSON in a text": {"js": json.dumps({"js": json.dumps(NESTED)})},
    "JSON in words": f"The answer is {json.dumps(NESTED)}, or so.",
    "JSON that is cut off": json.dumps({"js": json.dumps(NESTED)})[:-4],
}


@pytest.mark.parametrize("result", HIDDEN.values(), ids=HIDDEN)
def test_a_text_goes_in_whatever_form_it_is_written(store: EventStore, result: Any) -> None:
    """Escaped by JSON, once or twice, and as a number."""
    chat = store.conversation("forms")
    call = chat.request("find", {"customer": json.dumps(NESTED), "n": 4711})
    chat.start(call.id)
    chat.complete(call.id, result)
    for text in ("Zoë", "4711", 'a"b\nc'):
        assert store.redact("forms", by="ann", text=text).versions
    left = "".join(p.payload.decode() for p in store.session.storage.payloads("forms"))
    left = re.sub("[0-9a-f]{32,}", "", left)  # digests and salts
    for gone in ("Zo", "u00eb", "4711", "nc"):
        assert gone not in left.replace("function", "").replace("once", "")
    assert problems(store) == []


@pytest.mark.parametrize("text", ["pay", "parts", "text", "assistant", "call_id", "1"])
def test_identifiers_and_the_form_stay(store: EventStore, text: str) -> None:
    """A text that is also the name of a tool, a member or a role."""
    chat = store.conversation("chat")
    chat.add_message("user", f"the word {text}")
    before = {each.id: each.call.name for each in chat.tools.values()}
    store.redact("chat", by="ann", text=text)
    assert {each.id: each.call.name for each in chat.tools.values()} == before
    assert f"word {text}" not in texts(chat)
    assert model_history(chat).render("openai")["messages"]
    assert problems(store) == []


OF_OTHERS = [
    f'{{"name":"{CARD}","id":"{CARD}","type":"document","{CARD}":{{"kind":["{CARD}"]}}}}',
    json.dumps(CARD),
    json.dumps([CARD, {"native": CARD}]),
    json.dumps(json.dumps({"a": CARD})),
    f"no JSON, {CARD}",
    f'{{"a":"{CARD}","a":"x"}}',
    "{",
]


@pytest.mark.parametrize("payload", OF_OTHERS)
def test_all_texts_of_an_event_of_another_program_are_looked_at(
    store: EventStore, payload: str
) -> None:
    """Whatever its members are called, and whatever its payload is."""
    chat = store.conversation("crm")
    chat.append(UnknownEvent("crm.contact", 1, payload), UnknownEvent("crm.number", 1, "4711"))
    chat.append(UnknownEvent("message", 99, json.dumps({"parts": [payload]})))
    store.redact("crm", by="mia", text=CARD)
    store.redact("crm", by="mia", text="4711")
    assert CARD not in texts(chat)
    assert "4711" not in texts(chat)
    assert problems(store) == []


@pytest.mark.parametrize(
    ("member", "left"),
    [
        ("result", {"result": REDACTED}),
        ('["a.b"]', {"a.b": REDACTED}),
        ('["a.b"].result', {"a.b": {"result": REDACTED}}),
    ],
)
def test_members_of_events_of_other_programs_have_paths(
    store: EventStore, member: str, left: dict[str, Any]
) -> None:
    """A path begins at their payload, and no member goes beside it."""
    payload = {"a.b": {"result": 1}, "result": "x", "native": 2}
    chat = store.conversation("crm")
    chat.append(UnknownEvent("crm.contact", 1, json.dumps(payload)))
    store.redact("crm", by="mia", paths=member)
    event = next(chat.events()).event
    assert isinstance(event, UnknownEvent)
    assert json.loads(event.payload) == payload | left


ODD = {"a.b": CARD, "x y": [{"": CARD}], 'q"]': CARD, "plain": 1}


def test_members_with_odd_names_have_paths(store: EventStore) -> None:
    """A name with dots, blanks, brackets or quotes, or none at all, is quoted as in JSON."""
    chat = store.conversation("odd")
    chat.request("find", ODD, "1")
    chat.reject("1")
    paths = ['arguments["a.b"]', 'arguments["x y"][0][""]', r'arguments["q\"]"]']
    store.redact("odd", by="mia", paths=paths)
    wanted = {"a.b": REDACTED, "x y": [{"": REDACTED}], 'q"]': REDACTED, "plain": 1}
    assert chat.tools["1"].call.arguments == wanted
    assert problems(store) == []


def test_the_title_of_a_document_is_a_text(store: EventStore) -> None:
    """Its member is called `name`, as that of a tool."""
    chat = store.conversation("files")
    chat.add_message("user", Document(url="https://x", name=f"{CARD}.pdf"))
    store.redact("files", by="mia", text=CARD)
    assert CARD not in texts(chat)
    assert problems(store) == []


def test_nothing_but_identifiers_is_left_of_a_whole_conversation(store: EventStore) -> None:
    """The agent goes, too, and so do a conflict of gates and an odd reason of a response."""
    chat = store.conversation("run")
    chat.append(
        RunStarted(CARD),
        ToolsOffered(1, ("find",), (), (GateAnswer("g", ()),), {CARD: CARD, "suppressed": [CARD]}),
        ModelResponded("openai", "m", finish_reason=CARD),
        ModelResponded("openai", "m", finish_reason="length"),
        HookRaised(CARD, "hook", Failure(ErrorKind.INTERNAL, CARD)),
        RunEnded("error", Failure(ErrorKind.INTERNAL, CARD)),
    )
    done = store.redact("run", by="mia", whole=True)
    assert done.versions == (1, 2, 3, 5, 6)
    assert CARD not in texts(chat)
    events = [each.event for each in chat.events()]
    assert [type(event) for event in events[:4]] == [
        RunStarted, ToolsOffered, ModelResponded, ModelResponded,
    ]  # fmt: skip
    assert events[3] == ModelResponded("openai", "m", finish_reason="length")
    assert store.redact("run", by="mia", whole=True).versions == ()
    assert problems(store) == []


def test_an_event_of_another_program_goes_in_part_and_then_as_a_whole(store: EventStore) -> None:
    """First a text, then the whole; a payload that is one value stops nothing."""
    chat = store.conversation("crm")
    chat.append(UnknownEvent("crm.contact", 1, f'{{"who":"Ann","card":"{CARD}"}}'))
    chat.append(UnknownEvent("crm.number", 1, "5"))
    store.redact("crm", by="mia", text=CARD)
    assert "Ann" in texts(chat)
    store.redact("crm", by="mia", versions=[1])
    assert "Ann" not in texts(chat)
    assert problems(store) == []


RECORD = PayloadsRedacted("eve", (RedactedPayload(1, "0" * 32),))
MADE_UP: list[tuple[Event, str]] = [
    (RECORD, r"store\.redact\("),
    (UnknownEvent("redacted", 1, '{"by":"eve","payloads":[]}'), r"store\.redact\("),
    (UnknownEvent("redacted", 2, "{}"), r"store\.redact\("),
    (EventsArchived("eve", 1, "a.jsonl"), r"store\.retain\("),
    (EventsRestored("eve", 1), r"store\.restore\("),
    (UnknownEvent("crm", 1, f'{{"redacted":"{"0" * 64}"}}'), "blank behind the brace"),
    (UnknownEvent("crm", 1, '{"detached":"house"}'), "blank behind the brace"),
    (UnknownEvent("crm", 1, '{"encrypted":"4711","by":"us"}'), "blank behind the brace"),
]


@pytest.mark.parametrize(("event", "remedy"), MADE_UP)
def test_nobody_says_that_something_was_redacted_but_a_redaction(
    store: EventStore, event: Event, remedy: str
) -> None:
    """An append of a record is refused; a fork of a redacted conversation copies its records."""
    store.redact("chat", by="ann", versions=[1])
    chat = store.conversation("chat")
    version = chat.version
    with pytest.raises(ValueError, match=remedy):
        chat.append(event)
    assert chat.version == version
    chat.fork(version, "copy")
    assert len(list(store.redactions())) == 2
    assert problems(store) == []


def test_a_conversation_that_cannot_be_read_holds_up_no_other(
    path: Path, store: EventStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text goes from all that can be read; the one that is left is named, with its damage."""
    for name in ("a", "b", "c"):
        store.conversation(name).add_message("user", f"My card is {CARD}")
    store.conversation("b").append(UnknownEvent("crm", 1, '{ "detached":"x"}'))
    with closing(driver().connect(path)) as database:
        database.execute("update toolledger_events set payload = replace(payload, '{ ', '{')")
        database.commit()
    command = ["redact", "--text", CARD, "--by", "mia", "--url", f"sqlite:///{path}"]
    assert app.run(command) == 1
    assert "'b' is damaged, and was left: payloads of" in capsys.readouterr().out
    (left,) = store.redact_everywhere(CARD, by="mia")
    assert (left.conversation_id, left.versions, left.is_complete) == ("b", (), False)


def test_an_event_of_another_program_is_never_taken_for_a_stand_in() -> None:
    """Neither what a rule makes of it as it is stored, nor a copy of what a redaction left."""
    rule = Redact("letter", re.compile("x"))
    with closing(EventStore.open("sqlite://", redact=[rule])) as store:
        chat = store.conversation("chat")
        for name in ("redacted", "detached", "encrypted"):
            chat.append(UnknownEvent("crm", 1, f'{{ "{name}" : "x 4711", "by": "us" }}'))
        store.redact("chat", by="mia", text="4711")
        chat.fork(chat.version, "copy")
        events = [each.event for each in store.read()]
        read = [json.loads(each.payload) for each in events if isinstance(each, UnknownEvent)]
        assert [each["by"] for each in read[:3]] == ["us"] * 3
        assert problems(store) == []
        store.conversation("copy").add_message("user", "It can be continued.")


def test_the_command_says_what_it_found(
    store: EventStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """If it found nothing, or left something, it says so, and the status is 1."""
    store.conversation("b").request("pay", {"card": CARD}, CARD)
    command = ["redact", "--by", "mia", "--url", store.url]
    for chosen, status, said in (
        (["--text", "NOTFOUND"], 1, "nothing to redact: no conversation has it"),
        (["chat", "--call", "1", "--path", 'arguments["a.b"]'], 1, "none of its events has arg"),
        (["--text", CARD, "--dry-run"], 1, "of 'chat' would be redacted: version 1, 3"),
        (["--text", CARD, "--dry-run"], 1, f"note: call '{CARD}' is pending, and was left"),
        (["chat", "--text", CARD], 0, "of 'chat' redacted: version 1, 3"),
    ):
        assert app.run([*command, *chosen]) == status
        assert said in capsys.readouterr().out
    assert app.run([*command, "--text", CARD, "--reason", CARD]) == 1
    assert "reason holds the text" in capsys.readouterr().err


def test_the_fingerprint_beside_a_marker_is_that_of_the_event(
    store: EventStore, path: Path
) -> None:
    """The payload's digest covers it no more, so the marker says which one it is."""
    chat = store.conversation("chat")
    (done,) = (each for each in chat.events() if type(each.event) is ToolCompleted)
    store.redact("chat", by="mia", versions=[done.version])
    assert problems(store) == []
    run(
        path,
        "UPDATE toolledger_events SET fingerprint = randomblob(16) WHERE version = ?",
        done.version,
    )
    assert problems(store) == [
        (done.version, "its marker of a redaction is not as the library writes it")
    ]


def test_no_salt_of_a_row_stands_in_a_marker(store: EventStore, path: Path) -> None:
    """With it, and what is left, arguments that are gone could be guessed, and the guess confirmed.

    The events of a call keep all but their fingerprint where its arguments go.
    """
    salts = [salt.hex() for (salt,) in run(path, "SELECT salt FROM toolledger_events")]
    store.redact("chat", by="mia", paths=["arguments.card"])
    stored = "".join(text for (text,) in run(path, "SELECT payload FROM toolledger_events"))
    assert '"members"' in stored
    assert not [salt for salt in salts if salt in stored]


def test_a_call_whose_edit_is_gone_does_not_show_what_was_asked_first(store: EventStore) -> None:
    """Other arguments ran, and nobody knows them any more."""
    chat = store.conversation("edited")
    call = chat.request("refund", {"to": "mallory"})
    chat.approve(call.id, edited_arguments={"to": "ann"})
    chat.start(call.id)
    chat.complete(call.id, {"paid": 5})
    store.redact("edited", by="mia", versions=[2])
    assert "mallory" not in str(model_history(chat).render("openai"))
    assert chat.tools[call.id].effective_call.raw == REDACTED
    assert problems(store) == []
