"""Login and logout with a browser: exchanges a token for a cookie."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tony.errors import TonyError
from tony.linux.thread_pools import LISTS
from tony.portal.access.login_credentials import SESSION, TokenFile
from tony.web.app import render_problem, render_refusal
from tony.web.request import read_body
from tony.web.server_context import ServerContext

#: Maximum bytes of the form.
_MAX_FORM_BYTES = 8192
#: Valid targets of the redirect after a login: a page of this portal.
_REDIRECT_TARGET = re.compile(r"(?!.*//)[A-Za-z0-9_~.,=&?%+-][A-Za-z0-9_~.,:=&?%+/-]{0,1000}")


class LoginRoutes:
    """The routes `/login` and `/logout`.

    Args:
        secure: browsers connect with https.
    """

    def __init__(self, context: ServerContext, tokens: TokenFile, cookie: str, *, secure: bool) -> None:
        self._context, self._tokens = context, tokens
        self._cookie, self._secure = cookie, secure

    def build_routes(self) -> list[Route]:
        """Return the routes for the application."""
        return [
            Route("/login", self._log_in, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
        ]

    async def _log_in(self, request: Request) -> Response:
        """Log in with a token, only from our own form: another site could otherwise log a user in as another one."""
        if not self._context.auth.is_own_page(request):
            return render_problem(
                self._context,
                request,
                403,
                "You are not logged in",
                "The form did not come from this portal. Reload it.",
            )
        words = await _read_form(request)
        known = await LISTS.run(self._tokens.find, words.get("token", "").strip())
        after = words.get("next", "")
        if not _REDIRECT_TARGET.fullmatch(after):
            after = ""
        if known is None:
            refusal = self._context.auth.reject_token(request)
            return render_refusal(self._context, request, refusal, after)
        text, _ = await LISTS.run(self._tokens.create_cookie, known)
        response = RedirectResponse(f"./{after}", 303)
        response.set_cookie(
            self._cookie, text, path="/", httponly=True, secure=self._secure, samesite="strict", max_age=int(SESSION)
        )
        return response

    async def _log_out(self, request: Request) -> Response:
        if not self._context.auth.is_own_page(request):
            return render_problem(
                self._context, request, 403, "You are still logged in", "The form did not come from this portal."
            )
        if self._cookie in request.cookies:
            try:
                await LISTS.run(self._tokens.end_session, request.cookies[self._cookie])
            except TonyError as error:
                return render_problem(self._context, request, 502, "You are still logged in", str(error))
        response = RedirectResponse("./", 303)
        response.delete_cookie(self._cookie, path="/", httponly=True, secure=self._secure, samesite="strict")
        return response


async def _read_form(request: Request) -> dict[str, str]:
    data = await read_body(request, _MAX_FORM_BYTES) or b""
    try:
        return dict(parse_qsl(data.decode("utf-8", "replace"), max_num_fields=10))
    except ValueError:
        return {}
