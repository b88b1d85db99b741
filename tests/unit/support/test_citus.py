"""Where no cluster of Citus is named, the tests and CI say that it was not tried."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ASKS = ROOT / "tests" / "unit" / "storage" / "postgresql" / "test_citus.py"


def asked(**environment: str) -> subprocess.CompletedProcess[str]:
    """Run a test that asks for a cluster, in an environment that names none."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TOOLLEDGER_", "PYTEST_"))}
    test = f"{ASKS}::test_statements_of_one_conversation_go_to_one_node"
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-rs", test]
    return subprocess.run(
        command, cwd=ROOT, env=kept | environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("required", "status"), [("", 0), ("citus", 1)])
def test_without_a_cluster_it_is_said(required: str, status: int) -> None:
    """The test is skipped with the reason, or fails where Citus is asked for."""
    done = asked(TOOLLEDGER_REQUIRE=required)
    assert "Citus was not tried: TOOLLEDGER_CITUS_URL names no cluster" in done.stdout
    assert done.returncode == status, done.stdout


@pytest.mark.parametrize(("url", "said"), [("", 1), ("postgresql://u@h/d", 0)])
def test_ci_says_that_it_was_not_tried(url: str, said: int) -> None:
    """Its last lines say so, and a cluster that is named is asked for."""
    script = (ROOT / ".ci" / "machine.sh").read_text()
    begin = script.index("tell_of_citus() {")
    function = script[begin : script.index("}\n", script.index("no cluster", begin))] + "}"
    command = f'step() {{ echo "$@"; }}\n{function}\ntell_of_citus'
    environment = {**os.environ, "TOOLLEDGER_CITUS_URL": url}
    done = subprocess.run(
        ["bash", "-c", command],  # noqa: S607
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("Citus was not tried") == said
    for name in ("run", "long"):
        steps = (ROOT / ".ci" / name).read_text()
        assert "tell_of_citus" in steps
        assert "${TOOLLEDGER_CITUS_URL:+,citus}" in steps
