"""An agent whose tool is another agent, each with a log of its own.

    python several_agents.py

The second conversation names the call that it works for, so that both can be read together. If the
process is killed, each of them goes on where its own log ends.
"""

from __future__ import annotations

from typing import Any

from eventstore import Completed, Dispatcher, EventStore, RunEnded, RunStarted, Tool
from projections import why

URL = "sqlite:///agents.db"


def search(words: str) -> str:
    """Search the archive."""
    return f"3 pages on {words}"


def result_of(tool: Tool) -> Any:
    """Return the result of a completed call."""
    assert isinstance(tool.status, Completed)
    return tool.status.response.result


def main() -> None:
    """Let one agent ask another."""
    with EventStore.open(URL) as store:
        boss = store.conversation("boss")

        def research(question: str) -> str:
            """Ask the researcher."""
            helper = store.conversation("owls")
            helper.append(RunStarted("researcher", "boss", "call_research"))
            helper.add_message("user", question)
            call = helper.request("search", {"words": question})
            (found,) = Dispatcher(helper, [search]).dispatch([call])
            answer = f"The researcher found {result_of(found)}."
            helper.add_message("assistant", answer)
            helper.append(RunEnded("completed"))
            return answer

        boss.append(RunStarted("boss"))
        boss.add_message("user", "Write a report on owls.")
        call = boss.request("research", {"question": "owls"}, call_id="call_research")
        (asked,) = Dispatcher(boss, [research]).dispatch([call])
        print(result_of(asked))
        helper_events = list(store.conversation("owls").events())
        started = helper_events[0].event
        assert isinstance(started, RunStarted)
        print("works for:", started.parent_conversation_id, started.parent_call_id)
        print(why(helper_events).lines[0])


if __name__ == "__main__":
    main()
