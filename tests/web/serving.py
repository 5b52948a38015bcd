"""An application served for real, by a loop in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp

from tony.linux.socket_owners import peer_uid
from tony.web.uvicorn_server import create_server, listen


@contextmanager
def served(app: ASGIApp) -> Iterator[int]:
    """Serves it on 127.0.0.1; gives the port."""
    socket = listen("127.0.0.1", 0)
    ready = threading.Event()
    made = create_server(app, peer_uid)

    async def run() -> None:
        task = asyncio.ensure_future(made.serve(sockets=[socket]))
        while not made.started and not task.done():
            await asyncio.sleep(0.01)
        ready.set()
        await task

    thread = threading.Thread(target=asyncio.run, args=[run()], daemon=True)
    thread.start()
    try:
        assert ready.wait(60)
        port: int = socket.getsockname()[1]
        yield port
    finally:
        made.end()
        thread.join(60)
        socket.close()
