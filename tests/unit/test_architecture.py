"""Which module may import what: the arrows of the house point one way."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import eventstore

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    str(path.relative_to(ROOT))
    for package in ("eventstore", "projections")
    for path in (ROOT / package).rglob("*.py")
)
every_module = pytest.mark.parametrize("module", MODULES)

PURE = (
    r"eventstore/"
    r"(tool|tool_json|fingerprint|failure|envelope|errors|agent_errors|retry|policy|gate|recovery|"
    r"events|codec|outline|task|feed|wire/.*|dispatch/(decision|effect|function_tool|resumption|turn))\.py"
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
# A library's one door into the code; where the second pattern fits, only inside functions.
DOORS = {
    "alembic": (r"eventstore/migrate\.py", r".*"),
    "rich": (r"projections/cli/.*", ""),
    "sqlalchemy": (
        r"eventstore/(storage/.*|store\.py|migrate\.py)|projections/projector/tables\.py",
        r"eventstore/(store|migrate)\.py",
    ),
    "tiktoken": (r"projections/tokens\.py", r".*"),
    "typer": (r"projections/cli/.*", ""),
    "xxhash": (r"eventstore/fingerprint\.py", ""),
}  # fmt: skip
SQL = r"\s*(SELECT|INSERT|UPDATE|DELETE)\s"
SQL_ROOMS = r"eventstore/storage/.*|projections/projector/tables\.py"


class Import(NamedTuple):
    """One imported module, the name taken from it, and whether that waits for a call."""

    module: str
    name: str
    lazy: bool

    @property
    def package(self) -> str:
        """The first name of the module."""
        return self.module.partition(".")[0]


BEHIND = ("eventstore.migrate", "eventstore.storage.sqlite")
# `verify` and `migrate`; the projections' tables, which must use the same copy of SQLite
LOOK_BEHIND = ("projections/cli/checking.py", "projections/projector/tables.py")


def imports(module: str) -> list[Import]:
    """What a module imports when it runs; imports for typing alone are left out."""
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
    if found.module == "eventstore":
        return found.name in eventstore.__all__
    path = f"{found.module}.{found.name}"
    return path.startswith(("eventstore.recovery.", "eventstore.wire.")) and "._" not in path


def _tree(module: str) -> ast.Module:
    return ast.parse((ROOT / module).read_text(encoding="utf-8"))


def _docstrings(tree: ast.Module) -> set[ast.expr]:
    """The strings that stand as statements: docstrings, of attributes, too."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}


@every_module
def test_imports_are_absolute(module: str) -> None:
    """A relative import hides where an arrow points."""
    assert [found for found in imports(module) if found.module.startswith(".")] == []


@every_module
def test_the_write_side_never_imports_the_read_side(module: str) -> None:
    """`projections` knows `eventstore`, never the other way round."""
    if module.startswith("eventstore/"):
        assert [found for found in imports(module) if found.package == "projections"] == []


@every_module
def test_the_read_side_uses_public_names_only(module: str) -> None:
    """What `projections` takes from `eventstore` is what everybody may take."""
    if module.startswith("projections/"):
        taken = [found for found in imports(module) if found.package == "eventstore"]
        if module in LOOK_BEHIND:
            taken = [found for found in taken if found.module not in BEHIND]
        assert [found for found in taken if not _is_public(found)] == []


@every_module
def test_pure_rooms_see_no_clock_and_no_connection(module: str) -> None:
    """Decisions are functions of values: no database, time, environment, chance or thread."""
    if re.fullmatch(PURE, module):
        assert [found for found in imports(module) if found.package in IMPURE] == []


@every_module
def test_a_library_has_one_door(module: str) -> None:
    """Each third-party library is imported in one place, the slow ones only when called."""
    for found in imports(module):
        rooms, lazy_rooms = DOORS.get(found.package, (".*", ""))
        assert re.fullmatch(rooms, module), found
        assert found.lazy or not re.fullmatch(lazy_rooms, module), found


@every_module
def test_sql_is_written_in_its_room(module: str) -> None:
    """No other module has a string that starts like a statement."""
    tree = _tree(module)
    strings = {node for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    found = [
        node.value
        for node in strings - _docstrings(tree)
        if isinstance(node.value, str) and re.match(SQL, node.value)
    ]
    assert found == [] or re.fullmatch(SQL_ROOMS, module)


@every_module
def test_a_module_is_named_for_its_one_concept(module: str) -> None:
    """There is no room for odds and ends."""
    assert not {"utils", "helpers", "common", "base", "core"} & set(
        Path(module).with_suffix("").parts
    )
