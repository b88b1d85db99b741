"""The benchmarks run and print their figures in one form; their results are not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import unmeasured
from support.tiers import LONG

FOLDER = Path(__file__).parents[2] / "benchmarks"
SHARED = {"bare", "framework_runs", "logs", "measure", "session_logs", "slow_disk"}
BY_HAND = {"nodes", "upgrade"}
"""Scripts that measure servers which are named to them, or processes of the first release."""
TINY = {
    "append": ["--calls", "3", "--rounds", "2"],
    "batch": ["--events", "30", "--rounds", "2"],
    "dispatch": ["--calls", "3", "--rounds", "2"],
    "fingerprint": ["--calls", "10", "--rounds", "2"],
    "imports": ["--rounds", "1"],
    "integrations": ["--calls", "2", "--rounds", "2"],
    "long_logs": ["--megabytes", "1", "--rounds", "1"],
    "opening": ["--events", "2000", "--rounds", "1"],
    "prefix": ["--conversations", "1"],
    "projector": ["--events", "2000", "--rounds", "1"],
    "prompt": ["--events", "10000", "--rounds", "3"],
    "reading": ["--events", "10000", "--rounds", "1"],
    "rebuild": ["--events", "2000", "--rounds", "1"],
    "repair": ["--messages", "200", "--rounds", "2"],
    "scale": ["--events", "2000", "--rounds", "1"],
    "servers": ["--calls", "2", "--events", "256", "--rounds", "1", "--sync", "50"],
    "size": ["--events", "2000"],
    "together": ["--events", "256", "--rounds", "1", "--sync", "50"],
}
long_tier = pytest.mark.skipif(not LONG, reason="runs for a minute: set TOOLLEDGER_LONG=1")
every_script = pytest.mark.parametrize("script", sorted(TINY))


def run(script: str, *options: str) -> str:
    """Return the output of a script."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{script}.py"), "--quick", *TINY[script], *options],
        check=False,
        capture_output=True,
        text=True,
        env=unmeasured.environment() | {"PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def figures(script: str) -> list[dict[str, Any]]:
    """Return the figures of a script's JSON."""
    found = json.loads(run(script, "--json"))
    assert found.keys() == {"benchmark", "quick", "python", "sqlite", "figures"}
    assert (found["benchmark"], found["quick"]) == (script, True)
    return list(found["figures"])


def test_every_script_is_known() -> None:
    """Each script is tested here and described in the folder's README."""
    scripts = {path.stem for path in FOLDER.glob("*.py")}
    assert scripts - SHARED - BY_HAND == TINY.keys()
    described = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [name for name in scripts if f"`{name}.py`" not in described] == []


@long_tier
@every_script
def test_a_script_prints_one_json_object(script: str) -> None:
    """Each figure has its limit, and a verdict that follows from both."""
    found = figures(script)
    assert [figure["name"] for figure in found if figure["limit"] is not None]
    for figure in found:
        assert figure.keys() == {"name", "value", "unit", "limit", "limit_is", "verdict"}
        if figure["limit"] is None:
            assert figure["limit_is"] is figure["verdict"] is None
            continue
        least = figure["limit_is"] == "least"
        assert least or figure["limit_is"] == "most"
        holds = figure["value"] >= figure["limit"] if least else figure["value"] <= figure["limit"]
        assert figure["verdict"] in ({"ok"} if holds else {"over", "ok"})


def test_a_script_prints_a_table() -> None:
    """Without `--json` there is a line for each figure."""
    lines = run("fingerprint").splitlines()
    assert lines[0].startswith("fingerprint: Python")
    assert len(lines) == 1 + len(figures("fingerprint"))


def beside(*options: str) -> subprocess.CompletedProcess[str]:
    """Return what the comparison with other libraries says; they are not installed here."""
    return subprocess.run(
        [sys.executable, str(FOLDER / "beside" / "compare.py"), *options],
        check=False,
        capture_output=True,
        text=True,
        env=unmeasured.environment() | {"PYTHONIOENCODING": "utf-8"},
    )


@long_tier
def test_the_comparison_leaves_out_what_is_not_installed(tmp_path: Path) -> None:
    """The others are measured, those that are missing are named, and a chart is drawn."""
    svg = tmp_path / "beside.svg"
    shown = ["--json", "--chart", str(svg)]
    done = beside("--only", "umadb", "--rounds", "1", "--steps", "200", *shown)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    if found["versions"]["umadb"] == "not installed":
        assert "umadb is left out: step: ModuleNotFoundError" in done.stderr
        assert list(found["missing"]) == ["umadb"]
    ours = {each["measure"]: each for each in found["figures"] if each["peer"] == "toolledger"}
    assert {each["times"] for each in ours.values()} == {1.0}
    assert {"prompt", "repair, anthropic", "step, of 100", "step, of 200"} <= ours.keys()
    assert svg.read_text(encoding="utf-8").count("<rect") == 1 + len(found["figures"])


def test_the_comparison_says_what_each_library_does_otherwise() -> None:
    """Each pinned library stands in the README."""
    pinned = (FOLDER / "beside" / "requirements.txt").read_text(encoding="utf-8")
    readme = (FOLDER / "beside" / "README.md").read_text(encoding="utf-8")
    for name in ("eventsourcing", "langgraph", "openai-agents", "dbos", "umadb", "turnsafe"):
        assert f"{name}==" in pinned
        assert f"| {name}" in readme
    assert "--steps: pass 200 or more" in beside("--steps", "5").stderr
