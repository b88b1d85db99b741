"""The blocks of a framework's section in docs/integrations.md, run as a reader would type them.

    python docs_blocks.py PAGE NAME

runs them in the current folder. It needs nothing but the standard library and what they import.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"


def section(page: Path, name: str) -> str:
    """Return the section of a framework."""
    return page.read_text("utf-8").partition(f"## {name}\n")[2].partition("\n## ")[0]


def blocks(language: str, text: str) -> list[str]:
    """Return the blocks of a language in a text."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


async def run(sources: list[str]) -> None:
    """Run blocks one after the other, in one session."""
    names: dict[str, object] = {}
    for source in sources:
        code = compile(source, PAGE.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        done = eval(code, names)  # noqa: S307
        if inspect.isawaitable(done):
            await done


if __name__ == "__main__":
    asyncio.run(run(blocks("python", section(Path(sys.argv[1]), sys.argv[2]))))
