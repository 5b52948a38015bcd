"""Client of a running job's AM: find it, connect to it, and send requests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from tony.errors import ConnectionFailedError, ProtocolError, RecordError
from tony.history.json_files import read_json, read_json_with
from tony.linux import process
from tony.model.codec import DecodeError, Json, from_plain
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.state_directory import JobFolder
from tony.protocol.client_messages import GetMetrics, GetReport, GetStacks, KillJob, Measured, Report, RestartJob, Watch
from tony.protocol.hello import PeerKind
from tony.protocol.launch import AmCredentials, JobCredentials
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import Done, SetLogLevel, Stacks
from tony.rpc.client_connection import connect
from tony.rpc.connection import RpcConnection
from tony.schedulers import registry
from tony.storage.stores.local_store import LocalStore

#: Seconds to connect, and to get an answer: an AM that is busy with 10,000 tasks needs a few.
ANSWER_TIMEOUT_SECONDS = 10.0
#: Seconds for stack traces, for which the AM asks an executor and that a sampler; and requests sent at once.
_STACKS_TIMEOUT_SECONDS = 75.0
_STACKS_BATCH = 16

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class AmLocation:
    """Content of `am.json`: where the AM runs and listens.

    Attributes:
        address: `unix:<path>` or `tls:<host>:<port>`.
        supervisor: pid of the process on its machine that restarts the AM if it dies; None without one.
        dialed_by: scheduler whose submitter connects clients to the AM; empty: they connect directly.
    """

    pid: int
    host: str
    attempt: int
    address: str
    supervisor: int | None = None
    dialed_by: str = ""


def locate_am(folder: JobFolder) -> AmLocation | None:
    """Return where the AM is; None before it has started.

    Raises:
        RecordError: `am.json` is invalid.
    """
    return _parse_location(folder, read_json(folder.am))


def _parse_location(folder: JobFolder, data: Json | None) -> AmLocation | None:
    try:
        return None if data is None else from_plain(AmLocation, data, ignore_unknown=True)
    except DecodeError as error:
        raise RecordError(f"{folder.am} is invalid: {error}") from error


def _add_resume_hint(error: ConnectionFailedError, location: AmLocation) -> ConnectionFailedError:
    """Add to the error that the AM's process was stopped, if it is on this machine and was."""
    if error.no_listener or location.host != socket.gethostname() or not process.is_stopped(location.pid):
        return error
    text = f"{error}: its process {location.pid} was stopped; resume it with: kill -CONT {location.pid}"
    return ConnectionFailedError(text)


def describe_delay(folder: JobFolder) -> ConnectionFailedError | None:
    """Return an error if the AM on this machine is dead and its supervisor was stopped, so that no AM follows.

    Raises:
        RecordError: `am.json` is invalid.
    """
    location = locate_am(folder)
    if location is None or location.supervisor is None or location.host != socket.gethostname():
        return None
    if process.is_alive(location.pid) or not process.is_stopped(location.supervisor):
        return None
    return ConnectionFailedError(
        f"the application master of {folder.job_id} (process {location.pid}) is dead, and its supervisor "
        f"{location.supervisor}, which would restart it, was stopped; resume it with: "
        f"kill -CONT {location.supervisor}. `tony kill {folder.job_id}` stops the tasks, and the next AM ends the job",
        no_listener=True,
    )


@asynccontextmanager
async def connect_to_am(folder: JobFolder, timeout: float = ANSWER_TIMEOUT_SECONDS) -> AsyncIterator[RpcConnection]:
    """Connect to the AM; the connection is closed at the end of the context.

    Address and credentials are read only from files of the job directory's owner, without following links: another
    user could have put something there that leads to another job.

    Raises:
        ConnectionFailedError: the AM cannot be reached. `no_listener` if it has not started yet, or has ended.
        ProtocolError: the AM refused this client.
        RecordError: `am.json` or the credentials are invalid.
        StorageError: they cannot be read, or belong to another user than the job directory.
    """
    held = LocalStore(folder.path).hold("")
    location = None if held is None else _parse_location(folder, read_json_with(held.open, folder.am.name))
    secret = None if held is None else read_json_with(held.open, str(folder.credentials.relative_to(folder.path)))
    if location is None or secret is None:
        raise ConnectionFailedError(f"job {folder.job_id} has no running application master", no_listener=True)
    try:
        dial = _find_dialer(folder, location.dialed_by) if location.dialed_by else None
        connection = await connect(location.address, _load_credentials(folder, secret), PeerKind.CLIENT, timeout, dial)
    except ValueError as error:
        raise RecordError(f"{folder.am} and {folder.credentials} do not match: {error}") from error
    except ConnectionFailedError as error:
        raise _add_resume_hint(error, location) from error
    try:
        yield connection
    except ConnectionFailedError as error:
        raise _add_resume_hint(error, location) from error
    finally:
        # Every request has been answered or never will be, so there is nothing to wait for.
        connection.abort()
        await connection.wait_closed()


def _find_dialer(folder: JobFolder, scheduler: str) -> Callable[[str], Awaitable[socket.socket]]:
    try:
        submitter = registry.load(scheduler).create_submitter(folder.home)
    except LookupError:
        raise ConnectionFailedError(f"the scheduler {scheduler} of job {folder.job_id} is not installed here") from None
    return partial(submitter.dial, folder)


async def request_report(folder: JobFolder) -> JobReport:
    """Return the job's status from its AM. Raises as `connect_to_am` does."""
    async with connect_to_am(folder) as connection:
        connection.send(GetReport())
        return (await _receive_answer(connection, Report)).report


async def send_command(folder: JobFolder, command: KillJob | RestartJob | SetLogLevel) -> None:
    """Send a command; return when the AM has accepted it.

    Raises:
        ProtocolError: with code `busy`: no session can be restarted now. Otherwise as `connect_to_am`.
    """
    async with connect_to_am(folder) as connection:
        connection.send(command)
        await _receive_answer(connection, Done)


async def request_metrics(
    folder: JobFolder, tasks: Sequence[str] = (), series: Sequence[str] = (), points: int = 1
) -> Measured:
    """Return recent metrics. Raises as `connect_to_am` does.

    Args:
        tasks, series: which ones; empty for all. One answer holds some 4,000 series; request the others again.
        points: newest points of each series; at most `MAX_POINTS`.
    """
    async with connect_to_am(folder) as connection:
        connection.send(GetMetrics(tasks=tuple(tasks), series=tuple(series), points=points))
        return await _receive_answer(connection, Measured)


async def request_stacks(folder: JobFolder, actor: str, tasks: Sequence[str]) -> AsyncGenerator[Stacks, None]:
    """Yield the stack traces of tasks, in order, or the reason why there are none. Raises as `connect_to_am` does."""
    async with connect_to_am(folder) as connection:
        for first in range(0, len(tasks), _STACKS_BATCH):
            batch = tasks[first : first + _STACKS_BATCH]
            for task in batch:
                connection.send(GetStacks(actor=actor, task=TaskId.parse(task)))
            received: dict[str, Stacks] = {}
            for task in batch:
                while task not in received:
                    answer = await _receive_answer(connection, Stacks, _STACKS_TIMEOUT_SECONDS)
                    received[answer.task] = answer
                yield received[task]


async def watch(folder: JobFolder, *, ages: bool = False) -> AsyncGenerator[Report, None]:
    """Yield the job's status now and after every change; end after the final report, or when the connection ends.

    After the final report, wait (with a timeout) until the AM has exited, so that nothing of the job is left running
    when the generator ends. Raises as `connect_to_am` does.

    Args:
        ages: also yield when only ages have changed.
    """
    async with connect_to_am(folder) as connection:
        connection.send(Watch(ages=ages))
        while (message := await connection.receive()) is not None:
            if isinstance(message, Report):
                yield message
                if message.final:
                    await _wait_closed_by_am(connection)
                    return


async def _wait_closed_by_am(connection: RpcConnection) -> None:
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
            while await connection.receive() is not None:
                pass
    except (TimeoutError, ProtocolError):
        return


async def _receive_answer(connection: RpcConnection, kind: type[M], timeout: float | None = None) -> M:
    timeout = ANSWER_TIMEOUT_SECONDS if timeout is None else timeout
    try:
        async with asyncio.timeout(timeout):
            while (message := await connection.receive()) is not None:
                if isinstance(message, kind):
                    return message
    except TimeoutError:
        raise ConnectionFailedError(f"{connection.peer} did not answer within {timeout:g} s") from None
    raise ConnectionFailedError(f"{connection.peer} closed the connection without an answer", no_listener=True)


def _load_credentials(folder: JobFolder, secret: object) -> AmCredentials:
    try:
        return from_plain(JobCredentials, secret, ignore_unknown=True).executors
    except DecodeError as error:
        raise RecordError(f"{folder.credentials} is invalid: {error}") from error
