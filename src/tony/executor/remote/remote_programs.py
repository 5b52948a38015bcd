"""All remote programs of one executor: they run while the task's program does, and end with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tony.errors import ConnectionFailedError, ProtocolError
from tony.executor.control.am_connection import Reach
from tony.executor.program.process_tree import ProcessTree
from tony.executor.program.program_environment import LaunchFailedError
from tony.executor.program.spawn import Reaper
from tony.linux import container_cgroup, os_errors
from tony.protocol.launch import LaunchContext
from tony.protocol.remote_program_messages import StartRemoteProgram
from tony.protocol.tunnel_messages import JoinTunnel, TunnelFailed
from tony.rpc.client_connection import connect
from tony.rpc.connection import RpcConnection

if TYPE_CHECKING:
    from tony.executor.remote.remote_program import RemoteProgram

log = logging.getLogger(__name__)

#: Maximum number of remote programs of one task at one time.
MAX_REMOTE_PROGRAMS = 8
#: Maximum number of clients of one task, most of which still read what an exited program has printed.
_MAX_CLIENTS = 32
#: Exit codes of a shell for a program that is not found, and for one that cannot be executed.
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126


class RemotePrograms:
    """The remote programs of one executor.

    Args:
        reach: the current address of the application master.
        find_environment: returns the environment of the task's program; None if that does not run, or is stopping.
        send: sends a message to the application master.
    """

    def __init__(
        self,
        context: LaunchContext,
        reach: Reach,
        process_tree: ProcessTree,
        reaper: Reaper,
        find_environment: Callable[[], Mapping[str, str] | None],
        send: Callable[[TunnelFailed], None],
    ) -> None:
        self._context = context
        self._reach = reach
        self._process_tree = process_tree
        self._reaper = reaper
        self._find_environment = find_environment
        self._send = send
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: set[RemoteProgram] = set()
        self._kill_count = 0
        self._kills_before = 0

    def start(self, message: StartRemoteProgram) -> None:
        """Start a program and serve its client, or answer why not."""
        open_count = len(self._tasks) - sum(each.has_exited for each in self._running)
        if open_count >= MAX_REMOTE_PROGRAMS or len(self._tasks) >= _MAX_CLIENTS:
            self._refuse(
                message,
                f"{MAX_REMOTE_PROGRAMS} programs of `tony exec` and `tony shell`, the maximum, run in "
                f"{self._context.task.id} already; end one of them",
            )
            return
        task = asyncio.get_running_loop().create_task(self._serve(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def is_any_running(self) -> bool:
        """Return True while there is a remote program."""
        return bool(self._running)

    @property
    def memory_kill_count(self) -> int:
        """Return how many processes the kernel has killed for memory in the task's control group while one ran.

        They do not explain a failure of the task's own program: who types in a shell may have loaded too much.
        """
        return self._kill_count + (self._count_kills() - self._kills_before if self._running else 0)

    def owns(self, pid: int) -> bool:
        """Return True if a process belongs to a remote program."""
        return any(program.owns(pid) for program in self._running)

    def hang_up(self, reason: str) -> None:
        """Begin to end all programs.

        Args:
            reason: for their users.
        """
        for program in self._running:
            program.hang_up(reason)

    async def end(self, reason: str) -> None:
        """End all programs; return when their processes have exited."""
        self.hang_up(reason)
        for program in list(self._running):
            await program.wait_ended()

    async def finish(self, timeout: float) -> None:
        """Wait until the clients have the last output, for at most `timeout` seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)

    def close(self) -> None:
        """Disconnect all clients."""
        for task in list(self._tasks):
            task.cancel()

    async def _serve(self, message: StartRemoteProgram) -> None:
        environment = self._find_environment()
        if environment is None:
            self._refuse(message, self._explain_not_running())
            return
        try:
            connection = await connect(self._reach.address, self._context.credentials)
        except (ConnectionFailedError, ProtocolError, OSError) as error:
            self._refuse(message, f"the executor cannot connect to the AM: {error}")
            return
        try:
            if self._find_environment() is not environment:  # it has exited meanwhile
                self._refuse(message, self._explain_not_running())
                return
            await self._run(message, environment, connection)
        finally:
            connection.abort()

    async def _run(
        self, message: StartRemoteProgram, environment: Mapping[str, str], connection: RpcConnection
    ) -> None:
        from tony.executor.remote.remote_program import RemoteProgram  # late: most jobs never need it

        program = RemoteProgram(environment, self._context.container, self._process_tree)
        try:
            program.start(message.argv, message.terminal, self._reaper)
        except LaunchFailedError as error:
            is_missing = isinstance(error.__cause__, FileNotFoundError)
            self._refuse(message, str(error), _NOT_FOUND if is_missing else _NOT_EXECUTABLE)
            return
        except (OSError, ValueError) as error:
            reason = os_errors.describe_os_error(error) if isinstance(error, OSError) else str(error)
            self._refuse(message, f"the program was not started: {reason}")
            return
        log.info("remote program %d started", program.pid)
        if not self._running:
            self._kills_before = self._count_kills()
        self._running.add(program)
        try:
            connection.send(JoinTunnel(tunnel=message.tunnel, address=f"pid {program.pid}"))
            await program.serve(connection)
        finally:
            count = self.memory_kill_count
            self._running.discard(program)
            if not self._running:
                self._kill_count = count
            log.info("remote program %d ended", program.pid)

    def _count_kills(self) -> int:
        return container_cgroup.oom_kills(self._process_tree.folders)

    def _explain_not_running(self) -> str:
        return f"the program of {self._context.task.id} does not run, or is stopping"

    def _refuse(self, message: StartRemoteProgram, reason: str, exit_code: int = 0) -> None:
        self._send(TunnelFailed(tunnel=message.tunnel, reason=reason, exit_code=exit_code))
