"""The parts that a message may be made of, and what is refused."""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import (
    Document,
    EventStore,
    Image,
    MessageAdded,
    Opaque,
    Part,
    Text,
    ToolCompleted,
)
from eventstore.domain.messages import as_parts
from eventstore.domain.shown_results import result_to_store
from eventstore.providers import PROVIDERS
from projections import model_history

PNG = base64.b64encode(b"\x89PNG pixels").decode()
PDF = base64.b64encode(b"%PDF pages").decode()


def test_content_is_text_a_part_or_several() -> None:
    """Several parts may come in a list, a tuple or any iterable."""
    assert as_parts("a") == (Text("a"),)
    assert as_parts(Text("a")) == (Text("a"),)
    own = Opaque("openai", {"type": "file"})
    assert as_parts(["a", own]) == as_parts(("a", own)) == (Text("a"), own)
    assert as_parts(part for part in "ab") == (Text("a"), Text("b"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (None, "NoneType None"),
        (5, "int 5"),
        (b"x", "bytes b'x'"),
        ({"type": "text", "text": "x"}, "dict {'text': 'x', 'type': 'text'}"),
        (["a", {"type": "text"}], "dict {'type': 'text'}"),
        ([["a"]], "list ['a']"),
    ],
)
def test_content_that_is_not_a_part_is_refused(content: Any, named: str) -> None:
    """The error names the value and what to pass."""
    wanted = (
        f"a message part is {named}: pass text, Text, Image, Document, Audio or Opaque, or several"
    )
    with pytest.raises(TypeError, match=re.escape(wanted)):
        as_parts(content)


@pytest.mark.parametrize(
    "part",
    [
        Image("https://a.b/c.png"),
        Image("gs://a/b.png", media_type="image/png", detail="low"),
        Image(data=PNG),
        Image(data=PNG, media_type="image/png"),
        Document("https://a.b/c.pdf", name="c"),
        Document(data=PDF),
    ],
)
def test_an_image_or_document_with_one_source_stays_as_it_is(part: Part) -> None:
    """Checking it a second time does not change it either."""
    assert as_parts(part) == (part,)


@pytest.mark.parametrize(
    ("part", "held"),
    [
        (Image(f"data:image/gif;base64,{PNG}"), Image(None, PNG, "image/gif")),
        (
            Image(f"DATA:Image/GIF;name=a.gif;BASE64,{PNG}", None, "image/png", "low"),
            Image(None, PNG, "image/gif", "low"),
        ),
        (Image(f"data:;base64,{PNG}", None, "image/png"), Image(None, PNG, "image/png")),
        (Image(None, f"data:image/gif;base64,{PNG}"), Image(None, PNG, "image/gif")),
        (Image("", PNG), Image(None, PNG)),
        (Image("https://a.b/c.png", ""), Image("https://a.b/c.png")),
        (Document(f"data:application/pdf;base64,{PDF}", None, "c"), Document(None, PDF, "c")),
        (Document(None, f"data:application/pdf;base64,{PDF}"), Document(None, PDF)),
        (Document(f"data:;base64,{PDF}"), Document(None, PDF)),
    ],
)
def test_a_data_address_is_replaced_by_its_data(part: Part, held: Part) -> None:
    """The media type of a data URL replaces the declared one."""
    assert as_parts(part) == (held,)


ENCODE = "which is not base64: pass data=content, its bytes, or their base64"


@pytest.mark.parametrize(
    ("part", "complaint"),
    [
        (
            Image(),
            "Image has url None and data None: pass one of them, an address, bytes or base64",
        ),
        (Image(url=""), "Image has url '' and data None: pass one of them"),
        (Document(), "Document has url None and data None: pass one of them"),
        (Document("https://a.b", PDF), "Document has url 'https://a.b' and data 'JVB"),
        (Document(data="no base64!!"), f"Document has 'no base64!!', {ENCODE}"),
        (Document(data="é"), f"Document has 'é', {ENCODE}"),
        (Image(data="abc"), f"Image has 'abc', {ENCODE}"),
        (Image(data=f"a:image/png;base64,{PNG}"), ENCODE),
        (Image("data:,"), f"Image has 'data:,', {ENCODE}"),
        (Image("data:image/png,abcd"), ENCODE),
        (Image("data:image/png;base64,"), ENCODE),
        (Image("data:image/png;base64,abc"), ENCODE),
        (Image(data="!" * 5_000), f"Image has '!!!!!!!!!!!!...!!!!!!!!!!!!!', {ENCODE}"),
        (Image(f"data:application/pdf;base64,{PDF}"), "Image is 'application/pdf': pass media_ty"),
        (Image(data=PNG, media_type="png"), "Image is 'png': pass media_type='image/png' or the"),
        (Document(f"data:image/png;base64,{PNG}"), "Document is 'image/png': pass a PDF (appl"),
    ],
)
def test_an_image_or_document_without_one_content_of_its_kind_is_refused(
    part: Part, complaint: str
) -> None:
    """The error names the part, the value, cut short, and the remedy."""
    with pytest.raises(ValueError, match=re.escape(complaint)) as refused:
        as_parts(["see", part])
    assert len(str(refused.value)) < 200


def test_image_data_that_is_neither_text_nor_bytes_is_refused() -> None:
    """An address is text."""
    other: Any = 5
    with pytest.raises(TypeError, match="which is not text: pass data=content, its bytes"):
        as_parts(Document(data=other))
    for url in (b"%PDF", other):
        with pytest.raises(TypeError, match="Image has "):
            as_parts(Image(url=url))


@given(
    st.builds(
        Image,
        url=st.none() | st.text() | st.builds("data:{};base64,{}".format, st.text(), st.text()),
        data=st.none() | st.text() | st.binary().map(lambda data: base64.b64encode(data).decode()),
        media_type=st.none() | st.text() | st.just("image/png"),
    )
)
def test_an_accepted_image_is_accepted_again_unchanged(image: Image) -> None:
    """The rule is idempotent, and its only refusal is a ValueError."""
    try:
        parts = as_parts(image)
    except ValueError:
        return
    assert as_parts(parts) == parts


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_a_log_with_parts_that_are_refused_today_is_read_and_rendered(provider: str) -> None:
    """Older versions accepted any part."""
    parts = (
        Text("see"),
        Image(),
        Image(""),
        Image(f"data:image/png;base64,{PNG}"),
        Image("data:,"),
        Image(data="abc", media_type="text/html"),
        Image(data="é"),
        Image("https://a.b", PNG),
        Document(),
        Document(f"data:application/pdf;base64,{PDF}"),
        Document(data="no base64!!"),
        Document(data=f"data:application/pdf;base64,{PDF}"),
        Document("https://a.b", PDF),
    )
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.append(MessageAdded("user", parts))
        (recorded,) = chat.events()
        assert recorded.event == MessageAdded("user", parts)
        assert "see" in str(model_history(chat.events()).rendered(provider))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"\x89PNG\r\n\x1a\n\xff", Image(data="iVBORw0KGgr/", media_type="image/png")),
        (b"\xff\xd8\xff\xe0", Image(data="/9j/4A==", media_type="image/jpeg")),
        (b"GIF89a\xff", Image(data="R0lGODlh/w==", media_type="image/gif")),
        (b"RIFF\n\x00\xff\x00WEBP", Image(data="UklGRgoA/wBXRUJQ", media_type="image/webp")),
        (b"%PDF-1.7", Document(data="JVBERi0xLjc=")),
    ],
)
def test_a_result_of_bytes_is_the_image_that_they_are(content: bytes, part: Part) -> None:
    """The model sees it, alone or beside words; nothing of it is lost."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("drawings")
        for result in (content, ["the chart", content]):
            call = chat.request("draw")
            chat.start(call.id)
            chat.complete(call.id, result)
            completed = list(chat.events())[-1].event
            assert isinstance(completed, ToolCompleted)
            assert (completed.in_parts, completed.lossy) == (True, False)
            assert completed.response.result[-1] == msgspec.to_builtins(part)
        prompt = model_history(chat.events()).render("anthropic")
        assert str(prompt).count(part.data) == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("content", [b"\x89PNG", b"RIFF\n\x00\xff\x00WEB", b"\xff"])
def test_a_result_of_other_bytes_stays_data(content: bytes) -> None:
    """A list with one of them does, too."""
    for result in (content, ["the chart", content]):
        assert not result_to_store(result).in_parts
