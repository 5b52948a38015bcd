"""The process of `tony portal`: listens, announces its address, and serves until it is stopped."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from tony import clock
from tony.errors import InfraError
from tony.isolated_interpreter import settle
from tony.jobs.portal_client.known_portals import publish_address
from tony.linux.socket_owners import peer_uid
from tony.model.state_directory import Home
from tony.portal.access.listen_options import ListenOptions
from tony.portal.access.login_credentials import TokenFile
from tony.portal.access.login_routes import LoginRoutes
from tony.portal.histories.history_locations import describe_absences, open_location
from tony.portal.indexed_jobs import IndexedJobs
from tony.portal.tensorboard.tensorboard_routes import TensorBoardRoutes
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import Authenticator
from tony.web.uvicorn_server import listen, serve


async def run(
    home: Home,
    entrance: ListenOptions,
    announce: Callable[[str], None],
    histories: Sequence[str] = (),
    warn: Callable[[str], None] = lambda text: None,
) -> None:
    """Serve jobs until SIGINT or SIGTERM.

    Args:
        entrance: address and authentication.
        announce: called with the address when the portal is ready.
        histories: locations of jobs; default the state directory.
        warn: called with a sentence for each location that does not exist.

    Raises:
        UserError: a location or an option is invalid, or the options are insecure.
        InfraError: the port is not available.
    """
    entrance.check()
    tls, tokens = entrance.create_tls_context(), TokenFile(home.portal)
    auth_config = entrance.build_auth_config(tokens)
    stores = [open_location(history, home, os.environ) for history in histories or [str(home.path)]]
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=clock.LOG_LINE)
    logging.getLogger("uvicorn.error").addHandler(logging.NullHandler())
    listening = _listen(entrance)
    title = f"jobs of {auth_config.owner}" if not histories else ", ".join(store.address for store in stores)
    portal = IndexedJobs(home, stores, title)
    context = ServerContext(portal, Authenticator(auth_config), login=True, boards=True)
    login = LoginRoutes(context, tokens, auth_config.cookie, secure=auth_config.secure)
    tensorboards = TensorBoardRoutes(home, portal, context)
    app = create(context, [*login.build_routes(), *tensorboards.build_routes()])
    settle()  # else garbage collection while reading the first large job would traverse all loaded modules
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    work = asyncio.ensure_future(serve(app, [listening], peer_uid, tls))
    try:
        await portal.start()
        address = entrance.build_address(listening.getsockname()[1])
        shows_home = not histories or str(home.path) in histories
        with publish_address(home, address) if shows_home else nullcontext():
            for sentence in describe_absences(stores if histories else ()):
                warn(sentence)
            announce(address)
            await asyncio.wait([work, asyncio.ensure_future(ended.wait())], return_when=asyncio.FIRST_COMPLETED)
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await tensorboards.close()
        await portal.close()
        listening.close()


def _listen(entrance: ListenOptions) -> socket.socket:
    try:
        return listen(entrance.host, entrance.port)
    except OSError as error:
        hint = "Choose another: tony portal --port N; 0 for any free port."
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            hint = "Is --address one of this machine? --address 0.0.0.0 means all of its addresses."
        raise InfraError(f"cannot listen on {entrance.host}:{entrance.port}: {error.strerror}. {hint}") from None
