"""`check`: whether a provider would take a file's requests, and what to mend where not."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import msgspec
import typer

from eventstore import Violation, validate
from eventstore.wire import PROVIDERS
from projections.cli.options import Json, known_provider
from projections.cli.output import complain, print_json, say
from projections.sources import SourceError
from projections.sources.requests import Request, RequestFile
from projections.text import plural

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help=".json or .jsonl: messages, requests, or session logs; - is standard input.",
    ),
]
Whose = Annotated[
    str | None,
    typer.Option(
        "--provider", help=f"Whose rules: {', '.join(sorted(PROVIDERS))}. Guessed without."
    ),
]


class Checked(msgspec.Struct):
    """One request and what is wrong with it."""

    id: str
    provider: str
    messages: int
    violations: list[Violation]


def check(file: File, provider: Whose = None, *, as_json: Json = False) -> None:
    """Check messages against the rules of a provider; status 1 where it would refuse them."""
    if provider is not None:
        known_provider(provider)
    with _read_once(file) as path:
        source = RequestFile(path, provider)
        checked = [
            Checked(each.id, each.provider, len(each.messages), list(_violations(each)))
            for each in source.requests()
        ]
    problems = [str(problem) for problem in source.problems]
    levels = Counter(found.level for each in checked for found in each.violations)
    hard, strict = levels["hard"], levels["strict"]
    if as_json:
        print_json({
            "ok": not (hard or problems), "file": str(file), "hard": hard, "strict": strict,
            "checked": checked, "problems": problems,
        })  # fmt: skip
    else:
        _tell(checked, problems, hard, strict)
    if hard:
        complain(f"{file}: {plural(hard, 'hard violation')}: the provider refuses that")
    elif problems:
        complain(f"{file}: {plural(len(problems), 'part')} could not be read: {problems[0]}")
    if hard or problems:
        raise typer.Exit(1)


@contextmanager
def _read_once(file: Path) -> Iterator[Path]:
    """The file; a copy of standard input, which cannot be read again."""
    if str(file) != "-":
        yield file
        return
    with TemporaryDirectory() as folder:
        path = Path(folder, "stdin")
        path.write_bytes(sys.stdin.buffer.read())
        try:
            yield path
        except SourceError as error:
            raise SourceError(str(error).replace(str(path), "standard input")) from error


def _violations(request: Request) -> Iterator[Violation]:
    """What is wrong in a request, as far as that can be seen: the server may hold more of it."""
    for found in validate(request.messages, request.provider):
        if not (request.continues and found.code == "OR02"):
            yield found


def _tell(checked: list[Checked], problems: list[str], hard: int, strict: int) -> None:
    for each in checked:
        where = f"{each.id}: " if len(checked) > 1 else ""
        for found in each.violations:
            say(f"{where}{found.place}: {found.code} {found.level}: {found.message}")
            say(f"    to mend it: {found.remedy}")
    for problem in problems:
        say(problem)
    whose = ", ".join(sorted({each.provider for each in checked}))
    count = plural(len(checked), "request")
    told = f"{hard:,} hard and {strict:,} strict violations" if hard or strict else "all is well"
    say(f"{count} by the rules of {whose}: {told}")
