"""Servers that open a store and a projector, and then fork their workers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
from integrations.scenes import TESTS
from support import unmeasured
from support.frameworks import required
from support.projected_logs import check
from support.tiers import also_long

required("gunicorn")
required("celery")

from integrations.celery_queue import queue_in

from eventstore import EventStore
from eventstore.testing import run_concurrently
from projections import Projector

WORKERS, CLIENTS, ROUNDS = 3, 6, 4


@pytest.fixture(params=also_long(["sqlite", "postgresql"], ["mariadb"]))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where the log is, of each engine in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/log.db"
    found: str = request.getfixturevalue(request.param).database(migrated=True)
    return found


@contextmanager
def served(url: str, *command: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """Run a server of workers, which must end well when it is told to."""
    path = f"{TESTS}{os.pathsep}{TESTS.parent}"
    environment = {"PYTHONPATH": path, "PLAY_FORKED_URL": url, **more}
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        env={**unmeasured.environment(), **environment},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


def check_log(url: str, asked: int) -> None:
    """Assert that the log has all calls, and that its tables are those of the log."""
    with EventStore.open(url) as store, Projector(store) as projector:
        assert list(store.verify()) == []
        projector.catch_up()
        assert len([*projector.tools()]) == asked + 1  # that of the parent
        check(projector, store)


def test_workers_of_gunicorn(url: str) -> None:
    """With `--preload`: no answer is wrong, also those of a worker that is forked later."""
    options = ("--preload", "--workers", str(WORKERS), "--bind", "127.0.0.1:0")
    with served(url, "gunicorn", "integrations.play_gunicorn:app", *options) as server:
        assert server.stderr is not None
        listening = (
            re.search(r"Listening at: http://127\.0\.0\.1:(\d+)", x) for x in server.stderr
        )
        port = int(next(found[1] for found in listening if found))

        def ask(name: str) -> list[list[int]]:
            answers = []
            for _ in range(ROUNDS):
                connection = HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request("GET", f"/{name}")
                answer = connection.getresponse()
                body = answer.read().decode()
                assert answer.status == 200, body
                answers.append(json.loads(body))
                connection.close()
            return answers

        names = [f"client-{number}" for number in range(CLIENTS)]
        seen: set[int] = set()
        for times in range(2):
            expected = [*range(times * ROUNDS + 1, (times + 1) * ROUNDS + 1)]
            for answers in run_concurrently(*(lambda n=name: ask(n) for name in names)):  # type: ignore[misc]
                assert [calls for _, calls in answers] == expected
                seen |= {worker for worker, _ in answers}
            if not times:
                assert len(seen) > 1
                os.kill(min(seen), signal.SIGKILL)  # the next one comes from the same parent
        assert server.pid not in seen
    check_log(url, 2 * CLIENTS * ROUNDS)


def test_workers_of_celery(url: str, tmp_path: Path) -> None:
    """The pool `prefork`: no answer is wrong, and the workers end well."""
    queue = queue_in(tmp_path / "queue")
    options = ("--pool", "prefork", "--concurrency", str(WORKERS), "--without-mingle")
    command = (
        "celery",
        "-A",
        "integrations.play_celery",
        "worker",
        *options,
        "--loglevel",
        "error",
    )
    with served(url, *command, PLAY_FORKED_QUEUE=str(tmp_path / "queue")):
        seen: set[int] = set()
        for times in range(ROUNDS):
            names = [f"client-{number}" for number in range(CLIENTS)]
            sent = [queue.send_task("integrations.play_celery.play", [name]) for name in names]
            for opened_by, worker, calls in (task.get(timeout=120) for task in sent):
                assert opened_by != worker
                assert calls == times + 1
                seen.add(worker)
        assert len(seen) > 1
    check_log(url, CLIENTS * ROUNDS)
