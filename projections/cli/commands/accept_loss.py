"""`accept-loss`: letting writers continue after a log was put back."""

from __future__ import annotations

from projections.cli.options import URL, Json, Url, open_store
from projections.cli.output import print_json, say


def accept_loss(url: Url = URL, *, as_json: Json = False) -> None:
    """Record that the store was put back to an older state, and that this is known.

    Stores that were open before refuse to append to the older log. They append again.
    """
    with open_store(url) as store:
        store.accept_loss()
    if as_json:
        print_json({"accepted": True})
    else:
        say(
            "accepted: stores that refused to append continue; see what was lost for tools that ran"
        )
