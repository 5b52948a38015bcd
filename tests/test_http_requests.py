"""Requests to servers that refuse, redirect, or are not there."""

from __future__ import annotations

from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler

import pytest

from tests.support.http_servers import LocalServer, QuietHandler
from tony import http_requests
from tony.errors import ConnectionFailedError
from tony.http_requests import HttpClient, read_answer

BODY = b"x" * (8 << 20)


class Handler(QuietHandler, BaseHTTPRequestHandler):
    """Answers without reading a body, and closes the connection."""

    def do_PUT(self) -> None:
        self.send_response(403)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"no")
        self.close_connection = True

    def do_GET(self) -> None:
        self.send_response(307)
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", "9")
        self.end_headers()
        self.wfile.write(b"short")


@pytest.fixture
def client() -> HttpClient:
    return HttpClient(60.0, 3, lambda: None)


@pytest.mark.parametrize("body", [BODY, [BODY[:100], BODY[100:]]])
def test_a_server_that_refuses_before_it_has_the_body(client: HttpClient, body: bytes | Iterable[bytes]) -> None:
    with LocalServer(Handler) as server:
        url, headers = f"http://{server.host_and_port}/", {"Content-Length": str(len(BODY))}
        with client.open("PUT", url, headers, body) as answer:
            assert (answer.status, read_answer(answer, 100)) == (403, b"no")


def test_a_redirect_is_an_answer(client: HttpClient) -> None:
    with LocalServer(Handler) as server, client.open("GET", f"http://{server.host_and_port}/", {}) as answer:
        assert answer.status == 307
        assert read_answer(answer, 5) == b"short"
        with pytest.raises(ConnectionFailedError, match="the connection ended early"):
            read_answer(answer, 4)


def test_what_may_pass_is_tried_again(client: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_requests, "_PAUSES", [0.0] * 10)
    urls = []

    def send() -> object:
        urls.append("http://127.0.0.1:1/")
        return client.open("GET", urls[-1], {})

    with pytest.raises(ConnectionFailedError, match=r"^127\.0\.0\.1:1 cannot be reached: .*refused"):
        client.retry(send, ConnectionFailedError)
    assert len(urls) == 3
