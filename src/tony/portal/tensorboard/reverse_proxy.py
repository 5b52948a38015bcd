"""Forwards a request to another server and streams back its response, with a minimal set of headers.

Cookies and tokens are not forwarded. The response can neither set cookies nor redirect the browser, and gets a content
security policy that restricts TensorBoard's pages to this server.
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

from tony.errors import ConnectionFailedError
from tony.web.request import PageError, read_body

#: Headers forwarded from a request, and back from a response.
_REQUEST_HEADERS = (b"accept", b"accept-encoding", b"accept-language", b"content-type")
_RESPONSE_HEADERS = (
    b"content-type",
    b"content-encoding",
    b"content-length",
    b"cache-control",
    b"content-disposition",
    b"vary",
)
#: Maximum bytes of a request's body, and of a response's.
MAX_REQUEST_BYTES = 4 << 20
MAX_RESPONSE_BYTES = 512 << 20
#: Until a response begins, and between two pieces of it.
_TIMEOUT_SECONDS = 120.0
_READ_BYTES = 64 << 10
#: Digests of the scripts inside TensorBoard's pages.
_DIGEST = re.compile(r"'sha256-[A-Za-z0-9+/]{43}='")


async def forward_request(
    request: Request,
    path: str,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    done: Callable[[], None],
) -> Response:
    """Forward a request and return the response.

    Args:
        path: on the other server, without the leading slash.
        done: called once when the response is finished or failed.

    Raises:
        PageError: the request's body is too large.
        ConnectionFailedError: there was no response.
    """
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            body = await read_body(request, MAX_REQUEST_BYTES)
            if body is None:
                raise PageError(413, "Request too large", "TensorBoard does not send requests of this size.")
            talk = h11.Connection(h11.CLIENT, max_incomplete_event_size=64 << 10)
            writer.write(_encode_request(talk, request, path, body))
            await writer.drain()
            head = await _read_next(talk, reader)
            while isinstance(head, h11.InformationalResponse):
                head = await _read_next(talk, reader)
        if not isinstance(head, h11.Response):
            raise ConnectionFailedError("the server sent no response")
    except (OSError, TimeoutError, h11.ProtocolError) as error:
        _end(writer, done)
        raise ConnectionFailedError(f"the server does not answer: {error}") from error
    except BaseException:
        _end(writer, done)
        raise
    response = _ForwardedResponse(_iterate_pieces(talk, reader), lambda: _end(writer, done), head.status_code)
    response.raw_headers = [(name, value) for name, value in head.headers if name in _RESPONSE_HEADERS]
    original_policy = b" ".join(value for name, value in head.headers if name == b"content-security-policy")
    response.headers["Content-Security-Policy"] = build_policy(original_policy.decode("latin-1"))
    return response


def build_policy(original_policy: str) -> str:
    """Return the content security policy of TensorBoard's pages: what they need, restricted to this server."""
    scripts = " ".join(["'self'", "'unsafe-eval'", *_DIGEST.findall(original_policy)])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "font-src 'self' data:; connect-src 'self'; frame-src 'self'; worker-src 'self' blob:; media-src 'self' data:; "
        "form-action 'self'; base-uri 'self'; frame-ancestors 'self'"
    )


def _encode_request(talk: h11.Connection, request: Request, path: str, body: bytes) -> bytes:
    query = request.scope["query_string"]
    target = f"/{quote(path, safe='/:@!$&()*+,;=~')}".encode() + (b"?" + query if query else b"")
    headers = [(b"host", b"localhost"), (b"connection", b"close")]
    headers += [(name, value) for name, value in request.scope["headers"] if name in _REQUEST_HEADERS]
    if body or request.method == "POST":
        headers.append((b"content-length", str(len(body)).encode()))
    pieces = [talk.send(h11.Request(method=request.method, target=target, headers=headers))]
    pieces += [talk.send(h11.Data(data=body)) if body else b"", talk.send(h11.EndOfMessage())]
    return b"".join(piece for piece in pieces if piece)


async def _read_next(talk: h11.Connection, reader: asyncio.StreamReader) -> object:
    while (event := talk.next_event()) is h11.NEED_DATA:
        talk.receive_data(await reader.read(_READ_BYTES))
    return event


async def _iterate_pieces(talk: h11.Connection, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    left = MAX_RESPONSE_BYTES
    while True:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            event = await _read_next(talk, reader)
        if not isinstance(event, h11.Data):
            return
        left -= len(event.data)
        if left < 0:
            raise ConnectionFailedError("the response is too large to forward")
        yield bytes(event.data)


class _ForwardedResponse(StreamingResponse):
    """A response that calls back when it was sent or the client disconnected, even before its first piece."""

    def __init__(self, pieces: AsyncIterator[bytes], on_finished: Callable[[], None], status: int) -> None:
        super().__init__(pieces, status_code=status)
        self._on_finished = on_finished

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_finished()


def _end(writer: asyncio.StreamWriter, done: Callable[[], None]) -> None:
    writer.close()
    done()
