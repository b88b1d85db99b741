"""Codes by which the log says why a call ended that no attempt brought to its end."""

from __future__ import annotations

SETTLED = "settled"
"""The code of a failure by which a person says that a call took no effect, and never will."""

RUN_AGAIN = "run_again"
"""The code of a failure by which a person says that a call took no effect, and may run again."""

SETTLEMENTS = frozenset({SETTLED, RUN_AGAIN})
"""The codes of failures by which a person settles a doubt about all attempts of a call."""

FORKED = "forked"
"""The code of a failure, or of a rejection, in a copy: the call belongs to its origin."""

NOT_EXECUTED = "tool_call_not_executed"
"""The `kind` in the details of a rejection for the host: the call did not run."""
