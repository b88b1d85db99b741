"""Credentials in texts: by their form, and by the request that carried them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.domain.credentials import without_credentials


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("key sk-ant-api03-aBcD_1234 refused", "key [hidden] refused"),
        ("Incorrect API key provided: sk-abcd****wxyz.", "Incorrect API key provided: [hidden]."),
        ("AIzaSyA1234567890abcdef is not valid", "[hidden] is not valid"),
        ("the id AKIAIOSFODNN7EXAMPLE", "the id [hidden]"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer [hidden]"),
        ("basic dXNlcjpwYXNz", "basic [hidden]"),
        ("postgresql://u:pw@h/db", "postgresql://[hidden]@h/db"),
        ("https://h/a?x=1&api_key=abc&y=2", "https://h/a?x=1&api_key=[hidden]&y=2"),
        ("'https://h/a?key=abc'", "'https://h/a?key=[hidden]'"),
        ("?X-Amz-Signature=0a1b&z", "?X-Amz-Signature=[hidden]&z"),
        ("token eyJhbGciOi.eyJzdWIi.c2ln!", "token [hidden]!"),
        ("ghp_0123456789abcdef", "[hidden]"),
        ("task-123456789 and disk-usage", "task-123456789 and disk-usage"),
        ("a basic requirement, bearer tokens", "a basic requirement, bearer tokens"),
        ("mail ada@example.com", "mail ada@example.com"),
        ("https://h/docs?page=2#api", "https://h/docs?page=2#api"),
    ],
)
def test_a_credential_is_hidden_and_the_rest_stays(text: str, shown: str) -> None:
    """A key, a token or a password in a URL is replaced; words and addresses are not."""
    assert without_credentials(text) == shown


class Request:
    """A request, as HTTP libraries keep it on their exceptions."""

    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers


class Refused(Exception):
    """An exception of an HTTP library."""

    def __init__(self, **headers: str) -> None:
        super().__init__("refused")
        self.request = Request({name.replace("_", "-"): value for name, value in headers.items()})


def test_credentials_of_the_request_are_hidden_in_any_form() -> None:
    """The longest comes first, so that no part of it stays."""
    refused = Refused(authorization="Bearer plain words", x_api_key="words-and-more")
    assert without_credentials("words-and-more", refused) == "[hidden]"
    assert without_credentials("x", Refused(cookie="x")) == "x"  # too short to be one


@given(st.text(max_size=40))
def test_a_text_stays_a_text_and_nothing_is_hidden_twice(text: str) -> None:
    """Hiding is total and idempotent."""
    once = without_credentials(text)
    assert without_credentials(once) == once


@pytest.mark.parametrize("part", ["x", "sk-", "eyJa.", "://", "?key=", "-eyJ", "@", "Bearer "])
def test_a_megabyte_is_read_in_time_of_its_length(part: str) -> None:
    """No form makes the search quadratic: a whole page of HTML may be an error's text."""
    assert without_credentials(part * (2**20 // len(part)))
