"""TensorBoards on demand: a few child processes, which are stopped when unused and with the portal."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from tony import clock
from tony.errors import InfraError, UserError
from tony.linux.liveness_lock import try_lock
from tony.linux.thread_pools import LISTS, STORES, act_for

#: Names in the folder: event files, and the socket; werkzeug interprets the letters of its name as host and port.
SUMMARIES = "summaries"
SOCKET = "socket"
#: Written to standard output when it serves.
READY = b"ready\n"
#: Maximum number of TensorBoards; each takes some 150 MB.
MAX_TENSORBOARDS = 4
#: Seconds without a request after which one is stopped.
IDLE_SECONDS = 600.0
_CHECK_INTERVAL_SECONDS = 10.0
_START_TIMEOUT_SECONDS = 120.0
_STOP_TIMEOUT_SECONDS = 10.0
#: For collecting event files, which are copied from other machines.
_GATHER_TIMEOUT_SECONDS = 600.0
#: Seconds without a request after which one may be stopped to make room for another.
_QUIET_SECONDS = 20.0


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


class TensorBoardMissingError(UserError):
    """TensorBoard is not installed."""


class TensorBoardProcess:
    """A TensorBoard.

    Attributes:
        jobs: the jobs that it shows.
        used_at: when it was last used; monotonic.
    """

    def __init__(self, jobs: tuple[str, ...], folder: Path) -> None:
        self.jobs = jobs
        self.folder = folder
        self.used_at = clock.monotonic()
        self._request_count = 0
        self._is_ready = False
        self._process: asyncio.subprocess.Process | None = None
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @property
    def pid(self) -> int:
        """The process id; 0 before the start."""
        return self._process.pid if self._process else 0

    @property
    def is_running(self) -> bool:
        """True while its process is alive."""
        return self._process is not None and self._process.returncode is None

    def compute_idle_seconds(self) -> float:
        """Return the seconds since its last request; 0 while a request is in progress."""
        return 0.0 if self._request_count else clock.monotonic() - self.used_at

    @contextmanager
    def track_use(self) -> Iterator[None]:
        """Count as in use while a request is in progress."""
        self._request_count += 1
        try:
            yield
        finally:
            self._request_count -= 1
            self.used_at = clock.monotonic()

    async def start(self) -> None:
        """Start the process and wait until it serves.

        Raises:
            InfraError: it did not start; the message has its last output.
        """
        output = self.folder / "stderr"
        with output.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-P", "-m", "tony.portal.tensorboard.tensorboard_manager", str(self.folder)),
                stdin=asyncio.subprocess.PIPE,  # never written to: its end tells the process to exit
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                process_group=0,
            )
        assert self._process.stdout is not None
        line = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_TIMEOUT_SECONDS):
                while (line := await self._process.stdout.readline()) not in (READY, b""):
                    pass
        if line != READY:
            tail = output.read_bytes()[-2000:].decode("utf-8", "replace").strip().splitlines()
            raise InfraError(f"TensorBoard did not start: {' / '.join(tail[-8:]) if tail else 'no output'}")
        self._is_ready = True

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to its socket.

        Raises:
            OSError: it has exited.
        """
        # Not by its path, which may be longer than a socket's name can be.
        return await asyncio.open_unix_connection(f"/proc/self/fd/{self._descriptor}/{SOCKET}")

    async def close(self) -> None:
        """Stop the process and remove its folder; one that never became ready is killed. May be called twice."""
        process = self._process
        if process is not None:
            try:
                await _stop(process, _STOP_TIMEOUT_SECONDS if self._is_ready else 0.0)
            finally:
                # Also if cancelled: otherwise the pipe is closed later, perhaps after the event loop.
                process._transport.close()  # type: ignore[attr-defined]
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        await LISTS.run(shutil.rmtree, self.folder, ignore_errors=True)


async def _stop(process: asyncio.subprocess.Process, timeout: float) -> None:
    """Ask a process to exit by closing its standard input; kill its process group after `timeout` seconds."""
    if process.returncode is not None:
        return
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(timeout):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


class TensorBoardManager:
    """The TensorBoards of a portal.

    Args:
        folder: for their event files; shared with other portals of the user.
        most, idle: see `MAX_TENSORBOARDS` and `IDLE_SECONDS`.
    """

    def __init__(self, folder: Path, most: int = MAX_TENSORBOARDS, idle: float = IDLE_SECONDS) -> None:
        self._top, self._most, self._idle = folder, most, idle
        self._folder: Path | None = None
        self._folder_lock: int | None = None
        self._boards: dict[tuple[str, ...], TensorBoardProcess] = {}
        self._lock = asyncio.Lock()
        self._starting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._is_closed = False

    @staticmethod
    def is_installed() -> bool:
        """Return True if TensorBoard is installed."""
        return find_spec("tensorboard") is not None

    def find(self, jobs: tuple[str, ...]) -> TensorBoardProcess | None:
        """Return the running TensorBoard of these jobs, if any."""
        board = self._boards.get(jobs)
        return board if board is not None and board.is_running else None

    @property
    def pids(self) -> list[int]:
        """The process ids of all running TensorBoards."""
        return [board.pid for board in self._boards.values() if board.is_running]

    async def open(self, jobs: tuple[str, ...], gather: Callable[[Path], None]) -> TensorBoardProcess:
        """Return the TensorBoard of these jobs; start it if necessary. Only one is started at a time.

        Args:
            gather: collects event files in a folder; called in a thread.

        Raises:
            TensorBoardMissingError: TensorBoard is not installed.
            InfraError: it did not start, the maximum number is in use, or the portal is shutting down.
            TonyError: raised by `gather`.
        """
        if not self.is_installed():
            raise TensorBoardMissingError(
                "TensorBoard is not installed where the portal runs. Install it there: pip install tensorboard."
            )
        if (board := self._find_used(jobs)) is not None:
            return board
        async with self._lock:
            self._check_open()
            folder = await LISTS.run(self._create_folder)
        board = TensorBoardProcess(jobs, folder)
        try:
            # Outside of the turn: slow files of one user must not delay other users.
            await STORES.run_for(_GATHER_TIMEOUT_SECONDS, gather, folder / SUMMARIES)
            async with self._lock:
                self._check_open()
                if (other := self._find_used(jobs)) is not None:
                    await board.close()
                    return other
                await self._make_room()
                if self._watching is None:
                    with act_for(None):
                        self._watching = asyncio.get_running_loop().create_task(self._watch())
                await self._start(board)
                board.used_at = clock.monotonic()
                self._boards[jobs] = board
                return board
        except BaseException:
            await board.close()
            if self._is_closed:  # files may have been collected while `close` removed the folder
                with contextlib.suppress(OSError):
                    folder.parent.rmdir()
            raise

    def _check_open(self) -> None:
        if self._is_closed:
            raise InfraError("the portal is shutting down")

    def _find_used(self, jobs: tuple[str, ...]) -> TensorBoardProcess | None:
        board = self.find(jobs)
        if board is not None:
            board.used_at = clock.monotonic()
        return board

    async def _start(self, board: TensorBoardProcess) -> None:
        """Start a TensorBoard, within the turn. If that fails or `close` cancels it, its process is gone on return."""
        self._check_open()  # the steps before may have taken a while
        self._starting = asyncio.ensure_future(board.start())
        try:
            await self._starting
        except BaseException:
            await board.close()
            self._check_open()
            raise
        finally:
            self._starting = None

    async def close(self) -> None:
        """Stop all TensorBoards, including one that is starting, and refuse further ones. May be called twice."""
        self._is_closed = True
        if self._starting is not None:
            self._starting.cancel()
        async with self._lock:  # wait for one that is being stopped
            if self._watching is not None:
                self._watching.cancel()
                await asyncio.gather(self._watching, return_exceptions=True)
                self._watching = None
            boards, self._boards = list(self._boards.values()), {}
            await asyncio.gather(*(board.close() for board in boards))
            if self._folder is not None:
                await LISTS.run(shutil.rmtree, self._folder, ignore_errors=True)
                self._folder = None
            if self._folder_lock is not None:
                os.close(self._folder_lock)
                self._folder_lock = None

    async def _make_room(self) -> None:
        """Remove those that have exited; stop the one that was idle for the longest time, if there are too many."""
        await self._drop(lambda board: not board.is_running)
        if len(self._boards) < self._most:
            return
        oldest = max(self._boards.values(), key=lambda board: board.compute_idle_seconds())
        if oldest.compute_idle_seconds() < min(_QUIET_SECONDS, self._idle):
            raise InfraError(
                f"all {self._most} TensorBoards that may run at a time are in use. "
                "Close a page of one of them, and try again in half a minute."
            )
        await self._drop(lambda board: board is oldest)

    async def _drop(self, is_chosen: Callable[[TensorBoardProcess], bool]) -> None:
        for jobs, board in [*self._boards.items()]:
            if is_chosen(board):
                del self._boards[jobs]
                await board.close()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(min(_CHECK_INTERVAL_SECONDS, self._idle))
            async with self._lock:
                await self._drop(lambda board: not board.is_running or board.compute_idle_seconds() >= self._idle)

    def _create_folder(self) -> Path:
        if self._folder is None:
            self._top.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder = self._top / secrets.token_hex(6)
            self._folder.mkdir(mode=0o700)
            self._folder_lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._folder_lock, fcntl.LOCK_EX)
            _remove_orphaned_folders(self._top, self._folder)
        made = self._folder / secrets.token_hex(6)
        made.mkdir(mode=0o700)
        (made / SUMMARIES).mkdir(mode=0o700)
        return made


def _remove_orphaned_folders(top: Path, own: Path) -> None:
    """Remove the folders of killed portals, whose locks are free."""
    for path in top.iterdir():
        if path == own:
            continue
        with contextlib.suppress(OSError), try_lock(path / "lock", create=False) as is_orphaned:
            if is_orphaned:
                shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
