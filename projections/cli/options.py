"""The options that commands share, and the stores, conversations and tables that they name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from math import nan
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from eventstore import Conversation, EventStore, NotAStore, SubjectSecret
from eventstore.domain.credentials import may_be_address
from eventstore.providers import PROVIDERS, AnyProvider
from eventstore.providers import known_provider as provider_name
from projections.cli.output import console
from projections.formatting import did_you_mean

if TYPE_CHECKING:
    from projections.projector import Progress, Projector
    from projections.search import TextSearch

URL = "sqlite:///toolledger.db"

SECRET_VARIABLE, KEYS_VARIABLE = "TOOLLEDGER_SUBJECTS", "TOOLLEDGER_KEYS"
"""The variables that name the files of the secret of an index of subjects, and of their keys."""

SECRET = typer.Option(
    "--secret",
    envvar=SECRET_VARIABLE,
    metavar="FILE",
    help="The secret of the index of subjects.",
)
"""The option that names the file of the secret."""

tenant: ContextVar[str] = ContextVar("tenant", default="")
"""The tenant whose log a command reads or writes; the option stands before the command."""

Url = Annotated[
    str,
    typer.Option("--url", envvar="TOOLLEDGER_URL", show_default=True, help="The store."),
]
ReadOnly = Annotated[
    bool,
    typer.Option("--read-only", help="Open a store that you may only read; nothing is upgraded."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
ConversationId = Annotated[str, typer.Argument(metavar="ID", help="A conversation's id.")]
AnyConversationId = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="A conversation's id; without it, all.")
]
ReadId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="A conversation's id, or a session that is imported first: PROGRAM:ID, latest.",
    ),
]
AnyReadId = Annotated[
    str | None,
    typer.Argument(
        metavar="[ID]",
        help="A conversation's id, or a session that is imported first: PROGRAM:ID, latest; "
        "without it, all.",
    ),
]
Provider = Annotated[
    str,
    typer.Option("--provider", help=f"The provider: {', '.join(sorted(PROVIDERS))}."),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Keep to what is known of this model or server, such as claude-opus-4-8 or groq/….",
    ),
]
Tables = Annotated[
    str | None,
    typer.Option(
        "--tables",
        metavar="URL",
        help="Keep projections in tables there, and read those: for long logs.",
    ),
]
Rebuild = Annotated[
    bool, typer.Option("--rebuild", help="Rebuild the tables of --tables, after an upgrade.")
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers", min=1, metavar="N", help="Rebuild in N processes, which share the log's lanes."
    ),
]


def seconds(text: str | float) -> float:
    """Return the seconds that an option says: more than 0, and no more than a `timedelta` holds.

    Raises:
        typer.BadParameter: it says something else.
    """
    number = nan
    try:
        number = float(text)
        is_duration = timedelta(seconds=number) > timedelta(0)
    except (ValueError, OverflowError):  # no number, NaN, or too many
        is_duration = False
    if not is_duration:
        raise typer.BadParameter(f"{str(text)!r}: pass seconds above 0, for example 90 or 0.5")
    return number


def open_store(
    url: str,
    *,
    create: bool = False,
    read_only: bool = False,
    subjects: SubjectSecret | None = None,
    of_tenant: str | None = None,
) -> EventStore:
    """Open the store at a URL; only commands that write create one that does not exist."""
    name = tenant.get() if of_tenant is None else of_tenant
    secret = subjects or os.environ.get(SECRET_VARIABLE)
    keys = os.environ.get(KEYS_VARIABLE) if secret else None
    try:
        return EventStore.open(
            url, create=create, read_only=read_only, tenant=name, subjects=secret, keys=keys
        )
    except NotAStore as error:
        raise NotAStore(f"{error}, with --url or TOOLLEDGER_URL") from error
    except (ValueError, FileNotFoundError) as error:
        hint = f"--url, {SECRET_VARIABLE} or {KEYS_VARIABLE}" if secret else "--url"
        raise typer.BadParameter(str(error), param_hint=hint) from error


def subject_and_secret(subject: str, secret: str | None) -> tuple[str, SubjectSecret]:
    """Return the subject that a command names, `-` reads it from stdin, and the secret of a file.

    Raises:
        typer.BadParameter: it is no subject, or the file does not hold a secret.
    """
    if secret is None:
        raise typer.BadParameter(f"name the file of the secret, or set {SECRET_VARIABLE}")
    named = sys.stdin.readline().rstrip("\r\n") if subject == "-" else subject
    try:
        opened = SubjectSecret.read(file_name(secret))
        opened.digest(named)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--secret or SUBJECT") from error
    return named, opened


def same_store(command: str, url: str) -> str:
    """Return a command with the options that name the store and the tenant of this one.

    What the environment says, and the default, need no option.
    """
    from eventstore.engines import shown_url  # loads SQLAlchemy, as the store has

    if url not in (URL, os.environ.get("TOOLLEDGER_URL")):
        command += f" --url {quote(shown_url(url))}"
    if tenant.get() not in ("", os.environ.get("TOOLLEDGER_TENANT")):
        command = command.replace("toolledger", f"toolledger --tenant {quote(tenant.get())}", 1)
    return command


def file_name(text: str | Path) -> Path:
    """Return the path that an argument names.

    Raises:
        BadParameter: it is empty, or meant as a database's address, perhaps with a password in it.
    """
    if text == "":  # an unset variable of a shell; Path would take it for the folder
        raise typer.BadParameter("'': pass the name of a file")
    if may_be_address(str(text)):
        from eventstore.engines import shown_url  # loads SQLAlchemy

        raise typer.BadParameter(
            f"{shown_url(str(text))} looks like the address of a store, and a file is wanted: name "
            "the store with --url, or write ./ before the name of a file"
        )
    return Path(text)


def existing(store: EventStore, conversation_id: str) -> Conversation:
    """Return a conversation that has events, by its id.

    Raises:
        ValueError: it has no events.
    """
    chat = store.conversation(conversation_id)
    if next(chat.events(), None) is None:
        if may_be_address(conversation_id):
            from eventstore.engines import shown_url  # loads SQLAlchemy, as the store has

            raise ValueError(
                f"{shown_url(conversation_id)} is a store, and a conversation's id is wanted: "
                "name the store with --url"
            )
        near = did_you_mean(conversation_id, (name for name, _ in store.conversations()))
        raise ValueError(
            f"there is no conversation {conversation_id!r}: `toolledger show` lists them{near}"
        )
    return chat


def named(store: EventStore, name: str) -> Conversation:
    """Return a conversation that has events, by its id or by a beginning that only its id has.

    Those of its own sub-agents and branches, `ID/…`, begin so as well, and are not meant. For
    commands that read; a decision needs the whole id.

    Raises:
        ValueError: there is none, or several ids begin so.
    """
    chat = store.conversation(name)
    if next(chat.events(), None) is not None:
        return chat
    found = sorted(each for each, _ in store.conversations() if each.startswith(name))
    if len(found) > 1 and not all(each.startswith(f"{found[0]}/") for each in found[1:]):
        raise ValueError(
            f"{len(found):,} conversations begin with {name!r}, among them {found[0]!r} and "
            f"{found[1]!r}: pass more of the id"
        )
    return existing(store, found[0] if found else name)


def known_provider(name: str) -> AnyProvider:
    """Return the name of a provider, after checking that it is known."""
    if name not in PROVIDERS:
        known = ", ".join(sorted(PROVIDERS))
        raise typer.BadParameter(f"{name!r}: pass one of {known}", param_hint="--provider")
    return provider_name(name)


@contextmanager
def caught_up(
    store: EventStore,
    tables: str,
    *,
    search: TextSearch | None = None,
    rebuild: bool = False,
    processes: int = 1,
) -> Generator[Projector, None, None]:
    """Open the projections of a store in the database at `tables`, brought up to the log's end.

    These are the built-in ones, or `search` alone. With `rebuild` they are rebuilt, in that many
    processes, with all that this version keeps.
    """
    from projections.projector import Projector  # loads SQLAlchemy
    from projections.projector.built_in import VIEWS

    try:
        if search is None:
            projector = Projector(store, tables, views=VIEWS if rebuild else None)
        else:
            projector = Projector(store, tables, views=(), batch=1_000, projections=[search])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--tables") from error
    with projector:
        with progress_bar("projecting") as show:

            def show_progress(progress: Progress) -> None:
                show(progress.done, progress.total)

            if rebuild:
                projector.rebuild(show_progress, processes=processes)
            else:
                projector.catch_up(show_progress)
        yield projector


@contextmanager
def progress_bar(what: str) -> Generator[Callable[[int, int], None], None, None]:
    """Give a function that shows how much is done, and of how much; on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.progress import Progress as ProgressBar  # slow to load

    with ProgressBar(console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def one_of(value: str, known: tuple[str, ...], option: str) -> None:
    """Raise an error unless the value of an option is a known one.

    Raises:
        BadParameter: it is not.
    """
    if value not in known:
        raise typer.BadParameter(f"{value!r}: pass one of {', '.join(known)}", param_hint=option)
