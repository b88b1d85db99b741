"""The scenes as the runner of the openai SDK's Chat Completions plays them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integrations.play_openai import play_over

from eventstore.integrations.openai import Ledger

if TYPE_CHECKING:
    from integrations.scenes import Play, Played, Tools


async def play(play: Play, tools: Tools) -> Played:
    """Play a scene, or its second half."""
    return await play_over(play, tools, Ledger.completions)
