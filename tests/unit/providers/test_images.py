"""An image stays an image for every provider, whatever members its own provider adds to it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from eventstore import (
    Document,
    EventStore,
    FunctionResponse,
    Image,
    MessageAdded,
    Opaque,
    Recorded,
    Text,
    ToolCompleted,
    validate,
)
from eventstore.providers import PROVIDERS, Turn, adapter_of, list_key, render
from projections import model_history, repair_messages

BYTES = b"\x89PNG pixels"
DATA = base64.b64encode(BYTES).decode()
ADDRESS = f"data:image/png;base64,{DATA}"
SOURCE = {"type": "base64", "media_type": "image/png", "data": DATA}
CACHED = {"cache_control": {"type": "ephemeral"}}


def takes_detail(provider: str) -> bool:
    """Return whether an image of the provider may ask for a level of detail."""
    return "low" in adapter_of(provider).image_details


def openai(*parts: Any) -> dict[str, Any]:
    """Return a user's message of Chat Completions, Mistral or Anthropic."""
    return {"role": "user", "content": [{"type": "text", "text": "look"}, *parts]}


def gemini(*parts: Any) -> dict[str, Any]:
    """Return a user's content."""
    return {"role": "user", "parts": [{"text": "look"}, *parts]}


def chat_image(**beside: Any) -> dict[str, Any]:
    """Return an image of Chat Completions, with members beside its address."""
    return {"type": "image_url", "image_url": {"url": ADDRESS, **beside}}


def responses_image(**beside: Any) -> dict[str, Any]:
    """Return an image of Responses."""
    return {"type": "input_image", "image_url": ADDRESS, **beside}


INLINE = {"mimeType": "image/png", "data": DATA}
PNG = {"format": "png", "source": {"bytes": BYTES}}

IMAGES = [
    ("openai", openai(chat_image(detail="low")), ["detail"]),
    ("openai", openai({**CACHED, **chat_image()}), ["cache_control"]),
    ("openai", openai({**chat_image(detail="high"), **CACHED}), ["detail", "cache_control"]),
    ("anthropic", openai({"type": "image", "source": SOURCE, **CACHED}), ["cache_control"]),
    (
        "openai-responses",
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "look"}, responses_image(detail="low")],
        },
        ["detail"],
    ),
    (
        "openai-responses",
        {
            "role": "user",
            "content": [
                responses_image(file_id="file-1", prompt_cache_breakpoint={"mode": "explicit"})
            ],
        },
        ["file_id", "prompt_cache_breakpoint"],
    ),
    ("mistral", openai(chat_image(detail="low")), ["detail"]),
    ("gemini", gemini({"inlineData": {**INLINE, "displayName": "a.png"}}), ["displayName"]),
    (
        "gemini",
        gemini({"inline_data": {"mime_type": "image/png", "data": DATA}, "partMetadata": {"a": 1}}),
        ["partMetadata"],
    ),
    (
        "bedrock",
        {"role": "user", "content": [{"text": "look"}, {"image": {**PNG, "error": {}}}]},
        ["error"],
    ),
    (
        "bedrock",
        {"role": "user", "content": [{"text": "look"}, {"guardContent": {"image": PNG}}]},
        ["guardContent"],
    ),
]


def shown(value: Any) -> Iterator[bytes]:
    """Yield the images in a request, in any form."""
    if isinstance(value, dict) and value.get("source") == {"bytes": BYTES}:
        yield BYTES
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in ("data", "url", "image_url") and isinstance(item, str):
                yield base64.b64decode(item.rpartition(",")[2])
            elif key == "images":
                yield from map(base64.b64decode, item)
            else:
                yield from shown(item)
    elif isinstance(value, list):
        for item in value:
            yield from shown(item)


@pytest.mark.parametrize("target", sorted(PROVIDERS))
@pytest.mark.parametrize(("provider", "message", "beside"), IMAGES)
def test_an_image_stays_one_and_what_stood_beside_it_is_named_once(
    provider: str, message: dict[str, Any], beside: list[str], target: str
) -> None:
    """This holds for a log and a list; its own provider gets the part back unchanged."""
    messages = [message]
    repaired = repair_messages(messages, provider, target)
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.record_messages(messages, provider)
        logged, repairs = model_history(chat.events()).rendered(target)
    assert logged[list_key(target)] == repaired.messages
    assert repairs == repaired.repairs
    assert validate(repaired.messages, target) == []
    if target == provider:
        assert (repr(repaired.messages), repairs) == (repr(messages), [])
        return
    assert [*shown(repaired.messages)] == [BYTES]
    takes = takes_detail(target)
    dropped = [each for each in beside if not (takes and each == "detail")]
    reported = [repair.why for repair in repairs if repair.rule == "foreign-part"]
    assert reported == ([f"{', '.join(dropped)} of an image has no place here"] if dropped else [])


@pytest.mark.parametrize(
    ("provider", "part", "target", "arrived"),
    [
        ("openai", chat_image(detail="low"), "openai-responses", responses_image(detail="low")),
        ("openai", chat_image(detail="auto"), "openai-responses", responses_image(detail="auto")),
        (
            "openai-responses",
            responses_image(detail="original"),
            "openai",
            chat_image(detail="original"),
        ),
        ("openai-responses", responses_image(detail="auto"), "openai", chat_image()),
        ("openai-responses", responses_image(), "openai", chat_image()),
        ("openai", chat_image(detail="high"), "mistral", chat_image(detail="high")),
        ("openai", chat_image(detail="auto"), "anthropic", {"type": "image", "source": SOURCE}),
        ("openai", responses_image(detail="high"), "openai", chat_image(detail="high")),
        (
            "openai-responses",
            chat_image(detail="high"),
            "openai-responses",
            responses_image(detail="high"),
        ),
        (
            "mistral",
            {"type": "image_url", "image_url": ADDRESS, "cache_control": None},
            "openai",
            chat_image(),
        ),
    ],
)
def test_a_detail_goes_where_it_has_an_equal(
    provider: str, part: dict[str, Any], target: str, arrived: dict[str, Any]
) -> None:
    """A detail that is the default is dropped silently."""
    repaired = repair_messages([{"role": "user", "content": [part]}], provider, target)
    assert repaired.messages[0]["content"] == [arrived]
    assert [repair.what for repair in repaired.repairs if repair.what == "dropped"] == []


def test_a_detail_that_another_does_not_know_is_dropped() -> None:
    """This holds for an image of a provider and for one that a user built."""
    message = openai(chat_image(detail="original"))
    repaired = repair_messages([message], "openai", "mistral")
    assert repaired.messages[0]["content"][1] == chat_image()
    made = Turn("user", (Image(None, DATA, "image/png", "low"),))
    for target in ("openai", "anthropic"):
        rendered = render([made], target)
        dropped = [change.why for change in rendered.changes]
        assert dropped == ["detail of an image has no place here"] * (target == "anthropic")
    assert made.parts == (Image(None, DATA, "image/png", "low"),)
    hidden = Turn("user", made.parts, hidden=True)
    assert render([hidden], "anthropic").changes == []


def test_members_beside_a_text_are_listed() -> None:
    """Members are listed like those of an image.

    A repaired message keeps them for its own provider.
    """
    text = {"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}
    message = {"role": "user", "content": [text]}
    repaired = repair_messages([message], "openai-responses", "openai")
    assert repaired.messages == [{"role": "user", "content": [{"type": "text", "text": "a"}]}]
    (reported,) = repaired.repairs
    assert reported.why == "prompt_cache_breakpoint of a text is only for openai-responses"
    broken = {"role": "user", "content": [text, "b"]}
    assert repair_messages([broken], "openai-responses").messages[0]["content"][0] == text


def test_many_images_of_a_message_make_one_repair() -> None:
    """A member that is dropped from each image is listed once."""
    repaired = repair_messages([openai(*[chat_image(detail="low")] * 3)], "openai", "gemini")
    assert [repair.why for repair in repaired.repairs] == ["detail of an image has no place here"]
    assert len([*shown(repaired.messages)]) == 3


@pytest.mark.parametrize(("provider", "message", "beside"), IMAGES)
def test_an_image_of_a_mended_message_is_as_it_was(
    provider: str, message: dict[str, Any], beside: list[str]
) -> None:
    """Its own provider gets the whole image, although the message is repaired."""
    key = "parts" if provider == "gemini" else "content"
    broken = {**message, key: [*message[key], "words"]}
    (mended,) = repair_messages([broken], provider).messages
    assert repr(message[key][-1]) in repr(mended), beside


def test_images_that_a_log_holds_as_their_providers_own_cross() -> None:
    """Older logs hold images in this form, and users may write it."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.add_message(
            "user",
            [
                Text("look"),
                Opaque("openai", chat_image(detail="low")),
                Opaque("openai", "words"),
                Opaque("nobody", chat_image(detail="low")),
                Opaque("ollama", {"type": "image", "image": "a.png"}),
            ],
        )
        made, repairs = model_history(chat.events()).rendered("anthropic")
    kinds = [block["type"] for block in made["messages"][0]["content"]]
    assert kinds == ["text", "image", "text", "text", "text"]
    assert repairs[-1].why == "detail of an image has no place here"


def test_an_image_is_stored_as_older_readers_know_it() -> None:
    """A part with more members is stored as opaque; a plain image has no new members."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.record_messages([openai(chat_image(), chat_image(detail="low"))], "openai")
        event = next(iter(chat.events())).event
    assert isinstance(event, MessageAdded)
    stored = json.loads(msgspec.json.encode(event.parts))
    plain = {"type": "image", "data": DATA, "media_type": "image/png"}
    own = {"type": "opaque", "provider": "openai", "data": chat_image(detail="low")}
    assert stored[1:] == [plain, own]


def test_thoughts_and_uploaded_files_are_not_images() -> None:
    """These parts are shown to their own provider alone."""
    thought = {"inlineData": INLINE, "thought": True}
    repaired = repair_messages([gemini(thought)], "gemini", "openai")
    assert repaired.messages == [openai()]
    assert [repair.rule for repair in repaired.repairs] == ["reasoning"]
    for provider, part in (
        ("anthropic", {"type": "image", "source": {"type": "file", "file_id": "f"}, **CACHED}),
        ("anthropic", {"type": "image", "source": "words", **CACHED}),
        ("anthropic", {"type": "video", "source": SOURCE}),
        ("openai", {"type": "image_url", "image_url": 5}),
        ("openai", {"type": "file", "image_url": ADDRESS}),
        ("mistral", {"type": "file", "image_url": ADDRESS}),
        ("openai-responses", {"type": "input_image", "file_id": "f", "detail": "low"}),
        ("openai-responses", {"type": "input_file", "image_url": ADDRESS}),
    ):
        reported = repair_messages([openai(part)], provider, "ollama")
        assert "images" not in reported.messages[0]
        assert "became text" in str(reported.repairs)


# results


def asked(provider: str, result: Any) -> list[Any]:
    """Return a call and its result."""
    if provider == "anthropic":
        return [
            {"role": "user", "content": "draw"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": result}],
            },
        ]
    return [
        {"role": "user", "content": "draw"},
        {"type": "function_call", "call_id": "t1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t1", "output": result},
    ]


DRAWN = [
    (
        "anthropic",
        [{"type": "text", "text": "a"}, {"type": "image", "source": SOURCE, **CACHED}],
        "cache_control",
    ),
    (
        "openai-responses",
        [{"type": "input_text", "text": "a"}, responses_image(detail="low")],
        "detail",
    ),
]


APART = sorted({*PROVIDERS} - {"anthropic", "bedrock", "openai-responses"})
"""Providers whose results hold text alone."""


@pytest.mark.parametrize("target", sorted(PROVIDERS))
@pytest.mark.parametrize(("provider", "result", "member"), DRAWN)
def test_a_result_shows_its_image(
    provider: str, result: list[Any], member: str, target: str
) -> None:
    """The image stands in the result or after it; a dropped member is listed with the call."""
    messages = asked(provider, result)
    repaired = repair_messages(messages, provider, target)
    assert validate(repaired.messages, target) == []
    if target == provider:
        assert (repaired.messages, repaired.repairs) == (messages, [])
        return
    assert [*shown(repaired.messages)] == [BYTES]
    reported = [(each.what, each.why) for each in repaired.repairs if each.call_id == "t1"]
    assert (("moved", "what the result shows follows it") in reported) == (target in APART)
    takes_it = member == "detail" and takes_detail(target)
    assert (("dropped", f"{member} of an image has no place here") in reported) != takes_it
    assert "only text" not in str(repaired.repairs)
    if target in APART:
        assert repaired.messages[-1]["role"] == "user"
        assert "[Shown by f:]" in str(repaired.messages[-1])
    again = repair_messages(repaired.messages, target)
    assert (again.messages, again.repairs) == (repaired.messages, [])


@pytest.mark.parametrize("target", APART)
def test_images_of_results_follow_all_results_of_the_turn(target: str) -> None:
    """Therefore each call has its result where its provider looks for it."""
    messages = asked("anthropic", [{"type": "image", "source": SOURCE}])
    messages[1]["content"].append({"type": "tool_use", "id": "t2", "name": "g", "input": {}})
    messages[2]["content"].append(
        {
            "type": "tool_result",
            "tool_use_id": "t2",
            "content": [{"type": "image", "source": SOURCE}],
        }
    )
    messages.append({"role": "user", "content": "so?"})
    repaired = repair_messages(messages, "anthropic", target).messages
    assert validate(repaired, target) == []
    assert [*shown(repaired)] == [BYTES, BYTES]
    assert [message["role"] for message in repaired[-2:]] == ["user", "user"]
    assert all(f"[Shown by {name}:]" in str(repaired[-2]) for name in "fg")


@pytest.mark.parametrize("target", ["cohere", "mistral", "ollama", "openai"])
def test_images_of_an_error_follow_it(target: str) -> None:
    """An error is rendered as text only: the user shows the rest, where the provider takes it."""
    messages = asked("anthropic", [{"type": "image", "source": SOURCE, **CACHED}])
    messages[2]["content"][0]["is_error"] = True
    repaired = repair_messages(messages, "anthropic", target)
    dropped, moved = [each.why for each in repaired.repairs if each.rule == "foreign-part"][-2:]
    assert {dropped, moved} == {
        "cache_control of an image has no place here",
        "what the result shows follows it",
    }
    assert [*shown(repaired.messages)] == [BYTES]


def test_parts_that_a_result_cannot_show_are_listed_without_its_images() -> None:
    """The image is shown; a part that only its provider knows is listed."""
    search = {
        "type": "search_result",
        "source": "https://a.b",
        "title": "t",
        "content": [{"type": "text", "text": "found"}],
    }
    messages = asked("anthropic", [{"type": "image", "source": SOURCE}, search])
    repaired = repair_messages(messages, "anthropic", "openai-responses")
    assert [*shown(repaired.messages)] == [BYTES]
    (reported,) = repaired.repairs
    assert re.fullmatch(r"of what .* arrives whole: search_result \(.*\)", reported.why)


def test_a_result_without_a_call_keeps_its_image() -> None:
    """Every provider gets the image in a user's message."""
    for provider, result, _ in DRAWN:
        messages = asked(provider, result)
        del messages[1]
        for target in PROVIDERS:
            repaired = repair_messages(messages, provider, target)
            assert [*shown(repaired.messages)] == [BYTES], (provider, target)


def completed(result: Any) -> list[Recorded]:
    """Return the log of a tool that gave a result."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.add_message("user", "draw")
        chat.request("f", {}, "t1")
        chat.complete("t1", result)
        return list(chat.events())


PHOTO = Image(data=DATA, media_type="image/png")


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_a_tool_shows_the_image_that_it_gives(provider: str) -> None:
    """The image stands in the result, or in the user's message after it."""
    history = model_history(completed([Text("a"), "b", Image(ADDRESS, detail="low")]))
    for _ in range(2):  # one history is rendered as often as one likes, for whomever
        for target in (*PROVIDERS, provider):
            arguments, repairs = history.rendered(target)
        messages = arguments[list_key(provider)]
        assert validate(messages, provider) == []
        assert [*shown(messages)] == [BYTES]
        assert ("what the result shows follows it" in str(repairs)) == (provider in APART)
        assert "only text" not in str(repairs)
        assert all(text in str(messages) for text in ("'a", "b"))
        assert ("'low'" in str(messages)) == takes_detail(provider)


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
@pytest.mark.parametrize("result", [PHOTO, (PHOTO,), [Document(data="JVBERi0=")], Text("x")])
def test_every_provider_takes_what_a_tool_shows(provider: str, result: Any) -> None:
    """A tool may return one part or several, of each kind."""
    messages = model_history(completed(result)).render(provider)[list_key(provider)]
    assert validate(messages, provider) == []


def test_a_result_in_parts_is_kept_as_json() -> None:
    """Nothing of it is lost, and completing again with the same result is a no-op."""
    event: Any = completed(["look", Image(ADDRESS)])[-1].event
    assert (event.in_parts, event.lossy) == (True, False)
    assert event.response.result == [
        {"type": "text", "text": "look"},
        {"type": "image", "data": DATA, "media_type": "image/png"},
    ]
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.request("f", {}, "t1")
        tool = chat.complete("t1", [PHOTO])
        assert chat.complete("t1", (PHOTO,)) == tool
        assert chat.version == 2


@pytest.mark.parametrize(
    "result",
    [
        [Image()],
        [Image(data="no base64!!")],
        {"a": Image(data="no base64!!")},
    ],
)
def test_results_without_an_image_are_kept_as_data(result: Any) -> None:
    """Any return value of a tool is recorded."""
    event: Any = completed(result)[-1].event
    assert (event.in_parts, event.lossy) == (False, True)
    assert model_history(completed(result)).turns[-1].calls[0].answer.shown_parts == ()


def test_a_damaged_result_in_parts_is_shown_as_data() -> None:
    """A damaged part in a log is not an error."""
    (*_, last) = log = completed([PHOTO])
    event = ToolCompleted("t1", FunctionResponse("f", [{"type": "film"}]), in_parts=True)
    log[-1] = msgspec.structs.replace(last, event=event)
    assert model_history(log).turns[-1].calls[0].answer.text == '[{"type":"film"}]'


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_a_result_in_parts_that_has_no_place_keeps_its_image(provider: str) -> None:
    """The image stands in the user's message."""
    log = completed(["here", PHOTO])
    del log[1]
    messages = model_history(log).render(provider)[list_key(provider)]
    assert [*shown(messages)] == [BYTES]
    assert "here" in str(messages)
    assert validate(messages, provider) == []
