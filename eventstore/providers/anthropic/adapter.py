"""Anthropic Messages: message lists in, `{"system": ..., "messages": [...]}` out.

Results stand in the one user message right after their calls, before anything else. System
text is a parameter of the request; later in the conversation it becomes text of the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeGuard

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.domain.messages import PDF, Document, Image, Opaque, Part, Text
from eventstore.domain.own_texts import OPENING, STOPPED
from eventstore.providers.adapter_protocol import (
    FormatSignature,
    ProviderAdapter,
    ResponseMembers,
    ResultTest,
)
from eventstore.providers.anthropic.cache_marks import (
    limit_cache_marks,
    place_cache_marks,
    with_marked_end,
)
from eventstore.providers.anthropic.server_calls import (
    is_server_call,
    is_server_result,
    pair_server_calls,
)
from eventstore.providers.anthropic.shapes import FOREIGN_KINDS
from eventstore.providers.identifiers import call_ids, sanitized, tool_name
from eventstore.providers.kept_messages import KeptMessages
from eventstore.providers.media import image_of, plain_image
from eventstore.providers.model import (
    TURN_ROLES,
    Answer,
    Call,
    Change,
    ParsedCall,
    ParsedItem,
    ParsedMessage,
    ParsedResult,
    Rendered,
    Turn,
    visible_calls,
    visible_turns,
)
from eventstore.providers.parts import (
    as_text,
    copy_json,
    described,
    foreign_text,
    function_call,
    in_order_of,
    native_part,
    object_arguments,
    other_members,
    part_label,
    plain_text,
    results_message_for,
)
from eventstore.providers.tool_definition import ToolDefinition

NAME: Final = "anthropic"
_BLOCKS: Final = "content"
_MAX_ID: Final = 64
_MAX_NAME: Final = 128
TOOL_CHANGES = ("tool_addition", "tool_removal")

REASONING = ("thinking", "redacted_thinking")
_SENT_IN_ORDER = ["role", "content"]
_SENT = {*_SENT_IN_ORDER}
"""The members of a message that a request may hold."""


class AnthropicAdapter(ProviderAdapter):
    """Reads and writes the messages of Anthropic's Messages."""

    name = NAME
    list_key = "messages"
    system_key = "system"
    results_key = _BLOCKS
    error_flag = True
    signature = FormatSignature(call_types=("tool_use",), result_types=("tool_result",))

    response_members = ResponseMembers(
        finish_reason=(("stop_reason",),),
        input=(
            ("usage", "input_tokens"),
            ("usage", "cache_creation_input_tokens"),
            ("usage", "cache_read_input_tokens"),
        ),
        output=(("usage", "output_tokens"),),
        cached=(("usage", "cache_read_input_tokens"),),
    )

    def parse(
        self, messages: Iterable[object], is_error: ResultTest, is_rejection: ResultTest
    ) -> Iterator[ParsedItem]:
        """Yield the items of messages, taking one message after the other."""
        for message in messages:
            if is_json_object(message):
                yield from _items(message, is_error, is_rejection)
            elif isinstance(message, str):
                native = {"role": "user", "content": message}
                yield from _items(native, is_error, is_rejection)
            elif message is not None:
                yield ParsedMessage("user", (Text(as_text(message)),))

    def render(self, turns: Sequence[Turn]) -> Rendered:
        """Return the request for `turns`, every call answered right after its message."""
        return self.render_next(turns, KeptMessages())

    def render_next(self, turns: Sequence[Turn], kept: KeptMessages) -> Rendered:
        """Return the request for `turns`, which begins with the messages that are `kept`."""
        changes: list[Change] = []
        new: tuple[list[str], list[JsonObject]] = [], []
        system, messages = kept.continued(new, turns, changes, _request_ids, self._add_turns)
        pair_server_calls(messages, changes)
        if messages and messages[0]["role"] != "user" and not _is_compacted(messages[0]):
            changes.append(Change("added", "AN12", "a conversation starts with the user"))
            messages.insert(0, {"role": "user", "content": OPENING})
        arguments: JsonObject = {"messages": messages}
        if any(system):
            arguments = {"system": "\n\n".join(text for text in system if text), **arguments}
        return Rendered(arguments, changes)

    def _add_turns(
        self,
        made: tuple[list[str], list[JsonObject]],
        turns: Sequence[Turn],
        ids: Sequence[list[str]],
        changes: list[Change],
    ) -> None:
        system, messages = made
        for turn, names in visible_turns(turns, ids, changes):
            shown = visible_calls(turn, names) if names else []
            if turn.role == "assistant":
                _add_assistant(messages, turn, shown, changes)
            elif turn.role in ("system", "developer") and not messages:
                system.append(plain_text(turn.parts, changes))
                changes.append(Change("moved", "AN10", "system text is a parameter of the request"))
            else:
                _add_user(messages, turn, changes)
            if shown:
                messages.append(_results_message(self, turn, shown, changes))

    def finish_request(self, rendered: Rendered, *, prefill: bool) -> None:
        """Let the user speak last: newer models do not go on from the assistant's words.

        No turn ends with reasoning, and cache marks keep their limits.
        """
        messages = _without_final_reasoning(rendered.arguments["messages"], rendered.changes)
        rendered.arguments["messages"] = messages
        _place_system_messages(messages, rendered.changes)
        rendered.changes += limit_cache_marks(messages, REASONING)
        if not messages or messages[-1]["role"] != "assistant":
            return
        if prefill or _goes_on(messages[-1]):
            _strip_end(messages[-1], rendered.changes)
        else:
            rendered.changes.append(Change("added", "AN18", "a request ends with the user"))
            last = _native_blocks(messages[-1])
            messages.append({"role": "user", "content": STOPPED})
            if any(map(is_server_call, last)):  # its result cannot come any more
                pair_server_calls(messages, rendered.changes)
                messages = _without_final_reasoning(messages, rendered.changes)
                rendered.arguments["messages"] = messages

    def mark_for_cache(self, rendered: Rendered) -> None:
        """Mark the system text and the messages with `cache_control`."""
        place_cache_marks(rendered.arguments)

    def mark_tools_for_cache(self, tools: list[JsonObject]) -> list[JsonObject]:
        """Return the tools, the last one marked with `cache_control`."""
        return with_marked_end(tools)

    def tool_definition(self, tool: ToolDefinition) -> JsonObject:
        """Return one of the request's `tools`."""
        return tool.with_schema_as("input_schema")

    def render_result(self, call: Call, call_id: str) -> JsonObject:
        """Return the block that answers `call`."""
        answer = call.answer
        if answer.provider != NAME or answer.native is None:
            return _new_result(answer, call_id)
        block = copy_json(answer.native)
        block["tool_use_id"] = call_id
        if answer.note:
            block["content"] = _noted(block.get("content"), answer)
        return block

    def provider_only_members(self, native: JsonObject | list[JsonValue]) -> Iterator[str]:
        """Yield the members of a message that no other provider has a place for."""
        given = native if isinstance(native, dict) else {}
        for block in _native_blocks(given) if "role" in given else [given]:
            for kind, portable in _PORTABLE.items():
                if _is(block, kind):
                    yield from other_members(block, portable)

    def media(self, part: JsonObject) -> Image | Document | None:
        """Return the image or document that a block shows."""
        return _media(part)

    def result_parts(self, native: JsonObject) -> tuple[Part, ...]:
        """Return what a well-formed result shows."""
        content: JsonValue = native.get("content")
        if not isinstance(content, list):
            return ()
        return tuple(part for part in map(_part, content) if part is not None)


ADAPTER: Final = AnthropicAdapter()


# reading


def _items(message: JsonObject, is_error: ResultTest, is_rejection: ResultTest) -> list[ParsedItem]:
    """Return the items of a message: its results, and what else it says."""
    given = message.get("role")
    role = TURN_ROLES.get(given, "user") if isinstance(given, str) else "user"
    content: JsonValue = message.get("content")
    if not isinstance(content, list):
        given_id = message.get("id")
        message_id = given_id if isinstance(given_id, str) else None
        text = as_text(content)
        native = _native(message, role, content)
        well_formed = given == role and isinstance(content, str)
        said = ParsedMessage(role, (Text(text),), (), native, well_formed, message_id=message_id)
        return [said] if text.strip() else []
    return _items_of_blocks(message, role, content, is_error, is_rejection)


def _items_of_blocks(
    message: JsonObject,
    role: str,
    content: list[JsonValue],
    is_error: ResultTest,
    is_rejection: ResultTest,
) -> list[ParsedItem]:
    results: list[ParsedItem] = []
    rest: list[JsonValue] = []
    parts: list[Part] = []
    calls: list[ParsedCall] = []
    well_formed = message.get("role") == role
    for block in content:
        if _is(block, "tool_result"):
            results.append(_result(block, is_error, is_rejection))
            well_formed = well_formed and (role == "assistant" or not (rest or calls))
            continue
        if _is(block, "tool_use"):
            calls.append(_call(block))
            if role != "assistant":
                continue
        elif (part := _part(block)) is not None:
            parts.append(part)
        rest.append(block)
        well_formed = well_formed and _is_well_formed_block(block, role)
    if role == "assistant":
        said = _message(
            message, role, rest if results else content, parts, calls, well_formed=well_formed
        )
        return [*said, *results]
    count = len(results)
    items = results
    if calls:  # only an assistant can call
        native = {"role": "assistant", "content": [b for b in content if _is(b, "tool_use")]}
        items.append(ParsedMessage("assistant", (), tuple(calls), native))
    blocks = [*([None] * count), *rest]
    return [
        *items,
        *_message(message, role, blocks, parts, [], well_formed=well_formed, count=count),
    ]


def _message(
    message: JsonObject,
    role: str,
    blocks: list[JsonValue],
    parts: list[Part],
    calls: list[ParsedCall],
    *,
    well_formed: bool,
    count: int = 0,
) -> list[ParsedMessage]:
    """Return the message of `blocks`, in which None replaces each result; none if it is empty."""
    if not (parts or calls or (count and well_formed)):
        return []
    stands_alone = 0 < count == len(blocks) and [*message] == _SENT_IN_ORDER and well_formed
    given_id = message.get("id")
    said = ParsedMessage(
        role,
        tuple(parts),
        tuple(calls),
        None if stands_alone else _native(message, role, blocks),
        well_formed,
        count > 0,
        given_id if isinstance(given_id, str) else None,
        result_count=count,
    )
    return [said]


def _is(block: JsonValue, kind: str) -> TypeGuard[JsonObject]:
    return isinstance(block, dict) and block.get("type") == kind


def _native(message: JsonObject, role: str, content: object) -> JsonObject:
    """Return the members of a message that may be sent, in its order; a response has more."""
    if message.keys() == _SENT and message["role"] == role and message["content"] is content:
        return message
    return in_order_of(message, {"role": role, "content": content})


def _call(block: JsonObject) -> ParsedCall:
    call_id = block.get("id")
    return ParsedCall(
        call_id if isinstance(call_id, str) and call_id else None,
        function_call(block.get("name"), block.get("input")),
    )


_TEXT_MEMBERS = {"type", "text"}


def _part(block: JsonValue) -> Part | None:
    """Return what a block shows, None if that is nothing."""
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(kind, str):
        said = "" if block in (None, {}) else as_text(block)
        return Text(said) if said.strip() else None
    if kind == "text":
        text = block.get("text")
        said = as_text(text)
        plain = said is not text or block.keys() == _TEXT_MEMBERS
        shown: Part = Text(said) if plain else Opaque(NAME, block)
        return shown if said.strip() else None
    if kind in FOREIGN_KINDS:
        return _foreign_part(kind, block)
    image = plain_image(_media(block), block) if kind == "image" else None
    return image or Opaque(NAME, block)


def _foreign_part(kind: str, block: JsonObject) -> Part | None:
    """Return what a block of another provider's shows."""
    held: JsonValue = block.get(kind)
    address = held.get("url") if isinstance(held, dict) else block.get("image_url")
    if kind in ("image_url", "input_image") and (image := image_of(address)):
        return image
    said: JsonValue = block.get("text", block.get("refusal"))
    text = as_text(said if isinstance(said, str) else block)
    return Text(text) if text.strip() else None


def _media(block: JsonObject) -> Image | Document | None:
    """Return the image or document in a block, whatever else the block holds."""
    source: JsonValue = block.get("source")
    if not isinstance(source, dict):
        return None
    if block.get("type") == "document":
        return _document(source, block.get("title"))
    if block.get("type") != "image":
        return None
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return Image(source["url"])
    if source.get("type") == "base64" and isinstance(source.get("data"), str):
        media_type = source.get("media_type")
        return Image(None, source["data"], media_type if isinstance(media_type, str) else None)
    return None


def _document(source: JsonObject, title: object) -> Document | None:
    name = title if isinstance(title, str) and title else None
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return Document(source["url"], None, name)
    if source.get("media_type") == PDF and isinstance(source.get("data"), str):
        return Document(None, source["data"], name)
    return None


def _result(block: JsonObject, is_error: ResultTest, is_rejection: ResultTest) -> ParsedResult:
    call_id = block.get("tool_use_id")
    well_formed = _is_well_formed_result(block)
    return ParsedResult(
        call_id if isinstance(call_id, str) and call_id else None,
        None,
        as_text(block.get("content")),
        bool(is_error(block)),
        block if well_formed else None,
        bool(is_rejection(block)),
        well_formed,
    )


def _is_well_formed_result(block: JsonObject) -> bool:
    content: JsonValue = block.get("content")
    if type(block.get("is_error", False)) is not bool:  # 0 is not a boolean
        return False
    if content is None or isinstance(content, str):
        return bool(content and content.strip()) or not block.get("is_error")
    if not isinstance(content, list) or (not content and block.get("is_error")):
        return False
    return all(map(_is_well_formed_in_result, content))


def _is_well_formed_in_result(block: JsonValue) -> bool:
    """Return whether a result may hold a block."""
    kind: JsonValue = block.get("type") if isinstance(block, dict) else None
    return _is_well_formed_block(block) and kind not in ("tool_use", "tool_result")


def _is_well_formed_block(block: JsonValue, role: str = "user") -> bool:
    """Return whether a block may go back as it is, in a message of `role` or in a result."""
    kind: JsonValue = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(kind, str):
        return False
    if kind == "text":
        text = block.get("text")
        return isinstance(text, str) and bool(text.strip())
    if kind == "tool_use":
        name, call_id = block.get("name"), block.get("id")
        return (
            isinstance(name, str)
            and sanitized(name, _MAX_NAME) == name
            and isinstance(call_id, str)
            and isinstance(block.get("input"), dict)
        )
    return _is_accepted_from(block, role)


def _is_accepted_from(block: JsonObject, role: str) -> bool:
    """Return whether the API takes a block in a message of `role`; thinking needs a signature."""
    kind: JsonValue = block.get("type")
    if not isinstance(kind, str) or kind in FOREIGN_KINDS:
        return False
    if role != "assistant":
        return kind not in REASONING
    if kind in REASONING:
        opaque = block.get("signature" if kind == "thinking" else "data")
        return isinstance(opaque, str) and bool(opaque)
    return kind not in ("image", "document")


# writing


def _add_assistant(
    messages: list[JsonObject],
    turn: Turn,
    shown: list[tuple[Call, str]],
    changes: list[Change],
) -> None:
    own = turn.own_message(NAME)
    if own is not None and len(shown) == len(turn.calls):
        native = copy_json(own)
        made = [block for block in _native_blocks(native) if block.get("type") == "tool_use"]
        if len(made) == len(shown):
            for block, (_, name) in zip(made, shown, strict=True):
                block["id"] = name
            messages.append(native)
            return
    content = _blocks(turn.parts, changes, "assistant")
    whole = len(shown) == len(turn.calls) and not any(map(_is_unsigned, turn.parts))
    if not whole:  # reasoning goes with the turn it belongs to, or not at all
        content = [block for block in content if block.get("type") not in REASONING]
    content += [
        {
            "type": "tool_use",
            "id": name,
            "name": tool_name(call, _MAX_NAME, changes),
            "input": object_arguments(call, changes),
        }
        for call, name in shown
    ]
    if content:
        messages.append({"role": "assistant", "content": _plain(content)})


def _without_final_reasoning(messages: list[JsonObject], changes: list[Change]) -> list[JsonObject]:
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
    return _is(part.data, "thinking") and not _is_accepted_from(part.data, "assistant")


_PORTABLE = {
    "tool_use": {"type", "id", "name", "input"},
    "tool_result": {"type", "tool_use_id", "content", "is_error"},
}
"""Members of calls and results that arrive at other providers."""


def _native_blocks(native: JsonObject) -> list[JsonObject]:
    """Return the blocks of a native message, without the None that replaces each result."""
    content: JsonValue = native.get("content")
    return [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []


def _add_user(messages: list[JsonObject], turn: Turn, changes: list[Change]) -> None:
    native = turn.own_message(NAME)
    if native is not None and turn.role != "user" and not _is_system_message(native):
        native = None
    if native is not None and not turn.shares_message:
        messages.append(copy_json(native))
        return
    content = _blocks(turn.parts, changes) if native is None else copy_json(_native_blocks(native))
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
    return _changes_tools(native) or all(_is(block, "text") for block in _native_blocks(native))


def _system_text(said: str, changes: list[Change]) -> list[JsonObject]:
    """Return what a later system message says as the user's blocks."""
    if not said.strip():
        return []
    changes.append(Change("moved", "AN11", "a later system message became a user's text"))
    return [{"type": "text", "text": f"[system] {said}"}]


def _place_system_messages(messages: list[JsonObject], changes: list[Change]) -> None:
    """Let the user say what a system message says that stands elsewhere than before an answer."""
    follower = "assistant"  # of the system messages in a row
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message["role"] != "system":
            follower = message["role"]
            continue
        before = next((m for m in messages[place::-1] if m["role"] != "system"), None)
        is_asked = before is not None and (before["role"] == "user" or _goes_on(before))
        if not (is_asked and follower == "assistant") and not _changes_tools(message):
            said = _system_text(as_text(message["content"]), changes)
            messages[place] = {"role": "user", "content": said}
            follower = "user"
    messages[:] = [message for message in messages if message["content"]]


def _changes_tools(native: JsonObject) -> bool:
    """Return whether a message adds or removes tools, which no text can replace."""
    return any(_is(block, kind) for block in _native_blocks(native) for kind in TOOL_CHANGES)


def _goes_on(message: JsonObject) -> bool:
    """Return whether the provider itself goes on from the assistant's message, which it paused."""
    content: JsonValue = message["content"]
    last = content[-1] if isinstance(content, list) and content else None
    return _is(last, "compaction") or is_server_call(last) or is_server_result(last)


def _strip_end(message: JsonObject, changes: list[Change]) -> None:
    """Strip white space from the end of the last message: the model continues from it."""
    content = message["content"]
    ends = [(message, "content")] if isinstance(content, str) else [(b, "text") for b in content]
    for holder, key in ends[-1:]:
        text = holder.get(key)
        if isinstance(text, str) and text[-1:].isspace():
            changes.append(Change("rewritten", "AN09", "a final text may not end in white space"))
            holder[key] = text.rstrip()


def _is_compacted(message: JsonObject) -> bool:
    """Return whether a message is a compaction, which may begin a conversation."""
    content: JsonValue = message["content"]
    return isinstance(content, list) and _is(content[0], "compaction")


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
    if part.provider == NAME and _is_accepted_from(part.data, role):
        return native_part(part)
    text = foreign_text(part, changes)
    return {"type": "text", "text": text} if text and text.strip() else None


def _source(shown: Image | Document, media_type: str) -> JsonObject:
    if shown.url is not None:
        return {"type": "url", "url": shown.url}
    return {"type": "base64", "media_type": media_type, "data": shown.data or ""}


def _noted(content: JsonValue, answer: Answer) -> JsonValue:
    """Return the content of a result with the note on it; what it shows stays."""
    if isinstance(content, list) and not all(_is(block, "text") for block in content):
        return [*content, {"type": "text", "text": answer.note}]
    return f"{answer.text}\n{answer.note}"


def _results_message(
    adapter: AnthropicAdapter,
    turn: Turn,
    shown: list[tuple[Call, str]],
    changes: list[Change],
) -> JsonObject:
    """Return the message with the results of a turn, what errors show behind them."""
    results: list[JsonObject] = []
    behind: list[JsonObject] = []
    for call, name in shown:
        block = adapter.render_result(call, name)
        if "is_error" in block and block["is_error"] is True:
            behind += _shown_by_error(call, block, changes)
        results.append(block)
    message = results_message_for(turn, NAME, _BLOCKS, results)
    if behind:
        content: list[JsonObject] = message[_BLOCKS]
        place = max(n for n, block in enumerate(content, 1) if _is(block, "tool_result"))
        message[_BLOCKS] = [*content[:place], *behind, *content[place:]]
    return message


def _shown_by_error(call: Call, result: JsonObject, changes: list[Change]) -> Iterator[JsonObject]:
    """Yield what an error shows beside text, which it may not hold; it is taken out of it."""
    answer = call.answer
    content: JsonValue = result.get("content")
    if answer.provider == NAME and answer.native is not None:
        blocks: list[JsonValue] = content if isinstance(content, list) else []
        texts = [block for block in blocks if _is(block, "text")]
        others = [block for block in blocks if isinstance(block, dict) and block not in texts]
        if others:
            result["content"] = texts or "error"
    else:
        others = _blocks(answer.shown_parts, [])
        others = [block for block in others if not _is(block, "text")]
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


def _request_ids(
    turns: Sequence[Turn], before: Sequence[list[str]], changes: list[Change]
) -> list[list[str]]:
    """Return the ids of turns that follow others: ids differ within a whole request."""
    return call_ids(turns, _MAX_ID, changes, per_turn=False, before=before)
