"""The application without a socket: its pages, its checks, and the part that it keeps in memory."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from eventstore import EventStore
from projections.web.app import web_app
from projections.web.guard import Guard, new_token


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
def client(store: EventStore) -> TestClient:
    """Return a browser that has opened the address with the token."""
    token = new_token()
    app = web_app(store, Guard(token, frozenset({"here:80"})))
    browser = TestClient(app, base_url="http://here:80", headers={"Host": "here:80"})
    assert browser.get(f"/?token={token}").status_code == 200
    return browser


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
