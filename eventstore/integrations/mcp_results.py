"""What is recorded of the content of an MCP server's answer.

1. Text is recorded as the server wrote it; as the structured content where both say the same. A
   list comes as a block for each of its items.
2. Images, sounds and PDF documents are what they are, also as the bytes of a resource. Other bytes
   are kept, and the model reads how many there are. Any other block is its JSON.

The SDK is not imported: blocks are its objects, of versions 1 and 2, or their JSON.
"""

from __future__ import annotations

import json
from binascii import Error, a2b_base64
from typing import TYPE_CHECKING, Any

from eventstore.domain.messages import Audio, Document, Image, Part, Text, media_of
from eventstore.domain.shown_results import kept_bytes
from eventstore.providers.sdk_objects import member

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from eventstore.domain.json_types import JsonObject


def is_block(value: object) -> bool:
    """Return whether a value is the JSON of a block of content."""
    return isinstance(value, dict) and value.get("type") in _BLOCKS


def recorded_content(content: Iterable[object], structured: object = None) -> object:
    """Return what is recorded of the blocks of an answer, and of its structured content."""
    parts = [part for block in content for part in _parts(block)]
    texts = [part.text for part in parts if isinstance(part, Text)]
    if len(texts) < len(parts):
        return parts
    text = "\n".join(texts)
    is_said = structured is not None and (_says(text, structured) or _says_items(texts, structured))
    return structured if is_said else text


def text_of(content: Iterable[object]) -> str:
    """Return the words of an answer."""
    texts = (member(block, "text") for block in content)
    return "\n".join(text for text in texts if isinstance(text, str))


def _says(text: str, structured: object) -> bool:
    """Return whether a text is the JSON of a value, or empty."""
    if not text:
        return True
    try:
        said: object = json.loads(text)
    except ValueError:
        return False
    return said == structured


def _says_items(texts: Sequence[str], structured: object) -> bool:
    """Return whether texts are those of a list, which servers wrap as the member `result`."""
    items: Any = member(structured, "result")
    if not (isinstance(items, list) and isinstance(structured, dict) and len(structured) == 1):
        return False
    return len(texts) == len(items) and all(
        text == item or (not isinstance(item, str) and _says(text, item))
        for text, item in zip(texts, items, strict=True)
    )


def _parts(block: object) -> Iterator[Part]:
    kind = member(block, "type")
    text, data = member(block, "text"), member(block, "data")
    if kind == "text" and isinstance(text, str):
        yield Text(text)
    elif kind in ("image", "audio") and isinstance(data, str):
        media_type = str(_either(block, "mime_type", "mimeType") or "")
        is_image = kind == "image"
        yield Image(None, data, media_type or None) if is_image else Audio(data, media_type)
    else:
        yield from _resource(block)


def _resource(block: object) -> Iterator[Part]:
    """Yield the parts of a resource, or of a link to one."""
    resource = member(block, "resource")
    blob = member(resource, "blob")
    try:
        content = a2b_base64(blob, strict_mode=True) if isinstance(blob, str) else b""
    except (Error, ValueError):
        content = b""
    shown = media_of(content)
    if isinstance(shown, Document):
        shown = Document(None, shown.data, str(member(resource, "uri")).rpartition("/")[2] or None)
    kept = [shown] if shown is not None else kept_bytes(content)
    described = _as_json(block)
    if kept:
        described["resource"] = {
            name: value for name, value in described["resource"].items() if name != "blob"
        }
    yield Text(json.dumps(described, ensure_ascii=False, separators=(",", ":")))
    yield from kept


def _as_json(block: object) -> JsonObject:
    if isinstance(block, dict):
        return dict(block)
    described: Any = block
    dumped: JsonObject = described.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def _either(block: object, *names: str) -> object:
    return next((found for name in names if (found := member(block, name)) is not None), None)


_BLOCKS = ("text", "image", "audio", "resource", "resource_link")
