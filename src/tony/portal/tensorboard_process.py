"""A TensorBoard, as a process of its own below the portal: serves one folder at a socket file that only we can open.

On a port it could be reached by everybody on this machine, whoever may see the job or not. It ends with its standard
input, so with whoever started it, however that one ends, and takes its folder along.
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

#: In the folder: what is shown, and where it is served; werkzeug takes the name's letters for host and port.
SUMMARIES, SOCKET = "summaries", "socket"
#: Said on standard output once it serves.
READY = b"ready\n"


def main() -> int:
    """Runs in the folder that is the only argument, until standard input ends."""
    folder = Path(sys.argv[1])
    # By its short name: that of a socket may have 107 bytes in all.
    os.chdir(folder)
    threading.Thread(target=_end_with_input, args=[folder], daemon=True).start()
    # TensorFlow takes seconds and hundreds of megabytes to load, and nothing of it is needed to read event files.
    sys.modules["tensorboard.compat.notf"] = ModuleType("tensorboard.compat.notf")
    program = import_module("tensorboard.program")
    default = import_module("tensorboard.default")
    board = program.TensorBoard(default.get_plugins(), server_class=_Server)
    # Its data server would listen on a port, where nobody is asked who they are.
    board.configure(
        argv=["tensorboard", "--logdir", SUMMARIES, "--load_fast=false", "--reload_interval=15", "--window_title=tony"]
    )
    board.launch()
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    threading.Event().wait()
    return 0


class _Server:
    """As TensorBoard wants a server to be."""

    def __init__(self, wsgi_app: Any, flags: Any) -> None:
        serving = import_module("werkzeug.serving")

        class Handler(serving.WSGIRequestHandler):  # type: ignore[name-defined,misc]
            def log(self, *_: object) -> None:
                """Says nothing of single requests."""

        # Bound here, by a name that is relative: theirs would be the whole path, which may be too long.
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
        """Nobody reads it."""


def _end_with_input(folder: Path) -> None:
    while os.read(0, 4096):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
