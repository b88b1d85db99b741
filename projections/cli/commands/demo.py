"""`toolledger demo`: a real agent loop over small real tools, and what the log says about it.

Only the model is a stand-in: a plain function that reads the rendered prompt and answers in a
provider's form. The tools run; one fails, one is killed with -9 while it runs; a person decides.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
import typer

from eventstore import (
    Conversation,
    DefaultRetryClassifier,
    EventStore,
    RetryClass,
    RunEnded,
    RunStarted,
    Tool,
    validate,
)
from eventstore.domain.json_types import JsonObject
from eventstore.domain.one_line import one_line
from eventstore.providers import ProviderName
from projections.cli.options import Json, file_name, open_store
from projections.cli.output import print_json, say
from projections.cli.request_outline import message_texts
from projections.history.entries import Repair
from projections.history.projection import model_history
from projections.resume_plan import resume_plan
from projections.statistics.projection import error_statistics

PROVIDERS: tuple[ProviderName, ...] = ("openai", "anthropic")
ATTEMPTS = 3
SHOWN_CHARACTERS = 150
"""Characters of a message that a line shows."""

QUESTION = (
    "My lamp (order A-17) came broken. Refund it, send a new one to Lyon, delete my old account."
)

Keep = Annotated[
    Path | None,
    typer.Option("--keep", metavar="PATH", parser=file_name, help="Keep the log, in this file."),
]
DemoUrl = Annotated[
    str | None, typer.Option("--url", help="Keep the log, in this store. [default: keep nothing]")
]


def demo(keep: Keep = None, url: DemoUrl = None, *, as_json: Json = False) -> None:
    """Run an agent offline: success, retry, approval, rejection, kill -9, resume."""
    if keep is not None and url is not None:
        raise typer.BadParameter(
            "--keep and --url exclude each other: pass one of them", param_hint="--keep"
        )
    with tempfile.TemporaryDirectory(prefix="toolledger-demo-") as folder:
        place = url or f"sqlite:///{(keep or Path(folder) / 'demo.db').absolute()}"
        with open_store(place, create=True) as store:
            chat = store.conversation(_unused_id(store))
            shop = Shop(Path(folder) / "payments.jsonl")
            story = Story(quiet=as_json)
            Demo(chat, shop, place, story).run()
            _close(chat, story, as_json=as_json)
            page = None if as_json else _write_report(chat)
    if page is None:
        return
    if keep or url:
        from eventstore.engines import shown_url  # loads SQLAlchemy, as the store has

        say(f"\nThe log is kept: toolledger replay {chat.id} --url {shown_url(place)}")
    say(f"\nOpen its report: python -m webbrowser -t {page.as_uri()}")


def _write_report(chat: Conversation) -> Path:
    """Write the report of a conversation to a file for temporary files."""
    from projections.report.page import html_report  # loads jinja2

    name = f"toolledger-{chat.id}-"
    with tempfile.NamedTemporaryFile(prefix=name, suffix=".html", delete=False) as file:
        file.write(html_report(chat.events()).encode())
    return Path(file.name)


def _unused_id(store: EventStore) -> str:
    taken = {name for name, _ in store.conversations()}
    number = 1
    while (name := "demo" if number == 1 else f"demo-{number}") in taken:
        number += 1
    return name


# the tools: small, but real


class Shop:
    """The tools of a web shop, and the outside world that they change."""

    orders: ClassVar[dict[str, JsonObject]] = {
        "A-17": {"item": "lamp", "paid": 49.0, "kg": 2.4, "customer": "mia"}
    }
    needs_approval = ("delete_account", "issue_refund", "send_voucher")

    def __init__(self, payments: Path) -> None:
        self.payments = payments
        self._asked = 0

    def find_order(self, order: str) -> JsonObject:
        """Look an order up."""
        return self.orders[order]

    def shipping_price(self, city: str, kg: float) -> JsonObject:
        """Price a parcel; the carrier refuses the connection the first time."""
        self._asked += 1
        if self._asked == 1:
            raise ConnectionRefusedError("the carrier refused the connection")
        return {"city": city, "price": round(3.9 + 1.5 * kg, 2)}

    def issue_refund(self, order: str, amount: float) -> JsonObject:
        """Pay money back."""
        return self._pay({"refund": order, "amount": amount})

    def delete_account(self, customer: str) -> JsonObject:
        """Delete a customer's account."""
        raise PermissionError(f"deleting {customer} is not permitted")

    def ship_parcel(self, order: str, city: str) -> JsonObject:
        """Book a parcel with the carrier, which then takes its time."""
        booked = self._pay({"parcel": order, "city": city})
        say("booked")  # the process that waits for this kills this process here
        sys.stdout.flush()
        time.sleep(60)
        return booked

    def send_voucher(self, customer: str, amount: float) -> JsonObject:
        """Give a customer a voucher."""
        return self._pay({"voucher": customer, "amount": amount})

    def _pay(self, entry: JsonObject) -> JsonObject:
        """Write an entry into the books of the outside world."""
        with self.payments.open("ab") as books:
            books.write(msgspec.json.encode(entry) + b"\n")
            books.flush()
            os.fsync(books.fileno())
        return entry

    def entries(self, key: str, value: str) -> list[JsonObject]:
        """Return what was done, by the books of the outside world."""
        if not self.payments.exists():
            return []
        lines = self.payments.read_bytes().splitlines()
        return [entry for entry in map(msgspec.json.decode, lines) if entry.get(key) == value]


# the model: offline; it reads only the prompt


def model(prompt: JsonObject) -> JsonObject:
    """Return the next message of the assistant, in OpenAI's form."""
    calls = [call for message in prompt["messages"] for call in message.get("tool_calls", ())]
    made = {call["function"]["name"] for call in calls}
    number = len(calls) + 1
    if "find_order" not in made:
        lamp = ("find_order", {"order": "A-17"})
        return _message(
            "Let me look.", number, lamp, ("shipping_price", {"city": "Lyon", "kg": 2.4})
        )
    if "issue_refund" not in made:
        refund = ("issue_refund", {"order": "A-17", "amount": 490.0})
        return _message("I refund it.", number, refund, ("delete_account", {"customer": "mia"}))
    if "ship_parcel" not in made:
        parcel = ("ship_parcel", {"order": "A-17", "city": "Lyon"})
        return _message("I send a new one.", number, parcel)
    voucher = ("send_voucher", {"customer": "mia", "amount": 10.0})
    return _message("And for the trouble a voucher.", number, voucher)


def _message(text: str, number: int, *calls: tuple[str, JsonObject]) -> JsonObject:
    return {
        "role": "assistant",
        "content": text,
        "tool_calls": [
            {
                "id": f"call_{count}",
                "type": "function",
                "function": {"name": name, "arguments": msgspec.json.encode(arguments).decode()},
            }
            for count, (name, arguments) in enumerate(calls, number)
        ],
    }


# the loop


class Story:
    """Prints what happens while the demo runs."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._number = 0
        self.repairs: list[tuple[str, Repair]] = []

    def chapter(self, title: str) -> None:
        """Begin a chapter."""
        self._number += 1
        self._say(f"\n{self._number}. {title}", "bold")

    def line(self, text: str) -> None:
        """Print one line."""
        self._say(f"   {text}")

    def _say(self, text: str, style: str = "") -> None:
        if not self._quiet:
            say(text, style)


class Demo:
    """An agent loop: ask the model, record what it wants, decide, run, record what came of it."""

    def __init__(self, chat: Conversation, shop: Shop, url: str, story: Story) -> None:
        self.chat = chat
        self.shop = shop
        self.url = url
        self.story = story

    def run(self) -> None:
        """Run until a call waits for a person."""
        chat, story = self.chat, self.story
        chat.append(RunStarted("demo"))
        chat.add_message("system", "You are the assistant of a lamp shop.")
        chat.add_message("user", QUESTION)
        story.line("The model is a script; the tools, the processes and the log are real.")
        story.line(f"User: {QUESTION}")

        story.chapter("A success, and a retry that succeeds")
        for tool in self.ask():
            self.attempt(tool)

        story.chapter("An approval with an edit, and a rejection")
        refund, account = self.ask()
        edited = {"order": "A-17", "amount": 49.0}
        approved = chat.approve(refund.id, edited, by="ann", reason="490 was a slip")
        story.line(f"{_call(refund)}: approved by ann with amount=49.0")
        self.attempt(approved)
        chat.reject(account.id, "not while a refund is under way", by="ann")
        story.line(f"{_call(account)}: rejected by ann, never runs")

        story.chapter("A process killed with -9 in the middle of a call")
        (parcel,) = self.ask()
        self.kill_while_it_runs(parcel)

        story.chapter("Resume: the log knows what it does not know")
        self.resume()

        story.chapter("A call that waits for a person")
        (voucher,) = self.ask()
        story.line(f"{_call(voucher)}: pending; the run ends, the decision can come next week")
        chat.append(RunEnded("completed"))

    def ask(self) -> list[Tool]:
        """Ask the model; its message and its calls are recorded before anything runs."""
        message = model(self.prompt())
        calls = self.chat.record(message, provider="openai")
        names = " and ".join(tool.call.name for tool in calls)
        self.story.line(f"Model: {message['content']} It asks for {names}.")
        return calls

    def prompt(self) -> JsonObject:
        """Return the next prompt, made from the log alone."""
        history = model_history(self.chat.events(), needs_approval=_needs_approval)
        when = f"version {self.chat.version}"
        self.story.repairs += [(when, repair) for repair in history.repairs_for("openai")]
        return history.render("openai")

    def attempt(self, tool: Tool) -> None:
        """Run a call, and retry it where that may help; record each attempt before it begins."""
        classifier = DefaultRetryClassifier()
        run = getattr(self.shop, tool.call.name)
        for number in range(1, ATTEMPTS + 1):
            try:
                with self.chat.running(tool.id) as attempt:
                    result = run(**attempt.arguments)
                    attempt.complete(result)
            except Exception as error:
                retry = classifier.classify(error) is RetryClass.TRANSIENT and number < ATTEMPTS
                self.story.line(f"{_call(tool)}: attempt {number} failed ({error!r})")
                if not retry:
                    raise
            else:
                again = f" (attempt {number})" if number > 1 else ""
                self.story.line(f"{_call(tool)}: {_json(result)}{again}")
                return

    def kill_while_it_runs(self, tool: Tool) -> None:
        """Let another process run a call, and kill it before it can record the result."""
        command = [
            sys.executable,
            "-m",
            "projections.cli.commands.demo",
            self.url,
            self.chat.id,
            tool.id,
        ]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with subprocess.Popen(  # noqa: S603 - this program itself
            [*command, str(self.shop.payments)], stdout=subprocess.PIPE, env=environment
        ) as worker:
            booked = worker.stdout.readline() if worker.stdout else b""
            worker.kill()  # the parcel is booked, and the log does not say so
        if not booked:
            raise OSError(f"the demo's worker could not run (status {worker.returncode})")
        self.story.line(f"{_call(tool)}: start recorded, parcel booked, process killed")

    def resume(self) -> None:
        """Ask the outside world about each call of unknown outcome, so that none runs twice."""
        self.chat.add_message("system", "The process was restarted.")
        self.prompt()
        for step in resume_plan(self.chat.events()).unknown:
            self.story.line(f"{step.id}: {step.reason}")
            booked = self.shop.entries("parcel", step.tool.effective_call.arguments["order"])
            if booked:
                self.chat.complete(step.id, booked[0])
                self.story.line(
                    "Asked, the carrier has it: completed with its answer, not run twice"
                )
            else:
                self.chat.start(step.id, step.tool.attempts + 1)
                self.chat.complete(step.id, self.shop.ship_parcel(**step.tool.call.arguments))


def _call(tool: Tool) -> str:
    arguments = ", ".join(f"{key}={value!r}" for key, value in tool.call.arguments.items())
    return f"{tool.call.name}({arguments})"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _needs_approval(tool: Tool) -> bool:
    return tool.call.name in Shop.needs_approval


# what the log says afterwards


def _close(chat: Conversation, story: Story, *, as_json: bool) -> None:
    history = model_history(chat.events(), needs_approval=_needs_approval)
    prompts = {name: history.render(name) for name in PROVIDERS}
    broken = {name: validate(prompts[name]["messages"], name) for name in PROVIDERS}
    statistics = error_statistics(chat.events())
    for name in PROVIDERS:
        story.repairs += [(f"the next prompt, {name}", r) for r in history.repairs_for(name)]
    repairs = list(_without_repeats(story.repairs))
    if as_json:
        print_json(
            {
                "conversation_id": chat.id,
                "events": chat.version,
                "prompts": prompts,
                "violations": broken,
                "statistics": statistics,
                "repairs": [{"where": where, "repair": repair} for where, repair in repairs],
            }
        )
        return
    for name in PROVIDERS:
        found = broken[name]
        story.chapter(f"The next prompt for {name} ({'valid' if not found else found[0].message})")
        for line in _prompt_lines(prompts[name]):
            story.line(line)
    story.chapter("Error statistics")
    for paragraph in str(statistics).split("\n\n"):
        if not paragraph.startswith(("TIME", "CALLS")):
            for line in paragraph.splitlines():
                story.line(line)
    story.chapter("What was repaired in the prompts, and why")
    for where, repair in repairs:
        story.line(f"{where}: {repair.what} {repair.call_id or ''} ({repair.rule}): {repair.why}")


def _without_repeats(repairs: list[tuple[str, Repair]]) -> Iterator[tuple[str, Repair]]:
    """Yield each repair once, with the place where it was first needed."""
    seen: set[Repair] = set()
    for where, repair in repairs:
        bare = msgspec.structs.replace(repair, versions=())
        if bare not in seen:
            seen.add(bare)
            yield where, repair


def _prompt_lines(prompt: JsonObject) -> Iterator[str]:
    if "system" in prompt:
        yield one_line(f"(system)   {prompt['system']}", SHOWN_CHARACTERS)
    for message in prompt["messages"]:
        yield one_line(
            f"{message['role']:<10} {'  '.join(message_texts(message))}", SHOWN_CHARACTERS
        )


@contextmanager
def _worker(url: str, conversation_id: str) -> Generator[Conversation, None, None]:
    with open_store(url) as store:
        yield store.conversation(conversation_id)


def work(url: str, conversation_id: str, call_id: str, payments: str) -> None:
    """Run one call as any worker would: this is the process that is killed."""
    shop = Shop(Path(payments))
    with _worker(url, conversation_id) as chat, chat.running(call_id) as attempt:
        attempt.complete(shop.ship_parcel(**attempt.arguments))


if __name__ == "__main__":
    work(*sys.argv[1:])
