"""The pages of the reference that are made from the code, and the page of errors, lack nothing."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import eventstore
import projections
from eventstore import engines, errors, importers, providers
from eventstore.domain.events import EVENT_CLASSES
from eventstore.importers.formats import about_formats
from eventstore.providers import server_rules
from eventstore.providers.models import FACTS
from eventstore.providers.registry import PROVIDERS, rule_book
from projections.cli.command_groups import GROUPS

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
sys.path.insert(0, str(REFERENCE))

from evidence import REPORTS  # type: ignore[import-not-found]  # noqa: E402
from formats_page import PAGE, formats_page  # type: ignore[import-not-found]  # noqa: E402
from made_pages import PAGES  # type: ignore[import-not-found]  # noqa: E402
from site_checks import (  # type: ignore[import-not-found]  # noqa: E402
    loaded_from_elsewhere,
    undocumented,
)

ERRORS = {
    name
    for module in (errors, eventstore, projections, providers, importers)
    for name, error in vars(module).items()
    if isinstance(error, type) and issubclass(error, Exception) and not name.startswith("_")
}
BASES = {"EventStoreError", "StorageError"}
RULES = [code for provider in PROVIDERS for code in rule_book(provider).RULES]


@pytest.mark.parametrize("name", sorted(ERRORS - BASES))
def test_an_error_has_its_cause_and_remedy(name: str) -> None:
    """A row of the page names the error, its cause and what to do."""
    page = (REFERENCE / "errors.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
    assert len(rows) == 1
    assert all(cell.strip() for cell in rows[0].strip("|").split("|"))


def test_every_event_has_a_section_with_its_stored_form() -> None:
    """The catalogue names each tag, and shows the JSON of it."""
    page = PAGES["events.md"]()
    for tag, cls in EVENT_CLASSES.items():
        section = page.split(f"\n## {tag}\n")[1].split("\n## ")[0]
        assert f"`eventstore.{cls.__name__}`" in section
        assert "```json\n{" in section
        assert all(f"| `{member}` |" in section for member in cls.__struct_fields__)


def test_every_rule_of_every_provider_has_a_row() -> None:
    """A rule stands in the table of its provider, with its level."""
    page = PAGES["provider-rules.md"]()
    for provider in PROVIDERS:
        section = page.split(f"\n## {provider}\n")[1].split("\n## ")[0]
        for code, (level, _, _) in rule_book(provider).RULES.items():
            assert f"| {code.replace('*', chr(92) + '*')} | {level} |" in section


def test_every_fact_of_a_model_has_a_row_with_its_source() -> None:
    """The rules that only some models have stand before the table of what is known of them."""
    page = PAGES["provider-rules.md"]().split("\n## Models and servers\n")[1]
    assert all(f"| {code} |" in page for code in server_rules.RULES)
    assert all(f"| {fact.says} |" in page and f"<{fact.source}>" in page for fact in FACTS)


def test_reports_are_of_rules_that_exist() -> None:
    """A rule that is gone takes its reports with it."""
    assert {*REPORTS} <= {*RULES}


def test_every_command_has_its_help() -> None:
    """The page shows what each command prints for `--help`."""
    page = PAGES["commands.md"]()
    for commands in GROUPS.values():
        for listed in commands:
            assert f"\n### {listed.name}\n\n```text\nUsage: toolledger {listed.name} " in page


def test_the_page_of_formats_is_that_of_the_readers() -> None:
    """If this fails, run `python docs/reference/formats_page.py`."""
    assert PAGE.read_text("utf-8") == formats_page()


@pytest.mark.parametrize("name", [*about_formats()])
def test_a_format_says_what_is_lost_of_its_files(name: str) -> None:
    """A format with a date names the version that was tried."""
    about = about_formats()[name]
    assert all((about.program, about.files, about.failures, about.times, about.lost))
    assert not {each for each in (about.kept, about.lost) if each != each.strip().rstrip(".")}
    assert re.fullmatch(r"(\d{4}-\d\d-\d\d)?", about.on)
    assert about.tried or not about.on


def test_a_public_name_without_an_anchor_is_found() -> None:
    """`mkdocs build` fails then; the anchor may be that of the module that defines the name."""
    page = '<h2 id="eventstore.engines.Backend"><h2 id="eventstore.storage.factory.backend_for">'
    missing = undocumented([page], [engines])
    assert "eventstore.engines.open_engine" in missing
    assert {"eventstore.engines.Backend", "eventstore.engines.backend_for"}.isdisjoint(missing)


@pytest.mark.parametrize(
    ("page", "addresses"),
    [
        ('<script src="https://cdn.example/x.js"></script>', ["https://cdn.example/x.js"]),
        ('<link href="//cdn.example/x.css" rel="stylesheet">', ["//cdn.example/x.css"]),
        ("<img alt=a src=http://cdn.example/x.png>", ["http://cdn.example/x.png"]),
        ('<a href="https://project.example">', []),
        ('<script src="../assets/x.js"></script>', []),
    ],
)
def test_a_page_that_loads_from_elsewhere_is_found(page: str, addresses: list[str]) -> None:
    """Links may lead anywhere; scripts, styles and pictures stand beside the page."""
    assert loaded_from_elsewhere(page) == addresses
