"""The application master's half of the local scheduler: containers are executors on this machine, within one claim.

Stages of a container: granted, starting, running, ending. Its end is reported when its executor has exited, everything
that the executor had started is dead, and its control group has been removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import replace

from tony.core.events import ContainerEnded, Event, Granted, Queued, Unsatisfiable
from tony.errors import ConfigError, SchedulerError, TonyError
from tony.isolated_interpreter import command
from tony.linux import container_cgroup, os_errors, process
from tony.linux.resource_limits import allow_open_files
from tony.linux.thread_pools import to_thread
from tony.protocol.launch import AmCredentials, TaskPart
from tony.schedulers.allocator_interface import NOT_LISTENING, AmAddresses, ContainerAllocator, KnownContainer, Sink
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.local import feasibility
from tony.schedulers.local.capabilities import CAPABILITIES
from tony.schedulers.local.claims.ledger import LedgerBusyError, open_ledger
from tony.schedulers.local.claims.machine_capacity import Machine, measure
from tony.schedulers.local.claims.peak_demand import list_acceptable_sizes
from tony.schedulers.local.claims.resource_claim import ResourceClaim
from tony.schedulers.local.claims.role_allocation import RoleAllocation
from tony.schedulers.local.containers.cleanup import RETRY_INTERVAL_SECONDS, OrphanCleanup
from tony.schedulers.local.containers.container_recovery import LocalContainerRecovery, read_launch_record
from tony.schedulers.local.containers.fork_server import EXECUTOR_MODULE, ForkServer
from tony.schedulers.local.containers.local_container import ContainerStage, LocalContainer
from tony.schedulers.local.containers.task_launcher import HOST, TaskLauncher
from tony.schedulers.local.feasibility import find_unsatisfiable_requests
from tony.schedulers.local.settings import read_settings
from tony.schedulers.local.supervision import supervisor
from tony.storage.environments.localization import Interpreter

#: Seconds to wait at the job's end for killed executors to exit.
_EXECUTOR_EXIT_SECONDS = 10.0
#: Executors started at one time; each needs some open files for that moment.
_MAX_CONCURRENT_STARTS = 2
#: Seconds between attempts to enlarge the claim of a job that has less than it could use.
_GROW_INTERVAL_SECONDS = 0.5
#: Open files for connected clients, should the limit be low.
_CLIENT_FILES = 100

_log = logging.getLogger(__name__)


class LocalAllocator(ContainerAllocator):
    """Containers on this machine.

    Args:
        executor_command: argv of another executor, for fault injection.
        adopt_orphans: become the subreaper of all descendants, and kill orphans with their executor. Only for a process
            that is an application master and nothing else.
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
        self._command = list(executor_command or command(EXECUTOR_MODULE))
        self._adopt_orphans = adopt_orphans
        self._supervisor = supervisor.present() if adopt_orphans else None
        self._sink: Sink | None = None
        self._claim: ResourceClaim | None = None
        self._machine: Machine | None = None
        self._server = ForkServer()
        self._launcher = TaskLauncher(job, self._server, self._command)
        self._recovery = LocalContainerRecovery(job, self._server, self._on_executor_ended)
        self._orphan_cleanup = OrphanCleanup(
            job.folder, adopts_orphans=adopt_orphans, supervision=self._supervisor, executors=self._executor_pids
        )
        self._starting = asyncio.Semaphore(_MAX_CONCURRENT_STARTS)
        self._allocation = RoleAllocation(self._spec)
        self._admitted = self._recovered = self._growing = False
        self._unsatisfiable_reason = ""
        self._containers: dict[str, LocalContainer] = {}
        self._number = 0
        self._queued = ""
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()

    # --- the claim ------------------------------------------------------------------------------------------------

    async def open(self, sink: Sink, addresses: AmAddresses = NOT_LISTENING) -> None:
        if self._sink:
            return
        self._sink = sink
        if self._adopt_orphans:
            process.set_child_subreaper()
        allow_open_files(feasibility.open_files(self._spec) + _CLIENT_FILES)
        try:
            self._server.open()  # early, while this process has a single thread
        except OSError as error:
            raise SchedulerError(
                f"cannot start the executors' fork server: {os_errors.describe_os_error(error)}"
            ) from error
        self._recovered = not self._recovery.has_predecessors
        ledger, notice = open_ledger(self._settings, self._job.home)
        if notice:
            _log.warning(notice)
        sizes = list_acceptable_sizes(self._spec)
        machine = self._machine = await to_thread(measure, self._settings, with_gpus=sizes[0].gpus > 0)
        supervision = self._supervisor
        self._claim = ResourceClaim(
            lambda: open_ledger(self._settings, self._job.home)[0],
            ledger,
            sizes,
            machine,
            job=self._job.record.job_id,
            job_name=self._spec.name,
            inherited=supervision.claim if supervision else None,
            pass_on=supervision.pass_on if supervision else lambda claim: None,
        )
        if not self._claim.is_granted:
            self._unsatisfiable_reason = " ".join(
                problem.message for problem in find_unsatisfiable_requests(self._spec, machine)
            )
        if not self._unsatisfiable_reason:
            self._create_task(self._acquire_claim(self._claim))

    async def _acquire_claim(self, resource_claim: ResourceClaim) -> None:
        claim = await resource_claim.acquire(self._report_queued)
        self._allocation.enlarge(claim.memory, claim.devices or ())
        self._admitted = True
        self._report_queued("")
        self._grant()
        await resource_claim.keep_alive()

    # --- recovery of earlier AM attempts ----------------------------------------------------------------------------

    async def recover(self, known: Sequence[KnownContainer]) -> Sequence[str]:
        if not self._recovery.has_predecessors:
            return ()
        self._number = max(self._number, await to_thread(self._recovery.find_highest_number))
        await self._orphan_cleanup.end_helpers()
        noted = read_launch_record(self._job.folder.remains)
        new = [container for container in known if container.id not in self._containers]
        for held in self._recovery.reattach(new, noted, self._orphan_cleanup.supervisor):
            self._containers[held.id] = held
            self._allocation.add_recovered(held.role, held.devices, held.resources.memory)
        adopted = [container.id for container in known if container.task and container.id in self._containers]
        if not await self._orphan_cleanup.end_others(noted, kept=list(self._containers)):
            _log.warning("some processes of an earlier AM attempt could not be killed")
        _log.info("recovered %d of %d containers", len(adopted), len(known))
        self._recovered = True
        self._grant()
        return adopted

    # --- demand and grants ----------------------------------------------------------------------------------------

    def set_memory(self, role: str, memory: int) -> None:
        roles = self._spec.effective_roles
        larger = replace(roles[role], resources=replace(roles[role].resources, memory=memory))
        self._spec = replace(self._spec, roles={**roles, role: larger})
        self._allocation.set_memory(role, memory)
        if self._claim:
            self._claim.set_needs(list_acceptable_sizes(self._spec))
        if self._machine and (problems := find_unsatisfiable_requests(self._spec, self._machine)):
            self._emit(Unsatisfiable(role=role, reason=" ".join(problem.message for problem in problems)))

    def set_demand(self, role: str, total: int) -> None:
        reason = (total and self._unsatisfiable_reason) or self._allocation.explain_impossible(role, total)
        if reason:
            self._emit(Unsatisfiable(role=role, reason=reason))
            return
        self._allocation.set_demand(role, total)
        self._grant()

    def _grant(self) -> None:
        """Grant what fits and report the rest as pending. Does nothing until recovery is done."""
        if not (self._admitted and self._recovered) or self._sink is None:
            return
        for role, devices in self._allocation.allocate():
            self._number += 1
            resources = self._spec.effective_roles[role].resources
            container = LocalContainer(id=f"c-{self._number}", role=role, resources=resources, devices=devices)
            self._containers[container.id] = container
            self._emit(Granted(container=container.id, role=role, host=HOST, memory=resources.memory))
        grows = self._claim is not None and self._claim.can_grow
        pending_reason = self._allocation.find_pending_reason(grows=grows)
        self._report_queued(pending_reason)
        if pending_reason and not self._growing and self._claim and grows:
            self._growing = True
            self._create_task(self._grow(self._claim))

    async def _grow(self, resource_claim: ResourceClaim) -> None:
        """Enlarge the claim of a job that has less than it could use, as soon as that delays no other job."""
        try:
            while self._allocation.find_pending_reason() and resource_claim.can_grow:
                with contextlib.suppress(LedgerBusyError, SchedulerError, OSError):
                    before, claim = resource_claim.size, resource_claim.grow()
                    if claim:
                        self._allocation.enlarge(claim.memory - before, claim.devices or ())
                        self._grant()
                        continue
                await asyncio.sleep(_GROW_INTERVAL_SECONDS)
        finally:
            self._growing = False

    # --- starting -------------------------------------------------------------------------------------------------

    async def launch(self, container: str, task: TaskPart, credentials: AmCredentials) -> None:
        held = self._containers.get(container)
        if held is None:
            raise SchedulerError(f"cannot launch {task.id}: container {container} has already ended")
        if held.stage is not ContainerStage.GRANTED:
            return
        held.stage = ContainerStage.STARTING
        try:
            interpreter = await to_thread(self._launcher.prepare_work_dir, held, task.id)
            if held.cause or self._sink is None:
                self._finish_unstarted(held)
            else:
                async with self._starting:
                    await self._start(held, task, credentials, interpreter)
        except (TonyError, OSError) as error:
            if held.cause or self._sink is None:  # it failed because we ended it
                self._finish_unstarted(held)
                return
            container_cgroup.remove(held.groups)
            self._forget(held)
            why = os_errors.describe_os_error(error)
            raise SchedulerError(f"cannot start the executor of {task.id}: {why}") from error

    async def _start(
        self, held: LocalContainer, task: TaskPart, credentials: AmCredentials, interpreter: Interpreter
    ) -> None:
        held.executor = await self._launcher.start(
            held,
            task,
            credentials,
            interpreter,
            inherited=self._claim.descriptors if self._claim else (),
            ended=lambda how: self._on_executor_ended(held, how),
        )
        held.stage = ContainerStage.RUNNING
        if held.cause or self._sink is None:  # it was killed or released in the meantime
            held.executor.kill()
        self._launcher.record_launch(held, held.executor)

    # --- ending ---------------------------------------------------------------------------------------------------

    def release(self, container: str, timeout: float) -> None:
        held = self._containers.get(container)
        if held is None:
            return
        if held.stage is not ContainerStage.RUNNING:
            self._end(held, "released")
        elif not held.cause:
            kill_at = held.force.when() if held.force else float("inf")
            loop = asyncio.get_running_loop()
            if loop.time() + timeout < kill_at:
                if held.force:
                    held.force.cancel()
                cause = f"released, and killed because its executor did not exit within {timeout:g} s"
                held.force = loop.call_later(timeout, self._end, held, cause)

    def kill(self, container: str, reason: str) -> None:
        held = self._containers.get(container)
        if held:
            self._end(held, f"killed: {reason}")

    def _end(self, held: LocalContainer, cause: str) -> None:
        """End a container in any stage. One that is starting is only interrupted: `launch` then reports its end."""
        if held.cause or held.stage is ContainerStage.ENDING:
            return
        held.cause = cause
        if held.stage is ContainerStage.GRANTED:
            self._report_ended(held, cause)
        elif held.executor:
            held.executor.kill()
        else:
            self._create_task(self._interrupt_start(held))

    async def _interrupt_start(self, held: LocalContainer) -> None:
        """Kill the copying of a starting container's files: extracting a large environment takes minutes."""
        while held.stage is ContainerStage.STARTING:
            await self._orphan_cleanup.interrupt(held)
            await asyncio.sleep(RETRY_INTERVAL_SECONDS)

    def _on_executor_ended(self, held: LocalContainer, how: str) -> None:
        if held.force:
            held.force.cancel()
        if self._sink:
            self._create_task(self._finish(held, held.cause or how))

    def _finish_unstarted(self, held: LocalContainer) -> None:
        if self._sink:
            self._create_task(self._finish(held, held.cause))

    async def _finish(self, held: LocalContainer, cause: str) -> None:
        """Kill what is left of a container, and report its end."""
        held.stage = ContainerStage.ENDING
        while not (self._orphan_cleanup.is_nothing_left(held) or await self._orphan_cleanup.end(held)):
            _log.warning("some processes of container %s could not be killed; trying again", held.id)
            await asyncio.sleep(RETRY_INTERVAL_SECONDS)
        self._report_ended(held, cause)

    def _report_ended(self, held: LocalContainer, cause: str) -> None:
        self._emit(ContainerEnded(container=held.id, cause=cause))
        self._forget(held)

    def _executor_pids(self) -> set[int]:
        return {container.executor.pid for container in self._containers.values() if container.executor}

    def _forget(self, held: LocalContainer) -> None:
        """Return the container's share of the claim, so that it can be granted again."""
        del self._containers[held.id]
        self._allocation.release(held.role, held.devices, held.resources.memory)
        self._grant()

    async def close(self) -> None:
        if self._sink is None:
            if not self._closed:  # never opened, but earlier AM attempts may have been
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
            async with asyncio.timeout(_EXECUTOR_EXIT_SECONDS):
                for executor in living:
                    await executor.wait_removed()
        await self._server.close()
        await self._orphan_cleanup.end_all()
        self._containers.clear()
        if self._claim:
            self._claim.close()

    async def _close_unopened(self) -> None:
        if self._job.folder.remains.exists():
            await self._orphan_cleanup.end_all()
        claim = self._supervisor.claim if self._supervisor else None
        if claim is not None:
            ledger, _ = open_ledger(self._settings, self._job.home)
            held = ledger.find_inherited_claim(claim, self._job.folder.job_id)
            if held:
                held.withdraw()
            ledger.close()

    # --- events -----------------------------------------------------------------------------------------------------

    def _report_queued(self, reason: str) -> None:
        if reason != self._queued:
            self._queued = reason
            self._emit(Queued(reason=reason))

    def _emit(self, event: Event) -> None:
        """Call the sink on the next loop iteration: never from inside a call of its own."""
        asyncio.get_running_loop().call_soon(self._deliver, event)

    def _deliver(self, event: Event) -> None:
        if self._sink:
            self._sink(event)

    def _create_task(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            _log.error("bug: a background task of the local scheduler failed", exc_info=task.exception())
