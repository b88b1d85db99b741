"""Print pip constraints that pin what users install to the lowest version that we declare.

    python .ci/minimum.py > constraints.txt && pip install -c constraints.txt -e ".[test]"

The dependencies and the extras for users are pinned; what tests and checks use is not. `sdks` pins
the SDKs whose objects are read, of which the tests declare the least version, too.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
NOT_FOR_USERS = {
    "check",
    "docs",
    "frameworks",
    "test",
    "test-browser",
    "test-cluster",
    "test-messages",
    "test-integrations",
    "test-seals",
}
SDKS = {"anthropic", "botocore", "cohere", "google-genai", "mistralai", "ollama", "openai"}
"""What users may have installed beside this package, for the messages of a provider."""
_FLOOR = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*>=\s*(?P<version>[0-9][0-9.]*)")


def floors(project: dict[str, object]) -> list[str]:
    """Return a constraint for each requirement of users.

    Raises:
        ValueError: a requirement declares no lowest version.
    """
    extras = project.get("optional-dependencies")
    found = list(_texts(project.get("dependencies")))
    if isinstance(extras, dict):
        for name, requirements in extras.items():
            found += _texts(requirements) if name not in NOT_FOR_USERS else ()
    return sorted(map(_floor, found))


def sdks(project: dict[str, object]) -> list[str]:
    """Return a constraint for each SDK whose objects are read: the least version of the tests."""
    extras = project.get("optional-dependencies")
    tested = _texts(extras.get("test")) if isinstance(extras, dict) else []
    names = (_FLOOR.match(requirement) for requirement in tested)
    return sorted(f"{m['name']}=={m['version']}" for m in names if m and m["name"] in SDKS)


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _floor(requirement: str) -> str:
    match = _FLOOR.match(requirement)
    if match is None:
        raise ValueError(f"{requirement!r} declares no lowest version: write NAME>=VERSION")
    return f"{match['name']}=={match['version']}"


if __name__ == "__main__":
    print("\n".join(floors(tomllib.loads(PROJECT.read_text("utf-8"))["project"])))
