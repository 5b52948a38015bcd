"""One remote program: started in the task's control group, joined to its client's connection, ended with it.

It ends with everything that it has started: when it exits, when its client goes away, and when the task ends. Its
processes are found by their session and by a variable that they inherit.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import termios
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from tony import clock
from tony.errors import ProtocolError
from tony.executor.program.process_tree import KILL_TIMEOUT_SECONDS, ProcessTree
from tony.executor.program.program_environment import PROGRESS
from tony.executor.program.spawn import Reaper, spawn
from tony.executor.remote.program_streams import open_pipes, open_terminal, send_output, set_window_size
from tony.linux import process
from tony.linux.file_readiness import wait_writable
from tony.protocol.error_codes import Code
from tony.protocol.framing import Raw
from tony.protocol.launch import ContainerPart
from tony.protocol.remote_program_messages import (
    INPUT_WINDOW_BYTES,
    SIGNAL_BASE,
    ClientTerminal,
    InputTaken,
    InterruptProgram,
    ProgramStream,
    RemoteProgramExited,
    ResizeWindow,
    WindowSize,
    decode_arguments,
    split_piece,
)
from tony.protocol.tunnel_messages import EndTunnel
from tony.rpc.connection import RpcConnection

#: Set in all processes of a remote program.
_MARKER = "TONY_REMOTE_PROGRAM"
#: Variables of the task's program that do not hold on a terminal of the client's size.
_SIZES = ("COLUMNS", "LINES")
_SHELLS = ("bash", "sh")
#: Seconds between SIGTERM and SIGKILL.
_GRACE_SECONDS = 1.0
#: Seconds that processes which the program has left behind may still write, such as the end of a pipeline.
_DRAIN_SECONDS = 1.0


class RemoteProgram:
    """One remote program. Call `start` once, then `serve`.

    Attributes:
        pid: of its first process.
    """

    def __init__(self, environment: Mapping[str, str], container: ContainerPart, process_tree: ProcessTree) -> None:
        word = os.urandom(8).hex()
        self.pid = 0
        self._marker = f"{_MARKER}={word}".encode()
        self._environment = {**environment, _MARKER: word}
        self._environment.pop(PROGRESS, None)  # only the task's program reports progress
        self._container = container
        self._process_tree = process_tree
        self._exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._files: dict[ProgramStream, int] = {}
        self._has_terminal = False
        self._input: deque[memoryview] = deque()
        self._input_size = 0
        self._input_ended = False
        self._input_changed = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._reason = ""

    # --- start ----------------------------------------------------------------------------------------------------

    def start(self, argv: tuple[str, ...], terminal: ClientTerminal | None, reaper: Reaper) -> None:
        """Start it.

        Args:
            argv: as of `RunInTask`; empty for a shell.

        Raises:
            LaunchFailedError: it cannot be started; the message is for the user.
            OSError: there are too many open files, or no terminals.
            ValueError: `argv` is invalid.
        """
        words = [os.fsdecode(part) for part in decode_arguments(argv)] or [_find_shell(self._environment)]
        with contextlib.ExitStack() as stack:  # closes the program's ends, and in case of an error the own ones
            own, others = self._open_terminal(terminal) if terminal else open_pipes()
            for number in set(others):
                stack.callback(os.close, number)
            try:
                self.pid = spawn(
                    words,
                    self._environment,
                    self._container.work_folder,
                    self._container.cgroup,
                    stdin=others[0],
                    stdout=others[1],
                    stderr=others[2],
                    controls_terminal=self._has_terminal,
                )
            except BaseException:
                for number in set(own.values()):
                    os.close(number)
                raise
        reaper.watch(self.pid, self._on_exit)
        self._files = own
        for number in own.values():
            os.set_blocking(number, False)

    def _open_terminal(self, terminal: ClientTerminal) -> tuple[dict[ProgramStream, int], Sequence[int]]:
        for name in _SIZES:
            self._environment.pop(name, None)
        self._environment["TERM"] = terminal.kind
        self._has_terminal = True
        return open_terminal(terminal.size)

    # --- while it runs --------------------------------------------------------------------------------------------

    async def serve(self, connection: RpcConnection) -> None:
        """Carry its streams until it has exited and the client has everything, or the client is gone; then end it."""
        loop = asyncio.get_running_loop()
        receiving = loop.create_task(self._receive(connection))
        feeding = loop.create_task(self._feed(connection))
        pumps = [
            loop.create_task(send_output(number, stream, connection))
            for stream, number in self._files.items()
            if stream is not ProgramStream.INPUT
        ]
        try:
            either: set[asyncio.Future[Any]] = {receiving, self._exit_code}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._exit_code.done():
                await self._wait_for_output(pumps, receiving)
                connection.send(RemoteProgramExited(code=self._exit_code.result(), reason=self._reason))
                await receiving  # the client closes when it has all
        finally:
            for each in (receiving, feeding, *pumps):
                each.cancel()
            await asyncio.gather(receiving, feeding, *pumps, return_exceptions=True)
            for number in {*self._files.values()}:
                os.close(number)
            self._files.clear()
            self.hang_up("its client has disconnected")
            await self.wait_ended()

    async def _wait_for_output(self, pumps: Sequence[asyncio.Task[None]], receiving: asyncio.Task[None]) -> None:
        """Wait until all output is sent, or the client has disconnected. End processes that are left behind."""
        await asyncio.wait(pumps, timeout=_DRAIN_SECONDS)
        if self._list_processes():
            self.hang_up("")
            await self.wait_ended()
        for each in pumps:
            await asyncio.wait({each, receiving}, return_when=asyncio.FIRST_COMPLETED)

    async def _receive(self, connection: RpcConnection) -> None:
        """Obey the client until it is gone."""
        with contextlib.suppress(ProtocolError):
            while (message := await connection.receive()) is not None:
                match message:
                    case Raw() if self._take_input(message):
                        pass
                    case EndTunnel():
                        self._input_ended = True
                        self._input_changed.set()
                    case InterruptProgram():
                        self._interrupt()
                    case ResizeWindow(size=size):
                        self._resize(size)
                    case _:
                        connection.refuse(Code.BAD_MESSAGE, f"a remote program may not get this {message.kind}")
                        return

    def _take_input(self, piece: Raw) -> bool:
        """Queue input; return False if it is no input, or more than is allowed."""
        stream, data = split_piece(piece)
        self._input_size += len(data)
        if stream != ProgramStream.INPUT or self._input_ended or self._input_size > INPUT_WINDOW_BYTES:
            return False
        if data:
            self._input.append(data)
            self._input_changed.set()
        return True

    async def _feed(self, connection: RpcConnection) -> None:
        """Write input as the program takes it. Once it takes no more, the client is not asked for more."""
        number = self._files[ProgramStream.INPUT]
        while self._input or not self._input_ended:
            if not self._input:
                self._input_changed.clear()
                await self._input_changed.wait()
                continue
            await wait_writable(number)
            try:
                written = os.write(number, self._input[0])
            except BlockingIOError:
                continue
            except OSError:  # it has closed its standard input
                return
            self._input_size -= written
            rest = self._input.popleft()[written:]
            if rest:
                self._input.appendleft(rest)
            connection.send(InputTaken(size=written))
        if not self._has_terminal:
            os.close(self._files.pop(ProgramStream.INPUT))

    def _interrupt(self) -> None:
        if not self._exit_code.done():
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGINT)

    def _resize(self, size: WindowSize) -> None:
        if self._has_terminal:
            with contextlib.suppress(OSError, termios.error):
                set_window_size(self._files[ProgramStream.INPUT], size)

    @property
    def has_exited(self) -> bool:
        """Return True if its first process has exited; its client may still take output."""
        return self._exit_code.done()

    # --- end ------------------------------------------------------------------------------------------------------

    def owns(self, pid: int) -> bool:
        """Return True if a process is one of its processes."""
        try:
            return os.getsid(pid) == self.pid or process.has_marker(pid, self._marker)
        except OSError:
            return False

    def hang_up(self, reason: str) -> None:
        """Begin to end all its processes: SIGHUP and SIGTERM, and SIGKILL a moment later.

        Args:
            reason: for the user; empty if it has exited by itself.
        """
        if self._ending is None or self._ending.done():
            if not self._exit_code.done():
                self._reason = reason
            self._ending = asyncio.get_running_loop().create_task(self._end())

    async def wait_ended(self) -> None:
        """Wait until its processes have exited, after `hang_up`."""
        if self._ending:
            await asyncio.shield(self._ending)

    async def _end(self) -> None:
        started_at, pauses = clock.monotonic(), iter(process.KILL_BACKOFF)
        for signum in (signal.SIGHUP, signal.SIGTERM, signal.SIGCONT):
            self._signal(signum)
        while found := self._list_processes():
            elapsed = clock.monotonic() - started_at
            if elapsed > KILL_TIMEOUT_SECONDS:
                return  # stuck in the kernel
            if elapsed > _GRACE_SECONDS:
                for pid in found:
                    process.send(pid, signal.SIGKILL)
            await asyncio.sleep(next(pauses))

    def _signal(self, signum: int) -> None:
        groups = set()
        for pid in self._list_processes():
            with contextlib.suppress(OSError):
                groups.add(os.getpgid(pid))
        for group in groups - {os.getpgrp()}:
            with contextlib.suppress(OSError):
                os.killpg(group, signum)

    def _list_processes(self) -> list[int]:
        return [pid for pid in self._process_tree.list_contained() if self.owns(pid)]

    def _on_exit(self, status: int, usage: object) -> None:
        code = os.waitstatus_to_exitcode(status)
        if not self._exit_code.done():
            self._exit_code.set_result(code if code >= 0 else SIGNAL_BASE - code)


def _find_shell(environment: Mapping[str, str]) -> str:
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    return next(
        (name for name in _SHELLS if any(os.access(f"{each}/{name}", os.X_OK) for each in folders)), _SHELLS[-1]
    )
