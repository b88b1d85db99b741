"""`redact`: taking the content out of events that are stored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

import msgspec
import typer

from eventstore import Redaction
from projections.cli.options import URL, Json, Url, open_store
from projections.cli.output import print_json, say
from projections.formatting import plural


def redact(  # noqa: PLR0913 - the options of the command
    conversation_id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="A conversation's id; without it, all with --text."),
    ] = None,
    *,
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="The person who redacts.")],
    version: Annotated[
        list[int] | None, typer.Option("--version", metavar="N", help="The event; may be repeated.")
    ] = None,
    call: Annotated[
        list[str] | None,
        typer.Option("--call", metavar="CALL", help="All events of a call; may be repeated."),
    ] = None,
    path: Annotated[
        list[str] | None,
        typer.Option(
            "--path",
            metavar="PATH",
            help="Only a member: arguments.card, result.rows[*].email, parts[0].text; "
            """arguments["a.b"] where a name has dots or blanks.""",
        ),
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="Only this text, in any string.")
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option("--pattern", metavar="REGEX", help="As --text: what an expression finds."),
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why.")] = None,
    rule: Annotated[
        str | None, typer.Option("--rule", metavar="NAME", help="The rule that it follows.")
    ] = None,
    url: Url = URL,
    whole: Annotated[bool, typer.Option("--whole", help="The whole conversation.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be redacted, and do nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take the content out of stored events, for good; by whose hand, and why, is recorded.

    Identifiers, versions, times and digests stay, so that the log can still be verified. The status
    is 1 if there was nothing to redact, or calls, archives or what cannot be read were left.
    """
    if text is not None and pattern is not None:
        raise typer.BadParameter("pass --text or --pattern, not both")
    sought: str | re.Pattern[str] = text or ""
    if pattern is not None:
        try:
            sought = re.compile(pattern)
        except re.error as error:
            raise typer.BadParameter(f"{pattern!r} is no expression: {error}") from error
    with open_store(url) as store:
        chosen = bool(version or call or path or sought)
        if conversation_id is not None:
            if chosen == whole:
                raise typer.BadParameter(
                    "pass --version, --call, --path, --text or --pattern, or else --whole"
                )
            done = [
                store.redact(
                    conversation_id,
                    by=by,
                    versions=version or (),
                    calls=call or (),
                    paths=path or (),
                    text=sought,
                    whole=whole,
                    reason=reason,
                    rule=rule,
                    dry_run=dry_run,
                )
            ]
        else:
            if version or call or path or whole or not sought:
                raise typer.BadParameter("name a conversation, or pass --text or --pattern alone")
            done = store.redact_everywhere(sought, by=by, reason=reason, rule=rule, dry_run=dry_run)
    if as_json:
        print_json([msgspec.structs.asdict(each) for each in done])
    else:
        _tell(done, path or (), dry_run=dry_run)
    if not any(each.versions for each in done) or any(
        each.left or each.archive or each.damage for each in done
    ):
        raise typer.Exit(1)


def _tell(done: list[Redaction], paths: Iterable[str], *, dry_run: bool) -> None:
    said = "would be redacted" if dry_run else "redacted"
    if not done:
        say("nothing to redact: no conversation has it")
    for each in done:
        versions = ", ".join(map(str, each.versions))
        where = f" of {each.conversation_id!r}"
        if each.versions:
            say(f"{plural(len(each.versions), 'event')}{where} {said}: version {versions}")
        elif not each.left and each.archive is None and each.damage is None:
            why = f": none of its events has {' or '.join(paths)}" if paths else ""
            say(f"nothing to redact{where}{why}")
        for note in _notes(each):
            say(f"note: {note}")
    for text in dict.fromkeys(text for each in done for text in each.remains):
        say(f"note: {text}")


def _notes(done: Redaction) -> Iterator[str]:
    if done.damage is not None:
        yield f"{done.conversation_id!r} is damaged, and was left: {done.damage}"
    if done.guessable:
        older = ", ".join(map(str, done.guessable))
        yield f"of an older version, without salts: guesses can be confirmed ({older})"
    if done.locked:
        locked = ", ".join(map(str, done.locked))
        yield f"encrypted, and not looked at for want of a key: version {locked}"
    for call_id, state in done.left.items():
        yield f"call {call_id!r} is {state}, and was left"
    yield from kept_notes(done.kept)


def kept_notes(kept: Mapping[int, Iterable[str]]) -> Iterator[str]:
    """Yield for each member that holds the text and stays in which versions that is."""
    versions: dict[str, list[str]] = {}
    for version, names in kept.items():
        for name in names:
            versions.setdefault(name, []).append(str(version))
    for name, found in versions.items():
        yield f"{name!r} holds it, and stays: version {', '.join(found)}"
