"""What the text of an error says of the effect, where no exception arrives."""

from __future__ import annotations

import pytest

from eventstore.domain.doubt import text_of_doubt
from eventstore.integrations.error_texts import failure_of_text


@pytest.mark.parametrize(
    "text",
    [
        "",  # as of `ClosedResourceError()`
        "Connection closed",
        "Request 'tools/call' timed out",
        "Timed out while waiting for response to ClientRequest. Waited 2.0 seconds.",
        "the read operation timed out",
        "[Errno 104] Connection reset by peer",
        "[Errno 32] Broken pipe",
        "('Connection aborted.', RemoteDisconnected('closed connection without response'))",
        "Server disconnected without sending a response.",
        "peer closed connection without sending complete message body (incomplete chunked read)",
        "504 Server Error: Gateway Timeout for url: https://bank.test/refunds",
        "MCP session task has already terminated: unhandled errors in a TaskGroup",
        text_of_doubt("the bank failed", None),
        "connection reset by peer; the second try: connection refused",
        "Exit code 124",
        "Exit code 137\nKilled",
    ],
)
def test_a_text_that_leaves_a_doubt(text: str) -> None:
    """The connection broke, nobody answered in time, or nothing is said."""
    assert failure_of_text(text).leaves_doubt


@pytest.mark.parametrize(
    "text",
    [
        "[Errno 111] Connection refused",
        "timed out while connecting to bank.test",
        "ConnectTimeout: bank.test",
        "[Errno -2] Name or service not known",
        "Failed to create MCP session: timed out after 5s",
    ],
)
def test_a_text_of_what_came_before_the_effect(text: str) -> None:
    """Nothing was sent, also where other errors of that kind leave a doubt."""
    assert not failure_of_text(text, leaves_doubt=True).leaves_doubt


@pytest.mark.parametrize("leaves_doubt", [False, True])
def test_any_other_text_leaves_what_its_kind_does(leaves_doubt: bool) -> None:
    """An ordinary error says nothing of the effect."""
    failure = failure_of_text("order 7 has no invoice", leaves_doubt=leaves_doubt)
    assert (failure.leaves_doubt, failure.message) == (leaves_doubt, "order 7 has no invoice")


@pytest.mark.parametrize(
    "text",
    [
        "Exit code 1\nFAILED test_http.py::test_timeout - TimeoutError: timed out",
        "File does not exist. Did you mean timeout.py?",
        "Order 7 was already cancelled",
        "no tests of timeouts found",
    ],
)
def test_words_of_time_and_cancel_are_not_all_of_the_attempt(text: str) -> None:
    """A program has told how it ended, or the words are of what the tool works on."""
    assert not failure_of_text(text).leaves_doubt
