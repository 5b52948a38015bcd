"""TensorBoards on demand: child processes, few at a time, which end when nobody looks and with the portal."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tony import clock
from tony.errors import InfraError, UserError
from tony.linux.threads import acting_for
from tony.portal.tensorboard_process import READY, SOCKET, SUMMARIES
from tony.web.lanes import LISTS, STORES

#: TensorBoards at a time; each takes some 150 MB.
MOST = 4
#: Seconds without a request after which one ends, and between two looks.
IDLE, _LOOK = 600.0, 10.0
#: Seconds in which one must serve, and in which it must end.
_PATIENCE, _GOODBYE = 120.0, 10.0
#: Seconds in which its event files must be there: of other machines they are copied.
_GATHER_TIMEOUT_SECONDS = 600.0
#: Seconds without a request after which one may make room for another.
_QUIET = 20.0


class NotInstalled(UserError):  # noqa: N818 - what is the case
    """There is no TensorBoard here."""


class TensorBoardProcess:
    """One of them.

    Attributes:
        jobs: whose summaries it shows.
    """

    def __init__(self, jobs: tuple[str, ...], folder: Path) -> None:
        self.jobs = jobs
        self.folder = folder
        self.used = clock.monotonic()
        self._busy = 0
        self._process: asyncio.subprocess.Process | None = None
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid if self._process else 0

    @property
    def lives(self) -> bool:
        """Its process does."""
        return self._process is not None and self._process.returncode is None

    def idle(self, now: float) -> float:
        """Seconds since it was last asked for something; 0 while it answers."""
        return 0.0 if self._busy else now - self.used

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """As long as a request is answered."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self.used = clock.monotonic()

    async def start(self) -> None:
        """Begins to serve.

        Raises:
            InfraError: it did not begin, with its last words.
        """
        said = self.folder / "said"
        with said.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-P", "-m", "tony.portal.tensorboard_process", str(self.folder)),
                stdin=asyncio.subprocess.PIPE,  # never written to: it ends when we do
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        line = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while (line := await self._process.stdout.readline()) not in (READY, b""):
                    pass
        if line != READY:
            tail = said.read_bytes()[-2000:].decode("utf-8", "replace").strip().splitlines()
            raise InfraError(f"TensorBoard did not start: {' / '.join(tail[-8:]) if tail else 'it says nothing'}")

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to it.

        Raises:
            OSError: it has ended.
        """
        # Not by its path, which may be longer than a socket's name can be.
        return await asyncio.open_unix_connection(f"/proc/self/fd/{self._descriptor}/{SOCKET}")

    async def close(self) -> None:
        """Ends it; may be called twice."""
        process = self._process
        if process is not None:
            try:
                await _end(process)
            finally:
                # Also if nobody waits any more: else its pipe is closed some time, maybe after the end of the loop.
                process._transport.close()  # type: ignore[attr-defined]
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        await LISTS.run(shutil.rmtree, self.folder, ignore_errors=True)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(_GOODBYE):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


class TensorBoardManager:
    """All of them.

    Args:
        folder: for what they show; other portals may have theirs in it as well.
        most, idle: see `MOST` and `IDLE`.
    """

    def __init__(self, folder: Path, most: int = MOST, idle: float = IDLE) -> None:
        self._top, self._most, self._idle = folder, most, idle
        self._folder: Path | None = None
        self._lock: int | None = None
        self._all: dict[tuple[str, ...], TensorBoardProcess] = {}
        self._turn = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None

    @staticmethod
    def installed() -> bool:
        """Whether there is a TensorBoard here that could be started."""
        return find_spec("tensorboard") is not None

    def of(self, jobs: tuple[str, ...]) -> TensorBoardProcess | None:
        """The one that shows these jobs; None if none does now."""
        board = self._all.get(jobs)
        return board if board is not None and board.lives else None

    @property
    def pids(self) -> list[int]:
        """Of their processes."""
        return [board.pid for board in self._all.values() if board.lives]

    async def open(self, jobs: tuple[str, ...], gather: Callable[[Path], None]) -> TensorBoardProcess:
        """The one that shows these jobs; started, if there is none. One begins at a time.

        Args:
            gather: puts event files into a folder; in a thread.

        Raises:
            NotInstalled: there is no TensorBoard here.
            InfraError: it did not begin, or all that there may be are in use.
            TonyError: what `gather` raises.
        """
        if not self.installed():
            raise NotInstalled(
                "TensorBoard is not installed where the portal runs. Install it there: pip install tensorboard."
            )
        if (board := self._used(jobs)) is not None:
            return board
        async with self._turn:
            folder = await LISTS.run(self._new_folder)
        board = TensorBoardProcess(jobs, folder)
        try:
            # Outside of the turn: files of one user that cannot be had soon delay no other one.
            await STORES.run_for(_GATHER_TIMEOUT_SECONDS, gather, folder / SUMMARIES)
            async with self._turn:
                if (other := self._used(jobs)) is not None:
                    await board.close()
                    return other
                await self._drop(self._all.pop(jobs, None))
                await self._make_room()
                if self._watching is None:
                    with acting_for(None):
                        self._watching = asyncio.get_running_loop().create_task(self._watch())
                await board.start()
                board.used = clock.monotonic()
                self._all[jobs] = board
                return board
        except BaseException:
            await board.close()
            raise

    def _used(self, jobs: tuple[str, ...]) -> TensorBoardProcess | None:
        board = self.of(jobs)
        if board is not None:
            board.used = clock.monotonic()
        return board

    async def close(self) -> None:
        """Ends all of them; may be called twice."""
        async with self._turn:  # else one that is being started or ended would be left
            if self._watching is not None:
                self._watching.cancel()
                await asyncio.gather(self._watching, return_exceptions=True)
                self._watching = None
            boards, self._all = list(self._all.values()), {}
            await asyncio.gather(*(board.close() for board in boards))
        if self._folder is not None:
            await LISTS.run(shutil.rmtree, self._folder, ignore_errors=True)
            self._folder = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def _make_room(self) -> None:
        """The one that was idle for the longest time goes."""
        now = clock.monotonic()
        for jobs, board in list(self._all.items()):
            if not board.lives:
                await self._drop(self._all.pop(jobs))
        if len(self._all) < self._most:
            return
        jobs, oldest = max(self._all.items(), key=lambda each: each[1].idle(now))
        if oldest.idle(now) < min(_QUIET, self._idle):
            raise InfraError(
                f"{self._most} TensorBoards are being looked at; there may be no more at a time. "
                "Close a page of one of them, and try again in half a minute."
            )
        await self._drop(self._all.pop(jobs))

    async def _drop(self, board: TensorBoardProcess | None) -> None:
        if board is not None:
            await board.close()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(min(_LOOK, self._idle))
            async with self._turn:
                now = clock.monotonic()
                for jobs, board in list(self._all.items()):
                    if board.idle(now) >= self._idle or not board.lives:
                        await self._drop(self._all.pop(jobs))

    def _new_folder(self) -> Path:
        if self._folder is None:
            self._top.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder = self._top / secrets.token_hex(6)
            self._folder.mkdir(mode=0o700)
            self._lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            _remove_left(self._top, self._folder)
        made = self._folder / secrets.token_hex(6)
        made.mkdir(mode=0o700)
        (made / SUMMARIES).mkdir(mode=0o700)
        return made


def _remove_left(top: Path, ours: Path) -> None:
    """What portals have left that were killed: nobody holds its lock."""
    for each in top.iterdir():
        if each == ours:
            continue
        with contextlib.suppress(OSError):
            descriptor = os.open(each / "lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(each, ignore_errors=True)
            finally:
                os.close(descriptor)
