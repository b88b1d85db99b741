"""What only the whole input shows: what belongs to reasoning, and what the API itself ran.

1. Reasoning stays where what the model said or called after it follows, and has a summary.
2. What the API ran in a container of its own stands with its output, or says that it has none.
"""

from __future__ import annotations

from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.own_texts import NOT_KNOWN_TO_HAVE_RUN
from eventstore.providers.json_values import as_text, members_of
from eventstore.providers.model import Change
from eventstore.providers.openai_responses.client_items import is_hosted, unknown_output
from eventstore.providers.openai_responses.reading import item_kind

_OWN_REASONING: Final = "rs_"
_TEXT_KINDS: Final = {"summary": "summary_text", "content": "reasoning_text"}
"""Member of reasoning to the type of the texts in it."""


def settled(items: list[JsonObject], changes: list[Change]) -> list[JsonObject]:
    """Return the items, without reasoning that nothing follows; each reasoning has a summary."""
    found: list[JsonObject] = []
    belongs = nameless = False
    for item in reversed(items):
        kind = item_kind(item)
        if kind != "reasoning":
            belongs = _is_the_models(item)
            nameless = kind == "message" and item.get("id") is None
        elif not belongs:
            changes.append(Change("dropped", "OR04", "no item follows the reasoning"))
            continue
        else:
            if nameless and _is_kept(item):
                # With the id the API would demand the item that followed the reasoning.
                changes.append(
                    Change("dropped", "OR04", "the id of reasoning whose message has none")
                )
                item.pop("id")
            _mend_texts(item, changes)
        if kind == "message":
            _annotate(item, changes)
        found.append(item)
    return _with_outputs(found[::-1], changes)


def _annotate(item: JsonObject, changes: list[Change]) -> None:
    """Give each text of the assistant's its annotations, which some servers ask for."""
    content: JsonValue = item.get("content")
    if item.get("role") != "assistant" or not isinstance(content, list):
        return
    for part in content:
        said = members_of(part)
        if said.get("type") == "output_text" and not isinstance(said.get("annotations"), list):
            changes.append(Change("added", "OR07", "a text needs annotations, which may be none"))
            said["annotations"] = []


def _mend_texts(item: JsonObject, changes: list[Change]) -> None:
    """Give reasoning its summary, and the texts in it their types."""
    if not isinstance(item.get("summary"), list):
        changes.append(Change("added", "OR05", "reasoning needs a summary, which may be empty"))
        item["summary"] = []
    for member, kind in _TEXT_KINDS.items():
        texts: JsonValue = item.get(member)
        if not isinstance(texts, list) or all(map(_has_type, texts)):
            continue
        changes.append(Change("added", "OR05", f"each text of {member} needs its type"))
        item[member] = [
            each if _has_type(each) else {"type": kind, "text": _text(each)}
            for each in texts
            if _has_type(each) or _text(each)
        ]


def _has_type(part: JsonValue) -> bool:
    return isinstance(part, dict) and isinstance(part.get("type"), str)


def _text(part: JsonValue) -> str:
    return as_text(part.get("text") if isinstance(part, dict) else part)


def _with_outputs(items: list[JsonObject], changes: list[Change]) -> list[JsonObject]:
    """Return the items, each call that the API itself ran with an output."""
    if not any(map(is_hosted, items)):
        return items
    answered = {item.get("call_id") for item in items if item.get("type") == "shell_call_output"}
    found: list[JsonObject] = []
    for item in items:
        found.append(item)
        if is_hosted(item) and item.get("call_id") not in answered:
            call_id = item.get("call_id")
            changes.append(Change("answered", "OR01", "the API gave no output", str(call_id)))
            found.append(unknown_output(item, NOT_KNOWN_TO_HAVE_RUN))
    return found


def _is_kept(item: JsonObject) -> bool:
    """Return whether reasoning is only a reference by id, without its content."""
    kept = str(item.get("id", "")).startswith(_OWN_REASONING)
    return kept and not item.get("encrypted_content")


def _is_the_models(item: JsonObject) -> bool:
    kind = item_kind(item) or ""
    if kind == "message":
        return item.get("role") == "assistant"
    return not kind.endswith(("_output", "_response")) or item.get("execution") == "server"
