"""The application master as a process: `main(<job folder>)`. Detached from the client; ends when the job has ended."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import shutil
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path

from tony import clock
from tony.am.job_clock import JobClock
from tony.am.master import Master
from tony.core.events import AttemptStarted, UserCommand
from tony.errors import ExitCode, InfraError, TonyError
from tony.frameworks import registry as frameworks
from tony.history.files import write_json
from tony.history.log import FORMAT, VERSION, Header, LogWriter, segments, settings_digest
from tony.history.record import write_summary
from tony.model.codec import from_plain
from tony.model.layout import Home, JobFolder
from tony.model.record import JobRecord
from tony.model.report import Failure, FailureClass, JobReport
from tony.model.states import JobState, TlsMode
from tony.protocol.launch import JobCredentials
from tony.rpc.server import Server
from tony.schedulers import registry as schedulers
from tony.schedulers.base import ContainerSource, PreparedJob

log = logging.getLogger("tony.am")

#: Seconds that the last report may take to reach those who watch.
GOODBYE = 5.0


def main() -> int:
    """Runs one attempt; `sys.argv[1]` is the job's folder. Answers the exit code of the process."""
    folder = JobFolder(Path(sys.argv[1]))
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
    )
    lock = os.open(folder.am_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        log.error("another application master of %s lives", folder.job_id)
        return ExitCode.BUG
    try:
        asyncio.run(_attempt(folder))
    except TonyError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


async def _attempt(folder: JobFolder) -> None:
    job = _load(folder)
    record = job.record
    if record.framework_path:
        sys.path.append(record.framework_path)
    credentials = from_plain(JobCredentials, json.loads(folder.credentials.read_text()), ignore_unknown=True)
    attempt = len(segments(folder.path)) + 1
    digest = settings_digest(record.spec)
    header = Header(format=FORMAT, version=VERSION, job=record.job_id, attempt=attempt, settings=digest)
    writer = LogWriter(folder.events(attempt), header)
    source = schedulers.load(record.spec.scheduler).source(job)
    address = _address(job, source)
    job_clock = JobClock(clock.wall() - record.submitted)
    master = Master(
        job, credentials, frameworks.load(record.framework_module), source, writer, job_clock, attempt, address
    )
    server = Server(credentials.am, master)
    master.address = await server.listen(address)
    _announce(folder, attempt, master.address)
    _obey_signals(master)
    started = AttemptStarted(
        attempt=attempt, wall=clock.wall(), settings=digest, pid=os.getpid(), host=socket.gethostname()
    )
    report = await _run(master, source, started)
    writer.close()
    _clean(folder)
    write_summary(folder, report)
    await master.watchers.finish(report, GOODBYE)
    await server.close()


async def _run(master: Master, source: ContainerSource, started: AttemptStarted) -> JobReport:
    """The job's last report, whatever happens: a bug of ours is a verdict too."""
    try:
        await master.run(started)
        report = master.report()
    except Exception as error:  # the outermost loop of this program
        log.exception("the application master failed")
        report = _failed(master.report(), error)
    await source.close()
    return report


def _failed(report: JobReport, error: Exception) -> JobReport:
    ours = isinstance(error, InfraError)
    failure = Failure(
        failure_class=FailureClass.INFRASTRUCTURE if ours else FailureClass.PLATFORM,
        cause="refused" if ours else "bug",
        reason=str(error) if ours else f"a bug in the application master: {type(error).__name__}: {error}",
        session=report.session,
        at=0.0,
        log="am.log",
    )
    exit_code = ExitCode.INFRASTRUCTURE if ours else ExitCode.BUG
    return replace(
        report,
        state=JobState.FAILED,
        exit_code=int(exit_code),
        failure=failure,
        am=None,
        ended=clock.wall(),
        waiting="",
    )


def _load(folder: JobFolder) -> PreparedJob:
    record = from_plain(JobRecord, json.loads(folder.secret_job.read_text()), ignore_unknown=True)
    return PreparedJob(home=Home(folder.path.parent.parent), folder=folder, record=record)


def _address(job: PreparedJob, source: ContainerSource) -> str:
    """Where to listen: a Unix socket inside one machine, TLS wherever a message can leave it or the job wants it."""
    if source.capabilities.same_host and job.record.spec.tls is TlsMode.AUTO:
        return f"unix:{job.folder.am_socket}"
    host = "127.0.0.1" if source.capabilities.same_host else socket.getfqdn()
    return f"tls:{host}:0"


def _announce(folder: JobFolder, attempt: int, address: str) -> None:
    facts = {"pid": os.getpid(), "host": socket.gethostname(), "attempt": attempt, "address": address}
    write_json(folder.am, facts)


def _obey_signals(master: Master) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        name = number.name
        loop.add_signal_handler(number, lambda name=name: master.feed(UserCommand(actor=f"signal {name}", what="kill")))
    loop.add_signal_handler(signal.SIGHUP, lambda: None)


def _clean(folder: JobFolder) -> None:
    """What must not outlive the job: secrets, the address of a process that ends now."""
    shutil.rmtree(folder.secret, ignore_errors=True)
    for path in (folder.am, folder.am_socket):
        path.unlink(missing_ok=True)
