"""After-hooks: what they see of a result, what they may change, and what the log says of it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support.dispatchers import answers, last, make, raising, tags

from eventstore import (
    Conversation,
    Failure,
    FunctionTool,
    Outcome,
    Replace,
    Skip,
    Tool,
    ToolCompleted,
)
from eventstore.dispatch.after_hooks import AfterHook
from projections.replay import describe

SECRET = "sk-live-42"  # noqa: S105 - the secret that must not be stored


def fetch() -> dict[str, Any]:
    """Return a result with a secret."""
    return {"key": SECRET, "rows": [1, 2, 3]}


def mask(_: Tool, result: Any) -> Replace | None:
    """Hide the key."""
    if isinstance(result, dict) and "key" in result:
        return Replace(result | {"key": "***"}, "keys are not stored")
    return None


async def count_rows(_: Tool, result: Any) -> Replace | None:
    """Keep the number of the rows."""
    return Replace(result | {"rows": len(result["rows"])}, by="row counter")


def completed(chat: Conversation) -> ToolCompleted:
    """Return the last result in the log."""
    event: ToolCompleted = last(chat, ToolCompleted)
    return event


def test_after_hooks_change_a_result_before_it_is_recorded(kind: str, chat: Conversation) -> None:
    """Each hook sees what the one before it made of it; both are named, with their reasons."""
    call = chat.request("fetch")
    (done,) = make(kind, chat, [fetch], after_hooks=[mask, count_rows]).dispatch([call])
    event = completed(chat)
    assert event.response.result == {"key": "***", "rows": 3}
    assert (event.by, event.reason) == ("mask, row counter", "keys are not stored")
    assert (event.synthetic, event.attempt, done.attempts) == (False, 1, 1)
    assert done.status.by == "mask, row counter"  # type: ignore[union-attr]
    assert SECRET not in str(list(chat.events()))
    assert answers(chat)[call.id] == '{"key":"***","rows":3}'
    reported = "(changed by mask, row counter: keys are not stored)"
    assert any(reported in describe(recorded, None) for recorded in chat.events())


def test_a_result_that_no_hook_changes_is_recorded_as_it_is(kind: str, chat: Conversation) -> None:
    """A hook sees the call while it runs; a change in place does not count."""
    seen: list[Tool] = []

    def look(tool: Tool, result: Any) -> None:
        seen.append(tool)
        result["rows"].clear()

    (done,) = make(kind, chat, [fetch], after_hooks=[look]).dispatch([chat.request("fetch")])
    event = completed(chat)
    assert (event.response.result, event.by, event.reason) == (fetch(), None, None)
    (tool,) = seen
    assert (tool.id, tool.status.name, tool.attempts) == (done.id, "Running", 1)


def test_a_hook_sees_values_that_are_no_json(kind: str, chat: Conversation) -> None:
    """The nearest readable form is made of what the hooks leave."""
    seen: list[Any] = []
    dispatcher = make(
        kind, chat, {"t": lambda: [object]}, after_hooks=[lambda _, result: seen.append(result)]
    )
    dispatcher.dispatch([chat.request("t")])
    assert seen == [[object]]
    assert completed(chat).lossy


def test_a_failure_is_not_seen_by_after_hooks(kind: str, chat: Conversation) -> None:
    """The option `redact` decides what is stored of failures."""
    seen: list[Any] = []
    tools = {
        "raises": raising(KeyError("x")),
        "returns": lambda: Failure.from_exception(KeyError()),
    }
    dispatcher = make(kind, chat, tools, after_hooks=[lambda *call: seen.append(call)])
    dispatcher.dispatch([chat.request(name) for name in tools])
    assert seen == []


def test_the_answer_of_a_skip_passes_the_after_hooks(kind: str, chat: Conversation) -> None:
    """The hook that answered the call is named first."""
    dispatcher = make(
        kind, chat, [fetch], hooks=[lambda _: Skip(fetch(), "cached", "cache")], after_hooks=[mask]
    )
    dispatcher.dispatch([chat.request("fetch")])
    event = completed(chat)
    assert event.response.result["key"] == "***"
    assert (event.synthetic, event.by) == (True, "cache, mask")
    assert event.reason == "cached; keys are not stored"


@pytest.mark.parametrize("crashed", [True, False])
def test_a_verified_result_passes_the_after_hooks(
    kind: str, chat: Conversation, crashed: bool
) -> None:
    """The outside system may give a secret, too."""
    call = chat.request("t")
    tool = FunctionTool(raising(TimeoutError()), "t", verify=lambda _: Outcome.done(fetch()))
    dispatcher = make(kind, chat, [tool], after_hooks=[mask])
    if crashed:
        chat.start(call.id)
        dispatcher.resume()
    else:
        dispatcher.dispatch([call])
    assert completed(chat).response.result["key"] == "***"


@pytest.mark.parametrize("hook", [mask, count_rows])
def test_a_late_result_passes_the_after_hooks(
    kind: str, chat: Conversation, hook: AfterHook
) -> None:
    """The tool returns after its timeout, in a thread that nothing waits for."""
    go_on = threading.Event()

    def slow() -> dict[str, Any]:
        assert go_on.wait(60)
        return fetch()

    tool = FunctionTool(slow, timeout=0.01)
    (ended,) = make(kind, chat, [tool], after_hooks=[hook]).dispatch([chat.request("slow")])
    assert ended.status.name == "Failed"
    go_on.set()
    while working := [one for one in threading.enumerate() if one.name == "dispatch"]:
        for thread in working:
            thread.join(60)
    assert tags(chat)[-1] == "completed"
    assert completed(chat).by == ("mask" if hook is mask else "row counter")


class Broken:
    """A hook that raises."""

    name = "scrubber"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, _: Tool, result: Any) -> None:
        """Raise."""
        raise self.error


@pytest.mark.parametrize("error", [KeyError(SECRET), KeyboardInterrupt()])
def test_a_result_is_withheld_if_a_hook_raises(
    kind: str, chat: Conversation, error: BaseException
) -> None:
    """The log says that the tool has run, and not what the hook was to hide."""
    calls = [chat.request("fetch"), chat.request("fetch")]
    dispatcher = make(kind, chat, [fetch], after_hooks=[Broken(error)])
    with pytest.raises(type(error)) as caught:
        dispatcher.dispatch(calls)
    assert caught.value is error
    event = completed(chat)
    assert event.response.result == (
        "[The tool has done its work. Its result is withheld by scrubber: "
        f"it raised {type(error).__name__}.]"
    )
    assert (event.by, event.reason) == ("scrubber", f"it raised {type(error).__name__}")
    assert SECRET not in str(list(chat.events()))
    left = chat.tools[calls[1].id].status.name
    assert left == ("Pending" if isinstance(error, Exception) else "Rejected")


def test_an_answer_that_is_no_replacement_is_refused(kind: str, chat: Conversation) -> None:
    """The error names the hook and the remedy, and nothing of the result is stored."""

    def shorten(_: Tool, result: Any) -> str:
        return str(result)[:9]

    with pytest.raises(TypeError, match="'shorten' gave a value of type str: give Rep"):
        make(kind, chat, [fetch], after_hooks=[shorten]).dispatch([chat.request("fetch")])
    assert SECRET not in str(list(chat.events()))


@pytest.mark.parametrize("after_hooks", [5, [5]])
def test_after_hooks_are_functions(kind: str, chat: Conversation, after_hooks: Any) -> None:
    """The error names the option."""
    with pytest.raises(TypeError, match="after_hooks"):
        make(kind, chat, [fetch], after_hooks=after_hooks)
