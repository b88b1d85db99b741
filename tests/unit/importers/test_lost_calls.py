"""The rule over all importers: a file whose calls no form reads is refused, not imported."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.importing import Importer, states
from support.tiers import rounds

from eventstore import EventStore
from eventstore.importers import SourceError, import_file
from eventstore.providers.detection import ForeignForm
from eventstore.providers.registry import PROVIDERS, adapter_of

ASK = {"role": "user", "content": "go"}
STREAM = [
    {"type": "start", "session": "s"},
    {"type": "say", "role": "user", "words": "go"},
    {"type": "say", "role": "assistant", "words": "I look."},
    {"type": "tool_call", "ref": "a", "tool": "Read", "params": {"n": 1}},
    {"type": "tool_result", "ref": "a", "bad": True, "value": "gone"},
    {"type": "end", "turns": 1},
]
"""The output of an unknown program."""


def refused(folder: Path, name: str, *values: Any, provider: str | None = None) -> str:
    """Import values as lines and as a list; return why they are refused: nothing is written."""
    written = (
        (f"{name}.jsonl", "".join(json.dumps(value) + "\n" for value in values)),
        (f"{name}.json", json.dumps(values)),
    )
    reasons = []
    for file, text in written:
        path = folder / file
        path.write_text(text)
        with EventStore.open("sqlite://") as store:
            with pytest.raises((SourceError, ForeignForm)) as refusal:
                import_file(store, path, provider=provider)
            assert list(store.conversations()) == []
        reasons.append(str(refusal.value))
    return "; ".join(reasons)


@pytest.mark.parametrize("provider", [None, *PROVIDERS])
def test_a_stream_of_events_is_refused(tmp_path: Path, provider: str | None) -> None:
    """Two of its lines have a role, and its calls are in others."""
    reason = refused(tmp_path, "stream", *STREAM, provider=provider)
    assert reason.count("'tool_call'") == 2


@pytest.mark.parametrize("provider", [None, *PROVIDERS])
def test_messages_in_no_form_are_refused(tmp_path: Path, provider: str | None) -> None:
    """Whatever their texts are called; the caller's word for their form does not help."""
    said = [{"role": "user", "says": "go"}, {"role": "assistant", "says": [{"words": "yes"}]}]
    assert "an object with 'role', 'says'" in refused(tmp_path, "said", *said, provider=provider)


def test_a_file_most_of_whose_lines_are_unknown_is_refused(tmp_path: Path) -> None:
    """The file is judged by its beginning, and once more at its end; nothing is written."""
    other = {"event": "tick", "at": 1}
    assert re.search("3 of 5 lines .*'event', 'at'", refused(tmp_path, "f", ASK, ASK, *[other] * 3))
    late = [ASK] * 250 + [other] * 400
    assert "400 of 650" in refused(tmp_path, "late", *late)


def test_a_few_unknown_lines_are_problems(importer: Importer) -> None:
    """The lines are named, and the messages are imported."""
    importer.lines("f.jsonl", {"event": "tick"}, ASK, ASK)
    assert importer.problems == ["line 1: not a message: it has no role"]


def test_calls_that_the_model_wrote_into_its_text_are_not_lost(
    importer: Importer, tmp_path: Path
) -> None:
    """Results show that they were calls; a chat about them is imported."""
    written = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    said = {"role": "assistant", "content": written}
    assert "<tool_call>" in refused(tmp_path, "f", ASK, said, {"role": "tool", "content": "x"})
    assert importer.document("chat.json", [ASK, said]) == []
    assert importer.ids == ["chat"]


def test_results_of_a_chat_template_are_paired_by_name_or_order(importer: Importer) -> None:
    """Its calls have no ids."""
    made = [{"type": "function", "function": {"name": n, "arguments": {"n": 1}}} for n in "fg"]
    calls = {"role": "assistant", "tool_calls": made}
    ended = [{"role": "tool", "name": "g", "content": "Error: gone"}]
    ended += [{"role": "tool", "name": "f", "content": "x"}]
    named = importer.document("named.json", {"messages": [ASK, calls, *ended], "tools": []})
    assert states(named) == [("f", "Completed"), ("g", "Failed")]
    bare = [{"role": "tool", "content": each["content"]} for each in reversed(ended)]
    assert states(importer.document("bare.json", [ASK, calls, *bare])) == states(named)


def test_an_advice_leads_to_a_form_that_reads_every_message(tmp_path: Path) -> None:
    """A provider is named only where all messages are in its form."""
    use = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    message = {"role": "assistant", "content": [use]}
    assert "pass provider='anthropic'" in refused(tmp_path, "a", ASK, message, provider="openai")
    mixed = {"role": "assistant", "content": [{"type": "new-tool-call", "name": "f"}]}
    reason = refused(tmp_path, "b", ASK, message, mixed, provider="openai")
    assert "provider=" not in reason
    assert "tool_use" in reason


def test_calls_that_a_provider_ran_are_not_lost(importer: Importer) -> None:
    """Objects in a call or a result are not either, nor those that repeat a call that was read."""
    served = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    use = {"type": "tool_use", "id": "a", "name": "f", "input": {"tool_calls": [{"id": "b"}]}}
    shown = [{"type": "text", "text": '{"type": "tool-call"}'}]
    result = {"type": "tool_result", "tool_use_id": "a", "content": shown}
    tools = importer.document(
        "anthropic.json",
        [
            ASK,
            {"role": "assistant", "content": [served, found, use]},
            {"role": "user", "content": [result]},
        ],
    )
    assert states(tools) == [("f", "Completed")]
    search = {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}}
    asked = {"type": "message", "role": "user", "content": "hi"}
    assert states(importer.document("responses.json", [asked, search])) == []
    made = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    beside = {"tool_invocations": [{"id": "a"}], "metadata": {"tool_calls": [{"id": "z"}]}}
    message = {"role": "assistant", "content": None, "tool_calls": [made], **beside}
    assert states(importer.document("openai.json", [ASK, message])) == [("f", "Pending")]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_calls_at_a_place_that_the_form_has_not_are_refused(tmp_path: Path, provider: str) -> None:
    """Their types are those of the form, and are read where it has them."""
    signature = adapter_of(provider).signature
    for kind in (*signature.call_types, *signature.result_types):
        part = {"type": kind, "id": "1", "call_id": "1", "name": "f", "input": {}}
        for holder in ("blocks", "pieces"):
            said = {"role": "assistant", holder: [{"type": "text", "text": "I look."}, part]}
            assert kind in refused(tmp_path, "f", ASK, said, provider=provider)


def test_a_search_of_tools_that_names_no_side_is_kept(importer: Importer) -> None:
    """Only one that says so is the client's; the other is no call, and stays as it is."""
    asked = {"type": "message", "role": "user", "content": "hi"}
    search = {"type": "tool_search_call", "call_id": "a", "arguments": {"q": "x"}}
    found = {"type": "tool_search_output", "call_id": "a", "tools": []}
    assert states(importer.document("responses.json", [asked, search, found])) == []
    client = [{**each, "execution": "client"} for each in (search, found)]
    done = importer.document("client.json", [asked, *client])
    assert states(done) == [("tool_search", "Completed")]


WORDS = st.sampled_from(["call", "use", "result", "response", "invocation", "request", "output"])
STYLES = st.sampled_from(["{0}_{1}", "{0}-{1}", "{0}.{1}", "{0}{2}", "my_{0}_{1}", "{0}_{1}_item"])


@st.composite
def kinds(draw: st.DrawFn) -> str:
    """Return the name of a call or a result as some program may write it."""
    word = draw(WORDS)
    subject = draw(st.sampled_from(["tool", "function", "mcp_tool"]))
    return draw(STYLES).format(subject, word, word.title())


RUN_BY_SERVERS = {"mcp_tool_use", "mcp_tool_result"}
"""What Anthropic ran by itself is kept as it is, and is no call of the client."""
NAMES_OF_PARTS = st.sampled_from(["parts", "content", "contents", "blocks", "items", "pieces"])
MEMBERS_OF_CALLS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["find", "book"]),
    },
    optional={"arguments": st.dictionaries(st.sampled_from("ab"), st.integers(), min_size=1)},
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=rounds(100, 2000),
)
@given(
    kind=kinds(),
    holder=NAMES_OF_PARTS,
    members=MEMBERS_OF_CALLS,
    in_type=st.booleans(),
    provider=st.sampled_from([None, *sorted(PROVIDERS)]),
    as_lines=st.booleans(),
)
def test_no_import_ends_well_without_the_calls_of_its_file(
    tmp_path: Path,
    kind: str,
    holder: str,
    members: dict[str, Any],
    in_type: bool,
    provider: str | None,
    as_lines: bool,
) -> None:
    """However a program names its calls: they are read, or the file is refused."""
    assume(not (in_type and provider == "anthropic" and kind in RUN_BY_SERVERS))
    part = {"type": kind, **members} if in_type else {kind: {"id": "1", **members}}
    messages = [ASK, {"role": "assistant", holder: [{"type": "text", "text": "I look."}, part]}]
    path = tmp_path / ("f.jsonl" if as_lines else "f.json")
    lines = "".join(json.dumps(each) + "\n" for each in messages)
    path.write_text(lines if as_lines else json.dumps(messages))
    with EventStore.open("sqlite://") as store:
        try:
            done = import_file(store, path, provider=provider)
        except (SourceError, ForeignForm):
            assert list(store.conversations()) == []
        else:
            is_read = any(store.conversation(each).tools for each in done.ids)
            assert is_read or "the result answers no call: kept as text" in done.findings


@pytest.mark.parametrize("odd", [None, [], 1, {}])
def test_values_that_are_no_messages_hold_up_no_other(tmp_path: Path, odd: Any) -> None:
    """Such values stand in the list of a conversation: as items of a list they are problems."""
    path = tmp_path / "chat.json"
    path.write_text(json.dumps({"messages": [ASK, odd, {"role": "assistant", "content": "Hm."}]}))
    with EventStore.open("sqlite://") as store:
        done = import_file(store, path)
        assert (done.ids, done.refused) == (["chat"], [])
        assert done.added == (2 if odd is None or odd == {} else 3)


def test_a_call_within_what_is_no_message_is_not_lost(tmp_path: Path) -> None:
    """A list in the list of messages is no message: it is refused with what it holds."""
    path = tmp_path / "chat.json"
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    nested = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    path.write_text(json.dumps({"messages": [ASK, nested]}))
    with EventStore.open("sqlite://") as store, pytest.raises(ValueError, match="tool_calls"):
        import_file(store, path)


@pytest.mark.parametrize("odd", [None, 1, []])
@pytest.mark.parametrize("provider", [None, "openai", "litellm", "mistral"])
def test_no_provider_is_advised_that_loses_the_call(
    tmp_path: Path, odd: Any, provider: str | None
) -> None:
    """A value in the place of a call is no call in any form."""
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([ASK, {"role": "assistant", "content": None, "tool_calls": [odd]}]))
    with EventStore.open("sqlite://") as store:
        with pytest.raises(SourceError, match=r"messages\[1\] has 'tool_calls'"):
            import_file(store, path, provider=provider)
        assert list(store.conversations()) == []
