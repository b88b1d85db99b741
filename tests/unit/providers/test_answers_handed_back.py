"""A prompt that comes back: what the model was shown of a call is no new answer to it."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from eventstore import Conversation, EventStore, Failure, FunctionCall
from eventstore.domain.doubt import MAY_HAVE_TAKEN_EFFECT
from eventstore.domain.finish_reasons import why_not_whole
from eventstore.domain.own_texts import error_as_text, error_of_text
from eventstore.providers.registry import ProviderName, list_key
from projections import model_history

SECRET = Failure.from_exception(RuntimeError("at 10.0.0.7"))
ENDS: dict[str, str | Failure] = {
    "failed": "card declined",
    "failed with other words for the model": Failure(
        SECRET.kind, SECRET.message, model_message="try later"
    ),
    "cut off": why_not_whole("openai", "length") or "",
    "in doubt": Failure(SECRET.kind, "hung up", in_doubt=True),
}


def talk(chat: Conversation) -> None:
    """Let the model ask for a call."""
    chat.add_message("user", "refund order 7")
    chat.turn("", [FunctionCall.of("refund", {"order": 7}, "call12345")])


def prompt_of(chat: Conversation, provider: ProviderName) -> list[Any]:
    """Return the messages that the model reads."""
    messages: list[Any] = model_history(chat).render(provider)[list_key(provider)]
    return messages


@pytest.mark.parametrize("provider", get_args(ProviderName))
@pytest.mark.parametrize("end", [*ENDS, "rejected", "rejected with a reason"])
def test_a_failure_or_refusal_that_is_handed_back_changes_nothing(
    chat: Conversation, store: EventStore, provider: ProviderName, end: str
) -> None:
    """In the conversation itself it is known; in another one the call has not been completed."""
    talk(chat)
    if end in ENDS:
        chat.start("call12345")
        chat.fail("call12345", ENDS[end])
    else:
        chat.reject("call12345", "not today" if "reason" in end else None)
    prompt, version = prompt_of(chat, provider), chat.version
    assert len(prompt) >= 3
    chat.record_messages(prompt[-1:], provider)
    assert chat.tools["call12345"].status.name in ("Failed", "Rejected")
    assert chat.version == version
    other = store.conversation("another")
    other.import_messages(prompt, provider)
    (tool,) = other.tools.values()
    assert tool.status.name == "Failed"
    assert tool.in_doubt is (end == "in doubt")
    assert prompt_of(other, provider) == prompt


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"error":"no"}', "no"),
        ('{"error":"a\\nb"}\n[1 other attempt failed]', "a\nb\n[1 other attempt failed]"),
        ('{"error": "written by others"}', None),
        ('{"error":"no","code":3}', None),
        ('{"error":"no"}\nmore', None),
        ('{"error":null}', None),
        ('{"error":"', None),
    ],
)
def test_only_an_error_as_it_is_written_here_is_read_as_one(text: str, said: str | None) -> None:
    """A result that programs of others wrote stays what it was, byte by byte."""
    assert error_of_text(text) == said
    if said is not None and "\n[" not in text:
        assert error_as_text(said) == text


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "cohere"])
def test_the_words_of_a_doubt_are_a_doubt_wherever_they_stand(
    chat: Conversation, provider: ProviderName
) -> None:
    """A framework may have put them into JSON, or taken the mark of an error away."""
    talk(chat)
    prompt = prompt_of(chat, provider)
    said = f"hung up. {MAY_HAVE_TAKEN_EFFECT}"
    key = "output" if provider == "openai-responses" else "content"
    chat.record_messages([{**prompt[-1], key: f'{{"result":"{said}"}}'}], provider)
    assert chat.tools["call12345"].in_doubt
    assert chat.tools["call12345"].status.name == "Failed"


def ask_for(chat: Conversation, provider: ProviderName, *names: str) -> list[str]:
    """Let the model ask for several calls, with no ids if the provider needs none."""
    chat.add_message("user", "go on")
    if provider == "gemini":
        asked = [{"functionCall": {"name": name, "args": {"n": n}}} for n, name in enumerate(names)]
        return [tool.id for tool in chat.record({"role": "model", "parts": asked}, provider)]
    calls = [FunctionCall.of(name, {"n": n}, f"call1234{n}") for n, name in enumerate(names)]
    return [tool.id for tool in chat.turn("", calls)]


def settle(chat: Conversation, call_id: str, end: object) -> None:
    """Run a call, or refuse it."""
    if end == "rejected":
        chat.reject(call_id, "not today")
        return
    chat.start(call_id)
    if isinstance(end, Failure):
        chat.fail(call_id, end)
    else:
        chat.complete(call_id, end)


RESULTS: list[object] = ["paid", {"n": [1, "paid"]}, ["a", "b"], 7]


@pytest.mark.parametrize("provider", get_args(ProviderName))
@pytest.mark.parametrize("pieces", ["at once", "one by one"])
@pytest.mark.parametrize(
    ("names", "settled", "end"),
    [
        *[("aa", [0], end) for end in [*RESULTS, "rejected", SECRET, ENDS["in doubt"]]],
        ("aa", [1], "paid"),
        ("ab", [0], "paid"),
        ("aaba", [0, 2, 3], "paid"),
        ("aaba", [0, 2, 3], "rejected"),
    ],
)
def test_a_waiting_call_is_not_answered_by_what_was_said_of_another(
    chat: Conversation,
    provider: ProviderName,
    pieces: str,
    names: str,
    settled: list[int],
    end: object,
) -> None:
    """The results of the prompt are those of the calls in their places."""
    call_ids = ask_for(chat, provider, *names)
    for place in settled:
        settle(chat, call_ids[place], end)
    before, version = chat.tools, chat.version
    results = prompt_of(chat, provider)[-1:]
    if provider not in ("anthropic", "bedrock", "gemini"):  # a message for each
        results = prompt_of(chat, provider)[-len(names) :]
    for piece in [results] if pieces == "at once" else [[result] for result in results]:
        chat.record_messages(piece, provider)
    assert chat.tools == before
    assert chat.version == version


def said(provider: ProviderName, *results: str) -> list[Any]:
    """Return messages with results of the tool `a`, without ids."""
    if provider == "gemini":
        bodies = [{"name": "a", "response": {"output": result}} for result in results]
        return [{"role": "user", "parts": [{"functionResponse": body} for body in bodies]}]
    return [{"role": "tool", "tool_name": "a", "content": result} for result in results]


def results_of(chat: Conversation) -> list[object]:
    """Return the results of the calls, None where a call has none."""
    return [tool.response and tool.response.result for tool in chat.tools.values()]


@pytest.mark.parametrize("provider", ["gemini", "ollama"])
def test_equal_results_that_a_host_records_one_by_one_are_each_an_answer(
    chat: Conversation, provider: ProviderName
) -> None:
    """No call was started here: so the results are of the host. All of them again are repeats."""
    ask_for(chat, provider, "a", "a", "a")
    for _ in range(2):
        chat.record_messages(said(provider, "ok"), provider)
    assert results_of(chat) == ["ok", "ok", None]
    chat.record_messages(said(provider, "ok", "ok", "new"), provider)
    assert results_of(chat) == ["ok", "ok", "new"]
    version = chat.version
    chat.record_messages(said(provider, "ok", "ok", "new"), provider)
    for text in ("ok", "new"):
        chat.record_messages(said(provider, text), provider)
    assert chat.version == version


@pytest.mark.parametrize("provider", ["gemini", "ollama"])
@pytest.mark.parametrize("results", [["new"], ["ok", "new"], ["ok", "ok"], ["other", "new"]])
def test_a_new_result_reaches_the_call_that_waits(
    chat: Conversation, provider: ProviderName, results: list[str]
) -> None:
    """Alone it is new by its words, and among all results of the turn by its place."""
    first, _ = ask_for(chat, provider, "a", "a")
    settle(chat, first, "ok")
    chat.record_messages(said(provider, *results), provider)
    assert results_of(chat) == ["ok", results[-1]]


@pytest.mark.parametrize("meanwhile", ["the first ran", "the user spoke"])
@pytest.mark.parametrize("provider", ["gemini", "ollama"])
def test_a_result_that_follows_a_later_call_is_of_that_call(
    chat: Conversation, provider: ProviderName, meanwhile: str
) -> None:
    """Both come in one append: a call of the turn before waits on."""
    first, _ = ask_for(chat, provider, "a", "a")
    if meanwhile == "the first ran":
        settle(chat, first, "ok")
    else:
        chat.add_message("user", "find 8 first")
    asked: Any = {"role": "assistant", "tool_calls": [{"function": {"name": "a"}}]}
    if provider == "gemini":
        asked = {"role": "model", "parts": [{"functionCall": {"name": "a"}}]}
    chat.record_messages([asked, *said(provider, "found")], provider)
    assert results_of(chat)[1:] == [None, "found"]


@pytest.mark.parametrize("pieces", ["at once", "one by one"])
def test_calls_of_one_turn_with_one_id_are_apart(chat: Conversation, pieces: str) -> None:
    """The prompt gives the second one an id of its own."""
    made = {"id": "call_0", "type": "function", "function": {"name": "a", "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [made, made]}
    first, _ = chat.record(asked, "openai")
    settle(chat, first.id, "ok")
    version, results = chat.version, prompt_of(chat, "openai")[-2:]
    for piece in [results] if pieces == "at once" else [[result] for result in results]:
        chat.record_messages(piece, "openai")
    assert (chat.version, results_of(chat)) == (version, ["ok", None])
    chat.record_messages([{"role": "tool", "tool_call_id": "call_0", "content": "new"}], "openai")
    assert results_of(chat) == ["ok", "new"]


@pytest.mark.parametrize("provider", get_args(ProviderName))
@pytest.mark.parametrize("end", ["found", {"n": 8}, SECRET, "rejected"], ids=str)
def test_an_id_that_comes_again_names_its_latest_call(
    chat: Conversation, provider: ProviderName, end: object
) -> None:
    """A server may give the first call of each response the same id: an earlier one waits on."""
    for name in ("refund", "find"):
        chat.add_message("user", "go on")
        made = {"id": "call_0", "type": "function", "function": {"name": name, "arguments": "{}"}}
        asked = {"role": "assistant", "content": None, "tool_calls": [made]}
        (tool,) = chat.record(asked, "openai")
    settle(chat, tool.id, end)
    before = chat.tools
    chat.record_messages(prompt_of(chat, provider)[-1:], provider)
    assert chat.tools == before
    answer = {"role": "tool", "tool_call_id": "call_0", "content": "refunded"}
    chat.record_messages([answer], "openai")
    assert results_of(chat)[0] == "refunded"
