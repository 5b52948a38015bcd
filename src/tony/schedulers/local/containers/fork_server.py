"""Start executors as forks of one small process with their modules loaded: a tenth of a fresh interpreter's cost.

The application master cannot fork them itself: it has an event loop, connections and perhaps threads, and forking a
process with threads breaks. The server has a single thread. It is the parent of what it starts, and reports exit codes
on request. It exits with its AM; executors notice the AM's end themselves.

A message is one packet of JSON on a SOCK_SEQPACKET socket; a start request carries open files (SCM_RIGHTS):

    {"argv": [...], "folder": "...", "env": {...}} + input, output, files to keep open -> {"pid": 12}
    {"reap": 12}                                                                       -> {"status": 0}
    on failure                                                                         -> {"error": [2, "...", "file"]}
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tony import isolated_interpreter
from tony.linux import process_identity
from tony.linux.file_descriptors import close_others
from tony.model import codec
from tony.protocol.launch import LaunchContext
from tony.protocol.message_base import MESSAGES

EXECUTOR_MODULE = "tony.executor.main"
#: Modules of an executor; loaded once, by the server.
_LOADED_MODULES = (EXECUTOR_MODULE, "tony.executor.executor")
#: Maximum size of a message in bytes, and of the files that come with one.
_MAX_MESSAGE_BYTES = 128 << 10
_MAX_FILES = 16
#: Seconds in which the server has to answer.
_ANSWER_SECONDS = 30.0


class ForkServer:
    """The AM's handle on its fork server, for one event loop."""

    def __init__(self) -> None:
        self.pid = 0
        self._socket: socket.socket | None = None
        self._lock = asyncio.Lock()

    def open(self) -> None:
        """Start the server: as a fork of this process while it has one thread, else in a fresh interpreter.

        Raises:
            OSError: it cannot be started.
        """
        own_end, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with server_end:
            try:
                self.pid = _fork(server_end) if threading.active_count() == 1 else _spawn(server_end)
            except OSError:
                own_end.close()
                raise
        own_end.setblocking(False)
        self._socket = own_end

    async def start(
        self, argv: Sequence[str], *, folder: Path, env: Mapping[str, str], stdin: int, output: int, kept: Sequence[int]
    ) -> int:
        """Start a program in a session of its own; return its pid. Restarts the server if it was killed.

        Args:
            argv: one of `isolated_interpreter.command` runs in a fork; any other is executed.
            env: variables added to our environment.
            kept: descriptors that stay open as long as the program runs.

        Raises:
            OSError: it cannot be started.
        """
        request = {"argv": list(argv), "folder": str(folder), "env": dict(env)}
        files = [stdin, output, *kept]
        async with self._lock:
            if self._socket is None:
                self.open()
            try:
                return int((await self._ask(request, files))["pid"])
            except ConnectionError:
                self._end()
                self.open()
                return int((await self._ask(request, files))["pid"])

    async def reap(self, pid: int) -> int | None:
        """Return the exit code of an ended program, minus the signal's number if killed, or None if unknown."""
        with contextlib.suppress(OSError):
            async with self._lock:
                return int((await self._ask({"reap": pid}, []))["status"])
        return _reap_inherited(pid)

    async def close(self) -> None:
        """Stop the server. Programs that it started keep running. Idempotent."""
        async with self._lock:
            self._end()

    def _end(self) -> None:
        if self._socket is None:
            return
        self._socket.close()
        self._socket = None
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    async def _ask(self, request: Mapping[str, Any], files: Sequence[int]) -> dict[str, Any]:
        if self._socket is None:
            raise ConnectionResetError(errno.ECONNRESET, "there is no fork server")
        socket.send_fds(self._socket, [json.dumps(request).encode()], list(files))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                packet = await asyncio.get_running_loop().sock_recv(self._socket, _MAX_MESSAGE_BYTES)
        except TimeoutError:
            self._end()  # stopped, or stuck
            raise OSError(errno.ETIMEDOUT, f"the fork server did not answer within {_ANSWER_SECONDS:g} s") from None
        except asyncio.CancelledError:
            self._end()  # its answer would be taken for that to the next request
            raise
        if not packet:
            raise ConnectionResetError(errno.ECONNRESET, "the fork server has exited")
        answer: dict[str, Any] = json.loads(packet)
        if "error" in answer:
            raise OSError(*answer["error"])
        return answer


def load_executor() -> None:
    """Load the executor's modules, and do in advance what each fork would have to do for itself."""
    isolated_interpreter.load(*_LOADED_MODULES)
    codec.prepare(LaunchContext, *MESSAGES.values())


def main() -> int:
    """Run the server in a fresh interpreter; `sys.argv[1]` is the number of its socket."""
    os.set_inheritable(int(sys.argv[1]), False)
    _serve(socket.socket(fileno=int(sys.argv[1])))
    return 0


def _reap_inherited(pid: int) -> int | None:
    """Return the exit code of a child inherited from a dead server: the AM is a subreaper."""
    with contextlib.suppress(OSError):
        return os.waitstatus_to_exitcode(os.waitpid(pid, os.WNOHANG)[1])
    return None


def _fork(server_end: socket.socket) -> int:
    pid = os.fork()
    if pid == 0:
        _run_as_server(server_end)
    return pid


def _spawn(server_end: socket.socket) -> int:
    argv = isolated_interpreter.command(__name__, str(server_end.fileno()))
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=[server_end.fileno()])
    process.returncode = 0  # `ForkServer` waits for it, not this object
    return process.pid


def _run_as_server(connection: socket.socket) -> NoReturn:
    """Turn a fork into the server: release everything that belongs to the AM."""
    try:
        gc.freeze()  # never collect the AM's objects here: they would close our files by their old numbers
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        close_others({connection.fileno()})
        process_identity.assume(f"{__name__} of {os.getppid()}")
        _serve(connection)
    except BaseException:  # outermost frame of the process
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def _serve(connection: socket.socket) -> None:
    load_executor()
    gc.freeze()  # a garbage collection in a fork would copy every page
    while True:
        packet, files, _, _ = socket.recv_fds(connection, _MAX_MESSAGE_BYTES, _MAX_FILES)
        if not packet:
            return
        try:
            answer = _handle(json.loads(packet), files)
        except OSError as error:
            answer = {"error": [error.errno, error.strerror, error.filename]}
        finally:
            for file in files:
                os.close(file)
        connection.send(json.dumps(answer).encode())


def _handle(request: dict[str, Any], files: Sequence[int]) -> dict[str, Any]:
    if "reap" in request:
        return {"status": os.waitstatus_to_exitcode(os.waitpid(request["reap"], 0)[1])}
    env = {**request["env"], **os.environ, **request["env"]}
    if isolated_interpreter.module_of(request["argv"]) is None or not process_identity.fits_environ(request["env"]):
        return {"pid": _execute(request["argv"], request["folder"], env, files)}
    pid = os.fork()
    if pid == 0:
        _become(request["argv"], request["folder"], env, files)
    return {"pid": pid}


def _execute(argv: Sequence[str], folder: str, env: Mapping[str, str], files: Sequence[int]) -> int:
    stdin, output, *kept = files
    process = subprocess.Popen(
        argv, stdin=stdin, stdout=output, stderr=output, cwd=folder, env=env, pass_fds=kept, start_new_session=True
    )
    process.returncode = 0  # `reap` waits for it, not this object
    return process.pid


def _become(argv: Sequence[str], folder: str, env: Mapping[str, str], files: Sequence[int]) -> NoReturn:
    try:
        os.setsid()
        stdin, output, *kept = files
        for source, target in ((stdin, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        close_others(kept)
        os.chdir(folder)
        module = isolated_interpreter.module_of(argv)
        process_identity.assume(f"{module} in {folder}", env)
        isolated_interpreter.enter(argv)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
