"""The application master from its start to its end, also when one of the things around it fails."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path

import pytest

from tests.am.in_process_job import CEILING
from tests.core.specs import FAILED, OK, workers
from tests.full_disk import full_disk
from tests.support.fake_executor import Behaviour, FakeExecutor, run_until_released
from tests.support.waiting import wait_until
from tony import clock
from tony.am import main as am
from tony.client.credential_creation import make_credentials
from tony.core import events as ev
from tony.errors import SchedulerError, TimeLimitExceededError
from tony.history.event_log import read, segments
from tony.history.job_record import read_summary
from tony.model.codec import to_plain
from tony.model.failure import FailureClass
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec
from tony.model.program_exit import ExitStatus
from tony.model.state_directory import JobFolder
from tony.model.states import ENDED_TASK_STATES, JobState
from tony.protocol.client_messages import Report, Watch
from tony.protocol.hello import PeerKind
from tony.protocol.launch import AmCredentials, TaskPart
from tony.rpc.am_address import TlsAddress, parse
from tony.rpc.client_connection import connect
from tony.schedulers.allocator_interface import NOT_LISTENING, AmAddresses, Sink
from tony.schedulers.client_interface import PreparedJob
from tony.testing.fake_scheduler import FakeAllocator
from tony.testing.sample_jobs import build_prepared_job


class Cluster:
    """A container allocator whose containers hold fake executors.

    Args:
        make: makes the source; told what to call at a launch.
    """

    def __init__(self, behaviour: Behaviour, make: Callable[..., FakeAllocator] = FakeAllocator) -> None:
        self.executors: list[FakeExecutor] = []
        self._behaviour = behaviour
        self._tasks: set[asyncio.Task[None]] = set()
        self.source = make(launched=self._launched)

    def _launched(self, container: str, part: TaskPart, credentials: AmCredentials) -> None:
        executor = FakeExecutor(part, credentials, self._behaviour)
        self.executors.append(executor)
        task = asyncio.get_running_loop().create_task(run_until_released(executor))
        task.add_done_callback(lambda _: self.source.end(container, "its executor ended"))
        self._tasks.add(task)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def submitted(folder: Path, spec: JobSpec) -> PreparedJob:
    """A job as a client leaves it to its application master."""
    job = build_prepared_job(folder, spec, job_id="test-1")
    job = replace(job, record=replace(job.record, submitted=clock.wall(), framework_module=_NONE))
    job.folder.secret_job.write_text(json.dumps(to_plain(job.record)))
    job.folder.credentials.write_text(json.dumps(to_plain(make_credentials(tls=False))))
    return job


_NONE = "tony.frameworks.no_framework:NoFramework"
Meanwhile = Callable[[JobFolder, Cluster], Coroutine[None, None, None]]


def attempted(
    folder: Path,
    spec: JobSpec,
    cluster: Callable[[], Cluster] = lambda: Cluster(lambda part, message: OK),
    meanwhile: Meanwhile | None = None,
) -> JobReport:
    """Runs the application master in this process and answers the summary it left, and nothing else."""
    job = submitted(folder, spec)
    asyncio.run(run(job.folder, cluster, meanwhile))
    return left(job.folder)


async def run(folder: JobFolder, cluster: Callable[[], Cluster], meanwhile: Meanwhile | None) -> None:
    """Runs the application master; `meanwhile` runs beside it."""
    around = cluster()
    try:
        async with asyncio.timeout(CEILING), asyncio.TaskGroup() as group:
            if meanwhile:
                group.create_task(meanwhile(folder, around))
            await am.run_attempt(folder, lambda _: around.source)
    finally:
        await around.close()


def left(folder: JobFolder) -> JobReport:
    """The summary of a job that has ended, with what must hold of every end."""
    report = read_summary(folder)
    assert report is not None
    assert report.state.ended
    assert not folder.secret.exists()
    assert not folder.am.exists()
    assert not folder.am_socket.exists()
    assert {t.state for t in report.tasks} <= ENDED_TASK_STATES
    assert {(t.pid, t.executor_pid) for t in report.tasks} == {(None, None)}
    assert report.submitted is not None
    assert report.ended is not None
    assert 0 <= report.ended - report.submitted < CEILING
    return report


def verdict(report: JobReport) -> tuple[JobState, int | None, str | None]:
    return report.state, report.exit_code, report.failure.cause if report.failure else None


def test_a_job_from_start_to_end(tmp_path: Path) -> None:
    """Only the record is left: summary and events, no secrets, no address."""
    report = attempted(tmp_path, workers(2))
    assert verdict(report) == (JobState.SUCCEEDED, 0, None)
    folder = JobFolder(tmp_path / "jobs" / "test-1")
    kinds = [entry.event.kind for entry in read(segments(folder.path))]
    assert (kinds[0], kinds[-1]) == ("attempt-started", "snapshot")


def test_the_am_checks_the_limits_of_its_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site's limits are checked again where the job runs: nothing is requested, exit code 2, and all errors are
    listed."""
    site = tmp_path / "config" / "tony" / "tony.toml"
    site.parent.mkdir(parents=True)
    site.write_text('max_restarts = 0\nfinal = ["max_restarts"]\n[limits]\ntotal_instances = 2\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    clusters: list[Cluster] = []

    def cluster() -> Cluster:
        clusters.append(Cluster(lambda part, message: OK))
        return clusters[0]

    report = attempted(tmp_path / "home", workers(3, max_restarts=5), cluster)
    assert verdict(report) == (JobState.FAILED, 2, "refused")
    assert report.failure
    assert report.failure.failure_class is FailureClass.USER
    told = [report.failure.reason, *report.failure.others]
    assert len(told) == 2
    assert any("max_restarts" in text and "final" in text for text in told)
    assert any("3 tasks" in text and "allows 2" in text for text in told)
    assert clusters[0].source.log == []


class NoSource(FakeAllocator):
    """A scheduler that cannot be used."""

    async def open(self, sink: Sink, addresses: AmAddresses = NOT_LISTENING) -> None:
        raise SchedulerError("the cluster is away")


def test_a_scheduler_that_cannot_be_used(tmp_path: Path) -> None:
    report = attempted(tmp_path, workers(1), lambda: Cluster(lambda part, message: OK, NoSource))
    assert verdict(report) == (JobState.FAILED, 3, "refused")
    assert report.failure
    assert report.failure.reason == "the cluster is away"


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ((ValueError("oops"), TimeLimitExceededError("time is up")), (JobState.FAILED, 70, "bug")),
        ((TimeLimitExceededError("time is up"), ValueError("oops")), (JobState.FAILED, 1, "lifetime")),
    ],
    ids=["a bug first", "a limit first"],
)
def test_the_first_error_decides_the_outcome_and_the_end_keeps_its_order(
    tmp_path: Path, errors: tuple[Exception, Exception], expected: tuple[JobState, int, str]
) -> None:
    """Containers are released first. The summary marks the end: after the secrets, before the scheduler is told."""
    folder = JobFolder(tmp_path / "jobs" / "test-1")
    pending = list(errors)
    seen: list[tuple[str, bool, bool, bool]] = []

    def look(step: str) -> None:
        seen.append((step, folder.secret.exists(), folder.summary.exists(), folder.am_socket.exists()))

    class Failing(FakeAllocator):
        async def launch(self, container: str, task: TaskPart, credentials: AmCredentials) -> None:
            raise pending.pop(0)

        async def close(self) -> None:
            look("close")
            await super().close()

        async def finish(self, report: JobReport) -> None:
            look("finish")

    report = attempted(tmp_path, workers(2), lambda: Cluster(lambda part, message: OK, Failing))
    assert verdict(report) == expected
    assert pending == []
    assert report.failure
    assert str(errors[0]) in report.failure.reason
    assert seen == [("close", True, False, True), ("finish", False, True, False)]


class Stuck(FakeAllocator):
    """A source that never comes to its end."""

    async def close(self) -> None:
        await super().close()
        await asyncio.Event().wait()


class Broken(FakeAllocator):
    """A source that fails at its end."""

    async def close(self) -> None:
        await super().close()
        raise OSError("the disk is gone")


class Slow(FakeAllocator):
    """One whose scheduler is away when it is to be told."""

    told = False

    async def finish(self, report: JobReport) -> None:
        await asyncio.sleep(3 * am.CLOSE_TIMEOUT_SECONDS)
        Slow.told = True


def test_the_result_is_reported_once_the_scheduler_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes: without it the scheduler would take the job for lost."""
    monkeypatch.setattr(am, "CLOSE_TIMEOUT_SECONDS", 0.1)
    attempted(tmp_path, workers(1), lambda: Cluster(lambda part, message: OK, Slow))
    assert Slow.told


@pytest.mark.parametrize("make", [Stuck, Broken])
def test_an_end_that_fails_does_not_hide_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: type[FakeAllocator]
) -> None:
    """Containers that cannot be given back keep neither the summary nor those who wait for it."""
    monkeypatch.setattr(am, "CLOSE_TIMEOUT_SECONDS", 0.1)
    report = attempted(tmp_path, workers(1), lambda: Cluster(lambda part, message: OK, make))
    assert verdict(report) == (JobState.SUCCEEDED, 0, None)


def test_a_full_disk_ends_the_job(tmp_path: Path) -> None:
    """What cannot be recorded must not happen: the job ends as infrastructure, and what fits is written."""
    always = replace(workers(1), max_restarts=1000, backoff=0.0)
    with full_disk(20_000):
        report = attempted(tmp_path, always, lambda: Cluster(lambda part, message: FAILED))
    assert verdict(report) == (JobState.FAILED, 3, "storage")
    assert report.failure
    assert "File too large" in report.failure.reason
    folder = JobFolder(tmp_path / "jobs" / "test-1")
    assert folder.events(1).stat().st_size <= 20_000
    assert [entry.seq for entry in read(segments(folder.path))][:3] == [1, 2, 3]


def test_followers_get_the_result_without_a_summary(tmp_path: Path) -> None:
    """The last report is sent in any case; the next reader finalizes the record."""
    last: list[Report] = []

    async def meanwhile(folder: JobFolder, cluster: Cluster) -> None:
        await wait_until(lambda: bool(cluster.executors) and cluster.executors[0].connections == 1)
        part = cluster.executors[0].part
        token = json.loads(folder.credentials.read_text())["executors"]["token"]
        connection = await connect(part.am_address, AmCredentials(token=token), PeerKind.CLIENT)
        connection.send(Watch())
        folder.summary.mkdir()
        while (message := await connection.receive()) is not None:
            assert isinstance(message, Report)
            last.append(message)
            if len(last) == 1:
                cluster.executors[0].exit(OK)
        folder.summary.rmdir()

    job = submitted(tmp_path, workers(1))
    asyncio.run(run(job.folder, lambda: Cluster(lambda part, message: None), meanwhile))
    assert (last[-1].final, last[-1].report.state, last[-1].report.exit_code) == (True, JobState.SUCCEEDED, 0)
    assert (job.folder.summary.exists(), job.folder.secret.exists()) == (False, False)


def test_sigterm_while_connecting_to_the_scheduler(tmp_path: Path) -> None:
    """SIGTERM ends the job as killed at any time, and the log begins with the attempt all the same."""
    opening: list[bool] = []

    class Slow(FakeAllocator):
        async def open(self, sink: Sink, addresses: AmAddresses = NOT_LISTENING) -> None:
            opening.append(True)
            await asyncio.Event().wait()

    async def meanwhile(folder: JobFolder, cluster: Cluster) -> None:
        await wait_until(lambda: bool(opening))
        os.kill(os.getpid(), signal.SIGTERM)

    report = attempted(tmp_path, workers(1), lambda: Cluster(lambda part, message: OK, Slow), meanwhile)
    assert verdict(report) == (JobState.KILLED, 4, "killed")
    assert report.failure
    assert report.failure.reason == "killed by signal SIGTERM"
    assert report.attempt == 1
    events = [entry.event for entry in read(segments(tmp_path / "jobs" / "test-1"))]
    assert isinstance(events[0], ev.AttemptStarted)


def test_a_scheduler_that_counts_attempts_decides_whether_the_job_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It ends every attempt by SIGTERM, also one that another follows: the job is not killed by that."""

    left = [f"{name}: the job is left for the next AM attempt" for name in ("SIGTERM", "SIGINT")]

    class Counting(FakeAllocator):
        attempt = 1

    async def meanwhile(folder: JobFolder, cluster: Cluster) -> None:
        await wait_until(lambda: bool(cluster.executors) and cluster.executors[0].connections == 1)
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
        await wait_until(lambda: all(said in caplog.messages for said in left))
        cluster.executors[0].exit(OK)

    report = attempted(tmp_path, workers(1), lambda: Cluster(lambda part, message: None, Counting), meanwhile)
    assert report.state is JobState.SUCCEEDED


def test_a_scheduler_that_needs_an_exit_code_gets_one(tmp_path: Path) -> None:
    """It may see nothing else of the end of a job."""

    class Counting(FakeAllocator):
        def exit_code(self, report: JobReport) -> int:
            return 42 if report.state is JobState.FAILED else 0

    codes = []
    for status in (OK, FAILED):
        job = submitted(tmp_path / str(status.code), workers(1))

        async def attempt(folder: JobFolder, cluster: Cluster) -> int:
            async with asyncio.timeout(CEILING):
                return await am.run_attempt(folder, lambda _: cluster.source)

        async def whole(folder: JobFolder, end: ExitStatus) -> int:
            cluster = Cluster(lambda part, message: end, Counting)
            try:
                return await attempt(folder, cluster)
            finally:
                await cluster.close()

        codes.append(asyncio.run(whole(job.folder, status)))
    assert codes == [0, 42]


@pytest.mark.parametrize("name", ["node-1", "fe80::1"])
def test_an_am_listens_at_its_schedulers_address(tmp_path: Path, name: str) -> None:
    """A forwarded connection arrives at the loopback address of the AM's machine; other clients get its host name."""
    job = submitted(tmp_path, workers(1))
    job.folder.credentials.write_text(json.dumps(to_plain(make_credentials(tls=True))))
    seen: list[str] = []

    class Forwarded(FakeAllocator):
        capabilities = replace(FakeAllocator.capabilities, same_host=False)
        host = name
        listen_host = "127.0.0.1"
        dialed_by = "forwarding"

        async def open(self, sink: Sink, addresses: AmAddresses = NOT_LISTENING) -> None:
            seen.append(addresses.am)
            seen.append(json.loads(job.folder.am.read_text())["dialed_by"])
            raise SchedulerError("seen")

    asyncio.run(am.run_attempt(job.folder, lambda _: Forwarded()))
    address = parse(seen[0])
    assert isinstance(address, TlsAddress)
    assert (address.host, address.port > 0, seen[1]) == (name, True, "forwarding")


def test_an_adapter_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    """A plug-in that is broken is said to be that."""
    job = submitted(tmp_path, workers(1))
    record = replace(job.record, framework_module="nowhere:Nothing")
    job.folder.secret_job.write_text(json.dumps(to_plain(record)))
    source = FakeAllocator()
    asyncio.run(am.run_attempt(job.folder, lambda _: source))
    report = left(job.folder)
    assert verdict(report) == (JobState.FAILED, 70, "bug")
    assert report.failure
    assert report.failure.reason.startswith("the framework adapter nowhere:Nothing cannot be loaded: ModuleNotFound")


def run_main(folder: JobFolder) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "import sys; from tony.am.main import main; sys.exit(main())", str(folder.path)],
        capture_output=True,
        text=True,
        timeout=CEILING,
        check=False,
    )


def test_a_job_that_has_ended_is_not_run_again(tmp_path: Path) -> None:
    """Its job directory is closed and contains the outcome."""
    job = submitted(tmp_path, workers(1))
    job.folder.summary.write_text("{}")
    done = run_main(job.folder)
    assert done.returncode == 70
    assert "test-1 has ended already" in done.stderr


def test_without_a_job_the_am_reports_an_error(tmp_path: Path) -> None:
    """A folder without its secrets is no job that could be run."""
    job = submitted(tmp_path, workers(1))
    job.folder.secret_job.unlink()
    done = run_main(job.folder)
    assert done.returncode == 70
    assert "cannot be read as a job" in done.stderr
    assert "Traceback" not in done.stderr
