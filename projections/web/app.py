"""The application: one page for each question, made anew from the log when it is asked for.

1. Every answer has the same headers: only the server's own style and script may load, no other page
   may frame it, and no cache keeps it. The report of a conversation brings its own policy.
2. The pages share one fold, which reads what was appended since it was last asked, a page of
   events at a time. A page that breaks off is read again, and none is counted twice. A request that
   comes while another one reads waits a moment, and is shown the fold so far.
3. Where the log was put back, the page says so, and the fold begins anew. So with a file that was
   replaced, which is opened again. After a redaction it begins anew, too: nothing of it stays.
4. Pages that change by themselves ask for themselves again, and take over the part named `live`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from importlib.resources import files
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

import jinja2
import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from eventstore import (
    ConversationArchived,
    Cursor,
    CursorLost,
    EventStore,
    EventStoreError,
    StoreCorrupt,
)
from eventstore.domain.one_line import one_line
from projections.approvals import PendingApproval
from projections.doubts import Doubt
from projections.formatting import plural, utc_text, visible_text
from projections.redactions import READ_ANEW
from projections.report.page import html_report
from projections.web.decisions import Decision, decide
from projections.web.guard import Guard
from projections.web.settlements import Settlement, settle
from projections.web.store_view import HOUR, StoreView

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_FORM_BYTES = 2_000_000
PAGE_EVENTS = 100
"""Events that are taken in before others may look at the fold."""
PATIENCE_SECONDS = 2.0
"""How long a request waits for the one that reads the log."""
MAX_LISTED = 200
"""Conversations, errors, hours or calls that a page lists."""

_NAME_CHARACTERS = 120
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_ASSETS = {
    "htmx.js": ("htmx/htmx.min.js", "text/javascript"),
    "web.css": ("web.css", "text/css"),
}
_assets = files("projections.web") / "assets"


def web_app(store: EventStore, guard: Guard) -> Starlette:
    """Return the application over a store; `guard` says which requests are answered."""
    pages = _Pages(store, guard)

    async def check(request: Request, call_next: RequestResponseEndpoint) -> Response:
        answer = guard.refusal(request) or await call_next(request)
        answer.headers.setdefault("Content-Security-Policy", _POLICY)
        answer.headers.update(_HEADERS)
        return answer

    return Starlette(
        routes=[
            Route("/", pages.conversations),
            Route("/conversation/{name:path}", pages.conversation),
            Route("/errors", pages.errors),
            Route("/approvals", pages.approvals),
            Route("/approvals", pages.decision, methods=["POST"]),
            Route("/doubts", pages.doubts),
            Route("/doubts", pages.settlement, methods=["POST"]),
            Route("/newest", pages.newest),
            Route("/assets/{name}", _asset),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=check)],
        exception_handlers={EventStoreError: pages.failed},
        lifespan=pages.lifespan,
    )


class _Waiting(msgspec.Struct, frozen=True):
    """A call that waits, as the page shows it."""

    approval: PendingApproval
    arguments: str


class _Pages:
    """The pages of one store."""

    def __init__(self, store: EventStore, guard: Guard) -> None:
        self._store = store
        self._own = ExitStack()  # the stores that were opened where the file was replaced
        self._guard = guard
        self._view = StoreView()
        self._cursor: Cursor | None = None
        self._is_whole = False  # the fold has come to the log's end once
        self._reading = Lock()
        self._lock = Lock()  # around each change of the fold
        environment = jinja2.Environment(
            autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        filters: dict[str, Callable[..., object]] = {
            "utc": utc_text,
            "line": _line,
            "count": "{:,}".format,
            "plural": plural,
            "path": _path,
        }
        environment.filters.update(filters)
        self._template = environment.from_string(_text("web.html.jinja"))

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncGenerator[None]:
        """Close, at the end, the stores that were opened here."""
        with self._own:
            yield

    def conversations(self, request: Request) -> Response:
        """Return the list of conversations, the newest activity first."""
        wanted = request.query_params.get("q", "").strip()
        with self._current() as view:
            found = [line for line in view.conversations.values() if wanted in line.id]
        found.sort(key=lambda line: (-line.last_at, line.id))
        return self._page("conversations", found, wanted=wanted)

    def conversation(self, request: Request) -> Response:
        """Return the report of one conversation, as it is now."""
        try:
            events = list(self._store.conversation(request.path_params["name"]).events())
        except ConversationArchived as archived:
            return PlainTextResponse(str(archived), 410)
        if not events:
            return PlainTextResponse("there is no conversation of that name", 404)
        answer = HTMLResponse(html_report(events))
        answer.headers["Content-Security-Policy"] = "frame-ancestors 'none'"
        return answer

    def errors(self, _: Request) -> Response:
        """Return the errors by their error lines, and how many came in each hour."""
        with self._current() as view:
            errors = sorted(view.errors.values(), key=lambda line: (-line.count, -line.last_at))
            hours = sorted(view.errors_by_hour.items())[-MAX_LISTED:]
        most = max((count for _, count in hours), default=1)
        return self._page("errors", errors, hours=[(at * HOUR, n) for at, n in hours], most=most)

    def newest(self, _: Request) -> Response:
        """Return the newest events of all conversations."""
        with self._current() as view:
            return self._page("newest", list(view.newest)[::-1])

    def approvals(self, _: Request) -> Response:
        """Return the calls that wait, each with a form to decide."""
        return self._inbox("", "")

    async def decision(self, request: Request) -> Response:
        """Carry out a decision, and return the calls that wait then."""
        return await self._posted(request, self._decided)

    def doubts(self, _: Request) -> Response:
        """Return the calls in doubt, each with a form to settle it."""
        return self._doubts("", "")

    async def settlement(self, request: Request) -> Response:
        """Settle a call, and return those that are in doubt then."""
        return await self._posted(request, self._settled)

    async def _posted(
        self, request: Request, carry_out: Callable[[dict[str, str]], Response]
    ) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_FORM_BYTES:
                return PlainTextResponse("the form is too long", 413)
        fields = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        if not self._guard.is_own_form(fields.get("form_token")):
            return PlainTextResponse("the form is not of this server: open the page again", 403)
        return await run_in_threadpool(carry_out, fields)

    def _decided(self, fields: dict[str, str]) -> Response:
        decision = Decision(**{n: fields.get(n, "") for n in Decision.__struct_fields__})
        return self._inbox(decide(self._store, decision), decision.by)

    def _settled(self, fields: dict[str, str]) -> Response:
        given = Settlement(**{n: fields.get(n, "") for n in Settlement.__struct_fields__})
        return self._doubts(settle(self._store, given), given.by)

    def _doubts(self, note: str, by: str) -> Response:
        now = self._store.now()
        with self._current() as view:
            found = view.doubts(now)
        shown = [(doubt, _shown(doubt)) for doubt in found[:MAX_LISTED]]
        return self._page("doubts", shown, total=len(found), note=note, by=by)

    def _inbox(self, note: str, by: str) -> Response:
        now = self._store.now()
        with self._current() as view:
            waiting = view.approvals(now)
        shown = [_waiting(approval) for approval in waiting[:MAX_LISTED]]
        return self._page("approvals", shown, total=len(waiting), note=note, by=by)

    @contextmanager
    def _current(self) -> Generator[StoreView, None, None]:
        """Give the fold of all that is in the log now."""
        if self._reading.acquire(timeout=PATIENCE_SECONDS):
            try:
                self._catch_up()
            except (CursorLost, StoreCorrupt) as error:
                self._begin_anew(is_replaced=isinstance(error, StoreCorrupt))
                raise
            finally:
                self._reading.release()
        with self._lock:
            yield self._view

    def _catch_up(self) -> None:
        while not self._read_on():
            with self._lock:
                self._view, self._cursor, self._is_whole = StoreView(), None, False
        self._is_whole = True

    def _read_on(self) -> bool:
        """Take in what the log has more; return False where the fold must begin anew."""
        feed = self._store.read(self._cursor)
        events = iter(feed)
        while page := list(islice(events, PAGE_EVENTS)):
            if self._is_whole and any(type(each.event) in READ_ANEW for each in page):
                return False
            with self._lock:
                self._view.extend(page)
                self._cursor = feed.cursor
        return True

    def _begin_anew(self, *, is_replaced: bool) -> None:
        with self._lock:
            self._view, self._cursor, self._is_whole = StoreView(), None, False
        if is_replaced:  # the connection may be to a file that is not there any more
            with suppress(EventStoreError):
                opened = EventStore.open(self._store.url, tenant=self._store.tenant, create=False)
                self._store = self._own.enter_context(opened)

    def failed(self, request: Request, error: Exception) -> Response:
        """Return the page that says why another could not be made; it asks for that again."""
        text = self._template.render(
            page="failed",
            token=self._guard.form_token,
            lines=[],
            total=0,
            note=str(error),
            address=request.url.path,
            is_lost=isinstance(error, CursorLost | StoreCorrupt),
        )
        return HTMLResponse(text, 503)

    def _page(self, page: str, lines: list[Any], **data: Any) -> Response:
        data = {"total": len(lines), **data}
        token = self._guard.form_token
        text = self._template.render(page=page, token=token, lines=lines[:MAX_LISTED], **data)
        return HTMLResponse(text)


def _waiting(approval: PendingApproval) -> _Waiting:
    return _Waiting(approval, _shown(approval))


def _shown(call: PendingApproval | Doubt) -> str:
    """Return the arguments of a call, for a person to read."""
    if call.raw is not None:
        return visible_text(call.raw)
    return visible_text(msgspec.json.format(msgspec.json.encode(call.arguments)).decode())


def _asset(request: Request) -> Response:
    found = _ASSETS.get(request.path_params["name"])
    if found is None:
        return PlainTextResponse("not found", 404)
    name, media_type = found
    return Response(_text(name), media_type=media_type)


def _text(name: str) -> str:
    return _assets.joinpath(name).read_text(encoding="utf-8")


def _line(text: str) -> str:
    return one_line(text, _NAME_CHARACTERS)


def _path(text: str) -> str:
    return quote(text, safe="")
