"""One try: from the order to start the program to the word that it and everything it had started is over."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from resource import struct_rusage
from typing import TYPE_CHECKING

from tony import clock
from tony.dataclass import dataclass
from tony.executor.executable_bit import make_executable
from tony.executor.exit_classification import ExitObservation, ProcessExit, judge, signal_name
from tony.executor.log_serving import LogReaders
from tony.executor.memory_monitor import MemoryMonitor
from tony.executor.metrics_sampler import MetricsSampler, Outbox
from tony.executor.missing_files import explain_missing_file
from tony.executor.output_capture import Output
from tony.executor.output_exports import Exports
from tony.executor.port_reservation import TaskPorts
from tony.executor.process_tree import ProcessTree
from tony.executor.program_environment import (
    MARKER,
    LaunchFailed,
    command_line,
    environments,
    find_task_secrets,
    load_framework,
    summaries_folder,
    view,
)
from tony.executor.progress_listener import ProgressListener, Trusted
from tony.executor.python_hooks import variables
from tony.executor.reaper import Reaper
from tony.executor.spawn import spawn
from tony.executor.writer_thread import WriterThread
from tony.frameworks.base import TaskView
from tony.linux import process, resource_limits
from tony.linux.process import has_marker, own_peak
from tony.linux.process_usage import ProcessUsage
from tony.model.exit_status import ExitReason, ExitStatus
from tony.model.ids import TaskId, log_file_name
from tony.model.masking import SecretMask
from tony.protocol.launch import ContainerPart, LaunchContext, TaskPart
from tony.protocol.messages import StartProgram

if TYPE_CHECKING:
    from tony.executor.gpu_metrics import Devices
    from tony.executor.hadoop_classpath import HadoopClasspath
    from tony.executor.rank_output import RankOutput

log = logging.getLogger(__name__)

#: Seconds to wait for the rest of the output once nobody is left to write any.
_DRAIN = 5.0
#: Seconds that a disk may take for what is unwritten before a program is started.
_DISK = 10.0
#: Seconds between looks at who is left while a program is being stopped; the kernel tells of most ends at once.
_LOOK = 0.1
#: Seconds for helpers of a program that has ended, such as those of `multiprocessing`, to notice and end as well.
_MOMENT = 0.25
#: Characters; a command or a plug-in's error may be of any length.
_LONGEST_MESSAGE = 2000
#: The kernel's unit of `ru_maxrss`, in bytes.
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What a try finds when it begins; the same for all tries of an executor."""

    context: LaunchContext
    environment: Mapping[str, str]
    family: ProcessTree
    ports: TaskPorts
    reaper: Reaper
    pen: WriterThread
    readers: LogReaders
    point_out: Callable[[Sequence[int]], None]
    outbox: Outbox
    sample_interval: Callable[[], float]
    mask: SecretMask
    step_interval: Callable[[], float]
    classpath: HadoopClasspath | None = None


@dataclass(slots=True)
class _Stop:
    """An order to end: from outside, or because one of several processes failed."""

    reason: str
    deadline: float
    grace: float
    ours: bool


class ProgramRun:
    """One try of the program. `run` once; `stop` at any time.

    Attributes:
        ended: when it was over (`tony.clock.monotonic`); meaningful after `run`.
        exports: what it hands on, after `run`; None for that of which it printed nothing.
    """

    def __init__(
        self,
        around: RunContext,
        command: StartProgram,
        started: Callable[[int], None],
        first_output: Callable[[], None],
    ) -> None:
        """Starts nothing yet.

        Args:
            started: is called with the pid of the first process once all run.
            first_output: is called when the program first prints.
        """
        self._around = around
        self._command = command
        self._started = started
        self._first_output = first_output
        self._family = around.family
        self._meter = MemoryMonitor(around.context.task.memory, around.family, self._saw)
        self._progress: ProgressListener | None = None
        self._launched = 0.0
        self._output: Output | None = None
        self._ranks: RankOutput | None = None
        wanted = around.context.task.exports
        self._exports = Exports(wanted) if wanted else None
        self._mask = around.mask
        self._pids: list[int] = []
        self._ends: list[ProcessExit] = []
        self._stop: _Stop | None = None
        self._forced = False
        self._news = asyncio.Event()
        self._cpu = 0.0
        self._largest = 0
        self.ended = 0.0
        self.exports: dict[str, str | None] = {}

    # --- while it runs --------------------------------------------------------------------------------------------

    @property
    def memory(self) -> int | None:
        """Bytes that the program uses now; None if it does not run or was not measured."""
        return self._meter.usage() if self._pids else None

    @property
    def runs(self) -> bool:
        """Whether its program has been started, and has not ended."""
        return bool(self._pids) and not self._over()

    def file_name(self, kind: str) -> str:
        """Of its file of one kind among the logs: `worker-0.s1.t1.<kind>`."""
        task = self._around.context.task
        return log_file_name(TaskId(task.role, task.index), self._command.session, self._command.try_, kind)

    @property
    def output(self) -> Output | None:
        """What it prints; None before it runs."""
        return self._output

    @property
    def mask(self) -> SecretMask:
        """Of the secrets that its program knows."""
        return self._mask

    def stop(self, grace: float, reason: str) -> None:
        """SIGTERM to everyone, `grace` seconds, SIGKILL. A repeated stop can only shorten the grace."""
        if self._over():
            return  # it has ended by itself before we said anything
        deadline = clock.monotonic() + grace
        if self._stop is None or self._stop.ours:
            self._stop = _Stop(reason, deadline, grace, ours=False)
            self._family.signal(signal.SIGTERM)
        elif deadline < self._stop.deadline:
            self._stop = _Stop(self._stop.reason, deadline, grace, ours=False)
        self._news.set()

    async def run(self) -> ExitStatus:
        """Starts it, waits until it and everything it started is over, and says how."""
        began = clock.monotonic()
        try:
            return await self._run(began)
        except LaunchFailed as error:
            message = self._mask.hide_text(str(error))
            log.error("the program was not started: %s", message)
            await self._family.end()
            self.ended = clock.monotonic()
            reason = ExitReason.REFUSED if resource_limits.explain(error) else ExitReason.LAUNCH_FAILED
            return ExitStatus(reason=reason, message=message[:_LONGEST_MESSAGE])
        finally:
            if self._ranks:
                self._ranks.close()
            if self._output:
                self._output.close()
            if self._progress:
                self._progress.close()

    async def _run(self, began: float) -> ExitStatus:
        await self._around.pen.rest(_DISK)
        classpath = await self._known_classpath()
        if self._stop is not None:
            self.ended = began
            return ExitStatus(reason=ExitReason.NOT_STARTED, message="told to stop before it had been started")
        taken = self._around.ports.taken()
        if taken:
            self.ended = began
            return ExitStatus(reason=ExitReason.PORT_COLLISION, message=taken)
        output = self._launch(classpath)
        self._started(self._pids[0])
        measuring = self._measure(output)
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(self._watch_memory()), group.create_task(measuring.run())]
            await self._wait_over()
            for each in watching:
                each.cancel()
        self.ended = self._ends[-1].at if len(self._ends) == len(self._pids) else clock.monotonic()
        left = await self._left_behind()
        undead = await self._family.end()
        await self._wait_reaped()
        await output.wait_ended(_DRAIN)
        await measuring.finish()
        self.exports = self._exports.values() if self._exports else {}
        return self._judge(output, left, undead, began)

    # --- start ----------------------------------------------------------------------------------------------------

    async def _known_classpath(self) -> str | None:
        """What the node's Hadoop says, unless nobody wants it, or this is stopped meanwhile."""
        if self._around.classpath is None:
            return None
        known = asyncio.ensure_future(self._around.classpath.known())
        try:
            while not known.done() and self._stop is None:
                self._news.clear()
                stopped = asyncio.ensure_future(self._news.wait())
                await asyncio.wait({known, stopped}, return_when=asyncio.FIRST_COMPLETED)
                stopped.cancel()
            return known.result() if known.done() else None
        finally:
            known.cancel()

    def _listen(self) -> ProgressListener | None:
        """What the program will tell of itself, if anybody wants to know."""
        if self._around.sample_interval() <= 0:
            return None
        try:
            container = self._around.context.container
            return ProgressListener(
                Trusted(f"{MARKER}={container.marker}", has_marker), Path(container.work_folder).parent
            )
        except OSError as error:
            log.warning(
                "no socket for what the program tells of its progress: %s", resource_limits.describe_os_error(error)
            )
            return None

    def _measure(self, output: Output) -> MetricsSampler:
        """Beside the program, which has just been started."""
        task, container = self._around.context.task, self._around.context.container
        if self._progress:
            self._progress.begin()
        measuring = MetricsSampler(
            self._command.session,
            self._command.try_,
            self._around.sample_interval,
            self._family.near,
            self._around.outbox,
            ProcessUsage(container.cgroup, self._launched),
            self._progress,
            self._around.step_interval,
        )
        summaries = summaries_folder(task, container, self._seen())
        measuring.also(task.progress_pattern, (output.out, output.err), summaries, _devices(task, container))
        return measuring

    def _launch(self, classpath: str | None) -> Output:
        context, command = self._around.context, self._command
        task, container = context.task, context.container
        self._progress = self._listen()
        argv, envs = self._prepare(classpath)
        if isinstance(task.command, str):
            make_executable(argv[-1], container.work_folder)
        name = self.file_name("")[:-1]
        folder, pen = Path(container.log_folder), self._around.pen
        try:
            readers, began = self._around.readers, self._first_output
            output = self._output = Output(folder, name, task.log_limit, pen, began, readers, self._exports, self._mask)
        except OSError as error:
            raise LaunchFailed(f"no pipes for its output: {resource_limits.describe_os_error(error)}") from error
        self._around.ports.before_start()
        self._around.reaper.adopt(self._stranger_ended)
        self._launched = clock.monotonic()
        ranks = self._ranks = self._rank_output(output, len(envs))
        for number, env in enumerate(envs):
            out, err = ranks.writing(number) if ranks else (output.out.writing, output.err.writing)
            pid = spawn(argv, env, container.work_folder, container.cgroup, out, err)
            self._pids.append(pid)
            self._around.reaper.watch(pid, partial(self._main_ended, number))
        if ranks:
            ranks.begin()
        output.begin()
        log.info("session %d, try %d: started %s", command.session, command.try_, ", ".join(map(str, self._pids)))
        return output

    def _rank_output(self, output: Output, count: int) -> RankOutput | None:
        if count == 1:
            return None
        from tony.executor.rank_output import RankOutput  # late: most tasks have one process

        try:
            return RankOutput(output, count)
        except OSError as error:
            log.warning("the output of its processes is not labelled: %s", resource_limits.describe_os_error(error))
            return None

    def _prepare(self, classpath: str | None) -> tuple[list[str], Sequence[dict[str, str]]]:
        context, command = self._around.context, self._command
        task, container = context.task, context.container
        seen = self._seen()
        try:
            framework = load_framework(task.framework_module, task.framework_path)
            own, more = self._around.environment, command.variables
            envs = environments(
                task, container, framework, command.shared, seen, own, more, classpath, command.addresses
            )
        except LaunchFailed:
            raise
        except Exception as error:  # whatever a plug-in's code does, its task fails and says so
            log.exception("the framework's adapter failed")
            raise LaunchFailed(f"framework adapter {task.framework_module}: {type(error).__name__}: {error}") from error
        told = self._progress.path if self._progress else None
        for env in envs:
            env.update(variables(env, told, hooks=task.python_stacks))
        self._mask = SecretMask(find_task_secrets(task, *envs))
        return command_line(task, seen, command.addresses), envs

    def _seen(self) -> TaskView:
        container, ports = self._around.context.container, self._around.ports
        address = f"{container.host}:{ports.port}"
        return view(self._around.context.task, self._command, address, ports.tb_port, container.work_folder)

    # --- the end --------------------------------------------------------------------------------------------------

    def _over(self) -> bool:
        """Whether all processes of the program have ended; what they started may live."""
        return bool(self._pids) and len(self._ends) == len(self._pids)

    async def _watch_memory(self) -> None:
        await self._meter.watch()
        self._news.set()

    async def _wait_over(self) -> None:
        while not self._may_end_all():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience()):
                    await self._news.wait()
            self._news.clear()

    def _may_end_all(self) -> bool:
        if self._meter.exceeded is not None:
            return True
        if self._stop is None:
            return self._over()
        if clock.monotonic() >= self._stop.deadline:
            self._forced = not self._over() or bool(self._family.tree())
            return True
        # What the first process leaves behind has its grace, too: a shell dies of SIGTERM before what it runs.
        return self._over() and not self._family.tree()

    def _patience(self) -> float | None:
        if self._stop is None:
            return None
        left = max(0.0, self._stop.deadline - clock.monotonic())
        return min(left, _LOOK) if self._over() else left

    def _main_ended(self, number: int, status: int, usage: struct_rusage) -> None:
        code = os.waitstatus_to_exitcode(status)
        end = ProcessExit(
            process=number,
            code=code if code >= 0 else None,
            signum=-code if code < 0 else None,
            at=clock.monotonic(),
        )
        self._ends.append(end)
        self._count(usage)
        if end.failed and self._stop is None and not self._over():
            log.info("process %d of %d failed; the others are stopped", number, len(self._pids))
            grace = self._around.context.task.stop_grace
            self._stop = _Stop("", clock.monotonic() + grace, grace, ours=True)
            self._family.signal(signal.SIGTERM)
        self._news.set()

    def _stranger_ended(self, status: int, usage: struct_rusage) -> None:
        self._count(usage)
        self._news.set()

    def _count(self, usage: struct_rusage) -> None:
        self._cpu += usage.ru_utime + usage.ru_stime
        self._largest = max(self._largest, usage.ru_maxrss * _KIB)

    async def _left_behind(self) -> list[str]:
        """Names of what it left running when it ended by itself; helpers that end a moment later are not meant."""
        if self._stop is not None or self._meter.exceeded is not None:
            return []
        deadline = clock.monotonic() + _MOMENT
        while left := [] if self._family.is_over() else [p for p in self._family.near() if process.is_alive(p)]:
            if clock.monotonic() >= deadline:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_MOMENT / 10):
                    await self._news.wait()
            self._news.clear()
        return [process.name(pid) for pid in left]

    async def _wait_reaped(self) -> None:
        """The kernel's word that a process has ended comes a moment after it has died."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN):
                while not self._over():
                    self._news.clear()
                    await self._news.wait()

    def _judge(self, output: Output, left: Sequence[str], undead: Sequence[int], began: float) -> ExitStatus:
        tail = output.tail()
        ends = self._ends or [ProcessExit(process=0, code=None, signum=signal.SIGKILL, at=self.ended)]
        stop = self._stop
        stopped = stop is not None and not stop.ours
        failed = any(end.failed for end in ends)
        ports, task, container = self._around.ports, self._around.context.task, self._around.context.container
        peak = self._meter.peak(self._largest_of_its_own())
        killed = any(signal.SIGKILL in (end.signum, (end.code or 0) - 128) for end in ends)  # a shell says 128 + 9
        blamed = ports.blamed(tail) if failed else ""  # also of one that was stopped: the next session profits
        judged = judge(
            ExitObservation(
                ends=ends,
                through_shell=isinstance(task.command, str),
                stopped=stopped,
                stop_reason=stop.reason if stop else "",
                forced_after=stop.grace if stop and stopped and self._forced else None,
                memory=self._meter.describe(peak, killed=killed and not stopped),
                collision=(ports.taken() or blamed) if failed and not stopped else "",
                missing=explain_missing_file(tail, task.left_out, container.work_folder) if failed else "",
                loss=output.describe_loss(),
                left=left,
                undead=undead,
            )
        )
        signum = judged.end.signum
        return ExitStatus(
            reason=judged.reason,
            code=judged.end.code,
            signal=None if signum is None else signal_name(signum),
            message=self._mask.hide_text(judged.message),
            peak_memory=peak,
            cpu_time=round(self._cpu, 6),
            duration=_since(began, self.ended),
            first_output=None if output.first is None else _since(began, output.first),
            last_output=None if output.last is None else _since(began, output.last),
            tail=tail,
        )

    def _largest_of_its_own(self) -> int:
        """The largest process's peak, unless that may be the executor's own: a child is its copy until exec."""
        return self._largest if self._largest > own_peak() else 0

    def _saw(self, pids: Sequence[int]) -> None:
        unmarked = self._family.unmarked(pids)
        if unmarked:
            self._around.point_out(unmarked)


def _devices(task: TaskPart, container: ContainerPart) -> Devices | None:
    if not task.gpus:
        return None
    from tony.executor.gpu_metrics import Devices  # late: most tasks have none

    return Devices(container.gpu_devices)


def _since(began: float, then: float) -> float:
    return round(max(0.0, then - began), 6)
