"""Every message of the library's own errors ends with what to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventstore import errors
from eventstore.errors import EventStoreError, LostPlace
from eventstore.importers.reading.problems import SourceError
from eventstore.seals import errors as seal_errors

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    path
    for folder in ("eventstore", "projections")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "testing" not in path.parts
]

CLASSES: list[type[Exception]] = [
    error
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, EventStoreError)
]
WITH_WORDS_OF_THEIR_OWN = {error.__name__ for error in CLASSES if "__init__" in vars(error)} - {
    "IllegalTransition"
}
WITH_WORDS_OF_THE_CALLER = {
    error.__name__
    for error in (*CLASSES, *vars(seal_errors).values(), SourceError)
    if isinstance(error, type)
} - WITH_WORDS_OF_THEIR_OWN

STEPS = (
    "append|answer|approve|begin|call|check|close|complete|continue|copy|create|end|fail|free|give|go|"
    "import|install|look|make|"
    "mend|name|open|pass|pip|put|raise|read|repeat|request|restore|roll|run|save|seal|see|set|start|stop|"
    "take|try|unpack|upgrade|use|verify|wait|write"
)
REMEDY = re.compile(
    rf"(?:[:;,.]|then|or|and|to) `?(?:{STEPS})\b|remedy|advice|_MEANINGS|with --url",
    re.IGNORECASE,
)
"""A step, as it follows the cause; or the name of a value that holds one."""


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each message that the file writes for one of the errors."""
    for call in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            continue
        if call.func.id in WITH_WORDS_OF_THE_CALLER:
            texts = [
                ast.unparse(part)
                for part in ast.walk(call)
                if isinstance(part, ast.JoinedStr)
                or (isinstance(part, ast.Constant) and isinstance(part.value, str))
            ]
            if any(" " in text for text in texts):
                yield call.lineno, max(texts, key=len)


def test_a_message_that_is_written_at_its_place_ends_with_a_remedy() -> None:
    """Each of the dozens in the source has a step that the reader can take."""
    found = [(str(path), *message) for path in SOURCES for message in messages(path)]
    assert len(found) > 50
    assert [message for message in found if not REMEDY.search(message[-1])] == []


@pytest.mark.parametrize(
    "error",
    [
        errors.VersionConflict(1, 2),
        errors.ImportConflict("chat", 1, 2),
        errors.IllegalTransition("Completed", "approved", "a"),
        errors.ConversationArchived("chat", 3, 0, "a.jsonl"),
        errors.RuleFailed("email", "raised ValueError"),
        errors.UnknownCall("a", "chat"),
        errors.NoDecision("a", "Running"),
        errors.SilentAttempt("a"),
        errors.UnparsedArguments("a", "{"),
        errors.UnhashableArguments("$", "a set"),
        errors.NonResolvedToolError("a", "Pending"),
        errors.OutcomeUnknown("no answer", ("0" * 32,)),
        errors.CursorLost([LostPlace(0, 1, "a", None)], "start"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_with_words_of_its_own_says_what_to_do(error: EventStoreError) -> None:
    """The step stands in the message, or in a note that a traceback prints below it."""
    shown = "\n: ".join([str(error), *getattr(error, "__notes__", ())])
    assert REMEDY.search(shown), shown


def test_no_error_with_words_of_its_own_is_left_out() -> None:
    """The list above has each of them."""
    (marks,) = test_an_error_with_words_of_its_own_says_what_to_do.pytestmark  # type: ignore[attr-defined]
    assert {type(each).__name__ for each in marks.args[1]} == {
        *WITH_WORDS_OF_THEIR_OWN,
        "IllegalTransition",
    }
