"""The application without a socket: its pages, its checks, and the part that it keeps in memory."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from eventstore import Cursor, EventStore, Feed, Recorded, StorageError
from eventstore.backup import backup
from projections.web.app import web_app
from projections.web.guard import Guard, hosts_of, new_token


@pytest.fixture
def store(tmp_path: object) -> EventStore:
    """Return a store with a failure and a call that waits."""
    opened = EventStore.open(f"sqlite:///{tmp_path}/log.db")
    chat = opened.conversation("shop")
    chat.add_message("user", "hello")
    call = chat.request("find", {"q": 1})
    chat.start(call.id)
    chat.fail(call.id, ValueError("no order"))
    chat.request("refund", {"amount": 49})
    return opened


@pytest.fixture
def client(store: EventStore) -> Iterator[TestClient]:
    """Return a browser that has opened the address with the token."""
    token = new_token()
    app = web_app(store, Guard(token, frozenset({"here:80"})))
    with TestClient(app, base_url="http://here:80", headers={"Host": "here:80"}) as browser:
        assert browser.get(f"/?token={token}").status_code == 200
        yield browser


def test_pages_go_on_with_the_log(client: TestClient, store: EventStore) -> None:
    """A second request shows what was appended after the first."""
    assert "refund" in client.get("/approvals").text
    assert "1 different error<" in client.get("/errors").text
    chat = store.conversation("other")
    call = chat.request("pay", {"amount": 2})
    chat.start(call.id)
    chat.fail(call.id, ValueError("no money"))
    assert "2 different errors" in client.get("/errors").text
    assert "no money" in client.get("/newest").text
    assert "2 conversations" in client.get("/").text
    assert "1 conversation," in client.get("/?q=oth").text
    assert client.get("/conversation/other").status_code == 200
    assert client.get("/conversation/nobody").status_code == 404
    assert client.get("/assets/web.css").headers["content-type"].startswith("text/css")
    assert client.get("/assets/app.py").status_code == 404
    store.close()


def test_a_decision_is_shown_on_the_page(client: TestClient, store: EventStore) -> None:
    """The form's own token is asked for, and a long form is refused."""
    page = client.get("/approvals").text
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page)) | {"by": "ann"}
    for wrong in ({**fields, "form_token": "x"}, {"decision": "approve"}):
        assert client.post("/approvals", data=wrong).status_code == 403
    assert client.post("/approvals", content=b"x" * 2_000_001).status_code == 413
    assert store.conversation("shop").version == 5
    said = client.post("/approvals", data={**fields, "decision": "approve"}).text
    assert "refund is approved by ann" in said
    assert store.conversation("shop").version == 6
    store.close()


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_a_decision_from_another_site_is_refused(
    client: TestClient, store: EventStore, headers: dict[str, str]
) -> None:
    """The browser says that another site sent it, though the form is this server's."""
    page = client.get("/approvals").text
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page)) | {"by": "ann"}
    fields |= {"decision": "approve"}
    assert client.post("/approvals", data=fields, headers=headers).status_code == 403
    assert store.conversation("shop").version == 5
    own = {"Origin": "http://here:80", "Sec-Fetch-Site": "same-origin"}
    assert "approved by ann" in client.post("/approvals", data=fields, headers=own).text
    store.close()


def test_strangers_are_refused(client: TestClient, store: EventStore) -> None:
    """No token, a wrong one, and another host's name."""
    stranger = TestClient(client.app, base_url="http://here:80", headers={"Host": "here:80"})
    assert stranger.get("/").status_code == 403
    assert stranger.get("/?token=guess").status_code == 403
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 421
    store.close()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_log_that_was_put_back_is_named_once_and_followed_again(
    client: TestClient, store: EventStore, is_replaced: bool
) -> None:
    """The page names the remedy. The next one shows what the log has now."""
    path = Path(store.url.removeprefix("sqlite:///"))
    copy = path.with_name("copy.db")
    backup(store.url, copy)
    store.conversation("lost").add_message("user", "lost")
    assert "lost" in client.get("/newest").text
    if is_replaced:
        for file in path.parent.glob("log.db*"):
            file.unlink()
        shutil.copy(copy, path)
    else:
        with closing(sqlite3.connect(copy)) as source, closing(sqlite3.connect(path)) as target:
            source.backup(target)
    with EventStore.open(store.url) as other:
        for number in range(3):
            other.conversation("new").add_message("user", f"new {number}")
    page = client.get("/newest")
    assert page.status_code == 503
    assert "toolledger accept-loss" in page.text
    assert 'id="live"' in page.text
    again = client.get("/newest")
    assert again.status_code == 200
    assert "new 2" in again.text
    assert "lost" not in again.text
    store.close()


class BreaksOff:
    """A store of which every other read ends with an error after some events."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read(self, after: Cursor | None = None) -> Any:
        """Return the events; in the middle the server goes away."""
        self._reads += 1
        return BrokenFeed(self._store.read(after)) if self._reads % 2 else self._store.read(after)


class BrokenFeed:
    """A feed that ends with an error after 250 events."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    @property
    def cursor(self) -> Cursor:
        """The place after the last event that was given."""
        return self._feed.cursor

    def __iter__(self) -> Iterator[Recorded]:
        yield from islice(self._feed, 250)
        raise StorageError("the server went away")


def test_a_read_that_breaks_off_is_not_counted_twice(store: EventStore) -> None:
    """The next request goes on behind what was taken in."""
    chat = store.conversation("many")
    for number in range(150):
        call = chat.request("find", {"q": number})
        chat.start(call.id)
        chat.complete(call.id, number)
    token = new_token()
    broken: Any = BreaksOff(store)
    app = web_app(broken, Guard(token, hosts_of(["here"], 80)))
    browser = TestClient(app, base_url="http://here", headers={"Host": "here"})
    browser.get(f"/?token={token}", follow_redirects=False)
    assert browser.get("/").status_code == 503
    page = re.sub("<[^>]*>", " ", browser.get("/").text)
    assert re.search(r"many\s+450 .* 150 ", page)
    store.close()


@pytest.mark.parametrize(
    ("names", "port", "answered", "refused"),
    [
        (["127.0.0.1"], 80, ["127.0.0.1", "127.0.0.1:80"], ["127.0.0.1:81", "evil", ""]),
        (["::1"], 80, ["[::1]", "[::1]:80"], ["::1"]),
        (["a.example", "B.example:443"], 8770, ["A.example:8770", "b.example:443"], ["b.example"]),
    ],
)
def test_only_the_names_of_the_server_are_answered(
    store: EventStore, names: list[str], port: int, answered: list[str], refused: list[str]
) -> None:
    """A browser leaves out port 80, and a proxy has a port of its own."""
    browser = TestClient(web_app(store, Guard("t", hosts_of(names, port))))
    for host in (*answered, *refused):
        status = browser.get("/", headers={"Host": host}).status_code
        assert (status == 421) == (host in refused), host
    store.close()
