"""The report in a real browser: what opens, what the keys do, and that nothing of a log runs."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import chromium
from support.frameworks import required

from eventstore import Conversation, EventStore, ModelResponded, ToolsOffered, Usage
from projections import html_report, model_history

required("playwright")
required("axe_playwright_python")

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

WIDTHS = (420, 1000, 1440)
HOSTILE = (
    "</script><script>window.hurt = 1</script><img src=x onerror='window.hurt = 2'>\u202egnp.exe"
)

KEEP_COPIES = """
navigator.clipboard.writeText = async (text) => { document.body.dataset.copied = text; }; 0
"""

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a running Chromium."""
    program = chromium.program()
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=[*chromium.ARGUMENTS])
        yield running
        running.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Return a function that opens the report of a conversation; errors and requests fail it."""
    problems: list[str] = []
    contexts: list[Any] = []

    def open_report(
        chat: Conversation, address: str = "", width: int = 1440, scheme: Any = "light"
    ) -> Page:
        path = tmp_path / "run.html"
        path.write_text(html_report(chat.events()), encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(f"dialog {dialog.message}"))
        page.on(
            "request",
            lambda request: request.url.startswith(path.as_uri()) or problems.append(request.url),
        )
        page.goto(path.as_uri() + address)
        expect(page.locator("html")).to_have_attribute("data-searchable", "yes")
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def run(store: EventStore, clock: Any) -> Conversation:
    """Return a run with a failure, an edit, a rejection, a loop and an open call."""
    chat = store.conversation("support-42")
    chat.add_message("system", "You help.")
    chat.add_message("user", "My lamp is broken.")
    chat.append(ToolsOffered(1, ("find_order", "refund"), ("find_order",)))
    chat.add_message("assistant", "Let me look.")
    order = chat.request("find_order", {"order": "A-17"})
    clock.advance(1)
    chat.start(order.id)
    clock.advance(2)
    chat.fail(order.id, TimeoutError("no answer from the shop"))
    clock.advance(1)
    chat.start(order.id, 2)
    chat.complete(order.id, {"item": "lamp"})
    chat.append(ModelResponded("openai", "gpt", usage=Usage(100, 10, 50)))
    chat.append(ModelResponded("openai", "gpt", usage=Usage(150, 20, 100)))
    refund = chat.request("refund", {"amount": 490})
    clock.advance(60)
    chat.approve(refund.id, {"amount": 49}, by="ann", reason="a slip")
    chat.start(refund.id)
    chat.complete(refund.id, "paid")
    for _ in range(3):
        again = chat.request("search", {"q": "lamps"})
        chat.start(again.id)
        chat.complete(again.id, "nothing")
    account = chat.request("delete_account", {"customer": "mia"})
    chat.reject(account.id, "not now", by="ann")
    chat.request("send_voucher", {"customer": "mia"})
    return chat


def chosen(page: Page) -> str:
    """Return the text of the chosen row."""
    return str(page.locator('.row[aria-selected="true"]').inner_text())


def copied(page: Page) -> str:
    """Return the text that was copied last, once it is there."""
    expect(page.locator("body")).to_have_attribute("data-copied", re.compile("."))
    return str(page.evaluate("document.body.dataset.copied"))


def version(page: Page) -> int:
    """Return the version that the page shows."""
    return int(str(page.evaluate("new URLSearchParams(location.hash.slice(1)).get('v')")))


def test_the_page_opens_at_the_first_failure(opened: Open, run: Conversation) -> None:
    """The details show the failed attempt of the call, its arguments, and how it went on."""
    page = opened(run)
    assert version(page) == 7
    assert "find_order" in chosen(page)
    details = page.locator("#panel-event").inner_text()
    for text in (
        '"A-17"',
        "no answer from the shop",
        "TimeoutError",
        "waited 2.00 s",
        "ran 2.00 s",
        "2 attempts",
    ):
        assert text in details
    assert page.locator(".step.at").inner_text().startswith("version 7 · failed")


def test_keys_walk_through_the_rows(opened: Open, run: Conversation) -> None:
    """Arrows, Home and End move the choice; brackets go to errors; a slash goes to the search."""
    page = opened(run)
    page.locator("#rows").focus()
    page.keyboard.press("Home")
    assert version(page) == 1
    page.keyboard.press("ArrowDown")
    assert "My lamp is broken." in chosen(page)
    page.keyboard.press("End")
    assert "send_voucher" in chosen(page)
    active = page.locator("#rows").get_attribute("aria-activedescendant")
    assert page.locator(f"#{active}").get_attribute("aria-selected") == "true"
    page.keyboard.press("[")
    assert version(page) == 7
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"
    page.keyboard.type("[")
    assert page.locator("#query").input_value() == "["
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "rows"
    seen = set()
    page.locator("#copy-why").focus()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"theme", "query", "only", "version", "rows", "tab-event", "panel-event"} <= seen
    page.locator("#tab-event").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-prompt"
    expect(page.locator("#prompt .sent").first).to_be_visible()


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "bedrock"])
def test_every_version_has_its_exact_prompt(opened: Open, run: Conversation, provider: Any) -> None:
    """The copy made at each place of the slider is the request that the library renders there."""
    page = opened(run, f"#v=1&panel=prompt&provider={provider}")
    page.evaluate(KEEP_COPIES)
    events = list(run.events())
    slider = page.locator("#version")
    slider.focus()
    for at in range(1, len(events) + 1):
        expect(page.locator("#prompt")).to_have_attribute("data-version", str(at))
        page.evaluate("delete document.body.dataset.copied")
        page.locator("#copy-prompt").click()
        reported = json.loads(copied(page))
        assert reported == json.loads(json.dumps(model_history(events[:at]).render(provider)))
        slider.focus()
        page.keyboard.press("ArrowRight")


def test_repairs_stand_under_what_they_changed(opened: Open, run: Conversation) -> None:
    """The open call's answer is the library's, and the page says so in its place."""
    page = opened(run, f"#v={run.version}&panel=prompt&provider=openai")
    repairs = page.locator(".sent .repair")
    repairs.first.wait_for()
    assert "answered" in repairs.last.inner_text()
    assert "open-call" in repairs.last.inner_text()


def test_the_state_follows_the_version(opened: Open, run: Conversation) -> None:
    """Each call has the status that it had then."""
    page = opened(run, "#v=6&panel=state")
    assert "1 Running" in page.locator("#panel-state").inner_text()
    page.locator("#version").focus()
    page.keyboard.press("ArrowRight")
    assert "1 Failed" in page.locator("#panel-state").inner_text()
    page.keyboard.press("End")
    shown = page.locator("#panel-state").inner_text()
    assert "5 Completed, 1 Rejected, 1 Pending" in shown
    assert "send_voucher" in shown


def test_find_finds_values_and_not_the_members_of_every_event(
    opened: Open, run: Conversation
) -> None:
    """A text in arguments, results and failures is found, in any case."""
    page = opened(run)
    found = page.locator("#found")
    page.locator("#query").fill("NO ANSWER FROM")
    expect(found).to_have_text(re.compile(r"^1 of"))
    assert "find_order" in chosen(page)
    page.locator("#query").fill("call_id")
    expect(found).to_have_text(re.compile(r"^0 of"))
    page.locator("#query").fill("customer")
    expect(found).to_have_text(re.compile(r"^2 of"))
    page.locator("#query").fill("")
    page.locator("#only").select_option("repeat")
    expect(found).to_have_text(re.compile(r"^3 of"))
    assert page.locator(".row.repeat").count() == 3
    page.locator("#only").select_option("all")
    expect(found).to_have_text("")


def test_links_and_copies_say_where(opened: Open, run: Conversation) -> None:
    """An address opens the same view, and a row is copied as Markdown."""
    page = opened(run, "#v=13&panel=event")
    assert "refund" in chosen(page)
    assert page.locator(".step.at").inner_text().startswith("version 13 · ")
    page.evaluate(KEEP_COPIES)
    page.locator("#panel-event button").click()
    text = copied(page)
    assert text.startswith("### refund, version 12 of support-42")
    assert '"amount": 49' in text
    page.evaluate("navigator.clipboard.writeText = () => Promise.reject(new Error('no')); 0")
    page.locator("#copy-why").click()
    assert "### Why support-42 failed" in page.locator("#clipboard textarea").input_value()
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Show the likely cause").click()
    assert version(page) != 13


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("panel", ["event", "prompt", "state", "statistics"])
def test_a_screen_reader_and_weak_eyes_are_served(
    opened: Open, run: Conversation, panel: str, scheme: str
) -> None:
    """No finding of axe-core is serious, in either theme."""
    page = opened(run, f"#v=7&panel={panel}", scheme=scheme)
    page.locator(f"#panel-{panel} :first-child").first.wait_for()
    found = Axe().run(page).response["violations"]
    assert [
        (each["id"], [node["html"] for node in each["nodes"]])
        for each in found
        if each["impact"] in ("serious", "critical")
    ] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_fits_its_window(opened: Open, run: Conversation, width: int) -> None:
    """Nothing is wider than the window, whichever panel is shown."""
    page = opened(run, width=width)
    for panel in ("event", "prompt", "state", "statistics"):
        page.locator(f"#tab-{panel}").click()
        page.locator(f"#panel-{panel} :first-child").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_hostile_texts_neither_run_nor_break_the_page(opened: Open, store: EventStore) -> None:
    """Markup stays text, hidden characters are shown, and long results are cut."""
    chat = store.conversation(HOSTILE)
    chat.add_message("user", HOSTILE)
    for _ in range(2):
        call = chat.request("tool", {HOSTILE: HOSTILE, "__proto__": {"hurt": 3}})
        chat.start(call.id)
        chat.fail(call.id, ValueError(HOSTILE))
    large = chat.request("large", {})
    chat.start(large.id)
    chat.complete(large.id, "y" * 10_000_000 + HOSTILE)
    page = opened(chat)
    for panel in ("event", "prompt", "state", "statistics"):
        page.locator(f"#tab-{panel}").click()
        page.locator(f"#panel-{panel} :first-child").first.wait_for()
    page.locator("#tab-event").click()
    page.locator("#rows").focus()
    page.keyboard.press("End")
    expect(page.locator("#panel-event")).to_contain_text("characters left out")
    assert page.evaluate("window.hurt") is None
    assert page.evaluate("({}).hurt") is None
    assert page.locator("img").count() == 0
    page.keyboard.press("Home")
    expect(page.locator("#panel-event")).to_contain_text("\\u202e")
    assert "\u202e" not in page.locator("body").inner_text()


def test_five_thousand_calls_are_a_few_rows_of_the_document(
    opened: Open, store: EventStore
) -> None:
    """Only the rows in sight are there, and the last one is a key away."""
    chance = random.Random(1)
    chat = store.conversation("long")
    for number in range(5_000):
        call = chat.request("step", {"number": number})
        chat.start(call.id)
        if chance.random() < 0.01:
            chat.fail(call.id, ValueError("no luck"))
        else:
            chat.complete(call.id, number)
    page = opened(chat)
    assert page.locator(".row").count() < 100
    page.locator("#rows").focus()
    page.keyboard.press("End")
    assert '{"number":4999}' in chosen(page)
    assert page.locator(".row").count() < 100
    page.locator("#query").fill("no luck")
    expect(page.locator("#found")).to_have_text(re.compile("of 5,000 rows"))
    assert len(os.fsencode(page.content())) < 40_000_000
