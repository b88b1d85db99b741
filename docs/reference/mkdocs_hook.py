"""Give mkdocs the pages that are made from the code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

from made_pages import PAGES

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages to the files of the documentation."""
    for name, make in PAGES.items():
        files.append(File.generated(config, f"reference/{name}", content=make()))
    return files
