"""Logging in and out with a browser: a token for a cookie, on a page of its own."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tony.errors import TonyError
from tony.portal.tokens import SESSION, TokenFile
from tony.web.app import problem, refused
from tony.web.auth import Authenticator
from tony.web.lanes import LISTS

#: Bytes of the form.
_LONGEST = 8192
#: Where to go on afterwards: a page of ours, below this one.
_PAGE = re.compile(r"(?!.*//)[A-Za-z0-9_~.,=&?%+-][A-Za-z0-9_~.,:=&?%+/-]{0,1000}")


class LoginRoutes:
    """The pages `/login` and `/logout`.

    Args:
        secure: browsers come over https.
    """

    def __init__(self, door: Authenticator, tokens: TokenFile, cookie: str, *, secure: bool) -> None:
        self._door, self._tokens = door, tokens
        self._cookie, self._secure = cookie, secure

    def routes(self) -> list[Route]:
        """For the application."""
        return [
            Route("/login", self._log_in, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
        ]

    async def _log_in(self, request: Request) -> Response:
        """A form with a token; from our own page only, or another site could log somebody in as somebody else."""
        if not self._door.own_page(request):
            return problem(request, 403, "You are not logged in", "The form was not this server's. Load it again.")
        words = await _form(request)
        known = await LISTS.run(self._tokens.find, words.get("token", "").strip())
        after = words.get("next", "")
        if not _PAGE.fullmatch(after):
            after = ""
        if known is None:
            refusal = self._door.failed(request)
            return refused(request, refusal, after)
        text, _ = await LISTS.run(self._tokens.cookie, known)
        response = RedirectResponse(f"./{after}", 303)
        response.set_cookie(
            self._cookie, text, path="/", httponly=True, secure=self._secure, samesite="strict", max_age=int(SESSION)
        )
        return response

    async def _log_out(self, request: Request) -> Response:
        if not self._door.own_page(request):
            return problem(request, 403, "You are still logged in", "The form was not one of this server's.")
        if self._cookie in request.cookies:
            try:
                await LISTS.run(self._tokens.end_session, request.cookies[self._cookie])
            except TonyError as error:
                return problem(request, 502, "You are still logged in", str(error))
        response = RedirectResponse("./", 303)
        response.delete_cookie(self._cookie, path="/", httponly=True, secure=self._secure, samesite="strict")
        return response


async def _form(request: Request) -> dict[str, str]:
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > _LONGEST:
            return {}
    try:
        return dict(parse_qsl(data.decode("utf-8", "replace"), max_num_fields=10))
    except ValueError:
        return {}
