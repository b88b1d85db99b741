"""The peers: each stores tool steps durably, with its own default settings and its own API.

A peer is imported when it is opened, so that one that is not installed is only left out.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypedDict

from work import PROMPT, RESULT, TOOL, arguments_of, call_id

At = Callable[[int], None]
"""Called with a step's number before the step begins, and once more at the end."""


class Peer:
    """What a comparison asks of a library; each class says what a step is in it."""

    name: ClassVar[str]
    server: ClassVar[bool] = False
    """Whether it needs the address of a PostgreSQL."""
    measures: ClassVar[tuple[str, ...]] = ("step", "prompt", "callers")

    def __init__(self, folder: Path, url: str) -> None:
        self.path = folder / "beside.db"
        self.folder = folder
        self.url = url
        self.run_name = f"run-{os.getpid()}"  # a server has those of earlier processes

    def run(self, steps: int, at: At) -> None:
        """Store the steps of one run."""
        raise NotImplementedError

    def prompt(self) -> Sequence[Any] | None:
        """Return the messages of the run, as the next request needs them; None: it has none."""
        return None

    def callers(self, count: int, steps: int) -> bool:
        """Store the steps of `count` runs at once; return False where that is not offered."""
        del count, steps
        return False

    def run_of(self, caller: int) -> str:
        """Return the name of the run of one of several callers."""
        return f"{self.run_name}-{caller}"

    def seconds(self) -> float:
        """Return the CPU time that was used until now, with that of a server of its own."""
        return time.process_time()

    def size(self) -> int:
        """Return the bytes of the database."""
        connection = sqlite3.connect(self.path)
        try:
            pages, bytes_each = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "page_size")
            )
        finally:
            connection.close()
        return int(pages * bytes_each)

    def close(self) -> None:
        """End what was begun."""


def at_once(count: int, work: Callable[[int], None]) -> None:
    """Do the work of so many callers in threads."""
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(work, range(count)))


class Toolledger(Peer):
    """A step is three events: pending, running, completed; each is durable before the next."""

    name = "toolledger"

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder, url)
        from eventstore import EventStore

        self.store = EventStore.open(self.address())
        self.chat = self.store.conversation(self.run_name)
        self.chat.add_message("user", PROMPT)

    def address(self) -> str:
        """Return the store's address."""
        return f"sqlite:///{self.path}"

    def run(self, steps: int, at: At) -> None:
        """Store the steps of one run."""
        self._steps(self.run_name, steps, at)

    def _steps(self, name: str, steps: int, at: At) -> None:
        chat = self.store.conversation(name)
        for number in range(steps):
            at(number)
            tool = chat.request(TOOL, arguments_of(number), call_id=call_id(number))
            chat.start(tool.id)
            chat.complete(tool.id, RESULT)
        at(steps)

    def prompt(self) -> Sequence[Any]:
        """Return the repaired messages, all read from the log again."""
        from projections import model_history

        messages: list[Any] = model_history(self.chat, cached=False).render("openai")["messages"]
        return messages

    def callers(self, count: int, steps: int) -> bool:
        """Store the steps of several conversations, from as many threads."""
        at_once(count, lambda caller: self._steps(self.run_of(caller), steps, lambda _: None))
        return True

    def close(self) -> None:
        """Close the store."""
        self.store.close()


class ToolledgerKept(Toolledger):
    """The same; the handle keeps what it made of the log, as it does in a loop."""

    name = "toolledger, kept handle"
    measures = ("prompt",)

    def prompt(self) -> Sequence[Any]:
        """Append one more event, and return the repaired messages."""
        from projections import model_history

        self.chat.add_message("user", PROMPT)
        messages: list[Any] = model_history(self.chat).render("openai")["messages"]
        return messages


class ToolledgerServer(Toolledger):
    """The same on PostgreSQL."""

    name = "toolledger, PostgreSQL"
    server = True

    def address(self) -> str:
        """Return the server's address."""
        return self.url

    def size(self) -> int:
        """Return 0: the server's files are not measured."""
        return 0


class Eventsourcing(Peer):
    """A step is three saves of an aggregate, each with one event."""

    name = "eventsourcing"

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder, url)
        os.environ.update(
            PERSISTENCE_MODULE="eventsourcing.sqlite",
            SQLITE_DBNAME=str(self.path),
            SQLITE_LOCK_TIMEOUT="60",
        )
        from eventsourcing.application import Application
        from eventsourcing.domain import Aggregate, event

        class Run(Aggregate):
            @event("Created")
            def __init__(self) -> None:
                self.calls: dict[str, list[Any]] = {}

            @event("Requested")
            def request(self, id_: str, name: str, arguments: dict[str, Any]) -> None:
                self.calls[id_] = [name, arguments, None]

            @event("Started")
            def start(self, id_: str, attempt: int) -> None:
                pass

            @event("Completed")
            def complete(self, id_: str, result: dict[str, Any]) -> None:
                self.calls[id_][2] = result

        self.make: Callable[[], Any] = Run
        self.app: Any = Application()
        self.aggregate = self.make()
        self.app.save(self.aggregate)

    def run(self, steps: int, at: At) -> None:
        """Store the steps of one aggregate."""
        self._steps(self.aggregate, steps, at)

    def _steps(self, run: Any, steps: int, at: At) -> None:
        for number in range(steps):
            at(number)
            run.request(call_id(number), TOOL, arguments_of(number))
            self.app.save(run)
            run.start(call_id(number), 1)
            self.app.save(run)
            run.complete(call_id(number), RESULT)
            self.app.save(run)
        at(steps)

    def prompt(self) -> Sequence[Any]:
        """Return messages made of the aggregate, which is read again."""
        messages: list[Any] = []
        for id_, (name, given, result) in self.app.repository.get(self.aggregate.id).calls.items():
            function = {"name": name, "arguments": json.dumps(given)}
            made = [{"id": id_, "type": "function", "function": function}]
            messages.append({"role": "assistant", "content": None, "tool_calls": made})
            messages.append({"role": "tool", "tool_call_id": id_, "content": json.dumps(result)})
        return messages

    def callers(self, count: int, steps: int) -> bool:
        """Store the steps of several aggregates, from as many threads."""
        runs = [self.make() for _ in range(count)]
        at_once(count, lambda caller: self._steps(runs[caller], steps, lambda _: None))
        return True


class AgentsSession(Peer):
    """A step is two calls of `add_items`: the call before it runs, its output after it."""

    name = "openai-agents, SQLiteSession"

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder, url)
        self.loop = asyncio.new_event_loop()
        self.session = self.make(self.run_name)

    def make(self, name: str) -> Any:
        """Return a session."""
        from agents import SQLiteSession

        return SQLiteSession(name, self.path)

    def run(self, steps: int, at: At) -> None:
        """Store the items of one session."""
        self.loop.run_until_complete(self._steps(self.session, steps, at))

    async def _steps(self, session: Any, steps: int, at: At) -> None:
        for number in range(steps):
            at(number)
            given = json.dumps(arguments_of(number))
            made = {"type": "function_call", "call_id": call_id(number), "name": TOOL}
            await session.add_items([{**made, "arguments": given}])
            output = {"type": "function_call_output", "call_id": call_id(number)}
            await session.add_items([{**output, "output": json.dumps(RESULT)}])
        at(steps)

    def prompt(self) -> Sequence[Any]:
        """Return the items, read again."""
        items: list[Any] = self.loop.run_until_complete(self.session.get_items())
        return items

    def callers(self, count: int, steps: int) -> bool:
        """Store the items of several sessions, from as many tasks."""
        sessions = [self.make(self.run_of(caller)) for caller in range(count)]

        async def all_steps() -> None:
            await asyncio.gather(*(self._steps(s, steps, lambda _: None) for s in sessions))

        self.loop.run_until_complete(all_steps())
        return True


class AgentsSQLAlchemySession(AgentsSession):
    """The same through SQLAlchemy and aiosqlite."""

    name = "openai-agents, SQLAlchemySession"

    def make(self, name: str) -> Any:
        """Return a session; all share an engine."""
        from agents.extensions.memory import SQLAlchemySession
        from sqlalchemy.ext.asyncio import create_async_engine

        if not hasattr(self, "engine"):
            address = f"sqlite+aiosqlite:///{self.path}"
            self.engine = create_async_engine(address, connect_args={"timeout": 60})
        return SQLAlchemySession(name, engine=self.engine, create_tables=True)


class LangGraph(Peer):
    """A step is two supersteps, model and tools, each with a checkpoint of its own."""

    name = "langgraph, SqliteSaver"

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder, url)
        from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
        from langgraph.graph import END, START, StateGraph
        from langgraph.graph.message import add_messages

        class State(TypedDict):
            messages: Annotated[list[Any], add_messages]
            number: int

        State.__annotations__["messages"] = Annotated[list[Any], add_messages]
        State.__annotations__["number"] = int
        self.steps = 0
        self.at: At = lambda _: None

        def model(state: Any) -> Any:
            number = state["number"]
            self.at(number)
            if number >= self.steps:
                return {"messages": [AIMessage("done", id=f"d{number}")]}
            made = {"name": TOOL, "args": arguments_of(number), "id": call_id(number)}
            return {"messages": [AIMessage("", id=f"a{number}", tool_calls=[made])]}

        def tools(state: Any) -> Any:
            number = state["number"]
            done = ToolMessage(json.dumps(RESULT), tool_call_id=call_id(number), id=f"t{number}")
            return {"messages": [done], "number": number + 1}

        def following(state: Any) -> str:
            return "tools" if state["number"] < self.steps else END

        graph = StateGraph(State)
        graph.add_node("model", model)
        graph.add_node("tools", tools)
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", following, ["tools", END])
        graph.add_edge("tools", "model")
        self.app: Any = graph.compile(checkpointer=self.saver())
        self.first = HumanMessage(PROMPT, id="first")

    def saver(self) -> Any:
        """Return the checkpointer."""
        from langgraph.checkpoint.sqlite import SqliteSaver

        self.connection = sqlite3.connect(self.path, check_same_thread=False, timeout=60)
        return SqliteSaver(self.connection)

    def run(self, steps: int, at: At) -> None:
        """Run a graph to its end; each superstep is stored before the next one."""
        self.steps, self.at = steps, at
        options = {"configurable": {"thread_id": self.run_name}, "recursion_limit": 2 * steps + 10}
        self.app.invoke({"messages": [self.first], "number": 0}, options, durability="sync")

    def prompt(self) -> Sequence[Any]:
        """Return the messages of the last checkpoint."""
        state = self.app.get_state({"configurable": {"thread_id": self.run_name}})
        messages: list[Any] = state.values["messages"]
        return messages

    def size(self) -> int:
        """Return the bytes of the database."""
        self.connection.commit()
        return super().size()


class LangGraphServer(LangGraph):
    """The same on PostgreSQL, which keeps each message once."""

    name = "langgraph, PostgresSaver"
    server = True

    def saver(self) -> Any:
        """Return the checkpointer, with its tables."""
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg import Connection
        from psycopg.rows import dict_row

        address = self.url.replace("postgresql+psycopg://", "postgresql://")
        made = Connection.connect(
            address, autocommit=True, prepare_threshold=0, row_factory=dict_row
        )
        saver = PostgresSaver(made)  # type: ignore[arg-type]
        saver.setup()
        return saver

    def size(self) -> int:
        """Return 0: the server's files are not measured."""
        return 0


class Dbos(Peer):
    """A step is a step of a workflow: one record at its end, and none before it."""

    name = "dbos"

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder, url)
        from dbos import DBOS

        DBOS(
            config={
                "name": "beside",
                "system_database_url": f"sqlite:///{self.path}",
                "run_admin_server": False,
                "log_level": "ERROR",
            }
        )

        @DBOS.step()
        def search(name: str, given: dict[str, Any]) -> dict[str, Any]:
            del name, given
            return RESULT

        @DBOS.workflow()
        def flow(steps: int) -> None:
            for number in range(steps):
                self.at(number)
                search(TOOL, arguments_of(number))
            self.at(steps)

        self.at: At = lambda _: None
        self.flow = flow
        DBOS.launch()
        self.dbos = DBOS

    def run(self, steps: int, at: At) -> None:
        """Run a workflow."""
        self.at = at
        self.flow(steps)

    def callers(self, count: int, steps: int) -> bool:
        """Run several workflows, from as many threads."""
        self.at = lambda _: None
        at_once(count, lambda _: self.flow(steps))
        return True

    def close(self) -> None:
        """End DBOS's threads."""
        self.dbos.destroy()


class UmaDB(Peer):
    """A step is three events with two tags, sent to its server; the server's CPU counts, too."""

    name = "umadb"

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder, url)
        import umadb

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        program = Path(sys.executable).with_name("umadb")
        self.process = subprocess.Popen(
            [program, "--db-path", folder, "--listen", address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.umadb = umadb
        self.client = self._connected(f"http://{address}")

    def _connected(self, address: str) -> Any:
        for _ in range(200):
            try:
                client = self.umadb.Client(address)
                client.head()
            except Exception:  # noqa: BLE001 - it has no class for this
                time.sleep(0.05)
            else:
                return client
        raise TimeoutError(f"no server at {address}")

    def run(self, steps: int, at: At) -> None:
        """Store the events of one run."""
        self._steps(self.run_name, steps, at)

    def _steps(self, run: str, steps: int, at: At) -> None:
        for number in range(steps):
            at(number)
            made = {"name": TOOL, "arguments": arguments_of(number)}
            self._append("requested", run, number, made)
            self._append("started", run, number, {"attempt": 1})
            self._append("completed", run, number, {"result": RESULT})
        at(steps)

    def _append(self, kind: str, run: str, number: int, data: dict[str, Any]) -> None:
        encoded = json.dumps(data).encode()
        tags = [run, call_id(number)]
        self.client.append([self.umadb.Event(event_type=kind, data=encoded, tags=tags)])

    def callers(self, count: int, steps: int) -> bool:
        """Store the events of several runs, from as many threads."""
        at_once(count, lambda caller: self._steps(self.run_of(caller), steps, lambda _: None))
        return True

    def seconds(self) -> float:
        """Return the CPU time of this process and of the server."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks = int(fields[11]) + int(fields[12])
        return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")

    def size(self) -> int:
        """Return the bytes of its files."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def close(self) -> None:
        """Stop the server."""
        self.process.terminate()
        self.process.wait()


PEERS: tuple[type[Peer], ...] = (
    Toolledger,
    ToolledgerKept,
    Eventsourcing,
    AgentsSession,
    AgentsSQLAlchemySession,
    LangGraph,
    Dbos,
    UmaDB,
    ToolledgerServer,
    LangGraphServer,
)
