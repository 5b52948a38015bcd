"""A TensorBoard as a child process of the portal: serves one folder on a private Unix socket.

On a TCP port any user of this machine could reach it. It exits, and removes its folder, at the end of its standard
input, and so whenever the process that started it ends.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

#: Names in the folder: event files, and the socket; werkzeug interprets the letters of its name as host and port.
SUMMARIES = "summaries"
SOCKET = "socket"
#: Written to standard output when it serves.
READY = b"ready\n"


def main() -> int:
    """Serve the folder given as the only argument, until standard input ends."""
    folder = Path(sys.argv[1])
    # For a relative socket path: the path of a Unix socket is limited to 107 bytes.
    os.chdir(folder)
    threading.Thread(target=_exit_at_end_of_input, args=[folder], daemon=True).start()
    # Without TensorFlow, which takes seconds and hundreds of megabytes to load and is not needed for event files.
    sys.modules["tensorboard.compat.notf"] = ModuleType("tensorboard.compat.notf")
    program = import_module("tensorboard.program")
    default = import_module("tensorboard.default")
    board = program.TensorBoard(default.get_plugins(), server_class=_Server)
    # No data server: it would listen on a port, without authentication.
    board.configure(
        argv=["tensorboard", "--logdir", SUMMARIES, "--load_fast=false", "--reload_interval=15", "--window_title=tony"]
    )
    board.launch()
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    threading.Event().wait()
    return 0


class _Server:
    """The server interface that TensorBoard expects."""

    def __init__(self, wsgi_app: Any, flags: Any) -> None:
        serving = import_module("werkzeug.serving")

        class Handler(serving.WSGIRequestHandler):  # type: ignore[name-defined,misc]
            def log(self, *_: object) -> None:
                """Do not log requests."""

        # Bound here, by a relative name: werkzeug would use the whole path, which may be too long.
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(SOCKET)
        listening.listen(64)
        self._server = serving.make_server(
            f"unix://{SOCKET}", 0, wsgi_app, threaded=True, request_handler=Handler, fd=listening.detach()
        )

    def serve_forever(self) -> None:
        self._server.serve_forever()

    def get_url(self) -> str:
        return ""

    def print_serving_message(self) -> None:
        """Do nothing: its output is not shown."""


def _exit_at_end_of_input(folder: Path) -> None:
    while os.read(0, 4096):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
