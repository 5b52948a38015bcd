"""The pages of one running job, as a process beside its application master: `main()`.

The master listens, and starts this at the first connection with the socket that it listens on, so that pages cost it
neither memory nor time. What is shown comes from the job's folder and over the master's own socket, as for any command.
It ends with the master, or when nobody has asked for anything for long; the next connection starts it again.
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
from ipaddress import ip_address, ip_network
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tony import clock
from tony.dataclass import dataclass, field
from tony.linux.peer_credentials import peer_uid
from tony.linux.process import set_not_dumpable, set_parent_death_signal
from tony.model.codec import from_plain
from tony.model.layout import JobFolder
from tony.web.app import create
from tony.web.auth import AuthConfig, Authenticator, TrustedProxy
from tony.web.single_job_source import SingleJobSource
from tony.web.uvicorn_server import serve

#: What the master reads when connections are taken here.
UP = b"up\n"
#: Seconds without a request after which nobody seems to look any more.
IDLE = 900.0
#: Seconds in which it is to be known by which names people call the proxies.
_NAMES = 2.0
#: Ports that browsers leave out of an address.
_USUAL = {"http": 80, "https": 443}
_log = logging.getLogger("tony.web")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageServerConfig:
    """What the application master says: a line of JSON on our standard input, which stays open while it lives.

    Attributes:
        folder: of the job; socket: number of the open socket that listens.
        user: whose job it is.
        key: of pages' tokens, as hexadecimal digits; the master's, so that a page outlives this process.
        peers: addresses of the proxies through which people come.
        address: of the page, as people see it; whoever comes past the proxies is sent there.
        origins: how browsers call the proxies.
        runs_as: users as which they may run on this machine.
        vouches: whoever they let through may see the job.
        idle: seconds without a request after which to end.
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
    idle: float = IDLE


class AmServer:
    """The application, for those who come through the proxies.

    Attributes:
        asked: when somebody asked for something last.
    """

    def __init__(self, papers: PageServerConfig) -> None:
        folder = JobFolder(Path(papers.folder))
        self._papers = papers
        self._app: ASGIApp = create(
            SingleJobSource(folder), Authenticator(terms(papers)), only=folder.job_id, flows=False
        )
        self.asked = clock.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        self.asked = clock.monotonic()
        peer = scope.get("client")
        if scope["type"] != "http" or (peer and peer[0] in self._papers.peers):
            await self._app(scope, receive, send)
            return
        # They were asked by nobody who they are. No proxy ever sees this answer, so it may lead elsewhere.
        said = "Come through the cluster's own pages."
        if self._papers.address:
            await RedirectResponse(self._papers.address, 302)(scope, receive, send)
        else:
            await PlainTextResponse(said, 403)(scope, receive, send)


def terms(papers: PageServerConfig) -> AuthConfig:
    """On which people are let in: the proxies say who they are, and nobody else does.

    The user of a process on this machine means nothing: on many clusters all jobs of a node are one user's.
    """
    origins = {*papers.origins, *_further(papers.origins, _names(papers.peers))}
    proxy = TrustedProxy(
        addresses=tuple(ip_network(peer) for peer in papers.peers),
        cookie="proxy-user",
        origins=frozenset(origins),
        runs_as=frozenset(papers.runs_as),
        vouches=papers.vouches,
    )
    return AuthConfig(key=bytes.fromhex(papers.key), owner=papers.user, by_peer=False, proxies=(proxy,))


def _further(origins: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    """How browsers may call the proxies besides: YARN itself makes links of the first name of their addresses."""
    known = [urlsplit(origin) for origin in origins]
    whole = {*names, *(each.hostname or "" for each in known)} - {""}
    short = {name.partition(".")[0] for name in whole if not _is_number(name)}
    for each in known:
        port = "" if each.port in (None, _USUAL.get(each.scheme)) else f":{each.port}"
        for name in whole | short:
            yield f"{each.scheme}://{name}{port}"


def _names(addresses: Iterable[str]) -> set[str]:
    """What the network calls these addresses, as far as it says so soon."""
    found: list[str] = []

    def look() -> None:
        for address in addresses:
            with contextlib.suppress(OSError):
                name, others, _ = socket.gethostbyaddr(address)
                found.extend((name, *others))

    looking = Thread(target=look, daemon=True)
    looking.start()
    looking.join(_NAMES)
    return {name.lower() for name in found}


def _is_number(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def main() -> int:
    """Serves until the master has gone, or nobody looks any more."""
    set_parent_death_signal(signal.SIGKILL)
    set_not_dumpable()  # the job's token is read here
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=clock.LOG_LINE, force=True)
    logging.getLogger("uvicorn.error").addHandler(logging.NullHandler())
    line = _line(0)
    if not line:
        return 0  # the master has gone meanwhile
    papers = from_plain(PageServerConfig, json.loads(line), ignore_unknown=True)
    asyncio.run(_run(papers))
    return 0


def _line(number: int) -> bytes:
    """One line, and not a byte more: what comes after it is the end."""
    found = b""
    while not found.endswith(b"\n") and (byte := os.read(number, 1)):
        found += byte
    return found


async def _run(papers: PageServerConfig) -> None:
    listening = socket.socket(fileno=papers.socket)
    listening.setblocking(False)
    beside = AmServer(papers)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(0, ended.set)  # the master has gone: it says nothing more
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    work = asyncio.ensure_future(serve(beside, [listening], peer_uid))
    watch = asyncio.ensure_future(_idle(beside, papers.idle))
    loop.call_soon(os.write, 1, UP)
    try:
        await asyncio.wait([work, watch, asyncio.ensure_future(ended.wait())], return_when=asyncio.FIRST_COMPLETED)
    finally:
        watch.cancel()
        work.cancel()
        await asyncio.gather(work, watch, return_exceptions=True)


async def _idle(beside: AmServer, most: float) -> None:
    """Returns when nobody has asked for anything for so long."""
    while (left := beside.asked + most - clock.monotonic()) > 0:
        await asyncio.sleep(left)
