"""Making tables anew beside readers and writers, and putting them in the place of the old ones.

1. The new table is filled in batches, each of which is a short transaction of its own (`driver`).
2. Triggers note the keys of the rows that others change meanwhile (`notes`). Those rows are copied
   again, until few are left.
3. The rest is copied, and the tables change places, in one short step (`switch`): under a lock that
   is waited for briefly, several times, so that no session is kept waiting behind it.
4. A process that is killed at any point leaves the old tables as they were, or the new ones in
   their place. What is left over besides is removed by the next run, which begins anew.
5. Each batch proves that no other run has begun since: it moves a row that has the run's own token.
   So a run whose lock was lost with its connection cannot write into the tables of the next one.
6. Where no other process can see the tables, or may use them, all is done at once, in the
   transaction that is under way: a new store, a way back that has locked them, a file.
"""

from eventstore.storage.sql.rebuilding.driver import rebuild
from eventstore.storage.sql.rebuilding.remains import sweep
from eventstore.storage.sql.rebuilding.table import Span, TableAnew

__all__ = ["Span", "TableAnew", "rebuild", "sweep"]
