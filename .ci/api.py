"""Compare the public Python API with that of the last release: `python .ci/api.py`.

1. Public are the names of `MODULES`, those in `__all__` where a module has it, with their public
   members. `docs/versions.md` says what is promised of them.
2. What the last release had, and this checkout lacks or takes in another way, is a breakage: a
   name, a parameter, a default, a kind. The last release is the highest tag `vX.Y.Z` before this
   commit.
3. A breakage that is meant stands in `api-breakages.txt`. A line there that is not a breakage any
   more is refused, so that the list ends with each release.
4. Without such a tag nothing was released, and there is nothing to compare.

A field that a struct gets and that has no default is not seen, nor is another behaviour.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import griffe

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = Path(__file__).with_name("api-breakages.txt")

MODULES = (
    "eventstore",
    "eventstore.backup",
    "eventstore.engines",
    "eventstore.importers",
    "eventstore.integrations.agent_framework",
    "eventstore.integrations.anthropic",
    "eventstore.integrations.claude_agent_sdk",
    "eventstore.integrations.genai_prices",
    "eventstore.integrations.google_adk",
    "eventstore.integrations.langchain",
    "eventstore.integrations.langgraph",
    "eventstore.integrations.mcp",
    "eventstore.integrations.mcp_server",
    "eventstore.integrations.openai",
    "eventstore.integrations.openai_agents",
    "eventstore.integrations.opentelemetry",
    "eventstore.integrations.pydantic_ai",
    "eventstore.integrations.strands",
    "eventstore.migrate",
    "eventstore.providers",
    "eventstore.seals",
    "eventstore.testing",
    "projections",
)

_RELEASE = re.compile(r"v\d+\.\d+\.\d+")


def last_release(root: Path) -> str | None:
    """Return the tag of the last release before this commit, None if there was none.

    Raises:
        ValueError: the repository does not have its whole history.
    """
    if not (root / ".git").exists():  # the files of a release, without their history
        return None
    if _git(root, "rev-parse", "--is-shallow-repository") == "true":
        raise ValueError("the repository is shallow: run `git fetch --unshallow --tags` first")
    here = _git(root, "tag", "--points-at", "HEAD").split()
    tags = _git(root, "tag", "--merged", "HEAD", "--sort=-version:refname").split()
    return next((tag for tag in tags if _RELEASE.fullmatch(tag) and tag not in here), None)


def breakages(root: Path, tag: str, modules: Iterable[str] = MODULES) -> list[str]:
    """Return what of the public API at a tag this checkout breaks, one line each, sorted."""
    modules = tuple(modules)
    packages = {name.partition(".")[0] for name in modules}
    with tempfile.TemporaryDirectory() as folder:
        archive = _git_output(root, "archive", tag, *sorted(packages))
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        before, after = _load(Path(folder), packages), _load(root, packages)
        found = {line for name in modules for line in _broken(before, after, name)}
    return sorted(found)


def _git(root: Path, *words: str) -> str:
    return _git_output(root, *words).decode().strip()


def _git_output(root: Path, *words: str) -> bytes:
    command = ["git", *words]
    return subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout  # noqa: S603


def _load(folder: Path, packages: Iterable[str]) -> griffe.ModulesCollection:
    """Return the packages as they are written; nothing of them is run."""
    loader = griffe.GriffeLoader(search_paths=[folder], allow_inspection=False)
    for package in packages:
        loader.load(package, try_relative_path=False)
    loader.resolve_aliases(external=False)
    return loader.modules_collection


def _broken(
    before: griffe.ModulesCollection, after: griffe.ModulesCollection, name: str
) -> Iterator[str]:
    """Yield what of one module is broken."""
    old, new = _module(before, name), _module(after, name)
    if old is None:  # it did not exist
        return
    if new is None:
        yield f"{name}: the module was removed"
        return
    names: dict[str, str] = {}
    for member in old.exports or ():
        names[old[member].canonical_path] = f"{name}.{member}"
        if member not in (new.exports or ()):
            yield f"{name}.{member}: it is not in __all__"
    for each in old.modules.values():
        each.public = False  # unless it is one of `MODULES`
    for breakage in griffe.find_breaking_changes(old, new):
        place = _place(breakage, names)
        if not place.rpartition(".")[2].startswith("test_"):  # of a contract: pytest calls it
            yield f"{place}: {breakage.kind.value.lower()}"


def _module(loaded: griffe.ModulesCollection, name: str) -> griffe.Module | None:
    try:
        found: griffe.Module = loaded[name]
    except KeyError:
        return None
    return found


def _place(breakage: griffe.Breakage, names: Mapping[str, str]) -> str:
    """Return what is broken, by the name that users import, and the parameter."""
    path = breakage.obj.canonical_path
    known = max((each for each in names if f"{path}.".startswith(f"{each}.")), key=len, default="")
    shown = names.get(known, "") + path.removeprefix(known)
    value = breakage.new_value if breakage.old_value is None else breakage.old_value
    return f"{shown}({value.name})" if isinstance(value, griffe.Parameter) else shown


def allowed(text: str) -> set[str]:
    """Return the lines of a list of breakages, without comments."""
    return {line for row in text.splitlines() if (line := row.partition("#")[0].strip())}


def main(root: Path = ROOT, modules: Iterable[str] = MODULES, meant: Path = ALLOWED) -> int:
    """Print breakages that are not allowed, and allowed ones not found; return whether any."""
    tag = last_release(root)
    if tag is None:
        print("api: no release yet (no tag vX.Y.Z before this commit), nothing to compare with")
        return 0
    found, listed = set(breakages(root, tag, modules)), allowed(meant.read_text("utf-8"))
    for line in sorted(found - listed):
        print(f"{line}; deprecate it first, or add the line to {meant.name}")
    for line in sorted(listed - found):
        print(f"{line}; it is not a breakage since {tag}: take the line out of {meant.name}")
    print(f"api: {len(found)} breakages since {tag}, {len(found - listed)} of them not allowed")
    return int(found != listed)


if __name__ == "__main__":
    sys.exit(main())
