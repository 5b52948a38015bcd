"""Finds the operation that a request means, asks the gate, reads parameters, answers.

Every answer is JSON, errors too, but for files and logs that are asked for as they are. Nothing here redirects, and
nothing is answered without a body, except to whoever asks with `If-None-Match`: see `app.py`.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import URLPath
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from tony.errors import (
    ConnectionFailed,
    ExitCode,
    OverloadedError,
    ProtocolError,
    RecordError,
    TonyError,
    UnknownJobError,
)
from tony.linux.threads import to_thread
from tony.model.codec import DecodeError, from_plain, to_plain
from tony.model.json_text import loads
from tony.protocol.error_codes import Code
from tony.web.api.operation import NO_JOB, ApiError, Operation, OperationCall
from tony.web.api.operation_table import OPERATIONS
from tony.web.api.responses import ChangeBody, ErrorAnswer, ErrorFacts
from tony.web.authorization import AccessDenied, AuthBackend, PortalUser
from tony.web.job_source import Source
from tony.web.secret_masking import JSON

#: Where it is served.
PREFIX = "/api/v1"
#: Bytes of a request's body.
_LONGEST_BODY = 16 << 10
_log = logging.getLogger(__name__)


class Api(BaseRoute):
    """A route for everything below `/api/v1`, whatever the method and the characters.

    Args:
        only: the id of a job that is served alone.
    """

    def __init__(self, source: Source, gate: AuthBackend, only: str = "") -> None:
        self._source, self._gate, self._only = source, gate, only
        self._routes = [(_pattern(each.path), each) for each in OPERATIONS]

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As `BaseRoute`."""
        ours = scope["type"] == "http" and _path(scope).startswith(f"{PREFIX}/")
        return (Match.FULL if ours else Match.NONE), {}

    def url_path_for(self, name: str, /, **path_params: Any) -> URLPath:
        """As `BaseRoute`; it has no names."""
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers."""
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        except ApiError as error:
            response = _problem(error)
        except TonyError as error:
            response = _problem(_of_tony(error))
        except Exception:
            _log.exception("an operation failed: %s %s", request.method, scope["path"])
            response = _problem(
                ApiError(500, "bug", "This is a bug of tony's.", "What went wrong stands in the log of this server.")
            )
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        visitor = await self._gate.visitor(request)
        if isinstance(visitor, AccessDenied):
            raise _refused(visitor)
        operation, words = self._find(request)
        call = OperationCall(
            request=request,
            visitor=visitor,
            source=self._source,
            values=_values(operation, words, request),
            only=self._only,
        )
        if operation.changes:
            await self._check_change(request, visitor)
        made = await operation.handler(call)
        if isinstance(made, Response):
            return made
        body = await to_thread(_encoded, made)
        return _json(request, body, _links(request, made))

    def _find(self, request: Request) -> tuple[Operation, Mapping[str, str]]:
        path = _path(request.scope).removeprefix(PREFIX)
        found = [(each, match.groupdict()) for pattern, each in self._routes if (match := pattern.fullmatch(path))]
        if not found:
            raise ApiError(404, "no-such-address", "There is no such address.", f"{PREFIX}/openapi.json lists all.")
        method = "GET" if request.method == "HEAD" else request.method
        for operation, words in found:
            if operation.method == method:
                return operation, words
        allowed = sorted({each.method for each, _ in found} | {"HEAD" for each, _ in found if not each.changes})
        raise ApiError(
            405,
            "wrong-method",
            f"This address is not for {request.method[:20]}.",
            f"Use {' or '.join(allowed)}.",
            {"Allow": ", ".join(allowed)},
        )

    async def _check_change(self, request: Request, visitor: PortalUser) -> None:
        token = request.query_params.get("token") or await _token(request)
        refusal = self._gate.change(request, visitor, token)
        if refusal is not None:
            way = "" if token else f'Send page_token of {PREFIX}/me along, as {{"token": ...}}, or a token of your own.'
            raise ApiError(refusal.status, "not-own", refusal.reason, way)


def _path(scope: Scope) -> str:
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path)))


def _values(operation: Operation, words: Mapping[str, str], request: Request) -> dict[str, Any]:
    """The parameters' values.

    Raises:
        ApiError: one is missing, or makes no sense.
    """
    values: dict[str, Any] = {}
    for each in operation.parameters:
        told = [words[each.name]] if each.in_path else request.query_params.getlist(each.name)
        if len(told) > 1:
            raise ApiError(
                400, "bad-parameter", f"{each.name} stands in the address {len(told)} times.", "Say it once."
            )
        text = told[0] if told else None
        if text is None or (text == "" and isinstance(each.usual, str)):
            if each.required:
                raise ApiError(400, "bad-parameter", f"{each.name} is missing: {each.what}.")
            values[each.name] = each.usual
            continue
        try:
            if each.required and not text:
                raise ValueError(each.what)
            values[each.name] = each.read(text)
        except ValueError as error:
            raise ApiError(400, "bad-parameter", f"{each.name}: {text[:60]!r}: {error}.") from None
    return values


async def _token(request: Request) -> str:
    """The page's token in the body.

    Raises:
        ApiError: the body is too long, or something else.
    """
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > _LONGEST_BODY:
            raise ApiError(413, "too-long", f"A body has at most {_LONGEST_BODY} bytes here.")
    if not data.strip():
        return ""
    try:
        return from_plain(ChangeBody, loads(data)).token
    except (DecodeError, ValueError) as error:
        raise ApiError(
            400, "bad-body", f"The body makes no sense: {error}", 'Send {"token": "..."}, or none.'
        ) from None


def _links(request: Request, made: object) -> dict[str, str]:
    """The address of the next page, relative to this one."""
    after = getattr(made, "next", "")
    if not isinstance(after, str) or not after:
        return {}
    words = {**dict(request.query_params), "after": after}
    words.pop("token", None)
    return {"Link": f'<?{urlencode(words)}>; rel="next"'}


def _encoded(made: object) -> bytes:
    """As JSON.

    Raises:
        RecordError: it holds what no JSON can.
    """
    try:
        # Errors of programs, commands and the like are in answers, too.
        return JSON.hide(json.dumps(to_plain(made), separators=(",", ":"), allow_nan=False).encode())
    except (ValueError, TypeError) as error:
        raise RecordError(f"this cannot be told as JSON: {error}") from error


def _json(request: Request, body: bytes, headers: Mapping[str, str]) -> Response:
    tag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
    known = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    if request.method in ("GET", "HEAD") and (tag in known or known == ["*"]):
        return Response(status_code=304, headers={**headers, "ETag": tag})
    return Response(body, media_type="application/json", headers={**headers, "ETag": tag})


# --- errors -----------------------------------------------------------------------------------------------------------


def _problem(error: ApiError) -> Response:
    facts = ErrorFacts(status=error.status, code=error.code, message=_one_line(str(error)), advice=error.advice)
    body = json.dumps(to_plain(ErrorAnswer(error=facts)), separators=(",", ":"))
    return Response(body, error.status, error.headers, media_type="application/json")


def _one_line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _refused(refusal: AccessDenied) -> ApiError:
    headers = {}
    if refusal.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="tony"'
    if refusal.wait:
        headers["Retry-After"] = str(round(refusal.wait))
    known = {401: "login-needed", 429: "too-many-tries"}
    return ApiError(refusal.status, known.get(refusal.status, "refused"), refusal.reason, headers=headers)


def _of_tony(error: TonyError) -> ApiError:
    """Errors of ours by whose they are."""
    match error:
        case UnknownJobError():
            return ApiError(404, "no-job", NO_JOB)
        case ConnectionFailed():
            return ApiError(
                503,
                "no-answer",
                str(error),
                "The job may be ending, or changing hands: ask again.",
                {"Retry-After": "2"},
            )
        case OverloadedError():
            return ApiError(503, "overloaded", str(error), "Try again later.", {"Retry-After": "30"})
        case ProtocolError(code=Code.BUSY):
            return ApiError(409, "busy", str(error), "Ask for the job, and then again.")
        case RecordError():
            return ApiError(502, "damaged-record", str(error))
    if error.exit_code is ExitCode.REFUSED:
        return ApiError(409, "refused", str(error))
    if error.exit_code is ExitCode.BUG:
        _log.error("a bug of ours: %s", error)
        return ApiError(500, "bug", str(error), "Please report it.")
    return ApiError(502, "infrastructure", str(error))
