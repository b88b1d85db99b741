"""Error statistics: what became of calls, counted, and how long it took."""
