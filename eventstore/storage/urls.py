"""Database URLs: libpq's own forms are read, and none is shown with a secret.

1. A URL that can be read is shown with `***` for its password, and for the value of each option
   that is not known to be harmless.
2. A URL that cannot be read may hold its secret anywhere: only its scheme is shown, unless the rest
   has no character that could stand before or after a password.
3. The parser's own errors quote what they could not read. They never become the cause of ours.
4. Several servers (`postgresql://u@h1:1,h2:2/db`, or `mysql://`) become libpq's options `host` and
   `port`, as SQLAlchemy has no other place for them.
5. A URL whose parts hold the signs of other parts is not read: `postgresql://u;password=p@h/d`
   would give a user `u;password=p`, and the errors of servers name users.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from sqlalchemy import URL, make_url

from eventstore.domain.credentials import may_be_address

_SERVERS = re.compile(
    r"(?P<scheme>(?:postgres(?:ql)?|mysql|mariadb)(?:\+\w+)?)://(?P<user>[^:/?]*(?::[^@]*)?@)?"
    r"(?P<hosts>[^/?@]*,[^/?@]*)(?P<rest>[/?].*)?",
    re.DOTALL,
)
_SERVER = re.compile(r"\[?(?P<host>(?<=\[)[^\]]*|[^:\[\]]*)\]?(?::(?P<port>.*))?", re.DOTALL)
_PORT = re.compile(r"[0-9]{0,5}")
_LAST_PORT = 65535
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,40}:(?://)?)(.*)", re.DOTALL)
_MAY_HOLD_SECRETS = re.compile(r"[:@=?&;,#%\s]")
_SIGNS_IN_A_NAME = re.compile(r"[;=&#]")
_SIGNS_IN_A_USER = re.compile(r"[:;=&#,?\s]")

_AUTHORITY = re.compile(r"[^/?]*")

_ADDRESS = frozenset({"host", "port", "service", "dbname"})
_HARMLESS_OPTIONS = frozenset(
    {
        "application_name",
        "cache",
        "charset",
        "connect_timeout",
        "dbname",
        "host",
        "hostaddr",
        "immutable",
        "load_balance_hosts",
        "mode",
        "nolock",
        "port",
        "service",
        "ssl_disabled",
        "sslmode",
        "target_session_attrs",
        "timeout",
        "unix_socket",
        "uri",
        "user",
        "vfs",
    }
)
"""Options whose values are shown."""

_HIDDEN = "***"


def parsed(text: str) -> URL:
    """Return a database URL; several servers are in its options `host` and `port`.

    Raises:
        ValueError: it is not a database URL, or names no possible port. No secret of it is in the
            error.
    """
    url = _url_or_none(text)
    if url is None:
        remedy = "for a file write for example sqlite:///agent.db"
        what = repr(shown(text)) if isinstance(text, str) else f"an object of {type(text)}"
        if isinstance(text, str) and ("@" in text or may_be_address(text)):
            remedy = (
                "write SCHEME://USER:PASSWORD@HOST:PORT/NAME, with %40 for @, %3A for : and %2F "
                "for / in the user's name and the password"
            )
        raise ValueError(f"{what} is not a database URL: {remedy}")
    _check_ports(url)
    return url


def _check_ports(url: URL) -> None:
    """Refuse what is no port: a server that is not there would be left for the next one."""
    ports = [] if url.port is None else [str(url.port)]
    for port in [*ports, *filter(None, _listed(url.query.get("port", ())))]:
        if not _PORT.fullmatch(port) or not 1 <= int(port) <= _LAST_PORT:
            raise ValueError(
                f"{shown_address(url)}: {port!r} is not a port: write a number from 1 to "
                f"{_LAST_PORT}"
            )


def _url_or_none(text: object) -> URL | None:
    try:
        url = _several_servers(text) if isinstance(text, str) else None
        url = url or make_url(text)  # type: ignore[arg-type] # it refuses what is not text
        url.render_as_string(hide_password=False).encode()  # half a surrogate pair has no UTF-8
    except Exception:  # noqa: BLE001 - the error quotes the text
        return None
    return None if _is_misread(url) else url


def _is_misread(url: URL) -> bool:
    """Return whether a part of the password, or of an option, stands for another part."""
    if url.get_backend_name() == "sqlite":
        return may_be_address(url.database or "")
    names = f"{url.host or ''}{url.database or ''}"
    if _SIGNS_IN_A_NAME.search(names):
        return True
    if url.password is None:
        return _SIGNS_IN_A_USER.search(url.username or "") is not None
    return "@" in names  # one that is not escaped


def _several_servers(text: str) -> URL | None:
    found = _SERVERS.fullmatch(text)
    if found is None:
        return None
    scheme, user, listed, rest = found.group("scheme", "user", "hosts", "rest")
    pairs = [_SERVER.fullmatch(server) for server in listed.split(",")]
    if any(pair is None or not _PORT.fullmatch(pair["port"] or "") for pair in pairs):
        raise ValueError  # it may be a password
    options = {
        "host": ",".join(pair["host"] for pair in pairs if pair),
        "port": ",".join(pair["port"] or "" for pair in pairs if pair),
    }
    if not options["port"].strip(","):
        del options["port"]
    return make_url(f"{scheme}://{user or ''}{rest or ''}").update_query_dict(options)


def shown(url: URL | str) -> str:
    """Return a URL as text without its secrets, whether it can be read or not."""
    if isinstance(url, str):
        found = _url_or_none(url)
        if found is None:
            scheme, rest = match.groups() if (match := _SCHEME.fullmatch(url)) else ("", url)
            return f"{scheme}…" if _MAY_HOLD_SECRETS.search(rest) else url
        url = found
    return _rendered(
        url, {name: v if name in _HARMLESS_OPTIONS else _HIDDEN for name, v in url.query.items()}
    )


def shown_address(url: URL) -> str:
    """Return which database it is, as text: user, servers and name, without other options."""
    return _rendered(url, {name: v for name, v in url.query.items() if name in _ADDRESS})


def _rendered(url: URL, options: Mapping[str, str | tuple[str, ...]]) -> str:
    """Return a URL as text, its servers in their usual place."""
    listed = "" if url.host else ",".join(_servers(url))
    if "/" in listed:  # the folder of a socket
        listed = ""
    if listed:
        options = {name: value for name, value in options.items() if name not in ("host", "port")}
    text = url.set(query=options).render_as_string(hide_password=True)
    scheme, _, rest = text.replace("=%2A%2A%2A", f"={_HIDDEN}").partition("://")
    end = len(_AUTHORITY.match(rest)[0])  # type: ignore[index] # it matches any text
    return f"{scheme}://{rest[:end]}{listed}{rest[end:]}"


def _servers(url: URL) -> list[str]:
    """Return the servers in the options `host` and `port`, as a URL has them."""
    named = [(f"[{h}]" if h.count(":") > 1 else h, port) for h, port in servers(url)]
    return [f"{name}:{port}" if port else name for name, port in named]


def servers(url: URL) -> list[tuple[str, str]]:
    """Return the servers in the options `host` and `port`; one port is that of all."""
    hosts, ports = (_listed(url.query.get(name, ())) for name in ("host", "port"))
    ports += ports[-1:] * (len(hosts) - len(ports)) if len(ports) == 1 else []
    ports += [""] * (len(hosts) - len(ports))
    return list(zip(hosts, ports, strict=False))


def _listed(value: str | tuple[str, ...]) -> list[str]:
    return value.split(",") if isinstance(value, str) else list(value)


def server_count(url: URL) -> int:
    """Return how many servers a URL names."""
    return max(1, *(len(_listed(url.query.get(name, ()))) for name in ("host", "hostaddr")))


def check_options(url: URL, known: Collection[str]) -> None:
    """Refuse an option that the driver does not know.

    Raises:
        ValueError: there is one.
    """
    for name in url.query:
        if name not in known:
            raise ValueError(
                f"{shown_address(url)}: the URL has an option {name!r}, which the driver does not "
                f"know: remove it, or use one of {', '.join(sorted(known))}"
            )
