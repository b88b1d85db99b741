"""`check`: whether a provider would take a file's requests, and what to mend where not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from eventstore import Violation, validate
from eventstore.wire import PROVIDERS
from projections.cli.options import Json, known_provider
from projections.cli.output import complain, print_json, say
from projections.sources.requests import RequestFile
from projections.text import plural

File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help=".json or .jsonl: messages, requests, or session logs."),
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
    source = RequestFile(file, provider)
    checked = [
        Checked(each.id, each.provider, len(each.messages), validate(each.messages, each.provider))
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
