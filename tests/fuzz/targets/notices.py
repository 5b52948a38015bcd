"""Responses of webhook receivers, which may be hostile."""

from __future__ import annotations

import asyncio

from tests.fuzz.target import Target, hold
from tony.am.http_post import MAX_STATUS_LINE_BYTES, WebhookRejectedError, read_status


def webhook_answer(data: bytes) -> None:
    """An answer's number, or why there is none."""

    async def read() -> int:
        reader = asyncio.StreamReader(limit=MAX_STATUS_LINE_BYTES)
        reader.feed_data(data)
        reader.feed_eof()
        return await read_status(reader)

    status = asyncio.run(read())
    hold(200 <= status <= 999, status)


TARGETS = (
    Target(
        name="webhook-answer",
        run=webhook_answer,
        errors=(WebhookRejectedError, asyncio.IncompleteReadError, asyncio.LimitOverrunError),
        seeds=lambda: [
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            b"HTTP/1.0 302 Found\r\nLocation: /\r\n\r\n",
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 40,
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"",
        ],
        tokens=(b"HTTP/1.1 ", b"HTTP/1.0 ", b"100 ", b"200 ", b"\r\n\r\n"),
    ),
)
