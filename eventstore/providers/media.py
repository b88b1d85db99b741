"""Images, documents and sounds in messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.media_types import PDF
from eventstore.domain.messages import Document, Image

MEDIA = (
    "image",
    "image_url",
    "document",
    "document_url",
    "file",
    "input_audio",
    "input_image",
    "input_file",
)


def image_of(url: object, detail: object = None) -> Image | None:
    """Return the image at an address, which may hold the image itself."""
    if not isinstance(url, str):
        return None
    level = detail if isinstance(detail, str) else None
    media_type, data = _inline_data(url)
    return Image(url, detail=level) if data is None else Image(None, data, media_type, level)


def document_of(url: object, name: object = None) -> Document | None:
    """Return the PDF document at an address, or in it; None where it may be something else."""
    if not isinstance(url, str):
        return None
    title = name if isinstance(name, str) and name else None
    media_type, data = _inline_data(url)
    if data is not None:
        return Document(None, data, title) if media_type == PDF else None
    is_pdf = url.startswith("https://") and url.partition("?")[0].lower().endswith(".pdf")
    return Document(url, None, title) if is_pdf else None


def _inline_data(url: str) -> tuple[str | None, str | None]:
    """Return the media type and base64 that an address holds, if it does."""
    if not (url.startswith("data:") and ";base64," in url):
        return None, None
    media_type, _, data = url[5:].partition(";base64,")
    return media_type, data


def plain_image(image: Image | Document | None, part: JsonObject) -> Image | None:
    """Return `image` if the part that shows it holds nothing else, otherwise None."""
    if (
        not isinstance(image, Image)
        or image.detail is not None
        or any(dropped_members(image, part))
    ):
        return None
    return image


def dropped_members(shown: Image | Document, part: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the members of a part that its image or document does not hold."""
    if isinstance(shown, Image):
        known = _OF_IMAGES | _DETAIL if shown.detail else _OF_IMAGES
    else:
        known = _OF_DOCUMENTS | _NAMES if shown.name else _OF_DOCUMENTS
    for key, value in part.items():
        if key not in known:
            yield from () if value in (None, "auto") else (str(key),)
        elif isinstance(value, dict):
            yield from dropped_members(shown, value)


_HELD = frozenset(
    {
        "$bytes",
        "bytes",
        "data",
        "fileData",
        "fileUri",
        "file_data",
        "file_uri",
        "format",
        "inlineData",
        "inline_data",
        "media_type",
        "mimeType",
        "mime_type",
        "source",
        "type",
        "url",
    }
)
_OF_IMAGES = _HELD | {"image", "image_url"}
_OF_DOCUMENTS = _HELD | {"document", "document_url", "file", "file_url"}
_DETAIL = frozenset({"detail"})
_NAMES = frozenset(
    {
        "displayName",
        "display_name",
        "document_name",
        "filename",
        "name",
        "title",
    }
)


def url_of(shown: Image | Document) -> str:
    """Return the address of an image or document: a data URL where it has no other."""
    media_type = (shown.media_type or "image/png") if isinstance(shown, Image) else PDF
    return shown.url or f"data:{media_type};base64,{shown.data}"


def file_name(document: Document) -> str:
    """Return what a document's file is called."""
    name = document.name or "document"
    return name if name.lower().endswith(".pdf") else f"{name}.pdf"
