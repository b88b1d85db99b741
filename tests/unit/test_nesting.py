"""One limit of nesting for all that enters a log, on every Python and in every thread."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from eventstore import (
    EventStore,
    FunctionCall,
    MessageAdded,
    Opaque,
    Recorded,
    ToolApproved,
    ToolCompleted,
    ToolPending,
    UnencodableEvent,
    UnhashableArguments,
)
from eventstore.domain.nesting import nests_too_deeply, too_deep, value_nests_too_deeply
from eventstore.providers import ProviderName
from eventstore.providers.streaming import streamed_response
from eventstore.storage.interface import Append
from eventstore.testing import draft
from projections import current_tools, model_history, repair_messages

PROVIDERS: tuple[ProviderName, ...] = get_args(ProviderName)
LIMIT = 200


@pytest.fixture
def store() -> Iterator[EventStore]:
    """Return an empty log in memory."""
    with EventStore.open("sqlite://") as store:
        yield store


def arguments(levels: int) -> dict[str, Any]:
    """Return arguments with so many levels."""
    value: Any = 1
    for _ in range(levels - 1):
        value = [value]
    return {"x": value}


def text(levels: int) -> str:
    """Return the JSON text of these arguments."""
    return '{"x":' + "[" * (levels - 1) + "1" + "]" * (levels - 1) + "}"


def by_function(given: object, **members: object) -> dict[str, Any]:
    """Return a call in the form of Chat Completions."""
    function = {"name": "f", "arguments": given}
    return {"id": "abcdefghi", "type": "function", "function": function, **members}


MESSAGES: dict[ProviderName, Callable[[int], dict[str, Any]]] = {
    "anthropic": lambda n: {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c", "name": "f", "input": arguments(n)}],
    },
    "bedrock": lambda n: {
        "role": "assistant",
        "content": [{"toolUse": {"toolUseId": "c", "name": "f", "input": arguments(n)}}],
    },
    "cohere": lambda n: {"role": "assistant", "tool_calls": [by_function(text(n))]},
    "gemini": lambda n: {
        "role": "model",
        "parts": [{"functionCall": {"name": "f", "args": arguments(n)}, "thoughtSignature": "aa"}],
    },
    "litellm": lambda n: {"role": "assistant", "tool_calls": [by_function(text(n))]},
    "mistral": lambda n: {
        "role": "assistant",
        "content": "",
        "tool_calls": [by_function(arguments(n))],
    },
    "ollama": lambda n: {"role": "assistant", "tool_calls": [by_function(arguments(n))]},
    "openai": lambda n: {"role": "assistant", "tool_calls": [by_function(text(n))]},
    "openai-responses": lambda n: {
        "object": "response",
        "output": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": text(n)}],
    },
}


def render_all(events: list[Recorded]) -> None:
    """Render a prompt for each provider."""
    for provider in PROVIDERS:
        model_history(events).render(provider)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_deeper_arguments_of_a_model_are_kept_as_text(
    store: EventStore, provider: ProviderName
) -> None:
    """The response is in the log, as it came, and every prompt after it can be made."""
    for levels in (LIMIT, LIMIT + 1, 900, 5_000):
        chat = store.conversation(f"{levels}")
        chat.add_message("user", "go")
        (tool,) = chat.record(MESSAGES[provider](levels), provider=provider)
        if levels == LIMIT:
            assert tool.call.arguments == arguments(levels)
        else:
            assert (tool.call.arguments, tool.call.raw) == (None, text(levels))
        render_all(list(chat.events()))
        if provider != "openai-responses":
            message = MESSAGES[provider](levels)
            repair_messages([{"role": "user", "content": "go"}, message], provider)
    assert not list(store.verify())


@pytest.mark.parametrize("leaf", [(1,), {1: 2}, float("nan")], ids=repr)
@pytest.mark.parametrize("levels", [LIMIT - 1, LIMIT + 1, LIMIT + 3, 1_000])
def test_deep_arguments_that_json_cannot_express_never_run(
    store: EventStore, levels: int, leaf: object
) -> None:
    """None of them becomes the arguments of a call that could start."""
    for _ in range(levels):
        leaf = (leaf,)
    block = {"type": "tool_use", "id": "c", "name": "f", "input": {"x": leaf}}
    chat = store.conversation("chat")
    (tool,) = chat.record({"role": "assistant", "content": [block]}, provider="anthropic")
    assert tool.call.raw is not None
    assert tool.call.arguments is None


def test_deep_objects_of_a_stream_are_merged() -> None:
    """The same object comes in two pieces, each nested as deep as a server likes."""
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    extra = {"content": "go", "extra": deep}
    pieces: dict[str, dict[str, Any]] = {
        "openai": {"choices": [{"index": 0, "delta": extra}]},
        "cohere": {"type": "content-delta", "index": 0, "delta": {"message": {"content": extra}}},
    }
    for provider, piece in pieces.items():
        stream = streamed_response(provider)
        stream.add(piece)
        stream.add(piece)


def test_values_of_the_caller_are_refused_with_their_place(store: EventStore) -> None:
    """A result is kept all the same: its tool has run."""
    chat = store.conversation("chat")
    chat.request("f", arguments(LIMIT), "1")
    chat.approve("1", arguments(LIMIT))
    for levels in (LIMIT + 1, 900, 50_000):
        deep = arguments(levels)
        with pytest.raises(UnhashableArguments, match=r"200 levels deep - at `\$\.x\[0\]"):
            chat.request("f", deep)
        with pytest.raises(UnhashableArguments, match=r"200 levels deep - at `\$\.x\[0\]"):
            chat.approve("1", deep)
        with pytest.raises(UnencodableEvent, match=r"200 levels deep - at `\$\.details\.x\[0\]"):
            chat.reject("1", details=deep)
        with pytest.raises(ValueError, match=r"200 levels deep - at `\$\.data\.x\[0\]"):
            chat.add_message("user", [Opaque("openai", deep)])
    for levels, lossy in ((LIMIT, False), (LIMIT + 1, True), (50_000, True)):
        tool = chat.request("f")
        chat.complete(tool.id, arguments(levels))
        event = list(chat.events())[-1].event
        assert isinstance(event, ToolCompleted)
        assert event.lossy is lossy
    render_all(list(chat.events()))


def test_a_part_recorded_by_hand_is_cut_where_it_is_too_deep(store: EventStore) -> None:
    """Such a part came from a model, and there is no other form of it."""
    chat = store.conversation("chat")
    for native in (None, arguments(LIMIT + 1)):
        part = Opaque("openai", {"type": "new", **arguments(LIMIT + 1)})
        chat.append(MessageAdded("user", (part,), provider="openai", native=native, exact=True))
    for recorded in chat.events():
        assert isinstance(recorded.event, MessageAdded)
        assert recorded.event.native is None
        assert "[1]" in json.dumps(msgspec.to_builtins(recorded.event.parts))


def test_the_limit_leaves_room_for_the_caller(store: EventStore) -> None:
    """With 450 frames left, values at the limit are recorded, copied, shown and checked."""
    chat = store.conversation("chat")

    def use() -> None:
        for provider in PROVIDERS:
            for tool in chat.record(MESSAGES[provider](LIMIT), provider=provider):
                chat.start(tool.id)
                chat.complete(tool.id, arguments(LIMIT))
        render_all(list(chat.events()))
        assert not list(store.verify())

    def dive(frames: int) -> None:
        if frames:
            dive(frames - 1)
        else:
            use()

    use()  # what is loaded at first use takes frames, too
    used = 0
    frame = sys._getframe()
    while frame.f_back is not None:
        used, frame = used + 1, frame.f_back
    dive(sys.getrecursionlimit() - used - 450)


@pytest.mark.parametrize("levels", [LIMIT + 1, LIMIT + 2, 300])
def test_deep_values_of_an_older_version_are_read_as_text(store: EventStore, levels: int) -> None:
    """The log is sound, its calls are known under their fingerprints, and prompts can be made."""
    events = [
        ToolPending(FunctionCall("f", arguments(levels), "1")),
        ToolApproved("1", FunctionCall("f", arguments(levels + 1), "1")),
        MessageAdded("user", (Opaque("openai", arguments(levels)),)),
    ]
    chat = store.conversation("chat")
    mark = FunctionCall("f", {"old": 1}).digest()  # stands for the one that was computed then
    drafts = [
        replace(draft(MessageAdded("user")), tag=event.tag, payload=msgspec.json.encode(event))
        for event in events
    ]
    drafts[:2] = [replace(each, fingerprint=mark, begins=True) for each in drafts[:2]]
    store.session.storage.append([Append("chat", 0, 0, drafts, lambda _: drafts)])
    tool = current_tools(chat.events())["1"]
    assert (tool.call.raw, tool.effective_call.raw) == (text(levels), text(levels + 1))
    chat.fail("1", "no object")
    recorded = list(chat.events())
    assert [each.fingerprint for each in recorded if each.call_id] == [f"x1:{mark.hex()}"] * 3
    render_all(recorded)
    assert not list(store.verify())


json_values = st.recursive(
    st.none() | st.integers() | st.text('"\\[]{}a'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('"\\[]{}a'), inner),
    max_leaves=60,
)


@given(json_values, st.integers(0, 8), st.booleans())
def test_every_measure_of_levels_is_the_same(value: Any, levels: int, is_long: bool) -> None:
    """The text, and both together, tell as much as the value, whatever brackets its texts have."""
    if is_long:
        value = [value, '"[{' * 400]
    encoded = msgspec.json.encode(value)
    is_deep = too_deep(value, levels) is not None
    assert nests_too_deeply(encoded, levels) is is_deep
    assert value_nests_too_deeply(value, encoded, levels) is is_deep
