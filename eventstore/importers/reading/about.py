"""What a format says of itself: the docs' page of formats and the search for sessions use it."""

from __future__ import annotations

from typing import Final

import msgspec


class About(msgspec.Struct, frozen=True, kw_only=True):
    """A program whose files are read.

    `files` says what they are. `places` are patterns of paths where the program keeps its sessions:
    `~` is the home folder, `{config}`, `{data}` and `{state}` are the folders of programs
    (`PLACES`). `failures` says by what a failed call is known, `times` where times come
    from. `kept` and `lost` say what an import takes over beside messages, calls and results, and
    what not. `tried` is the newest version of the program that wrote a file which was read, `on`
    the date of that, as in 2026-11-28.
    """

    program: str
    files: str
    failures: str
    times: str = "yes"
    places: tuple[str, ...] = ()
    kept: str = ""
    lost: str = ""
    tried: str = ""
    on: str = ""


PLACES: Final = {
    "config": ("$XDG_CONFIG_HOME", "~/.config", "~/Library/Application Support"),
    "data": ("$XDG_DATA_HOME", "~/.local/share", "~/Library/Application Support"),
    "state": ("$XDG_STATE_HOME", "~/.local/state"),
}
"""Where programs keep files on Linux and macOS; a variable that is not set names no folder."""
