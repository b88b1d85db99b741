"""Images, documents and sounds are media to the model, wherever they stand in a result."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from eventstore import (
    Audio,
    Document,
    EventStore,
    FunctionCall,
    Image,
    Opaque,
    Redact,
    Text,
    ToolCompleted,
    validate,
)
from eventstore.domain.shown_results import MOST_HEX_BYTES
from eventstore.providers import PROVIDERS, list_key
from projections import model_history

PNG = b"\x89PNG\r\n\x1a\n pixels \xff"
JPEG = b"\xff\xd8\xff pixels"
PDF = b"%PDF-1.7 \xff"
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt "
NOISE = b"\xff\x00" * MOST_HEX_BYTES


def base64_of(content: bytes) -> str:
    """Return the base64 of bytes."""
    return base64.b64encode(content).decode()


class Page(BaseModel):
    """A model that a tool may return."""

    number: int
    image: bytes


@dataclass
class Scan:
    """A dataclass that a tool may return."""

    number: int
    image: bytes


def completed(result: object) -> ToolCompleted:
    """Return the event of a call with this result."""
    with EventStore.open("sqlite://") as store:
        return _completed(store, result)[0]


def prompt(result: object, provider: str) -> Any:
    """Return the messages of the next prompt."""
    with EventStore.open("sqlite://") as store:
        return _completed(store, result)[1].render(provider)[list_key(provider)]


def _completed(store: EventStore, result: object) -> tuple[ToolCompleted, Any]:
    chat = store.conversation("c")
    chat.add_message("user", "Show it.")
    chat.turn("", [FunctionCall("show", {}, "call_1")])
    chat.start("call_1")
    chat.complete("call_1", result)
    event = list(chat.events())[-1].event
    assert isinstance(event, ToolCompleted)
    return event, model_history(chat.events())


@pytest.mark.parametrize(
    ("result", "text", "media"),
    [
        ({"img": PNG, "n": 1}, '{"img":"[image 1]","n":1}', [PNG]),
        ({"img": Image(data=PNG)}, '{"img":"[image 1]"}', [PNG]),
        ([{"a": JPEG}, {"a": PNG}], '[{"a":"[image 1]"},{"a":"[image 2]"}]', [JPEG, PNG]),
        ({"a": {"b": (PNG, PDF)}}, '{"a":{"b":["[image 1]","[document 1]"]}}', [PNG, PDF]),
        ([Document(data=PDF, name="r.pdf"), 7], '["[document 1: r.pdf]",7]', [PDF]),
        (["text", {"n": PNG}], '["text",{"n":"[image 1]"}]', [PNG]),
        (Page(number=1, image=PNG), '{"number":1,"image":"[image 1]"}', [PNG]),
        (Scan(1, PNG), '{"number":1,"image":"[image 1]"}', [PNG]),
    ],
)
@pytest.mark.parametrize("provider", sorted({*PROVIDERS} - {"ollama", "cohere"}))
def test_media_inside_of_a_result_are_shown(
    result: object, text: str, media: list[bytes], provider: str
) -> None:
    """The JSON names them, and they follow it in the order of their names; no hex is shown."""
    first = completed(result).response.result[0]
    assert first == {"type": "text", "text": text}
    messages = prompt(result, provider)
    said = str(messages)
    places = [said.find(base64_of(each)) for each in media]
    if provider == "bedrock":  # which takes bytes
        places = [said.find(repr(each)) for each in media]
    assert places == sorted(places)
    if provider != "mistral" or PDF not in media:  # which shows documents by address
        assert -1 not in places
    assert media[0].hex() not in said
    assert validate(messages, provider) == []


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_bytes_in_data_are_bytes(make: Any) -> None:
    """Base64 is made of them, with the type that they begin as, whatever was said of it."""
    assert Image(data=make(PNG)) == Image(None, base64_of(PNG), "image/png")
    assert Image(data=make(JPEG), media_type="image/png").media_type == "image/jpeg"
    assert Image(data=make(b"II*\x00 tiff")).media_type == "image/tiff"
    assert Image(data=make(b"?"), media_type="image/x").media_type == "image/x"
    assert Document(data=make(PDF)) == Document(None, base64_of(PDF))
    assert Audio(make(WAV)) == Audio(base64_of(WAV), "audio/wav")
    assert Audio(make(b"\xff\xfb mp3")).media_type == "audio/mpeg"


def test_bytes_in_data_are_bytes_in_messages_and_arguments() -> None:
    """Base64 is made of them at the door; bare bytes of media are media in a message, too."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.add_message("user", ["look", Image(data=PNG), PDF, Audio(WAV)])
        call = chat.request("show", {"image": Image(data=PNG)})
        said: Any = next(iter(chat.events())).event
    assert said.parts == (
        Text("look"),
        Image(None, base64_of(PNG), "image/png"),
        Document(None, base64_of(PDF)),
        Audio(base64_of(WAV), "audio/wav"),
    )
    shown = {"type": "image", "data": base64_of(PNG), "media_type": "image/png"}
    assert call.call.arguments == {"image": shown}


@pytest.mark.parametrize(
    ("part", "error"),
    [
        (Image(data=PDF), "a PDF as Document"),
        (Image(data=WAV), "or a sound as Audio"),
        (Document(data=PNG), "an image as Image"),
        (Audio(PNG), "an image as Image"),
        (Audio(b"?"), "media_type='audio/wav' or the like"),
        (Audio(""), "pass bytes or base64"),
        (b"no media", "pass text, Text, Image, Document, Audio or Opaque"),
    ],
)
def test_a_message_with_media_of_another_kind_is_refused(part: Any, error: str) -> None:
    """The error names the value and the remedy."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        with pytest.raises((TypeError, ValueError), match=error):
            chat.add_message("user", [part])
        assert chat.version == 0


def test_the_type_of_base64_is_the_one_that_it_begins_as() -> None:
    """A provider refuses an image of another type than it is said to be."""
    event = completed(Image(data=base64_of(JPEG), media_type="image/png"))
    assert event.response.result[0]["media_type"] == "image/jpeg"


def test_an_image_that_is_none_is_what_it_begins_as() -> None:
    """A tool's result is kept whatever it is."""
    shown = completed(Image(data=PDF)).response.result
    assert shown == [{"type": "document", "data": base64_of(PDF)}]


@pytest.mark.parametrize(
    ("provider", "shown"),
    [
        ("openai", {"data": base64_of(WAV), "format": "wav"}),
        ("mistral", base64_of(WAV)),
        ("gemini", {"mimeType": "audio/wav", "data": base64_of(WAV)}),
        ("anthropic", "[audio (audio/wav)]"),
        ("openai-responses", "[audio (audio/wav)]"),
        ("bedrock", "[audio (audio/wav)]"),
        ("cohere", "[audio (audio/wav)]"),
        ("ollama", "[audio (audio/wav)]"),
    ],
)
@pytest.mark.parametrize("result", [WAV, Audio(WAV), {"sound": WAV}, ["listen", Audio(WAV)]])
def test_sounds_are_played_to_those_that_take_them(
    provider: str, shown: object, result: object
) -> None:
    """A line says what was there to the others."""
    messages = prompt(result, provider)
    assert str(shown) in str(messages)
    assert validate(messages, provider) == []


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_many_bytes_of_no_known_kind_are_kept_and_not_shown(provider: str) -> None:
    """The model reads how many there are; the log has them."""
    event = completed({"name": "core", "dump": NOISE})
    note = f"[{len(NOISE)} bytes, which are not shown here]"
    assert event.response.result[0]["text"] == f'{{"name":"core","dump":"{note}"}}'
    kept = event.response.result[1]
    assert base64.b64decode(kept["data"]["data"]) == NOISE
    assert isinstance(Opaque(kept["provider"], kept["data"]), Opaque)
    messages = prompt(NOISE, provider)
    assert note in str(messages)
    assert NOISE.hex() not in str(messages)
    assert base64_of(NOISE) not in str(messages)
    assert validate(messages, provider) == []


def test_few_bytes_are_hex_digits_and_text_is_text() -> None:
    """Bytes that are no media may be a digest, or a text."""
    event = completed({"digest": b"\xff\x00", "text": b"hello" * 1000})
    assert event.response.result == {"digest": "ff00", "text": "hello" * 1000}
    assert (event.in_parts, event.lossy) == (False, True)


def test_a_rule_of_the_store_covers_the_text_beside_media() -> None:
    """The media stay as they are."""
    rule = Redact("code", re.compile("ZX-1"))
    with EventStore.open("sqlite://", redact=[rule]) as store:
        shown = _completed(store, {"code": "ZX-1", "sound": WAV})[0].response.result
    assert shown == [
        {"type": "text", "text": '{"code":"[redacted: code]","sound":"[audio 1]"}'},
        {"type": "audio", "data": base64_of(WAV), "media_type": "audio/wav"},
    ]
