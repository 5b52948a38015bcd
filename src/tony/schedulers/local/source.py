"""The application master's half: containers are executors on this machine, within one claim on it.

A container goes one way: granted, starting, running, ending. Its end is told when nothing of it lives any more: its
executor has ended, and everything that executor had started is dead, its control group removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Coroutine, Sequence
from enum import Enum
from itertools import count, takewhile
from pathlib import Path

from tony.bootstrap import command
from tony.core.events import ContainerEnded, Event, Granted, Queued, Unsatisfiable
from tony.dataclass import dataclass
from tony.errors import ConfigError, SchedulerError, TonyError
from tony.linux import cgroup, process, refusals
from tony.linux.limits import allow_open_files
from tony.linux.threads import beside
from tony.model.ids import TaskId
from tony.model.job import Resources
from tony.model.staged import StagedRole
from tony.protocol.launch import ContainerPart, Credentials, LaunchContext, TaskPart
from tony.schedulers.base import ContainerSource, KnownContainer, PreparedJob, Sink
from tony.schedulers.local import appetite, executors, remains, supervisor
from tony.schedulers.local.capabilities import CAPABILITIES
from tony.schedulers.local.executors import Executor
from tony.schedulers.local.fit import misfits
from tony.schedulers.local.fork_server import ForkServer
from tony.schedulers.local.grants import Grants
from tony.schedulers.local.holding import Holding
from tony.schedulers.local.ledger import LedgerBusy
from tony.schedulers.local.machine import measure
from tony.schedulers.local.peak import needs
from tony.schedulers.local.places import open_ledger
from tony.schedulers.local.settings import read_settings
from tony.storage.localize import Interpreter, localize

#: Where tasks of one machine reach each other.
HOST = "127.0.0.1"
#: `cpu.shares` of one vcore: what the kernel gives a process without any.
_SHARES_PER_VCORE = 1024
#: Seconds between tries to end what does not die.
_STUBBORN = 0.5
#: Looks for the end of what was just killed, and seconds between.
_STRAY_LOOKS, _STRAY_PAUSE = 100, 0.005
#: Seconds that killed executors may take to end at the job's end.
_LAST_WAIT = 10.0
#: Tries at the job's end to end what is left; each waits some seconds for what is stuck in the kernel.
_LAST_TRIES = 3
#: Executors that are started at one time; each takes some open files more for that moment.
_STARTING = 2
#: Seconds between looks whether there is more room for a job that has less than it could use, and wants more now.
_GROWING = 0.5
#: Open files for clients who look on, should the limit be low.
_CLIENTS = 100

_log = logging.getLogger(__name__)


class _Stage(Enum):
    GRANTED = "granted"  #: nothing runs in it
    STARTING = "starting"  #: its files are laid down
    RUNNING = "running"  #: its executor lives
    ENDING = "ending"  #: what the executor left is ended


@dataclass(slots=True, kw_only=True, eq=False)
class _Container:
    """One container until its end has been told.

    Attributes:
        adopted: an earlier application master has launched it.
        groups: folders of its control group; empty before the start, and where there can be none.
        cause: why we end it; empty as long as we do not.
        force: ends it when the patience of `release` is over.
    """

    id: str
    role: str
    resources: Resources
    devices: tuple[str, ...]
    stage: _Stage = _Stage.GRANTED
    executor: Executor | None = None
    adopted: bool = False
    groups: tuple[str, ...] = ()
    cause: str = ""
    force: asyncio.TimerHandle | None = None


class LocalSource(ContainerSource):
    """Containers on this machine.

    Args:
        executor_command: argv of the executor; by default the module that the settings name.
        adopt_orphans: become the parent of everything below that loses its own, and end it with its executor. For a
            process that is an application master and nothing else.
    """

    capabilities = CAPABILITIES

    def __init__(
        self, job: PreparedJob, *, executor_command: Sequence[str] | None = None, adopt_orphans: bool = False
    ) -> None:
        self._job = job
        self._spec = job.record.spec
        self._settings, problems = read_settings(self._spec.scheduler_settings)
        if problems:
            raise ConfigError(problems)
        self._command = list(executor_command or command(*self._settings.executor.split()))
        self._adopt_orphans = adopt_orphans
        self._supervision = supervisor.present() if adopt_orphans else None
        self._sink: Sink | None = None
        self._holding: Holding | None = None
        self._server = ForkServer()
        self._starting = asyncio.Semaphore(_STARTING)
        self._grants = Grants(self._spec)
        self._admitted = self._recovered = self._growing = False
        self._never = ""
        self._containers: dict[str, _Container] = {}
        self._number = 0
        self._queued = ""
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()

    # --- the claim ------------------------------------------------------------------------------------------------

    async def open(self, sink: Sink) -> None:
        if self._sink:
            return
        self._sink = sink
        if self._adopt_orphans:
            process.set_child_subreaper()
        allow_open_files(appetite.open_files(self._spec) + _CLIENTS)
        try:
            self._server.open()  # early, as long as this process has one thread
        except OSError as error:
            raise SchedulerError(
                f"the fork server of the executors cannot be started: {refusals.said(error)}"
            ) from error
        self._recovered = not self._has_predecessors
        ledger, notice = open_ledger(self._settings, self._job.home)
        if notice:
            _log.warning(notice)
        wishes = needs(self._spec)
        machine = await beside(measure, self._settings, with_gpus=wishes[0].gpus > 0)
        supervision = self._supervision
        self._holding = Holding(
            lambda: open_ledger(self._settings, self._job.home)[0],
            ledger,
            self._job.record,
            wishes,
            machine,
            inherited=supervision.claim if supervision else None,
            hand_on=supervision.hand_on if supervision else lambda claim: None,
        )
        if not self._holding.is_granted:
            self._never = " ".join(problem.message for problem in misfits(self._spec, machine))
        if not self._never:
            self._spawn(self._obtain(self._holding))

    async def _obtain(self, holding: Holding) -> None:
        claim = await holding.obtain(self._say_queued)
        self._grants.admit(claim.memory, claim.devices or ())
        self._admitted = True
        self._say_queued("")
        self._grant()
        await holding.keep()

    # --- what earlier application masters have left ---------------------------------------------------------------

    async def recover(self, known: Sequence[KnownContainer]) -> Sequence[str]:
        if not self._has_predecessors:
            return ()
        folder = self._job.folder
        logs = takewhile(Path.exists, map(folder.events, count(1)))
        self._number = max(self._number, await beside(remains.highest, logs))
        if self._master_of_strays:
            await beside(remains.end_helpers, self._master_of_strays)
        noted = remains.noted(folder.remains)
        launched = {held.container: held for held in noted.launched}
        adopted = [each.id for each in known if each.task and self._adopt(each, each.task, launched.get(each.id))]
        kept = list(self._containers)
        if not await beside(remains.end_job, folder.job_id, noted, kept) or not await self._end_strays():
            _log.warning("something that an earlier application master has left does not die")
        _log.info("%d of %d containers live", len(adopted), len(known))
        self._recovered = True
        self._grant()
        return adopted

    @property
    def _has_predecessors(self) -> bool:
        """Whether there were earlier application masters: ours has its event log before the source is opened."""
        return self._job.folder.events(2).exists()

    def _adopt(self, known: KnownContainer, task: TaskId, launched: remains.Launched | None) -> bool:
        """Takes a container over whose executor lives."""
        if known.id in self._containers:
            return True
        if launched is None:
            launched = self._unnoted(known)
        if launched is None:
            return False
        resources = self._spec.effective_roles[known.role].resources
        held = _Container(id=known.id, role=known.role, resources=resources, devices=launched.devices, adopted=True)
        held.groups, held.stage = launched.groups, _Stage.RUNNING
        held.executor = executors.adopt(
            launched.pid,
            launched.start,
            self._server,
            self._job.folder.executor_log(task),
            lambda how: self._executor_ended(held, how),
        )
        if held.executor is None:
            return False
        self._containers[held.id] = held
        self._grants.adopt(held.role, held.devices)
        return True

    def _unnoted(self, known: KnownContainer) -> remains.Launched | None:
        """An executor of which only the event log knows: the disk was full. What it holds is known if it has no GPU."""
        pid, supervision = known.executor_pid, self._master_of_strays
        if pid is None or not supervision or self._spec.effective_roles[known.role].resources.gpus:
            return None
        start = process.start_time(pid)
        if start is None or process.parent_of(pid) != supervision:
            return None
        return remains.Launched(container=known.id, role=known.role, pid=pid, start=start)

    @property
    def _master_of_strays(self) -> int:
        """Whose children become what earlier application masters and their executors lose; 0 for nobody's of ours."""
        return self._supervision.pid if self._supervision and self._supervision.lives else 0

    # --- demand and grants ----------------------------------------------------------------------------------------

    def set_demand(self, role: str, total: int) -> None:
        impossible = (total and self._never) or self._grants.impossible(role, total)
        if impossible:
            self._emit(Unsatisfiable(role=role, reason=impossible))
            return
        self._grants.want(role, total)
        self._grant()

    def _grant(self) -> None:
        """Grants what is wanted and has room; says what has none. Nothing before it is known what lives."""
        if not (self._admitted and self._recovered) or self._sink is None:
            return
        for role, devices in self._grants.take():
            self._number += 1
            resources = self._spec.effective_roles[role].resources
            container = _Container(id=f"c-{self._number}", role=role, resources=resources, devices=devices)
            self._containers[container.id] = container
            self._emit(Granted(container=container.id, role=role, host=HOST))
        grows = self._holding is not None and self._holding.can_grow
        shortage = self._grants.shortage(grows=grows)
        self._say_queued(shortage)
        if shortage and not self._growing and self._holding and grows:
            self._growing = True
            self._spawn(self._grow(self._holding))

    async def _grow(self, holding: Holding) -> None:
        """Makes the claim of a job that has less than it could use larger, as soon as that is in nobody's way."""
        try:
            while self._grants.shortage() and holding.can_grow:
                with contextlib.suppress(LedgerBusy, SchedulerError, OSError):
                    before, claim = holding.size, holding.grow()
                    if claim:
                        self._grants.enlarge(claim.memory - before, claim.devices or ())
                        self._grant()
                        continue
                await asyncio.sleep(_GROWING)
        finally:
            self._growing = False

    # --- starting -------------------------------------------------------------------------------------------------

    async def launch(self, container: str, task: TaskPart, credentials: Credentials) -> None:
        held = self._containers.get(container)
        if held is None:
            raise SchedulerError(f"container {container} has ended before {task.role}:{task.index} was launched in it")
        if held.stage is not _Stage.GRANTED:
            return
        held.stage = _Stage.STARTING
        try:
            interpreter = await beside(self._lay_down, held, TaskId(task.role, task.index))
            if held.cause or self._sink is None:
                self._bury_unstarted(held)
            else:
                async with self._starting:
                    await self._start(held, task, credentials, interpreter)
        except (TonyError, OSError) as error:
            if held.cause or self._sink is None:  # what failed was ended by us
                self._bury_unstarted(held)
                return
            cgroup.remove(held.groups)
            self._forget(held)
            raise SchedulerError(
                f"the executor of {task.role}:{task.index} cannot be started: {refusals.said(error)}"
            ) from error

    def _lay_down(self, held: _Container, task: TaskId) -> Interpreter:
        """Makes a task's working directory and control group. Runs in a thread: archives are unpacked."""
        folder = self._job.folder.work_of(task)
        staged = self._job.record.staged.roles.get(task.role, StagedRole())
        marks = {remains.PROGRAM_VARIABLE: remains.marker(self._job.folder.job_id, held.id)}
        interpreter = localize(staged, self._job.home.cache, folder, marks)
        held.groups = cgroup.create(
            f"{self._job.folder.job_id}-{held.id}", held.resources.memory, held.resources.vcores * _SHARES_PER_VCORE
        )
        remains.note(self._job.folder.remains, groups=held.groups)
        return interpreter

    async def _start(
        self, held: _Container, task: TaskPart, credentials: Credentials, interpreter: Interpreter
    ) -> None:
        name = TaskId(task.role, task.index)
        folder = self._job.folder
        marker = remains.marker(folder.job_id, held.id)
        part = ContainerPart(
            host=HOST,
            work_folder=str(folder.work_of(name)),
            log_folder=str(folder.logs),
            inherit_env=True,
            marker=f"{marker}{os.urandom(8).hex()}",
            python_path=interpreter.python_path,
            python_env=interpreter.python_env,
            gpu_devices=held.devices,
            cgroup=held.groups,
        )
        held.executor = await executors.start(
            self._server,
            self._command,
            LaunchContext(task=task, container=part, credentials=credentials),
            env={remains.EXECUTOR_VARIABLE: marker},
            folder=folder.path,
            log=folder.executor_log(name),
            inherited=self._holding.descriptors if self._holding else (),
            ended=lambda how: self._executor_ended(held, how),
        )
        held.stage = _Stage.RUNNING
        if held.cause or self._sink is None:  # it was to end meanwhile
            held.executor.kill()
        try:
            remains.note(
                folder.remains,
                launched=remains.Launched(
                    container=held.id,
                    role=held.role,
                    pid=held.executor.pid,
                    start=process.start_time(held.executor.pid) or 0,
                    devices=held.devices,
                    groups=held.groups,
                ),
            )
        except OSError as error:
            # It runs, and is found by what the event log says of it, unless it has devices of its own.
            _log.warning("cannot write %s: %s", folder.remains, error)

    # --- ending ---------------------------------------------------------------------------------------------------

    def release(self, container: str, patience: float) -> None:
        held = self._containers.get(container)
        if held is None:
            return
        if held.stage is not _Stage.RUNNING:
            self._end(held, "it was given back")
        elif not held.cause:
            again = held.force.when() if held.force else float("inf")
            loop = asyncio.get_running_loop()
            if loop.time() + patience < again:
                if held.force:
                    held.force.cancel()
                cause = f"it was given back, and its executor did not end within {patience:g} s"
                held.force = loop.call_later(patience, self._end, held, cause)

    def kill(self, container: str, reason: str) -> None:
        held = self._containers.get(container)
        if held:
            self._end(held, f"killed: {reason}")

    def _end(self, held: _Container, cause: str) -> None:
        """Ends a container in any stage. One that is starting is buried by `launch`, which is in the middle of it."""
        if held.cause or held.stage is _Stage.ENDING:
            return
        held.cause = cause
        if held.stage is _Stage.GRANTED:
            self._gone(held, cause)
        elif held.executor:
            held.executor.kill()
        else:
            self._spawn(self._interrupt(held))

    async def _interrupt(self, held: _Container) -> None:
        """Ends what runs while a container's files are laid down: unpacking a large environment takes minutes."""
        while held.stage is _Stage.STARTING:
            await beside(remains.end_container, self._job.folder.job_id, held.id, ())
            await asyncio.sleep(_STUBBORN)

    def _executor_ended(self, held: _Container, how: str) -> None:
        if held.force:
            held.force.cancel()
        if self._sink:
            self._spawn(self._bury(held, held.cause or how))

    def _bury_unstarted(self, held: _Container) -> None:
        if self._sink:
            self._spawn(self._bury(held, held.cause))

    async def _bury(self, held: _Container, cause: str) -> None:
        """Ends all that is left of a container, and tells its end."""
        held.stage = _Stage.ENDING
        while not (self._left_nothing(held) or await self._end_all(held)):
            _log.warning("something in container %s does not die; trying again", held.id)
            await asyncio.sleep(_STUBBORN)
        self._gone(held, cause)

    def _gone(self, held: _Container, cause: str) -> None:
        self._emit(ContainerEnded(container=held.id, cause=cause))
        self._forget(held)

    def _left_nothing(self, held: _Container) -> bool:
        """Whether that can be seen at a glance. What lays files down is a child of ours like any other: then not.

        What an executor leaves that we have not started becomes nobody's child whom we could ask.
        """
        started = held.executor is not None and not held.adopted
        return started and self._adopt_orphans and remains.nothing_left(self._executor_pids(), held.groups)

    async def _end_all(self, held: _Container) -> bool:
        dead = await beside(remains.end_container, self._job.folder.job_id, held.id, held.groups)
        return await self._end_strays() and dead

    async def _end_strays(self) -> bool:
        for _ in range(_STRAY_LOOKS):
            if not self._adopt_orphans or remains.end_strays(self._executor_pids(), self._master_of_strays):
                return True
            await asyncio.sleep(_STRAY_PAUSE)
        return False

    def _executor_pids(self) -> set[int]:
        return {container.executor.pid for container in self._containers.values() if container.executor}

    def _forget(self, held: _Container) -> None:
        """Its share of the claim is free, and may be granted again."""
        del self._containers[held.id]
        self._grants.ended(held.role, held.devices)
        self._grant()

    async def close(self) -> None:
        if self._sink is None:
            if not self._closed:  # nor opened; but earlier attempts may have been
                self._closed = True
                await self._close_unopened()
            return
        self._sink, self._closed = None, True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        living = [container.executor for container in self._containers.values() if container.executor]
        for executor in living:
            executor.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WAIT):
                for executor in living:
                    await executor.wait_gone()
        await self._server.close()
        await self._end_rest()
        self._containers.clear()
        self._job.folder.remains.unlink(missing_ok=True)
        if self._holding:
            self._holding.close()

    async def _close_unopened(self) -> None:
        if self._job.folder.remains.exists():
            await self._end_rest()
            self._job.folder.remains.unlink(missing_ok=True)
        claim = self._supervision.claim if self._supervision else None
        if claim is not None:
            ledger, _ = open_ledger(self._settings, self._job.home)
            held = ledger.taken_over(claim, self._job.folder.job_id)
            if held:
                held.withdraw()
            ledger.close()

    async def _end_rest(self) -> None:
        noted = remains.noted(self._job.folder.remains)
        for _ in range(_LAST_TRIES):
            dead = await beside(remains.end_job, self._job.folder.job_id, noted)
            if await self._end_strays() and dead:
                return
            await asyncio.sleep(_STUBBORN)
        _log.error("something of the job does not die, and is left behind")

    # --- telling --------------------------------------------------------------------------------------------------

    def _say_queued(self, reason: str) -> None:
        if reason != self._queued:
            self._queued = reason
            self._emit(Queued(reason=reason))

    def _emit(self, event: Event) -> None:
        """Tells the sink soon: never from inside a call of its own."""
        asyncio.get_running_loop().call_soon(self._tell, event)

    def _tell(self, event: Event) -> None:
        if self._sink:
            self._sink(event)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            _log.error("a bug: a task of the local scheduler failed", exc_info=task.exception())
