"""The pages of `toolledger serve` in a real browser: live, usable, and safe with hostile texts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import chromium
from support.frameworks import required

from eventstore import EventStore

required("playwright")
required("axe_playwright_python")

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
HOSTILE = "</td><script>window.hurt = 1</script><img src=x onerror='window.hurt = 2'>\u202egnp.exe"
PATHS = ("/", "/errors", "/approvals", "/doubts", "/newest")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a running Chromium."""
    program = chromium.program()
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=[*chromium.ARGUMENTS])
        yield running
        running.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    """Return a store on disk with a failure, and two calls that wait."""
    with EventStore.open(f"sqlite:///{tmp_path}/log.db") as opened:
        chat = opened.conversation(f"shop {HOSTILE}")
        chat.add_message("user", HOSTILE)
        failed = chat.request("find", {"q": HOSTILE})
        chat.start(failed.id)
        chat.fail(failed.id, ValueError(f"no order {HOSTILE}"))
        chat.request("refund", {"amount": 49, "note": HOSTILE})
        chat.request("voucher", {"amount": 5})
        yield opened


@pytest.fixture
def address(store: EventStore) -> Iterator[str]:
    """Return the address that a running server has printed."""
    command = [sys.executable, "-m", "projections.cli", "serve", "--port", "0", "--json"]
    with subprocess.Popen(
        [*command, "--url", store.url],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None
        yield str(json.loads(process.stdout.readline())["address"])
        process.kill()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """Return the first page; problems that the browser tells of fail the test."""
    problems: list[str] = []
    context = browser.new_context(viewport={"width": 1000, "height": 800})
    page = context.new_page()
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(f"dialog {dialog.message}"))
    page.goto(address)
    yield page
    hurt = page.evaluate("window.hurt")
    context.close()
    assert (problems, hurt) == ([], None)


def to(page: Page, path: str) -> None:
    """Open another page of the server."""
    page.goto(re.sub(r"(?<=\d)/.*", "", page.url) + path)


def test_the_token_leaves_the_address(page: Page) -> None:
    """An address that somebody copies opens nothing elsewhere."""
    assert "token" not in page.url
    assert page.get_by_role("heading", name="Conversations").is_visible()


def test_new_events_come_by_themselves(page: Page, store: EventStore) -> None:
    """A conversation, an event and a call that waits appear without a click."""
    chat = store.conversation("a new one")
    chat.add_message("user", "hello")
    expect(page.get_by_role("link", name="a new one")).to_be_visible(timeout=30_000)
    to(page, "/newest")
    chat.add_message("user", "are you there?")
    expect(page.get_by_text("are you there?")).to_be_visible(timeout=30_000)
    to(page, "/approvals")
    expect(page.locator("#live")).to_have_attribute("data-total", "2")
    page.get_by_label("Reason").first.fill("half a sentence")
    chat.request("pay", {"amount": 1})
    expect(page.locator("#live")).to_have_attribute("data-total", "3", timeout=30_000)
    assert page.get_by_label("Reason").first.input_value() == "half a sentence"


def test_a_person_approves_and_rejects_by_keyboard(page: Page, store: EventStore) -> None:
    """The decision is in the log, with the name and the reason; the rest still waits."""
    to(page, "/approvals")
    page.get_by_label("Your name").first.fill("ann")
    page.keyboard.press("Tab")
    page.keyboard.type("fair")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".note")).to_have_text("refund is approved by ann")
    form = page.locator("form.call")
    expect(form).to_have_count(1)
    assert form.get_by_label("Your name").input_value() == "ann"
    form.get_by_role("button", name="Reject").click()
    expect(page.locator(".note")).to_have_text("voucher is rejected by ann")
    (name,) = (name for name, _ in store.conversations())
    tools: list[Any] = [*store.conversation(name).tools.values()]
    assert [tool.status.name for tool in tools] == ["Failed", "Approved", "Rejected"]
    assert (tools[1].status.by, tools[1].status.reason) == ("ann", "fair")


def test_a_page_that_is_too_old_decides_nothing(page: Page, store: EventStore) -> None:
    """Somebody else was faster, and the page says so."""
    to(page, "/approvals")
    (name,) = (name for name, _ in store.conversations())
    chat = store.conversation(name)
    waiting = next(tool for tool in chat.tools.values() if tool.call.name == "refund")
    chat.reject(waiting.id, by="bob")
    page.get_by_label("Your name").first.fill("ann")
    page.get_by_role("button", name="Approve").first.click()
    expect(page.locator(".note")).to_have_text(
        "nothing was decided: refund is rejected by bob already"
    )


def test_an_error_leads_to_its_report(page: Page) -> None:
    """The link opens the conversation's page at the version of the error."""
    to(page, "/errors")
    page.get_by_role("link", name=re.compile("version 4")).click()
    expect(page.locator(".step.at h4")).to_contain_text("version 4 · failed")
    page.locator("#tab-prompt").click()
    expect(page.locator("#prompt .sent").first).to_be_visible()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("width", [420, 1000, 1440])
def test_pages_are_accessible_and_fit(page: Page, path: str, width: int) -> None:
    """No finding of axe-core is serious, and nothing is wider than the window."""
    page.set_viewport_size({"width": width, "height": 800})
    to(page, path)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.locator("img").count() == 0
    found = Axe().run(page).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in serious] == []
