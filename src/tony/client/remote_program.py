"""Runs a program in a running task's container, with standard streams of this process, through the AM."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from tony import clock
from tony.errors import ConnectionFailedError, InfraError, ProtocolError, UserError
from tony.history.job_record import record_of
from tony.jobs.actions import require_running
from tony.jobs.am_client import connect_to_am
from tony.jobs.log_files import select_one_task
from tony.jobs.state_dir import get_user_name
from tony.jobs.status import job_status
from tony.linux.file_readiness import wait_readable
from tony.linux.thread_pools import start_in_thread
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.state_directory import Home
from tony.model.states import TaskState
from tony.protocol.error_codes import Code
from tony.protocol.framing import Raw
from tony.protocol.remote_program_messages import (
    INPUT_WINDOW_BYTES,
    MAX_PIECE_BYTES,
    ClientTerminal,
    InputTaken,
    InterruptProgram,
    ProgramStream,
    RemoteProgramExited,
    ResizeWindow,
    RunInTask,
    WindowSize,
    build_piece,
    decode_arguments,
    encode_arguments,
    split_piece,
)
from tony.protocol.tunnel_messages import EndTunnel, TunnelFailed, TunnelOpened
from tony.rpc.connection import RpcConnection

#: Seconds to wait for an answer: the AM writes the request into its log first, and the executor connects to the AM.
_ANSWER_TIMEOUT_SECONDS = 45.0
#: Seconds to wait for the next AM attempt, and between two tries.
_AM_WAIT_SECONDS = 3.0
_RETRY_SECONDS = 0.05
_ENDED = "no program can be run in its tasks"


class NotStartedError(InfraError):
    """The program could not be started in the task's container.

    Attributes:
        shell_code: 126 or 127, as in a shell, if the command is the reason; else 0.
    """

    def __init__(self, message: str, shell_code: int) -> None:
        self.shell_code = shell_code
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardFiles:
    """Descriptors that a remote program's streams are connected to.

    Attributes:
        input: None if there is none: the program reads the end of its input.
    """

    input: int | None
    output: int
    error: int


class RemoteProgramClient:
    """The client's end of a remote program that runs."""

    def __init__(self, connection: RpcConnection, files: StandardFiles) -> None:
        self._connection = connection
        self._files = files
        self._credit = INPUT_WINDOW_BYTES
        self._has_credit = asyncio.Event()
        self._has_credit.set()

    def interrupt(self) -> None:
        """Send SIGINT to the program."""
        self._connection.send(InterruptProgram())

    def resize(self, size: WindowSize) -> None:
        """Set the window size of the program's terminal."""
        self._connection.send(ResizeWindow(size=size))

    async def carry(self) -> RemoteProgramExited:
        """Carry input and output until the program has exited.

        Raises:
            OSError: output could not be written.
            ConnectionFailedError: the connection broke.
            ProtocolError: the AM broke the protocol.
        """
        sending = asyncio.get_running_loop().create_task(self._send_input())
        try:
            while True:
                match await self._connection.receive():
                    case Raw() as piece:
                        await self._write(piece)
                    case InputTaken(size=size):
                        self._credit = min(self._credit + max(0, size), INPUT_WINDOW_BYTES)
                        self._has_credit.set()
                    case RemoteProgramExited() as exited:
                        return exited
                    case None:
                        raise ConnectionFailedError(
                            "the connection to the application master, or from there to the executor, broke"
                        )
                    case other:
                        raise ProtocolError(Code.BAD_MESSAGE, f"a remote program may not send {other.kind}")
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _write(self, piece: Raw) -> None:
        """Write output. A reader that does not read blocks a thread only: Ctrl-C works on."""
        stream, data = split_piece(piece)
        number = self._files.error if stream == ProgramStream.ERROR else self._files.output
        await start_in_thread(partial(_write_all, number, data), daemon=True)

    async def _send_input(self) -> None:
        number = self._files.input
        while number is not None:
            await self._has_credit.wait()
            await wait_readable(number)
            try:
                data = os.read(number, min(MAX_PIECE_BYTES, self._credit))
            except BlockingIOError:
                continue
            except OSError:  # the terminal is gone
                break
            if not data:
                break
            self._credit -= len(data)
            if self._credit <= 0:
                self._has_credit.clear()
            self._connection.send_frame(build_piece(ProgramStream.INPUT, data).frame)
            await self._connection.drain()
        self._connection.send(EndTunnel())


@asynccontextmanager
async def start_remote_program(
    home: Home,
    job_id: str,
    target: TaskId | str | None,
    argv: tuple[bytes, ...],
    files: StandardFiles,
    terminal: ClientTerminal | None = None,
) -> AsyncIterator[RemoteProgramClient]:
    """Start a program in a task's container; it is ended when the context is left.

    Args:
        target: `worker:0`, or a role that has one task. None: the chief, or the only task.
        argv: empty for a shell.
        terminal: the program gets a terminal like this one; None: three streams.

    Raises:
        UserError: there is no such task, the job has ended, or the command is too long.
        NotStartedError: the program could not be started.
        InfraError: the task does not run.
        ConnectionFailedError: the AM cannot be reached.
    """
    spec = record_of(home, job_id).spec
    task = select_one_task(job_id, spec.task_ids, target or spec.chief or next(iter(spec.effective_roles)))
    request = RunInTask(actor=get_user_name(), task=task, argv=encode_arguments(argv), terminal=terminal)
    try:
        decode_arguments(request.argv)
    except ValueError as error:
        raise UserError(str(error)) from None
    give_up_at = clock.monotonic() + _AM_WAIT_SECONDS
    while True:
        _require_running_task(await job_status.load_report(home, job_id), task)
        opened = False
        try:
            async with connect_to_am(home.job(job_id)) as connection:
                await _request(connection, request, job_id)
                opened = True
                yield RemoteProgramClient(connection, files)
                return
        except ConnectionFailedError as error:
            if opened:
                raise await _explain_break(home, job_id, task, error) from error
            if not error.no_listener or clock.monotonic() > give_up_at:
                raise
        await asyncio.sleep(_RETRY_SECONDS)  # between two AM attempts


async def _request(connection: RpcConnection, request: RunInTask, job_id: str) -> None:
    connection.send(request)
    try:
        async with asyncio.timeout(_ANSWER_TIMEOUT_SECONDS):
            answer = await connection.receive()
    except TimeoutError:
        raise ConnectionFailedError(f"{connection.peer} did not answer within {_ANSWER_TIMEOUT_SECONDS:g} s") from None
    if isinstance(answer, TunnelFailed):
        hint = "" if answer.exit_code else f"; see: tony status {job_id}"
        raise NotStartedError(f"{answer.reason}{hint}", answer.exit_code)
    if not isinstance(answer, TunnelOpened):
        raise ConnectionFailedError(f"{connection.peer} closed the connection without an answer", no_listener=True)


def _require_running_task(report: JobReport, task: TaskId) -> None:
    require_running(report, _ENDED)
    state = next((each for each in report.tasks if each.id == task), None)
    if state is None or state.state is not TaskState.RUNNING:
        word = state.state.value if state else "unknown"
        note = f" ({state.note})" if state and state.note else ""
        raise InfraError(
            f"{task} of job {report.job} ({report.name}) is {word}{note}: programs can be run in a running task only; "
            f"see: tony status {report.job}"
        )


async def _explain_break(home: Home, job_id: str, task: TaskId, error: ConnectionFailedError) -> InfraError:
    """Return the error for a connection that broke while the program ran."""
    try:
        report = await job_status.load_report(home, job_id)
    except InfraError:
        report = None
    if report and report.state.ended:
        return InfraError(f"the program in {task} was ended with the job: job {job_id} {report.state.value}")
    return ConnectionFailedError(
        f"{error}: the program in {task} was ended. If the task continues, start it again; see: tony status {job_id}"
    )


def _write_all(number: int, data: memoryview) -> None:
    while data:
        data = data[os.write(number, data) :]
