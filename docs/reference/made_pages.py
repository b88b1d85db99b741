"""The pages of the reference that are made from the code: events, provider rules, commands.

`mkdocs build` makes them each time (`mkdocs_hook.py`), so that they are never behind the code.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from evidence import REPORTS
from typer.testing import CliRunner

from eventstore.domain.events import EVENT_CLASSES
from eventstore.providers import server_rules
from eventstore.providers.models import FACTS
from eventstore.providers.registry import PROVIDERS, adapter_of, rule_book
from projections.cli.app import app
from projections.cli.command_groups import GROUPS

STORED: Final = Path(__file__).resolve().parents[2] / "tests" / "golden" / "payloads.json"
"""One stored payload of every event, with every member; pinned by the tests."""


def events_page() -> str:
    """Return the page of all events, each with its members and its stored JSON."""
    return "\n".join(["# Events", EVENTS_INTRODUCTION, *_event_sections()])


EVENTS_INTRODUCTION: Final = """
An event is stored as a row: its tag, the number of its schema, and a payload in JSON. A member that
has its default is not stored. What is stored is never changed: a later version reads every form
that an earlier one wrote.

Times and durations are integer microseconds; times count from 1970, UTC. The place of an event in
the log (`conversation_id`, `version`, `event_id`, `recorded_at` and so on) is in
[`Recorded`](eventstore.md#eventstore.Recorded).
"""


def _event_sections() -> Iterator[str]:
    stored: list[dict[str, Any]] = json.loads(STORED.read_text("utf-8"))
    for tag, cls in EVENT_CLASSES.items():
        example = next(each["payload"] for each in stored if each["tag"] == tag)
        yield f"\n## {tag}\n"
        yield f"`eventstore.{cls.__name__}`, schema {cls.schema}\n"
        yield inspect.cleandoc(cls.__doc__ or "")
        yield "\n| member | type | default |\n|---|---|---|"
        for field in msgspec.structs.fields(cls):
            yield f"| `{field.name}` | `{_type_name(cls, field.name)}` | {_default_of(field)} |"
        yield f"\n```json\n{json.dumps(example, indent=2, ensure_ascii=True)}\n```"


def _type_name(cls: type, member: str) -> str:
    return str(cls.__annotations__[member]).replace("|", "\\|")


def _default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.default is not msgspec.NODEFAULT:
        return f"`{field.default!r}`"
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{field.default_factory()!r}`"
    return "required"


def rules_page() -> str:
    """Return the page of all rules of all providers."""
    sections = (*_rule_sections(), *_server_rules(), *_model_facts())
    return "\n".join(["# Provider rules", RULES_INTRODUCTION, *sections])


RULES_INTRODUCTION: Final = """
What makes a list of messages valid, provider by provider. A rule is *hard* where the provider's own
API refuses the request, and *strict* where some models or compatible servers do. What `render`
returns keeps every rule. `validate(messages, provider)` and `toolledger check` report what breaks
one.

The words are those of the API, as far as it has any; `{place}` and `{detail}` are filled in. The
last column has public issues in which somebody quotes the refusal. Where there is none, the rule
follows the provider's reference or the types of its SDK. A code with a star is the strict side of a
hard rule.
"""


def _rule_sections() -> Iterator[str]:
    for provider in PROVIDERS:
        yield f"\n## {provider}\n"
        yield f"The list is the member `{adapter_of(provider).list_key}` of the request.\n"
        yield "| code | level | what the API says | remedy | reported |\n|---|---|---|---|---|"
        for code, (level, words, remedy) in rule_book(provider).RULES.items():
            reports = ", ".join(REPORTS.get(code, ()))
            yield f"| {_cell(code)} | {level} | {_cell(words)} | {_cell(remedy)} | {reports} |"


def _server_rules() -> Iterator[str]:
    yield "\n## Models and servers\n"
    yield SERVERS_INTRODUCTION
    yield "| code | what the server says | remedy |\n|---|---|---|"
    for code, (_, words, remedy) in server_rules.RULES.items():
        yield f"| {code} | {_cell(words)} | {_cell(remedy)} |"


SERVERS_INTRODUCTION: Final = """
These rules hold only for the models that the table after them names, where you pass `model=`.
"""


def _model_facts() -> Iterator[str]:
    yield FACTS_INTRODUCTION
    yield "| form | what is known | refuses | has not | source |\n|---|---|---|---|---|"
    for fact in FACTS:
        refuses, accepts = (_cell(", ".join(codes)) for codes in (fact.refuses, fact.accepts))
        yield f"| {fact.provider} | {fact.says} | {refuses} | {accepts} | <{fact.source}> |"


FACTS_INTRODUCTION: Final = """
What is known of single models and servers. *Refuses* are the rules that they enforce, *has not* are
those that they do without. A row without either says what repair leaves alone while no model is
named, or that the rules of another provider hold.
"""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def commands_page() -> str:
    """Return the page of all commands, with the help of each."""
    return "\n".join(["# Command line", COMMANDS_INTRODUCTION, *_command_sections()])


COMMANDS_INTRODUCTION: Final = """
The help of every command, as it is printed. [Command line](../command-line.md) shows them at work.
"""


def _command_sections() -> Iterator[str]:
    yield _help_of()
    for group, commands in GROUPS.items():
        yield f"\n## {group}"
        for listed in commands:
            yield f"\n### {listed.name}\n\n{_help_of(listed.name)}"


def _help_of(*command: str) -> str:
    environment = {"COLUMNS": "88", "TERMINAL_WIDTH": "88", "NO_COLOR": "1"}
    printed = CliRunner().invoke(app, [*command, "--help"], env=environment, prog_name="toolledger")
    if printed.exit_code != 0:
        raise RuntimeError(f"{command} --help failed: {printed.output}")
    lines = [line.rstrip() for line in printed.output.strip().splitlines()]
    return "```text\n" + "\n".join(lines) + "\n```"


PAGES: Final[dict[str, Callable[[], str]]] = {
    "events.md": events_page,
    "provider-rules.md": rules_page,
    "commands.md": commands_page,
}
"""Name of each page, and the function that makes it."""
