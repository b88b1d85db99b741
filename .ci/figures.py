"""The size and the shape of the packages, in numbers with limits: `python .ci/figures.py`.

1. A file and a class are as large as one can hold in the head. A protocol only lists what it asks
   for, and the two handles, `Conversation` and `AsyncConversation`, have a method for each verb.
2. A class is at most three classes of ours deep: what an object does stands in few files. The bases
   of an exception are what a caller may catch, so that these are not counted.
3. No module imports itself by way of others.
4. What switches off a check, a `noqa` or the type `Any`, is rare. An `Any` inside of another type,
   such as that of JSON objects, is not counted.

It prints each number, and ends with status 1 where one is above its limit.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("eventstore", "projections")
HANDLES = {"Conversation", "AsyncConversation"}

LINES, METHODS, LEVELS, FILES_AT_THE_ROOT = 500, 30, 3, 12
NOQA, ANY = 1.5, 4.5
"""How many in a thousand lines."""


class Figure(NamedTuple):
    """A number, what it may be at most, and what makes it up or is above the limit."""

    name: str
    value: float
    limit: float | None
    of: list[str]

    @property
    def fails(self) -> bool:
        """Whether the number is above its limit."""
        return self.limit is not None and self.value > self.limit


def figures() -> list[Figure]:
    """Return every number of the packages, and the lines of the tests."""
    files = _sources()
    lines = {path: text.count("\n") for path, text in files.items()}
    thousands = sum(lines.values()) / 1000
    classes = _classes()
    methods = {name: len(_methods(each)) for name, each in classes.items() if _is_sized(each)}
    levels = {name: _levels(each) for name, each in classes.items() if not _is_exception(each)}
    tests = sum(path.read_text("utf-8").count("\n") for path in (ROOT / "tests").rglob("*.py"))
    noqa = sum(text.count("# noqa") for text in files.values())
    at_the_root = [path for path in files if path.count("/") == 1 and path.startswith("eventstore")]
    circle = _circle()
    return [
        _largest("lines of a file", lines, LINES),
        _largest("methods of a class", methods, METHODS),
        _largest("levels of a class", levels, LEVELS),
        Figure("files at eventstore's root", len(at_the_root), FILES_AT_THE_ROOT, at_the_root),
        Figure("modules in a circle", len(circle), 0, circle),
        Figure("noqa a thousand lines", round(noqa / thousands, 2), NOQA, []),
        Figure("Any a thousand lines", round(_any_count() / thousands, 2), ANY, []),
        Figure("lines of the packages", sum(lines.values()), None, []),
        Figure("lines of the tests", tests, None, []),
    ]


def _largest(name: str, sizes: dict[str, int], limit: int) -> Figure:
    over = [f"{each} ({size})" for each, size in sorted(sizes.items()) if size > limit]
    return Figure(name, max(sizes.values(), default=0), limit, over)


@functools.cache
def _sources() -> dict[str, str]:
    """Return the text of each file, by its path in the repository."""
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}


@functools.cache
def _trees() -> dict[str, ast.Module]:
    return {path: ast.parse(text) for path, text in _sources().items()}


@functools.cache
def _classes() -> dict[str, ast.ClassDef]:
    """Return each class by its name; where two have one name, the path stands before the others."""
    found: dict[str, ast.ClassDef] = {}
    for path, tree in _trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[f"{path}:{node.name}" if node.name in found else node.name] = node
    return found


def _bases(node: ast.ClassDef) -> list[str]:
    """Return the last part of the name of each base, without its type arguments."""
    return [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]


def _is_protocol(node: ast.ClassDef) -> bool:
    return "Protocol" in _bases(node)


def _is_exception(node: ast.ClassDef) -> bool:
    above = (_classes()[name] for name in _bases(node) if name in _classes() and name != node.name)
    return bool({"Exception", "ValueError", "LookupError"} & {*_bases(node)}) or any(
        map(_is_exception, above)
    )


def _is_sized(node: ast.ClassDef) -> bool:
    return node.name not in HANDLES and not _is_protocol(node)


def _methods(node: ast.ClassDef) -> list[ast.stmt]:
    return [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]


def _levels(node: ast.ClassDef) -> int:
    """Return how many classes of ours stand above each other, protocols aside; at least 1."""
    above = [_classes()[name] for name in _bases(node) if name in _classes() and name != node.name]
    return 1 + max((_levels(each) for each in above if not _is_protocol(each)), default=0)


def _circle() -> list[str]:
    """Return the modules of a circle of imports, if there is one."""
    graph = {_module(path): set(_imported(tree)) for path, tree in _trees().items()}
    try:
        TopologicalSorter({name: found & graph.keys() for name, found in graph.items()}).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield the modules that a module imports as it is loaded."""
    modules = set(map(_module, _sources()))
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in modules else node.module for name in names)


def _any_count() -> int:
    """Return how many parameters, results and variables have the type `Any`."""
    nodes = [node for tree in _trees().values() for node in ast.walk(tree)]
    given = [node.annotation for node in nodes if isinstance(node, ast.arg | ast.AnnAssign)]
    given += [each.returns for each in nodes if isinstance(each, ast.FunctionDef)]
    given += [each.returns for each in nodes if isinstance(each, ast.AsyncFunctionDef)]
    return sum(isinstance(each, ast.Name) and each.id == "Any" for each in given)


def main() -> int:
    """Print the figures, and return 1 where one is above its limit."""
    found = figures()
    for figure in found:
        limit = "" if figure.limit is None else f" of at most {figure.limit:,}"
        above = f": {', '.join(figure.of)}" if figure.fails else ""
        print(f"{figure.name}: {figure.value:,}{limit}{above}")
    return int(any(figure.fails for figure in found))


if __name__ == "__main__":
    sys.exit(main())
