"""The script that measures the size and the shape of the packages sees what is too large."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / ".ci" / "figures.py"


def seen(root: Path, files: dict[str, str]) -> set[str]:
    """Return the names of the figures that are above their limits in a tree of these files."""
    for name, text in {"tests/test_a.py": "", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    script = runpy.run_path(str(SCRIPT))
    script["figures"].__globals__["ROOT"] = root
    return {figure.name for figure in script["figures"]() if figure.fails}


METHODS = "\n".join(f"    def method_{number}(self): ..." for number in range(31))
SMALL = "x = 1\n" * 400
"""A file that makes one more `noqa` rare enough."""


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"eventstore/a.py": SMALL}, set()),
        ({"eventstore/a.py": "x = 1\n" * 501}, {"lines of a file"}),
        ({"eventstore/a.py": f"class A:\n{METHODS}\n"}, {"methods of a class"}),
        ({"eventstore/a.py": f"class A(Protocol):\n{METHODS}\n"}, set()),
        ({"eventstore/a.py": f"class Conversation:\n{METHODS}\n"}, set()),
        (
            {
                "eventstore/a.py": "class A: ...\nclass B(A): ...\n",
                "projections/b.py": "class C(B[int]): ...\nclass D(c.C): ...\n",
            },
            {"levels of a class"},
        ),
        (
            {
                "eventstore/a.py": "class A(Exception): ...\nclass B(A): ...\nclass C(B): ...\n"
                "class D(C): ...\n"
            },
            set(),
        ),
        (
            {f"eventstore/{letter}.py": "" for letter in "abcdefghijklm"}
            | {"projections/a.py": "x = 1\n"},
            {"files at eventstore's root"},
        ),
        (
            {
                "eventstore/a.py": "from eventstore import b\n",
                "eventstore/b.py": "import eventstore.a\n",
            },
            {"modules in a circle"},
        ),
        (
            {
                "eventstore/a.py": "from eventstore import b\n",
                "eventstore/b.py": "def f():\n    import eventstore.a\n",
            },
            set(),
        ),
        ({"eventstore/a.py": f"{SMALL}x = 1  # noqa: S101\n"}, {"noqa a thousand lines"}),
        (
            {"eventstore/a.py": f"{SMALL}x: Any = 1\n\ndef f(a: Any) -> dict[str, Any]: ...\n"},
            {"Any a thousand lines"},
        ),
    ],
)
def test_a_number_above_its_limit_fails(
    files: dict[str, str], found: set[str], tmp_path: Path
) -> None:
    """Each limit is exceeded by a small tree, and no other one is."""
    assert seen(tmp_path, files) == found
