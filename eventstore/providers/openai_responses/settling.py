"""What only the whole input shows: what belongs to reasoning, and what the API itself ran.

1. Reasoning stays where what the model said or called after it follows, and has a summary.
2. What the API ran in a container of its own stands with its output, or says that it has none.
3. No call names a program as its caller that had to go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.own_texts import NOT_KNOWN_TO_HAVE_RUN, ORPHAN
from eventstore.providers.json_values import as_text, members_of
from eventstore.providers.model import Change, Turn
from eventstore.providers.openai_responses.client_items import said_by, unknown_output
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


def drop_lost_callers(
    items: list[JsonObject], turns: Sequence[Turn], changes: list[Change]
) -> None:
    """Take the caller out of each call and output whose program is in `turns`, and not shown."""
    named = [item for item in items if "caller" in item]
    if not named:
        return
    natives = [turn.native for turn in turns if isinstance(turn.native, list)]
    gone = {name for native in natives for name in _programs(native)} - {*_programs(items)}
    for item in named:
        if members_of(item["caller"]).get("caller_id") in gone:
            changes.append(Change("dropped", "OR04", "the program that made a call is not shown"))
            del item["caller"]


def _programs(items: Iterable[JsonValue]) -> Iterator[str]:
    for item in items:
        if members_of(item).get("type") == "program":
            yield as_text(members_of(item).get("call_id"))


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
    """Return the items, each call of a shell with one output, and no message between the two."""
    if not any(item.get("type") in _OF_SHELL for item in items):
        return items
    open_calls, astray = _unpaired(items)
    added: dict[int, JsonObject] = {}
    for place in open_calls:
        call_id = as_text(items[place].get("call_id"))
        given = next((each for each in astray if items[each].get("call_id") == call_id), None)
        if given is None:
            changes.append(Change("answered", "OR01", "the API gave no output", call_id))
            added[place] = unknown_output(items[place], NOT_KNOWN_TO_HAVE_RUN)
        else:
            changes.append(Change("moved", "OR06", "outputs come right after their calls", call_id))
            added[place] = items[given]
            astray.remove(given)
            items[given] = {}
    found: list[JsonObject] = []
    texts: list[JsonObject] = []
    for place, item in enumerate(items):
        if place in astray:
            texts.append(_as_message(item, changes))
        elif item:
            if texts and item_kind(item) == "message":
                _insert(texts, found)
            found.append(item)
        if place in added:
            found.append(added[place])
    _insert(texts, found)
    return found


_OF_SHELL: Final = ("shell_call", "shell_call_output")


def _unpaired(items: list[JsonObject]) -> tuple[list[int], list[int]]:
    """Return the places of a shell's calls without an output, and those of outputs astray."""
    waiting: dict[str, list[int]] = {}
    astray: list[int] = []
    since = 0  # the place of the last message
    for place, item in enumerate(items):
        calls = waiting.setdefault(as_text(item.get("call_id")), [])
        if item_kind(item) == "message":
            since = place
        elif item.get("type") == "shell_call":
            calls.append(place)
        elif item.get("type") == "shell_call_output":
            if calls and calls[0] >= since:
                calls.pop(0)
            else:
                astray.append(place)
    return sorted(place for calls in waiting.values() for place in calls), astray


def _as_message(item: JsonObject, changes: list[Change]) -> JsonObject:
    """Return what an output says that answers no call, as a message of the user's."""
    call_id = as_text(item.get("call_id"))
    changes.append(Change("wrapped", "orphan", "the result answers no call", call_id))
    return {"role": "user", "content": f"{ORPHAN.format(call_id)}\n{said_by(item).text}"}


def _insert(texts: list[JsonObject], found: list[JsonObject]) -> None:
    """Add messages at the end, before reasoning that belongs to what comes next."""
    place = len(found)
    while place and item_kind(found[place - 1]) == "reasoning":
        place -= 1
    found[place:place] = texts
    texts.clear()


def _is_kept(item: JsonObject) -> bool:
    """Return whether reasoning is only a reference by id, without its content."""
    kept = str(item.get("id", "")).startswith(_OWN_REASONING)
    return kept and not item.get("encrypted_content")


def _is_the_models(item: JsonObject) -> bool:
    kind = item_kind(item) or ""
    if kind == "message":
        return item.get("role") == "assistant"
    return not kind.endswith(("_output", "_response")) or item.get("execution") == "server"
