"""What a request to Bedrock shows: names, formats and numbers that Converse takes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.providers.bedrock.reading import is_client_block
from eventstore.providers.bedrock.shapes import FORMATS, MAX_DOCUMENTS
from eventstore.providers.json_values import as_text, members_of
from eventstore.providers.model import Change

_MAX_NAME: Final = 200
_NAME: Final = re.compile(rf"(?!.*  )[a-zA-Z0-9 ()\[\]-]{{1,{_MAX_NAME}}}")
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9()\[\]-]+")
_OTHER_SPELLINGS: Final = {"jpg": "jpeg", "htm": "html", "markdown": "md", "plain": "txt"}


def settle_media(messages: list[JsonObject], changes: list[Change]) -> None:
    """Give media known formats, and documents legal names, each its own.

    A line tells what was there where the format is not known, and of each document after the
    fifth. A legal name that is not in use stays.
    """
    used: set[str] = set()
    count = 0
    shown = (each for message in messages for each in _shown(message["content"]))
    for blocks, place, kind in shown:
        body: JsonObject = blocks[place][kind]
        given: JsonValue = body.get("format")
        if kind != "document" and _subtype(given) in FORMATS[kind]:
            continue  # the service was seen to take a media type
        form = None if given is None else _known_format(given, FORMATS[kind])
        if form is None and given is not None:
            why = f"Converse knows no {kind} of the format {as_text(given)!r}"
        elif kind == "document" and count == MAX_DOCUMENTS:
            why = f"a request holds no more than {MAX_DOCUMENTS} documents"
        else:
            if form != given:
                changes.append(Change("rewritten", kind, f"the format {given!r} is {form!r} here"))
                body["format"] = form
            if kind == "document":
                count += 1
                _name(body, used, changes)
            continue
        changes.append(Change("wrapped", kind, f"{why}: a line tells of it"))
        blocks[place] = {"text": _line_of(body, kind)}


def _shown(blocks: list[JsonObject]) -> Iterator[tuple[list[JsonObject], int, str]]:
    """Yield list, place and kind of what blocks show, and what the results among them show."""
    for place, block in enumerate(blocks):
        for kind in block:
            if kind in FORMATS and isinstance(block[kind], dict):
                yield blocks, place, kind
            elif is_client_block(block, "toolResult"):
                yield from _shown(block["toolResult"]["content"])


def _known_format(given: JsonValue, known: Collection[str]) -> str | None:
    """Return a format as Converse writes it; None if it knows none such."""
    plain = _subtype(given).lower().removeprefix(".")
    plain = _OTHER_SPELLINGS.get(plain, plain)
    return plain if plain in known else None


def _subtype(form: JsonValue) -> str:
    """Return a format, of a media type what stands behind its slash."""
    return form.rpartition("/")[2] if isinstance(form, str) else ""


def _name(document: JsonObject, used: set[str], changes: list[Change]) -> None:
    """Give a document a legal name that no other has, whatever the case of its letters."""
    given = as_text(document.get("name"))
    name = plain = given if _NAME.fullmatch(given) else _legal(given, document.get("format"))
    number = 2
    while name.casefold() in used:
        ending = f" {number}"
        name, number = f"{plain[: _MAX_NAME - len(ending)].rstrip()}{ending}", number + 1
    used.add(name.casefold())
    if name != document.get("name"):
        changes.append(Change("re-keyed", "document", f"the document {given!r} is {name!r} here"))
        document["name"] = name


def _legal(given: str, form: JsonValue) -> str:
    """Return a legal name for a document; it has no ending, which the format says."""
    ending = f".{form}"
    stem = given[: -len(ending)] if given.lower().endswith(ending) else given
    return _ILLEGAL.sub(" ", stem).strip()[:_MAX_NAME].rstrip() or "document"


def _line_of(body: JsonObject, kind: str) -> str:
    """Return the line for what cannot be shown, with the words of a document that is a text."""
    name, form = as_text(body.get("name")), as_text(body.get("format"))
    label = f"[{kind}{' ' if name else ''}{name}{f', format {form}' if form else ''}]"
    source = members_of(body.get("source"))
    words = as_text(source.get("text") or source.get("content"))
    return f"{label}\n{words}" if words else label


def is_extracted(block: JsonObject) -> bool:
    """Return whether a block is a document that the service turns into text: any but a PDF."""
    form: JsonValue = members_of(block.get("document")).get("format")
    return isinstance(form, str) and form != "pdf"


def with_cache_point(content: list[JsonObject], point: JsonObject) -> list[JsonObject] | None:
    """Return the blocks with a cache point after them, but before documents that are no PDF.

    None if no block is left that it may follow.
    """
    place = len(content)
    while place and is_extracted(content[place - 1]):
        place -= 1
    if not place or "cachePoint" in content[place - 1]:
        return None
    return [*content[:place], point, *content[place:]]


def move_cache_points(content: list[JsonObject]) -> list[JsonObject]:
    """Return the blocks of a message, each cache point before the documents that are no PDF."""
    moved: list[JsonObject] = []
    for block in content:
        if "cachePoint" in block and moved and is_extracted(moved[-1]):
            moved = with_cache_point(moved, block) or moved
        else:
            moved.append(block)
    return moved
