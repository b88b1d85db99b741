"""The story of the demo: an agent loop that is killed, resumed, and stops for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec

from eventstore import (
    Conversation,
    Dispatcher,
    RunEnded,
    RunStarted,
    Tool,
    ToolCompleted,
    ToolFailed,
)
from eventstore.domain.json_types import JsonObject
from projections.demo import model
from projections.demo.shop import Shop
from projections.demo.worker import Task, run_and_kill
from projections.history.entries import Repair
from projections.history.projection import model_history
from projections.resume_plan import resume_plan

QUESTION = (
    "My lamp (order A-17) came broken. Refund it, send a new one to Lyon, delete my old account."
)

Print: TypeAlias = Callable[[str, str], object]
"""Prints a line in a style of the terminal."""

FoundRepair: TypeAlias = tuple[str, Repair]
"""Where a prompt needed a repair, and the repair."""


class Story:
    """The lines that are printed while the demo runs, in numbered chapters."""

    def __init__(self, output: Print) -> None:
        self._print = output
        self._number = 0

    def chapter(self, title: str) -> None:
        """Begin a chapter."""
        self._number += 1
        self._print(f"\n{self._number}. {title}", "bold")

    def line(self, text: str) -> None:
        """Print one line."""
        self._print(f"   {text}", "")


class Demo:
    """An agent loop: ask the model, record what it wants, dispatch the calls, tell what came of it.

    `url` and `tenant` are those of the store, for the process that is killed.
    """

    def __init__(
        self, chat: Conversation, url: str, tenant: str, books: Path, story: Story
    ) -> None:
        self._chat = chat
        self._url = url
        self._tenant = tenant
        self._books = books
        self._story = story
        self.toolbox = Shop(books).toolbox
        # No other worker is at the conversation, and no system but Linux says which process ended.
        self._dispatcher = Dispatcher(chat, self.toolbox, lease=None)
        self.repairs: list[FoundRepair] = []

    def run(self) -> None:
        """Run until a call waits for a person."""
        chat, story = self._chat, self._story
        chat.append(RunStarted("demo"))
        chat.add_message("system", "You are the assistant of a lamp shop.")
        chat.add_message("user", QUESTION)
        story.line("The model is a script; the tools, the processes and the log are real.")
        story.line(f"User: {QUESTION}")

        story.chapter("A success, and a retry that succeeds")
        self._dispatch(self._ask())

        story.chapter("An approval with an edit, and a rejection")
        refund, account = self._dispatch(self._ask())
        edited = {"order": "A-17", "amount": 49.0}
        chat.approve(refund.id, edited, by="ann", reason="490 was a slip", seen=refund)
        story.line(f"{_call(refund)}: approved by ann with amount=49.0")
        chat.reject(account.id, "not while a refund is under way", by="ann", seen=account)
        story.line(f"{_call(account)}: rejected by ann, never runs")
        self._dispatch([refund])

        story.chapter("A process killed with -9 in the middle of a call")
        (parcel,) = self._ask()
        run_and_kill(Task(self._url, self._tenant, chat.id, parcel.id, str(self._books)))
        story.line(f"{_call(parcel)}: start recorded, parcel booked, process killed")

        story.chapter("Resume: the log knows what it does not know")
        chat.add_message("system", "The process was restarted.")
        self._prompt()
        for step in resume_plan(chat.events()).unknown:
            story.line(f"{step.id}: {step.reason}")
        (found,) = self._dispatcher.resume()
        outcome = found.status.name.lower()
        story.line(f"Asked, the carrier has it: {outcome} with its answer, not run twice")

        story.chapter("A call that waits for a person")
        self._dispatch(self._ask())
        story.line("The run ends here; the decision can come next week")
        chat.append(RunEnded("completed"))

    def _ask(self) -> list[Tool]:
        """Ask the model; its message and its calls are recorded before anything runs."""
        message = model.answer(self._prompt())
        calls = self._chat.record(message, provider="openai")
        names = " and ".join(tool.call.name for tool in calls)
        self._story.line(f"Model: {message['content']} It asks for {names}.")
        return calls

    def _prompt(self) -> JsonObject:
        """Return the next prompt, made from the log alone."""
        history = model_history(self._chat.events(), needs_approval=self.toolbox.needs_approval_for)
        where = f"version {self._chat.version}"
        self.repairs += [(where, repair) for repair in history.repairs_for("openai")]
        return history.render("openai")

    def _dispatch(self, calls: Iterable[Tool]) -> list[Tool]:
        """Run calls, and tell what the log says of each attempt."""
        before = self._chat.version
        tools = self._dispatcher.dispatch(calls)
        shown = {tool.id: _call(tool) for tool in tools}
        for recorded in self._chat.events(before):
            match recorded.event:
                case ToolFailed(call_id=call_id, attempt=attempt, failure=failure):
                    error = f"{failure.exception}: {failure.message}"
                    self._story.line(f"{shown[call_id]}: attempt {attempt} failed ({error})")
                case ToolCompleted(call_id=call_id, attempt=attempt, response=response):
                    again = f" (attempt {attempt})" if attempt > 1 else ""
                    self._story.line(f"{shown[call_id]}: {_json(response.result)}{again}")
                case _:
                    pass
        for tool in tools:
            if tool.is_pending:
                self._story.line(f"{shown[tool.id]}: pending, a person has to decide")
        return tools


def _call(tool: Tool) -> str:
    arguments = ", ".join(f"{key}={value!r}" for key, value in tool.call.arguments.items())
    return f"{tool.call.name}({arguments})"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
