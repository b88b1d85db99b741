"""Give mkdocs the pages that are made from the code, and each page the meanings of its words."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

from made_pages import PAGES
from site_checks import loaded_from_elsewhere, undocumented
from vocabulary import abbreviations, vocabulary

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

FIRST_PAGE = Path(__file__).resolve().parents[1] / "index.md"


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages to the files of the documentation."""
    for name, make in PAGES.items():
        files.append(File.generated(config, f"reference/{name}", content=make()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Add the meanings of the words to a page; the first page has them in its table."""
    del config, files
    if page.file.src_uri == FIRST_PAGE.name:
        return markdown
    return f"{markdown}\n\n{abbreviations(vocabulary(FIRST_PAGE.read_text('utf-8')))}\n"


def on_post_build(*, config: MkDocsConfig) -> None:
    """Fail if the reference lacks a public name, or if a page needs a network."""
    site = Path(config.site_dir)
    pages = {path.relative_to(site): path.read_text("utf-8") for path in site.rglob("*.html")}
    if missing := undocumented(pages.values()):
        raise PluginError(f"no page of the reference has {', '.join(missing)}")
    for path, page in pages.items():
        if addresses := loaded_from_elsewhere(page):
            raise PluginError(f"{path} loads {', '.join(addresses)}")
