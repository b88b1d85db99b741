"""The union of events: the only list of them, and what refuses a class that is not complete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar, get_args

import msgspec
import pytest

import eventstore
from eventstore.domain import event_headers, lifecycle
from eventstore.domain.event_tables import require_tool_event_tags
from eventstore.domain.events import (
    EVENT_CLASSES,
    SCHEMAS,
    Event,
    ToolEvent,
    UnknownEvent,
    classes_by_tag,
)


class Invented(msgspec.Struct, frozen=True):
    """A class that is added to the union."""

    tag: ClassVar[str] = "invented"
    schema: ClassVar[int] = 1
    call_id: str


class Untagged(msgspec.Struct, frozen=True):
    """An event class that does not say how it is stored."""


class Taken(msgspec.Struct, frozen=True):
    """An event class with the tag of another."""

    tag: ClassVar[str] = "message"
    schema: ClassVar[int] = 1


def test_the_union_is_the_list_of_the_event_classes() -> None:
    """Every class but `UnknownEvent`, under its own tag, with its own schema."""
    assert set(EVENT_CLASSES.values()) == {*get_args(Event)} - {UnknownEvent}
    assert {tag: (cls.tag, cls.schema) for tag, cls in EVENT_CLASSES.items()} == {
        tag: (tag, schema) for tag, schema in SCHEMAS.items()
    }


def test_a_new_class_in_the_union_is_stored_without_another_list() -> None:
    """Its tag and schema stand on the class."""
    assert classes_by_tag([*EVENT_CLASSES.values(), Invented])["invented"] is Invented


def test_a_class_without_a_tag_is_refused_by_name() -> None:
    """The error is raised when the module is imported, not at the first append."""
    with pytest.raises(TypeError, match="Untagged is in the union Event and cannot be stored"):
        classes_by_tag([*EVENT_CLASSES.values(), Untagged])


def test_two_classes_with_one_tag_are_refused_by_name() -> None:
    """A reader could not tell them apart."""
    with pytest.raises(TypeError, match="Taken and MessageAdded share the tag 'message'"):
        classes_by_tag([*EVENT_CLASSES.values(), Taken])


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("lifecycle.STEPS", lifecycle.STEPS),
        ("lifecycle.TRANSITIONS", {"pending", *lifecycle.TRANSITIONS}),
        ("event_headers", {tag for tag, _ in event_headers.HEADER_DECODERS}),
    ],
)
def test_a_tool_event_without_an_entry_is_refused_by_name(name: str, table: Any) -> None:
    """Every table of tool events names the class that it lacks, and itself."""
    require_tool_event_tags(name, table)
    classes: tuple[Any, ...] = (*get_args(ToolEvent), Invented)
    with pytest.raises(TypeError, match=f"Invented is in the union ToolEvent and {name} has no"):
        require_tool_event_tags(name, table, classes)


def test_a_tool_event_added_to_the_union_alone_stops_the_import(tmp_path: Path) -> None:
    """The copy of the package with the new class cannot be imported; the error names the class."""
    package = Path(eventstore.__file__).parent
    shutil.copytree(package, tmp_path / "eventstore", ignore=shutil.ignore_patterns("__pycache__"))
    copy = tmp_path / "eventstore/domain/events.py"
    source = copy.read_text()
    added = (
        "class ToolMoved(msgspec.Struct, frozen=True):\n"
        '    tag: ClassVar[str] = "moved"\n'
        "    schema: ClassVar[int] = 1\n"
        "    call_id: str\n\n\n"
        "ToolEvent = (\n    ToolMoved\n    | ToolPending"
    )
    assert source.count("\nToolEvent = (\n    ToolPending") == 1
    copy.write_text(source.replace("ToolEvent = (\n    ToolPending", added))
    run = subprocess.run(
        [sys.executable, "-c", "import eventstore"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert "TypeError: ToolMoved is in the union ToolEvent and lifecycle.STEPS" in run.stderr
