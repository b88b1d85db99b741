"""Workflows of durable runtimes, as an integration meets them.

DBOS recovers a workflow by running its code again: steps that have ended give what they returned,
in the order in which they began. So what the code does must not depend on the log, which has moved
on by then. A look at the log is a step, and so is each call. Outside a workflow, and inside one of
its steps, nothing is kept.

Temporal replays its workflows, too, in an event loop that waits for nothing from outside.
"""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from dbos import DBOS

T = TypeVar("T")


async def kept(name: str, look: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what `look` returns, which can be pickled; in a recovery what it returned first."""
    dbos = _workflow()
    if dbos is None:
        return await look()

    async def run() -> T:  # DBOS awaits what was defined with `async`, and no lambda
        return await look()

    return await dbos.run_step_async({"name": name}, run)


async def as_step(name: str, run: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T] | None:
    """Return what `run` returned, in a tuple; None where it ended before the recovery.

    What it returns is not kept, and need not be picklable: the log has it. What it raises is kept,
    so that a recovery takes the same way: a call that asked for approval asks again.
    """
    dbos = _workflow()
    if dbos is None:
        return (await run(),)
    ended: list[T | Exception] = []

    async def run_noting() -> None:
        try:
            ended.append(await run())
        except Exception as error:
            if _can_be_kept(error):
                raise
            ended.append(error)

    await dbos.run_step_async({"name": name}, run_noting)
    if not ended:
        return None
    (end,) = ended
    if isinstance(end, Exception):
        raise end
    return (end,)


def in_dbos_workflow() -> bool:
    """Return whether this is the code of a workflow of DBOS, outside of its steps."""
    return _workflow() is not None


def in_temporal_workflow() -> bool:
    """Return whether this is the code of a workflow of Temporal."""
    workflow = sys.modules.get("temporalio.workflow")
    return workflow is not None and bool(workflow.in_workflow())


def _can_be_kept(error: Exception) -> bool:
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - whatever the exception's own code raises
        return False


def _workflow() -> type[DBOS] | None:
    """Return DBOS in the code of a workflow of its own, outside of its steps; otherwise None."""
    library = sys.modules.get("dbos")
    if library is None:
        return None
    dbos: type[DBOS] = library.DBOS
    return dbos if dbos.workflow_id is not None and dbos.step_id is None else None
