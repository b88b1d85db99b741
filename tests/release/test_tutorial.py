"""The tutorial, followed step by step in an empty folder."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import unmeasured

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
FILE = re.compile(r'^```python title="(\w+\.py)"\n(.*?)^```', re.DOTALL | re.MULTILINE)
SHELL = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?:rm|timeout|python|toolledger|cat) .*", re.MULTILINE)
STEP = re.compile(r"^## (\d)\. .*?\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
PATIENCE = 120
"""Seconds until a process that never ends is a failure."""
CHANGED = {
    "from projections": r"from projections .*",
    "    dispatcher = ": r"    dispatcher = .*",
    "    while calls": r"    while calls:",
}
"""The lines that step 7 changes, and what they replace."""


class Newcomer:
    """Follows the page: saves its files, and types its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = unmeasured.environment() | {"PYTHONPATH": str(ROOT)}

    def save(self, step: str, seconds: float) -> None:
        """Save the files of a step; the bank answers after so many seconds."""
        for name, code in FILE.findall(step):
            (self.folder / name).write_text(code)
        self.bank_answers_after(seconds)

    def bank_answers_after(self, seconds: float) -> None:
        """Change the constant in `tools.py`."""
        tools = self.folder / "tools.py"
        tools.write_text(re.sub(r"SECONDS = \S+", f"SECONDS = {seconds}", tools.read_text()))

    def start(self, command: str) -> subprocess.Popen[str]:
        """Start a command of the page."""
        words = command.split()
        words[:1] = [
            sys.executable,
            *(["-m", "projections.cli"] if words[0] == "toolledger" else []),
        ]
        return subprocess.Popen(
            words,
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def follow(self, step: str) -> str:
        """Run the commands of a step; return the output of the last one."""
        said = ""
        for command in COMMAND.findall("\n".join(SHELL.findall(step))):
            if command.startswith("rm "):
                for pattern in command.split()[2:]:  # after rm -f
                    for path in self.folder.glob(pattern):
                        path.unlink()
            elif command.startswith("timeout "):
                self.kill_while_the_bank_works(command.partition("KILL 3 ")[2])
            elif not command.startswith("cat "):
                process = self.start(command)
                said, error = process.communicate(timeout=PATIENCE)
                assert process.returncode == 0, error
        return said

    def kill_while_the_bank_works(self, command: str) -> None:
        """Kill -9 a process that has sent the money, and waits."""
        self.bank_answers_after(PATIENCE)
        process = self.start(command)
        begun = time.monotonic()
        while not self.bank.exists() or not self.bank.read_text().endswith("\n"):
            assert process.poll() is None
            assert time.monotonic() < begun + PATIENCE
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self.bank_answers_after(0)

    @property
    def bank(self) -> Path:
        """The file that stands for the bank."""
        return self.folder / "bank.txt"


@pytest.mark.slow
def test_the_tutorial_can_be_followed(tmp_path: Path) -> None:
    """Each step gives what the page says."""
    steps = dict(STEP.findall(PAGE))
    assert sorted(steps) == list("12345678")
    newcomer = Newcomer(tmp_path)
    for number in "234":
        newcomer.save(steps[number], 0)
    assert newcomer.follow(steps["4"]) == "Done: paid back 49.0\n"
    assert newcomer.bank.read_text() == "order 7: 49.0\n"

    said = newcomer.follow(steps["5"])
    assert "outcome unknown" in said
    assert said in steps["5"]
    assert newcomer.bank.read_text() == "order 7: 49.0\n"

    newcomer.save(steps["6"], 0)
    assert newcomer.follow(steps["6"]) == "Done: the bank has paid it back\n"
    assert newcomer.bank.read_text() == "order 7: 49.0\n"

    agent = tmp_path / "agent.py"
    code = agent.read_text()
    for begin, replaced in CHANGED.items():
        (line,) = re.findall(rf"^{begin}.*", steps["7"], re.MULTILINE)
        code, count = re.subn(rf"^{replaced}$", line, code, flags=re.MULTILINE)
        assert count == 1
    agent.write_text(code)
    assert newcomer.follow(steps["7"]) == "Done: paid back 49.0\n"
    assert newcomer.bank.read_text() == "order 7: 49.0\n"

    assert "refund" in newcomer.follow(steps["8"])
