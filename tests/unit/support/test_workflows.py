"""The workflows of GitHub call the sessions of nox, on the Pythons that are declared."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
WORKFLOWS = {path.name: path.read_text("utf-8") for path in ROOT.glob(".github/workflows/*.yml")}
SESSIONS = {
    node.name: [ast.unparse(decorator) for decorator in node.decorator_list]
    for node in ast.parse((ROOT / ".ci" / "noxfile.py").read_text("utf-8")).body
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
}
PYTHONS = [
    found.rpartition(" ")[2]
    for found in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "classifiers"
    ]
    if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", found)
]


def matrix(name: str) -> list[str]:
    """Return the values of a matrix of the checks."""
    (found,) = re.findall(rf"^ +{name}: \[(.*)\]$", WORKFLOWS["checks.yml"], re.MULTILINE)
    return [value.strip(' "') for value in found.split(",")]


def test_each_session_that_a_workflow_calls_exists() -> None:
    """A name that nox does not know fails, but only where it runs."""
    called = {
        word.strip('"')
        for text in WORKFLOWS.values()
        for words in re.findall(r"noxfile\.py -s ([^\n]*)", text)
        for word in words.partition(" -- ")[0].split()
    }
    assert called >= {"$SESSION", "python-$PYTHON", "lint", "distribution"}
    names = {re.sub(r"^python-.*", "on_python", name) for name in called - {"$SESSION"}}
    assert names | set(matrix("session")) <= set(SESSIONS)


def test_the_workflows_call_what_a_change_has_to_pass() -> None:
    """`.ci/run` and they are two ways to the same checks; clusters need more rights."""
    local = (ROOT / ".ci" / "run").read_text("utf-8")
    called = {name for words in re.findall(r"\bsessions ([^\n]*)", local) for name in words.split()}
    for name in SESSIONS.keys() & called - {"cluster", "galera"}:
        assert re.search(rf"\b{name}\b", WORKFLOWS["checks.yml"]), name


def test_every_python_that_is_declared_is_tested() -> None:
    """The classifiers, the sessions and the workflow name the same versions."""
    (declared,) = SESSIONS["on_python"]
    assert matrix("python") == PYTHONS == re.findall(r"3\.\d+", declared)
