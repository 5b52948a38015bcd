"""One executor: obeys application masters, runs one try after the other, outlives its programs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tony import clock
from tony.dataclass import dataclass
from tony.errors import ExitCode
from tony.executor.am_connection import LAST_CHANCE, AmConnection, Connect, Reach
from tony.executor.lease import Lease
from tony.executor.log_serving import LogReaders
from tony.executor.metrics_sampler import Outbox
from tony.executor.port_reservation import TaskPorts
from tony.executor.process_tree import ProcessTree
from tony.executor.program_environment import MARKER, has_board
from tony.executor.reaper import Reaper
from tony.executor.rendezvous import Rendezvous, RendezvousError
from tony.executor.session_protocol import (
    ApplyLogLevel,
    EndExecutor,
    OpenPort,
    PrepareSession,
    SendStacks,
    ServeLog,
    SessionProtocol,
    StartTaskAttempt,
    StopTaskAttempt,
    Wish,
)
from tony.executor.task_run import ProgramRun, RunContext
from tony.executor.watchdog import Watchdog
from tony.executor.writer_thread import WriterThread
from tony.linux.port_reservation import PortsExhausted
from tony.model.masking import SecretMask
from tony.protocol.launch import LaunchContext
from tony.protocol.messages import Attach, DialTunnel, DropLog, Heartbeat, ReadLog, Stacks, Summon

if TYPE_CHECKING:
    from tony.executor.hadoop_classpath import HadoopClasspath
    from tony.executor.reattach_listener import ReattachListener
    from tony.executor.stack_dump import StackDumper as Asking
    from tony.executor.tunnel_endpoint import TunnelEndpoint

log = logging.getLogger(__name__)

#: Seconds at the end for the application master to acknowledge the last reports.
_LAST_WORDS = 5.0
#: Seconds after that for those who read what the programs printed to get the rest.
_LAST_OUTPUT = 1.0
#: Seconds that we may take to end a program that does not end by itself, before the watchdog does so in our place.
_WATCHDOG_PATIENCE = 10.0
#: Seconds between two watchdogs, at least.
_WATCHDOG_PAUSE = 1.0
#: Seconds that the watchdog may take to remove the control group and end: who starts us finds a clean house at our end.
_WATCHDOG_END = 2.0
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """Why and how to end: the last of the things to do."""

    code: int
    why: str


class Executor:
    """One executor process.

    Args:
        environment: the process's own.
        watchdog: already started.
        pen: writes files.
        reach: knows where the application master is.
        connect: connects to it.
        mask: of the secrets that the task's program gets.
    """

    def __init__(
        self,
        context: LaunchContext,
        environment: Mapping[str, str],
        watchdog: Watchdog,
        pen: WriterThread,
        reach: Reach,
        connect: Connect,
        mask: SecretMask,
    ) -> None:
        task = context.task
        self._context = context
        self._watchdog = watchdog
        self._reaper = Reaper()
        self._outbox = Outbox(lambda sample: self._link.spare(sample))
        self._readers = LogReaders(pen, lambda piece: self._link.send(piece))
        self._ports = TaskPorts(task.port_range, task.wants_tb_port, task.role, task.port)
        self._meeting = Rendezvous(task.meeting, context.container.work_folder, self._reaper)
        self._classpath = _hadoop_classpath(context, environment, self._reaper)
        self._around = RunContext(
            context=context,
            environment=environment,
            family=ProcessTree(f"{MARKER}={context.container.marker}", context.container.cgroup, self._helpers),
            ports=self._ports,
            reaper=self._reaper,
            pen=pen,
            readers=self._readers,
            point_out=watchdog.point_out,
            outbox=self._outbox,
            sample_interval=lambda: self._dialog.sample_interval,
            mask=mask,
            step_interval=lambda: self._dialog.step_interval,
            classpath=self._classpath,
        )
        attach = Attach(
            task=f"{task.role}:{task.index}",
            container=task.container,
            incarnation=os.urandom(8).hex(),
            highest_attempt=task.attempt,
            pid=os.getpid(),
            host=socket.gethostname(),
        )
        self._reach = reach
        self._dialog = SessionProtocol(attach, task.session)
        self._lease = Lease(task.lease, task.connect_timeout, clock.monotonic())
        self._link = AmConnection(
            self._dialog,
            self._lease,
            connect,
            clock,
            self._beat,
            self._perform,
            apart=self._readers.forget,
            renewed=self._renewed,
            before=self._outbox.catch_up,
        )
        self._todo: asyncio.Queue[PrepareSession | StartTaskAttempt | _End] = asyncio.Queue()
        self._trial: ProgramRun | None = None
        self._stop_early: StopTaskAttempt | None = None
        self._tunnels: TunnelEndpoint | None = None
        self._stacks: Asking | None = None
        self._group: asyncio.TaskGroup | None = None
        self._asking: set[asyncio.Task[None]] = set()
        self._summons = _summons(context, self._summoned)
        self._has_board = context.task.board is None
        self._ending = False
        self._watchdog_from = -_WATCHDOG_PAUSE

    async def run(self) -> int:
        """Lives until it is released, told to end, or out of contact for too long; answers the exit code."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._terminated)
        self._reaper.watch(self._watchdog.pid, lambda status, usage: self._watchdog_ended())
        self._reaper.open()
        if self._classpath:
            self._classpath.ask()  # while we register
        self._todo.put_nowait(PrepareSession(session=self._dialog.session))
        self._renewed()
        if self._summons:
            self._dialog.listens(await self._summons.open())
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                touch = group.create_task(self._stay_in_touch())
                end = await self._work()
                await self._last_words(touch)
                for each in (touch, *self._asking):
                    each.cancel()
                self._group = None
        finally:
            self._ending = True
            if self._tunnels:
                self._tunnels.close()
            if self._summons:
                await self._summons.close()
            if self._classpath:
                self._classpath.close()
            self._ports.close()
            self._reaper.close()
        self._watchdog.dismiss(_WATCHDOG_END)
        log.log(logging.INFO if end.code == 0 else logging.ERROR, "%s", end.why)
        return end.code

    # --- what the application master wants ------------------------------------------------------------------------

    def _perform(self, wish: Wish) -> None:
        match wish:
            case PrepareSession(session=session):
                self._stop_trial(self._context.task.stop_grace, f"session {session} opens")
                self._todo.put_nowait(wish)
            case StartTaskAttempt(command=start):
                self._has_board = has_board(self._context.task, start)
                self._todo.put_nowait(wish)
            case StopTaskAttempt():
                self._stop_early = wish
                self._stop_trial(wish.grace, wish.reason)
            case EndExecutor(grace=grace):
                self._end(grace, _End(code=ExitCode.SUCCEEDED, why="released"))
            case ApplyLogLevel(level=level):
                logging.getLogger("tony").setLevel(_LEVELS.get(level, logging.INFO))
                log.info("log level is now %s", level)
            case ServeLog(command=ReadLog() as command):
                self._readers.ask(command)
            case ServeLog(command=DropLog() as command):
                self._readers.drop(command)
            case OpenPort(command=command):
                self._reach_port(command)
            case SendStacks(request=request):
                self._ask_where_it_stands(request)

    def _ask_where_it_stands(self, request: str) -> None:
        if self._group is not None:
            asking = self._group.create_task(self._tell_stacks(request))
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)

    async def _tell_stacks(self, request: str) -> None:
        task, trial = self._context.task, self._trial
        name = f"{task.role}:{task.index}"
        if trial is None or not trial.runs:
            self._link.send(Stacks(task=name, request=request, problem="its program does not run now"))
            return
        if self._stacks is None:
            from tony.executor.stack_dump import StackDumper as Asking  # most jobs are never asked

            self._stacks = Asking(self._context.container, self._around.environment, self._reaper)
        try:
            found = await self._stacks.dump(self._around.family.near(), trial.mask)
        except Exception as error:  # no program ends because somebody has asked where it stands
            log.exception("stacks could not be had: please report this")
            self._link.send(Stacks(task=name, request=request, problem=f"it could not be found out: {error}"))
            return
        file = trial.file_name("stacks")
        await self._stacks.keep(Path(self._context.container.log_folder), file, found)
        self._link.send(
            Stacks(task=name, request=request, text=found.text, how=found.how, problem=found.problem, name=file)
        )

    def _reach_port(self, command: DialTunnel) -> None:
        if self._tunnels is None:
            from tony.executor.tunnel_endpoint import TunnelEndpoint  # most jobs never have one

            self._tunnels = TunnelEndpoint(self._context, self._reach, self._own_port, self._link.send)
        self._tunnels.dial(command)

    def _own_port(self) -> int:
        return (self._ports.tb_port if self._has_board else None) or self._ports.port

    def _stop_trial(self, grace: float, reason: str) -> None:
        if self._trial:
            self._trial.stop(grace, reason)

    def _end(self, grace: float, end: _End) -> None:
        self._stop_trial(grace, end.why)
        if not self._ending:
            self._ending = True
            self._todo.put_nowait(end)

    def _terminated(self) -> None:
        why = "the executor was told to end (SIGTERM)"
        self._end(self._context.task.stop_grace, _End(code=128 + signal.SIGTERM, why=why))

    async def _stay_in_touch(self) -> None:
        why = await self._link.keep()
        if self._link.unwanted:  # another may have our place already: at once
            self._end(0.0, _End(code=ExitCode.INFRASTRUCTURE, why=why))
            return
        end = _End(code=ExitCode.INFRASTRUCTURE, why=f"out of contact with the application master: {why}")
        self._end(self._context.task.stop_grace, end)

    def _summoned(self, summon: Summon) -> bool:
        if not self._dialog.summoned(summon.attempt):
            return False
        moved, self._reach.address = self._reach.address != summon.address, summon.address
        self._link.summoned(summon.attempt, moved=moved)
        return True

    # --- one thing after the other --------------------------------------------------------------------------------

    async def _work(self) -> _End:
        while True:
            match await self._todo.get():
                case PrepareSession(session=session):
                    try:
                        self._prepare(session)
                    except (PortsExhausted, RendezvousError) as error:
                        return _End(code=ExitCode.INFRASTRUCTURE, why=str(error))
                case StartTaskAttempt() as start:
                    await self._try(start)
                case _End() as end:
                    return end

    def _prepare(self, session: int) -> None:
        self._ports.renew()
        if self._meeting.wanted:
            self._meeting.open(self._ports.listen(), session)
        log.info("session %d: reserved port %d", session, self._ports.port)
        address = f"{self._context.container.host}:{self._ports.port}"
        self._dialog.ready(session, address, self._ports.tb_port)
        self._link.flush()

    async def _try(self, start: StartTaskAttempt) -> None:
        session, try_ = start.command.session, start.command.try_
        trial = self._trial = ProgramRun(
            self._around,
            start.command,
            started=lambda pid: self._say(partial(self._dialog.started, session, try_, pid)),
            first_output=lambda: self._say(partial(self._dialog.first_output, session, try_)),
        )
        early = self._stop_early
        if early and (early.session, early.try_) == (session, try_):
            trial.stop(early.grace, early.reason)
        if self._ending or session < self._dialog.session:
            trial.stop(0.0, "it is not wanted any more")
        try:
            status = await trial.run()
        finally:
            self._trial = None
        log.info("session %d, try %d ended: %s", session, try_, status.describe())
        self._dialog.exited(session, try_, status, trial.ended, trial.exports)
        self._link.flush()

    def _say(self, report: partial[None]) -> None:
        report()
        self._link.flush()

    async def _last_words(self, touch: asyncio.Task[None]) -> None:
        """Waits until the application master has all reports, as long as there is hope for that."""
        deadline = clock.monotonic() + _LAST_WORDS
        while not self._dialog.settled and not touch.done() and clock.monotonic() < deadline:
            await asyncio.sleep(0.005)
        if self._link.is_connected:
            await self._readers.finish(_LAST_OUTPUT)

    def _renewed(self) -> None:
        self._watchdog.lease(self._lease.ends, self._context.task.stop_grace + LAST_CHANCE + _WATCHDOG_PATIENCE)

    # --- helpers --------------------------------------------------------------------------------------------------

    def _helpers(self) -> set[int]:
        own = {self._watchdog.pid, self._meeting.pid}
        return own | self._stacks.helpers if self._stacks else own

    def _beat(self) -> Heartbeat:
        trial = self._trial
        output = trial.output if trial else None
        age = None if output is None or output.last is None else max(0.0, clock.monotonic() - output.last)
        return Heartbeat(
            last_output_age=age,
            last_line=output.last_line() if output else "",
            memory=trial.memory if trial else None,
            wall=clock.wall(),
            mono=clock.monotonic(),
        )

    def _watchdog_ended(self) -> None:
        log.warning("the watchdog was killed; another one is started")
        # Not more than one in a second: one that cannot live shall not keep us busy.
        wait = max(0.0, self._watchdog_from + _WATCHDOG_PAUSE - clock.monotonic())
        asyncio.get_running_loop().call_later(wait, self._replace_watchdog)

    def _replace_watchdog(self) -> None:
        self._watchdog_from = clock.monotonic()
        try:
            self._watchdog.replace()
        except OSError as error:
            log.error("no watchdog: %s; trying again", error)
            asyncio.get_running_loop().call_later(_WATCHDOG_PAUSE, self._replace_watchdog)
            return
        self._reaper.watch(self._watchdog.pid, lambda status, usage: self._watchdog_ended())


def _summons(context: LaunchContext, obey: Callable[[Summon], bool]) -> ReattachListener | None:
    if context.task.am_address.startswith("unix:"):
        return None  # whoever succeeds the application master listens at the same place
    from tony.executor.reattach_listener import ReattachListener  # late: what listens takes memory

    return ReattachListener(context, obey)


def _hadoop_classpath(context: LaunchContext, environment: Mapping[str, str], reaper: Reaper) -> HadoopClasspath | None:
    if not context.task.hadoop_classpath:
        return None
    from tony.executor.hadoop_classpath import HadoopClasspath, is_wanted  # late: few jobs want it

    task, container = context.task, context.container
    return HadoopClasspath(task, container, environment, reaper) if is_wanted(task, container, environment) else None
