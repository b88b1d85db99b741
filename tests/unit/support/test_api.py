"""The check of the public API against the last release, over a small repository of its own."""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path

import pytest

CHECK = runpy.run_path(str(Path(__file__).parents[3] / ".ci" / "api.py"))
FACE = """
from shop.orders import Order, find
from shop.rooms import Room

__all__ = ["Order", "find"]
"""
ORDERS = """
LIMIT = 1

class Order:
    def pay(self, cents: int, *, by: str = "") -> None: ...

def find(number: int, words: str = "") -> Order: ...

def unlisted(): ...
"""


class Repository:
    """A package `shop` under git, and a list of the breakages that are meant."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.meant = folder / "meant.txt"
        self.git("init", "-q")
        self.write("shop/__init__.py", FACE)
        self.write("shop/orders.py", ORDERS)
        self.write("shop/rooms.py", "class Room:\n    def lock(self): ...\n")
        self.write("meant.txt", "# none\n")

    def git(self, *words: str) -> None:
        """Run git, as somebody."""
        options = ["-c", "user.name=ann", "-c", "user.email=ann@localhost", "-c", "tag.gpgsign=0"]
        command = ["git", *options, "-c", "commit.gpgsign=0", *words]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)

    def write(self, name: str, text: str) -> None:
        """Write a file, and commit it."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        self.git("add", "-A")
        self.git("commit", "-qm", name)

    def check(self) -> int:
        """Return the status of the check."""
        status: int = CHECK["main"](self.folder, ["shop", "shop.rooms"], self.meant)
        return status


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return a repository without a release."""
    return Repository(tmp_path)


def test_without_a_release_there_is_nothing_to_compare(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """The check says so, and passes; a tag that is no release, and the one made now, are none."""
    repository.git("tag", "v1.0.0rc1")
    repository.write("shop/orders.py", "")
    repository.git("tag", "v1.0.0")
    assert repository.check() == 0
    assert "no release yet" in capsys.readouterr().out


def test_each_breakage_is_named_as_users_import_it(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each breakage has the name that users import; what is not public, or new, is none."""
    repository.git("tag", "v1.9.0")
    repository.git("tag", "v1.10.0")
    assert repository.check() == 0
    changed = ORDERS.replace("cents", "euros").replace(
        'words: str = ""', "words: str, new: int = 1"
    )
    repository.write("shop/orders.py", changed.replace("def unlisted", "def other"))
    repository.write("shop/__init__.py", FACE.replace('["Order", "find"]', '["find"]'))
    repository.write("shop/rooms.py", "class Room: ...\n")
    assert repository.check() == 1
    lines = [line.partition(";")[0] for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [
        "shop.Order.pay(cents): parameter was removed",
        "shop.Order.pay(euros): parameter was added as required",
        "shop.Order: it is not in __all__",
        "shop.find(words): parameter is now required",
        "shop.rooms.Room.lock: public object was removed",
        "api: 5 breakages since v1.10.0, 5 of them not allowed",
    ]


def test_a_breakage_that_is_meant_is_listed_until_the_release(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """A listed line passes; one that is not a breakage has to be taken out."""
    repository.git("tag", "v1.0.0")
    repository.write("shop/rooms.py", "class Room: ...\n")
    line = "shop.rooms.Room.lock: public object was removed"
    repository.write("meant.txt", f"{line}  # deprecated in 0.9\n")
    assert repository.check() == 0
    repository.git("tag", "v1.1.0")
    repository.write("shop/orders.py", ORDERS + "\n")
    assert repository.check() == 1
    assert f"{line}; it is not a breakage since v1.1.0: take the line out of meant.txt" in (
        capsys.readouterr().out
    )
