"""What a call does, as far as its name and its command tell: looks, asks, tests, or moves."""

from __future__ import annotations

import re
from functools import lru_cache

from eventstore.domain.json_types import is_json_object
from projections.debugging.call_facts import CallFacts
from projections.debugging.command_output import command_of, parts_of

_LOOKS = re.compile(
    r"(?:[\w.-]*[_.-])?(?:read|view|get|list|search|grep|glob|find|ls|cat|fetch|show|query|status|"
    r"describe|look|lookup|check|open|head|tail|stat|inspect|browse|retrieve|count|select|load|test)"
    r"(?:$|[_.-])|(?:Read|View|Get|List|Search|Grep|Glob|LS|Fetch|Query|Find|WebFetch|WebSearch)"
)
_SEARCHES = re.compile(r"search|grep|glob|find|list|\bls$|exists|check|status|diff", re.IGNORECASE)
_ASKS = re.compile(
    r"(?:[\w.-]*[_.-])?(?:read|get|fetch|load|query|select|sql|lookup|look|export|download|retrieve|"
    r"browse|scrape|recall|extract|ask|delegate|describe|show|view|open|list|search|find|grep|glob|run_query)"
    r"(?:$|[_.-])|(?:Read|Get|Fetch|Query|Load|List|Search|Find|Grep|Glob)|(?:.*[Aa]gent|[Tt]ask)$|.*(?:_sql|_query)$"
)
_LOOKING = re.compile(
    r"(?:awk|cat|cut|diff|echo|egrep|fgrep|find|grep|head|journalctl|jq|less|ls|more|nl|printf|pwd|rg|"
    r"sed|sort|tail|tree|type|uniq|wc|which|file|stat|du|df|env|date|sleep|true|cd|test|ps|whoami|"
    r"git (?:-\S+ )*(?:diff|log|show|blame|grep|status|branch|ls-files))\b"
)
_CHANGING = re.compile(
    r"(?:^|\s)(?:-i\b|-delete\b|-exec\b|--in-place)|(?<![0-9&])>(?!\s*/dev/null|&)"
)
_TESTING = re.compile(
    r"(?:\w+=\S* )*(?:npx |uv run |poetry run |python3? -m |bundle exec )?(?:"
    r"pytest|unittest|tox|nox|jest|vitest|mocha|ava|rspec|phpunit|ctest|"
    r"playwright test|cypress run|"
    r"(?:go|cargo|dotnet|bun|deno|swift|mix|bazel|flutter|gradle|\./gradlew|mvn|sbt) (?:\S+ )*test|"
    r"(?:npm|yarn|pnpm)(?: run)? test\S*|make (?:check|test\S*))\b"
)
_DATA = re.compile(
    r"(?:cat|printenv|getent|curl|wget|http|jq|yq|psql|mysql|sqlite3|mongosh|redis-cli|aws|gcloud|az|kubectl|gh|docker|"
    r"podman|terraform|head|tail|awk|cut|sort|uniq|xmllint|zcat|gunzip|strings|"
    r"git (?:log|show|ls-files|describe|rev-parse|config))\b"
)
_PRINTING = re.compile(r"(?:cat|head|tail|less|more|zcat)\b")
_SEARCHING = re.compile(r"(?:grep|egrep|rg|ag|find|fd|ls|diff|git (?:grep|diff|status))\b")
_CD = re.compile(
    r"(?:builtin )?(?:cd|pushd|chdir|Set-Location|sl)\s+(?!-\s*$)(?:--\s+)?[\"']?([^\s\"';&|]+)"
)
_MOVES = re.compile(
    r"(?:[\w.-]*[_.-])?(?:cd|chdir|change_?dir(?:ectory)?|set_?(?:cwd|working_?dir(?:ectory)?))$",
    re.IGNORECASE,
)
_CHDIR = re.compile(r"\b(?:os|process)\.chdir\(\s*[\"']([^\"']+)")
_REMOVES = re.compile(r"(?:sudo )?(?:rm|mv|rmdir|unlink|git rm|git mv|Remove-Item|Move-Item)\s")


_ASIDE = re.compile(
    r"git (?:stash(?:\s*$| (?:push|save|-u|--\S+))|reset --hard|clean -\S*f|"
    r"restore \.|checkout (?:-- )?\.)"
)
_SWITCHES = re.compile(r"git (?:checkout|switch) (?:--detach |-f )?(?!-|\.|\S*\.[A-Za-z]\w*$)\S+$")
_BACK = re.compile(r"git stash (?:pop|apply|branch)\b")


def work_of(call: CallFacts) -> str:
    """Return the tool of a call; of a shell the program that it ran last."""
    parts = parts_of(command_of(call.call) or "")
    return parts[-1].split()[0] if parts else call.name


def runs_tests(call: CallFacts) -> bool:
    """Return whether a call runs tests."""
    command = command_of(call.call)
    if not command:
        return "test" in call.name.lower()
    return any(_TESTING.match(part) for part in parts_of(command))


def changes_nothing(call: CallFacts) -> bool:
    """Return whether a call only looks, or only runs tests."""
    command = command_of(call.call)
    if not command:
        return _LOOKS.match(call.name) is not None or runs_tests(call)
    return all(
        (_LOOKING.match(part) or _TESTING.match(part)) and not _CHANGING.search(part)
        for part in parts_of(command)
    )


def asks_for_data(call: CallFacts) -> bool:
    """Return whether a call asks for data, and does not search, which may well find nothing."""
    return _asks(call) == "data"


def asks(call: CallFacts) -> bool:
    """Return whether a call asks for something: for data, or by a search."""
    return _asks(call) is not None


@lru_cache(1024)
def _name_asks(name: str) -> str | None:
    if not _ASKS.match(name):
        return None
    return "search" if _SEARCHES.search(name) else "data"


def _asks(call: CallFacts) -> str | None:
    command = command_of(call.call)
    if not command:
        return _name_asks(call.name)
    last = parts_of(command)[-1:]
    if not last or _CHANGING.search(last[0]):
        return None
    pipes = [pipe.strip() for pipe in last[0].split("|")]
    if any(_SEARCHING.match(pipe) for pipe in pipes):
        return "search"
    if len(pipes) == 1 and _PRINTING.match(pipes[0]) and _as_text(call.result).strip():
        return None  # an empty object, say, is what the file holds
    return "data" if _DATA.match(pipes[0]) else None


def _as_text(result: object) -> str:
    return result if isinstance(result, str) else ""


_TRIES = re.compile(
    r"(?:test|\[|which|command -v|type|pgrep|grep|egrep|fgrep|rg|ag|git grep|cmp|diff)\s"
)


def searches(call: CallFacts) -> bool:
    """Return whether a call ends with a program that fails where it finds nothing."""
    last = parts_of(command_of(call.call) or "")[-1:]
    return bool(last) and _TRIES.match(last[0].rpartition("|")[2].strip()) is not None


_QUERIES = re.compile(r"sql|query|search|grep", re.IGNORECASE)
_OPTIONS = re.compile(r"(?<!\S)--?[A-Za-z]\S*")


def same_question(call: CallFacts, other: CallFacts) -> bool:
    """Return whether a call asks what another one asked, in other words or with other options."""
    command, again = command_of(call.call), command_of(other.call)
    if call.name != other.name:
        return False
    if command and again:
        return _OPTIONS.sub("", command).split() == _OPTIONS.sub("", again).split()
    return not command and _QUERIES.search(call.name) is not None


_FILES = re.compile(r"grep|glob|file|code|dir|path|\bls$|todo", re.IGNORECASE)


def looks_up(call: CallFacts) -> bool:
    """Return whether a tool looks something up that is no file."""
    return asks(call) and not _FILES.search(call.name)


def directory_of(call: CallFacts) -> str | None:
    """Return the directory to which a call goes, and stays there; None if it goes nowhere."""
    arguments = (call.edit or call.call).arguments
    if _MOVES.match(call.name) and is_json_object(arguments):
        return next((each for each in arguments.values() if isinstance(each, str)), None)
    command = command_of(call.call)
    if not command or not any(
        word in command for word in ("cd ", "pushd", "chdir", "ocation", "sl ")
    ):
        return None
    found = [match[1] for part in parts_of(command) if (match := _CD.match(part))]
    if not found:
        return match[1] if (match := _CHDIR.search(command)) else None
    return None if found[-1].startswith("-") else found[-1]


def removed_by(call: CallFacts) -> set[str]:
    """Return the names of the files that a call removes or moves."""
    command = command_of(call.call) or ""
    found: set[str] = set()
    may_remove = any(word in command for word in ("rm", "mv", "unlink", "-Item"))
    for part in parts_of(command) if may_remove else ():
        if (match := _REMOVES.match(part)) is not None:
            words = [word.strip("\"'").rstrip("/") for word in part[match.end() :].split()]
            named = [word.rpartition("/")[2] for word in words if not word.startswith("-")]
            found.update(named[:-1] if "mv" in match[0] or "Move" in match[0] else named)
    return found - {"", ".", "..", "*"}


def puts_aside(call: CallFacts) -> bool:
    """Return whether a call puts aside, or throws away, what was changed in a work tree."""
    command = command_of(call.call) or ""
    return "git " in command and any(_ASIDE.match(part) for part in parts_of(command))


def switches_branch(call: CallFacts) -> bool:
    """Return whether a call goes to another branch or commit; a new branch has the same files."""
    command = command_of(call.call) or ""
    return "git " in command and any(_SWITCHES.match(part) for part in parts_of(command))


def takes_back(call: CallFacts) -> bool:
    """Return whether a call takes back what was put aside."""
    command = command_of(call.call) or ""
    return "git stash" in command and any(_BACK.match(part) for part in parts_of(command))
