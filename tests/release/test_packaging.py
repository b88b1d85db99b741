"""The wheel, the sdist and the editable install are complete, and importing is quick and silent."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import NamedTuple

import pytest
from support import unmeasured

import eventstore
import projections

ROOT = Path(__file__).parents[2]

# Opens a store, which runs the migrations, and tells where the code came from.
OPEN = """
import eventstore, projections
with eventstore.EventStore.open("sqlite:///opened.db") as store:
    store.conversation("first").add_message("user", "hello")
    assert len(list(store.read())) == 1
print(eventstore.__file__, projections.__file__, sep="\\n")
"""

# Imports one package and tells which of the slow or noisy modules came with it.
IMPORT = """
import sys, {package}
sys.stderr.write(" ".join(sorted({slow!r} & set(sys.modules))))
"""
SLOW = {"alembic", "asyncio", "openai", "rich", "sqlalchemy", "sqlite3", "typer"}


built = pytest.mark.slow
"""Tests of what is built, which takes seconds."""


class Dist(NamedTuple):
    """The archives that one build made."""

    wheel: Path
    sdist: Path | None = None


def run(
    *command: str | Path, cwd: Path, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command of this interpreter, with `path` in front of its modules, and no coverage."""
    environment = unmeasured.environment()
    environment.pop("PYTHONPATH", None)
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=environment | {"PYTHONDONTWRITEBYTECODE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def build(outdir: Path, *options: str) -> Dist:
    """Build the checkout with the build backend of this environment."""
    run("-m", "build", "--no-isolation", *options, "--outdir", outdir, ROOT, cwd=outdir.parent)
    (wheel,) = outdir.glob("*.whl")
    return Dist(wheel, next(outdir.glob("*.tar.gz"), None))


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Dist:
    """Return the wheel built from the checkout."""
    return build(tmp_path_factory.mktemp("direct"), "--wheel")


@pytest.fixture(scope="module")
def through_sdist(tmp_path_factory: pytest.TempPathFactory) -> Dist:
    """Return the sdist, and the wheel built from it."""
    return build(tmp_path_factory.mktemp("through_sdist"))


def files(wheel: Path) -> set[str]:
    """Return the names of the files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def checkout(*folders: str) -> set[str]:
    """Return the files of the checkout below those folders, compiled ones left out."""
    return {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@built
def test_the_wheel_holds_code_types_schema_and_licence(direct: Dist) -> None:
    """The wheel has every module, both type markers, every migration, and nothing else."""
    code = {name for name in files(direct.wheel) if ".dist-info/" not in name}
    migrations = {f"eventstore/{name}" for name in checkout("migrations")}
    assert code == checkout("eventstore", "projections") | migrations
    assert {"eventstore/py.typed", "projections/py.typed", "eventstore/migrations/env.py"} <= code
    assert "toolledger-0.1.0.dist-info/licenses/LICENSE" in files(direct.wheel)


@built
def test_both_wheels_are_the_same(direct: Dist, through_sdist: Dist) -> None:
    """A wheel built from the sdist equals one built from the checkout."""
    assert files(direct.wheel) == files(through_sdist.wheel)


@built
def test_the_sdist_holds_what_the_tests_need(through_sdist: Dist) -> None:
    """A packager finds sources, schema, tests and documents in it."""
    assert through_sdist.sdist is not None
    with tarfile.open(through_sdist.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = checkout("eventstore", "projections", "migrations", "tests")
    assert wanted | {"pyproject.toml", "README.md", "LICENSE"} <= names


@built
def test_the_metadata_names_the_command_and_the_extras(direct: Dist) -> None:
    """Installers and the package index read this metadata."""
    with zipfile.ZipFile(direct.wheel) as archive:
        metadata = HeaderParser().parsestr(
            archive.read("toolledger-0.1.0.dist-info/METADATA").decode()
        )
        scripts = archive.read("toolledger-0.1.0.dist-info/entry_points.txt").decode()
    assert (metadata["Name"], metadata["Requires-Python"]) == ("toolledger", ">=3.11")
    extras = set(metadata.get_all("Provides-Extra", []))
    assert extras >= {"cli", "mysql", "postgresql", "sqlite", "test"}
    assert "toolledger = projections.cli:main" in scripts


def test_the_summary_and_the_first_screen_say_what_is_imported() -> None:
    """No package has the name of the distribution, so each says which two are imported."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    first_screen = "\n".join((ROOT / "README.md").read_text("utf-8").splitlines()[:20])
    for text in (project["description"], first_screen):
        assert all(name in text for name in ("toolledger", "eventstore", "projections"))


@built
@pytest.mark.parametrize("how", ["direct", "through_sdist"])
def test_an_installed_wheel_opens_a_store(
    how: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The installed code uses the migrations of the wheel."""
    site = tmp_path / "site"
    wheel = request.getfixturevalue(how).wheel
    run("-m", "pip", "install", "--no-deps", "--no-index", "--target", site, wheel, cwd=tmp_path)
    done = run("-c", OPEN, cwd=tmp_path, path=site)
    assert done.stdout.splitlines() == [
        str(site / "eventstore" / "__init__.py"),
        str(site / "projections" / "__init__.py"),
    ]
    assert done.stderr == ""


def test_the_checkout_opens_a_store(tmp_path: Path) -> None:
    """The code of the checkout uses the migrations beside its packages."""
    assert Path(eventstore.__file__) == ROOT / "eventstore" / "__init__.py"
    assert Path(projections.__file__) == ROOT / "projections" / "__init__.py"
    done = run("-c", OPEN, cwd=tmp_path, path=ROOT)
    assert done.stdout.splitlines() == [eventstore.__file__, projections.__file__]
    assert done.stderr == ""


@pytest.mark.parametrize("package", ["eventstore", "projections"])
def test_importing_is_quiet_and_light(package: str, tmp_path: Path) -> None:
    """An import prints nothing and loads no database, no event loop and no terminal library."""
    done = run(
        "-W", "error", "-c", IMPORT.format(package=package, slow=SLOW), cwd=tmp_path, path=ROOT
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_every_requirement_of_users_declares_its_lowest_version() -> None:
    """CI installs those versions; an extra that is new must not stop it."""
    pins = run(ROOT / ".ci" / "minimum.py", cwd=ROOT).stdout.split()
    assert {"sqlalchemy", "alembic", "msgspec", "xxhash"} <= {
        pin.partition("==")[0] for pin in pins
    }
    assert not [pin for pin in pins if pin.startswith("toolledger")]
