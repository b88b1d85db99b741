"""The page of formats, made from what each reader says of itself.

`python docs/reference/formats_page.py` writes it; a test fails where it is behind the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from eventstore.importers import PROVIDERS
from eventstore.importers.formats import about_formats
from eventstore.importers.reading.about import PLACES, About

PAGE: Final = Path(__file__).resolve().parents[1] / "formats.md"

INTRODUCTION: Final = """
<!-- Made from the readers: python docs/reference/formats_page.py -->

The programs whose files `toolledger import` reads, as each reader states it. The form of a file is
detected. `--provider NAME` names it where it should not be guessed.

*Tried* is the newest version of the program whose files were read. Where a date stands there, one
was read again on that day.
"""

MESSAGES: Final = """
Messages of a provider are read without a program:

| messages, requests | name | failures |
|---|---|---|
| Anthropic, Bedrock, Gemini | `anthropic`, `bedrock`, `gemini` | marked |
| OpenAI, Responses, litellm | `openai`, `openai-responses`, `litellm` | text |
| Mistral, Ollama, Cohere | `mistral`, `ollama`, `cohere` | text |

Files of messages hold a list, or an object with `messages`, `contents` or `input`. Lines hold one
message, one such object, or one such list each. Their times are those that the file has.
"""

SESSIONS: Final = """
## Where sessions lie

`toolledger sessions` looks there. A variable that is not set names no folder, and its place is
looked at beside the usual one. *Kept* and *lost* go beyond messages, calls and results.
"""


def formats_page() -> str:
    """Return the page of all formats."""
    abouts = about_formats()
    lines = ["# Formats", INTRODUCTION.rstrip(), "", *_overview(abouts), MESSAGES.rstrip()]
    lines += [SESSIONS.rstrip(), "", *_places(), "", *_sessions(abouts)]
    return "\n".join(lines) + "\n"


def _overview(abouts: dict[str, About]) -> Iterator[str]:
    yield "| program | files | name | times | failures | tried |"
    yield "|---|---|---|---|---|---|"
    for name, about in abouts.items():
        chosen = f"`{name}`" if name in PROVIDERS else "detected"
        tried = f"{about.tried} ({about.on})" if about.on else about.tried
        cells = (about.program, about.files, chosen, about.times, about.failures, tried)
        yield _row(*cells)


def _places() -> Iterator[str]:
    yield "| in a place | stands for |"
    yield "|---|---|"
    for name, folders in PLACES.items():
        yield _row(f"`{{{name}}}`", ", ".join(f"`{folder}`" for folder in folders))


def _sessions(abouts: dict[str, About]) -> Iterator[str]:
    yield "| program | where its sessions lie | kept | lost |"
    yield "|---|---|---|---|"
    for about in abouts.values():
        places = "<br>".join(f"`{place}`" for place in about.places)
        yield _row(about.program, places or "where you put them", about.kept or "-", about.lost)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(formats_page(), "utf-8")
