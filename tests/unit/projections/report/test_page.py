"""The page: one file that asks for nothing, and in which nothing of the log is markup."""

from __future__ import annotations

import base64
import json
import re
import zlib
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest

from eventstore import Conversation, EventStore, ToolsOffered
from projections import html_report, why
from projections.report import FIRST_LINE
from projections.report.bounded import MAX_CHARACTERS, bounded_text

HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)">\u202e&amp;\u2028\x00'


class Page(HTMLParser):
    """The elements of a page, and the contents of its scripts and styles."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.contents: list[tuple[str, dict[str, str | None], str]] = []
        self._is_open = False
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take in the beginning of an element."""
        self.elements.append((tag, dict(attrs)))
        self._is_open = True

    def handle_data(self, data: str) -> None:
        """Take in the text of the last element."""
        if self._is_open:
            self.contents.append((*self.elements[-1], data))

    def handle_endtag(self, tag: str) -> None:
        """Take in the end of an element; text after it is of no interest."""
        self._is_open = False

    def blocks(self) -> dict[str, str]:
        """Return the blocks of data by their names."""
        return {
            str(attributes["id"]).removeprefix("data-"): text
            for tag, attributes, text in self.contents
            if tag == "script" and str(attributes.get("id", "")).startswith("data-")
        }


def unpacked(block: str) -> str:
    """Return the contents of a compressed block."""
    return zlib.decompress(base64.b64decode(block)).decode()


@pytest.fixture
def hostile(store: EventStore) -> Conversation:
    """Return a conversation in which every text tries to be markup."""
    chat = store.conversation(HOSTILE[:-2])
    chat.add_message("user", HOSTILE)
    chat.append(ToolsOffered(1, (HOSTILE, "b")))
    call = chat.request("tool", {HOSTILE: HOSTILE})
    chat.start(call.id)
    chat.fail(call.id, ValueError(HOSTILE))
    return chat


def test_the_page_needs_no_network(hostile: Conversation) -> None:
    """No element refers to another file; the policy allows the page's own sources alone."""
    page = Page(html_report(hostile.events()))
    assert [
        (tag, name)
        for tag, attributes in page.elements
        for name in attributes
        if name in ("src", "srcset", "action", "data", "srcdoc", "background")
    ] == []
    links = [str(attributes["href"]) for tag, attributes in page.elements if "href" in attributes]
    assert links
    assert all(re.fullmatch(r"#v=\d+", link) for link in links)
    assert [
        attributes
        for _, attributes in page.elements
        if any(name.startswith("on") or name == "style" for name in attributes)
    ] == []
    (policy,) = (
        str(attributes["content"])
        for tag, attributes in page.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    own = [
        text
        for tag, attributes, text in page.contents
        if tag == "style" or (tag == "script" and not attributes)
    ]
    digests = {base64.b64encode(sha256(text.encode()).digest()).decode() for text in own}
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == digests
    assert len(digests) == 4
    assert re.sub(r" 'sha256-[^']+'", "", policy) == (
        "default-src 'none'; script-src; style-src; base-uri 'none'; form-action 'none'"
    )


def test_a_text_of_the_log_never_is_markup(hostile: Conversation) -> None:
    """A hostile text adds no element, and is in the page's data as it is in the log."""
    page = Page(html_report(hostile.events()))
    assert "img" not in {tag for tag, _ in page.elements}
    blocks = page.blocks()
    assert json.loads(blocks["overview"])["conversation"] == hostile.id
    (first, *_) = map(json.loads, unpacked(blocks["events-0"]).split("\n"))
    assert first["event"]["parts"][0]["text"] == HOSTILE
    scripts = [attributes for tag, attributes in page.elements if tag == "script"]
    assert len(scripts) == len(blocks) + 2


def test_the_page_says_what_why_says(hostile: Conversation) -> None:
    """The ten lines stand in the page as text, and it opens at the first error."""
    source = html_report(hostile.events())
    assert source.startswith(FIRST_LINE)
    page = Page(source)
    labels = [text for tag, _, text in page.contents if tag == "dt"]
    assert labels == [label for label, _ in why(hostile.events()).labelled]
    overview: Any = json.loads(page.blocks()["overview"])
    assert overview["opensAt"] == hostile.version
    assert overview["markdown"] == why(hostile.events()).markdown()


def test_a_log_without_an_error_opens_at_its_end(chat: Conversation) -> None:
    """There is nothing else to look at."""
    chat.add_message("user", "hello")
    chat.add_message("assistant", "hi")
    page = Page(html_report(chat.events()))
    assert json.loads(page.blocks()["overview"])["opensAt"] == 2


def test_the_given_provider_is_shown_first(chat: Conversation) -> None:
    """The log's own provider is the default."""
    chat.record_messages([{"role": "user", "content": "hello"}], "anthropic")
    providers = json.loads(Page(html_report(chat.events())).blocks()["overview"])["providers"]
    assert providers[0] == "anthropic"
    page = Page(html_report(chat.events(), provider="gemini"))
    assert json.loads(page.blocks()["overview"])["providers"][0] == "gemini"


def test_a_long_text_is_cut_in_the_middle(chat: Conversation) -> None:
    """The page says how much is missing; short texts are whole."""
    chat.add_message("user", "a" * 300_000 + "the end")
    blocks = Page(html_report(chat.events())).blocks()
    (line,) = unpacked(blocks["events-0"]).split("\n")
    assert "[... 200,008 characters left out ...]" in line
    assert "the end" in line
    assert len(html_report(chat.events())) < 600_000
    assert bounded_text("x" * MAX_CHARACTERS) == "x" * MAX_CHARACTERS


def test_no_events_and_two_conversations_are_refused(store: EventStore) -> None:
    """The error says what to pass."""
    with pytest.raises(ValueError, match="there are no events"):
        html_report([])
    for name in ("a", "b"):
        store.conversation(name).add_message("user", "hello")
    with pytest.raises(ValueError, match="several conversations"):
        html_report(store.read())
