"""The application: its commands, and the one place where an error becomes a line and a status."""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from eventstore import EventStoreError
from eventstore.domain.credentials import may_be_address
from projections.cli import options
from projections.cli.command_groups import GROUPS, GroupedCommands
from projections.cli.interrupts import remembered_interrupts
from projections.cli.output import complain

REFUSED, USAGE, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141
"""Exit statuses of a command that did not do what it was asked to: the data was refused, the usage
is wrong, Ctrl-C was pressed, or the reader of the output has closed it."""

_COMPLETION = "_TOOLLEDGER_COMPLETE"
"""The variable by which a shell asks for completions."""

_ESCAPED = re.compile(r"[^ -~]+|[\\\\'\"]+")
"""What stands as an escape where an error quotes an argument."""

app = typer.Typer(
    name="toolledger",
    help="An event log of the tool calls of AI agents: append, query, replay.",
    cls=GroupedCommands,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for listed in (listed for group in GROUPS.values() for listed in group):
    app.command(listed.name, short_help=listed.summary, epilog=f"Example: {listed.example}")(
        listed.command
    )


@app.callback(invoke_without_command=True)
def _begin(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    tenant: Annotated[
        str,
        typer.Option(
            "--tenant",
            envvar="TOOLLEDGER_TENANT",
            help="The tenant, if several share the database.",
        ),
    ] = "",
) -> None:
    options.tenant.set(tenant)
    if version:
        from importlib.metadata import version as installed  # slow to load, and rarely needed

        typer.echo(installed("toolledger"))
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: list[str] | None = None) -> int:
    """Run a command, and return the status to exit with."""
    # Python has None for a stream that was closed before (`>&-`).
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - open until the process ends
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115 - as above
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # escape what the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        with remembered_interrupts():
            status = _run(_decoded(sys.argv[1:]) if arguments is None else arguments)
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at exit: send that to the null device.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _decoded(arguments: list[str]) -> list[str]:
    """Return the arguments read as UTF-8, whatever the locale is."""
    return [os.fsencode(each).decode("utf-8", "surrogateescape") for each in arguments]


_made = cache(typer.main.get_command)
"""Makes what parses the arguments, from the signatures of all commands, which takes some 10 ms."""


def _run(arguments: list[str]) -> int:
    command = _made(app)
    if _COMPLETION in os.environ:
        command.main(arguments, prog_name="toolledger")  # prints what may come next, and exits
    try:
        with command.make_context("toolledger", list(arguments)) as context:
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    except typer.Abort:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except (EventStoreError, ValueError, OSError, ModuleNotFoundError) as error:
        complain(_without_secrets(_line(error), arguments))
        return REFUSED
    except Exception as error:
        format_message = getattr(error, "format_message", None)
        if not callable(format_message):
            raise
        # Wrong usage: typer's own errors have this method, and no class that typer exports.
        used = getattr(getattr(error, "ctx", None), "command_path", "toolledger")
        said = _without_secrets(str(format_message()), arguments)
        complain(f"{said.rstrip('.')} (see {used} --help)")
        return USAGE
    return 0


def _line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}: mend that, or name another"
    if isinstance(error, OSError) and error.strerror:  # of the output
        return f"{error.strerror}: mend that, and run the command again"
    return str(error) or type(error).__name__


def _without_secrets(line: str, arguments: list[str]) -> str:
    """Return a line in which each address among the arguments is quoted without its secrets."""
    for each in filter(may_be_address, arguments):
        quoted = re.compile(".+?".join(map(re.escape, _ESCAPED.split(each))), re.DOTALL)
        if quoted.search(line):
            from eventstore.engines import shown_url  # loads SQLAlchemy

            line = quoted.sub(shown_url(each).replace("\\", r"\\"), line)
    return line
