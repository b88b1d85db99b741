"""The application: its commands, and the one place where an error becomes a line and a status."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from eventstore import EventStoreError
from projections.cli import (
    approving,
    checking,
    demo,
    importing,
    linting,
    options,
    reading,
    replaying,
)
from projections.cli.output import complain

REFUSED, USAGE, INTERRUPTED, PIPE = 1, 2, 130, 141
"""The statuses of a command that did not do what it was asked: data refused, wrong usage,
Ctrl-C, nobody reads the output any more."""

app = typer.Typer(
    name="toolledger",
    help="An event-sourced ledger of the tool calls of AI agents: append, query, replay.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=False,
)
for command in (
    demo.demo,
    importing.import_,
    reading.show,
    reading.prompt,
    linting.check,
    reading.tools,
    reading.stats,
    approving.approvals,
    approving.approve,
    approving.reject,
    replaying.replay,
    replaying.tail,
    checking.verify,
    checking.migrate,
):
    app.command(command.__name__.rstrip("_"))(command)


@app.callback(invoke_without_command=True)
def _begin(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    tenant: Annotated[
        str,
        typer.Option(
            "--tenant", envvar="TOOLLEDGER_TENANT", help="Whose log, if several have one."
        ),
    ] = "",
) -> None:
    options.tenant.set(tenant)
    if version:
        from importlib.metadata import version as installed  # noqa: PLC0415 - slow, and rare

        typer.echo(installed("toolledger"))
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: list[str] | None = None) -> int:
    """Run a command; the status to exit with."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # what the terminal cannot show is escaped
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _run(_decoded(sys.argv[1:]) if arguments is None else arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at the end: let it go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _decoded(arguments: list[str]) -> list[str]:
    """The arguments as UTF-8, whatever the locale says."""
    return [os.fsencode(given).decode("utf-8", "surrogateescape") for given in arguments]


def _run(arguments: list[str]) -> int:
    command: Any = typer.main.get_command(app)
    try:
        with command.make_context("toolledger", list(arguments)) as context:
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    except typer.Abort:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except (EventStoreError, ValueError, OSError) as error:
        complain(_line(error))
        return REFUSED
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's own, for wrong usage
            raise
        complain(f"{error.format_message().rstrip('.')} (see toolledger --help)")
        return USAGE
    return 0


def _line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__
