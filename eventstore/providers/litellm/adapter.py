"""litellm: Chat Completions, whose messages go back to litellm with the members of its own.

What litellm leaves in them for the provider behind it goes to that, too: see `litellm_members`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eventstore.domain.json_types import JsonObject
from eventstore.providers.adapter_protocol import FormatSignature
from eventstore.providers.client_members import ClientMembers
from eventstore.providers.identifiers import call_ids, shortened
from eventstore.providers.model import Change, Turn
from eventstore.providers.openai.adapter import OpenAIAdapter
from eventstore.providers.openai.shapes import CLIENT_MEMBERS

_MAX_ID: Final = 65_536  # it holds a signature


class LitellmAdapter(OpenAIAdapter):
    """Reads and writes the messages of litellm."""

    name = "litellm"
    client_members = ClientMembers(added=CLIENT_MEMBERS)  # the place of a call is litellm's own
    signature = FormatSignature(  # where nothing names the provider, it is OpenAI
        shared_members=frozenset({"tool_calls", "function_call"})
    )

    def request_ids(self, turns: Sequence[Turn], changes: list[Change]) -> list[list[str]]:
        """Return ids that differ within a turn."""
        return call_ids(turns, _MAX_ID, changes, per_turn=True, sanitizer=shortened)

    def for_provider(self, turn: Turn, native: JsonObject, changes: list[Change]) -> Turn:
        """Return a turn as it is: the members are litellm's own."""
        del native, changes
        return turn


ADAPTER: Final = LitellmAdapter()
