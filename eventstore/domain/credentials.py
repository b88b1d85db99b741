"""Texts without credentials: what may be logged of a foreign error.

1. The credentials that the failed request carried are replaced wherever they stand in the text.
2. What has the form of a key, a token or a password in a URL is replaced, too.
3. What may be meant as the address of a database is not shown as a name, of a file for example.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from eventstore.domain.foreign_errors import or_none
from eventstore.domain.value_paths import Path, dig

HIDDEN = "[hidden]"
"""Stands for a credential in a text."""

_MIN_CREDENTIAL_CHARS = 6  # less may be a word of the text

# The paths of the headers of the request in an exception: httpx; openai and anthropic; mistralai.
_REQUEST_HEADERS: tuple[Path, ...] = (
    ("request", "headers"),
    ("response", "request", "headers"),
    ("raw_response", "request", "headers"),
)
_CREDENTIAL_HEADERS = (
    "api-key",
    "authorization",
    "cookie",
    "proxy-authorization",
    "x-api-key",
    "x-goog-api-key",
)

# Every repetition has a bound, so that a long text takes no more than time in its length.
_FORMS = re.compile(
    r"""
    (?P<before> \b (?: Bearer | Basic ) \s )                        # an Authorization header
        (?= \S{0,512} (?-i: [A-Z0-9=] ) ) [\w.~+/=*-]{6,512}
    | (?<= :// ) [^\s/@'"]{1,512} (?= @ )                           # user and password of a URL
    | (?P<name> [?&] (?: [\w-]{0,32} (?: key | token | secret | signature | password | credential )
        | sig | auth | code ) = ) [^\s&'"#)]{1,2048}                # a member of a URL's query
    | \b (?: sk | pk | rk ) - [\w*-]{6,256}                         # OpenAI, Anthropic and others
    | \b AIza [\w*-]{10,64}                                        # Google
    | \b (?: AKIA | ASIA ) [A-Z0-9*]{8,32}                         # AWS
    | \b (?: gh[oprsu]_ | github_pat_ | hf_ | xox[abprs]- ) [\w-]{8,256}
    | \b eyJ [\w-]{1,512} \. [\w-]{1,4096} \. [\w-]{0,1024}       # a JSON web token
    """,
    re.VERBOSE | re.IGNORECASE,
)

_ADDRESS = re.compile(
    r"""
    .* (?<! file ) ://                                              # a URL
    | \s* (?: jdbc : )? (?: postgres | mysql | mariadb | oracle ) [\w+]* \s* (?: : | // )
    | [^\s/:]+ : [^/\\@] [^@]* @ [^@/]+ /                           # user, password and server
    | (?: .* [\s;?&#,-] )? (?: password | passwd | passwort | pwd ) \s* =
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


def may_be_address(text: str) -> bool:
    """Return whether a text may be meant as a database's address, however it is mistyped.

    What begins with a slash or a period is a path.
    """
    return not text.startswith(("/", ".")) and _ADDRESS.match(text) is not None


def without_credentials(text: str, exception: BaseException | None = None) -> str:
    """Return the text with `HIDDEN` in place of credentials.

    Those that the request of `exception` carried are found exactly, others by their form.
    """
    if exception is not None:
        for credential in sorted(_sent_with(exception), key=len, reverse=True):
            text = text.replace(credential, HIDDEN)
    return _FORMS.sub(_hidden, text)


def credentials_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text has what has the form of a credential."""
    for match in _FORMS.finditer(text):
        yield match.start() + len(match["before"] or match["name"] or ""), match.end()


def _sent_with(exception: BaseException) -> set[str]:
    sent: set[str] = set()
    for path in _REQUEST_HEADERS:
        headers = dig(exception, *path)
        for name in _CREDENTIAL_HEADERS:
            value = or_none(_header, headers, name)
            sent.add((value or "").rpartition(" ")[2])
    return {credential for credential in sent if len(credential) >= _MIN_CREDENTIAL_CHARS}


def _header(headers: Any, name: str) -> str:
    return str(headers.get(name) or "")


def _hidden(match: re.Match[str]) -> str:
    return (match["before"] or match["name"] or "") + HIDDEN
