"""The AM process: `main(<job folder>)`. Detached from the client; exits when the job has ended.

Once the job's record was read, the job always ends with an outcome: containers are released, secrets removed, the
summary is written and subscribers are notified, each step even if another one failed.
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
from dataclasses import dataclass, field
from pathlib import Path

from tony import clock
from tony.address import Address
from tony.am import open_file_limit
from tony.am.fatal_errors import report_fatal_error
from tony.am.master import JobFinishedError, Master
from tony.am.recovery import apply_stored_kill_requests, recover_state
from tony.config.files.site_file_paths import default_site_files, is_absent
from tony.core.events import AttemptStarted, KillRequested
from tony.errors import (
    AttemptSupersededError,
    ConfigError,
    ExitCode,
    InfraError,
    PlatformError,
    StorageError,
    TimeLimitExceededError,
    TonyError,
)
from tony.frameworks import registry as frameworks
from tony.frameworks.framework_interface import Framework
from tony.history.event_log import FORMAT, VERSION, Header, LogWriter, segments, settings_digest
from tony.history.job_record import build_pending_report, write_summary
from tony.history.json_files import write_json
from tony.isolated_interpreter import settle
from tony.linux import liveness_lock
from tony.linux.process import hear_signals, set_not_dumpable
from tony.linux.resource_limits import allow_open_files
from tony.linux.thread_pools import to_thread
from tony.model.actor import Actor, ActorKind
from tony.model.codec import from_plain
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec
from tony.model.setting_choices import TlsMode
from tony.model.state_directory import JobFolder
from tony.model.submission_record import JobRecord
from tony.protocol.launch import JobCredentials
from tony.rpc.am_address import TlsAddress, UnixAddress, parse
from tony.rpc.server import RpcServer
from tony.schedulers import registry as schedulers
from tony.schedulers.allocator_interface import AmAddresses, ContainerAllocator, SignalEffect
from tony.schedulers.client_interface import PreparedJob

log = logging.getLogger("tony.am")

#: Seconds that the last report may take to reach subscribers.
LAST_REPORT_TIMEOUT_SECONDS = 5.0
#: Seconds that a scheduler may take to release everything; a process that is left then is stuck in the kernel.
CLOSE_TIMEOUT_SECONDS = 60.0
#: Seconds to wait for room on a full disk for the summary, and between two tries.
DISK_SPACE_TIMEOUT_SECONDS = 10.0
DISK_SPACE_PAUSE_SECONDS = 0.2


def main() -> int:
    """Run one AM attempt and return the exit code of the process.

    `sys.argv[1]` is the job's folder. A second argument is the file descriptor of a pipe that is closed as soon as
    clients can connect: the parent waits for that.
    """
    return run(_load_allocator)


def run(create_allocator: Callable[[PreparedJob], ContainerAllocator]) -> int:
    """Like `main`, with another container allocator than that of the job's scheduler."""
    settle()
    folder = JobFolder(Path(sys.argv[1]))
    hear_signals()
    allow_open_files(open_file_limit.AM_OPEN_FILES)
    set_not_dumpable()  # token and keys are in memory
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=clock.LOG_LINE, force=True)
    if not liveness_lock.take(folder.am_lock):
        log.error("another application master of %s is running", folder.job_id)
        return ExitCode.BUG
    if folder.summary.exists():
        log.error("%s has ended already", folder.job_id)
        return ExitCode.BUG
    try:
        return asyncio.run(run_attempt(folder, create_allocator, _close_pipe))
    except TonyError as error:
        log.error("%s", error)
        return error.exit_code


@dataclass(slots=True)
class _Parts:
    """The parts of an AM attempt that exist so far.

    Attributes:
        files: closes what writes to the job directory; connections: what listens. Each part adds its own end.
    """

    allocator: ContainerAllocator | None = None
    master: Master | None = None
    files: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    connections: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)


def _load_allocator(job: PreparedJob) -> ContainerAllocator:
    return schedulers.load(job.record.spec.scheduler).create_allocator(job)


def _close_pipe() -> None:
    for number in sys.argv[2:3]:
        os.close(int(number))


async def run_attempt(
    folder: JobFolder,
    create_allocator: Callable[[PreparedJob], ContainerAllocator] = _load_allocator,
    on_listening: Callable[[], None] = lambda: None,
) -> int:
    """Run the job to its end and write its summary; return the exit code of the process.

    Args:
        create_allocator: creates the job's container allocator.
        on_listening: called once clients can connect.

    Raises:
        PlatformError: the folder holds no valid job.
        AttemptSupersededError: another AM attempt has the job.
    """
    job = _load(folder)
    parts = _Parts()
    try:
        # A task of its own: before Python 3.11.4 time-outs fail in a task whose group had an error.
        report = await asyncio.create_task(_run_job(job, parts, create_allocator, on_listening))
    except AttemptSupersededError as error:
        log.error("this application master exits and leaves the job unchanged: %s", error)
        await _leave(parts)
        raise
    except Exception as error:  # the outermost handler: a bug of tony is an outcome, too
        report = report_fatal_error(_build_last_report(job, parts), error, clock.wall())
        expected = isinstance(error, InfraError | ConfigError | TimeLimitExceededError)
        log.error("job aborted: %s", report.failure and report.failure.reason, exc_info=not expected and error)
    await _end(folder, parts, report)
    return parts.allocator.exit_code(report) if parts.allocator else 0


async def _run_job(
    job: PreparedJob,
    parts: _Parts,
    create_allocator: Callable[[PreparedJob], ContainerAllocator],
    on_listening: Callable[[], None],
) -> JobReport:
    """Run the job; return its report at the end, or raise the first error of any of its tasks."""
    try:
        async with asyncio.TaskGroup() as tasks:
            master = await _begin(job, parts, create_allocator, tasks)
            on_listening()
    except ExceptionGroup as errors:
        first = errors.exceptions[0]
        if not isinstance(first, JobFinishedError):
            raise first from None
    return master.build_report()


async def _begin(
    job: PreparedJob,
    parts: _Parts,
    create_allocator: Callable[[PreparedJob], ContainerAllocator],
    tasks: asyncio.TaskGroup,
) -> Master:
    """Set up everything that is needed to run the job, and start running it."""
    record, folder = job.record, job.folder
    parts.allocator = create_allocator(job)  # first: if something fails below, the scheduler can be notified
    _check_site_policy(record.spec)
    open_file_limit.allow_connections(record.spec)
    if record.framework_path:
        sys.path.append(record.framework_path)
    credentials = from_plain(JobCredentials, json.loads(folder.credentials.read_text("utf-8")), ignore_unknown=True)
    await parts.allocator.fetch_event_logs()
    number = parts.allocator.attempt or len(segments(folder.path)) + 1
    recovered = await to_thread(recover_state, folder, record) if number > 1 else recover_state(folder, record)
    digest = settings_digest(record.spec)
    header = Header(format=FORMAT, version=VERSION, job=record.job_id, attempt=number, settings=digest)
    writer = LogWriter(folder.events(number), header, recovered.next_seq)
    parts.files.callback(writer.close)
    framework = _load_framework(record.framework_module)
    parts.master = master = Master(
        job, recovered.app, credentials, framework, parts.allocator, writer, recovered.clock, number, tasks
    )
    parts.files.push_async_callback(master.metrics.finish)
    parts.files.callback(master.executors.logs.finish)
    parts.files.push_async_callback(master.executors.outputs.finish)
    _hear_signals(master, parts.allocator)
    server = RpcServer(credentials.am, master)
    parts.connections.push_async_callback(server.close)
    listens = await server.listen(_choose_address(job, parts.allocator))
    page = await _start_web_listener(parts.connections, parts.allocator, master)
    addresses = AmAddresses(am=_to_host(listens, parts.allocator), page=page)
    _announce(folder, number, addresses.am, parts.allocator.dialed_by)
    # After listening: a client that could not connect before has stored its request.
    tasks.create_task(apply_stored_kill_requests(folder, master.feed))
    started = AttemptStarted(
        attempt=number,
        wall=clock.wall(),
        settings=digest,
        pid=os.getpid(),
        host=socket.gethostname(),
        gangs=parts.allocator.capabilities.gang,
        chooses=parts.allocator.capabilities.chooses,
        enlists=parts.allocator.capabilities.enlists,
    )
    master.start(started, addresses)
    return master


def _check_site_policy(spec: JobSpec) -> None:
    """Check the job again against the site policy of this machine, if there is one."""
    files = [path for path in default_site_files(os.environ) if not is_absent(path)]
    if files:
        from tony.config.files.site_policy import (
            check_again,
        )  # late: imports the whole settings table; most machines have no policy

        problems = check_again(spec, files)
        if problems:
            raise ConfigError(problems)


def _load_framework(home: str) -> Framework:
    try:
        return frameworks.load(home)
    except Exception as error:  # importing a plug-in may raise anything
        raise PlatformError(
            f"the framework adapter {home} cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def _build_last_report(job: PreparedJob, parts: _Parts) -> JobReport:
    """Return the state of the job when its AM failed, as far as it is known."""
    if parts.master:
        try:
            return parts.master.build_report()
        except Exception:  # may fail for the same reason
            log.exception("the state of the job cannot be determined")
    return build_pending_report(job.folder, job.record)


async def _leave(parts: _Parts) -> None:
    """Close connections only: another AM attempt has the job, so its containers, record and secrets stay."""
    with _guard_step("closing the connections"):
        await parts.connections.aclose()
    if parts.master:
        parts.master.notifications.drop()


async def _end(folder: JobFolder, parts: _Parts, report: JobReport) -> None:
    """Close everything. Secrets are removed before the summary is written: the summary marks the end of the job."""
    if parts.allocator:
        with _guard_step("releasing the containers"):
            async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                await parts.allocator.close()
    with _guard_step("closing the event log and the metrics"):
        await parts.files.aclose()
    with _guard_step("removing the job's secrets"):
        import shutil  # late: imports every compressor

        shutil.rmtree(folder.secret)
    for path in folder.transient_files:
        with _guard_step(f"removing {path}"):
            path.unlink(missing_ok=True)
    with _guard_step("writing the summary"):
        write_summary(folder, report)
        log.info("the job %s", report.state.value)
    if parts.master:
        with _guard_step("notifying the subscribers"):
            await parts.master.subscribers.finish(report, LAST_REPORT_TIMEOUT_SECONDS)
    if not folder.summary.exists():
        with _guard_step("writing the summary again"):
            await _write_later(folder, report)
    with _guard_step("closing the connections"):
        await parts.connections.aclose()
    if parts.master:
        with _guard_step("sending the last webhook"):
            await parts.master.notifications.finish(report)
    if parts.allocator:
        with _guard_step("notifying the scheduler"):
            await parts.allocator.finish(report)


async def _write_later(folder: JobFolder, report: JobReport) -> None:
    """Retry writing the summary, since a full disk may be freed; without a summary the job would count as lost."""
    deadline = clock.monotonic() + DISK_SPACE_TIMEOUT_SECONDS
    while True:
        await asyncio.sleep(DISK_SPACE_PAUSE_SECONDS)
        try:
            write_summary(folder, report)
        except StorageError:
            if clock.monotonic() > deadline:
                raise
        else:
            log.info("the job %s", report.state.value)
            return


@contextlib.contextmanager
def _guard_step(what: str) -> Iterator[None]:
    """Run one step of the shutdown; log its failure, so that the other steps still run."""
    try:
        yield
    except (TonyError, OSError) as error:  # a timeout is an OSError as well
        log.error("%s failed: %s: %s", what, type(error).__name__, error)
    except Exception:
        log.exception("%s failed", what)


def _load(folder: JobFolder) -> PreparedJob:
    """Load the job with its secrets.

    Raises:
        PlatformError: it does not exist, or is not valid.
    """
    try:
        record = from_plain(JobRecord, json.loads(folder.secret_job.read_text("utf-8")), ignore_unknown=True)
    except (OSError, ValueError) as error:
        raise PlatformError(f"{folder.secret_job} cannot be read as a job: {error}") from error
    return PreparedJob(home=folder.home, folder=folder, record=record)


def _choose_address(job: PreparedJob, allocator: ContainerAllocator) -> str:
    """Return where to listen: a Unix socket on a single machine, TLS if messages can leave it or if required."""
    if allocator.capabilities.same_host and job.record.spec.tls is TlsMode.AUTO:
        return str(UnixAddress(path=str(job.folder.am_socket)))
    if allocator.capabilities.same_host:
        return str(TlsAddress(host="127.0.0.1", port=0))
    return str(TlsAddress(host=allocator.listen_host, port=allocator.listen_port))


def _to_host(address: str, allocator: ContainerAllocator) -> str:
    """Return the address to connect to, which may be on another host than the one to listen on."""
    listens = parse(address)
    if allocator.capabilities.same_host or isinstance(listens, UnixAddress):
        return address
    return str(TlsAddress(host=allocator.host, port=listens.port))


async def _start_web_listener(
    connections: contextlib.AsyncExitStack, allocator: ContainerAllocator, master: Master
) -> str:
    """Start the web listener where the scheduler links to one; return its address, empty if there is none."""
    proxy = allocator.page_proxy()
    if proxy is None:
        return ""
    from tony.am.page_process import PageProcess  # late: only some clusters link to a page
    from tony.am.web_listener import WebListener

    process = None
    if proxy.packages:
        record = master.job.record
        process = PageProcess(master.job.folder.path, record.user, proxy)
    listener = WebListener(master.build_report, proxy.peers, proxy.proxy, process, proxy.plain)
    connections.push_async_callback(listener.close)
    try:
        return str(Address(host=allocator.host, port=await listener.listen(allocator.listen_host)))
    except InfraError as error:
        log.warning("cannot serve the status page: %s", error)
        return ""


def _announce(folder: JobFolder, attempt: int, address: str, dialed_by: str) -> None:
    """Write the AM's address and process id to the job's folder."""
    facts = {"pid": os.getpid(), "host": socket.gethostname(), "attempt": attempt, "address": address}
    if dialed_by:
        facts["dialed_by"] = dialed_by
    supervisor = liveness_lock.lock_owner(folder.am_lock)
    if supervisor is not None and supervisor != os.getpid():
        facts["supervisor"] = supervisor
    write_json(folder.am, facts)


def _hear_signals(master: Master, allocator: ContainerAllocator) -> None:
    """Have the scheduler say what SIGTERM and SIGINT mean for the job."""
    loop = asyncio.get_running_loop()

    async def decide(number: signal.Signals) -> None:
        try:
            effect = await allocator.on_signal(number)
        except Exception:  # what is not known is left to the next AM attempt
            log.exception("the scheduler cannot tell what %s means", number.name)
            effect = SignalEffect.LEAVE_JOB
        if effect is SignalEffect.END_JOB:
            master.feed(KillRequested(actor=Actor(number.name, ActorKind.SIGNAL)))
        else:
            log.warning("%s: the job is left for the next AM attempt", number.name)

    def hear(number: signal.Signals) -> None:
        master.start_task(decide(number))

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, hear, number)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
