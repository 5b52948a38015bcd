"""Serve the API: route a request to its operation, authenticate it, parse parameters, encode the response.

Every response is JSON, errors included, except raw files and logs. There are no redirects and no responses without a
body, apart from 304 for `If-None-Match`; see `app.py` for the reason.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from hashlib import blake2b
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import URLPath
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from tony.errors import (
    ConnectionFailedError,
    ExitCode,
    OverloadedError,
    ProtocolError,
    RecordError,
    TonyError,
    UnknownJobError,
)
from tony.jobs.directory.secret_patterns import JSON
from tony.linux.thread_pools import to_thread
from tony.model.codec import DecodeError, Json, from_plain, to_plain
from tony.model.strict_json import loads
from tony.protocol.error_codes import Code
from tony.web.api import job_actions, job_operations, log_operations
from tony.web.api.openapi import build_document
from tony.web.api.operation import NO_JOB, ApiError, Operation, OperationCall, Operations
from tony.web.api.response_types import ChangeBody, ErrorAnswer, ErrorFacts
from tony.web.authorization import AccessDenied, User
from tony.web.job_provider import JobProvider
from tony.web.request import PageError, read_body
from tony.web.user_authentication import Authenticator

PREFIX = "/api/v1"
#: Maximum size of a request body.
_MAX_BODY_BYTES = 16 << 10
_log = logging.getLogger(__name__)
OPERATIONS = Operations(
    (*job_operations.OPERATIONS, *log_operations.OPERATIONS, *job_actions.OPERATIONS),
)


@OPERATIONS.add("/openapi.json")
async def openapi(call: OperationCall) -> Json:
    """Return this document."""
    return build_document(OPERATIONS)


class Api(BaseRoute):
    """The route of everything below `/api/v1`.

    Args:
        only: the id of the only job to serve; empty: many are served.
    """

    def __init__(self, provider: JobProvider, auth: Authenticator, only: str = "") -> None:
        self._provider, self._auth, self._only = provider, auth, only
        self._routes = [(_compile_pattern(operation.path), operation) for operation in OPERATIONS]

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_api = scope["type"] == "http" and _get_path(scope).startswith(f"{PREFIX}/")
        return (Match.FULL if is_api else Match.NONE), {}

    def url_path_for(self, name: str, /, **path_params: Any) -> URLPath:
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        with contextlib.suppress(ClientDisconnect):
            response = await respond(request, self._answer)
            await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        portal_user = await authenticate(self._auth, request)
        operation, words = self._find(request)
        call = OperationCall(
            request=request,
            portal_user=portal_user,
            provider=self._provider,
            values=_parse_values(operation, words, request),
            only=self._only,
        )
        if operation.changes:
            await check_change(self._auth, request, portal_user)
        made = await operation.handler(call)
        if isinstance(made, Response):
            return made
        body = await to_thread(_encode_json, made)
        return _build_json_response(request, body, _build_links(request, made))

    def _find(self, request: Request) -> tuple[Operation, Mapping[str, str]]:
        path = _get_path(request.scope).removeprefix(PREFIX)
        found = [(each, match.groupdict()) for pattern, each in self._routes if (match := pattern.fullmatch(path))]
        if not found:
            raise ApiError(404, "no-such-address", "Unknown address.", f"{PREFIX}/openapi.json lists all addresses.")
        method = "GET" if request.method == "HEAD" else request.method
        for operation, words in found:
            if operation.method == method:
                return operation, words
        allowed = sorted({each.method for each, _ in found} | {"HEAD" for each, _ in found if not each.changes})
        raise ApiError(
            405,
            "wrong-method",
            f"This address does not support {request.method[:20]}.",
            f"Use {' or '.join(allowed)}.",
            {"Allow": ", ".join(allowed)},
        )


async def respond(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
    """Return the answer to a request; an error is answered as JSON."""
    try:
        return await answer(request)
    except ApiError as error:
        return _build_problem_response(error)
    except PageError as error:
        return _build_problem_response(ApiError(error.status, "no-page", error.what))
    except TonyError as error:
        return _build_problem_response(_to_api_error(error))
    except ClientDisconnect:
        raise
    except Exception:
        _log.exception("an operation failed: %s %s", request.method, request.url.path)
        return _build_problem_response(
            ApiError(500, "bug", "This is a bug in tony.", "The server's log has the details; please report it.")
        )


async def authenticate(auth: Authenticator, request: Request) -> User:
    """Return the user of a request.

    Raises:
        ApiError: it is refused.
    """
    portal_user = await auth.authenticate(request)
    if isinstance(portal_user, AccessDenied):
        raise _convert_refusal(portal_user)
    return portal_user


async def check_change(auth: Authenticator, request: Request, portal_user: User) -> None:
    """Check that the user intended a request that changes something.

    Raises:
        ApiError: that is not certain.
    """
    token = request.query_params.get("token") or await _read_token(request)
    refusal = auth.check_change(request, portal_user, token)
    if refusal is not None:
        hint = "" if token else f'Send page_token of {PREFIX}/me as {{"token": ...}}, or an API token.'
        raise ApiError(refusal.status, "not-own", refusal.reason, hint)


def _get_path(scope: Scope) -> str:
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _compile_pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path)))


def _parse_values(operation: Operation, words: Mapping[str, str], request: Request) -> dict[str, Any]:
    """Return the values of the parameters.

    Raises:
        ApiError: one is missing or invalid.
    """
    values: dict[str, Any] = {}
    for parameter in operation.parameters:
        texts = [words[parameter.name]] if parameter.in_path else request.query_params.getlist(parameter.name)
        if len(texts) > 1:
            raise ApiError(400, "bad-parameter", f"{parameter.name} is given {len(texts)} times.", "Give it once.")
        text = texts[0] if texts else None
        if text is None or (text == "" and isinstance(parameter.usual, str)):
            if parameter.required:
                raise ApiError(400, "bad-parameter", f"{parameter.name} is missing: {parameter.what}.")
            values[parameter.name] = parameter.usual
            continue
        try:
            if parameter.required and not text:
                raise ValueError(parameter.what)
            values[parameter.name] = parameter.read(text)
        except ValueError as error:
            raise ApiError(400, "bad-parameter", f"{parameter.name}: {text[:60]!r}: {error}.") from None
    return values


async def _read_token(request: Request) -> str:
    """Return the page token in the body; empty if there is no body.

    Raises:
        ApiError: the body is too long or invalid.
    """
    data = await read_body(request, _MAX_BODY_BYTES)
    if data is None:
        raise ApiError(413, "too-long", f"The request body is longer than {_MAX_BODY_BYTES} bytes.")
    if not data.strip():
        return ""
    try:
        return from_plain(ChangeBody, loads(data)).token
    except (DecodeError, ValueError) as error:
        raise ApiError(
            400, "bad-body", f"The request body is invalid: {error}", 'Send {"token": "..."}, or no body.'
        ) from None


def _build_links(request: Request, made: object) -> dict[str, str]:
    """Return a `Link` header with the address of the next page, relative to this one."""
    after = getattr(made, "next", "")
    if not isinstance(after, str) or not after:
        return {}
    words = {**dict(request.query_params), "after": after}
    words.pop("token", None)
    return {"Link": f'<?{urlencode(words)}>; rel="next"'}


def _encode_json(made: object) -> bytes:
    """Encode a response as JSON.

    Raises:
        RecordError: it contains a value that JSON cannot represent.
    """
    try:
        # Responses also contain error messages, commands and the like of user programs, which may contain secrets.
        return JSON.hide(json.dumps(to_plain(made), separators=(",", ":"), allow_nan=False).encode())
    except (ValueError, TypeError) as error:
        raise RecordError(f"the response cannot be encoded as JSON: {error}") from error


def _build_json_response(request: Request, body: bytes, headers: Mapping[str, str]) -> Response:
    tag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
    known = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    if request.method in ("GET", "HEAD") and (tag in known or known == ["*"]):
        return Response(status_code=304, headers={**headers, "ETag": tag})
    return Response(body, media_type="application/json", headers={**headers, "ETag": tag})


# --- errors -----------------------------------------------------------------------------------------------------------


def _build_problem_response(error: ApiError) -> Response:
    facts = ErrorFacts(status=error.status, code=error.code, message=_join_lines(str(error)), advice=error.advice)
    body = json.dumps(to_plain(ErrorAnswer(error=facts)), separators=(",", ":"))
    return Response(body, error.status, error.headers, media_type="application/json")


def _join_lines(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _convert_refusal(refusal: AccessDenied) -> ApiError:
    headers = {}
    if refusal.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="tony"'
    if refusal.wait:
        headers["Retry-After"] = str(round(refusal.wait))
    known = {401: "login-needed", 429: "too-many-tries"}
    return ApiError(refusal.status, known.get(refusal.status, "refused"), refusal.reason, headers=headers)


def _to_api_error(error: TonyError) -> ApiError:
    match error:
        case UnknownJobError():
            return ApiError(404, "no-job", NO_JOB)
        case ConnectionFailedError():
            return ApiError(
                503,
                "no-answer",
                str(error),
                "The job may be ending, or its application master may be restarting: try again.",
                {"Retry-After": "2"},
            )
        case OverloadedError():
            return ApiError(503, "overloaded", str(error), "Try again later.", {"Retry-After": "30"})
        case ProtocolError(code=Code.BUSY):
            return ApiError(409, "busy", str(error), "Check the job's status, then try again.")
        case RecordError():
            return ApiError(502, "damaged-record", str(error))
    if error.exit_code is ExitCode.REFUSED:
        return ApiError(409, "refused", str(error))
    if error.exit_code is ExitCode.BUG:
        _log.error("a bug in tony: %s", error)
        return ApiError(500, "bug", str(error), "Please report it.")
    return ApiError(502, "infrastructure", str(error))
