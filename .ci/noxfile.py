"""The checks of this repository, one session each. Continuous integration calls the same ones.

    pip install nox uv
    nox -f .ci/noxfile.py                         # the quick tier
    nox -f .ci/noxfile.py -l                      # the other sessions
    nox -f .ci/noxfile.py -s lint types docs
    nox -f .ci/noxfile.py -s whole -- -x tests/contract

Each session has an environment of its own in `.nox`, which its next run uses again. With uv it is
made in seconds. What stands after `--` goes to pytest.
"""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

OLDEST = "3.11"
"""The Python of the lowest versions."""

NEWEST = "3.14"
"""The newest Python that is released."""

QUICK = ("-m", "not server and not slow", "-n", "auto")

INTEGRATIONS = ("tests/integrations", "tests/browser", "tests/unit/providers/litellm")

SMOKE = (
    "tests/golden",
    "tests/contract/test_sqlite.py",
    "tests/contract/test_async.py",
    "tests/conformance",
    "tests/acceptance/test_readme.py",
    "tests/unit/test_public_names.py",
)
"""What is run on a Python whose neighbours on both sides get the quick tier."""

SERVER_STORAGES = (
    "tests/golden",
    "tests/contract/test_on_servers.py",
    "tests/unit/storage/postgresql",
)
"""What depends on the version of a server's driver."""

GALERA = ("tests/contract", "tests/torture", "tests/unit/storage")
"""The folders whose tests may ask for a cluster of MariaDB or MySQL."""

SDK_TESTS = (
    "tests/properties/test_sdk_types.py",
    "tests/unit/providers/test_client_members.py",
)
"""What depends on the types of the SDKs, of which users may have older versions."""

GITHUB_FILES = {
    "citation-file-format": ".github/CITATION.cff",
    "dependabot": ".github/dependabot.yml",
    "github-workflows": ".github/workflows/*.yml",
}
"""The schemas of check-jsonschema, which come with it, and the files that have that form."""

STOPPING_SECONDS = 30.0

IMPORT_ALL = """
import importlib, pkgutil, eventstore, projections
for package in (eventstore, projections):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if ".integrations." not in module.name:
            importlib.import_module(module.name)
"""

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.download_python = "never"
nox.options.envdir = str(ROOT / ".nox")
nox.options.error_on_missing_interpreters = True
nox.options.reuse_venv = "yes"
nox.options.sessions = ["quick"]


@nox.session
def quick(session: nox.Session) -> None:
    """Test all that needs no server and takes no seconds: while you write code."""
    _install(session, "test")
    _pytest(session, *QUICK)


@nox.session
def whole(session: nox.Session) -> None:
    """Run all tests, long ones too with `TOOLLEDGER_LONG=1`: before a change lands."""
    _install(session, "test")
    _pytest(session, "-n", "auto")


@nox.session
def lint(session: nox.Session) -> None:
    """Check the source by ruff, and the form of the findings and of what GitHub reads."""
    session.chdir(ROOT)
    session.install(*map(_checker, ("ruff", "check-jsonschema", "zizmor")))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("python", ".ci/findings.py")
    for schema, files in GITHUB_FILES.items():
        found = sorted(map(str, ROOT.glob(files)))
        session.run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *found)
    session.run("zizmor", "--offline", "--no-progress", ".github")


@nox.session
def api(session: nox.Session) -> None:
    """Compare the public API with that of the last release; see `.ci/api.py`."""
    session.chdir(ROOT)
    session.install(_checker("griffe"))
    session.run("python", ".ci/api.py")


@nox.session
def contracts(session: nox.Session) -> None:
    """Check the arrows between the rooms by import-linter."""
    _install(session, also=(_checker("import-linter"),))
    session.run("lint-imports")


@nox.session
@nox.parametrize("checker", ["mypy", "pyright"], ids=["mypy", "pyright"])
def types(session: nox.Session, checker: str) -> None:
    """Check the types of the packages and of typical use, by mypy and by pyright."""
    _install(session, "test", "check")
    session.run(checker)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the pages of the documentation in `site`, or the folder after `--`; warnings fail."""
    _install(session, "docs")
    folder = Path(session.invoked_from, *(session.posargs or ["site"]))
    # With `-q` mkdocs counts no warnings, and `--strict` means nothing.
    command = ("mkdocs", "build", "--strict", "-f", ".mkdocs.yml", "-d", str(folder))
    session.run(*command, env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
def integrations(session: nox.Session) -> None:
    """Test every agent framework in its newest version, and the pages in Chromium."""
    _install(session, "test-integrations", "test-browser")
    _pytest(session, "-n", "auto", *INTEGRATIONS)


@nox.session
def release(session: nox.Session) -> None:
    """Test what users get, as they run it: the wheel, the examples, the tutorial, benchmarks."""
    _install(session, "test")
    _pytest(session, "-n", "auto", "tests/release")


@nox.session
def distribution(session: nox.Session) -> None:
    """Build what is released into `dist`; after `--` the tag that it is released as."""
    if session.posargs:
        _check_tag(session, *session.posargs)
    session.chdir(ROOT)
    session.install("build", "twine")
    session.run("python", "-c", "import shutil; shutil.rmtree('dist', ignore_errors=True)")
    session.run("python", "-m", "build", "--outdir", "dist")
    session.run("twine", "check", "--strict", *map(str, sorted(ROOT.glob("dist/*"))))


@nox.session
def cluster(session: nox.Session) -> None:
    """Test a cluster of PostgreSQL that fails over, in network namespaces, as root."""
    _install(session, "test-cluster")
    _pytest(session, "tests/torture/test_cluster.py")


@nox.session
def galera(session: nox.Session) -> None:
    """Test clusters of MariaDB (Galera) and of MySQL, in network namespaces, as root."""
    _install(session, "test")
    _pytest(session, "-m", "galera", *GALERA)


@nox.session
def messages(session: nox.Session) -> None:
    """Test what further frameworks save, each in its newest version."""
    _install(session, "test-messages")
    _pytest(session, "tests/unit/importers/test_written_by_frameworks.py")


@nox.session(python=NEWEST)
def seals(session: nox.Session) -> None:
    """Have seals checked by a program of others, on a Python that it runs on."""
    _install(session, "test-seals")
    _pytest(session, "tests/unit/seals/test_other_programs.py")


@nox.session(name="python", python=["3.11", "3.12", "3.13", "3.14", "3.15"])
def on_python(session: nox.Session) -> None:
    """Run the quick tier on one version of Python: `-s python-3.14`."""
    _install(session, "test")
    _pytest(session, *QUICK)


@nox.session(python=["3.11", "3.12", "3.13", "3.14", "3.15"])
def smoke(session: nox.Session) -> None:
    """Test every import, the stored format and the contracts on one version of Python."""
    _install(session, "test")
    session.run("python", "-W", "error::SyntaxWarning", "-c", IMPORT_ALL)
    _pytest(session, "-m", "not server and not slow", *SMOKE)


@nox.session(python=OLDEST)
def lowest(session: nox.Session) -> None:
    """Run the quick tier and the servers' storages with the lowest versions that we declare."""
    # Not in `create_tmp()`, which would be the tests' folder, too: their sockets need short paths.
    pins = Path(session.virtualenv.location, "lowest.txt")
    minimum = runpy.run_path(str(ROOT / ".ci" / "minimum.py"))
    floors = minimum["floors"](PROJECT)
    pins.write_text("\n".join(floors), "utf-8")
    session.log("pins: %s", ", ".join(floors))
    _install(session, "test", also=("-c", str(pins)))
    _pytest(session, *QUICK)
    _pytest(session, "-n", "auto", "-m", "server and not slow", *SERVER_STORAGES)
    session.install(*minimum["sdks"](PROJECT))
    _pytest(session, "-n", "auto", *SDK_TESTS)


@nox.session
def mutation(session: nox.Session) -> None:
    """Try a sample of small changes to the source, which the tests must notice."""
    _install(session, "test")
    session.run("python", ".ci/mutation.py", *session.posargs)


@nox.session
def beside(session: nox.Session) -> None:
    """Measure the same work by the libraries that one would pick instead."""
    session.chdir(ROOT)
    session.install("-r", "benchmarks/beside/requirements.txt", ".")
    session.run("python", "benchmarks/beside/compare.py", *session.posargs)


@nox.session
def scale(session: nox.Session) -> None:
    """Measure a log of 10,000,000 events beside one of 10,000."""
    _install(session)
    session.run("python", "benchmarks/scale.py", *session.posargs)


def _install(session: nox.Session, *extras: str, also: tuple[str, ...] = ()) -> None:
    """Install the checkout, editable, and go to its folder."""
    session.chdir(ROOT)
    session.install("-e", f".[{','.join(extras)}]" if extras else ".", *also)


def _pytest(session: nox.Session, *options: str) -> None:
    """Run tests; when they are interrupted, let them stop their servers."""
    command = ("pytest", "-q", *options, *session.posargs)
    session.run(*command, interrupt_timeout=STOPPING_SECONDS, terminate_timeout=STOPPING_SECONDS)


def _check_tag(session: nox.Session, tag: str) -> None:
    """Refuse a tag that is not the version of this checkout, or has no day in the changelog."""
    version = PROJECT["version"]
    if tag != f"v{version}":
        session.error(f"the tag is {tag}, and pyproject.toml has {version}: they have to be equal")
    changelog = (ROOT / "docs" / "changelog.md").read_text("utf-8")
    if not re.search(rf"^## {re.escape(version)}, \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        session.error(f"docs/changelog.md has no heading `## {version}, YYYY-MM-DD`: write it")


def _checker(name: str) -> str:
    """Return the requirement of one checker, as the extra `check` has it."""
    (found,) = (one for one in PROJECT["optional-dependencies"]["check"] if one.startswith(name))
    return str(found)
