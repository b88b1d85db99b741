"""`check`: whether a provider would accept the requests of a file, and what to mend otherwise."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import msgspec
import typer

from eventstore import Violation, validate
from eventstore.importers import Request, RequestFile, SourceError
from eventstore.providers import PROVIDERS
from projections.cli.options import Json, Model, file_name, known_provider
from projections.cli.output import complain, print_json, say
from projections.formatting import plural

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        parser=file_name,
        help=".json or .jsonl: messages or requests; - is standard input.",
    ),
]
RulesOf = Annotated[
    str | None,
    typer.Option(
        "--provider",
        help=f"The provider with the rules: {', '.join(sorted(PROVIDERS))}. Guessed if not given.",
    ),
]


class CheckedRequest(msgspec.Struct):
    """A request and the rules that it breaks."""

    id: str
    provider: str
    messages: int
    violations: list[Violation]


def check(
    file: File, provider: RulesOf = None, *, model: Model = None, as_json: Json = False
) -> None:
    """Check messages against the rules of a provider; exit with 1 if it would refuse them."""
    if provider is not None:
        known_provider(provider)
    with _read_once(file) as path:
        source = RequestFile(path, provider)
        checked = [
            CheckedRequest(
                each.id, each.provider, len(each.messages), list(_violations(each, model))
            )
            for each in source.requests()
        ]
    problems = [str(problem) for problem in source.problems]
    levels = Counter(found.level for each in checked for found in each.violations)
    hard, strict = levels["hard"], levels["strict"]
    if as_json:
        print_json(
            {
                "ok": not (hard or problems),
                "file": str(file),
                "hard": hard,
                "strict": strict,
                "checked": checked,
                "problems": problems,
            }
        )
    else:
        _report(checked, problems, hard, strict)
    if hard:
        complain(f"{file}: {plural(hard, 'hard violation')}: the provider refuses that")
    elif problems:
        complain(f"{file}: {plural(len(problems), 'part')} could not be read: {problems[0]}")
    if hard or problems:
        raise typer.Exit(1)


@contextmanager
def _read_once(file: Path) -> Generator[Path, None, None]:
    """Give the file to read; for `-` a copy of standard input, which can be read only once."""
    if str(file) != "-":
        yield file
        return
    with TemporaryDirectory() as folder:
        path = Path(folder, "stdin")
        path.write_bytes(sys.stdin.buffer.read())
        try:
            yield path
        except SourceError as error:
            message = str(error).replace(str(path), "standard input")
            raise SourceError(message) from error


def _violations(request: Request, model: str | None) -> Iterator[Violation]:
    """Yield the rules that a request breaks, except where the server may hold earlier items."""
    for found in validate(request.messages, request.provider, model=model):
        answers = found.code == "OR02" or (
            found.code == "AN02" and found.place.startswith("messages[0]")
        )
        if not (request.continues and answers):
            yield found


def _report(checked: list[CheckedRequest], problems: list[str], hard: int, strict: int) -> None:
    for each in checked:
        where = f"{each.id}: " if len(checked) > 1 else ""
        for found in each.violations:
            say(f"{where}{found.place}: {found.code} {found.level}: {found.message}")
            say(f"    to mend it: {found.remedy}")
    for problem in problems:
        say(problem)
    providers = ", ".join(sorted({each.provider for each in checked}))
    count = plural(len(checked), "request")
    result = f"{hard:,} hard and {strict:,} strict violations" if hard or strict else "all is well"
    say(f"{count} by the rules of {providers}: {result}")
