"""Logs in the forms of other programs: traces of OpenTelemetry, Parquet, and CSV of calls."""
