"""Who is answered at the AM's web address, and with what."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

import pytest

from tests.am.test_fallback_page import report
from tests.support.waiting import wait_until
from tony.am import web_listener
from tony.am.web_listener import WebListener

HOST = "127.0.0.1"


async def fetch(request: bytes, peers: Collection[str] = (), proxy: str = "") -> tuple[str, dict[str, str], str]:
    """Status line, headers and body of what a page answers."""
    page = WebListener(report, peers, proxy)
    port = await page.listen(HOST)
    try:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(), 30)
        writer.close()
    finally:
        await page.close()
    head, _, body = answer.decode().partition("\r\n\r\n")
    status, *lines = head.split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines), body


def get(path: str = "/") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def test_the_page_shows_the_status() -> None:
    """The job, each task, nothing to load, and itself again."""
    status, headers, body = asyncio.run(fetch(get()))
    assert status == "HTTP/1.1 200 OK"
    assert headers["Content-Length"] == str(len(body.encode()))
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "<td>worker:1</td><td class=failed>failed</td>" in body
    assert 'http-equiv="refresh"' in body
    assert "src=" not in body
    assert "href=" not in body


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"HEAD / HTTP/1.1\r\n\r\n", "200 OK"),
        (get("/?x=1"), "200 OK"),
        (get("/etc/passwd"), "404 Not Found"),
        (b"POST / HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        (b"\x16\x03\x01 nonsense\r\n\r\n", "405 Method Not Allowed"),
    ],
)
def test_other_requests(request_: bytes, status: str) -> None:
    assert asyncio.run(fetch(request_))[0] == f"HTTP/1.1 {status}"


def test_unauthenticated_clients_are_redirected_to_the_proxy() -> None:
    """A request that bypasses the cluster's proxy has no user."""
    status, headers, _ = asyncio.run(fetch(get(), ["192.0.2.1"], "http://rm:8088/proxy/application_1_0001/"))
    assert status == "HTTP/1.1 302 Found"
    assert headers["Location"] == "http://rm:8088/proxy/application_1_0001/"
    assert asyncio.run(fetch(get(), ["192.0.2.1"]))[0] == "HTTP/1.1 403 Forbidden"
    assert asyncio.run(fetch(get(), [HOST]))[0] == "HTTP/1.1 200 OK"


def test_a_request_without_end_is_dropped() -> None:
    """Nothing is kept of it but a bounded piece."""

    async def flood() -> bytes:
        page = WebListener(report, (), "")
        port = await page.listen(HOST)
        reader, writer = await asyncio.open_connection(HOST, port)
        try:
            writer.write(b"GET / HTTP/1.1\r\n" + b"x" * 100_000)
            return await asyncio.wait_for(reader.read(), 30)
        except ConnectionError:
            return b""
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            await page.close()

    assert asyncio.run(flood()) == b""


def test_silent_connections_do_not_exclude_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a limit they are closed at once; all of them together leave room for the proxy."""
    monkeypatch.setattr(web_listener, "_MAX_OTHER_CONNECTIONS", 30)

    async def run() -> str:
        page = WebListener(report, {"127.0.0.9"}, "")
        port = await page.listen("127.0.0.1")
        unauthenticated = [await asyncio.open_connection(HOST, port) for _ in range(60)]
        try:
            closed = [asyncio.ensure_future(reader.read()) for reader, _ in unauthenticated]
            await wait_until(lambda: sum(each.done() for each in closed) >= 30)
            reader, writer = await asyncio.open_connection(HOST, port, local_addr=("127.0.0.9", 0))
            writer.write(get())
            answer = await reader.read()
            writer.close()
            assert sum(each.done() for each in closed) == 30
            return answer.decode()
        finally:
            for each in closed:
                each.cancel()
            await asyncio.gather(*closed, return_exceptions=True)
            for _, writer in unauthenticated:
                writer.close()
            await page.close()

    assert asyncio.run(asyncio.wait_for(run(), 60)).startswith("HTTP/1.1 200 OK")
