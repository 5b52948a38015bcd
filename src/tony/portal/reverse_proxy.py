"""Hands a request on to another server behind ours, and its answer back: piece by piece, and only what it needs.

Nothing that says who somebody is goes there: no cookie, no token. What comes back cannot set one, nor send a browser
elsewhere.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from urllib.parse import quote

import h11
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tony.errors import ConnectionFailed

#: What is handed on of a request, and back of an answer.
_THERE = (b"accept", b"accept-encoding", b"accept-language", b"content-type")
_BACK = (b"content-type", b"content-encoding", b"content-length", b"cache-control", b"content-disposition", b"vary")
#: Bytes of a request's body, and of an answer's; seconds until one begins, and between two pieces of it.
MOST_ASKED, MOST_ANSWERED = 4 << 20, 512 << 20
_PATIENCE = 120.0
_PIECE = 64 << 10
#: Scripts that stand in TensorBoard's pages themselves are named by their digests.
_DIGEST = re.compile(r"'sha256-[A-Za-z0-9+/]{43}='")


class RequestTooLargeError(Exception):
    """It has more bytes than are handed on."""


async def forward_request(
    request: Request,
    path: str,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    done: Callable[[], None],
) -> Response:
    """The answer of a server to a request.

    Args:
        path: there, without the first slash.
        done: called once when the answer is over, or came to nothing.

    Raises:
        TooLong: the request.
        ConnectionFailed: there was no answer.
    """
    try:
        async with asyncio.timeout(_PATIENCE):
            body = await _body(request)
            talk = h11.Connection(h11.CLIENT, max_incomplete_event_size=64 << 10)
            writer.write(_asked(talk, request, path, body))
            await writer.drain()
            head = await _next(talk, reader)
            while isinstance(head, h11.InformationalResponse):
                head = await _next(talk, reader)
        if not isinstance(head, h11.Response):
            raise ConnectionFailed("the server answers nothing")
    except (OSError, TimeoutError, h11.ProtocolError) as error:
        _end(writer, done)
        raise ConnectionFailed(f"the server does not answer: {error}") from error
    except BaseException:
        _end(writer, done)
        raise
    response = _Answer(_pieces(talk, reader), lambda: _end(writer, done), head.status_code)
    response.raw_headers = [(name, value) for name, value in head.headers if name in _BACK]
    theirs = b" ".join(value for name, value in head.headers if name == b"content-security-policy")
    response.headers["Content-Security-Policy"] = policy(theirs.decode("latin-1"))
    return response


def policy(theirs: str) -> str:
    """What pages of a TensorBoard may do: what they need of what they say, and nothing outside of this server."""
    scripts = " ".join(["'self'", "'unsafe-eval'", *_DIGEST.findall(theirs)])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "font-src 'self' data:; connect-src 'self'; frame-src 'self'; worker-src 'self' blob:; media-src 'self' data:; "
        "form-action 'self'; base-uri 'self'; frame-ancestors 'self'"
    )


async def _body(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_ASKED:
            raise RequestTooLargeError
        parts.append(part)
    return b"".join(parts)


def _asked(talk: h11.Connection, request: Request, path: str, body: bytes) -> bytes:
    query = request.scope["query_string"]
    target = f"/{quote(path, safe='/:@!$&()*+,;=~')}".encode() + (b"?" + query if query else b"")
    headers = [(b"host", b"localhost"), (b"connection", b"close")]
    headers += [(name, value) for name, value in request.scope["headers"] if name in _THERE]
    if body or request.method == "POST":
        headers.append((b"content-length", str(len(body)).encode()))
    pieces = [talk.send(h11.Request(method=request.method, target=target, headers=headers))]
    pieces += [talk.send(h11.Data(data=body)) if body else b"", talk.send(h11.EndOfMessage())]
    return b"".join(piece for piece in pieces if piece)


async def _next(talk: h11.Connection, reader: asyncio.StreamReader) -> object:
    while (event := talk.next_event()) is h11.NEED_DATA:
        talk.receive_data(await reader.read(_PIECE))
    return event


async def _pieces(talk: h11.Connection, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    left = MOST_ANSWERED
    while True:
        async with asyncio.timeout(_PATIENCE):
            event = await _next(talk, reader)
        if not isinstance(event, h11.Data):
            return
        left -= len(event.data)
        if left < 0:
            raise ConnectionFailed("the answer is longer than is handed on")
        yield bytes(event.data)


class _Answer(StreamingResponse):
    """Is over when it was sent, or nobody wants it any more, even before its first piece."""

    def __init__(self, pieces: AsyncIterator[bytes], over: Callable[[], None], status: int) -> None:
        super().__init__(pieces, status_code=status)
        self._over = over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._over()


def _end(writer: asyncio.StreamWriter, done: Callable[[], None]) -> None:
    writer.close()
    done()
