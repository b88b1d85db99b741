"""What is read from a golden log, as text that can be compared byte for byte.

`make.py` writes these texts with the version that made the log; the tests compare what later
versions read.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from eventstore import EventStore, Recorded, Tool
from eventstore.providers import list_key
from projections import CurrentTools, Projector, error_statistics, model_history

if TYPE_CHECKING:
    from golden.dumps import Row

PROVIDERS = (
    "anthropic",
    "bedrock",
    "gemini",
    "mistral",
    "ollama",
    "openai",
    "openai-responses",
)
TENANTS = ("", "acme")

OPTIONS: dict[str, dict[str, Any]] = {
    "all": {"collapse": "none"},
    "collapsed": {"collapse": "all", "open_calls": "drop"},
    "window": {"last_turns": 2, "summary": "Order 7 was refunded."},
    "since": {"since": 12},
}
"""Each way in which the conversation `support` is rendered, beside the default."""

MISTRALS_BRIDGE = {"role": "assistant", "content": "[The results were received.]"}

SEARCHED = "from-openai-responses"
"""The conversation whose last answer came with a search of the provider's own."""

NOT_RENDERED = frozenset({"every-member"})
"""Conversations whose events make no sense together."""


LATER_NUMBERS = frozenset(
    {"copied_calls", "not_applicable", "pauses", "settlements", "settlements_by_outcome"}
)
"""Numbers that the statistics have since after the first golden log: 0, or none, for its calls."""


def conversations(store: EventStore) -> list[str]:
    """Return the ids of the conversations, in one order for every engine."""
    return sorted(name for name, _ in store.conversations())


def events(store: EventStore) -> Iterator[Recorded]:
    """Yield the events of all conversations, in one order for every engine."""
    for name in conversations(store):
        yield from store.conversation(name).events()


def lines(store: EventStore, rows: Iterable[Row]) -> str:
    """Return the events as lines of JSON, each with what only its row in the database tells."""
    stored = {(row.conversation_id, row.version): row for row in rows}
    found = []
    for recorded in events(store):
        fields = msgspec.structs.asdict(recorded)
        del fields["lane"], fields["position"], fields["event"]  # the engines differ in the places
        newer = {fields.pop(name) for name in ("occurred_at", "redacted", "locked")}
        assert newer == {None}
        row = stored[recorded.conversation_id, recorded.version]
        fields |= {"tag": row.tag, "schema": row.schema, "payload": row.payload}
        found.append(json.dumps(fields, ensure_ascii=False) + "\n")
    return "".join(found)


def prompts(store: EventStore, conversation_id: str) -> str:
    """Return the prompts that a conversation gives, for each provider.

    The older versions let a prompt end with the assistant's words, which is an option now, and had
    no line of the assistant's between results and the user, which Mistral demands. They let the
    assistant say what a provider's own search did, which is a note now: see `expected_prompts`.
    They told each call that had not started as one that awaits an approval.
    """
    history = list(store.conversation(conversation_id).events())
    # Its "default" is that of its version: failed calls were left out at once.
    of_then: dict[str, Any] = {"collapse": "failed", "prefill": True, "needs_approval": _any_call}
    default = model_history(history, **of_then)
    found = {"default": {name: default.render(name) for name in PROVIDERS}}
    if conversation_id == "support":
        for way, options in OPTIONS.items():
            view = model_history(history, **{**of_then, **options})
            found[way] = {name: view.render(name) for name in ("anthropic", "openai")}
    if conversation_id == SEARCHED:
        before = model_history(history[:-2], **of_then)  # search, words
        found["default"] |= {
            name: before.render(name) for name in PROVIDERS if not SEARCHED.endswith(name)
        }
    said = found["default"]["mistral"]["messages"]
    found["default"]["mistral"]["messages"] = [each for each in said if each != MISTRALS_BRIDGE]
    return _text(found)


def _any_call(_: Tool) -> bool:
    return True


def expected_prompts(conversation_id: str, text: str) -> str:
    """Return the golden prompts, at other providers without an answer that came with a search."""
    if conversation_id != SEARCHED:
        return text
    found = json.loads(text)
    for name, arguments in found["default"].items():
        if not SEARCHED.endswith(name):
            arguments[list_key(name)].pop()
    return _text(found)


def statistics(store: EventStore) -> str:
    """Return the error statistics of the log."""
    found = _without_later_numbers(msgspec.to_builtins(error_statistics(events(store))))
    for anomaly in found["anomalies"]:
        del anomaly["position"]  # the engines differ in the places
        del anomaly["problem"]  # a sentence for people, which may become a better one
    return _text(found)


def tools(store: EventStore) -> str:
    """Return every call as it stands now."""
    return _calls(CurrentTools().extend(events(store)).calls())


def projected_tools(projector: Projector) -> str:
    """Return every call as a projector's tables hold it."""
    return _calls(projector.tools())


def projected_statistics(projector: Projector) -> str:
    """Return the statistics and the timeline that a projector's tables hold."""
    found = {"statistics": projector.statistics(), "timeline": projector.timeline()}
    return _text(_sorted(_without_later_numbers(msgspec.to_builtins(found))))


def _calls(calls: Any) -> str:
    found = sorted(calls, key=lambda item: (item[0], item[1].turn, item[1].index, item[1].id))
    return _text([{"conversation_id": name, **msgspec.to_builtins(tool)} for name, tool in found])


def _without_later_numbers(value: Any) -> Any:
    """Return the value without `LATER_NUMBERS` that are 0, or empty."""
    if isinstance(value, Mapping):
        return {
            key: _without_later_numbers(member)
            for key, member in value.items()
            if key not in LATER_NUMBERS or member
        }
    if isinstance(value, list | tuple):
        return [_without_later_numbers(item) for item in value]
    return value


def _sorted(value: Any) -> Any:
    """Return the value with the keys of its objects in order: the tables have none."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    return value


def _text(value: Any) -> str:
    """Return the value as JSON: members in their order, bytes as base64."""
    return json.dumps(value, ensure_ascii=False, indent=1, default=_bytes) + "\n"


def _bytes(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"$bytes": b64encode(value).decode()}
    raise TypeError(f"{value!r} is not JSON")
