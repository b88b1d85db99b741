"""The commands by what they are for: write, look, decide, operate; each with an example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from typer.core import TyperGroup

from projections.cli.commands.accept_loss import accept_loss
from projections.cli.commands.approve import approvals, approve, reject
from projections.cli.commands.archive import backup, export, restore
from projections.cli.commands.bundle import bundle
from projections.cli.commands.check import check
from projections.cli.commands.demo import demo
from projections.cli.commands.diff import diff
from projections.cli.commands.erase import erase
from projections.cli.commands.fork import fork
from projections.cli.commands.import_ import import_
from projections.cli.commands.migrate import migrate
from projections.cli.commands.pytest_ import pytest_
from projections.cli.commands.redact import redact
from projections.cli.commands.replay import replay, tail
from projections.cli.commands.report import report
from projections.cli.commands.retain import retain
from projections.cli.commands.seal import prove, seal, seal_key
from projections.cli.commands.search import search
from projections.cli.commands.serve import serve
from projections.cli.commands.sessions import sessions
from projections.cli.commands.settle import doubts, settle
from projections.cli.commands.show import prompt, show, stats, tools
from projections.cli.commands.verify import verify
from projections.cli.commands.what_if import what_if
from projections.cli.commands.why import why


class Listed(NamedTuple):
    """A command, its line in the overview, and the example in its own help."""

    command: Callable[..., None]
    summary: str
    example: str

    @property
    def name(self) -> str:
        """What is typed."""
        return self.command.__name__.rstrip("_").replace("_", "-")


GROUPS = {
    "Write": (
        Listed(demo, "the main features, in half a minute", "toolledger demo"),
        Listed(import_, "conversations that other programs wrote", "toolledger import chat.json"),
        Listed(
            fork,
            "a copy of a conversation up to a version",
            "toolledger fork support-42 support-42b --at 12",
        ),
        Listed(
            pytest_,
            "a run as a test, its tools answered from the log",
            "toolledger pytest support-42",
        ),
    ),
    "Look": (
        Listed(
            sessions,
            "what coding agents have left on this machine",
            "toolledger sessions --since 7d",
        ),
        Listed(
            show,
            "conversations, or the events of one",
            "toolledger show support-42 --failed --around 12",
        ),
        Listed(search, "a text in all conversations", "toolledger search 'order 7'"),
        Listed(
            prompt,
            "the next prompt, for any provider, and why",
            "toolledger prompt support-42 --provider anthropic --explain",
        ),
        Listed(
            check,
            "which messages a provider would refuse",
            "toolledger check request.json --provider openai",
        ),
        Listed(tools, "the calls and their statuses", "toolledger tools support-42 --open"),
        Listed(
            stats,
            "failures, retries and tokens",
            "toolledger stats --every 1d --tables sqlite:///stats.db",
        ),
        Listed(
            why, "why a conversation failed, in ten lines", "toolledger why support-42 --markdown"
        ),
        Listed(
            what_if,
            "what other policies would have decided",
            "toolledger what-if support-42 --end-on auth --attempts 1",
        ),
        Listed(
            replay,
            "event by event: before, after, and the prompt",
            "toolledger replay support-42 --from 10",
        ),
        Listed(
            report,
            "a conversation as a page that opens offline",
            "toolledger report support-42 -o support-42.html",
        ),
        Listed(diff, "what a second run did otherwise", "toolledger diff support-42 support-42b"),
        Listed(tail, "the newest events of all conversations", "toolledger tail --follow"),
    ),
    "Decide": (
        Listed(approvals, "the calls that wait for a person", "toolledger approvals"),
        Listed(
            approve,
            "allow one, as it is or edited",
            "toolledger approve support-42 call_2 --by ann",
        ),
        Listed(
            reject,
            "refuse one",
            "toolledger reject support-42 call_2 --reason 'not today' --by ann",
        ),
        Listed(
            doubts,
            "the calls that may have taken effect",
            "toolledger doubts --fail-if-any",
        ),
        Listed(
            settle,
            "say what became of one",
            "toolledger settle support-42 call_2 --failed 'the bank has no such payment' --by ann",
        ),
    ),
    "Forget": (
        Listed(
            redact,
            "the content of events that are stored",
            "toolledger redact support-42 --call call_2 --path arguments.card --by mia",
        ),
        Listed(
            erase,
            "a person, in all conversations",
            "toolledger erase customer-17 --secret subjects.secret --by mia",
        ),
    ),
    "Prove": (
        Listed(
            seal_key,
            "a key that signs what the log holds",
            "toolledger seal-key example.com/agents seal.key",
        ),
        Listed(
            seal,
            "sign what the log holds, for others to check",
            "toolledger seal --key seal.key --anchor /mnt/worm/notes",
        ),
        Listed(
            prove,
            "a proof of one event, or that nothing before was changed",
            "toolledger prove support-42 7 --key 'example.com/agents+…' -o event.tlog-proof",
        ),
        Listed(
            bundle,
            "events with their proofs, as a folder for an auditor",
            "toolledger bundle audit support-42 --key 'example.com/agents+…'",
        ),
    ),
    "Operate": (
        Listed(
            backup,
            "a copy of a SQLite store that others write to",
            "toolledger backup agent-monday.db",
        ),
        Listed(
            export,
            "a log as a file: lossless, CSV, Parquet, traces",
            "toolledger export support-42 --out support-42.jsonl",
        ),
        Listed(restore, "an exported log into a store", "toolledger restore support-42.jsonl"),
        Listed(
            retain,
            "old conversations to an archive, or without content",
            "toolledger retain --keep '6 months' --to archive",
        ),
        Listed(
            serve,
            "the whole store as live web pages, with approvals",
            "toolledger serve --url sqlite:///agent.db",
        ),
        Listed(
            verify,
            "damage, gaps and false transitions",
            "toolledger verify --url sqlite:///agent.db",
        ),
        Listed(
            accept_loss,
            "let writers continue after a restore or failover",
            "toolledger accept-loss --url sqlite:///agent.db",
        ),
        Listed(
            migrate,
            "the revision of the schema: show it, change it",
            "toolledger migrate --url sqlite:///agent.db",
        ),
    ),
}


class GroupedCommands(TyperGroup):
    """The overview of the commands, under the titles of their groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group."""
        del ctx
        width = max(len(listed.name) for group in GROUPS.values() for listed in group)
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{listed.name:{width}}", listed.summary) for listed in group])
