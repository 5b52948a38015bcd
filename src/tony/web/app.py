"""The application: addresses, who is asked for them, and what becomes of errors.

It never redirects, never answers 204, and needs no header of its own from a browser: a ResourceManager's proxy, behind
which it may stand, follows redirects itself, breaks on answers without a body, and passes on hardly any header.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tony.errors import ExitCode, OverloadedError, RecordError, TonyError
from tony.web import metrics_endpoint
from tony.web.api.server import Api
from tony.web.assets import assets
from tony.web.authorization import AccessDenied, AuthBackend, PortalUser
from tony.web.job_source import Source
from tony.web.links import Links
from tony.web.pages import PAGES, Page
from tony.web.request import NotAnswered, PageRequest
from tony.web.template_rendering import prepare, render

#: Nothing but what this server itself serves, nothing inside of pages, nobody around them.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_FOR_EVER = "public, max-age=31536000, immutable"
_log = logging.getLogger(__name__)


def create(
    source: Source,
    gate: AuthBackend,
    *,
    only: str = "",
    login: bool = False,
    flows: bool = True,
    more: Sequence[BaseRoute] = (),
) -> Starlette:
    """The application.

    Args:
        source: whose jobs it shows.
        gate: who may see them.
        only: the id of a job that is served alone: its page is then `/`.
        login: `more` has a page `/login`, for whoever is not let in otherwise.
        flows: what is sent arrives at once. Where a proxy holds it back, pages ask again and again instead: an answer
            that goes on for minutes would be one of the proxy's threads that nobody else gets.
        more: further routes, which come first; they ask `request.app.state.gate` themselves.
    """
    routes = [*more, Api(source, gate, only), Route("/assets/{name}", _asset)]
    if not only:
        # Beside a master somebody waits already, for one page.
        prepare()
        routes.append(Route(metrics_endpoint.PATH, metrics_endpoint.answer, methods=["GET"]))
    for path, page in PAGES:
        if not only:
            routes.append(Route(path, _page(page), methods=["GET"]))
        elif path.startswith("/job/{job}"):
            here = path.removeprefix("/job/{job}") or "/"
            routes.append(Route(here, _or_text(here, _page(page)), methods=["GET"]))
    app = Starlette(routes=routes, exception_handlers={404: _no_page, 405: _no_page, OverloadedError: _overloaded})
    app.router.redirect_slashes = False
    app.state.source, app.state.gate, app.state.only = source, gate, only
    app.state.login, app.state.flows = login, flows
    app.add_middleware(_Headers)
    return app


def _or_text(path: str, page: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """The page of a job that is served alone; where its charts are, numbers for a program that collects them."""
    if path != metrics_endpoint.PATH:
        return page

    async def answer(request: Request) -> Response:
        return await (metrics_endpoint.answer if metrics_endpoint.wants_text(request) else page)(request)

    return answer


def _page(page: Page) -> Callable[[Request], Awaitable[Response]]:
    """What answers a request for one kind of page."""

    async def answer(request: Request) -> Response:
        state = request.app.state
        visitor = await state.gate.visitor(request)
        if isinstance(visitor, AccessDenied):
            return refused(request, visitor)
        asked = _asked(request, visitor)
        try:
            return await page(asked)
        except NotAnswered as error:
            return _problem(asked, error.status, error.title, error.what)
        except OverloadedError:
            raise
        except TonyError as error:
            status = 500 if error.exit_code is ExitCode.BUG and not isinstance(error, RecordError) else 502
            return _problem(asked, status, "This cannot be shown", str(error))
        except Exception:
            _log.exception("a page failed: %s", request.url.path)
            what = "This is a bug of tony's. What went wrong stands in the log of this server; please report it."
            return _problem(asked, 500, "Something went wrong here", what)

    return answer


def _asked(request: Request, visitor: PortalUser) -> PageRequest:
    state = request.app.state
    return PageRequest(
        request=request,
        visitor=visitor,
        source=state.source,
        links=Links.of(request.scope["path"], state.only),
        only=state.only,
    )


class _Nobody:
    """Who was not let in."""

    name = ""
    token = ""
    readers: tuple[str, ...] = ()

    def may(self, *_: object) -> bool:
        return False


def refused(request: Request, refusal: AccessDenied, after: str = "") -> Response:
    """A page for somebody who was not let in: one to log in with, where there is a login.

    Args:
        after: where a wrong token was given: where to go on with a right one.
    """
    asked = _asked(request, _Nobody())
    title = "Please log in" if refusal.status in (401, 429) else "You cannot see this"
    if not request.app.state.login or refusal.status not in (401, 429):
        return _problem(asked, refusal.status, title, refusal.reason)
    path = str(request.scope["path"]).removeprefix("/")
    query = request.url.query
    values: dict[str, object] = {
        "title": title,
        "what": refusal.reason,
        "after": after if path == "login" else f"{path}?{query}" if query else path,
    }
    response = render("login.html", asked, values, refusal.status)
    if refusal.wait:
        response.headers["Retry-After"] = str(round(refusal.wait))
    if request.headers.get("sec-fetch-site") == "cross-site":
        # A link from elsewhere comes without our cookie, which is strict. Our own page may ask once more, with it.
        response.headers["Refresh"] = "0"
    return response


def problem(request: Request, status: int, title: str, what: str) -> Response:
    """A page that says what is wrong, and nothing about anybody."""
    return _problem(_asked(request, _Nobody()), status, title, what)


async def _no_page(request: Request, error: Exception) -> Response:
    visitor = await request.app.state.gate.visitor(request)
    if isinstance(visitor, AccessDenied):
        return refused(request, visitor)
    status = getattr(error, "status_code", 404)
    return _problem(_asked(request, visitor), status, "There is no such page", "Begin with the list of jobs.")


async def _overloaded(request: Request, error: Exception) -> Response:
    response = problem(request, 503, "This takes too long", str(error))
    response.headers["Retry-After"] = "30"
    return response


def _problem(asked: PageRequest, status: int, title: str, what: str) -> HTMLResponse:
    return render("problem.html", asked, {"title": title, "what": what, "status": status}, status)


async def _asset(request: Request) -> Response:
    """One of our files: the same for everybody, so nobody is asked who they are."""
    asset = assets().served(request.path_params["name"])
    if asset is None:
        return Response("There is no such file.", 404, media_type="text/plain")
    headers = {"ETag": asset.etag, "Cache-Control": _FOR_EVER}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)


class _Headers:
    """Puts what every answer needs on it, and says how long it took."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                have = {name.lower() for name, _ in message["headers"]}
                took = f"page;dur={1000 * (time.perf_counter() - began):.1f}"
                ours = {**_HEADERS, "Cache-Control": "no-store", "Server-Timing": took}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.lower().encode(), value.encode())
                        for name, value in ours.items()
                        if name.lower().encode() not in have
                    ),
                ]
            await send(message)

        await self._app(scope, receive, with_headers)
