"""The command line. It needs the extra `toolledger[cli]`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `toolledger` and exit with its status."""
    try:
        from projections.cli.app import run  # typer and rich may not be there
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("jinja2", "rich", "typer"):
            raise
        sys.stderr.write(
            f"toolledger: the command line needs {error.name}: pip install 'toolledger[cli]'\n"
        )
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(run())
