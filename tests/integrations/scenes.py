"""The scenes that every integration plays, offline, with the framework's own fake model.

An integration has a module `play_FRAMEWORK.py` with one function, `play(play: Play) -> Played`, and
a class of tests that inherits `Scenes`. The table in `docs/integrations.md` lists what they play.

1. two calls at once, of which one fails and is asked again;
2. arguments that the tool refuses;
3. an approval that is granted in another process, after a restart;
4. a call that is rejected;
5. `kill -9` inside the second tool, then a resume; a third call had not started;
6. a streamed run;
7. a run that is cancelled inside a tool;
8. two calls that wait, of which a person allows one;
9. a call that waits while the user asks something else;
10. equal calls of one response;
11. a question after a run that broke off, with the framework's own store where it has one;
12. an agent that a tool runs, with a ledger of its own conversation;
13. a resume with nothing to do, and one beside another worker;
14. a host's answer, through the framework, to a call that has changed since it was asked about;
15. a call that asks for the same as one in doubt;
16. a call of a response that was cut off;
17. a rule of the store, which covers a part of the words and of the arguments;
18. a request of a new process, which has what the model was told before, in the same words.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec
import pytest
from support import unmeasured

from eventstore import (
    Approved,
    AsyncEventStore,
    CallUnderWay,
    Completed,
    Conversation,
    EventStore,
    Failed,
    FunctionCall,
    MessageAdded,
    ModelResponded,
    Pending,
    Redact,
    Rejected,
    Running,
    Tool,
    ToolPending,
    ToolRunning,
    validate,
)
from eventstore.integrations.recorded_calls import RecordedCalls
from projections import model_history, pending_approvals, usage_statistics

L = TypeVar("L")
T = TypeVar("T")

TESTS = Path(__file__).parents[1]
CHAT = "support-42"
EXPERT = f"{CHAT}/expert"
PROMPT = "Order 7 is lost, refund it."
DONE = "Done."
CODE = "ZX-4711-QQ"
HIDDEN = "the vault is open"
ACCURATE = 7
"""The order that can be audited."""

SCENES = {
    "a call fails and is asked again": "test_a_failed_call_is_asked_again",
    "bad arguments": "test_bad_arguments_start_nothing",
    "an approval elsewhere": "test_an_approval_is_granted_elsewhere",
    "an expired approval": "test_an_approval_that_has_expired_is_asked_for_again",
    "a rejection": "test_a_rejected_call_never_runs",
    "kill -9, then resume": "test_a_killed_run_is_resumed",
    "streaming": "test_a_streamed_run_is_recorded",
    "cancellation": "test_a_cancelled_run_is_recorded",
    "opposite answers": "test_opposite_answers_reach_their_calls",
    "another question first": "test_a_call_stays_open_while_others_ask",
    "equal calls": "test_equal_calls_run_once_each",
    "beside its own store": "test_the_log_answers_after_a_run_that_broke_off",
    "an agent as a tool": "test_an_agent_in_a_tool_has_a_log_of_its_own",
    "nothing to resume": "test_nothing_is_resumed_after_the_last_word",
    "a late answer": "test_a_late_answer_decides_nothing",
    "equal to a doubt": "test_a_call_equal_to_one_in_doubt_does_not_run",
    "a cut-off response": "test_a_call_of_a_response_that_was_cut_off_does_not_run",
    "a rule of the store": "test_a_covered_text_is_neither_stored_nor_run",
    "the same words": "test_the_next_process_has_the_same_words",
}
"""The scenes as the documentation names them, and their tests."""

FRAMEWORKS: dict[str, tuple[str, frozenset[str]]] = {
    "pydantic_ai": ("pydantic-ai", frozenset()),
    "openai_agents": ("openai-agents", frozenset({"a cut-off response"})),
    "langchain": ("langchain", frozenset()),
    "langgraph": ("langgraph", frozenset()),
    "anthropic": ("anthropic", frozenset({"a late answer"})),
    "openai": ("openai", frozenset({"a late answer"})),
    "mcp": ("mcp", frozenset({"a call fails and is asked again", "a late answer"})),
    "strands": ("strands", frozenset()),
    "google_adk": ("google-adk", frozenset()),
    "agent_framework": ("agent-framework", frozenset()),
    "claude_agent_sdk": (
        "claude-agent-sdk",
        frozenset(
            {
                "a call fails and is asked again",
                "kill -9, then resume",
                "opposite answers",
                "a late answer",
                "equal to a doubt",
            }
        ),
    ),
}
"""Each framework's name in the documentation, and the scenes that it does not play."""


class Said(msgspec.Struct, frozen=True):
    """One response of the fake model: words, and calls as (name, arguments as JSON text, id).

    `cut_off`: it ends at its limit of tokens.
    """

    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    cut_off: bool = False


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """What a framework is to do in one process: start with a prompt, or resume without one.

    The fake model gives the response whose number is that of the responses in its prompt.
    """

    url: str
    script: tuple[Said, ...]
    prompt: str | None = PROMPT
    chat: str = CHAT
    kept: bool = False
    """The framework's own store is kept from one run of this process to the next."""
    streamed: bool = False
    kill: bool = False
    """`refund` kills its process."""
    answer: bool | None = None
    """What the host answers through the framework, after `Tools.change_mail`; None for nothing."""
    covers: bool = False
    """The store has a rule that covers `CODE`."""

    @property
    def rules(self) -> list[Redact]:
        """The rules of the store."""
        return [Redact("code", re.compile(CODE))] if self.covers else []


class Played(msgspec.Struct):
    """What came of it: the final text, empty if the run waits for a decision.

    `asked` is the last request of one that has a store of its own. `shown` is what the host reads
    of a call after its answer.
    """

    text: str = ""
    asked: str = ""
    shown: str = ""


FIND_7 = ("find_order", '{"number": 7}')
REFUND = ("refund", '{"number": 7, "amount": 1.5}')


class Tools:
    """The tools of all scenes. Each notes its effect together with what the log says then."""

    def __init__(self, play: Play, framework: str) -> None:
        self._play = play
        self._framework = framework
        self._path = effects_path(play.url)
        self.pondering = asyncio.Event()
        """Is set when `ponder` has begun."""

    def find_order(self, number: int) -> str:
        """Find an order; the carrier does not answer the first time."""
        first = all(name != "find_order" for name, _, _ in effects_of(self._play.url))
        self._note("find_order", number)
        if first and self._play.script[0].text == "flaky":
            raise ConnectionRefusedError("carrier down")
        return json.dumps({"order": number, "status": "lost"})

    def refund(self, number: int, amount: float) -> str:
        """Refund an order."""
        self._note("refund", number)
        if self._play.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"refunded {amount}"

    def mail(self, to: str) -> str:
        """Send a mail, after a person's approval."""
        self._note("mail", to)
        return f"sent to {to}"

    def audit(self, number: int) -> dict[str, Any]:
        """Audit an order; the model is told what the framework makes of an error."""
        self._note("audit", number)
        if number == ACCURATE:
            return {"order": number, "sums": [1, 2.5], "note": None}
        raise RuntimeError(HIDDEN)

    async def ponder(self, number: int) -> str:
        """Wait until the run is cancelled."""
        self._note("ponder", number)
        self.pondering.set()
        await asyncio.Event().wait()
        return "never"

    async def consult(self, question: str) -> str:
        """Ask another agent, which has a conversation of its own."""
        find = Said("", (("find_order", '{"number": 8}', "call_i"),))
        script = (find, Said("It is lost."))
        inner = Play(url=self._play.url, script=script, prompt=question, chat=EXPERT)
        played = await _player(self._framework)(inner, Tools(inner, self._framework))
        return played.text

    def change_mail(self) -> None:
        """Let another desk allow the mail to somebody else, and a worker pause it."""
        with EventStore.open(self._play.url) as store:
            chat = store.conversation(self._play.chat)
            chat.approve("call_m", {"to": "eve"}, by="hopper")
            with chat.running("call_m") as attempt:
                attempt.pause(reason="which address?")

    def _note(self, name: str, argument: object) -> None:
        """Write the effect down, with the status of every call on disk at that moment."""
        with EventStore.open(self._play.url) as store:
            tools = store.conversation(self._play.chat).tools
        statuses = {tool.provider_call_id or tool.id: tool.status.name for tool in tools.values()}
        with self._path.open("a") as file:
            file.write(json.dumps([name, argument, statuses]) + "\n")


def effects_path(url: str) -> Path:
    """Return the file in which the tools note their effects."""
    return Path(url.removeprefix("sqlite:///")).with_suffix(".effects")


def note_request(play: Play, messages: object) -> None:
    """Write down what the model of a scene is asked: JSON values."""
    if play.url and play.chat == CHAT:
        with effects_path(play.url).with_suffix(".requests").open("a") as file:
            file.write(json.dumps(messages, sort_keys=True) + "\n")


def requests_of(url: str) -> list[list[Any]]:
    """Return what the model was asked, request by request."""
    path = effects_path(url).with_suffix(".requests")
    return [json.loads(line) for line in path.read_text().splitlines()]


def without_cache_marks(messages: list[Any]) -> list[Any]:
    """Return messages without the marks of a cache, which move on with each request."""
    text = json.dumps(messages)

    def unmarked(members: dict[str, Any]) -> dict[str, Any]:
        return {name: each for name, each in members.items() if name != "cache_control"}

    unchanged: list[Any] = json.loads(text, object_hook=unmarked)
    return unchanged


class Scenes:
    """The contract of an integration; a subclass names its module of `play`."""

    framework: ClassVar[str]
    asks_a_model: ClassVar[bool] = True
    sees_requests: ClassVar[bool] = True
    """Whether the integration knows when a model is asked."""
    attempts_of_bad_arguments: ClassVar[int] = 0
    """1 where the framework checks arguments inside the tool's own invocation."""
    failure: ClassVar[tuple[str | None, str]] = ("ConnectionRefusedError", "carrier down")
    """The exception and the message that are recorded of a tool's error."""
    tells_errors: ClassVar[bool] = True
    """Whether the integration sees the exceptions of tools, which servers may hide."""
    calls_that_were_cut_off: ClassVar[int] = 1
    """0 where the framework takes such calls out of the response."""

    # the scenes

    def test_a_failed_call_is_asked_again(self, tmp_path: Path) -> None:
        """The model asks again for the one of two calls that failed; the tool's error is kept."""
        script = (
            Said("flaky", ((*FIND_7, "call_a"), (*REFUND, "call_b"))),
            Said("", ((*FIND_7, "call_c"),)),
            Said(DONE),
        )
        url = url_in(tmp_path)
        assert self._play(Play(url=url, script=script)).text == DONE
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            failed, refunded, found = chat.tools.values()
            assert isinstance(failed.status, Failed)
            recorded = failed.status.failure
            assert (recorded.exception, recorded.message) == self.failure
            assert isinstance(refunded.status, Completed)
            assert refunded.response is not None
            assert refunded.response.result == "refunded 1.5"
            assert isinstance(found.status, Completed)
            check(url, chat, ["find_order", "find_order", "refund"])
            if self.asks_a_model:
                check_usage(chat, latency=self.sees_requests)

    def test_bad_arguments_start_nothing(self, tmp_path: Path) -> None:
        """Arguments that do not fit the tool are a failure of kind validation."""
        script = (Said("", (("find_order", '{"number": "x"}', "call_a"),)), Said(DONE))
        url = url_in(tmp_path)
        assert self._play(Play(url=url, script=script)).text == DONE
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            (tool,) = chat.tools.values()
            assert isinstance(tool.status, Failed)
            attempts = self.attempts_of_bad_arguments
            assert (tool.status.failure.kind, tool.attempts) == ("validation", attempts)
            check(url, chat, [])

    def test_an_approval_is_granted_elsewhere(self, tmp_path: Path) -> None:
        """The run ends at the call that waits; another process goes on with the decision."""
        url = url_in(tmp_path)
        with self._waiting(url) as chat:
            chat.approve("call_m", by="grace")
        again = self._play_elsewhere(Play(url=url, script=MAIL, prompt=None))
        assert again.text == DONE
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            assert [type(tool.status) for tool in chat.tools.values()] == [Completed, Completed]
            check(url, chat, ["find_order", "mail"])

    def test_an_approval_that_has_expired_is_asked_for_again(self, tmp_path: Path) -> None:
        """The run ends at the call once more, and the tool does not run."""
        url = url_in(tmp_path)
        with self._waiting(url) as chat:
            chat.approve("call_m", by="grace", expires=timedelta(microseconds=1))
        assert self._play_elsewhere(Play(url=url, script=MAIL, prompt=None)).text == ""
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            waiting = [each.call_id for each in pending_approvals(store)]
            assert waiting == ["call_m"]
            check(url, chat, ["find_order"])

    def test_a_rejected_call_never_runs(self, tmp_path: Path) -> None:
        """The model reads that a person refused the call."""
        url = url_in(tmp_path)
        with self._waiting(url) as chat:
            chat.reject("call_m", "not to this address", by="grace")
        again = self._play_elsewhere(Play(url=url, script=MAIL, prompt=None))
        assert again.text == DONE
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            assert isinstance(chat.tools["call_m"].status, Rejected)
            assert "not to this address" in str(model_history(chat.events()).render("openai"))
            check(url, chat, ["find_order"])

    def test_a_killed_run_is_resumed(self, tmp_path: Path) -> None:
        """The call that was killed does not run again, and the third, which had not begun, runs."""
        find_8 = ("find_order", '{"number": 8}', "call_c")
        calls = ((*FIND_7, "call_a"), (*REFUND, "call_b"), find_8)
        script = (Said("Let me look.", calls), Said(DONE))
        url = url_in(tmp_path)
        killed = self._process(Play(url=url, script=script, kill=True))
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        with EventStore.open(url) as store:
            statuses = [type(tool.status) for tool in store.conversation(CHAT).tools.values()]
            assert statuses == [Completed, Running, Pending]
        again = self._play_elsewhere(Play(url=url, script=script, prompt=None))
        assert again.text == DONE
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            statuses = [type(tool.status) for tool in chat.tools.values()]
            assert statuses == [Completed, Running, Completed]
            assert "outcome unknown" in str(model_history(chat.events()).render("openai"))
            check(url, chat, ["find_order", "find_order", "refund"])

    def test_a_call_equal_to_one_in_doubt_does_not_run(self, tmp_path: Path) -> None:
        """The model asks again, under another id, for what may have taken effect."""
        again = Said("", ((*REFUND, "call_b"),))
        script = (Said("", ((*REFUND, "call_a"),)), again, Said(DONE))
        url = url_in(tmp_path)
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            chat.add_message("user", PROMPT)
            chat.turn("", [FunctionCall("refund", json.loads(REFUND[1]), "call_a")])
            chat.start("call_a")  # and its process is gone
        assert self._play(Play(url=url, script=script, prompt="Again?")).text == DONE
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            first, *others = (type(tool.status) for tool in chat.tools.values())
            assert (first, set(others)) == (Running, {Rejected})
            text = str(model_history(chat.events()).render("openai"))
            assert "it asks for the same as the call" in text
        assert effects_of(url) == []

    def test_a_call_of_a_response_that_was_cut_off_does_not_run(self, tmp_path: Path) -> None:
        """Some frameworks end the run there, others ask the model again."""
        cut_off = Said("Let me see.", ((*REFUND, "call_a"),), cut_off=True)
        url = url_in(tmp_path)
        with suppress(Exception):
            self._play(Play(url=url, script=(cut_off, Said(DONE))))
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            rendered = str(model_history(chat.events()).render("openai"))
            assert len(chat.tools) == self.calls_that_were_cut_off
            for tool in chat.tools.values():
                assert isinstance(tool.status, Failed)
                assert (tool.status.failure.code, tool.attempts) == ("broken_off", 0)
                assert tool.status.failure.message in rendered
        assert effects_of(url) == []

    def test_a_streamed_run_is_recorded(self, tmp_path: Path) -> None:
        """The calls of a streamed response are pending before they run, as all are."""
        script = (Said("", ((*FIND_7, "call_a"), (*REFUND, "call_b"))), Said(DONE))
        url = url_in(tmp_path)
        assert self._play(Play(url=url, script=script, streamed=True)).text == DONE
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            assert [type(tool.status) for tool in chat.tools.values()] == [Completed, Completed]
            check(url, chat, ["find_order", "refund"])
            if self.asks_a_model:
                check_usage(chat, latency=self.sees_requests)

    def test_a_cancelled_run_is_recorded(self, tmp_path: Path) -> None:
        """The attempt ends as cancelled, and the next prompt is valid."""
        script = (Said("", (("ponder", '{"number": 7}', "call_a"),)), Said(DONE))
        url = url_in(tmp_path)
        self._play_and_cancel(Play(url=url, script=script))
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            (tool,) = chat.tools.values()
            assert isinstance(tool.status, Failed)
            assert tool.status.failure.exception == "asyncio.exceptions.CancelledError"
            check(url, chat, ["ponder"])

    @pytest.mark.parametrize("allowed", ["ann", "bob"])
    def test_opposite_answers_reach_their_calls(self, tmp_path: Path, allowed: str) -> None:
        """Two calls wait, and a person allows one: it runs, and the other one does not."""
        names = {"ann": "call_m", "bob": "call_n"}
        calls = tuple(("mail", json.dumps({"to": to}), call_id) for to, call_id in names.items())
        script = (Said("", calls), Said(DONE))
        url = url_in(tmp_path)
        assert self._play(Play(url=url, script=script)).text == ""
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            for name, call_id in names.items():
                if name == allowed:
                    chat.approve(call_id, by="grace")
                else:
                    chat.reject(call_id, by="grace")
        assert self._play(Play(url=url, script=script, prompt=None)).text == DONE
        assert [(name, to) for name, to, _ in effects_of(url)] == [("mail", allowed)]

    def test_a_call_stays_open_while_others_ask(self, tmp_path: Path) -> None:
        """The text in the place of its result is none, before the decision and after it."""
        url = url_in(tmp_path)
        script = (*MAIL, Said(DONE))
        assert self._play(Play(url=url, script=script)).text == ""
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            assert self._play(Play(url=url, script=script, prompt="And order 8?")).text == DONE
            assert isinstance(chat.tools["call_m"].status, Pending)
            chat.approve("call_m", by="grace")
            assert self._play(Play(url=url, script=script, prompt="And order 9?")).text == DONE
            assert isinstance(chat.tools["call_m"].status, Approved)
            said = [r.event for r in chat.events() if isinstance(r.event, MessageAdded)]
            assert [event.role for event in said].count("user") == 3
            check(url, chat, ["find_order"])

    def test_equal_calls_run_once_each(self, tmp_path: Path) -> None:
        """Each call of a response is one of its own, however much it looks like another."""
        calls = tuple((*REFUND, call_id) for call_id in ("call_a", "call_b", "call_c"))
        url = url_in(tmp_path)
        played = self._play(Play(url=url, script=(Said("", calls), Said(DONE))))
        assert played.text == DONE
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            assert {type(tool.status) for tool in chat.tools.values()} == {Completed}
            check(url, chat, ["refund"] * 3)

    def test_the_log_answers_after_a_run_that_broke_off(self, tmp_path: Path) -> None:
        """The model reads what the log has, whatever the framework has kept of the run."""
        calls = ((*FIND_7, "call_a"), ("ponder", '{"number": 7}', "call_b"))
        script = (Said("", calls), Said(DONE))
        url = url_in(tmp_path)
        self._play_and_cancel(Play(url=url, script=script, kept=True))
        played = self._play(Play(url=url, script=script, prompt="And now?", kept=True))
        assert played.text == DONE
        assert "lost" in played.asked or not played.asked
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            assert [type(tool.status) for tool in chat.tools.values()] == [Completed, Failed]
            check(url, chat, ["find_order", "ponder"])

    def test_an_agent_in_a_tool_has_a_log_of_its_own(self, tmp_path: Path) -> None:
        """Its words, calls and usage are there once; the call that ran it is one call."""
        script = (Said("", (("consult", '{"question": "Order 8?"}', "call_a"),)), Said(DONE))
        url = url_in(tmp_path)
        assert self._play(Play(url=url, script=script)).text == DONE
        with EventStore.open(url) as store:
            (asked,) = store.conversation(CHAT).tools.values()
            (found,) = store.conversation(EXPERT).tools.values()
            assert (type(asked.status), type(found.status)) == (Completed, Completed)
            assert "It is lost." in str(asked.response)
            if self.asks_a_model:
                assert usage_statistics(store.read()).overall.responses == len(script) * 2

    def test_a_covered_text_is_neither_stored_nor_run(self, tmp_path: Path) -> None:
        """The tool runs with the arguments of the log, and that they are covered is no edit.

        The agent in the tool has a store without rules, which shows what the tool was given.
        """
        asked = f"Where is {CODE}?"
        call = ("consult", json.dumps({"question": asked}), "call_a")
        script = (Said(f"I ask for {CODE}.", (call,)), Said(f"{CODE} is lost."))
        url = url_in(tmp_path)
        self._play(Play(url=url, script=script, prompt=asked, covers=True))
        with EventStore.open(url) as store:
            (tool,) = store.conversation(CHAT).tools.values()
            assert isinstance(tool.status, Completed)
            assert tool.call.arguments == {"question": "Where is [redacted: code]?"}
            assert tool.edit is None
            assert "[redacted: code]?" in str(list(store.conversation(EXPERT).events()))
        log = (tmp_path / "agent.db", tmp_path / "agent.db-wal")  # not a framework's own store
        assert not any(CODE.encode() in each.read_bytes() for each in log if each.exists())

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("audit", {"number": 8}),
            ("audit", {"number": ACCURATE}),
            ("find_order", {"number": "x"}),
            ("nothing", {"number": 7}),
        ],
        ids=["an error", "a result", "bad arguments", "an unknown tool"],
    )
    def test_the_next_process_has_the_same_words(
        self, tmp_path: Path, name: str, arguments: dict[str, Any]
    ) -> None:
        """The prompt of the log has the framework's words, so that the provider's cache holds.

        What the framework hides of an error stays hidden, and the log has it for people.
        """
        calls = ((name, json.dumps(arguments), "call_a"), (*REFUND, "call_b"))
        script = (Said("", calls), Said(DONE), Said("Yes."))
        url = url_in(tmp_path)
        with suppress(Exception):  # an unknown tool ends the run of some
            self._play(Play(url=url, script=script[:2]))
        wording = without_cache_marks(requests_of(url)[-1])
        done = self._process(Play(url=url, script=script, prompt="And now?"))
        asked = without_cache_marks(requests_of(url)[-1])
        assert wording in [asked[at : at + len(wording)] for at in range(len(asked))], done.stderr
        assert (HIDDEN in str(asked)) == (HIDDEN in str(wording))
        if arguments == {"number": 8}:
            with EventStore.open(url) as store:
                status = store.conversation(CHAT).tools["call_a"].status
            assert isinstance(status, Failed)
            assert (HIDDEN in status.error) == self.tells_errors

    def test_nothing_is_resumed_after_the_last_word(self, tmp_path: Path) -> None:
        """The model is not asked again; nor is it while another worker is at a call."""
        script = (Said("", ((*FIND_7, "call_a"),)), Said(DONE), Said("Done again."))
        url = url_in(tmp_path)
        assert self._play(Play(url=url, script=script)).text == DONE
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            before = chat.version
            assert self._play(Play(url=url, script=script, prompt=None)).text in (DONE, "")
            assert chat.version == before
            other = chat.request("refund", {"number": 7, "amount": 2.5})
            chat.start(other.id, lease=3600)
            with pytest.raises((CallUnderWay, ExceptionGroup)) as caught:
                self._play(Play(url=url, script=script, prompt=None))
            assert "attempt 1 is under way until" in repr(caught.value)
            assert chat.version == before + 2

    @pytest.mark.parametrize("answer", [True, False])
    def test_a_late_answer_decides_nothing(self, tmp_path: Path, answer: bool) -> None:
        """The host reads what the call is now, and the log decides."""
        _, absent = FRAMEWORKS.get(self.framework, FRAMEWORKS["openai"])  # which has two APIs
        if "a late answer" in absent:
            pytest.skip("the framework has no answer of its own")
        url = url_in(tmp_path)
        played = self._play(Play(url=url, script=MAIL, answer=answer))
        assert (played.text, "eve" in played.shown) == ("", True), played
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            mail = chat.tools["call_m"]
            assert (mail.is_paused, mail.attempts) == (True, 1)
            check(url, chat, ["find_order"])
            chat.approve("call_m", by="grace", seen=mail)
        assert self._play(Play(url=url, script=MAIL, prompt=None)).text == DONE
        assert [to for name, to, _ in effects_of(url) if name == "mail"] == ["eve"]

    # how they are played

    def _play_and_cancel(self, play: Play) -> None:
        """Cancel a run inside `ponder`, when all other calls have ended."""
        run, tools = self._prepared(play)

        async def main() -> None:
            task = asyncio.ensure_future(run())
            waiting = asyncio.ensure_future(tools.pondering.wait())
            await asyncio.wait({task, waiting}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
            assert tools.pondering.is_set(), task
            with EventStore.open(play.url) as store:
                chat = store.conversation(CHAT)
                async with asyncio.timeout(60):
                    while sum(not tool.is_resolved for tool in chat.tools.values()) > 1:
                        await asyncio.wait({task}, timeout=0.01)
            task.cancel()
            await asyncio.wait({task}, timeout=60)
            assert task.cancelled()

        asyncio.run(main())

    def _prepared(self, play: Play) -> tuple[Callable[[], Awaitable[Played]], Tools]:
        tools = Tools(play, self.framework)
        return (lambda: _player(self.framework)(play, tools)), tools

    def _play(self, play: Play) -> Played:
        run, _ = self._prepared(play)
        return asyncio.run(as_coroutine(run()))

    def _play_elsewhere(self, play: Play) -> Played:
        done = self._process(play)
        assert done.returncode == 0, done.stderr
        return msgspec.json.decode(done.stdout.splitlines()[-1], type=Played)

    def _process(self, play: Play) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "integrations.scenes", self.framework]
        environment = {
            **unmeasured.environment(),
            "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}",
        }
        given = msgspec.json.encode(play).decode()
        return subprocess.run(
            [*command, given], env=environment, capture_output=True, text=True, check=False
        )

    def _waiting(self, url: str) -> _Waiting:
        """Play until a call waits for a person, in another process; return the conversation."""
        assert self._play_elsewhere(Play(url=url, script=MAIL)).text == ""
        return _Waiting(url)


class ScenesWithoutReads(Scenes):
    """The contract of an integration that starts a call which was just recorded without a read."""

    def test_a_call_that_is_rejected_before_it_starts_does_not_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another process rejects it when the integration has taken it up."""
        url = url_in(tmp_path)
        taken: list[str] = []
        take_new = RecordedCalls.take_new

        def take_new_and_reject(calls: RecordedCalls, call_id: str) -> Tool | None:
            tool = take_new(calls, call_id)
            if tool is not None and tool.call.name == "refund":
                taken.append(tool.id)
                with EventStore.open(url) as store:
                    store.conversation(CHAT).reject(tool.id, "not this one", by="grace")
            return tool

        monkeypatch.setattr(RecordedCalls, "take_new", take_new_and_reject)
        script = (Said("", ((*FIND_7, "call_a"), (*REFUND, "call_b"))), Said(DONE))
        assert self._play(Play(url=url, script=script)).text == DONE
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            found, refund = chat.tools.values()
            assert [refund.id] == taken
            assert (type(found.status), type(refund.status)) == (Completed, Rejected)
            assert "not this one" in str(model_history(chat.events()).render("openai"))
            check(url, chat, ["find_order"])


class ScenesWithDecisions(ScenesWithoutReads):
    """The contract of one that asks for an approval itself, and so reads whether there is one."""

    def test_a_call_that_is_approved_before_it_is_asked_for_runs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another process approves it as soon as it is recorded."""
        url = url_in(tmp_path)
        know = RecordedCalls.know

        def know_and_approve(calls: RecordedCalls, tools: Iterable[Tool]) -> None:
            recorded = list(tools)
            know(calls, recorded)
            with EventStore.open(url) as store:
                for tool in recorded:
                    if tool.call.name == "mail":
                        store.conversation(CHAT).approve(tool.id, by="grace")

        monkeypatch.setattr(RecordedCalls, "know", know_and_approve)
        assert self._play(Play(url=url, script=MAIL)).text == DONE
        with EventStore.open(url) as store:
            chat = store.conversation(CHAT)
            assert [type(tool.status) for tool in chat.tools.values()] == [Completed, Completed]
            check(url, chat, ["find_order", "mail"])


MAIL = (
    Said("", ((*FIND_7, "call_a"), ("mail", '{"to": "ann"}', "call_m"))),
    Said(DONE),
)


class _Waiting:
    """The conversation whose call waits, as the person's process sees it."""

    def __init__(self, url: str) -> None:
        self._store = EventStore.open(url)

    def __enter__(self) -> Conversation:
        assert "call_m" in [waiting.call_id for waiting in pending_approvals(self._store)]
        return self._store.conversation(CHAT)

    def __exit__(self, *_: object) -> None:
        self._store.close()


def check(url: str, chat: Conversation, ran: list[str]) -> None:
    """Check what must hold after every scene; `ran` are the tools that had an effect, sorted."""
    effects = effects_of(url)
    assert sorted(name for name, _, _ in effects) == ran
    pending = {r.call_id: r.version for r in chat.events() if isinstance(r.event, ToolPending)}
    for recorded in chat.events():
        if isinstance(recorded.event, ToolRunning):
            assert pending[recorded.call_id] < recorded.version
    for name, _, statuses in effects:  # at the moment of the effect, on disk
        by_name = {t.provider_call_id: _plain_name(t) for t in chat.tools.values()}
        assert "Running" in [s for call, s in statuses.items() if by_name[call] == name]
    turns: dict[int | None, set[str | None]] = {}
    for tool in chat.tools.values():
        turns.setdefault(tool.turn, set()).add(tool.provider_call_id)
        assert tool.attempts <= 1
        assert tool.provider_call_id == tool.id  # the scenes' ids are unique
    for calls in turns.values():  # no call of a turn has an effect before all are pending
        for _, _, statuses in effects:
            assert calls <= statuses.keys() or calls.isdisjoint(statuses.keys())
    history = model_history(chat.events())
    assert validate(history.render("openai")["messages"], "openai") == []
    assert validate(history.render("anthropic")["messages"], "anthropic") == []


def check_usage(chat: Conversation, *, latency: bool) -> None:
    """Check that the log has the tokens of each response, once, and its `latency`."""
    events = [recorded.event for recorded in chat.events()]
    said = {e.turn for e in events if isinstance(e, MessageAdded) and e.role == "assistant"}
    total = usage_statistics(chat.events()).overall
    assert total.responses == len(said)
    assert total.usage.input_tokens > 0 < total.usage.output_tokens
    latencies = [e.latency for e in events if isinstance(e, ModelResponded)]
    assert [each is not None and each > 0 for each in latencies] == [latency] * len(said)


def _plain_name(tool: Tool) -> str:
    """Return the name of a call's function, without that of the server which Claude Code adds."""
    return tool.call.name.rpartition("__")[2]


def effects_of(url: str) -> list[tuple[str, Any, dict[str, str]]]:
    """Return the effects that the tools have noted."""
    path = effects_path(url)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def url_in(folder: Path) -> str:
    """Return the URL of the scene's log."""
    return f"sqlite:///{folder / 'agent.db'}"


def with_ledger(
    ledger: Callable[..., L], url: str, scene: Callable[[L], Awaitable[T]], **options: Any
) -> T:
    """Run a scene with a ledger on one conversation of a log, and return its result."""

    async def main() -> T:
        async with AsyncEventStore.open(url) as store:
            return await scene(ledger(store.conversation("c"), **options))

    return asyncio.run(main())


async def as_coroutine(played: Awaitable[Played]) -> Played:
    """Await what a framework plays."""
    return await played


def _player(framework: str) -> Callable[[Play, Tools], Awaitable[Played]]:
    player: Callable[[Play, Tools], Awaitable[Played]]
    player = import_module(f"integrations.play_{framework}").play
    return player


def main(framework: str, given: str) -> None:
    """Play in this process, and print what came of it."""
    play = msgspec.json.decode(given, type=Play)
    played = asyncio.run(as_coroutine(_player(framework)(play, Tools(play, framework))))
    print(msgspec.json.encode(played).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
