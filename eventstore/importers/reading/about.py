"""What a format says of itself: the docs' page of formats and the search for sessions use it."""

from __future__ import annotations

from typing import Final

import msgspec


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """How sessions are listed without being read: by names, and by expressions for their bytes.

    `call` is an expression for a call; its first group, where it has one, is the call's id, and
    an id counts once. `id` finds a session's id at the beginning of its file; else its name is
    the id. `parent` finds there the id of the session that a sub-agent's file belongs to.
    `sub_agents` and `companions` are patterns of files beside a session, from its folder on, with
    `{id}` for the stem of its file: those of its sub-agents, and those that hold no conversation.

    `program` is what people call the program, where that is not the name of the format.
    `rows` is the statement by which a database lists its sessions without those of sub-agents: id,
    time of the last change, and project or title of each. `row_calls` counts the calls of the
    session that its parameter names.
    """

    program: str = ""
    call: str = ""
    id: str = ""
    parent: str = ""
    sub_agents: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    rows: str = ""
    row_calls: str = ""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """A program whose files are read.

    `files` says what they are. `places` are patterns of paths where the program keeps its sessions:
    `~` is the home folder, `.` the one that the search runs in, `$NAME` a variable of the
    environment, `{config}`, `{data}` and `{state}` are the folders of programs (`PLACES`). What the
    last `*` stands for names a session.
    `failures` says by what a failed call is known, `times` where times come from. `kept` and `lost`
    say what an import takes over beside messages, calls and results, and what not. `tried` is the
    newest version of the program that wrote a file which was read, `on` the date of that, as in
    2026-11-28.
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
    listing: Listing = Listing()


PLACES: Final = {
    "config": ("$XDG_CONFIG_HOME", "~/.config", "~/Library/Application Support"),
    "data": ("$XDG_DATA_HOME", "~/.local/share", "~/Library/Application Support"),
    "state": ("$XDG_STATE_HOME", "~/.local/state"),
}
"""Where programs keep files on Linux and macOS; a variable that is not set names no folder."""
