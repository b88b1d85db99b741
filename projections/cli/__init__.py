"""The command line. It needs both sides of the house, and the extra `toolledger[cli]`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `toolledger` and exit with its status."""
    try:
        from projections.cli.app import run  # noqa: PLC0415 - typer and rich may not be there
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("rich", "typer"):
            raise
        print(  # noqa: T201 - there is no rich to print with
            f"toolledger: the command line needs {error.name}: pip install 'toolledger[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(run())
