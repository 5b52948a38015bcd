"""The page server of one running job, a process next to its application master: `main()`.

The AM listens, and starts this process at the first connection with its listening socket, so that pages cost the AM
neither memory nor time. Pages read the job directory and the AM's own socket, like every command. The process exits
with the AM, or after a long time without requests; the next connection starts it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tony import clock
from tony.linux.process import set_not_dumpable, set_parent_death_signal
from tony.linux.socket_owners import peer_uid
from tony.model.codec import from_plain
from tony.model.state_directory import JobFolder
from tony.web.app import create
from tony.web.job_provider import SingleJobProvider
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator, TrustedProxy
from tony.web.uvicorn_server import serve

#: Written to standard output, for the AM, once this process accepts connections.
UP = b"up\n"
#: Seconds without a request after which the process exits.
IDLE_TIMEOUT_SECONDS = 900.0
_REVERSE_LOOKUP_TIMEOUT_SECONDS = 2.0
#: Ports that browsers leave out of an origin.
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageServerConfig:
    """The configuration that the AM sends: a line of JSON on standard input, which stays open while the AM runs.

    Attributes:
        socket: file descriptor of the listening socket.
        user: owner of the job.
        key: secret key of the page tokens, in hexadecimal; created by the AM, so that pages outlive this process.
        peers: IP addresses of the trusted proxies.
        address: public URL of the page; requests that bypass the proxies are redirected there.
        origins: the proxies' addresses in browsers.
        runs_as: OS users that the proxies may run as on this machine.
        vouches: every request that they forward may see the job.
        idle: seconds without a request after which to exit.
    """

    folder: str
    socket: int
    user: str
    key: str = field(repr=False)
    peers: tuple[str, ...] = ()
    address: str = ""
    origins: tuple[str, ...] = ()
    runs_as: tuple[str, ...] = ()
    vouches: bool = True
    idle: float = IDLE_TIMEOUT_SECONDS


class AmServer:
    """The application as reached through the trusted proxies.

    Attributes:
        last_request_at: time of the last request, of the monotonic clock.
    """

    def __init__(self, config: PageServerConfig) -> None:
        folder = JobFolder(Path(config.folder))
        self._config = config
        self._app: ASGIApp = create(
            ServerContext(SingleJobProvider(folder), Authenticator(build_auth_config(config)), only=folder.job_id)
        )
        self.last_request_at = clock.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.last_request_at = clock.monotonic()
        peer = scope.get("client")
        if scope["type"] != "http" or (peer and peer[0] in self._config.peers):
            await self._app(scope, receive, send)
            return
        # Not authenticated by a proxy. No proxy ever sees this response, so a redirect is safe.
        if self._config.address:
            await RedirectResponse(self._config.address, 302)(scope, receive, send)
        else:
            await PlainTextResponse("Open this page through the cluster's web UI.", 403)(scope, receive, send)


def build_auth_config(config: PageServerConfig) -> AuthConfig:
    """Return the authentication settings: only the proxies identify users.

    The OS user of a local process proves nothing: on many clusters all jobs of a node run as one user.
    """
    origins = {*config.origins, *_derive_origins(config.origins, _reverse_lookup(config.peers))}
    proxy = TrustedProxy(
        addresses=tuple(ip_network(peer) for peer in config.peers),
        cookie="proxy-user",
        origins=frozenset(origins),
        runs_as=frozenset(config.runs_as),
        vouches=config.vouches,
    )
    return AuthConfig(key=bytes.fromhex(config.key), owner=config.user, by_peer=False, proxies=(proxy,))


def _derive_origins(origins: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    """Yield origins for all host names of the proxies, full and short: YARN itself builds links with the short ones."""
    known = [urlsplit(origin) for origin in origins]
    full_names = {*names, *(each.hostname or "" for each in known)} - {""}
    short_names = {name.partition(".")[0] for name in full_names if not _is_ip_address(name)}
    for each in known:
        port = "" if each.port in (None, _DEFAULT_PORTS.get(each.scheme)) else f":{each.port}"
        for name in full_names | short_names:
            yield f"{each.scheme}://{name}{port}"


def _reverse_lookup(addresses: Iterable[str]) -> set[str]:
    """Return the host names of IP addresses, as far as they resolve before the timeout."""
    found: list[str] = []

    def resolve() -> None:
        for address in addresses:
            with contextlib.suppress(OSError):
                name, others, _ = socket.gethostbyaddr(address)
                found.extend((name, *others))

    resolver = Thread(target=resolve, daemon=True)
    resolver.start()
    resolver.join(_REVERSE_LOOKUP_TIMEOUT_SECONDS)
    return {name.lower() for name in found}


def _is_ip_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def main() -> int:
    """Serve until the AM exits, or until no request has come for a while."""
    set_parent_death_signal(signal.SIGKILL)
    set_not_dumpable()  # this process reads the job's token
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=clock.LOG_LINE, force=True)
    logging.getLogger("uvicorn.error").addHandler(logging.NullHandler())
    line = _read_line(0)
    if not line:
        return 0  # the AM has exited
    config = from_plain(PageServerConfig, json.loads(line), ignore_unknown=True)
    asyncio.run(_run(config))
    return 0


def _read_line(descriptor: int) -> bytes:
    """Read one line and not a byte more, so that end of file can be detected later."""
    found = b""
    while not found.endswith(b"\n") and (byte := os.read(descriptor, 1)):
        found += byte
    return found


async def _run(config: PageServerConfig) -> None:
    listening = socket.socket(fileno=config.socket)
    listening.setblocking(False)
    application = AmServer(config)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(0, stopped.set)  # end of file: the AM has exited
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    work = asyncio.ensure_future(serve(application, [listening], peer_uid))
    watch = asyncio.ensure_future(_wait_until_idle(application, config.idle))
    loop.call_soon(os.write, 1, UP)
    try:
        await asyncio.wait([work, watch, asyncio.ensure_future(stopped.wait())], return_when=asyncio.FIRST_COMPLETED)
    finally:
        watch.cancel()
        work.cancel()
        await asyncio.gather(work, watch, return_exceptions=True)


async def _wait_until_idle(application: AmServer, idle_seconds: float) -> None:
    while (left := application.last_request_at + idle_seconds - clock.monotonic()) > 0:
        await asyncio.sleep(left)
