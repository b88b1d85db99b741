"""The kind of an error is read from what a program says, and not from the names of files."""

from __future__ import annotations

import pytest

from eventstore import FunctionCall
from projections.debugging.call_facts import CallError
from projections.debugging.error_groups import error_kind
from projections.debugging.error_results import error_text


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("You exceeded your current quota, please check your plan and billing details", "quota"),
        ("insufficient_quota", "quota"),
        ("billing_hard_limit_reached", "quota"),
        ("This API method requires billing to be enabled", "quota"),
        ("Error code: 429 - slow down", "quota"),
        ("HTTP 401", "auth"),
        ("request failed with status code:401", "auth"),
        ("Invalid API key. Please run /login", "auth"),
        ("sed: can't read billing/invoice.py: No such file or directory", "error"),
        ("ERROR: file or directory not found: billing", "error"),
        ("cat: src/quota.py: No such file or directory", "error"),
        ("src/app.py:401: error: Name 'x' is not defined", "error"),
        ("src/app.ts(403,5): error TS2304: Cannot find name 'x'.", "error"),
        ('File "a.py", line 429, in main', "error"),
        ("cannot open '/srv/login.py'", "error"),
    ],
)
def test_the_kind_is_what_the_program_says(line: str, kind: str) -> None:
    """A path, or the number of a line, is no status."""
    assert error_kind(CallError(1, line), line) == kind


@pytest.mark.parametrize(
    ("result", "is_error"),
    [
        ("Error: no such order", True),
        ("Error while reading the order", True),
        ("Error code: 500", True),
        ("Errors of booking: a failed booking is tried again.", False),
        ("Error logs are kept for 30 days.", False),
        ("Errors that customers report go to the desk.", False),
    ],
)
def test_prose_about_errors_says_none(result: str, is_error: bool) -> None:
    """A page that begins with the word is about errors, and did not fail."""
    assert (error_text(result, FunctionCall("get_policy", {}, "c1")) is not None) == is_error
