"""`prompt_diff`: the messages that came, went and changed between two requests."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import Conversation
from eventstore.providers import ProviderName
from projections import model_history, prompt_diff, replay

MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from("ua"), "content": st.sampled_from("xyz")}),
    max_size=6,
)


def request(*contents: str, **members: Any) -> dict[str, Any]:
    """Return a request whose messages alternate."""
    roles = ("user", "assistant")
    said = [{"role": roles[n % 2], "content": each} for n, each in enumerate(contents)]
    return {**members, "messages": said}


def test_messages_that_were_added_removed_and_changed() -> None:
    """Places are those of both lists; a changed message names the path of what changed."""
    found = prompt_diff(request("a", "b", "c", system="S"), request("a", "B", "c", "d", system="T"))
    assert found.common == 1
    assert [(each.kind, each.before, each.after) for each in found.differences] == [
        ("changed", 1, 1),
        ("added", None, 3),
    ]
    assert str(found) == (
        '$.system: "S" became "T"\n'
        'changed message 1: {"role":"assistant","content":"B"}\n'
        '    $.content: "b" became "B"\n'
        'added message 3: {"role":"assistant","content":"d"}\n'
        "1 equal message at the beginning, 3 differences"
    )
    (removed,) = prompt_diff(request("a", "b"), request("a")).differences
    assert str(removed) == 'removed message 1: {"role":"assistant","content":"b"}'


@pytest.mark.parametrize("provider", get_args(ProviderName))
def test_a_prompt_that_grew_has_additions(chat: Conversation, provider: str) -> None:
    """Two frames of one log, for every provider; a prompt does not differ from itself."""
    chat.add_message("user", "Find it.")
    call = chat.request("find", {"q": 1})
    chat.start(call.id)
    chat.complete(call.id, "found")
    chat.add_message("assistant", "Here it is.")
    chat.add_message("user", "Thanks.")
    frames = list(replay(chat.events()))
    early, late = (frames[at].prompt(provider) for at in (0, -1))
    assert not prompt_diff(late, late)
    found = prompt_diff(early, late)
    assert found
    assert {each.kind for each in found.differences} == {"added"}
    assert found.common == 1


@given(MESSAGES, MESSAGES)
def test_equal_messages_and_differences_make_both_lists(one: list[Any], other: list[Any]) -> None:
    """Each message is in the difference or aligned with an equal one, in its order."""
    found = prompt_diff({"messages": one}, {"messages": other})
    assert bool(found) is (one != other)
    before = {each.before for each in found.differences}
    after = {each.after for each in found.differences}
    kept = [message for at, message in enumerate(one) if at not in before]
    assert kept == [message for at, message in enumerate(other) if at not in after]
    assert one[: found.common] == other[: found.common]


def test_requests_of_two_providers_are_refused(chat: Conversation) -> None:
    """The error names what each has."""
    chat.add_message("user", "x")
    prompt = model_history(chat.events())
    with pytest.raises(ValueError, match="messages and contents: pass two that render"):
        prompt_diff(prompt.render("openai"), prompt.render("gemini"))
