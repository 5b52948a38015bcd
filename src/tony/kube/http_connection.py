"""Connections to one API server: TLS, proxies, and connections that are kept for further requests. Blocking."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from tony.kube.cluster_access import ClusterAccess
from tony.kube.credentials import LoginCredentials
from tony.kube.errors import AnswerLostError, UnreachableError

_CONNECT_TIMEOUT_SECONDS = 10.0
_HTTP_PORT = 80
#: Servers keep idle connections for minutes; load balancers in front of them may not.
_MAX_IDLE_SECONDS = 20.0
_MAX_IDLE_CONNECTIONS = 16
#: Of one answer. An object has at most 1.5 MiB, a page of a list 500 objects.
MAX_ANSWER_BYTES = 64 << 20
#: Keep-alive of TCP, so that a watch notices a dead peer: idle seconds, interval, probes.
_KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 20), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))


class ApiAnswer:
    """An answer whose head has arrived.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, owner: ApiConnections, link: http.client.HTTPConnection) -> None:
        self._owner, self._link = owner, link
        self._sock = link.sock  # the link forgets it if the server closes the connection after this answer
        self._response = link.getresponse()
        self.status = self._response.status

    def find_header(self, name: str) -> str | None:
        """Return a header; None if it is missing."""
        return self._response.getheader(name)

    def read_json(self) -> Any:
        """Return the body as JSON, or as text if it is none; the connection is kept.

        Raises:
            AnswerLostError: it did not arrive, or is too long.
        """
        try:
            body = self._response.read(MAX_ANSWER_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._owner.build_lost_error(error) from None
        if len(body) > MAX_ANSWER_BYTES:
            self.close()
            raise AnswerLostError(f"{self._owner.server} answered with more than {MAX_ANSWER_BYTES >> 20} MiB")
        if self._response.length:  # `read` with a limit does not say that the connection broke
            self.close()
            raise self._owner.build_lost_error(http.client.IncompleteRead(body, self._response.length))
        self._owner.keep(self._link)
        try:
            return json.loads(body)
        except ValueError:
            return body[:1000].decode(errors="replace")

    def read_line(self, limit: int) -> bytes:
        """Return the next line with its end; empty at the end of the body.

        Raises:
            AnswerLostError: the connection broke, nothing arrived in time, or the line is longer than `limit`.
        """
        try:
            line = self._response.readline(limit + 1)
        # ValueError, AttributeError: closed or interrupted by another thread
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            raise self._owner.build_lost_error(error) from None
        if len(line) > limit:
            raise AnswerLostError(f"{self._owner.server} sent a line of more than {limit} bytes")
        return line

    def interrupt(self) -> None:
        """Make a read of another thread return."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._response.close()
        self._link.close()


class ApiConnections:
    """Connections to one API server, kept while they are young. Thread-safe.

    Attributes:
        server: host and port, for messages.
        label: the same, and where it was found.
    """

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        parts = urlsplit(access.server)
        self._host, self._is_tls = parts.hostname or "", parts.scheme == "https"
        self._port = parts.port or (443 if self._is_tls else 80)
        self._prefix = parts.path.rstrip("/")
        self.server = parts.netloc
        self.label = f"the API server {parts.netloc} ({access.origin})"
        self._lock = threading.Lock()
        self._kept: list[tuple[float, http.client.HTTPConnection]] = []
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._is_closed = False

    def request(
        self, method: str, target: str, *, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> ApiAnswer:
        """Send a request once, and return its answer whatever the status.

        Args:
            target: path and query, quoted.
            timeout: seconds without a byte from the server.

        Raises:
            UnreachableError: nothing was sent.
            AnswerLostError: the request may have been carried out.
            CredentialsError: the client has no credentials.
        """
        login = self._access.credentials.load()
        sent = {"User-Agent": "tony", "Accept": "application/json", **self._build_user_headers(login), **headers}
        link = self._take_kept() or self._open(login)
        try:
            assert link.sock is not None
            link.sock.settimeout(timeout)
            link.request(method, self._prefix + target, body, sent)
            return ApiAnswer(self, link)
        except (OSError, http.client.HTTPException) as error:
            link.close()
            raise self.build_lost_error(error) from None
        except BaseException:
            link.close()
            raise

    def open_socket(self) -> tuple[socket.socket, Mapping[str, str]]:
        """Return a new connection for another protocol, and the headers that authenticate a request on it.

        Raises:
            UnreachableError: there is none.
            CredentialsError: the client has no credentials.
        """
        login = self._access.credentials.load()
        return self._connect(login), self._build_user_headers(login)

    def keep(self, link: http.client.HTTPConnection) -> None:
        """Keep a connection whose answer was read, if the server keeps it."""
        with self._lock:
            if link.sock is not None and not self._is_closed and len(self._kept) < _MAX_IDLE_CONNECTIONS:
                self._kept.append((time.monotonic(), link))
                return
        link.close()

    def close(self) -> None:
        """Close the kept connections, and keep no more of them."""
        with self._lock:
            self._is_closed = True
            kept, self._kept = self._kept, []
        for _, link in kept:
            link.close()

    def build_lost_error(self, error: Exception) -> AnswerLostError:
        """Return the error of a connection that broke."""
        if isinstance(error, TimeoutError):
            return AnswerLostError(f"the API server {self.server} did not answer in time")
        text = str(error) or type(error).__name__
        return AnswerLostError(f"the API server {self.server} closed the connection: {text}")

    def _build_user_headers(self, login: LoginCredentials) -> dict[str, str]:
        headers = {"Authorization": login.authorization} if login.authorization else {}
        if self._access.user:
            headers["Impersonate-User"] = self._access.user
        return headers

    def _take_kept(self) -> http.client.HTTPConnection | None:
        while True:
            with self._lock:
                if not self._kept:
                    return None
                since, link = self._kept.pop()
            if time.monotonic() - since < _MAX_IDLE_SECONDS and _is_quiet(link):
                return link
            link.close()

    def _open(self, login: LoginCredentials) -> http.client.HTTPConnection:
        link = http.client.HTTPConnection(self._host, self._port)
        link.sock = self._connect(login)
        return link

    def _connect(self, login: LoginCredentials) -> socket.socket:
        """Return a new connection, encrypted if the server wants that."""
        sock: socket.socket | None = None
        try:
            sock = self._connect_tcp()
            for option, value in _KEEP_ALIVE:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._is_tls:
                context = self._find_context(login)
                sock = context.wrap_socket(sock, server_hostname=self._access.tls_name or self._host)
        except BaseException as error:
            if sock is not None:
                sock.close()
            if isinstance(error, OSError | http.client.HTTPException):
                raise self._build_unreachable_error(error) from None
            raise
        return sock

    def _connect_tcp(self) -> socket.socket:
        if not self._access.proxy:
            return socket.create_connection((self._host, self._port), _CONNECT_TIMEOUT_SECONDS)
        proxy = self._parse_proxy()
        assert proxy.hostname is not None
        link = http.client.HTTPConnection(proxy.hostname, proxy.port or _HTTP_PORT, timeout=_CONNECT_TIMEOUT_SECONDS)
        headers = {}
        if proxy.username:
            pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
            headers["Proxy-Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        link.set_tunnel(self._host, self._port, headers)
        link.connect()
        assert isinstance(link.sock, socket.socket)
        return link.sock

    def _parse_proxy(self) -> SplitResult:
        url = self._access.proxy
        try:
            proxy = urlsplit(url if "://" in url else f"http://{url}")
            if proxy.scheme == "http" and proxy.hostname and proxy.port != 0:
                return proxy
        except ValueError:  # of a port that is no number
            pass
        text = f"{self.label}: its proxy {url.rpartition('@')[2]} cannot be used: only http://HOST:PORT can"
        raise UnreachableError(f"{text} (proxy-url of the kubeconfig file, or HTTPS_PROXY)", is_permanent=True)

    def _find_context(self, login: LoginCredentials) -> ssl.SSLContext:
        with self._lock:
            context = self._contexts.get(login.certificate)
            if context is None:  # the certificate of an exec plug-in changes from time to time
                context = self._access.create_tls_context(login)
                self._contexts = {login.certificate: context}
            return context

    def _build_unreachable_error(self, error: Exception) -> UnreachableError:
        where = self.label
        if isinstance(error, ssl.SSLCertVerificationError):
            text = f"{where}: its certificate is not trusted: {error.verify_message}"
            return UnreachableError(text, is_permanent=True)
        if self._access.proxy:
            proxy = self._parse_proxy()
            where = f"the proxy {proxy.hostname}:{proxy.port or _HTTP_PORT} of {where}"
        if isinstance(error, ConnectionRefusedError):
            return UnreachableError(f"{where} refuses connections: no process listens on that port")
        if isinstance(error, socket.gaierror):
            is_permanent = error.errno == socket.EAI_NONAME
            return UnreachableError(f"{where}: no such host ({error.strerror})", is_permanent=is_permanent)
        if isinstance(error, TimeoutError):
            return UnreachableError(f"{where} does not respond")
        if isinstance(error, ConnectionResetError | ssl.SSLEOFError):
            return UnreachableError(f"{where} closes connections at once: it is starting or ending")
        return UnreachableError(f"{where} cannot be reached: {error}")


def _is_quiet(link: http.client.HTTPConnection) -> bool:
    """Return True if an idle connection is still usable: readable data means that the server closed it."""
    if link.sock is None:
        return False
    poll = select.poll()
    poll.register(link.sock, select.POLLIN)
    return not poll.poll(0)
