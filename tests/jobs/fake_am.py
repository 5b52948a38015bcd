"""Records of jobs as a client finds them, and a fake AM that answers as a test sets it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tony.client.credential_creation import make_credentials
from tony.core.events import Event
from tony.history.event_log import FORMAT, VERSION, Header, LogWriter
from tony.history.job_record import build_pending_report, write_summary
from tony.history.json_files import write_json
from tony.model.codec import from_plain, to_plain
from tony.model.failure import ExitFacts, Failure, FailureCause, FailureClass
from tony.model.ids import TaskId
from tony.model.job_report import AmReport, JobReport
from tony.model.job_spec import JobSpec, Role
from tony.model.metric_definitions import Points
from tony.model.progress import Progress
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState, TaskState
from tony.model.submission_record import JobRecord
from tony.protocol.client_messages import GetMetrics, GetReport, GetStacks, KillJob, Measured, Report, RestartJob, Watch
from tony.protocol.error_codes import Code
from tony.protocol.launch import JobCredentials
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import Done, SetLogLevel, Stacks
from tony.rpc.connection import RpcConnection
from tony.rpc.server import RpcServer
from tony.testing.sample_jobs import build_prepared_job

JOB = "local-20260101-000000-0a1b2c"
TWO_WORKERS = JobSpec(name="digits", command="true", roles={"worker": Role(instances=2)})
#: Long ago: such a job is not taken for one that is just being submitted.
LONG_AGO = 1_700_000_000.0


def recorded(
    home: Home, job_id: str = JOB, spec: JobSpec = TWO_WORKERS, submitted: float = LONG_AGO
) -> tuple[JobFolder, JobRecord]:
    """A job's folder as a client leaves it that was about to start the application master."""
    job = build_prepared_job(home.path, spec, job_id)
    record = replace(job.record, submitted=submitted, host="here")
    write_json(job.folder.job, to_plain(record))
    write_json(job.folder.credentials, to_plain(make_credentials(tls=False)))
    return job.folder, record


def job_of(folder: JobFolder) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(folder.job.read_text())
    return plain


def standing(folder: JobFolder, record: JobRecord, state: JobState, task: TaskState) -> JobReport:
    """A report in which every task is in one state."""
    report = build_pending_report(folder, record)
    tasks = tuple(replace(t, state=task, session=1, try_=1, host="here") for t in report.tasks)
    return replace(report, state=state, tasks=tasks, session=1, attempt=1, am=AmReport(pid=os.getpid(), host="here"))


def running(folder: JobFolder, record: JobRecord) -> JobReport:
    return standing(folder, record, JobState.RUNNING, TaskState.RUNNING)


def succeeded(folder: JobFolder, record: JobRecord) -> JobReport:
    """The last report of a job in which all went well."""
    report = standing(folder, record, JobState.SUCCEEDED, TaskState.SUCCEEDED)
    return replace(report, exit_code=0, am=None, ended=record.submitted + 8.0)


FAILURE = Failure(
    failure_class=FailureClass.USER,
    cause=FailureCause.PROGRAM,
    reason="worker:1 on here: exit code 3",
    session=1,
    at=7.0,
    task=TaskId("worker", 1),
    host="here",
    exit_code=3,
    tail=("Traceback (most recent call last):", "ValueError: no such file"),
    log="logs/worker-1.s1.t1.err",
    facts=ExitFacts(exit_message=""),
)


def failed(folder: JobFolder, record: JobRecord, failure: Failure = FAILURE) -> JobReport:
    """The last report of a job whose worker:1 failed first."""
    report = standing(folder, record, JobState.FAILED, TaskState.STOPPED)
    first = replace(report.tasks[1], state=TaskState.FAILED, exit_code=failure.exit_code)
    return replace(
        report,
        tasks=(report.tasks[0], first),
        failure=failure,
        exit_code=1,
        am=None,
        ended=record.submitted + 8.0,
    )


def logged(folder: JobFolder, events: Sequence[Event], attempt: int = 1, first_seq: int = 1) -> None:
    """Writes an event log; event n happened n seconds after the job was accepted."""
    header = Header(format=FORMAT, version=VERSION, job=folder.job_id, attempt=attempt, settings="")
    writer = LogWriter(folder.events(attempt), header, first_seq)
    for number, event in enumerate(events, start=first_seq):
        writer.append(event, float(number), LONG_AGO + number)
    writer.close()


class FakeAm:
    """Answers GetReport, Watch and KillJob on a job's real socket. A context manager; inside, the job's master lives.

    Attributes:
        kills: every KillJob that came.
        all_connections: every connection there ever was.
        on_kill: called for each of them.
        measured: what it says was measured; an answer holds `room` series.
        orders: every message that came by which it is to restart, to show stacks, or to log otherwise.
        standing: where tasks stand; of others it says that there is no executor.
        busy: why it restarts nothing; empty if it does.
        on_order: called for each of these.
        deaf: so many of these it does not hear: it goes away instead.
    """

    def __init__(self, folder: JobFolder, report: JobReport) -> None:
        self.folder = folder
        self.kills: list[KillJob] = []
        self.on_kill: Callable[[KillJob], None] = lambda message: None
        self.measured: list[Points] = []
        self.progress: tuple[Progress, ...] = ()
        self.room = 4000
        self.orders: list[Message] = []
        self.standing: dict[str, Stacks] = {}
        self.busy = ""
        self.on_order: Callable[[Message], None] = lambda message: None
        self.deaf = 0
        self.asked = 0
        self._report = report
        self._watchers: list[RpcConnection] = []
        self.all_connections: list[RpcConnection] = []
        self._server: RpcServer | None = None
        self._lock = -1

    async def __aenter__(self) -> Self:
        self._lock = os.open(self.folder.am_lock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not self.folder.events(1).exists():
            logged(self.folder, [])
        await self.listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.die()

    async def listen(self) -> None:
        secret = from_plain(JobCredentials, json.loads(self.folder.credentials.read_text()))
        self._server = RpcServer(secret.am, self)
        address = await self._server.listen(f"unix:{self.folder.am_socket}")
        write_json(self.folder.am, {"pid": os.getpid(), "host": "here", "attempt": 1, "address": address})

    def change(self, report: JobReport, *, final: bool = False) -> None:
        """Set the job's report and send it to all subscribers."""
        self._report = report
        for connection in self._watchers:
            connection.send(Report(report=report, final=final))

    def hang_up(self) -> None:
        for connection in self.all_connections:
            connection.abort()

    async def finish(self, report: JobReport) -> None:
        """The job ends as with a real master: secrets removed, summary written, subscribers notified, process gone."""
        shutil.rmtree(self.folder.secret)
        self.folder.am.unlink()
        write_summary(self.folder, report)
        self.change(report, final=True)
        await self.die()

    async def leave(self) -> None:
        """The process has ended, and another one is to come: its supervisor lives."""
        if self._server is not None:
            await self._server.close()
            self._server = None

    async def die(self) -> None:
        """The process has ended, without another word."""
        if self._server is not None:
            await self._server.close()
            self._server = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def on_connected(self, connection: RpcConnection) -> None:
        self.all_connections.append(connection)

    def on_message(self, connection: RpcConnection, message: Message) -> None:
        self.asked += 1
        if isinstance(message, GetReport):
            connection.send(Report(report=self._report))
        elif isinstance(message, GetMetrics):
            found = [each for each in self.measured if not message.tasks or each.task in message.tasks]
            found = [each for each in found if not message.series or each.series in message.series]
            now = max((each.at for each in self.progress), default=1.0)
            more = len(found) > self.room
            connection.send(Measured(now=now, points=tuple(found[: self.room]), more=more, progress=self.progress))
        elif isinstance(message, Watch):
            self._watchers.append(connection)
            connection.send(Report(report=self._report))
        elif isinstance(message, KillJob):
            self.kills.append(message)
            connection.send(Done())
            self.on_kill(message)
        elif isinstance(message, RestartJob | GetStacks | SetLogLevel):
            self._obey(connection, message)

    def _obey(self, connection: RpcConnection, message: RestartJob | GetStacks | SetLogLevel) -> None:
        self.orders.append(message)
        self.on_order(message)
        if self.deaf:
            self.deaf -= 1
            connection.abort()
        elif isinstance(message, GetStacks):
            none = Stacks(task=str(message.task), problem=f"the executor of {message.task} is not connected")
            connection.send(self.standing.get(none.task, none))
        elif isinstance(message, RestartJob) and self.busy:
            connection.refuse(Code.BUSY, self.busy)
        else:
            connection.send(Done())

    def on_closed(self, connection: RpcConnection, reason: str) -> None:
        with contextlib.suppress(ValueError):
            self._watchers.remove(connection)

    @property
    def watched(self) -> bool:
        return bool(self._watchers)


def write_log(folder: JobFolder, name: str, text: str | bytes) -> Path:
    """Appends to a log file of a task."""
    path = folder.logs / name
    with path.open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)
    return path
