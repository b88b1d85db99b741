"""Break the rooms that everything rests on, a little at a time, and see whether a test notices.

`python .ci/mutation.py [SAMPLE [SEED [ROOM …]]]` copies the repository, changes one comparison,
Boolean, number or operator of the copy, or leaves one statement out, and runs the room's tests. It
prints each change that no test noticed, and the share that was noticed. It fails below 85 %.
Changes that change nothing for anyone are listed in `SAME`, and not tried.

Without a seed (or with `-`) each room has one of its own, made from its files. So a room whose
files change is tried in other places. A change elsewhere, or a test that is added, meets the same
sample: no commit fails for a chance that is not its own, and a failure comes again until it is
mended.
"""

from __future__ import annotations

import ast
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

T = TypeVar("T", bound=ast.AST)

ROOT = Path(__file__).resolve().parent.parent
ENOUGH_PERCENT = 85
LIMIT_SECONDS = 240
"""Tests that take longer have noticed: the change made something wait for ever."""

_OF_OUTER_RUN = ("COV_", "COVERAGE_", "PYTEST_")
"""Beginnings of the variables that are meant for the run of tests around this script."""

ROOMS = {
    "fold": (
        [
            "eventstore/append/conversation_state.py",
            "eventstore/append/last_turn.py",
            "eventstore/append/staging.py",
            "eventstore/append/tool_fold.py",
        ],
        [
            "tests/unit/append",
            "tests/unit/test_conversation.py",
            "tests/unit/responses/test_cut_off_responses.py",
            "tests/unit/responses/test_response_recorded_twice.py",
        ],
    ),
    "append": (
        [
            "eventstore/append/group_commit.py",
            "eventstore/append/known_states.py",
            "eventstore/storage/sql/lane_counters.py",
            "eventstore/storage/sql/log_writer.py",
            "eventstore/storage/sql/seen_anchors.py",
            "eventstore/storage/sql/storage.py",
            "eventstore/storage/sql/transaction_notes.py",
            "eventstore/storage/sql/unanswered_commits.py",
            "eventstore/storage/sqlite/single_statement.py",
        ],
        [
            "tests/unit/append",
            "tests/unit/storage/sqlite",
            "tests/unit/storage/sql",
            "tests/unit/test_store.py",
        ],
    ),
    "codec": (
        ["eventstore/domain/codec.py"],
        ["tests/unit/domain", "tests/unit/test_nesting.py", "tests/golden"],
    ),
    "feed": (
        ["eventstore/subscriptions/feed.py"],
        ["tests/unit/subscriptions", "tests/unit/test_store.py"],
    ),
    "projector": (
        [
            "projections/projector/worker.py",
            "projections/projector/projected_log.py",
            "projections/projector/lane.py",
            "projections/projector/sift.py",
        ],
        ["tests/unit/projections/projector", "tests/properties/test_projector.py"],
    ),
    "repair": (
        ["projections/history/repair_history.py", "projections/history/collapse.py"],
        ["tests/unit/projections/history", "tests/properties/test_repair.py"],
    ),
}
"""For each room its files, and the tests nearest to it."""

SAME = {
    ("eventstore/append/known_states.py", "MAX_CACHED_STATES = 1024", "1024 -> 1025"): (
        "a state that is not in memory is read"
    ),
    (
        "eventstore/append/known_states.py",
        "for pending, outcome in zip(group, outcomes, strict=True):",
        "True -> False",
    ): "a storage answers each request",
    (
        "eventstore/append/staging.py",
        (
            "for given, event_id, occurred_at, salt in zip("
            "events, event_ids, all_times, salts, strict=True):"
        ),
        "True -> False",
    ): "each event has an id and a time, or was refused before",
    ("eventstore/append/known_states.py", "self._keep(state)", "self._keep(state) -> nothing"): (
        "a state that is not in memory is read"
    ),
    (
        "eventstore/append/known_states.py",
        "state = ConversationState(conversation_id, min(heads.values(), default=0))",
        "0 -> 1",
    ): "every storage has a lane",
    (
        "eventstore/domain/codec.py",
        (
            "if len(payload) > SHALLOW_SIZE and not measured "
            "and value_nests_too_deeply(stored, payload):"
        ),
        (
            "len(payload) > SHALLOW_SIZE and (not measured) and "
            "value_nests_too_deeply(stored, payload) -> "
            "len(payload) > SHALLOW_SIZE or not measured or value_nests_too_deeply(stored, payload)"
        ),
    ): "what is measured once more is refused only where it is too deep",
    (
        "eventstore/domain/codec.py",
        (
            "if len(payload) > SHALLOW_SIZE and not measured "
            "and value_nests_too_deeply(stored, payload):"
        ),
        "len(payload) > SHALLOW_SIZE -> len(payload) >= SHALLOW_SIZE",
    ): "a payload of that size cannot be too deep",
    (
        "eventstore/append/conversation_state.py",
        "if entry is None or _call_brought_by(event) is not None:",
        "entry is None -> entry is not None",
    ): "a call has the same digest however often it is made, and a first event brings its call",
    (
        "eventstore/append/conversation_state.py",
        "if recorded.version <= self.version:",
        "recorded.version <= self.version -> recorded.version < self.version",
    ): "the last event, taken in again, is illegal or says the same",
    (
        "eventstore/storage/sql/lane_counters.py",
        "self._written.note_end(lane, head)",
        "self._written.note_end(lane, head) -> nothing",
    ): "SQLite locks its only lane by itself; tests of the servers notice it",
    ("eventstore/storage/sql/storage.py", "connections.in_transaction = False", "False -> True"): (
        "the next append first rolls back a transaction that is not there"
    ),
    (
        "eventstore/domain/codec.py",
        "if tag in EVENT_CLASSES and schema < SCHEMAS[tag]:",
        "schema < SCHEMAS[tag] -> schema <= SCHEMAS[tag]",
    ): "a payload of the newest schema was decoded above",
    (
        "eventstore/subscriptions/feed.py",
        "class Cursor(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):",
        "False -> True",
    ): "the garbage collector looks at what is in no circle",
    (
        "eventstore/subscriptions/feed.py",
        "class Bookmark(msgspec.Struct, frozen=True, gc=False):",
        "False -> True",
    ): "the garbage collector looks at what is in no circle",
    ("eventstore/subscriptions/feed.py", "lane = -1", "1 -> 2"): "no lane has either number",
    (
        "eventstore/subscriptions/feed.py",
        "found = storage.anchors_at({lane: bookmark.positions.get(lane, 0) for lane in asked})",
        "0 -> 1",
    ): "a bookmark has a position for each of its anchors",
    (
        "eventstore/subscriptions/feed.py",
        "lane = recorded.lane",
        "lane = recorded.lane -> nothing",
    ): ("the bookmark is noted at each event, and is the same"),
    (
        "eventstore/subscriptions/feed.py",
        "self._bookmark = self._bookmark.after(page[-1:])",
        "1 -> 2",
    ): "a page is of one lane, and its last event counts",
    (
        "eventstore/subscriptions/feed.py",
        "bookmark.positions.get(lane, 0),",
        "0 -> 1",
    ): "a bookmark has a position for each of its anchors",
    (
        "projections/history/collapse.py",
        "if len(ended) > 1:",
        "len(ended) > 1 -> len(ended) >= 1",
    ): "one that ended alone is kept, and nothing is left out",
    (
        "projections/projector/projected_log.py",
        "next(self._feed(lane, at, 0, ((lane, kept),) if at else ()), None)",
        "0 -> 1",
    ): "an event is read, and passed over",
    (
        "projections/projector/worker.py",
        "self._lanes[generation, lane] = state",
        "self._lanes[generation, lane] = state -> nothing",
    ): "what is not in memory is read from the tables",
    (
        "projections/projector/worker.py",
        "remaining.rotate(_random.randrange(max(len(remaining), 1)))",
        "1 -> 2",
    ): "a queue of no lane or one is the same however far it is turned",
    (
        "projections/projector/projected_log.py",
        "if position > goal.position:  # perhaps another worker was faster",
        "position > goal.position -> position >= goal.position",
    ): "the log is asked once more where it ends, and ends where it did or later",
    (
        "projections/projector/projected_log.py",
        "if position >= goal.position:",
        "position >= goal.position -> position > goal.position",
    ): "no event is read, and the log is asked once more",
    (
        "projections/projector/projected_log.py",
        "if position > dict(self._store.end().positions).get(lane, 0):",
        "0 -> 1",
    ): "every lane has a counter",
}
"""Why a change of a line is none: by the file, the line and the change."""

_OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}


class Mutant(NamedTuple):
    """One change: the file, the line, what was there, and the whole file with the change."""

    path: str
    line: int
    change: str
    source: str

    @property
    def place(self) -> tuple[str, str, str]:
        """The file, the text of the line and the change, as `SAME` has them."""
        lines = (ROOT / self.path).read_text("utf-8").splitlines()
        return self.path, lines[self.line - 1].strip(), self.change


def mutants(path: str, source: str) -> Iterator[Mutant]:
    """Yield every change of a file; no two of them are made together."""
    for number in range(len(list(ast.walk(ast.parse(source))))):
        tree = ast.parse(source)
        node = list(ast.walk(tree))[number]
        for place, before, after in _changed(node):
            yield Mutant(path, _line(place), f"{before} -> {after}", ast.unparse(tree))


def _line(node: ast.AST) -> int:
    return node.lineno if isinstance(node, ast.expr | ast.stmt) else 0


def _changed(node: ast.AST) -> Iterator[tuple[ast.AST, str, str]]:
    """Change a node in place, in the one way that its kind allows; yield what was changed.

    Of a body, one statement after the other is left out.
    """
    before = ast.unparse(node) if isinstance(node, ast.expr) else ""
    if isinstance(node, ast.Compare):
        node.ops[0] = _opposite(node.ops[0])
    elif isinstance(node, ast.BoolOp):  # noqa: SIM114 - their operators differ in type
        node.op = _opposite(node.op)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPPOSITES:
        node.op = _opposite(node.op)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        node.value += 1
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
    elif isinstance(node, ast.FunctionDef | ast.If | ast.With | ast.For):
        yield from _left_out(node.body)
        return
    else:
        return
    yield node, before, ast.unparse(node)


def _opposite(operator: T) -> T:
    return cast("T", _OPPOSITES[type(operator)]())


def _left_out(body: list[ast.stmt]) -> Iterator[tuple[ast.AST, str, str]]:
    for place, statement in enumerate(body):
        is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        kinds = ast.Assign | ast.AugAssign | ast.Expr | ast.Raise
        if isinstance(statement, kinds) and not is_docstring:
            body[place] = ast.copy_location(ast.Pass(), statement)
            yield statement, ast.unparse(statement), "nothing"
            body[place] = statement


def survives(mutant: Mutant, copy: Path, tests: list[str]) -> bool:
    """Return whether the tests of the copy pass with the change."""
    path = copy / mutant.path
    whole = path.read_text("utf-8")
    path.write_text(mutant.source, "utf-8")
    try:
        return _passes(copy, tests)
    finally:
        path.write_text(whole, "utf-8")


def _passes(copy: Path, tests: list[str]) -> bool:
    options = ["-q", "-x", "-m", "not server and not slow", "-p", "no:cacheprovider"]
    # Options of the run that this one is part of, such as a limit of coverage, are not for it.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OF_OUTER_RUN)}
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=copy,
            env=kept | {"PYTHONPATH": str(copy)},
            capture_output=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def seed_of(sources: Iterable[str]) -> str:
    """Return a seed that is another one where the sources are."""
    return hashlib.sha256("\0".join(sources).encode()).hexdigest()[:8]


def main(sample: str = "60", seed: str = "-", *names: str) -> int:
    """Try a sample of changes, as many in each room; return whether too few were noticed."""
    rooms = {name: ROOMS[name] for name in names or ROOMS}
    survivors = tried = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        left_out = shutil.ignore_patterns(".git", ".*_cache", "__pycache__")
        shutil.copytree(ROOT, copy, ignore=left_out)
        for name, (files, tests) in rooms.items():
            if not _passes(copy, tests):
                raise SystemExit(f"{name}: its tests fail without any change")
            sources = {path: (ROOT / path).read_text("utf-8") for path in files}
            every = [one for path, source in sources.items() for one in mutants(path, source)]
            found = [one for one in every if one.place not in SAME]
            its_seed = seed_of(sources.values()) if seed == "-" else seed
            chance = random.Random(its_seed)  # noqa: S311 - a sample
            chosen = chance.sample(found, min(len(found), int(sample) // len(rooms)))
            alive = [one for one in chosen if survives(one, copy, tests)]
            for one in alive:
                print(f"{one.path}:{one.line}: {one.change}", flush=True)
            noticed = f"{len(chosen) - len(alive)} of {len(chosen)} were noticed"
            print(f"{name}, seed {its_seed}: {noticed}", flush=True)
            survivors, tried = survivors + len(alive), tried + len(chosen)
    score = 100 * (tried - survivors) / tried
    print(f"score: {score:.0f} %")
    return score < ENOUGH_PERCENT


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
