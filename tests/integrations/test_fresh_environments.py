"""Each integration in a fresh environment: as the docs install it, and at its lowest versions.

An environment takes up to a minute to install, so these tests run in the long tier only.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from integrations.docs_blocks import PAGE, blocks, section
from integrations.scenes import FRAMEWORKS
from support import unmeasured
from support.tiers import LONG

pytestmark = [
    pytest.mark.skipif(not LONG, reason="installs each framework twice: set TOOLLEDGER_LONG=1"),
    pytest.mark.timeout(1800),
]

ROOT = Path(__file__).parents[2]
RUNNERS = ["hypothesis>=6.100", "pytest>=8.2", "pytest-timeout>=2.3"]
"""What the scenes need beside the framework."""
BESIDE = {
    "agent_framework": ["mcp>=2.2,<3"],
    "langchain": ["langgraph-checkpoint-sqlite>=3.1"],
    "langgraph": ["langgraph-checkpoint-sqlite>=3.1"],
    "mcp": ["openai>=3.54"],
}
"""What the scenes of a framework need beside that."""


def run(*command: str | Path, cwd: Path) -> None:
    """Run a command that must succeed; its output explains a failure."""
    environment = unmeasured.environment()
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        command, check=False, cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"


class Environment:
    """A virtual environment of its own, with an empty folder to work in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.bin = folder / "venv" / "bin"
        run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)

    def install(self, *requirements: str) -> None:
        """Install packages."""
        run(self.bin / "pip", "install", "-q", *requirements, cwd=self.folder)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what a user installs, built of this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


def lowest(extra: str) -> list[str]:
    """Return the lowest versions that an extra declares, as pins."""
    spec = spec_from_file_location("minimum", ROOT / ".ci" / "minimum.py")
    assert spec is not None
    assert spec.loader is not None
    minimum = module_from_spec(spec)
    spec.loader.exec_module(minimum)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pins: list[str] = minimum.floors(
        {"optional-dependencies": {extra: extras["optional-dependencies"][extra]}}
    )
    return pins


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_docs_install_and_run_at_first_try(framework: str, wheel: Path, tmp_path: Path) -> None:
    """The command of the page installs it; its blocks run in an empty folder then."""
    name, _ = FRAMEWORKS[framework]
    (command,) = blocks("bash", section(PAGE, name))
    assert command == f'pip install "toolledger[{name}]"\n'
    environment = Environment(tmp_path)
    environment.install(f"{wheel}[{name}]")
    script = Path(__file__).with_name("docs_blocks.py")
    run(environment.bin / "python", script, PAGE, name, cwd=environment.folder)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_scenes_hold_at_the_lowest_versions(
    framework: str, wheel: Path, tmp_path: Path
) -> None:
    """All tests of the framework pass with the lowest version that its extra claims."""
    name, _ = FRAMEWORKS[framework]
    environment = Environment(tmp_path)
    needed = [f"{wheel}[{name}]", *lowest(name), *RUNNERS, *BESIDE.get(framework, ())]
    environment.install(*needed)
    tests = f"tests/integrations/test_{framework}.py"
    run(environment.bin / "pytest", "-q", "-p", "no:cacheprovider", tests, cwd=ROOT)
