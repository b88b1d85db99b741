"""Bounded results: what the model reads of them, and what the log keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventstore import (
    Conversation,
    ErrorKind,
    EventStore,
    Failure,
    FunctionTool,
    Image,
    ResultLimits,
    Text,
    Toolbox,
    validate,
)
from eventstore.providers import PROVIDERS
from projections import model_history

LONG = "a" * 500 + "z" * 500
CUT = "a" * 28 + "[... 944 of 1,000 characters left out ...]" + "z" * 28
LIMITS = ResultLimits(characters=100)


@pytest.fixture
def chat() -> Iterator[Conversation]:
    """Return a conversation with a message of the user."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("support-42")
        chat.add_message("user", "please")
        yield chat


def contents(chat: Conversation, **options: Any) -> list[Any]:
    """Return the contents of the results in the next prompt."""
    messages = model_history(chat.events(), **options).render("openai")["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_result_is_cut_for_every_provider(chat: Conversation, provider: Any) -> None:
    """The history is valid, the log keeps the whole, and a repair says what was left out."""
    call = chat.request("read")
    chat.complete(call.id, LONG)
    history = model_history(chat.events(), result_limits=LIMITS)
    rendered = str(history.render(provider))
    assert CUT in rendered
    assert LONG not in rendered
    arguments = history.render(provider)
    assert validate(next(v for v in arguments.values() if isinstance(v, list)), provider) == []
    (repair,) = history.repairs
    assert (repair.what, repair.rule, repair.call_id) == ("shortened", "result-limits", call.id)
    assert repair.why == (
        "left out: 944 of 1,000 characters; "
        f"see it whole: toolledger show ID --call {call.id} --json"
    )
    assert "944 of 1,000 characters" in history.explain(provider)
    response = chat.tools[call.id].response
    assert response is not None
    assert response.result == LONG


def test_the_same_result_is_cut_the_same_way_in_every_later_prompt(chat: Conversation) -> None:
    """A prompt's cache holds: the messages before are a prefix of those after."""
    chat.complete(chat.request("read").id, {"rows": [LONG] * 100})
    limits = ResultLimits(characters=100, items=5, bytes=400)
    before = model_history(chat.events(), result_limits=limits).render("openai")["messages"]
    chat.add_message("user", "go on")
    chat.complete(chat.request("read", {"n": 2}).id, LONG)
    after = model_history(chat.events(), result_limits=limits).render("openai")["messages"]
    assert after[: len(before)] == before


def test_without_limits_nothing_is_cut(chat: Conversation) -> None:
    """A result within its limits is the same with and without them."""
    chat.complete(chat.request("read").id, LONG)
    assert contents(chat) == [LONG]
    chat.complete(chat.request("read", {"n": 2}).id, {"n": 2})
    assert contents(chat, result_limits=LIMITS) == [CUT, '{"n":2}']


def test_tools_have_limits_of_their_own(chat: Conversation) -> None:
    """A toolbox gives them by name; a default is for its other tools."""
    toolbox = Toolbox([FunctionTool(str, "read", result_limits=LIMITS), FunctionTool(str, "write")])
    for name in ("read", "write"):
        chat.complete(chat.request(name).id, LONG)
    assert contents(chat, result_limits=toolbox.result_limits()) == [CUT, LONG]
    assert contents(chat, result_limits=toolbox.result_limits(LIMITS)) == [CUT, CUT]


def test_a_long_failure_is_cut_too(chat: Conversation) -> None:
    """A traceback in a text costs as much as a result."""
    call = chat.request("read")
    chat.fail(call.id, Failure(ErrorKind.INTERNAL, LONG))
    (content,) = contents(chat, result_limits=LIMITS)
    assert CUT in content


def test_images_of_a_result_stay(chat: Conversation) -> None:
    """Only the texts beside them are cut."""
    image = Image(data="aGk=", media_type="image/png")
    chat.complete(chat.request("look").id, [Text(LONG), image, Text("short")])
    history = model_history(chat.events(), result_limits=LIMITS)
    (block,) = history.render("anthropic")["messages"][-1]["content"]
    assert [part["type"] for part in block["content"]] == ["text", "image", "text"]
    assert block["content"][0]["text"] == CUT


@pytest.mark.parametrize("image", [True, False])
def test_a_result_in_the_providers_own_form_is_cut(image: bool) -> None:
    """The cut result is our own form; its image stays."""
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    shown = [{"type": "text", "text": LONG}]
    shown += [{"type": "image", "source": source}] if image else []  # type: ignore[dict-item]
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": shown,
        "cache_control": {"type": "ephemeral"},
    }
    use = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    messages = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result, {"type": "text", "text": "and?"}]},
    ]
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("imported")
        chat.record_messages(messages, provider="anthropic")
        history = model_history(chat.events(), result_limits=LIMITS)
        made = history.render("anthropic")["messages"]
        assert model_history(chat.events()).render("anthropic")["messages"] == messages
    assert validate(made, "anthropic") == []
    assert LONG not in str(made)
    assert CUT in str(made)
    assert ("aGk=" in str(made)) == image
    assert [repair.what for repair in history.repairs] == ["shortened"]


def test_a_window_counts_what_is_left(chat: Conversation) -> None:
    """A long result does not push the older turns out of the window."""
    chat.complete(chat.request("read").id, LONG)
    options: dict[str, Any] = {"max_tokens": 400, "count_tokens": len}
    assert len(model_history(chat.events(), result_limits=LIMITS, **options).turns) == 2
    assert len(model_history(chat.events(), **options).turns) == 1


@pytest.mark.parametrize("limits", [5, {"read": 5}, "short"])
def test_limits_are_checked(chat: Conversation, limits: Any) -> None:
    """The error says what to pass."""
    with pytest.raises(ValueError, match=r"result_limits is .*: pass ResultLimits"):
        model_history(chat.events(), result_limits=limits)
    with pytest.raises(TypeError, match=r"result_limits of tool 'str' is .*: pass ResultLimits"):
        FunctionTool(str, "str", result_limits=limits)


def test_results_are_shortened_to_a_quarter_of_the_window(chat: Conversation) -> None:
    """A result that alone would fill the window leaves place for the others, and stays so."""
    for text in ("a" * 100_000, "b" * 300, "c" * 100_000):
        call = chat.request("read")
        chat.complete(call.id, text)
    options: Any = {"max_tokens": 1_000, "count_tokens": lambda text: len(text) // 4}
    shown = contents(chat, **options, results="shorten")
    assert [len(each) for each in shown] == [999, 300, 999]
    assert shown[0].startswith("aaaa")
    assert "[... 99,0" in shown[0]
    assert shown[0].endswith("aaaa")
    chat.add_message("user", "Go on.")
    assert contents(chat, **options, results="shorten") == shown
    assert contents(chat, **options) == []  # whole, the last one alone pushes out all


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"results": "short"}, "results is 'short': pass one of whole, shorten"),
        ({"results": "shorten"}, "has no effect without max_tokens: pass both"),
        (
            {"results": "shorten", "max_tokens": 9, "result_limits": LIMITS},
            "say two things: pass one of them",
        ),
    ],
)
def test_options_of_results_that_make_no_sense_are_refused(
    chat: Conversation, options: Any, complaint: str
) -> None:
    """The error names the option, and the remedy."""
    with pytest.raises(ValueError, match=complaint):
        model_history(chat.events(), **options)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 400), st.booleans()), min_size=1, max_size=8),
    st.integers(1, 400),
    st.sampled_from(["whole", "shorten"]),
)
def test_a_window_never_cuts_reasoning_from_its_calls(
    steps: list[tuple[int, bool]], max_tokens: int, results: Any
) -> None:
    """A turn of Anthropic's is there with its thinking, calls and results, or not at all."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.add_message("user", "Begin.")
        for number, (size, speaks) in enumerate(steps):
            thinking = {"type": "thinking", "thinking": f"t{number}", "signature": f"s{number}"}
            use = {"type": "tool_use", "id": f"c{number}", "name": "f", "input": {"n": number}}
            chat.record({"role": "assistant", "content": [thinking, use]}, "anthropic")
            chat.start(f"c{number}")
            chat.complete(f"c{number}", "x" * size)
            if speaks:
                chat.add_message("user", f"And {number}?")
        prompt = model_history(
            chat.events(),
            max_tokens=max_tokens,
            count_tokens=lambda text: len(text) // 4,
            results=results,
        ).render("anthropic")
    assert validate(prompt["messages"], "anthropic") == []
    blocks = [
        block
        for message in prompt["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    thought = [b["thinking"][1:] for b in blocks if b["type"] == "thinking"]
    assert thought == [b["id"][1:] for b in blocks if b["type"] == "tool_use"]
    assert thought == [b["tool_use_id"][1:] for b in blocks if b["type"] == "tool_result"]
    assert not thought or thought[-1] == str(len(steps) - 1)
