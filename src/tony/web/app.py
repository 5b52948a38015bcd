"""The ASGI application: routes, authentication and error pages.

It never redirects, never answers 204, and needs no custom request header, because it may run behind a ResourceManager's
proxy, which follows redirects itself, fails on responses without a body, and forwards hardly any header.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tony.errors import ExitCode, OverloadedError, RecordError, TonyError
from tony.web import metrics_endpoint
from tony.web.api.request_handler import Api
from tony.web.assets import find_served
from tony.web.authorization import UNAUTHENTICATED, AccessDenied, User
from tony.web.pages import PAGES, Page
from tony.web.request import Links, PageError, PageRequest
from tony.web.server_context import ServerContext
from tony.web.template_rendering import prepare, render

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


def create(context: ServerContext, more: Sequence[BaseRoute] = ()) -> Starlette:
    """Create the application.

    Args:
        more: additional routes, matched first, such as those of the login; they authenticate requests themselves.
    """
    routes = [*more, Api(context.provider, context.auth, context.only), Route("/assets/{name}", _serve_asset)]
    if not context.only:
        # Not on a single-job server: there a user already waits for the first page.
        prepare()
        routes.append(Route(metrics_endpoint.PATH, partial(metrics_endpoint.answer, context), methods=["GET"]))
    for path, page in PAGES:
        if not context.only:
            routes.append(Route(path, wrap_page(context, page), methods=["GET"]))
        elif path.startswith("/job/{job}"):
            route = path.removeprefix("/job/{job}") or "/"
            routes.append(Route(route, _wrap_page_or_text(context, route, page), methods=["GET"]))
    app = Starlette(
        routes=routes,
        exception_handlers={
            404: partial(_render_missing_page, context),
            405: partial(_render_missing_page, context),
            OverloadedError: partial(_render_overloaded, context),
        },
    )
    app.router.redirect_slashes = False
    app.add_middleware(_Headers)
    return app


def _wrap_page_or_text(context: ServerContext, path: str, page: Page) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of a page of a single-job server; `/metrics` also answers Prometheus scrapers."""
    wrapped = wrap_page(context, page)
    if path != metrics_endpoint.PATH:
        return wrapped

    async def answer(request: Request) -> Response:
        if metrics_endpoint.wants_text(request):
            return await metrics_endpoint.answer(context, request)
        return await wrapped(request)

    return answer


def wrap_page(context: ServerContext, page: Page) -> Callable[[Request], Awaitable[Response]]:
    """Return the request handler for a page: it authenticates the user and turns errors into error pages."""

    async def answer(request: Request) -> Response:
        portal_user = await context.auth.authenticate(request)
        if isinstance(portal_user, AccessDenied):
            return render_refusal(context, request, portal_user)
        page_request = _build_page_request(context, request, portal_user)
        try:
            return await page(page_request)
        except PageError as error:
            return _render_problem_page(page_request, error.status, error.title, error.what)
        except OverloadedError:
            raise
        except ClientDisconnect:
            return Response()
        except TonyError as error:
            status = 500 if error.exit_code is ExitCode.BUG and not isinstance(error, RecordError) else 502
            return _render_problem_page(page_request, status, "This page cannot be shown", str(error))
        except Exception:
            _log.exception("a page failed: %s", request.url.path)
            what = "This is a bug in tony. The server's log has the details; please report it."
            return _render_problem_page(page_request, 500, "Internal error", what)

    return answer


def _build_page_request(context: ServerContext, request: Request, portal_user: User) -> PageRequest:
    links = Links.from_path(request.scope["path"], context.only)
    return PageRequest(context=context, request=request, portal_user=portal_user, links=links)


def render_refusal(context: ServerContext, request: Request, refusal: AccessDenied, after: str = "") -> Response:
    """Return the page for a refused request: the login form if the server has one and it may help.

    Args:
        after: after a failed login: the page to open once the login succeeds.
    """
    page_request = _build_page_request(context, request, UNAUTHENTICATED)
    title = "Please log in" if refusal.status in (401, 429) else "Access denied"
    if not context.login or refusal.status not in (401, 429):
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


def render_problem(context: ServerContext, request: Request, status: int, title: str, what: str) -> Response:
    """Return an error page for an unauthenticated user."""
    return _render_problem_page(_build_page_request(context, request, UNAUTHENTICATED), status, title, what)


async def _render_missing_page(context: ServerContext, request: Request, error: Exception) -> Response:
    portal_user = await context.auth.authenticate(request)
    if isinstance(portal_user, AccessDenied):
        return render_refusal(context, request, portal_user)
    status = getattr(error, "status_code", 404)
    return _render_problem_page(
        _build_page_request(context, request, portal_user), status, "Page not found", "Start from the list of jobs."
    )


async def _render_overloaded(context: ServerContext, request: Request, error: Exception) -> Response:
    response = render_problem(context, request, 503, "Server busy", str(error))
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
