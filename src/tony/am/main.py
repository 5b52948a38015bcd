"""The application master as a process: `main(<job folder>)`. Detached from the client; ends when the job has ended.

Whatever happens after the job's record could be read, the job ends with a verdict: containers are given back, secrets
are removed, the summary is written and those who watch are told, each of these although another one failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tony import clock
from tony.am import connection_limits
from tony.am.fatal_errors import report_fatal_error
from tony.am.master import Master
from tony.am.page_server import PageProcess
from tony.am.pending_commands import apply_pending_commands
from tony.am.recovery import recover_state
from tony.am.status_page import Page
from tony.bootstrap import settle
from tony.config.site_files import default_site_files, is_absent
from tony.core.events import AttemptStarted, UserCommand
from tony.dataclass import dataclass
from tony.errors import ConfigError, ExitCode, InfraError, NotInCharge, Overdue, PlatformError, StorageError, TonyError
from tony.frameworks import registry as frameworks
from tony.frameworks.base import Framework
from tony.history.event_log import FORMAT, VERSION, Header, LogWriter, segments, settings_digest
from tony.history.job_record import pending_report, write_summary
from tony.history.json_files import write_json
from tony.linux import liveness_lock
from tony.linux.open_file_limit import allow_open_files
from tony.linux.process import hear_signals, set_not_dumpable
from tony.linux.threads import to_thread
from tony.model.codec import from_plain
from tony.model.job_record import JobRecord
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec
from tony.model.layout import Home, JobFolder
from tony.model.states import TlsMode
from tony.protocol.launch import JobCredentials
from tony.rpc.server import RpcServer
from tony.schedulers import registry as schedulers
from tony.schedulers.interface import ContainerAllocator, PreparedJob

log = logging.getLogger("tony.am")

#: Seconds that the last report may take to reach those who watch.
GOODBYE = 5.0
#: Seconds that a scheduler may take to give everything back; what does not die by then is stuck in the kernel.
CLOSING = 60.0
#: Seconds that a full disk may take to have room for the summary, and between two tries.
ROOM, ROOM_PAUSE = 10.0, 0.2


def main() -> int:
    """Runs one attempt; answers the exit code of the process.

    `sys.argv[1]` is the job's folder. A second argument is the number of a pipe that is closed as soon as clients can
    connect: whoever started us waits for its end.
    """
    return run(_source)


def run(source: Callable[[PreparedJob], ContainerAllocator]) -> int:
    """Like `main`, with containers from elsewhere than the job's scheduler."""
    settle()
    folder = JobFolder(Path(sys.argv[1]))
    hear_signals()
    allow_open_files(connection_limits.OWN)
    set_not_dumpable()  # token and keys are in our memory
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=clock.LOG_LINE, force=True)
    if not liveness_lock.take(folder.am_lock):
        log.error("another application master of %s lives", folder.job_id)
        return ExitCode.BUG
    if folder.summary.exists():
        log.error("%s has ended already", folder.job_id)
        return ExitCode.BUG
    try:
        asyncio.run(attempt(folder, source, _close_pipe))
    except TonyError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


@dataclass(slots=True)
class _Parts:
    """What there is of an attempt so far, and has to be ended."""

    source: ContainerAllocator | None = None
    writer: LogWriter | None = None
    master: Master | None = None
    server: RpcServer | None = None
    page: Page | None = None
    requests: asyncio.Task[None] | None = None


def _source(job: PreparedJob) -> ContainerAllocator:
    return schedulers.load(job.record.spec.scheduler).source(job)


def _close_pipe() -> None:
    for number in sys.argv[2:3]:
        os.close(int(number))


async def attempt(
    folder: JobFolder,
    source: Callable[[PreparedJob], ContainerAllocator] = _source,
    up: Callable[[], None] = lambda: None,
) -> None:
    """Runs the job to its end, and writes down what it was.

    Args:
        source: makes the job's container source.
        up: called once clients can connect.

    Raises:
        PlatformError: there is no job in that folder that could be run.
        NotInCharge: another application master has the job.
    """
    job = _load(folder)
    parts = _Parts()
    try:
        started = await _begin(job, parts, source)
        up()
        assert parts.master is not None
        await parts.master.run(started)
        report = parts.master.report()
    except NotInCharge as error:
        log.error("this application master leaves everything as it is: %s", error)
        await _leave(parts)
        raise
    except Exception as error:  # the outermost loop of this program: a bug of ours is a verdict, too
        report = report_fatal_error(_standing(job, parts), error, clock.wall())
        expected = isinstance(error, InfraError | ConfigError | Overdue)
        log.error("broken off: %s", report.failure and report.failure.reason, exc_info=not expected and error)
    await _end(folder, parts, report)


async def _begin(
    job: PreparedJob, parts: _Parts, source: Callable[[PreparedJob], ContainerAllocator]
) -> AttemptStarted:
    """Everything up to the moment in which the job can run."""
    record, folder = job.record, job.folder
    parts.source = source(job)  # first: whatever fails below, the scheduler can be told
    _obey_the_site(record.spec)
    connection_limits.allow_connections(record.spec)
    if record.framework_path:
        sys.path.append(record.framework_path)
    credentials = from_plain(JobCredentials, json.loads(folder.credentials.read_text("utf-8")), ignore_unknown=True)
    await parts.source.bring_log()
    number = parts.source.attempt or len(segments(folder.path)) + 1
    legacy = await to_thread(recover_state, folder, record) if number > 1 else recover_state(folder, record)
    digest = settings_digest(record.spec)
    header = Header(format=FORMAT, version=VERSION, job=record.job_id, attempt=number, settings=digest)
    parts.writer = LogWriter(folder.events(number), header, legacy.next_seq)
    address = _address(job, parts.source)
    parts.master = Master(
        job,
        legacy.app,
        credentials,
        _framework(record.framework_module),
        parts.source,
        parts.writer,
        legacy.clock,
        number,
        address,
    )
    if parts.source.keeps_measured:
        parts.master.measurements.keep_safe = parts.source.keep_measured
    parts.master.barrier.keep_to(parts.source.journal(folder.events(number), parts.master.in_safety))
    _hear_signals(parts.master, parts.source)
    parts.server = RpcServer(credentials.am, parts.master)
    parts.master.address = parts.source.master_address = await parts.server.listen(address)
    await _show_page(parts, parts.source, parts.master)
    _announce(folder, number, parts.master.address)
    # After we listen: whoever finds nobody keeps it for us.
    parts.requests = asyncio.get_running_loop().create_task(apply_pending_commands(folder, parts.master.feed))
    return AttemptStarted(
        attempt=number,
        wall=clock.wall(),
        settings=digest,
        pid=os.getpid(),
        host=socket.gethostname(),
        gangs=parts.source.capabilities.gang,
        chooses=parts.source.capabilities.chooses,
    )


def _obey_the_site(spec: JobSpec) -> None:
    """Checks the job once more against the rules of this machine, if it has any."""
    files = [path for path in default_site_files(os.environ) if not is_absent(path)]
    if files:
        from tony.config.site_policy import check_again  # the whole table of settings; most machines have no rules

        problems = check_again(spec, files)
        if problems:
            raise ConfigError(problems)


def _framework(home: str) -> Framework:
    try:
        return frameworks.load(home)
    except Exception as error:  # a plug-in's module runs when it is imported, and may do anything
        raise PlatformError(
            f"the framework adapter {home} cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def _standing(job: PreparedJob, parts: _Parts) -> JobReport:
    """How the job stood when it was broken off, as far as that can be told."""
    if parts.master:
        try:
            return parts.master.report()
        except Exception:  # whatever broke the job off may have broken this as well
            log.exception("the job's state cannot be told")
    return pending_report(job.folder, job.record)


async def _leave(parts: _Parts) -> None:
    """Somebody else has the job: no container, record or secret of it is touched, and nobody is told of an end."""
    if parts.server:
        with _whatever_happens("closing the connections"):
            await parts.server.close()
    if parts.page:
        with _whatever_happens("closing the page"):
            await parts.page.close()
    if parts.master:
        parts.master.notices.drop()


async def _end(folder: JobFolder, parts: _Parts, report: JobReport) -> None:
    """Ends everything. The secrets go before the summary comes: after it the job has ended, for everybody."""
    if parts.source:
        with _whatever_happens("giving the containers back"):
            async with asyncio.timeout(CLOSING):
                await parts.source.close()
    if parts.master:
        with _whatever_happens("telling those who read"):
            parts.master.executors.logs.finish()
    if parts.writer:
        with _whatever_happens("closing the event log"):
            parts.writer.close()
    if parts.master:
        with _whatever_happens("writing what was measured"):
            await parts.master.measurements.finish()
    with _whatever_happens("removing the job's secrets"):
        import shutil  # late: it loads every compressor

        shutil.rmtree(folder.secret)
    for path in (folder.am, folder.am_socket, folder.kill_request):
        with _whatever_happens(f"removing {path}"):
            path.unlink(missing_ok=True)
    with _whatever_happens("writing the summary"):
        write_summary(folder, report)
        log.info("the job %s", report.state.value)
    if parts.master:
        with _whatever_happens("telling those who watch"):
            await parts.master.watchers.finish(report, GOODBYE)
    if not folder.summary.exists():
        with _whatever_happens("writing the summary, after all"):
            await _write_later(folder, report)
    if parts.server:
        with _whatever_happens("closing the connections"):
            await parts.server.close()
    if parts.page:
        with _whatever_happens("closing the page"):
            await parts.page.close()
    if parts.master:
        with _whatever_happens("telling those who want to know"):
            await parts.master.notices.finish(report)
    if parts.source:
        with _whatever_happens("telling the scheduler"):
            await parts.source.finish(report)


async def _write_later(folder: JobFolder, report: JobReport) -> None:
    """A disk that was full may have room in a moment: without a summary the job counts as lost with us."""
    deadline = clock.monotonic() + ROOM
    while True:
        await asyncio.sleep(ROOM_PAUSE)
        try:
            write_summary(folder, report)
        except StorageError:
            if clock.monotonic() > deadline:
                raise
        else:
            log.info("the job %s", report.state.value)
            return


@contextlib.contextmanager
def _whatever_happens(what: str) -> Iterator[None]:
    """One step of the end: that it failed is said, and hinders no other step."""
    try:
        yield
    except (TonyError, OSError) as error:  # a time-out is an OSError as well
        log.error("%s failed: %s: %s", what, type(error).__name__, error)
    except Exception:
        log.exception("%s failed", what)


def _load(folder: JobFolder) -> PreparedJob:
    """The job with its secrets.

    Raises:
        PlatformError: it is not there, or not a job.
    """
    try:
        record = from_plain(JobRecord, json.loads(folder.secret_job.read_text("utf-8")), ignore_unknown=True)
    except (OSError, ValueError) as error:
        raise PlatformError(f"{folder.secret_job} cannot be read as a job: {error}") from error
    return PreparedJob(home=Home(folder.path.parent.parent), folder=folder, record=record)


def _address(job: PreparedJob, source: ContainerAllocator) -> str:
    """Where to listen: a Unix socket inside one machine, TLS wherever a message can leave it or the job wants it."""
    if source.capabilities.same_host and job.record.spec.tls is TlsMode.AUTO:
        return f"unix:{job.folder.am_socket}"
    host = "127.0.0.1" if source.capabilities.same_host else source.host
    return f"tls:{host}:0"


async def _show_page(parts: _Parts, source: ContainerAllocator, master: Master) -> None:
    """Where the scheduler has pages of its own, ours is a part of them."""
    door = source.page_door()
    if door is None:
        return
    process = None
    if door.packages:
        record = master.job.record
        process = PageProcess(master.job.folder.path, record.user, door)
    parts.page = Page(master.report, door.peers, door.proxy, process, door.plain)
    try:
        source.page_address = f"{source.host}:{await parts.page.listen(source.host)}"
    except OSError as error:
        log.warning("there is no page for people: %s", error)


def _announce(folder: JobFolder, attempt: int, address: str) -> None:
    facts = {"pid": os.getpid(), "host": socket.gethostname(), "attempt": attempt, "address": address}
    supervisor = liveness_lock.lock_owner(folder.am_lock)
    if supervisor is not None and supervisor != os.getpid():
        facts["supervisor"] = supervisor
    write_json(folder.am, facts)


def _hear_signals(master: Master, source: ContainerAllocator) -> None:
    """They end the job. But not where the scheduler counts attempts: it ends every attempt by them, whatever for, and
    another one may follow. Whether one does it tells by itself."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        if source.attempt is None:
            loop.add_signal_handler(number, master.feed, UserCommand(actor=f"signal {number.name}", what="kill"))
        else:
            loop.add_signal_handler(number, log.warning, "%s: the job is left for the next attempt", number.name)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
