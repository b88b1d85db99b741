"""What each tool has cost: a projection of your own, kept up by a `Projector`.

    python cost_per_tool.py

The prices stand in a table `price`, in the database of the projections. A completed call costs
what its tool's price is when the call is projected; `projector.rebuild(only="cost_per_tool")`
counts all calls again, at today's prices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import (
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    delete,
    func,
    select,
)

from eventstore import EventStore, Recorded, ToolCompleted
from projections import ProjectedLane, Projector

metadata = MetaData()
price = Table(
    "price",
    metadata,
    Column("tool", String(64), primary_key=True),
    Column("cents", Integer, nullable=False),
)
cost_per_tool = Table(
    "cost_per_tool",
    metadata,
    *ProjectedLane.columns(),
    Column("tool", String(64), primary_key=True),
    Column("cents", Integer, nullable=False),
)


class Costs(NamedTuple):
    """What memory holds of a lane: the prices, and the cents that each tool has cost."""

    prices: dict[str, int]
    cents: Counter[str]


class CostPerTool:
    """The cents that the completed calls of each tool have cost."""

    name = "cost_per_tool"
    version = 1
    tables = (cost_per_tool,)

    def load(self, lane: ProjectedLane, events: Sequence[Recorded], state: Costs | None) -> Costs:
        """Return the prices, and the costs so far."""
        if state is not None:
            return state
        with lane.reading() as connection:
            prices = {row.tool: row.cents for row in connection.execute(select(price))}
            costs = connection.execute(select(cost_per_tool).where(lane.owns(cost_per_tool)))
            return Costs(prices, Counter({row.tool: row.cents for row in costs}))

    def apply(self, state: Costs, events: Sequence[Recorded]) -> None:
        """Add the price of each completed call, once: copies of it cost nothing."""
        for recorded in events:
            if isinstance(recorded.event, ToolCompleted) and not recorded.is_copy:
                tool = recorded.event.response.name
                state.cents[tool] += state.prices.get(tool, 0)

    def store(self, connection: Connection, lane: ProjectedLane, state: Costs) -> None:
        """Write the costs; the next batch loads them and the prices again."""
        connection.execute(delete(cost_per_tool).where(lane.owns(cost_per_tool)))
        rows = [lane.key | {"tool": tool, "cents": cents} for tool, cents in state.cents.items()]
        if rows:
            connection.execute(cost_per_tool.insert(), rows)


def read_costs(projector: Projector) -> dict[str, int]:
    """Return the cents that each tool has cost, over all lanes."""
    cents = func.sum(cost_per_tool.c.cents)
    with projector.reading(CostPerTool.name) as (connection, live):
        of_live = select(cost_per_tool.c.tool, cents).where(cost_per_tool.c.projection == live)
        return {tool: int(total) for tool, total in connection.execute(of_live.group_by("tool"))}


def main() -> None:
    """Run three calls, and print what they have cost."""
    url = "sqlite:///costs.db"
    engine = create_engine(url)
    metadata.create_all(engine, [price])
    with engine.begin() as connection:
        rows = [{"tool": "search", "cents": 2}, {"tool": "translate", "cents": 5}]
        connection.execute(price.insert(), rows)
    engine.dispose()
    with EventStore.open("sqlite:///shop.db") as store:
        chat = store.conversation("trip")
        for tool, arguments in (("search", {"q": "Oslo"}), ("search", {"q": "Lyon"})):
            with chat.running(chat.request(tool, arguments).id) as attempt:
                attempt.complete("found")
        with chat.running(chat.request("translate", {"text": "Hei"}).id) as attempt:
            attempt.complete("Hello")
        with Projector(store, url, projections=[CostPerTool()]) as projector:
            projector.catch_up()
            print(read_costs(projector))


if __name__ == "__main__":
    main()
