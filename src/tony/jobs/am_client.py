"""Talking to a job's living application master."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from tony.dataclass import dataclass
from tony.errors import ConnectionFailed, ProtocolError, RecordError
from tony.history.json_files import read_json, read_json_in
from tony.linux import process
from tony.model.codec import DecodeError, Json, from_plain
from tony.model.job_report import JobReport
from tony.model.layout import JobFolder
from tony.protocol.hello import PeerKind
from tony.protocol.launch import AmCredentials, JobCredentials
from tony.protocol.messages import (
    Done,
    GetMetrics,
    GetReport,
    GetStacks,
    KillJob,
    Measured,
    Message,
    Report,
    RestartJob,
    SetLogLevel,
    Stacks,
    Watch,
)
from tony.rpc.client_connection import connect
from tony.rpc.connection import RpcConnection
from tony.storage.local_store import LocalStore

#: Seconds to get a connection, and seconds to get an answer: a master that is busy with 10,000 tasks needs a few.
PATIENCE = 10.0
#: The same where the master has to ask an executor first, and that a sampler; and of how many tasks at one time.
_STACKS = 75.0
_STACKS_AT_ONCE = 16

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class AmLocation:
    """What `am.json` says: who and where the application master is.

    Attributes:
        address: `unix:<path>` or `tls:<host>:<port>`.
        supervisor: who has the next one begin if it dies, on its own machine; None if nobody does there.
    """

    pid: int
    host: str
    attempt: int
    address: str
    supervisor: int | None = None


def whereabouts(folder: JobFolder) -> AmLocation | None:
    """Where the application master is; None before it has come up.

    Raises:
        RecordError: the file is not what it should be.
    """
    return _whereabouts(folder, read_json(folder.am))


def _whereabouts(folder: JobFolder, data: Json | None) -> AmLocation | None:
    try:
        return None if data is None else from_plain(AmLocation, data, ignore_unknown=True)
    except DecodeError as error:
        raise RecordError(f"{folder.am} is not what it should be: {error}") from error


def _explained(error: ConnectionFailed, there: AmLocation) -> ConnectionFailed:
    """Says why nobody answers, if it can be seen from here."""
    if error.gone or there.host != socket.gethostname() or not process.is_stopped(there.pid):
        return error
    text = f"{error}: its process {there.pid} was stopped; to let it go on: kill -CONT {there.pid}"
    return ConnectionFailed(text)


def describe_delay(folder: JobFolder) -> ConnectionFailed | None:
    """Why no other application master follows one of this machine that is dead, if its supervisor was stopped.

    Raises:
        RecordError: what is written down about it makes no sense.
    """
    there = whereabouts(folder)
    if there is None or there.supervisor is None or there.host != socket.gethostname():
        return None
    if process.is_alive(there.pid) or not process.is_stopped(there.supervisor):
        return None
    return ConnectionFailed(
        f"the application master of {folder.job_id} (process {there.pid}) is dead, and its supervisor "
        f"{there.supervisor}, which has the next one begin, was stopped; to let it go on: "
        f"kill -CONT {there.supervisor}. `tony kill {folder.job_id}` ends what runs, and is kept for the next one",
        gone=True,
    )


@asynccontextmanager
async def connect_to_am(folder: JobFolder, timeout: float = PATIENCE) -> AsyncIterator[RpcConnection]:
    """A connection to the application master, closed at the end.

    Its address and the credentials are read only where they belong to the user to whom the job directory belongs, and
    through no link: another user could have put there what leads to another job.

    Raises:
        ConnectionFailed: it cannot be reached. `gone` if it has not come up yet, or is no longer there.
        ProtocolError: it refused us.
        RecordError: what is written down about it makes no sense.
        StorageError: it cannot be read, or belongs to another user than the job directory.
    """
    held = LocalStore(folder.path).hold("")
    there = None if held is None else _whereabouts(folder, read_json_in(held, folder.am.name))
    secret = None if held is None else read_json_in(held, str(folder.credentials.relative_to(folder.path)))
    if there is None or secret is None:
        raise ConnectionFailed(f"job {folder.job_id} has no application master that could be asked", gone=True)
    try:
        connection = await connect(there.address, _credentials(folder, secret), PeerKind.CLIENT, timeout)
    except ValueError as error:
        raise RecordError(f"{folder.am} and {folder.credentials} do not fit together: {error}") from error
    except ConnectionFailed as error:
        raise _explained(error, there) from error
    try:
        yield connection
    except ConnectionFailed as error:
        raise _explained(error, there) from error
    finally:
        # Whatever was asked has been answered, or will not be: there is nothing to wait for.
        connection.abort()
        await connection.wait_closed()


async def ask_report(folder: JobFolder) -> JobReport:
    """The job as it stands, from the one who knows. Raises as `reach` does."""
    async with connect_to_am(folder) as connection:
        connection.send(GetReport())
        return (await _answer(connection, Report)).report


async def tell_kill(folder: JobFolder, actor: str, now: bool) -> None:
    """Asks for the job's end; returns once that is on its way. Raises as `reach` does."""
    async with connect_to_am(folder) as connection:
        connection.send(KillJob(actor=actor, now=now))
        await _answer(connection, Done)


async def tell_restart(folder: JobFolder, actor: str) -> None:
    """Asks for the next session instead of this one; returns once that is on its way.

    Raises:
        ProtocolError: with code `busy`: there is none that could be restarted now. Otherwise as `reach`.
    """
    async with connect_to_am(folder) as connection:
        connection.send(RestartJob(actor=actor))
        await _answer(connection, Done)


async def tell_log_level(folder: JobFolder, level: str, actor: str = "") -> None:
    """Asks the application master and all executors to log from `level` on. Raises as `reach` does."""
    async with connect_to_am(folder) as connection:
        connection.send(SetLogLevel(level=level, actor=actor))
        await _answer(connection, Done)


async def ask_metrics(
    folder: JobFolder, tasks: Sequence[str] = (), series: Sequence[str] = (), points: int = 1
) -> Measured:
    """What was measured lately. Raises as `reach` does.

    Args:
        tasks, series: which ones; none for all. One answer holds some 4,000 series: the others are asked for again.
        points: of each series, the newest; at most `MOST_POINTS`.
    """
    async with connect_to_am(folder) as connection:
        connection.send(GetMetrics(tasks=tuple(tasks), series=tuple(series), points=points))
        return await _answer(connection, Measured)


async def ask_stacks(folder: JobFolder, actor: str, task: str) -> Stacks:
    """Where the program of a task stands; the answer says why, where there is nothing. Raises as `reach` does."""
    async with connect_to_am(folder) as connection:
        connection.send(GetStacks(actor=actor, task=task))
        return await _answer(connection, Stacks, _STACKS)


async def ask_all_stacks(folder: JobFolder, actor: str, tasks: Sequence[str]) -> AsyncGenerator[Stacks, None]:
    """As `ask_stacks`, of one task after the other, over one connection."""
    async with connect_to_am(folder) as connection:
        for first in range(0, len(tasks), _STACKS_AT_ONCE):
            some = tasks[first : first + _STACKS_AT_ONCE]
            for task in some:
                connection.send(GetStacks(actor=actor, task=task))
            told: dict[str, Stacks] = {}
            for task in some:
                while task not in told:
                    answer = await _answer(connection, Stacks, _STACKS)
                    told[answer.task] = answer
                yield told[task]


async def watch(folder: JobFolder, *, ages: bool = False) -> AsyncGenerator[Report, None]:
    """The job as it stands, now and after every change; ends after the final report, or when the connection does.

    After the final report it waits (not for ever) until the application master has gone, so that whoever comes to the
    end finds nothing running any more. Raises as `reach` does.

    Args:
        ages: also when nothing but time has passed.
    """
    async with connect_to_am(folder) as connection:
        connection.send(Watch(ages=ages))
        while (message := await connection.receive()) is not None:
            if isinstance(message, Report):
                yield message
                if message.final:
                    await _wait_gone(connection)
                    return


async def _wait_gone(connection: RpcConnection) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            while await connection.receive() is not None:
                pass
    except (TimeoutError, ProtocolError):
        return


async def _answer(connection: RpcConnection, kind: type[M], patience: float | None = None) -> M:
    patience = PATIENCE if patience is None else patience
    try:
        async with asyncio.timeout(patience):
            while (message := await connection.receive()) is not None:
                if isinstance(message, kind):
                    return message
    except TimeoutError:
        raise ConnectionFailed(f"{connection.peer} does not answer within {patience:g} s") from None
    raise ConnectionFailed(f"{connection.peer} went away without an answer", gone=True)


def _credentials(folder: JobFolder, secret: object) -> AmCredentials:
    try:
        return from_plain(JobCredentials, secret, ignore_unknown=True).executors
    except DecodeError as error:
        raise RecordError(f"{folder.credentials} is not what it should be: {error}") from error
