"""`python -m projections.cli` is `toolledger`."""

from __future__ import annotations

from projections.cli import main

main()
