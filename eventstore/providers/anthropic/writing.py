"""How the blocks of Anthropic's messages are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.media_types import PDF
from eventstore.domain.messages import Document, Image, Opaque, Part, Text
from eventstore.providers.anthropic.reading import (
    MAX_NAME,
    NAME,
    REASONING,
    is_accepted_from,
    is_of_kind,
)
from eventstore.providers.anthropic.server_calls import (
    is_server_call,
    is_server_result,
)
from eventstore.providers.call_arguments import object_arguments
from eventstore.providers.identifiers import call_ids, of_any_length, tool_name
from eventstore.providers.json_values import as_text, copy_json, native_part
from eventstore.providers.model import (
    Answer,
    Call,
    Change,
    Turn,
)
from eventstore.providers.parts_as_text import described, foreign_text, part_label, plain_text
from eventstore.providers.results_message import results_message_for

RESULTS_KEY: Final = "content"
TOOLSET: Final = "toolset_name"
_MAX_ID: Final = 64
"""Of an id that has to be changed; how long one may be is not known."""
TOOL_CHANGES = ("tool_addition", "tool_removal")


def add_assistant(
    messages: list[JsonObject],
    turn: Turn,
    shown: list[tuple[Call, str]],
    changes: list[Change],
) -> None:
    """Add the assistant's message for a turn, with the calls that are shown."""
    own = turn.own_message(NAME)
    if own is not None and len(shown) == len(turn.calls):
        native = copy_json(own)
        made = [block for block in native_blocks(native) if block.get("type") == "tool_use"]
        if len(made) == len(shown):
            for block, (_, name) in zip(made, shown, strict=True):
                block["id"] = name
            messages.append(native)
            return
    content = _blocks(turn.parts, changes, "assistant")
    whole = len(shown) == len(turn.calls) and not any(map(_is_unsigned, turn.parts))
    if not whole:  # reasoning goes with the turn it belongs to, or not at all
        content = [block for block in content if block.get("type") not in REASONING]
    kept = _members_of_calls(turn)
    content += [
        {
            "type": "tool_use",
            "id": name,
            "name": tool_name(call, MAX_NAME, changes),
            "input": object_arguments(call, changes),
            **kept.get(call.id, {}),
        }
        for call, name in shown
    ]
    if content:
        messages.append({"role": "assistant", "content": _plain(content)})


_OF_CALLS: Final = {TOOLSET: str, "caller": dict, "cache_control": dict}
"""Members of a call, and their types, that stay where its message is made anew."""


def _members_of_calls(turn: Turn) -> dict[str, JsonObject]:
    """Return what the calls of a message, which is no longer as the API wrote it, said besides."""
    native: JsonValue = turn.native if turn.provider == NAME else None
    if not isinstance(native, dict):
        return {}
    made = [block for block in native_blocks(native) if block.get("type") == "tool_use"]
    if len(made) != len(turn.calls):
        return {}
    return {
        call.id: {k: v for k, v in block.items() if isinstance(v, _OF_CALLS.get(k, ()))}
        for call, block in zip(turn.calls, made, strict=True)
    }


def without_final_reasoning(messages: list[JsonObject], changes: list[Change]) -> list[JsonObject]:
    """Return the messages without reasoning at the end of a turn: nothing came of it."""
    kept: list[JsonObject] = []
    follower = "user"
    for message in reversed(messages):
        content: JsonValue = message["content"]
        role = message["role"]
        if role == "assistant" != follower and isinstance(content, list):
            while (
                content and isinstance(content[-1], dict) and content[-1].get("type") in REASONING
            ):
                content.pop()
                changes.append(Change("dropped", "AN17", "reasoning with nothing after it"))
        if content:
            kept.append(message)
            follower = role
    return kept[::-1]


def _is_unsigned(part: Part) -> bool:
    """Return whether a part is Anthropic's reasoning without a signature, which cannot go back."""
    if not isinstance(part, Opaque) or part.provider != NAME:
        return False
    return is_of_kind(part.data, "thinking") and not is_accepted_from(part.data, "assistant")


PORTABLE = {
    "tool_use": {"type", "id", "name", "input"},
    "tool_result": {"type", "tool_use_id", "content", "is_error"},
}
"""Members of calls and results that arrive at other providers."""


def native_blocks(native: JsonObject) -> list[JsonObject]:
    """Return the blocks of a native message, without the None that replaces each result."""
    content: JsonValue = native.get("content")
    return [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []


def add_user(messages: list[JsonObject], turn: Turn, changes: list[Change]) -> None:
    """Add the message for a turn of the user, or of the system after the beginning."""
    native = turn.own_message(NAME)
    if native is not None and turn.role != "user" and not _is_system_message(native):
        native = None
    if native is not None and not turn.shares_message:
        messages.append(copy_json(native))
        return
    content = _blocks(turn.parts, changes) if native is None else copy_json(native_blocks(native))
    if turn.role in ("system", "developer"):
        content = _system_text(plain_text(turn.parts, changes), changes)
    if not content:
        return
    # Neighbouring turns from elsewhere are merged; messages that came from this API stay separate.
    separate = turn.provider == NAME and not turn.shares_message
    last = messages[-1] if messages else None
    if last is not None and last["role"] == "user" and not separate:
        if isinstance(last["content"], str):
            last["content"] = [{"type": "text", "text": last["content"]}]
        last["content"].extend(content)
    else:
        messages.append({"role": "user", "content": _plain(content)})


def _is_system_message(native: JsonObject) -> bool:
    """Return whether a system message inside may stay one: it holds text, or changes the tools."""
    return _changes_tools(native) or all(
        is_of_kind(block, "text") for block in native_blocks(native)
    )


def _system_text(said: str, changes: list[Change]) -> list[JsonObject]:
    """Return what a later system message says as the user's blocks."""
    if not said.strip():
        return []
    changes.append(Change("moved", "AN11", "a later system message became a user's text"))
    return [{"type": "text", "text": f"[system] {said}"}]


def place_system_messages(messages: list[JsonObject], changes: list[Change]) -> None:
    """Let the user say what a system message says that stands elsewhere than before an answer."""
    follower = "assistant"  # of the system messages in a row
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message["role"] != "system":
            follower = message["role"]
            continue
        before = next((m for m in messages[place::-1] if m["role"] != "system"), None)
        is_asked = before is not None and (before["role"] == "user" or goes_on(before))
        if not (is_asked and follower == "assistant") and not _changes_tools(message):
            said = _system_text(as_text(message["content"]), changes)
            messages[place] = {"role": "user", "content": said}
            follower = "user"
    messages[:] = [message for message in messages if message["content"]]


def _changes_tools(native: JsonObject) -> bool:
    """Return whether a message adds or removes tools, which no text can replace."""
    return any(is_of_kind(block, kind) for block in native_blocks(native) for kind in TOOL_CHANGES)


def goes_on(message: JsonObject) -> bool:
    """Return whether the provider itself continues the assistant's message, which it paused."""
    content: JsonValue = message["content"]
    last = content[-1] if isinstance(content, list) and content else None
    return is_of_kind(last, "compaction") or is_server_call(last) or is_server_result(last)


def strip_end(message: JsonObject, changes: list[Change]) -> None:
    """Strip white space from the end of the last message: the model continues from it."""
    content = message["content"]
    ends = [(message, "content")] if isinstance(content, str) else [(b, "text") for b in content]
    for holder, key in ends[-1:]:
        text = holder.get(key)
        if isinstance(text, str) and text[-1:].isspace():
            changes.append(Change("rewritten", "AN09", "a final text may not end in white space"))
            holder[key] = text.rstrip()


def is_compacted(message: JsonObject) -> bool:
    """Return whether a message is a compaction, which may begin a conversation."""
    content: JsonValue = message["content"]
    return isinstance(content, list) and is_of_kind(content[0], "compaction")


def _plain(content: list[JsonObject]) -> str | list[JsonObject]:
    """Return the content, as a string where it is one plain text."""
    if len(content) == 1 and content[0].keys() == {"type", "text"}:
        text: str = content[0]["text"]
        return text
    return content


def _blocks(parts: tuple[Part, ...], changes: list[Change], role: str = "user") -> list[JsonObject]:
    return [block for part in parts if (block := _block(part, changes, role)) is not None]


def _block(part: Part, changes: list[Change], role: str) -> JsonObject | None:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text} if part.text.strip() else None
    if isinstance(part, Image | Document) and role == "assistant":
        why = f"an assistant message may not show {part_label(part)} here"
        changes.append(Change("wrapped", "AN13", why))
        return {"type": "text", "text": described(part)}
    if isinstance(part, Image):
        return {"type": "image", "source": _source(part, part.media_type or "image/png")}
    if isinstance(part, Document):
        title = {"title": part.name} if part.name else {}
        return {"type": "document", "source": _source(part, PDF), **title}
    if isinstance(part, Opaque) and part.provider == NAME and is_accepted_from(part.data, role):
        return native_part(part)
    text = foreign_text(part, changes)
    return {"type": "text", "text": text} if text and text.strip() else None


def _source(shown: Image | Document, media_type: str) -> JsonObject:
    if shown.url is not None:
        return {"type": "url", "url": shown.url}
    return {"type": "base64", "media_type": media_type, "data": shown.data or ""}


def _noted(content: JsonValue, answer: Answer) -> JsonValue:
    """Return the content of a result with the note on it; what it shows stays."""
    if isinstance(content, list) and not all(is_of_kind(block, "text") for block in content):
        return [*content, {"type": "text", "text": answer.note}]
    return f"{answer.text}\n{answer.note}"


def answer_block(answer: Answer, call_id: str) -> JsonObject:
    """Return the block that answers a call, whose id in the request is `call_id`."""
    if answer.provider != NAME or answer.native is None:
        return _new_result(answer, call_id)
    block = copy_json(answer.native)
    block["tool_use_id"] = call_id
    if answer.note:
        block["content"] = _noted(block.get("content"), answer)
    return block


def results_message(
    turn: Turn, shown: list[tuple[Call, str]], asked: JsonObject, changes: list[Change]
) -> JsonObject:
    """Return the message with the results of a turn, what errors show behind them.

    `asked` is the message with the calls. A result names the toolset that its call names.
    """
    results: list[JsonObject] = []
    behind: list[JsonObject] = []
    toolsets = {block["id"]: block[TOOLSET] for block in native_blocks(asked) if TOOLSET in block}
    for call, name in shown:
        block = answer_block(call.answer, name)
        if toolsets or TOOLSET in block:
            _name_toolset(block, toolsets.get(name), call, changes)
        if "is_error" in block and block["is_error"] is True:
            behind += _shown_by_error(call, block, changes)
        results.append(block)
    message = results_message_for(turn, NAME, RESULTS_KEY, results)
    if behind:
        content: list[JsonObject] = message[RESULTS_KEY]
        place = max(n for n, block in enumerate(content, 1) if is_of_kind(block, "tool_result"))
        message[RESULTS_KEY] = [*content[:place], *behind, *content[place:]]
    return message


def _name_toolset(
    result: JsonObject, toolset: JsonValue, call: Call, changes: list[Change]
) -> None:
    """Let a result name the toolset of its call, or none where the call has none."""
    if result.get(TOOLSET) == toolset:
        return
    if call.answer.native is not None:
        changes.append(Change("rewritten", "AN21", "a result names its call's toolset", call.id))
    if toolset is None:
        del result[TOOLSET]
    else:
        result[TOOLSET] = toolset


def _shown_by_error(call: Call, result: JsonObject, changes: list[Change]) -> Iterator[JsonObject]:
    """Yield what an error shows beside text, which it may not hold; it is taken out of it."""
    answer = call.answer
    content: JsonValue = result.get("content")
    if answer.provider == NAME and answer.native is not None:
        blocks: list[JsonValue] = content if isinstance(content, list) else []
        texts = [block for block in blocks if is_of_kind(block, "text")]
        others = [block for block in blocks if isinstance(block, dict) and block not in texts]
        if others:
            result["content"] = texts or "error"
    else:
        others = _blocks(answer.shown_parts, [])
        others = [block for block in others if not is_of_kind(block, "text")]
    if others:
        changes.append(Change("moved", "AN08", "an error holds only text: it follows", call.id))
        yield {"type": "text", "text": f"[Shown by {call.name or 'the tool'}:]"}
    for block in others:
        is_shown = block.get("type") in _SHOWN_BY_USER
        yield block if is_shown else {"type": "text", "text": as_text([block])}


_SHOWN_BY_USER = ("image", "document", "search_result")


def _new_result(answer: Answer, name: str) -> JsonObject:
    text = f"{answer.text}\n{answer.note}" if answer.note else answer.text
    block: JsonObject = {"type": "tool_result", "tool_use_id": name, "content": text}
    if answer.is_error:
        block["content"] = text if text.strip() else "error"
        block["is_error"] = True
    elif answer.shown_parts:
        noted = (*answer.shown_parts, Text(answer.note)) if answer.note else answer.shown_parts
        block["content"] = _blocks(noted, [])
    return block


def request_ids(
    turns: Sequence[Turn], before: Sequence[list[str]], changes: list[Change]
) -> list[list[str]]:
    """Return the ids of turns that follow others: ids differ within a whole request.

    A call that found tools may have the id of a call in an earlier turn.
    """
    own: list[Change] = []
    ids = call_ids(turns, _MAX_ID, own, per_turn=False, sanitizer=of_any_length, before=before)
    free = {change.call_id for change in own}.intersection(
        call.id for turn in turns for call in turn.calls if own and _found_tools(call)
    )
    if free:
        own.clear()
        ids.clear()
        for turn in turns:
            keep = {call.provider_id for call in turn.calls if call.id in free}
            taken = [[name for name in names if name not in keep] for names in (*before, *ids)]
            ids += call_ids(
                [turn], _MAX_ID, own, per_turn=False, sanitizer=of_any_length, before=taken
            )
    changes += own
    return ids


def _found_tools(call: Call) -> bool:
    """Return whether the result of a call is references to tools alone."""
    native = call.answer.native if call.answer.provider == NAME else None
    content: JsonValue = None if native is None else native.get("content")
    return (
        isinstance(content, list)
        and bool(content)
        and all(is_of_kind(block, "tool_reference") for block in content)
    )
