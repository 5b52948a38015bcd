"""A whole application master in this process: real machine, log, server and wire; fake scheduler and executors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tests.support.fake_executor import OK, Behaviour, FakeExecutor, run_until_released
from tony.am.master import JobFinishedError, Master
from tony.am.recovery import recover_state
from tony.client.credential_creation import make_credentials
from tony.clock import JobClock
from tony.core.actions import Finish
from tony.core.events import AttemptStarted
from tony.errors import AttemptSupersededError
from tony.frameworks import registry
from tony.history.event_log import FORMAT, VERSION, Header, LogEntry, LogWriter, read, segments, settings_digest
from tony.history.replay import Replay, replay
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec
from tony.protocol.launch import AmCredentials, TaskPart
from tony.rpc.server import RpcServer
from tony.schedulers.allocator_interface import AmAddresses, Journal
from tony.testing.container_faults import Fault
from tony.testing.fake_scheduler import FakeAllocator
from tony.testing.sample_jobs import build_prepared_job

T = TypeVar("T")

#: Seconds; far more than anything here takes on a loaded machine.
CEILING = 60.0


class FakeJournal(Journal):
    """A durable store that confirms bytes when the test says so.

    Attributes:
        wanted: how many bytes were written; urgent: how many of these block a caller.
        taken_over: set once a later AM attempt has the log.
    """

    def __init__(self) -> None:
        self.wanted = self.urgent = 0
        self.safe: Callable[[int], None] = lambda size: None
        self.taken_over = asyncio.Event()

    def open(self, segment: Path, safe: Callable[[int], None]) -> FakeJournal:
        """`ContainerAllocator.journal`."""
        self.safe = safe
        return self

    def note_written(self, size: int, *, urgent: bool) -> None:
        self.wanted = size
        if urgent:
            self.urgent = size

    async def watch(self) -> None:
        await self.taken_over.wait()
        raise AttemptSupersededError("a later AM attempt has taken over the event log")


class InProcessJob:
    """One job with a fake scheduler and fake executors.

    Attributes:
        executors: container -> executor.
        listens: where executors say that they can be called.
        address: where the application master listens; empty until it does.
        sees_ends: whether the scheduler notices by itself that an executor has ended.
    """

    def __init__(
        self,
        folder: Path,
        spec: JobSpec,
        behaviour: Behaviour,
        faults: tuple[Fault, ...],
        tls: bool,
        journal: FakeJournal | None,
    ) -> None:
        self.executors: dict[str, FakeExecutor] = {}
        self.sees_ends = True
        self.listens = ""
        self.deaths = 0
        self._again = asyncio.Event()
        self.job = build_prepared_job(folder, spec, job_id="test-1")
        self.spec = spec
        self._behaviour = behaviour
        self._tasks: set[asyncio.Task[None]] = set()
        self.credentials = make_credentials(tls=tls)
        self.source = FakeAllocator(faults=faults, launched=self._launched)
        if journal:
            self.source.journal = journal.open  # type: ignore[method-assign]
        self.attempt = 0
        self.tls = tls
        self._begin()

    def _begin(self) -> None:
        """Another application master, the first or a later one."""
        self.attempt += 1
        self.address = ""
        digest = settings_digest(self.spec)
        header = Header(format=FORMAT, version=VERSION, job="test-1", attempt=self.attempt, settings=digest)
        legacy = recover_state(self.job.folder, self.job.record)
        self.writer = LogWriter(self.job.folder.events(self.attempt), header, legacy.next_seq)
        self._group = asyncio.TaskGroup()
        self._started = AttemptStarted(attempt=self.attempt, wall=1000.0, settings=digest, pid=1, host="h")
        self.master = Master(
            self.job,
            legacy.app,
            self.credentials,
            registry.load(registry.home_of(self.spec.framework)),
            self.source,
            self.writer,
            legacy.clock if self.attempt > 1 else JobClock(0.0),
            self.attempt,
            self._group,
        )
        self.server = RpcServer(self.credentials.am, self.master)

    async def die(self) -> None:
        """The application master is killed, and the next one begins."""
        self.deaths += 1
        self._life.cancel()
        await asyncio.gather(self._life, return_exceptions=True)
        await self.server.close()
        self.writer.close()
        self.source = self.source.successor()
        self._begin()
        self._again.set()

    def _launched(self, container: str, part: TaskPart, credentials: AmCredentials) -> None:
        executor = FakeExecutor(part, credentials, self._behaviour)
        executor.listens = self.listens
        self.executors[container] = executor
        task = asyncio.get_running_loop().create_task(run_until_released(executor))
        task.add_done_callback(lambda _: self._gone(container))
        self._tasks.add(task)

    def _gone(self, container: str) -> None:
        if self.sees_ends:
            self.source.end(container, "its executor ended")

    async def run(self) -> Finish:
        """Runs the job to its end, over all deaths of its application master."""
        try:
            while True:
                self._again.clear()
                self._life = asyncio.ensure_future(self._live())
                try:
                    return await asyncio.wait_for(asyncio.shield(self._life), CEILING)
                except asyncio.CancelledError:
                    if not self.deaths:
                        raise
                    self.deaths -= 1
                    await self._again.wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.server.close()
            self.writer.close()

    async def _live(self) -> Finish:
        address = "tls:127.0.0.1:0" if self.tls else f"unix:{self.job.folder.am_socket}"
        try:
            async with self._group:
                self.address = await self.server.listen(address)
                self.master.start(self._started, AmAddresses(am=self.address))
        except ExceptionGroup as errors:
            first = errors.exceptions[0]
            if isinstance(first, JobFinishedError):
                return first.finish
            raise first from None
        raise AssertionError("the attempt ended without an outcome")

    def report(self) -> JobReport:
        return self.master.build_report()

    def entries(self) -> list[LogEntry]:
        return list(read(segments(self.job.folder.path)))

    def replayed(self) -> Replay:
        """What a fresh machine makes of the log."""
        return replay("test-1", self.spec, self.entries())


def succeed(part: TaskPart, message: object) -> None:
    """A program that runs until it is stopped."""


def play(
    folder: Path,
    spec: JobSpec,
    behaviour: Behaviour = lambda part, message: OK,
    *,
    faults: tuple[Fault, ...] = (),
    tls: bool = False,
    meanwhile: Callable[[InProcessJob], Awaitable[None]] | None = None,
    journal: FakeJournal | None = None,
    prepare: Callable[[InProcessJob], None] = lambda job: None,
) -> tuple[InProcessJob, Finish]:
    """Runs a job; `meanwhile` runs beside it."""

    async def run() -> tuple[InProcessJob, Finish]:
        job = InProcessJob(folder, replace(spec, backoff=0.01), behaviour, faults, tls, journal)
        prepare(job)
        beside = asyncio.ensure_future(meanwhile(job)) if meanwhile else None
        finish = await job.run()
        if beside:
            await asyncio.wait_for(beside, CEILING)
        return job, finish

    return asyncio.run(run())
