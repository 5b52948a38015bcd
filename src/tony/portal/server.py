"""The portal as a process: listens on this machine, says where, and serves until somebody ends it."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from tony import clock
from tony.bootstrap import settle
from tony.errors import InfraError
from tony.jobs.portal_address import noted
from tony.linux.peer_credentials import peer_uid
from tony.model.layout import Home
from tony.portal.history_location import absences, open_location
from tony.portal.indexed_jobs import IndexedJobs
from tony.portal.listen_options import ListenOptions
from tony.portal.login_routes import LoginRoutes
from tony.portal.tensorboard_routes import TensorBoardRoutes
from tony.portal.tokens import TokenFile
from tony.web.app import create
from tony.web.auth import Authenticator
from tony.web.uvicorn_server import listen, serve


async def run(
    home: Home,
    entrance: ListenOptions,
    announce: Callable[[str], None],
    histories: Sequence[str] = (),
    warn: Callable[[str], None] = lambda text: None,
) -> None:
    """Serves jobs, until SIGINT or SIGTERM.

    Args:
        entrance: where, and whom it lets in.
        announce: is told the address, once it is served there.
        histories: where the jobs are; the home, if nothing is said.
        warn: is told of those that are not there.

    Raises:
        UserError: one of them is no such place; the entrance makes no sense, or would let in anybody.
        InfraError: the port cannot be had.
    """
    entrance.check()
    tls, tokens = entrance.tls(), TokenFile(home.portal)
    terms = entrance.terms(tokens)
    stores = [open_location(each, home, os.environ) for each in histories or [str(home.path)]]
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=clock.LOG_LINE)
    logging.getLogger("uvicorn.error").addHandler(logging.NullHandler())
    try:
        socket = listen(entrance.host, entrance.port)
    except OSError as error:
        way = "Choose another: tony portal --port N; 0 takes any."
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            way = "Is --address one of this machine? --address 0.0.0.0 means all that it has."
        raise InfraError(f"port {entrance.port} of {entrance.host} cannot be had: {error.strerror}. {way}") from None
    door = Authenticator(terms)
    login = LoginRoutes(door, tokens, terms.cookie, secure=terms.secure)
    title = f"jobs of {terms.owner}" if not histories else ", ".join(store.address for store in stores)
    portal = IndexedJobs(home, stores, title)
    boarding = TensorBoardRoutes(home, portal, door)
    app = create(portal, door, login=True, more=[*login.routes(), *boarding.routes()])
    app.state.boards = True
    settle()  # or the first large job that is read has the collector look at all that was loaded
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    work = asyncio.ensure_future(serve(app, [socket], peer_uid, tls))
    try:
        await portal.start()
        address = entrance.address(socket.getsockname()[1])
        shows_home = not histories or str(home.path) in histories
        with noted(home, address) if shows_home else nullcontext():
            announce(address)
            for sentence in absences(stores if histories else ()):
                warn(sentence)
            await asyncio.wait([work, asyncio.ensure_future(ended.wait())], return_when=asyncio.FIRST_COMPLETED)
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await boarding.close()
        await portal.close()
        socket.close()
