"""What a turn keeps on its way to another provider: sources, notes of tools and of reasoning."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.provider_histories import CHAT, FORMS, histories

from eventstore import EventStore, Opaque, Text, validate
from eventstore.providers import PROVIDERS, Change, Turn, list_key, render
from eventstore.providers.crossing import DONE, THOUGHT, crossed
from projections import model_history, repair_messages

ASKS: Any = {"role": "user", "content": "Who won?"}
CITATION = {
    "type": "web_search_result_location",
    "url": "https://a.example/x",
    "title": "The [final]",
    "cited_text": "They won.",
    "encrypted_index": "secret",
}
SEARCHED = [
    {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "won"},
    },
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {
                "type": "web_search_result",
                "url": "https://a.example/x",
                "title": "The [final]",
                "encrypted_content": "secret",
            }
        ],
    },
]
THINKING = {"type": "thinking", "thinking": "I should search.", "signature": "sig"}
ANSWER = {"type": "text", "text": "They did.", "citations": [CITATION, CITATION]}
CALL = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "r"}]}
SEARCH: Any = [
    ASKS,
    {
        "role": "assistant",
        "content": [THINKING, {"type": "text", "text": "I look."}, *SEARCHED, ANSWER],
    },
]
SAID = "They did.\n\nSources: [The (final)](https://a.example/x)"
OTHERS = sorted(PROVIDERS - {"anthropic"})


def roles_and_texts(messages: list[Any]) -> list[tuple[str, str]]:
    """Return what each role said in messages of the form of Chat Completions."""
    contents = [each["content"] for each in messages]
    texts = [each if isinstance(each, str) else each[0]["text"] for each in contents]
    return [(each["role"], text) for each, text in zip(messages, texts, strict=True)]


def test_a_search_of_the_provider_is_a_note_between_the_words() -> None:
    """The assistant says its words alone, the note what was searched and found."""
    moved = repair_messages(SEARCH, "anthropic", "openai")
    note = (
        f"{DONE.format('anthropic')}\n"
        '[server_tool_use of anthropic]\nweb_search\n{"query":"won"}\n'
        "[web_search_tool_result of anthropic]\nhttps://a.example/x\nThe [final]"
    )
    assert roles_and_texts(moved.messages) == [
        ("user", "Who won?"),
        ("assistant", "I look."),
        ("user", note),
        ("assistant", SAID),
    ]
    reported = [(each.what, each.rule) for each in moved.repairs]
    assert ("moved", "foreign-part") in reported
    assert ("wrapped", "citations") in reported
    assert ("dropped", "reasoning") in reported
    why = next(each.why for each in moved.repairs if each.rule == "citations")
    assert why == (
        "the addresses of what a text cites stand under it, without cited_text, encrypted_index"
    )


@pytest.mark.parametrize("target", OTHERS)
def test_no_assistant_says_what_a_tool_did(target: Any) -> None:
    """At every provider the note is the user's, the list valid, and repair ends there."""
    given = [*SEARCH, ASKS]
    moved = repair_messages(given, "anthropic", target)
    assert validate(moved.messages, target) == []
    spoken = [m for m in moved.messages if m["role"] in ("assistant", "model")]
    assert "web_search" not in json.dumps(spoken)
    assert "https://a.example/x" in json.dumps(spoken)
    assert "[server_tool_use of anthropic]" in json.dumps(moved.messages)
    again = repair_messages(moved.messages, target)
    assert (again.messages, again.repairs) == (moved.messages, [])


@pytest.mark.parametrize("target", OTHERS)
def test_calls_stay_with_their_results_after_a_note(target: Any) -> None:
    """A turn that searched and then called is told in this order."""
    called = {"role": "assistant", "content": [*SEARCHED, CALL]}
    moved = repair_messages([ASKS, called, RESULT], "anthropic", target).messages
    assert validate(moved, target) == []
    text = json.dumps(moved)
    call = '"f"' if target != "openai-responses" else "function_call"
    assert text.index("web_search") < text.index(call)


@pytest.mark.parametrize("target", OTHERS)
def test_reasoning_is_dropped_or_noted_as_asked(target: Any) -> None:
    """Thoughts never become the words of the assistant, and a signature goes nowhere."""
    for choice, expected in (("drop", False), ("note", True)):
        moved = repair_messages(SEARCH, "anthropic", target, reasoning=choice)  # type: ignore[arg-type]
        text = json.dumps(moved.messages)
        assert ("I should search." in text) is expected
        assert (THOUGHT in text) is expected
        assert '"sig"' not in text
        assert validate(moved.messages, target) == []
        assert any(each.rule == "reasoning" for each in moved.repairs)
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.record_messages(SEARCH, "anthropic")
        history = model_history(chat.events(), reasoning="note")
        assert "I should search." in json.dumps(history.render(target))
        assert "I should search." not in json.dumps(history.render(target, reasoning="drop"))
        own = history.render("anthropic")["messages"]
    assert own[:2] == SEARCH


@pytest.mark.parametrize(
    ("provider", "thought"),
    [
        ("gemini", {"text": "hm", "thought": True}),
        ("bedrock", {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}),
        ("openai", {"type": "reasoning", "reasoning_content": "hm"}),
        ("mistral", {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}),
        ("ollama", {"type": "thinking", "thinking": "hm"}),
        (
            "openai-responses",
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "hm"}],
            },
        ),
    ],
)
def test_reasoning_of_any_form_is_read(provider: str, thought: Any) -> None:
    """Each provider has a form of its own."""
    changes: list[Change] = []
    turn = Turn("assistant", (Opaque(provider, thought), Text("so")), provider=provider)
    note, words = crossed(turn, "anthropic", "note", changes)
    assert (note.role, note.parts) == ("user", (Text(f"{THOUGHT}\nhm"),))
    assert (words.role, words.parts) == ("assistant", (Text("so"),))
    assert [(each.what, each.rule) for each in changes] == [("moved", "reasoning")]


@pytest.mark.parametrize("data", [{"type": "redacted_thinking", "data": "x"}, {"type": "thinking"}])
def test_reasoning_that_nobody_can_read_is_no_note(data: Any) -> None:
    """There is nothing to tell of it, and the words stay together."""
    changes: list[Change] = []
    parts = (Text("a"), Opaque("anthropic", data), Text("b"))
    (turn,) = crossed(Turn("assistant", parts, provider="anthropic"), "openai", "note", changes)
    assert turn.parts == (Text("a"), Text("b"))
    assert [(each.what, each.rule) for each in changes] == [("dropped", "reasoning")]


WEB = {"type": "url_citation", "url": "https://b.example", "title": "B", "start_index": 0}
CITED: dict[str, tuple[Any, str]] = {
    "openai": (
        {
            "role": "assistant",
            "content": "It is.",
            "annotations": [{"type": "url_citation", "url_citation": WEB}],
        },
        "[B](https://b.example)",
    ),
    "openai-responses": (
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {
                    "type": "output_text",
                    "text": "It is.",
                    "annotations": [
                        WEB,
                        {"type": "file_citation", "filename": "a.pdf", "index": 1},
                    ],
                }
            ],
        },
        "[B](https://b.example), a.pdf",
    ),
    "bedrock": (
        {
            "role": "assistant",
            "content": [
                {
                    "citationsContent": {
                        "content": [{"text": "It is."}],
                        "citations": [
                            {"title": "B", "location": {"web": {"url": "https://b.example"}}}
                        ],
                    }
                }
            ],
        },
        "[B](https://b.example)",
    ),
    "cohere": (
        {
            "role": "assistant",
            "content": "It is.",
            "citations": [
                {
                    "start": 0,
                    "end": 2,
                    "text": "It",
                    "sources": [
                        {"type": "document", "document": {"title": "B", "url": "https://b.example"}}
                    ],
                }
            ],
        },
        "[B](https://b.example)",
    ),
}


@pytest.mark.parametrize("provider", sorted(CITED))
def test_citations_of_any_form_keep_their_addresses(provider: Any) -> None:
    """The sources stand under the words that cite them; at home they stay as they are."""
    message, sources = CITED[provider]
    asked = {"role": "user", "content": [{"text": "?"}] if provider == "bedrock" else "?"}
    moved = repair_messages([asked, message], provider, "mistral")
    assert moved.messages[1]["content"] == f"It is.\n\nSources: {sources}"
    assert [each for each in moved.repairs if each.rule == "citations"]
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.record_messages([asked, message], provider)
        own = model_history(chat.events(), prefill=True).render(provider)[list_key(provider)]
    assert own == [asked, message]


def test_the_turns_are_left_as_they_are() -> None:
    """The same turns are rendered for one provider after the other."""
    parts = (Opaque("anthropic", THINKING), *(Opaque("anthropic", each) for each in SEARCHED))
    turn = Turn("assistant", (*parts, Opaque("anthropic", ANSWER)), provider="anthropic")
    before = copy.deepcopy(turn)
    first = render([turn], "openai", reasoning="note")
    assert render([turn], "openai", reasoning="note") == first
    assert turn == before


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 9)
    | st.sampled_from(["", " ", "https://x", "data:,", "t"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "text",
                    "url",
                    "title",
                    "source",
                    "citations",
                    "annotations",
                    "thinking",
                    "content",
                    "citationsContent",
                    "thought",
                    "summary",
                    "location",
                    "input",
                    "name",
                ]
            ),
            inner | st.sampled_from(["text", "thinking", "web_search_call", "a_tool_result"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(data=VALUES, target=st.sampled_from(OTHERS), choice=st.sampled_from(["drop", "note"]))
@settings(max_examples=150)
def test_no_part_makes_a_list_that_is_refused(data: Any, target: Any, choice: Any) -> None:
    """Whatever a foreign part holds, nothing raises and the list is valid."""
    turns = [
        Turn("user", (Text("q"),)),
        Turn("assistant", (Text("a"), Opaque("anthropic", data), Text("b")), provider="anthropic"),
        Turn("user", (Text("q"),)),
    ]
    made = render(turns, target, reasoning=choice).arguments[list_key(target)]
    assert validate(made, target) == []
    assert repair_messages(made, target).messages == made


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
@given(data=st.data())
@settings(max_examples=12)
def test_a_history_with_notes_is_valid_everywhere(provider: Any, data: st.DataObject) -> None:
    """Notes come between turns of any history, broken or not."""
    history = data.draw(histories(FORMS.get(provider, CHAT)))
    target: Any = data.draw(st.sampled_from(sorted(PROVIDERS)))
    before = repr(history)
    made = repair_messages(history, provider, target, reasoning="note").messages
    assert repr(history) == before
    assert [found for found in validate(made, target) if found.level == "hard"] == []
    assert repair_messages(made, target).messages == made
