"""Check the form of the scripts in `findings`, without running any: `python .ci/findings.py`.

A script is executable, and says at its top, in comments, what was guessed, which versions of which
packages were run, when, and what they printed. `findings/README.md` has the form.
"""

from __future__ import annotations

import os
import re
import sys
from datetime import date
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "findings"

LABELS = ("Guess", "Package", "Date", "Output")

_LABEL = re.compile(rf"# (?P<label>{'|'.join(LABELS)}):(?P<text>.*)")
_PACKAGE = re.compile(r"(?P<name>@?[A-Za-z0-9][A-Za-z0-9._/-]*) (?P<version>[0-9][0-9A-Za-z.+-]*)")


def faults_of(path: Path) -> list[str]:
    """Return what the script lacks; nothing of it is run."""
    top, rest = _parts(path.read_text("utf-8"))
    faults = [] if os.access(path, os.X_OK) else ["it is not executable: chmod +x"]
    missing = [label for label in LABELS if not any(top.get(label, ()))]
    faults += [f"its top has no line `# {label}: ...`" for label in missing]
    for text in filter(None, top.get("Package", ())):
        package = _PACKAGE.fullmatch(text)
        if package is None:
            faults.append(f"`# Package: {text}` is no name and version, such as `openai 3.57.0`")
        elif not _installs(rest, package["name"], package["version"]):
            faults.append(f"nothing installs {package['name']} in version {package['version']}")
    faults += [f"`# Date: {text}` is no day" for text in top.get("Date", ()) if not _is_day(text)]
    return faults


def _parts(script: str) -> tuple[dict[str, list[str]], str]:
    """Return what stands behind each label at the top, and what follows the top.

    A text ends at the next label; its lines are put together.
    """
    lines = script.splitlines()
    end = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    texts: dict[str, list[str]] = {}
    last: list[str] = []
    for line in lines[:end]:
        if found := _LABEL.fullmatch(line):
            last = texts.setdefault(found["label"], [])
            last.append(found["text"].strip())
        elif last:
            last[-1] = f"{last[-1]} {line.lstrip('#').strip()}".strip()
    return texts, "\n".join(lines[end:])


def _installs(script: str, name: str, version: str) -> bool:
    """Return whether a script pins a version, as pip (`==`) or npm (`@`) takes it."""
    pin = rf"{re.escape(name)}(\[[^]]*\])?(==|@){re.escape(version)}(?![\w.])"
    return re.search(pin, script) is not None


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def main(folder: Path = FOLDER) -> int:
    """Print what the scripts lack; return whether there was anything."""
    scripts = sorted(folder.glob("*.sh"))
    faults = [f"{script.name}: {fault}" for script in scripts for fault in faults_of(script)]
    print("\n".join([*faults, f"findings: {len(scripts)} scripts, {len(faults)} faults"]))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
