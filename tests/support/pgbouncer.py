"""pgbouncer before a PostgreSQL server (`apt-get install pgbouncer`)."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError
from support.servers import NOBODY_UID, PostgreSQL, required

START_SECONDS = 60
POOL_SIZE = 3
"""Sessions of the server in each pool: fewer than the clients that share them."""


@contextlib.contextmanager
def pooled(server: PostgreSQL, url: str, mode: str) -> Iterator[str]:
    """Start pgbouncer in `session` or `transaction` mode; give the URL that leads through it."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        if required("pgbouncer"):
            pytest.fail("pgbouncer is not installed")
        pytest.skip("pgbouncer is not installed")
    with tempfile.TemporaryDirectory(prefix="toolledger-pgbouncer-") as name:
        folder = Path(name)
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = int(found.getsockname()[1])
        size = POOL_SIZE if mode == "transaction" else 50
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": port,
            "unix_socket_dir": "",
            "auth_type": "any",
            "pool_mode": mode,
            "default_pool_size": size,
            "max_client_conn": 200,
        }
        address = server.address
        lines = [
            "[databases]",
            f"* = host={address.host} port={address.port} user={address.username}",
            "[pgbouncer]",
            *(f"{key} = {value}" for key, value in settings.items()),
        ]
        (folder / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
        user = NOBODY_UID if os.geteuid() == 0 else None
        if user is not None:
            os.chown(folder, user, user)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [program, str(folder / "pgbouncer.ini")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )
        through = make_url(url).set(host="127.0.0.1", port=port)
        text = through.render_as_string(hide_password=False)
        try:
            _wait_for(server, text, process, folder / "log")
            yield text
        finally:
            process.kill()
            process.wait()


def _wait_for(server: PostgreSQL, url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with server.connected(url) as connection:
                connection.exec_driver_sql("SELECT 1")
        except DBAPIError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(log.read_text(errors="replace")[-2000:]) from error
            time.sleep(0.05)
        else:
            return
