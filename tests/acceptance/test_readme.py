"""The README's Python runs, block after block, as a reader would type it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_python_blocks_of_the_readme_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block runs in one session, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    text = README.read_text()
    names: dict[str, object] = {}
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert len(blocks) > 3
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        exec(compile("\n" * line + block[1], str(README), "exec"), names)  # noqa: S102
    names["store"].close()  # type: ignore[attr-defined]


def test_every_command_that_the_readme_lists_exists() -> None:
    """The list of commands is the command line's own."""
    from projections.cli.app import app  # noqa: PLC0415

    listed = re.findall(r"^toolledger (\w+)  ", README.read_text(), re.MULTILINE)
    have = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert set(listed) == have
