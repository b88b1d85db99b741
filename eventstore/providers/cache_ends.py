"""Where the requests of a conversation ended: where a provider's cache can continue.

A request is cached up to a mark. The next request reads what is cached up to a mark of its own, or
up to a few blocks before it. So two marks are enough in the messages, at the end of

1. this request: the next one begins with it;
2. the request before it: what came since may be more than the few blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from eventstore.domain.json_types import JsonObject


def ends_of_requests(messages: Sequence[JsonObject]) -> list[int]:
    """Return the indices of the last messages of the request before, and of this request."""
    roles = [message["role"] for message in messages]
    after = [*roles[1:], None]
    ends = [
        index
        for index, (role, then) in enumerate(zip(roles, after, strict=True))
        if role == "user" and then != "user"
    ]
    return ends[-2:]
