"""The ASGI application: routes, authentication and error pages.

It never redirects, never answers 204, and needs no custom request header, because it may run behind a ResourceManager's
proxy, which follows redirects itself, fails on responses without a body, and forwards hardly any header.
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
from tony.web.assets import find_served
from tony.web.authorization import UNAUTHENTICATED, AccessDenied, User
from tony.web.job_provider import JobProvider
from tony.web.pages import PAGES, Page
from tony.web.request import Links, PageError, PageRequest
from tony.web.template_rendering import prepare, render
from tony.web.user_authentication import Authenticator

#: Content Security Policy: only resources of this server, no embedded content, and no embedding in other pages.
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
_CACHE_FOREVER = "public, max-age=31536000, immutable"
_log = logging.getLogger(__name__)


def create(
    provider: JobProvider,
    auth: Authenticator,
    *,
    only: str = "",
    login: bool = False,
    more: Sequence[BaseRoute] = (),
) -> Starlette:
    """Create the application.

    Args:
        provider: the job provider.
        auth: authenticates requests.
        only: the id of the only job to serve: its page is then `/`.
        login: `more` has a page `/login`, for users who cannot be authenticated otherwise.
        more: additional routes, matched first; they authenticate with `request.app.state.auth` themselves.
    """
    routes = [*more, Api(provider, auth, only), Route("/assets/{name}", _serve_asset)]
    if not only:
        # Not on a single-job server: there a user already waits for the first page.
        prepare()
        routes.append(Route(metrics_endpoint.PATH, metrics_endpoint.answer, methods=["GET"]))
    for path, page in PAGES:
        if not only:
            routes.append(Route(path, wrap_page(page), methods=["GET"]))
        elif path.startswith("/job/{job}"):
            route = path.removeprefix("/job/{job}") or "/"
            routes.append(Route(route, _wrap_page_or_text(route, wrap_page(page)), methods=["GET"]))
    app = Starlette(
        routes=routes,
        exception_handlers={404: _render_missing_page, 405: _render_missing_page, OverloadedError: _render_overloaded},
    )
    app.router.redirect_slashes = False
    app.state.provider, app.state.auth, app.state.only = provider, auth, only
    app.state.login = login
    app.add_middleware(_Headers)
    return app


def _wrap_page_or_text(
    path: str, page: Callable[[Request], Awaitable[Response]]
) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of a page of a single-job server; `/metrics` also answers Prometheus scrapers."""
    if path != metrics_endpoint.PATH:
        return page

    async def answer(request: Request) -> Response:
        return await (metrics_endpoint.answer if metrics_endpoint.wants_text(request) else page)(request)

    return answer


def wrap_page(page: Page) -> Callable[[Request], Awaitable[Response]]:
    """Return the request handler for a page: it authenticates the user and turns errors into error pages."""

    async def answer(request: Request) -> Response:
        state = request.app.state
        portal_user = await state.auth.authenticate(request)
        if isinstance(portal_user, AccessDenied):
            return render_refusal(request, portal_user)
        page_request = _build_page_request(request, portal_user)
        try:
            return await page(page_request)
        except PageError as error:
            return _render_problem_page(page_request, error.status, error.title, error.what)
        except OverloadedError:
            raise
        except TonyError as error:
            status = 500 if error.exit_code is ExitCode.BUG and not isinstance(error, RecordError) else 502
            return _render_problem_page(page_request, status, "This page cannot be shown", str(error))
        except Exception:
            _log.exception("a page failed: %s", request.url.path)
            what = "This is a bug in tony. The server's log has the details; please report it."
            return _render_problem_page(page_request, 500, "Internal error", what)

    return answer


def _build_page_request(request: Request, portal_user: User) -> PageRequest:
    state = request.app.state
    return PageRequest(
        request=request,
        portal_user=portal_user,
        provider=state.provider,
        links=Links.from_path(request.scope["path"], state.only),
        only=state.only,
    )


def render_refusal(request: Request, refusal: AccessDenied, after: str = "") -> Response:
    """Return the page for a refused request: the login form if the server has one and it may help.

    Args:
        after: after a failed login: the page to open once the login succeeds.
    """
    page_request = _build_page_request(request, UNAUTHENTICATED)
    title = "Please log in" if refusal.status in (401, 429) else "Access denied"
    if not request.app.state.login or refusal.status not in (401, 429):
        return _render_problem_page(page_request, refusal.status, title, refusal.reason)
    path = str(request.scope["path"]).removeprefix("/")
    query = request.url.query
    values: dict[str, object] = {
        "title": title,
        "what": refusal.reason,
        "after": after if path == "login" else f"{path}?{query}" if query else path,
    }
    response = render("login.html", page_request, values, refusal.status)
    if refusal.wait:
        response.headers["Retry-After"] = str(round(refusal.wait))
    if request.headers.get("sec-fetch-site") == "cross-site":
        # After a cross-site link the request lacks the SameSite=Strict cookie. A reload from this page sends it.
        response.headers["Refresh"] = "0"
    return response


def render_problem(request: Request, status: int, title: str, what: str) -> Response:
    """Return an error page for an unauthenticated user."""
    return _render_problem_page(_build_page_request(request, UNAUTHENTICATED), status, title, what)


async def _render_missing_page(request: Request, error: Exception) -> Response:
    portal_user = await request.app.state.auth.authenticate(request)
    if isinstance(portal_user, AccessDenied):
        return render_refusal(request, portal_user)
    status = getattr(error, "status_code", 404)
    return _render_problem_page(
        _build_page_request(request, portal_user), status, "Page not found", "Start from the list of jobs."
    )


async def _render_overloaded(request: Request, error: Exception) -> Response:
    response = render_problem(request, 503, "Server busy", str(error))
    response.headers["Retry-After"] = "30"
    return response


def _render_problem_page(page_request: PageRequest, status: int, title: str, what: str) -> HTMLResponse:
    return render("problem.html", page_request, {"title": title, "what": what, "status": status}, status)


async def _serve_asset(request: Request) -> Response:
    """Return a static file. It needs no authentication: it is the same for every user."""
    asset = find_served(request.path_params["name"])
    if asset is None:
        return Response("File not found.", 404, media_type="text/plain")
    headers = {"ETag": asset.etag, "Cache-Control": _CACHE_FOREVER}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)


class _Headers:
    """Middleware that adds the security headers and the server timing to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.perf_counter()

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                timing = f"page;dur={1000 * (time.perf_counter() - started_at):.1f}"
                defaults = {**_HEADERS, "Cache-Control": "no-store", "Server-Timing": timing}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.lower().encode(), value.encode())
                        for name, value in defaults.items()
                        if name.lower().encode() not in present
                    ),
                ]
            await send(message)

        await self._app(scope, receive, with_headers)
