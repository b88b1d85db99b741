"""The guard: every request has the token of the process, and every decision comes from its pages.

1. The address that `serve` prints carries the token. The answer puts it into a cookie that no
   script reads and no other site sends, and leaves it out of the address.
2. A request without it is refused. So is one whose `Host` is not that of the server: the name of
   another site may be made to point here.
3. A form carries a second token, made of the first. A decision without it is refused, and so is
   one of which the browser says that another site sent it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.requests import Request


class Guard:
    """The checks of one server process."""

    def __init__(self, token: str, hosts: frozenset[str]) -> None:
        self._token = token
        self._hosts = frozenset(map(str.lower, hosts))
        self.form_token = hmac.new(token.encode(), b"form", sha256).hexdigest()
        # Cookies know no ports: two servers of one machine need two names.
        self._cookie = f"toolledger-{self.form_token[:8]}"

    def refusal(self, request: Request) -> Response | None:
        """Return the answer to a request that is refused; None for one that may."""
        if request.headers.get("host", "").lower() not in self._hosts:
            return PlainTextResponse("this server does not answer to that name", 421)
        given = request.query_params.get("token")
        if given is not None and request.method == "GET":
            if not _is_same(given, self._token):
                return _refused()
            answer = RedirectResponse(request.url.path, 303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            return answer
        if not _is_same(request.cookies.get(self._cookie, ""), self._token):
            return _refused()
        if request.method != "GET" and self._is_of_another_site(request):
            return PlainTextResponse("decide on this server's own pages", 403)
        return None

    def _is_of_another_site(self, request: Request) -> bool:
        """Return whether a browser says so; other programs say nothing of it."""
        origin = request.headers.get("origin", "null")  # as sent where no referrer may be told
        if origin != "null" and urlsplit(origin).netloc.lower() not in self._hosts:
            return True
        return request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none")

    def is_own_form(self, form_token: object) -> bool:
        """Return whether a form was made by this process."""
        return isinstance(form_token, str) and _is_same(form_token, self.form_token)


def hosts_of(names: Iterable[str], port: int) -> frozenset[str]:
    """Return what requests may say for `Host`: the names at the port, or without it.

    A browser leaves out port 80, and a proxy in front of the server has another. A name with a port
    of its own stands for that alone.
    """
    hosts: set[str] = set()
    for name in names:
        shown = f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name
        has_port = ":" in shown.rpartition("]")[2]
        hosts |= {shown} if has_port else {shown, f"{shown}:{port}"}
    return frozenset(hosts)


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def _refused() -> Response:
    return PlainTextResponse("open the address that `toolledger serve` printed", 403)


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
