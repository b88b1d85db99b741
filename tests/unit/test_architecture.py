"""The module dependencies point one way, and each library is imported in one place."""

from __future__ import annotations

import ast
import functools
import re
import runpy
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    str(path.relative_to(ROOT))
    for package in ("eventstore", "projections")
    for path in (ROOT / package).rglob("*.py")
)

PURE = (
    r"eventstore/(errors|agent_errors/.*|detectors/.*|domain/.*|policies/.*|provider_messages/.*|providers/.*|"
    r"append/(command|commands/.*|conversation_state|door|inputs|last_turn|staging|stored_once|tool_fold)|"
    r"subscriptions/feed|dispatch/(after_hooks|batch|call_log|decisions|effects|execution|function_tool|"
    r"offers|open_calls|preparation|refusals|resume|workflow)|"
    r"seals/(checkpoints|findings|keys|merkle|notes|proofs)|storage/leaves)\.py"
)
IMPURE = {
    "alembic",
    "asyncio",
    "datetime",
    "os",
    "random",
    "sqlalchemy",
    "sqlite3",
    "threading",
    "time",
}
_TABLES = (
    r"eventstore/storage/.*|projections/(projector/(database|queries|schema)|search/index)\.py"
)
# A library's one door into the code; where the second pattern fits, only inside functions.
INTEGRATIONS = {
    "agent_framework": "agent_framework(_messages|_model|_tools)?",
    "agents": "openai_agents(_copies|_log|_mcp|_native)?",
    "claude_agent_sdk": "claude_agent_sdk",
    "google": "google_adk(_contents|_ends)?",
    "mcp": "mcp(_server)?",
    "opentelemetry": "opentelemetry",
    "pydantic_ai": "pydantic_ai(_log|_messages)?",
    "strands": "strands",
}
"""The frameworks, and the file of each in the room of the integrations."""
DOORS = {
    **{name: (rf"eventstore/integrations/{file}\.py", "") for name, file in INTEGRATIONS.items()},
    "alembic": (r"eventstore/storage/migrations\.py", r".*"),
    "cryptography": (
        r"eventstore/(seals/crypto|subjects/vault)\.py|projections/audit/check\.py",
        r"eventstore/subjects/.*",
    ),
    "phonenumbers": (r"eventstore/detectors/libraries\.py", r".*"),
    "rfc3161_client": (r"eventstore/seals/time_stamps\.py", ""),
    "rich": (r"projections/cli/.*", ""),
    "sqlalchemy": (
        rf"eventstore/store\.py|{_TABLES}",
        r"eventstore/(store|storage/migrations)\.py",
    ),
    "tiktoken": (r"projections/history/token_counter\.py", r".*"),
    "typer": (r"projections/cli/.*", ""),
    "xxhash": (r"eventstore/domain/fingerprint\.py", ""),
}
SQL = r"\s*(SELECT|INSERT|UPDATE|DELETE)\s"
SQL_ROOMS = (
    rf"{_TABLES}|eventstore/importers/databases\.py"
    r"|eventstore/importers/frameworks/(checkpoint_server|checkpoint_files|openai_agents_sessions)\.py"
    r"|eventstore/importers/programs/(crush|goose|opencode_database)\.py"
)


class Import(NamedTuple):
    """One imported module, the name taken from it, and whether that waits for a call."""

    module: str
    name: str
    lazy: bool

    @property
    def package(self) -> str:
        """Return the first part of the module's name."""
        return self.module.partition(".")[0]


FACES = {
    "eventstore",
    "eventstore.engines",
    "eventstore.importers",
    "eventstore.backup",
    "eventstore.migrate",
    "eventstore.providers",
    "eventstore.retention",
    "eventstore.seals",
}
"""Modules of which the read side takes the names in `__all__`."""
SHARED = {
    "eventstore.domain.anchors",
    "eventstore.domain.closing_codes",
    "eventstore.domain.copies",
    "eventstore.domain.covered",
    "eventstore.domain.credentials",
    "eventstore.domain.equal_calls",
    "eventstore.domain.finish_reasons",
    "eventstore.domain.json_types",
    "eventstore.domain.lifecycle",
    "eventstore.domain.one_line",
    "eventstore.domain.response_turns",
    "eventstore.domain.own_texts",
    "eventstore.domain.recovery",
    "eventstore.domain.redaction",
    "eventstore.domain.settlement",
    "eventstore.domain.times",
    "eventstore.domain.unreadable_steps",
    "eventstore.domain.wording",
    "eventstore.importers.discovery",
    "eventstore.importers.formats",
    "eventstore.leases.under_way",
    "eventstore.seals.time_stamps",
}
"""Modules of which the read side takes every public name."""


@functools.cache
def imports(module: str) -> list[Import]:
    """Return what a module imports when it runs; imports for typing alone are left out."""
    return list(_imports(_tree(module), lazy=False))


def _imports(node: ast.AST, *, lazy: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, "", lazy) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            module = "." * child.level + (child.module or "")
            yield from (Import(module, alias.name, lazy) for alias in child.names)
        elif not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            in_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _imports(child, lazy=lazy or in_function)


def _is_public(found: Import) -> bool:
    if found.module in FACES:
        return found.name in import_module(found.module).__all__
    return found.module in SHARED and not found.name.startswith("_")


@functools.cache
def _tree(module: str) -> ast.Module:
    return ast.parse((ROOT / module).read_text(encoding="utf-8"))


def _docstrings(tree: ast.Module) -> set[ast.expr]:
    """Return the strings that stand as statements: docstrings, also those of attributes."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def test_imports_are_absolute() -> None:
    """A relative import would hide which package is imported."""
    assert offences(lambda module: [i for i in imports(module) if i.module.startswith(".")]) == {}


def test_the_write_side_never_imports_the_read_side() -> None:
    """`projections` knows `eventstore`, never the other way round.

    Integrations stand above both: they show the model what the log says.
    """

    def wrong(module: str) -> list[Import]:
        if not module.startswith("eventstore/") or module.startswith("eventstore/integrations/"):
            return []
        return [found for found in imports(module) if found.package == "projections"]

    assert offences(wrong) == {}


def test_the_read_side_uses_public_names_only() -> None:
    """`projections` takes from `eventstore` only names that every user may import."""

    def wrong(module: str) -> list[Import]:
        if not module.startswith("projections/"):
            return []
        taken = [found for found in imports(module) if found.package == "eventstore"]
        return [found for found in taken if not _is_public(found)]

    assert offences(wrong) == {}


def test_no_module_imports_an_integration() -> None:
    """Frameworks are loaded only by a program that names the integration."""

    def wrong(module: str) -> list[Import]:
        if module.startswith("eventstore/integrations/"):
            return []
        return [i for i in imports(module) if i.module.startswith("eventstore.integrations")]

    assert offences(wrong) == {}


def test_pure_rooms_see_no_clock_and_no_connection() -> None:
    """Decisions are functions of values: no database, time, environment, chance or thread."""

    def wrong(module: str) -> list[Import]:
        if not re.fullmatch(PURE, module):
            return []
        return [found for found in imports(module) if found.package in IMPURE]

    assert offences(wrong) == {}


def test_a_library_has_one_door() -> None:
    """Each third-party library is imported in one place, the slow ones inside functions."""

    def wrong(module: str) -> Iterator[Import]:
        for found in imports(module):
            rooms, lazy_rooms = DOORS.get(found.package, (".*", ""))
            too_early = not found.lazy and re.fullmatch(lazy_rooms, module)
            if too_early or not re.fullmatch(rooms, module):
                yield found

    assert offences(wrong) == {}


def test_an_interrupt_leaves_no_event_locked() -> None:
    """Threads wait for a `Latch`: a Ctrl-C inside of `threading.Event` leaves its lock held."""

    def wrong(module: str) -> Iterator[str]:
        if module.startswith("eventstore/"):
            yield from (f"{found.module}.{found.name}" for found in imports(module))
            nodes = ast.walk(_tree(module))
            yield from (ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute))

    assert not [module for module in MODULES if "threading.Event" in wrong(module)]


def test_sql_is_written_in_its_room() -> None:
    """No other module has a string that starts like a statement."""

    def wrong(module: str) -> list[str]:
        if re.fullmatch(SQL_ROOMS, module):
            return []
        strings = {node for node in ast.walk(_tree(module)) if isinstance(node, ast.Constant)}
        texts = [node.value for node in strings - _docstrings(_tree(module))]
        return [text for text in texts if isinstance(text, str) and re.match(SQL, text)]

    assert offences(wrong) == {}


def test_a_module_is_named_for_its_one_concept() -> None:
    """No module is called `utils`, `helpers` or the like."""
    vague = {"utils", "helpers", "common", "base", "core"}
    assert offences(lambda module: vague & set(Path(module).with_suffix("").parts)) == {}


def test_files_classes_and_switched_off_checks_are_within_their_limits() -> None:
    """The numbers of `.ci/figures.py`: what makes them up is in the message."""
    figures = runpy.run_path(str(ROOT / ".ci" / "figures.py"))["figures"]()
    assert [figure for figure in figures if figure.fails] == []


def offences(wrong: Callable[[str], Iterable[object]]) -> dict[str, list[object]]:
    """Return what is wrong in each module, where something is."""
    found = {module: list(wrong(module)) for module in MODULES}
    return {module: items for module, items in found.items() if items}
