"""The rules: what `why` looks for, one line each. The documentation lists this table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from projections.debugging.rules import ends, errors, log, places, repeats, results
from projections.debugging.rules.evidence import Cause, Evidence

Find: TypeAlias = Callable[[Evidence, int], Iterator[Cause]]


class CauseRule(msgspec.Struct, frozen=True):
    """A rule: its name, what it looks for, its weight, the function over the facts, an example.

    The function is given the weight, and lowers or raises it for what it finds. A `hint` is told
    only beside a cause of another rule, or where the run did not end well: by itself, what it finds
    is ordinary.
    """

    name: str
    looks_for: str
    weight: int
    find: Find
    example: str
    hint: bool = False


RULES: tuple[CauseRule, ...] = (
    CauseRule(
        "run ended",
        "the end of a run that did not complete",
        95,
        ends.run_ended,
        "the run ended with `401 invalid x-api-key`",
    ),
    CauseRule(
        "limit reached",
        "a usage limit after which nothing was done",
        96,
        ends.limit_reached,
        "the limit of 3 requests is reached at the fourth",
    ),
    CauseRule(
        "not whole",
        "a response that was cut off, withheld or malformed, or ended by an error",
        76,
        ends.not_whole,
        "the last answer ends with the finish reason `length`",
    ),
    CauseRule(
        "unanswered",
        "a call without an end: it started, it waits, or the model went on without it",
        91,
        ends.unanswered,
        "`deploy` started, and the process was killed",
    ),
    CauseRule(
        "refused",
        "a refusal; it weighs more where the model went on as if nothing had happened",
        69,
        ends.refused,
        "`npm install` is refused, and `npm test` is called all the same",
    ),
    CauseRule(
        "refused, then settled",
        "a refusal after which the user said what to do, and the run went on with it",
        50,
        ends.refused_then_settled,
        "`git push` is refused, the user asks for a branch, and it is pushed",
        hint=True,
    ),
    CauseRule(
        "failed",
        "an error that no later success mended; the heavier, the less the model can mend it",
        56,
        errors.failed,
        "`npm publish` fails with `error TS2305`",
    ),
    CauseRule(
        "failed in passing",
        "an error of ordinary work: a search without a find, a look, an edit that was made anew",
        56,
        errors.failed_in_passing,
        "`ls node_modules` fails, and the work goes on with `npm ci`",
        hint=True,
    ),
    CauseRule(
        "never gave way",
        "a limit, or credentials, refused in several words up to the end",
        80,
        errors.never_gave_way,
        "`429`, then `quota exceeded`, then the answer that it is not possible now",
    ),
    CauseRule(
        "server died",
        "a server, port or tool of which every call fails to connect from some version on",
        80,
        errors.server_died,
        "`mcp__db__query` answers twice, then `Connection closed` four times",
    ),
    CauseRule(
        "wrong directory",
        "a change of the directory after which calls miss their files",
        80,
        places.wrong_directory,
        "`cd build` succeeds, then `cat src/app.py: No such file or directory`",
    ),
    CauseRule(
        "taken away",
        "a command that removed, or moved, what later calls miss",
        66,
        places.taken_away,
        "`mv src/db.py lib/`, then `can't open file 'src/db.py'`",
    ),
    CauseRule(
        "put aside",
        "a command that put changes aside, or threw them away, before calls that want them",
        66,
        places.put_aside,
        "`git stash`, no `git stash pop`, then `nothing to commit`",
    ),
    CauseRule(
        "another branch",
        "a change of the branch after which calls miss their files",
        68,
        places.another_branch,
        "`git checkout release-1.0`, then `cat src/new.py: No such file or directory`, and more",
    ),
    CauseRule(
        "loop",
        "calls repeated with the same arguments, and cycles",
        89,
        repeats.loop,
        '`search {"q": "x"}` eleven times',
    ),
    CauseRule(
        "called again",
        "a few equal calls, whose answer changed",
        48,
        repeats.called_again,
        "`status` is `pending`, `pending`, `ready`",
        hint=True,
    ),
    CauseRule(
        "flaky",
        "a call that passes and fails by turns, with nothing changed between",
        84,
        repeats.flaky,
        "`pytest` fails, passes and fails, and no file was written",
    ),
    CauseRule(
        "passed by chance",
        "a test that failed, and passed when it ran again with nothing changed",
        52,
        repeats.passed_by_chance,
        "`npm test` fails, and passes at once when it runs again",
        hint=True,
    ),
    CauseRule(
        "done again",
        "changes that the model made again, after a compaction had taken them from its sight",
        76,
        repeats.done_again,
        "the past is summarised, and `migrate` runs a second time",
    ),
    CauseRule(
        "looked again",
        "what the model looked at again after a compaction",
        40,
        repeats.looked_again,
        "the past is summarised, and the same files are read again",
        hint=True,
    ),
    CauseRule(
        "misplaced result",
        "a result that answers no call or another tool's, or a second result",
        78,
        log.misplaced,
        "`call_7` has two results",
    ),
    CauseRule(
        "arguments break off",
        "arguments that are no JSON object",
        77,
        results.arguments_break_off,
        '`{"path": "a.py", "text": "def ma`',
    ),
    CauseRule(
        "result breaks off",
        "a result that is JSON without its end",
        72,
        results.result_breaks_off,
        '`{"orders": [{"id": 1}, {"id"`',
    ),
    CauseRule(
        "names another",
        "a result that names another value for an argument",
        70,
        results.names_another,
        '`find_order {"order_id": "A-7"}` gets `{"order_id": "B-9"}`',
    ),
    CauseRule(
        "swapped",
        "two calls of one turn of which each got the other's result",
        86,
        results.swapped,
        '`weather {"city": "Lyon"}` gets that of Oslo, and the other way round',
    ),
    CauseRule(
        "same for another",
        "the same data for other arguments",
        12,
        results.same_for_another,
        "pages 1 and 2 of a list are equal",
    ),
    CauseRule(
        "built on nothing",
        "empty data on which the rest was built: what came of it was empty, or failed",
        83,
        results.built_on_nothing,
        "`cat users.csv` prints nothing, then `imported 0 rows`",
    ),
    CauseRule(
        "found nothing",
        "a question that gave back nothing, after which the run went on",
        34,
        results.found_nothing,
        "`grep -rn API_KEY src` prints nothing, and the key is deleted",
        hint=True,
    ),
    CauseRule(
        "large result",
        "one result of 200,000 characters or more that stands out",
        84,
        results.large,
        "a log file of 900,000 characters is read whole",
    ),
    CauseRule(
        "unreadable",
        "events that do not fit the log",
        72,
        log.unreadable,
        "a completion of a call that was never asked for",
    ),
)
"""The rules of `why`."""
