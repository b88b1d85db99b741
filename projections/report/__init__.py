"""The report: one conversation as one page of HTML, which opens without a network."""

FIRST_LINE = "<!doctype html><!-- toolledger report -->"
"""How every report begins."""
