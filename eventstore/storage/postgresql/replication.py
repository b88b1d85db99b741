"""Commits that wait for a standby: when they are acknowledged, and how long they may wait.

1. Where PostgreSQL has synchronous standbys, it answers a COMMIT when enough of them have it. Until
   then nothing bounds its wait: neither `lock_timeout` nor `statement_timeout` counts.
2. If the wait is cancelled, the server answers as if all were well, after a warning that the commit
   "might not have been replicated". That is not an acknowledgement: a failover may take it back.
3. A standby receives the log in its order. So a later commit that is answered without the warning
   proves the ones before it. `PROOF` is such a commit, which changes no table.
4. A COMMIT that is not answered in time is cancelled here, which gives the same warning.
5. What is not proven in time has an unknown outcome: it is stored on the primary, and may be gone
   after a failover.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from psycopg.errors import Diagnostic

GRACE_SECONDS = 1.0
"""How much longer a commit may take than a lock: the server's own error for a lock comes first."""

PROOF = "SELECT pg_logical_emit_message(true, 'toolledger', '')"

IS_AWAITED = "SELECT current_setting('synchronous_standby_names') <> ''"
"""Whether a commit waits for a standby."""


def is_unreplicated(notice: Diagnostic) -> bool:
    """Return whether a notice says that a commit has stopped waiting for its standbys.

    The server's function is named in every language; SQLSTATE 01000 is that of any warning.
    """
    return notice.source_function == "SyncRepWaitForLSN"
