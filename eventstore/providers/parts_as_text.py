"""Parts as text, for a place or a provider that cannot show them.

A part of another provider is known by its kind. One that says nothing to others, such as its
reasoning or what its server keeps, is left out; what any other holds is told under a label.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.messages import Audio, Document, Image, Media, Opaque, Part, Text
from eventstore.domain.own_texts import error_as_text
from eventstore.domain.shown_results import OWN
from eventstore.providers.json_values import as_text, members_of
from eventstore.providers.model import Answer, Call, Change

_COMPACTIONS = frozenset({"compaction", "compaction_summary"})
_SILENT_KINDS = frozenset(
    {
        "SDK_UNKNOWN_MEMBER",
        "additional_tools",
        "bytes",
        "cachePoint",
        "compaction",
        "compaction_summary",
        "compaction_trigger",
        "configuration_update",
        "fallback",
        "item_reference",
        "mcp_list_tools",
        "mcp_tool_listing",
        "toolAddition",
        "toolRemoval",
        "tool_addition",
        "tool_removal",
        "tool_search_call",
        "tool_search_output",
    }
)
"""Parts that are about a provider's own tools and storage, and say nothing to another.

So are bytes that no model takes: the text beside them tells of them (`shown_results`).
"""

REASONING_KINDS: Final = frozenset(
    {"thinking", "redacted_thinking", "reasoning", "reasoningContent"}
)
"""Parts that hold what the model thought."""


def foreign_text(part: Opaque | Audio, changes: list[Change]) -> str | None:
    """Return the text of another provider's part; None if it means nothing to this provider."""
    if isinstance(part, Audio):
        changes.append(Change("wrapped", "foreign-part", f"no {part_label(part)} can stand here"))
        return described(part)
    data = members_of(part.data)
    kind, text = kind_of(data), data.get("text")
    body: JsonValue = data.get(kind)
    if data.get("thought") is True or kind in _SIGNATURES:
        kind = "thinking"
    extra = [key for key in data if data[key] and key not in ("type", "text", "content")]
    if kind == "citationsContent" and isinstance(body, dict):
        kind, text = "text", as_text(body.get("content"))
        extra = [key for key in body if body[key] and key != "content"]
    if kind in ("text", "input_text", "output_text") and isinstance(text, str):
        if extra:
            why = f"{', '.join(map(str, extra))} of a text is only for {part.provider}"
            changes.append(Change("dropped", "foreign-part", why))
        return text
    others = [str(key) for key in extra if key not in (kind, "id", "source")]
    named = f"{kind} ({', '.join(others)})" if others else kind
    if kind == "refusal" and isinstance(data.get("refusal"), str):
        return str(data["refusal"])
    is_summary = _is_text(data.get("content"))
    if kind in _COMPACTIONS and data.get("encrypted_content") and not is_summary:
        why = f"only {part.provider} can read the summary in {named}"
        changes.append(Change("wrapped", "foreign-part", why))
        return f"[A summary of what came before stands here. Only {part.provider} can read it.]"
    is_reasoning = kind in REASONING_KINDS
    if is_reasoning or (kind in _SILENT_KINDS and not is_summary):  # a compaction may be one
        rule = "reasoning" if is_reasoning else "foreign-part"
        changes.append(Change("dropped", rule, f"{named} is only for {part.provider}"))
        return None
    changes.append(Change("wrapped", "foreign-part", f"{named} of {part.provider} became text"))
    content = _labelled_content(body, data.get("source"), data) or ", not shown here]"
    return f"[{kind} of {part.provider}{content}"


def part_label(part: Part) -> str:
    """Return the kind of a part with the names of its members."""
    if isinstance(part, Audio):
        return f"audio ({part.media_type})"
    if isinstance(part, Image | Document):
        return type(part).__name__.lower()
    data = members_of(part.data) if isinstance(part, Opaque) else {}
    kind = kind_of(data)
    held: list[JsonValue] = [data, data.get(kind)]
    keys = (str(key) for each in held if isinstance(each, dict) for key in each if each[key])
    members = [key for key in dict.fromkeys(keys) if key not in ("type", kind)]
    return f"{kind} ({', '.join(members)})" if members else kind


def has_text(data: JsonObject) -> bool:
    """Return whether another provider's part holds text or an address."""
    return bool(_labelled_content(data.get(kind_of(data)), data.get("source"), data))


def _labelled_content(*held: JsonValue) -> str:
    """Return the text or the address in the members of a part, as the end of its label."""
    for each in held:
        if isinstance(each, dict):
            if words := _words(each):
                return f"]\n{words}"
            found: list[str] = [each[key] for key in _ADDRESSES if _is_text(each.get(key))]
            if found and not found[0].startswith("data:"):
                return f": {found[0]}]"
    for each in held:
        if isinstance(each, dict) and (words := "\n".join(_all_words(each))):
            return f"]\n{words}"
    return ""


def described(shown: Media) -> str:
    """Return the text that replaces an image, document or sound where it cannot be shown."""
    name = shown.name if isinstance(shown, Document) else None
    url = None if isinstance(shown, Audio) else shown.url
    return f"[{' '.join(filter(None, (part_label(shown), name, url)))}]"


def answer_text(answered: Call | Answer) -> str:
    """Return a call's answer as one text, for a tool message without an error flag.

    An error is the object `{"error": "..."}`. The line that the library adds comes last.
    """
    answer = answered.answer if isinstance(answered, Call) else answered
    text = error_as_text(answer.text) if answer.is_error else answer.text
    return f"{text}\n{answer.note}" if answer.note else text


def plain_text(parts: tuple[Part, ...], changes: list[Change]) -> str:
    """Return parts as one text, for places that take only text, such as a system prompt."""
    said: list[str] = []
    for part in parts:
        if isinstance(part, Text):
            said.append(part.text)
        elif isinstance(part, Media):
            changes.append(Change("wrapped", part_label(part), "only text can stand here"))
            said.append(described(part))
        else:
            said.append(foreign_text(part, changes) or "")
    return "\n".join(filter(None, said))


def shown_text(parts: tuple[Part, ...]) -> str:
    """Return the parts of a result as one text, in which a provider's own media has its name."""
    named = (
        Text(as_text([part.data])) if isinstance(part, Opaque) and part.provider != OWN else part
        for part in parts
    )
    return plain_text(tuple(named), [])


_SIGNATURES = ("thoughtSignature", "thought_signature")  # they do not say the kind of a part
_ADDRESSES = ("fileUri", "file_uri", "url", "file_url", "document_url", "filename", "file_id")


def kind_of(data: JsonObject) -> str:
    """Return the kind of a part: its type, or the name of the member that holds its content."""
    kind = data.get("type")
    if isinstance(kind, str):
        return kind
    return str(next((key for key in data if key not in _SIGNATURES), next(iter(data), "part")))


def _words(held: JsonObject) -> str | None:
    """Return the text of an object that is a text block of some kind, otherwise None."""
    if held.get("type") == "text" and _is_text(held.get("data")):
        return str(held["data"])
    return as_text(held.get("content")) if held.get("type") in _TEXTS else None


def _all_words(held: JsonValue, depth: int = 8) -> Iterator[str]:
    """Yield the texts in the input and output of a provider's own tool: code, queries, prints."""
    if isinstance(held, list) and depth:
        for each in held:
            yield from [each] if isinstance(each, str) else _all_words(each, depth - 1)
    elif isinstance(held, dict) and depth and held.get("type") != "image_generation_call":
        if words := _words(held):
            yield words
            return
        members: dict[str, JsonValue] = held
        for key, value in members.items():
            if key in _INPUT_MEMBERS and value:
                yield as_text(value)
            elif key in _OUTPUT_MEMBERS and isinstance(value, str):
                if value.strip() and not value.startswith("data:"):
                    yield value
            elif key in _OUTPUT_MEMBERS:
                yield from _all_words(value, depth - 1)


_TEXTS = ("compaction", "content", "search_result")
_INPUT_MEMBERS = frozenset({"args", "arguments", "input"})
_OUTPUT_MEMBERS = frozenset(
    {
        "action",
        "code",
        "command",
        "commands",
        "content",
        "document",
        "error",
        "error_code",
        "error_message",
        "filename",
        "json",
        "logs",
        "name",
        "operation",
        "output",
        "outputs",
        "path",
        "pattern",
        "queries",
        "query",
        "reason",
        "response",
        "result",
        "results",
        "s3Location",
        "source",
        "stderr",
        "stdout",
        "text",
        "title",
        "tool_references",
        "tool_name",
        "uri",
        "url",
    }
)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)
