"""A fake OCI registry with the part of the distribution API that pushes and finds images, and with fault injection.

Answers have the form of the OCI distribution specification v1.1, and headers in lower case, as some proxies send them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import sys
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from types import MappingProxyType
from urllib.parse import parse_qs, urlsplit

from tests.support.http_servers import LocalServer, QuietHandler

#: The first byte of a client that uses TLS.
_TLS_HANDSHAKE = b"\x16"
_BLOB = re.compile(r"/v2/(?P<name>.+)/blobs/(?P<digest>sha256:[0-9a-f]{64})")
_UPLOADS = re.compile(r"/v2/(?P<name>.+)/blobs/uploads/(?P<id>\d*)")
_MANIFEST = re.compile(r"/v2/(?P<name>.+)/manifests/(?P<reference>[^/]+)")


class FakeRegistry(LocalServer):
    """A registry on this machine.

    Attributes:
        blobs: digest -> content.
        manifests: digest or tag -> content.
        auth: `none`, `basic` or `token`.
        user: `name:password` of the user who may push.
        refresh_token: with it there are access tokens as well.
        requests: method and path of those that arrived.
        faults: called with method and path; return a status to answer with, or None.
    """

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        self.auth, self.user, self.refresh_token = "none", "ann:secret", "refresh"
        self.requests: list[tuple[str, str]] = []
        self.faults: Callable[[str, str], int | None] = lambda _method, _path: None
        self.tokens: set[str] = set()


class _Handler(QuietHandler, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeRegistry

    def handle(self) -> None:
        if self.connection.recv(1, socket.MSG_PEEK) == _TLS_HANDSHAKE:  # clients use HTTP after such an answer
            self.wfile.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
        else:
            super().handle()

    def _handle(self) -> None:
        registry, path = self.server, urlsplit(self.path).path
        registry.requests.append((self.command, path))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if status := registry.faults(self.command, path):
            self._refuse(status, "DENIED", "requested access to the resource is denied")
        elif path == "/token":
            self._issue_token(body)
        elif not self._is_allowed():
            self._challenge()
        elif match := _UPLOADS.fullmatch(path):
            self._upload(match["name"], match["id"], body)
        elif match := _BLOB.fullmatch(path):
            self._find(registry.blobs.get(match["digest"]), match["digest"], "BLOB_UNKNOWN")
        elif match := _MANIFEST.fullmatch(path):
            self._handle_manifest(match["reference"], body)

    do_GET = do_HEAD = do_POST = do_PUT = _handle  # noqa: N815

    def _handle_manifest(self, reference: str, body: bytes) -> None:
        registry = self.server
        if self.command != "PUT":
            found = registry.manifests.get(reference)
            self._find(found, _digest(found or b""), "MANIFEST_UNKNOWN")
            return
        content = json.loads(body)
        named = [*content.get("layers", ()), *filter(None, [content.get("config")])]
        missing = [each for each in named if each["digest"] not in registry.blobs]
        missing += [each for each in content.get("manifests", ()) if each["digest"] not in registry.manifests]
        is_named_right = ":" not in reference or reference == _digest(body)
        if missing or content["mediaType"] != self.headers["Content-Type"] or not is_named_right:
            self._refuse(400, "MANIFEST_INVALID", "manifest invalid")
            return
        registry.manifests |= {reference: body, _digest(body): body}
        self._answer(201, headers={"Docker-Content-Digest": _digest(body)})

    def _upload(self, name: str, upload: str, body: bytes) -> None:
        if self.command == "POST":
            self._answer(202, headers={"Location": f"/v2/{name}/blobs/uploads/1?_state=x%3D"})
            return
        query = parse_qs(urlsplit(self.path).query)
        digest = query["digest"][0]
        if query["_state"] != ["x="] or digest != _digest(body):
            self._refuse(400, "DIGEST_INVALID", "provided digest did not match uploaded content")
            return
        self.server.blobs[digest] = body
        self._answer(201)

    def _find(self, content: bytes | None, digest: str, code: str) -> None:
        if content is None:
            self._refuse(404, code, "unknown")
        else:
            kind = json.loads(content)["mediaType"] if code == "MANIFEST_UNKNOWN" else "application/octet-stream"
            # Proxies may change the case of headers.
            self._answer(200, content, {"docker-content-digest": digest, "content-type": kind})

    # --- credentials ----------------------------------------------------------------------------------------------

    def _is_allowed(self) -> bool:
        given, registry = self.headers.get("Authorization", ""), self.server
        match registry.auth:
            case "basic":
                return given == _basic(registry.user)
            case "token":
                return given.removeprefix("Bearer ") in registry.tokens
        return True

    def _challenge(self) -> None:
        value = 'Basic realm="here"'
        if self.server.auth == "token":
            scope = 'scope="repository:x:pull"'
            value = f'Bearer realm="http://{self.server.host_and_port}/token?a=b",service="fake, really",{scope}'
        self._refuse(401, "UNAUTHORIZED", "authentication required", {"WWW-Authenticate": value})

    def _issue_token(self, body: bytes) -> None:
        registry = self.server
        fields = parse_qs(body.decode() or urlsplit(self.path).query)
        is_known = self.headers.get("Authorization") == _basic(registry.user)
        if self.command == "POST":
            is_known = fields["refresh_token"] == [registry.refresh_token]
        if not is_known or fields["service"] != ["fake, really"]:
            self._refuse(401, "UNAUTHORIZED", "incorrect username or password")
            return
        assert fields["scope"] == ["repository:team/files:pull,push"]
        registry.tokens.add(f"token-{len(registry.tokens)}")
        key = "token" if self.command == "GET" else "access_token"
        self._answer(200, json.dumps({key: f"token-{len(registry.tokens) - 1}"}).encode())

    # --- answers --------------------------------------------------------------------------------------------------

    def _refuse(self, status: int, code: str, message: str, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        self._answer(status, json.dumps({"errors": [{"code": code, "message": message}]}).encode(), headers)

    def _answer(self, status: int, body: bytes = b"", headers: Mapping[str, str] = MappingProxyType({})) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _basic(user: str) -> str:
    return f"Basic {base64.b64encode(user.encode()).decode()}"


def main() -> None:
    """Serve until the standard input ends; print host and port first, and the requests at the end."""
    with FakeRegistry() as registry:
        print(registry.host_and_port, flush=True)
        sys.stdin.read()
        print(json.dumps(registry.requests))


if __name__ == "__main__":
    main()
