"""An inbox of calls that wait for a person, over all conversations.

    python approval_inbox.py

The agent asks for two calls and goes away. A person decides in another process, or days later, and
sees the arguments that will be used. The agent then runs what was allowed.
"""

from __future__ import annotations

from eventstore import Dispatcher, EventStore, FunctionTool
from projections import pending_approvals, resume_plan

URL = "sqlite:///inbox.db"


def send_mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


def drop_table(name: str) -> str:
    """Drop a table."""
    raise RuntimeError(f"{name} must never be dropped")


TOOLS = [FunctionTool(tool, needs_approval=True) for tool in (send_mail, drop_table)]


def ask() -> None:
    """Ask for two calls; they wait."""
    with EventStore.open(URL) as store:
        for conversation, name, arguments in (
            ("news", "send_mail", {"to": "all@example.com"}),
            ("cleaning", "drop_table", {"name": "orders"}),
        ):
            chat = store.conversation(conversation)
            Dispatcher(chat, TOOLS).dispatch([chat.request(name, arguments)])


def decide() -> None:
    """Show what waits, allow the mail to one address, and refuse the rest."""
    with EventStore.open(URL) as store:
        for item in pending_approvals(store):
            chat = store.conversation(item.conversation_id)
            print("waits:", item.name, item.call.arguments)
            # `seen`: should the call be another one by now, nothing is decided.
            if item.name == "send_mail":
                edited = {"to": "ada@example.com"}
                chat.approve(item.call_id, edited, by="grace", seen=item.revision)
            else:
                chat.reject(item.call_id, "not in production", by="grace", seen=item.revision)


def go_on() -> None:
    """Run what was allowed."""
    with EventStore.open(URL) as store:
        for conversation in ("news", "cleaning"):
            chat = store.conversation(conversation)
            Dispatcher(chat, TOOLS).resume()
            (tool,) = chat.tools.values()
            print(tool.call.name, "is", tool.status.name)
            assert not resume_plan(chat.events()).safe


if __name__ == "__main__":
    ask()
    decide()
    go_on()
