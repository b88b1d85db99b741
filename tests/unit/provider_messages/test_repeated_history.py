"""A whole history that is recorded again as new messages is refused, and says what is new."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from eventstore import Conversation, EventStore, Redact

CALL = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": '{"n":1}'}}
HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Pay."},
    {"role": "assistant", "content": "I pay.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "paid"},
    {"role": "assistant", "content": "Done."},
]
NEW = {"role": "user", "content": "Thanks."}


@pytest.mark.parametrize("more", [[], [NEW]])
@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_the_whole_history_again_is_refused(
    chat: Conversation, length: int, more: list[Any]
) -> None:
    """A second call and the words twice are not what anybody means."""
    chat.record_messages(HISTORY[:length])
    version, given = chat.version, [*HISTORY, *more]
    with pytest.raises(ValueError, match=r"already: pass what is new, .*import_messages") as error:
        chat.record_messages(given)
    assert f"messages[:{5 if length == 5 else min(length, 3)}]" in str(error.value)
    assert chat.version == version


def test_the_messages_that_the_error_names_are_all_that_is_missing(chat: Conversation) -> None:
    """Results that the log has already are known when they come again."""
    chat.record_messages(HISTORY[:4])
    with pytest.raises(ValueError, match=r"messages\[3:\]"):
        chat.record_messages([*HISTORY, NEW])
    chat.record_messages([*HISTORY, NEW][3:])
    assert list(chat.tools) == ["c1"]
    assert str([r.event for r in chat.events()]).count("Done.") == 1


def test_a_history_is_known_however_the_log_came_to_it(chat: Conversation) -> None:
    """The log may have been written by hand and by `record`, and may have gone on since."""
    chat.add_message("system", "Be brief.")
    chat.add_message("user", "Pay.")
    (call,) = chat.record({"choices": [{"message": HISTORY[2]}]})
    chat.complete(call.id, "paid")
    chat.record(HISTORY[4])
    chat.add_message("user", "And now?")
    for given in (HISTORY, [*HISTORY, NEW][:4]):
        with pytest.raises(ValueError, match="are in the conversation"):
            chat.record_messages(given)


def test_new_messages_are_recorded(chat: Conversation) -> None:
    """A user may say one thing twice, and a request may begin as the first one did."""
    answered = [HISTORY[1], HISTORY[4]]
    for _ in range(3):
        chat.record_messages([HISTORY[1]])
    chat.record_messages([NEW, HISTORY[1]])
    other = Conversation(chat.session, "other")
    for _ in range(3):
        other.record_messages(answered)
    with pytest.raises(ValueError, match="are in the conversation"):
        other.record_messages([*answered, *answered])
    other.record_messages(HISTORY[1:4])
    other.record_messages([{**HISTORY[2], "content": None}])
    assert len(other.tools) == 2


def test_an_import_goes_on_as_before(chat: Conversation) -> None:
    """An import takes the whole list each time."""
    chat.import_messages(HISTORY)
    chat.import_messages([*HISTORY, NEW])
    with pytest.raises(ValueError, match="are in the conversation"):
        chat.record_messages([*HISTORY, NEW])
    assert list(chat.tools) == ["c1"]


def test_a_history_is_known_as_the_rules_of_the_store_let_it_through(tmp_path: Path) -> None:
    """The log has other words than those that are given."""
    with EventStore.open(
        f"sqlite:///{tmp_path}/a.db", redact=[Redact("ada", re.compile("ada@"))]
    ) as store:
        chat = store.conversation("c")
        history = [{**HISTORY[1], "content": "Write to ada@example.com."}, *HISTORY[2:]]
        chat.record_messages(history)
        with pytest.raises(ValueError, match="are in the conversation"):
            chat.record_messages(history)
