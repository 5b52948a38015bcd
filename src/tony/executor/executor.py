"""One executor: follows the application master's commands and runs one task attempt after the other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tony import clock
from tony.diagnosis.bug_line import EXECUTOR_BUG, format_bug
from tony.errors import ExitCode
from tony.executor.control.am_connection import EXPIRY_GRACE_SECONDS, AmConnection, Connect, Reach
from tony.executor.control.lease import Lease
from tony.executor.control.session_protocol import SessionProtocol
from tony.executor.metrics.metrics_sampler import Outbox
from tony.executor.network.port_reservation import TaskPorts
from tony.executor.network.rendezvous_process import Rendezvous, RendezvousError
from tony.executor.output.log_serving import LogReaders
from tony.executor.output.writer_thread import WriterThread, WriterThreadHandler
from tony.executor.program.process_tree import ProcessTree
from tony.executor.program.program_environment import MARKER, find_task_secrets, has_board
from tony.executor.program.spawn import Reaper
from tony.executor.program.watchdog import Watchdog
from tony.executor.remote.remote_programs import RemotePrograms
from tony.executor.run_context import RunContext
from tony.executor.task_run import ProgramRun
from tony.isolated_interpreter import settle
from tony.linux.port_reservation import PortsExhaustedError
from tony.model.log_name import STACKS, STREAMS
from tony.model.masking import SecretMask
from tony.protocol.executor_messages import (
    Attach,
    DumpStacks,
    Heartbeat,
    Prepare,
    ReleaseExecutor,
    StartProgram,
    StopProgram,
    Summon,
)
from tony.protocol.launch import ContainerPart, LaunchContext, TaskPart
from tony.protocol.message_base import Message
from tony.protocol.output_messages import DropLog, ReadLog
from tony.protocol.remote_program_messages import StartRemoteProgram
from tony.protocol.shared_messages import SetLogLevel, Stacks
from tony.protocol.tunnel_messages import DialTunnel
from tony.rpc.am_address import UnixAddress, parse

if TYPE_CHECKING:
    from tony.executor.control.reattach_listener import ReattachListener
    from tony.executor.control.tunnel_endpoint import TunnelEndpoint
    from tony.executor.output.output_copy import OutputCopy
    from tony.executor.program.hadoop_classpath import HadoopClasspath
    from tony.executor.program.stack_dump import StackDumper

log = logging.getLogger(__name__)

#: Seconds at the end for the application master to acknowledge the last reports.
_ACKNOWLEDGE_TIMEOUT_SECONDS = 5.0
#: Seconds after that for log readers to get the rest of the output; as long as they continue to request it, more.
_LAST_OUTPUT_SECONDS = 1.0
_MAX_LAST_OUTPUT_SECONDS = 4.0
#: Seconds that the executor may take to stop a program that does not exit, before the watchdog kills it instead.
_WATCHDOG_GRACE_SECONDS = 10.0
#: Minimum seconds between two watchdogs.
_WATCHDOG_PAUSE_SECONDS = 1.0
#: Seconds that the watchdog may take to remove the control group and exit, before the executor exits.
_WATCHDOG_EXIT_SECONDS = 2.0
#: Seconds that the last lines of the executor's log may take to reach the disk.
_LAST_LINES_TIMEOUT_SECONDS = 5.0
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExecutorEnd:
    """The exit code and reason; the last item of the queue."""

    code: int
    why: str


class Executor:
    """One executor process.

    Args:
        environment: the process's own.
        watchdog: already started.
        reach: the current address of the application master.
        connect: connects to it.
    """

    def __init__(
        self,
        context: LaunchContext,
        environment: Mapping[str, str],
        watchdog: Watchdog,
        writer: WriterThread,
        reach: Reach,
        connect: Connect,
        mask: SecretMask,
    ) -> None:
        task = context.task
        self._context = context
        self._watchdog = watchdog
        self._reaper = Reaper()
        self._outbox = Outbox(lambda sample: self._connection.send_low_priority(sample))
        self._readers = LogReaders(writer, lambda piece: self._connection.send(piece))
        self._output_copy = _create_output_copy(context.container, self._readers, writer)
        self._ports = TaskPorts(task.port_range, task.wants_tb_port, task.role, task.role_settings.port)
        self._rendezvous = Rendezvous(task.meeting, context.container.work_folder, self._reaper)
        marker = f"{MARKER}={context.container.marker}"
        process_tree = ProcessTree(marker, context.container.cgroup, self._list_helpers)
        self._remote_programs = self._create_remote_programs(context, reach, process_tree)
        self._run_context = RunContext(
            context=context,
            environment=environment,
            process_tree=process_tree,
            ports=self._ports,
            reaper=self._reaper,
            writer=writer,
            readers=self._readers,
            point_out=watchdog.point_out,
            outbox=self._outbox,
            sample_interval=lambda: self._protocol.sample_interval,
            mask=mask,
            step_interval=lambda: self._protocol.step_interval,
            remote_programs=self._remote_programs,
            classpath=_build_hadoop_classpath(context, environment, self._reaper),
        )
        self._reach = reach
        self._protocol = SessionProtocol(_attach_message(task), task.session)
        self._lease = Lease(task.lease, task.connect_timeout, clock.monotonic())
        self._connection = self._create_connection(connect)
        self._queue: asyncio.Queue[Prepare | StartProgram | _ExecutorEnd] = asyncio.Queue()
        self._run: ProgramRun | None = None
        self._stop_early: StopProgram | None = None
        self._tunnels: TunnelEndpoint | None = None
        self._stacks: StackDumper | None = None
        self._group = asyncio.TaskGroup()
        self._stack_tasks: set[asyncio.Task[None]] = set()
        self._reattach_listener = _create_reattach_listener(context, self._on_reattach_request)
        self._has_board = context.task.board is None
        self._ending = False
        self._watchdog_from = -_WATCHDOG_PAUSE_SECONDS

    def _create_remote_programs(
        self, context: LaunchContext, reach: Reach, process_tree: ProcessTree
    ) -> RemotePrograms:
        return RemotePrograms(
            context,
            reach,
            process_tree,
            self._reaper,
            lambda: self._run.find_environment() if self._run else None,
            lambda failed: self._connection.send(failed),
        )

    def _create_connection(self, connect: Connect) -> AmConnection:
        return AmConnection(
            self._protocol,
            self._lease,
            connect,
            clock,
            self._build_heartbeat,
            self._perform,
            on_disconnect=self._readers.forget,
            on_renew=self._extend_watchdog,
            before_reports=self._outbox.catch_up,
        )

    async def run(self) -> int:
        """Run until the executor is released, told to exit, or out of contact for too long; return the exit code."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._on_sigterm)
        self._reaper.watch(self._watchdog.pid, lambda status, usage: self._on_watchdog_ended())
        self._reaper.open()
        if self._run_context.classpath:
            self._run_context.classpath.start_query()  # runs while the task registers
        if self._output_copy:
            self._output_copy.start()
        self._queue.put_nowait(Prepare(session=self._protocol.session))
        self._extend_watchdog()
        if self._reattach_listener:
            self._protocol.set_listen_address(await self._reattach_listener.open())
        try:
            async with self._group:
                connection_task = self._group.create_task(self._keep_connection())
                end = await self._work()
                await self._wait_acknowledged(connection_task)
                if self._output_copy:
                    await self._output_copy.finish(_LAST_OUTPUT_SECONDS)
                for each in (connection_task, *self._stack_tasks):
                    each.cancel()
        finally:
            self._ending = True
            if self._tunnels:
                self._tunnels.close()
            self._remote_programs.close()
            if self._reattach_listener:
                await self._reattach_listener.close()
            if self._run_context.classpath:
                self._run_context.classpath.close()
            self._ports.close()
            self._reaper.close()
        self._watchdog.dismiss(_WATCHDOG_EXIT_SECONDS)
        log.log(logging.INFO if end.code == 0 else logging.ERROR, "%s", end.why)
        return end.code

    # --- commands of the application master -----------------------------------------------------------------------

    def _perform(self, command: Message) -> None:
        match command:
            case Prepare(session=session):
                self._stop_run(self._context.task.stop_grace, f"session {session} opens")
                self._queue.put_nowait(command)
            case StartProgram():
                self._has_board = has_board(self._context.task, command)
                self._queue.put_nowait(command)
            case StopProgram():
                self._stop_early = command
                self._stop_run(command.grace, command.reason)
            case ReleaseExecutor(grace=grace):
                self._end(grace, _ExecutorEnd(code=ExitCode.SUCCEEDED, why="released"))
            case SetLogLevel(level=level):
                logging.getLogger("tony").setLevel(_LEVELS.get(level, logging.INFO))
                log.info("log level is now %s", level)
            case ReadLog():
                self._readers.on_request(command)
            case DropLog():
                self._readers.drop(command)
            case DialTunnel():
                self._open_tunnel(command)
            case StartRemoteProgram():
                self._remote_programs.start(command)
            case DumpStacks(request=request):
                self._request_stacks(request)

    def _request_stacks(self, request: str) -> None:
        dump = self._group.create_task(self._send_stacks(request))
        self._stack_tasks.add(dump)
        dump.add_done_callback(self._stack_tasks.discard)

    async def _send_stacks(self, request: str) -> None:
        task, run = self._context.task, self._run
        answer = Stacks(task=str(task.id), request=request)
        if run is None or not run.is_running:
            self._connection.send(replace(answer, problem="its program is not running"))
            return
        if self._stacks is None:
            from tony.executor.program.stack_dump import StackDumper  # late: most jobs never need it

            self._stacks = StackDumper(self._context.container, self._run_context.environment, self._reaper)
        found = replace(answer, name=run.format_file_name(STACKS))
        try:
            pids = self._run_context.process_tree.list_contained()
            own = [pid for pid in pids if not self._remote_programs.owns(pid)]
            found = await self._stacks.dump(found, own, run.mask)
        except Exception as error:  # a failing stack dump must not end the program
            log.exception("stack dump failed: please report this")
            self._connection.send(replace(answer, problem=f"stack dump failed: {error}"))
            return
        await self._stacks.keep(Path(self._context.container.log_folder), found)
        self._connection.send(found)

    def _open_tunnel(self, command: DialTunnel) -> None:
        if self._tunnels is None:
            from tony.executor.control.tunnel_endpoint import TunnelEndpoint  # late: most jobs never need it

            self._tunnels = TunnelEndpoint(self._context, self._reach, self._find_own_port, self._connection.send)
        self._tunnels.dial(command)

    def _find_own_port(self) -> int:
        return (self._ports.tb_port if self._has_board else None) or self._ports.port

    def _stop_run(self, grace: float, reason: str) -> None:
        if self._run:
            self._run.stop(grace, reason)

    def _end(self, grace: float, end: _ExecutorEnd) -> None:
        self._stop_run(grace, end.why)
        if not self._ending:
            self._ending = True
            self._queue.put_nowait(end)

    def _on_sigterm(self) -> None:
        why = "the executor received SIGTERM"
        self._end(self._context.task.stop_grace, _ExecutorEnd(code=128 + signal.SIGTERM, why=why))

    async def _keep_connection(self) -> None:
        why = await self._connection.keep()
        if self._connection.is_rejected:  # another executor may have this task already: exit at once
            self._end(0.0, _ExecutorEnd(code=ExitCode.INFRASTRUCTURE, why=why))
            return
        end = _ExecutorEnd(code=ExitCode.INFRASTRUCTURE, why=f"lost contact with the application master: {why}")
        self._end(self._context.task.stop_grace, end)

    def _on_reattach_request(self, summon: Summon) -> bool:
        if not self._protocol.accept_reattach(summon.attempt):
            return False
        moved, self._reach.address = self._reach.address != summon.address, summon.address
        self._connection.on_reattach_request(summon.attempt, moved=moved)
        return True

    # --- queue ----------------------------------------------------------------------------------------------------

    async def _work(self) -> _ExecutorEnd:
        while True:
            match await self._queue.get():
                case Prepare(session=session):
                    try:
                        self._prepare(session)
                    except (PortsExhaustedError, RendezvousError) as error:
                        return _ExecutorEnd(code=ExitCode.INFRASTRUCTURE, why=str(error))
                case StartProgram() as start:
                    await self._run_attempt(start)
                case _ExecutorEnd() as end:
                    return end

    def _prepare(self, session: int) -> None:
        self._ports.renew()
        if self._rendezvous.is_needed:
            self._rendezvous.open(self._ports.listen(), session)
        log.info("session %d: reserved port %d", session, self._ports.port)
        address = f"{self._context.container.host}:{self._ports.port}"
        self._protocol.report_ready(session, address, self._ports.tb_port)
        self._connection.flush()

    async def _run_attempt(self, start: StartProgram) -> None:
        session, try_ = start.session, start.try_
        run = self._run = ProgramRun(
            self._run_context,
            start,
            started=lambda pid: self._report(partial(self._protocol.report_started, session, try_, pid)),
            first_output=lambda: self._report(partial(self._protocol.report_first_output, session, try_)),
        )
        early = self._stop_early
        if early and (early.session, early.try_) == (session, try_):
            run.stop(early.grace, early.reason)
        if self._ending or session < self._protocol.session:
            run.stop(0.0, "superseded")
        try:
            status = await run.run()
        finally:
            self._run = None
        log.info("session %d, task attempt %d ended: %s", session, try_, status.describe())
        self._protocol.report_exited(session, try_, status, run.ended, run.exports)
        self._connection.flush()

    def _report(self, report: partial[None]) -> None:
        report()
        self._connection.flush()

    async def _wait_acknowledged(self, connection_task: asyncio.Task[None]) -> None:
        """Wait until the application master has all reports, while it is connected or may reconnect."""
        deadline = clock.monotonic() + _ACKNOWLEDGE_TIMEOUT_SECONDS
        while not self._protocol.is_settled and not connection_task.done() and clock.monotonic() < deadline:
            await asyncio.sleep(0.005)
        if self._connection.is_connected:
            await self._readers.finish(_LAST_OUTPUT_SECONDS, _MAX_LAST_OUTPUT_SECONDS)
            await self._remote_programs.finish(_LAST_OUTPUT_SECONDS)

    def _extend_watchdog(self) -> None:
        self._watchdog.renew_lease(
            self._lease.ends, self._context.task.stop_grace + EXPIRY_GRACE_SECONDS + _WATCHDOG_GRACE_SECONDS
        )

    # --- helpers --------------------------------------------------------------------------------------------------

    def _list_helpers(self) -> set[int]:
        own = {self._watchdog.pid, self._rendezvous.pid}
        return own | self._stacks.helpers if self._stacks else own

    def _build_heartbeat(self) -> Heartbeat:
        run = self._run
        output = run.output if run else None
        age = None if output is None or output.last is None else max(0.0, clock.monotonic() - output.last)
        return Heartbeat(
            last_output_age=age,
            last_line=output.read_last_line() if output else "",
            memory=run.memory if run else None,
            wall=clock.wall(),
            mono=clock.monotonic(),
        )

    def _on_watchdog_ended(self) -> None:
        log.warning("the watchdog was killed; starting another one")
        # At most one per second, if every watchdog dies at once.
        wait = max(0.0, self._watchdog_from + _WATCHDOG_PAUSE_SECONDS - clock.monotonic())
        asyncio.get_running_loop().call_later(wait, self._replace_watchdog)

    def _replace_watchdog(self) -> None:
        self._watchdog_from = clock.monotonic()
        try:
            self._watchdog.replace()
        except OSError as error:
            log.error("cannot start a watchdog: %s; retrying", error)
            asyncio.get_running_loop().call_later(_WATCHDOG_PAUSE_SECONDS, self._replace_watchdog)
            return
        self._reaper.watch(self._watchdog.pid, lambda status, usage: self._on_watchdog_ended())


def _attach_message(task: TaskPart) -> Attach:
    return Attach(
        task=task.id,
        container=task.container,
        incarnation=os.urandom(8).hex(),
        highest_attempt=task.attempt,
        pid=os.getpid(),
        host=socket.gethostname(),
    )


def _create_reattach_listener(context: LaunchContext, obey: Callable[[Summon], bool]) -> ReattachListener | None:
    if isinstance(parse(context.task.am_address), UnixAddress):
        return None  # a later AM attempt listens at the same path
    from tony.executor.control.reattach_listener import ReattachListener  # late: it takes memory

    return ReattachListener(context, obey)


def _build_hadoop_classpath(
    context: LaunchContext, environment: Mapping[str, str], reaper: Reaper
) -> HadoopClasspath | None:
    if not context.task.job_settings.hadoop_classpath:
        return None
    from tony.executor.program.hadoop_classpath import HadoopClasspath, is_enabled  # late: few jobs need it

    task, container = context.task, context.container
    return HadoopClasspath(task, container, environment, reaper) if is_enabled(task, container, environment) else None


class _MaskingFormatter(logging.Formatter):
    """Formats lines of the executor's own log without the secrets of the task."""

    def __init__(self, mask: SecretMask) -> None:
        super().__init__(clock.LOG_LINE)
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, or several with a traceback."""
        return self._mask.hide_text(super().format(record))


def _create_output_copy(container: ContainerPart, readers: LogReaders, writer: WriterThread) -> OutputCopy | None:
    if not container.copies_output:
        return None
    from tony.executor.output.output_copy import OutputCopy  # late: most schedulers show no output

    return OutputCopy(readers, writer, dict(zip(STREAMS, (1, 2), strict=True)), container.end_message)


def run_executor(context: LaunchContext, watchdog: Watchdog, wrap: Callable[[Connect], Connect]) -> int:
    """Run an executor until it exits. If this function is left in any other way, the watchdog cleans up."""
    settle()
    task = context.task
    log.info(
        "executor of %s of job %s, container %s, AM attempt %d, session %d",
        task.id,
        task.job_id,
        task.container,
        task.attempt,
        task.session,
    )
    environment = dict(os.environ)
    mask = SecretMask(find_task_secrets(task, environment))
    writer = WriterThread()
    root = logging.getLogger()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        if mask:
            handler.setFormatter(_MaskingFormatter(mask))
        root.addHandler(WriterThreadHandler(writer, handler))
    try:
        reach = Reach(context)
        return asyncio.run(Executor(context, environment, watchdog, writer, reach, wrap(reach), mask).run())
    except Exception as error:
        log.exception("the executor failed: please report this")
        bug = mask.hide_text(f"{EXECUTOR_BUG}{format_bug(error)}")
        log.error("%s", bug)
        if context.container.end_message:
            with contextlib.suppress(OSError):
                Path(context.container.end_message).write_text(bug, encoding="utf-8")
        return ExitCode.BUG
    finally:
        writer.close(_LAST_LINES_TIMEOUT_SECONDS)
