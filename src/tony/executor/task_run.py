"""One task attempt: from the start command until the program and everything that it started has exited."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from resource import struct_rusage

from tony import clock
from tony.diagnosis.evidence_selection import add_kernel_lines, name_tasks
from tony.executor.metrics.memory_monitor import MemoryMonitor
from tony.executor.metrics.metrics_sampler import MetricsSampler, open_devices
from tony.executor.metrics.progress_listener import ProgressListener, TrustedSenders
from tony.executor.output.output_capture import Output
from tony.executor.program import progress_folder
from tony.executor.program.exit_classification import ExitObservation, ProcessExit, classify_exit, explain_missing_file
from tony.executor.program.kernel_evidence import KernelWatch
from tony.executor.program.printed_values import Exports
from tony.executor.program.program_environment import (
    MARKER,
    LaunchFailedError,
    build_command_line,
    build_environments,
    build_task_view,
    build_variables,
    find_summaries_folder,
    find_task,
    find_task_secrets,
)
from tony.executor.program.spawn import make_executable, spawn
from tony.executor.run_context import RunContext
from tony.frameworks import registry as frameworks
from tony.frameworks.framework_interface import TaskView
from tony.linux import os_errors, process
from tony.linux.process import has_marker, read_own_peak
from tony.linux.process_usage import ProcessUsage
from tony.linux.thread_pools import to_thread
from tony.model.diagnosis import EvidenceLine
from tony.model.log_name import LogName
from tony.model.masking import SecretMask
from tony.model.program_exit import ExitReason, ExitStatus
from tony.protocol.executor_messages import StartProgram

log = logging.getLogger(__name__)

#: Seconds to wait for the rest of the output once no process is left to write any.
_DRAIN_SECONDS = 5.0
#: Seconds to wait for the disk to write pending output before a program is started.
_DISK_TIMEOUT_SECONDS = 10.0
#: Seconds between checks for remaining processes while a program is being stopped; the kernel reports most exits at
#: once.
_CHECK_SECONDS = 0.1
#: Seconds for helpers of a program that has exited, such as those of `multiprocessing`, to notice and exit too.
_HELPER_EXIT_SECONDS = 0.25
#: Seconds for the kernel's answers about a failure: a folder may be on a server that does not answer.
_KERNEL_SECONDS = 2.0
#: Characters; a command or a plug-in's error may be of any length.
_MAX_MESSAGE_CHARACTERS = 2000
#: The kernel's unit of `ru_maxrss`, in bytes.
_KIB = 1024


@dataclass(slots=True)
class _Stop:
    """A stop: requested, or because one of several processes failed (`is_internal`)."""

    reason: str
    deadline: float
    grace: float
    is_internal: bool


class ProgramRun:
    """One task attempt. Call `run` once, `stop` at any time.

    Attributes:
        ended: time of its end (`tony.clock.monotonic`); meaningful after `run`.
        exports: exported values, after `run`; None for those that were not printed.
        output: of the program; None before it is started.
        mask: for the secrets that the program knows.
    """

    def __init__(
        self,
        run_context: RunContext,
        command: StartProgram,
        started: Callable[[int], None],
        first_output: Callable[[], None],
    ) -> None:
        """Create the run; start nothing.

        Args:
            started: called with the pid of the first process once all run.
            first_output: called when the program first prints.
        """
        self._run_context = run_context
        self._command = command
        self._started = started
        self._first_output = first_output
        self._task, self._container = run_context.context.task, run_context.context.container
        self._process_tree = run_context.process_tree
        self._memory_monitor = MemoryMonitor(self._task.memory, self._process_tree, self._on_pids)
        places = (self._container.work_folder, self._container.log_folder)
        self._kernel = KernelWatch(self._container.cgroup, places, has_gpus=self._task.gpus > 0)
        self._progress: ProgressListener | None = None
        self._started_at = 0.0
        self.output: Output | None = None
        exports = self._task.role_settings.exports
        self._exports = Exports(exports) if exports else None
        self.mask = run_context.mask
        self._pids: list[int] = []
        self._ends: list[ProcessExit] = []
        self._environment: Mapping[str, str] = {}
        self._remote_kills_before = run_context.remote_programs.memory_kill_count
        self._was_killed_meanwhile = False
        self._stop: _Stop | None = None
        self._forced = False
        self._output_before_stop: float | None = None
        self._changed = asyncio.Event()
        self._cpu = 0.0
        self._largest_process = 0
        self.ended = 0.0
        self.exports: dict[str, str | None] = {}

    # --- while it runs --------------------------------------------------------------------------------------------

    @property
    def memory(self) -> int | None:
        """Return the bytes that the program uses now; None if it does not run or was not measured."""
        return self._memory_monitor.read_usage() if self._pids else None

    @property
    def is_running(self) -> bool:
        """Return True if the program has been started and has not exited."""
        return bool(self._pids) and not self._has_exited()

    def find_environment(self) -> Mapping[str, str] | None:
        """Return the environment of its first process; None if the program does not run, or is stopping."""
        return self._environment if self.is_running and self._stop is None else None

    def format_file_name(self, kind: str) -> str:
        """Return the name of a log file of this task attempt: `worker-0.s1.t1.<kind>`."""
        return LogName(self._task.role, self._task.index, self._command.session, self._command.try_, kind).file

    def stop(self, grace: float, reason: str) -> None:
        """Send SIGTERM to all processes, SIGKILL after `grace` seconds. A repeated stop can only shorten the grace."""
        if self._has_exited():
            return  # it exited by itself before
        deadline = clock.monotonic() + grace
        if self._stop is None or self._stop.is_internal:
            self._stop = _Stop(reason, deadline, grace, is_internal=False)
            self._output_before_stop = self.output.last if self.output else None
            self._request_exit()
        elif deadline < self._stop.deadline:
            self._stop = _Stop(self._stop.reason, deadline, grace, is_internal=False)
        self._changed.set()

    async def run(self) -> ExitStatus:
        """Start the program, wait until it and all its processes have exited, and return how it ended."""
        started_at = clock.monotonic()
        try:
            return await self._run(started_at)
        except LaunchFailedError as error:
            message = self.mask.hide_text(str(error))
            log.error("the program was not started: %s", message)
            await self._process_tree.end()
            self.ended = clock.monotonic()
            reason = ExitReason.REFUSED if os_errors.explain(error) else ExitReason.LAUNCH_FAILED
            return ExitStatus(reason=reason, message=message[:_MAX_MESSAGE_CHARACTERS])
        finally:
            if self.output:
                self.output.close()
            if self._progress:
                self._progress.close()

    async def _run(self, started_at: float) -> ExitStatus:
        await self._run_context.writer.stop(_DISK_TIMEOUT_SECONDS)
        classpath = await self._wait_for_classpath()
        if self._stop is not None:
            self.ended = started_at
            return ExitStatus(reason=ExitReason.NOT_STARTED, message="stopped before it was started")
        taken = self._run_context.ports.find_taken()
        if taken:
            self.ended = started_at
            return ExitStatus(reason=ExitReason.PORT_COLLISION, message=taken)
        output = self._launch(classpath)
        self._started(self._pids[0])
        sampler = self._create_sampler(output)
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(self._watch_memory()), group.create_task(sampler.run())]
            await self._wait_done()
            for each in watching:
                each.cancel()
        self.ended = self._ends[-1].at if len(self._ends) == len(self._pids) else clock.monotonic()
        left = await self._find_left_behind()
        self._run_context.remote_programs.hang_up(self._describe_end())
        undead = await self._process_tree.end()
        await self._wait_reaped()
        await output.wait_ended(_DRAIN_SECONDS)
        await sampler.finish()
        self.exports = self._exports.collect_values() if self._exports else {}
        status = self._classify(output, left, undead, started_at)
        find_named = partial(find_task, self._task, self._command, self._build_task_view())
        evidence = name_tasks(await self._add_kernel_evidence(status), find_named)
        return replace(status, step=sampler.step, evidence=evidence)

    # --- start ----------------------------------------------------------------------------------------------------

    async def _wait_for_classpath(self) -> str | None:
        """Return Hadoop's class path, unless it is not needed or the attempt is stopped meanwhile."""
        if self._run_context.classpath is None:
            return None
        known = asyncio.ensure_future(self._run_context.classpath.wait_for_classpath())
        try:
            while not known.done() and self._stop is None:
                self._changed.clear()
                stopped = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait({known, stopped}, return_when=asyncio.FIRST_COMPLETED)
                stopped.cancel()
            return known.result() if known.done() else None
        finally:
            known.cancel()

    def _open_progress_listener(self) -> ProgressListener | None:
        """Open the progress socket if progress is recorded."""
        if self._run_context.sample_interval() <= 0:
            return None
        try:
            marker = f"{MARKER}={self._container.marker}"
            folder = Path(self._container.work_folder).parent
            return ProgressListener(TrustedSenders(marker, has_marker), folder, progress_folder.build_path(marker))
        except OSError as error:
            log.warning("cannot create the progress socket: %s", os_errors.describe_os_error(error))
            return None

    def _create_sampler(self, output: Output) -> MetricsSampler:
        """Create the metrics sampler for the program, which has just been started."""
        if self._progress:
            self._progress.begin()
        return MetricsSampler(
            self._command.session,
            self._command.try_,
            self._run_context.sample_interval,
            self._process_tree.list_contained,
            self._run_context.outbox,
            ProcessUsage(self._container.cgroup, self._started_at),
            self._progress,
            self._run_context.step_interval,
            pattern=self._task.role_settings.progress_pattern,
            streams=(output.out, output.err),
            summaries=find_summaries_folder(self._task, self._container, self._build_task_view()),
            devices=open_devices(self._task, self._container),
        )

    def _launch(self, classpath: str | None) -> Output:
        command, container = self._command, self._container
        self._progress = self._open_progress_listener()
        argv, envs = self._prepare(classpath)
        self._environment = envs[0]
        if isinstance(self._task.command, str):
            make_executable(argv[-1], container.work_folder)
        output = self.output = self._open_output(len(envs))
        self._run_context.ports.release_before_start()
        self._run_context.reaper.adopt(self._on_other_exit)
        self._started_at = clock.monotonic()
        for number, env in enumerate(envs):
            out, err = output.get_write_ends(number if output.out.is_labelled else 0)
            pid = spawn(argv, env, container.work_folder, container.cgroup, out, err)
            self._pids.append(pid)
            self._run_context.reaper.watch(pid, partial(self._on_exit, number))
        output.begin()
        log.info(
            "session %d, task attempt %d: started %s", command.session, command.try_, ", ".join(map(str, self._pids))
        )
        return output

    def _open_output(self, processes: int) -> Output:
        run, folder, name = self._run_context, Path(self._container.log_folder), self.format_file_name("")[:-1]
        settings, first = self._task.job_settings, self._first_output
        limit, rules = settings.log_limit, settings.diagnosis_rules
        try:
            return Output(
                folder, name, limit, run.writer, first, run.readers, self._exports, self.mask, processes, rules
            )
        except OSError as error:
            why = os_errors.describe_os_error(error)
            if processes == 1:
                raise LaunchFailedError(f"cannot create pipes for its output: {why}") from error
            log.warning("output of the processes is not labelled with ranks: %s", why)
            return self._open_output(1)

    def _prepare(self, classpath: str | None) -> tuple[list[str], Sequence[dict[str, str]]]:
        task, container, command = self._task, self._container, self._command
        seen = self._build_task_view()
        try:
            framework = frameworks.load(task.framework_module, task.framework_path)
            own, more = self._run_context.environment, command.variables
            envs = build_environments(
                task, container, framework, command.shared, seen, own, more, classpath, command.addresses
            )
        except LaunchFailedError:
            raise
        except Exception as error:  # a plug-in may raise anything: its task fails with the reason
            log.exception("the framework's adapter failed")
            raise LaunchFailedError(
                f"framework adapter {task.framework_module}: {type(error).__name__}: {error}"
            ) from error
        progress_path = self._progress.path if self._progress else None
        for env in envs:
            env.update(build_variables(env, progress_path, hooks=task.job_settings.python_stacks))
        self.mask = SecretMask(find_task_secrets(task, *envs))
        return build_command_line(task, seen, command.addresses), envs

    def _build_task_view(self) -> TaskView:
        ports, container = self._run_context.ports, self._container
        address = f"{container.host}:{ports.port}"
        return build_task_view(self._task, self._command, address, ports.tb_port, container.work_folder)

    # --- end ------------------------------------------------------------------------------------------------------

    def _has_exited(self) -> bool:
        """Return True if all processes of the command have exited; their children may be alive."""
        return bool(self._pids) and len(self._ends) == len(self._pids)

    async def _watch_memory(self) -> None:
        await self._memory_monitor.watch()
        self._changed.set()

    async def _wait_done(self) -> None:
        while not self._is_done():
            await self._wait_changed(self._wait_timeout())

    async def _wait_changed(self, timeout: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        self._changed.clear()

    def _is_done(self) -> bool:
        if self._memory_monitor.exceeded is not None:
            return True
        if self._stop is None:
            return self._has_exited()
        if clock.monotonic() >= self._stop.deadline:
            self._forced = not self._has_exited() or bool(self._process_tree.list_descendants())
            return True
        # Children have the grace, too: a shell dies of SIGTERM before the commands that it runs.
        return self._has_exited() and not self._process_tree.list_descendants()

    def _wait_timeout(self) -> float | None:
        if self._stop is None:
            return None
        left = max(0.0, self._stop.deadline - clock.monotonic())
        return min(left, _CHECK_SECONDS) if self._has_exited() else left

    def _on_exit(self, number: int, status: int, usage: struct_rusage) -> None:
        code = os.waitstatus_to_exitcode(status)
        end = ProcessExit(
            process=number,
            code=code if code >= 0 else None,
            signum=-code if code < 0 else None,
            at=clock.monotonic(),
        )
        self._ends.append(end)
        self._count(usage)
        if signal.SIGKILL in (end.signum, (end.code or 0) - 128) and self._run_context.remote_programs.is_any_running:
            self._was_killed_meanwhile = True
        if end.failed and self._stop is None and not self._has_exited():
            log.info("process %d of %d failed; the others are stopped", number, len(self._pids))
            grace = self._task.stop_grace
            self._stop = _Stop("", clock.monotonic() + grace, grace, is_internal=True)
            self._request_exit()
        self._changed.set()

    def _request_exit(self) -> None:
        self._process_tree.signal(signal.SIGTERM)
        self._run_context.remote_programs.hang_up(f"{self._task.id} is stopping")

    def _describe_end(self) -> str:
        return f"the program of {self._task.id} has exited"

    def _on_other_exit(self, status: int, usage: struct_rusage) -> None:
        self._count(usage)
        self._changed.set()

    def _count(self, usage: struct_rusage) -> None:
        self._cpu += usage.ru_utime + usage.ru_stime
        self._largest_process = max(self._largest_process, usage.ru_maxrss * _KIB)

    async def _find_left_behind(self) -> list[str]:
        """Return names of processes that it left running, without helpers that exit a moment later."""
        if self._stop is not None or self._memory_monitor.exceeded is not None:
            return []
        await self._run_context.remote_programs.end(self._describe_end())
        deadline = clock.monotonic() + _HELPER_EXIT_SECONDS
        while left := self._list_left_behind():
            if clock.monotonic() >= deadline:
                break
            await self._wait_changed(_HELPER_EXIT_SECONDS / 10)
        return [process.name(pid) for pid in left]

    def _list_left_behind(self) -> list[int]:
        if self._process_tree.is_finished():
            return []
        return [pid for pid in self._process_tree.list_contained() if process.is_alive(pid)]

    async def _wait_reaped(self) -> None:
        """Wait until the reaper has reported the exits, which takes a moment."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while not self._has_exited():
                    self._changed.clear()
                    await self._changed.wait()

    def _classify(self, output: Output, left: Sequence[str], undead: Sequence[int], started_at: float) -> ExitStatus:
        tail = output.read_tail()
        ends = self._ends or [ProcessExit(process=0, code=None, signum=signal.SIGKILL, at=self.ended)]
        stop = self._stop
        stopped = stop is not None and not stop.is_internal
        failed, before = any(end.failed for end in ends), self._output_before_stop
        ports, task, container = self._run_context.ports, self._task, self._container
        peak = self._memory_monitor.read_peak(self._read_own_largest_process())
        # A shell exits with 128 + 9.
        killed = any(signal.SIGKILL in (end.signum, (end.code or 0) - 128) for end in ends)
        blamed = ports.explain_bind_failure(tail) if failed else ""  # also if it was stopped, for the next session
        classified = classify_exit(
            ExitObservation(
                ends=ends,
                through_shell=isinstance(task.command, str),
                stopped=stopped,
                stop_reason=stop.reason if stop else "",
                forced_after=stop.grace if stop and stopped and self._forced else None,
                memory=self._memory_monitor.describe(
                    peak,
                    killed=killed and not stopped,
                    other_kills=self._count_other_kills(),
                ),
                collision=(ports.find_taken() or blamed) if failed and not stopped else "",
                missing=explain_missing_file(tail, task.left_out, container.work_folder) if failed else "",
                loss=output.describe_loss(),
                left=left,
                undead=undead,
            )
        )
        signum = classified.end.signum
        return ExitStatus(
            reason=classified.reason,
            code=classified.end.code,
            signal=None if signum is None else process.format_signal(signum),
            message=self.mask.hide_text(classified.message),
            peak_memory=peak,
            cpu_time=round(self._cpu, 6),
            duration=_compute_seconds_between(started_at, self.ended),
            first_output=None if output.first is None else _compute_seconds_between(started_at, output.first),
            last_output=None if output.last is None else _compute_seconds_between(started_at, output.last),
            output_before_stop=before and _compute_seconds_between(started_at, before),
            tail=tail,
            evidence=output.find_evidence(self.ended, has_exited=signum is None and not stopped)
            if failed
            else output.find_last_traceback(self.ended),
        )

    async def _add_kernel_evidence(self, status: ExitStatus) -> tuple[EvidenceLine, ...]:
        """Return the evidence of a failure with what the kernel says about it."""
        if status.ok or status.reason not in (ExitReason.EXITED, ExitReason.MEMORY):
            return status.evidence
        is_memory = status.reason is ExitReason.MEMORY
        kills = self._memory_monitor.describe_kills(status.peak_memory, self._count_other_kills()) if is_memory else ""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_KERNEL_SECONDS):
                kernel = await to_thread(self._kernel.collect, self._pids, kills, self._environment)
                return add_kernel_lines(status.evidence, kernel.own, is_memory=is_memory, nearby=kernel.nearby)
        return status.evidence

    def _count_other_kills(self) -> int:
        """Return how many kills for memory remote programs account for; one less if the task's program died of one."""
        programs = self._run_context.remote_programs
        count = programs.memory_kill_count - self._remote_kills_before
        return max(0, count - 1) if self._was_killed_meanwhile else count

    def _read_own_largest_process(self) -> int:
        """Return the largest process's peak, unless it may be the executor's: a child is its copy until exec."""
        return self._largest_process if self._largest_process > read_own_peak() else 0

    def _on_pids(self, pids: Sequence[int]) -> None:
        unmarked = self._process_tree.select_unmarked(pids)
        if unmarked:
            self._run_context.point_out(unmarked)


def _compute_seconds_between(started_at: float, then: float) -> float:
    return round(max(0.0, then - started_at), 6)
