"""Follow the event log of a real job, and inject the faults of a plan into its unmodified processes, from outside.

    with FaultInjector(folder, parse_plan("kill worker:1 when worker:1 started")) as injector:
        ...
    injector.injected

Faults of messages between executors and the AM need executors run as `tests.support.faulty_executor orders=orders`.
Faults while the AM handles an event need `tests.support.crashing_master`.
"""

from __future__ import annotations

import select
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.faults import process_targets
from tests.support.faults.fault_files import give
from tests.support.faults.plan import ON_THE_WAY, AtStart, FaultPlan, Kill, PlannedFault, Slow
from tests.support.faults.plan_parser import format_fault, who
from tests.support.faults.process_targets import TURN, NoTargetError, Victim
from tests.support.faults.schedule import Conductor, Injection
from tony import clock
from tony.core.application import Application
from tony.history.event_log import EventTail
from tony.history.job_record import record_of
from tony.linux.inotify import Inotify, InotifyMask
from tony.model.layout import Home, JobFolder
from tony.model.submission_record import JobRecord

#: The file of commands in the job directory that faulty executors read.
ORDERS = "orders"
#: Seconds until the retry of a fault whose target is not running.
_AGAIN = 0.02
#: Seconds between polls of the log if inotify reports nothing.
_LOOK_AGAIN = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFault:
    """An injected fault.

    Attributes:
        seq: number of the last event seen before.
        at: job time, in seconds.
        pid: of the target process; 0 for faults of messages.
    """

    planned: PlannedFault
    seq: int
    at: float
    pid: int

    def __str__(self) -> str:
        return f"{format_fault(self.planned)} (at {self.at:.3f} s, after event {self.seq}, process {self.pid})"


class FaultInjector:
    """Injects the faults of a plan into one job of this machine, in a thread of its own. A context manager.

    It stops when no fault is left, when the job has finished, or with its context. It then undoes all active faults, so
    that no process stays suspended.

    Args:
        folder: the job directory that the AM writes.
        tell: called with each injected fault, on the injector's thread.
        record: of the job; None: read from the job directory.

    Attributes:
        injected: the injected faults, in order.

    Raises:
        UnknownJobError: there is no such job.
    """

    def __init__(
        self,
        folder: JobFolder,
        plan: FaultPlan,
        tell: Callable[[InjectedFault], None] = lambda injected: None,
        record: JobRecord | None = None,
    ) -> None:
        self.injected: list[InjectedFault] = []
        self._folder = folder
        self._plan = plan
        self._tell = tell
        record = record or record_of(Home(folder.path.parent.parent), folder.job_id)
        self._submitted = record.submitted
        self._app = Application(record.job_id, record.spec)
        self._tail = EventTail(folder)
        self._conductor = Conductor(plan)
        self._seq = 0
        self._last_at = 0.0
        self._victims: dict[int, Victim] = {}
        self._lasting: dict[int, Injection] = {}
        self._turns: dict[int, tuple[float, bool]] = {}
        self._stop = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"injector of {folder.job_id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait(self, timeout: float) -> bool:
        """Wait until no fault is left or the job has finished; return False on timeout."""
        self._thread.join(timeout)
        self._raise()
        return not self._thread.is_alive()

    def close(self) -> None:
        """Stop, undo all active faults, and raise the thread's error, if any."""
        self._stop.set()
        self._thread.join()
        self._raise()

    def _raise(self) -> None:
        if self._failed:
            raise self._failed

    # --- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with _Waker(self._folder.path) as waker:
                while not self._stop.is_set() and not self._over():
                    self._follow()
                    self._strike_due()
                    waker.wait(self._timeout())
        except Exception as error:  # raised in `wait` and `close`
            self._failed = error
        finally:
            for number in list(self._lasting):
                self._undo(self._lasting[number])

    def _over(self) -> bool:
        return (self._conductor.is_done and not self._lasting) or self._has_ended()

    def _has_ended(self) -> bool:
        return self._folder.summary.exists() or not self._folder.path.exists()

    def _follow(self) -> None:
        for entry in self._tail.read_new():
            self._app.handle(entry.event, entry.at)
            self._seq, self._last_at = entry.seq, entry.at
            self._conductor.saw(entry.seq, entry.at, entry.event, self._app.state)
            self._strike_due()  # before the next event: targets are looked up in the state after this one

    def _now(self) -> float:
        return max(self._last_at, clock.wall() - self._submitted)

    def _strike_due(self) -> None:
        now = self._now()
        for injection in list(self._conductor.due(now, self._app.state)):
            if injection.over:
                self._undo(self._lasting.get(injection.number, injection))
                continue
            try:
                pid = self._begin(injection)
            except NoTargetError:
                self._conductor.again(injection, now + _AGAIN)
                continue
            self._note(InjectedFault(planned=injection.planned, seq=self._seq, at=now, pid=pid))
        self._take_turns()

    def _note(self, injected: InjectedFault) -> None:
        self.injected.append(injected)
        self._tell(injected)

    def _begin(self, injection: Injection) -> int:
        harm = injection.planned.harm
        pid = 0
        if isinstance(harm, ON_THE_WAY):
            give(self._folder.path / ORDERS, injection, self._plan.seed, self._meant(injection))
        else:
            victim = process_targets.find(injection.target, self._app.state)
            process_targets.inject(victim, harm)
            self._victims[injection.number] = victim
            pid = victim.pid
        if not isinstance(harm, Kill):
            self._lasting[injection.number] = injection
        if isinstance(harm, Slow):
            self._turns[injection.number] = (time.monotonic() + TURN * (1 - harm.share), False)
        return pid

    def _meant(self, injection: Injection) -> str:
        """Return the incarnation of the target executor; empty for every executor of the task.

        Raises:
            NoTargetError: no executor of the task is attached.
        """
        task = self._app.state.tasks.get(injection.target.task) if injection.target.task else None
        if task is not None and isinstance(injection.planned.moment, AtStart):
            return ""
        if task is None or task.incarnation is None:
            raise NoTargetError(f"there is no {who(injection.target)}")
        return task.incarnation

    def _undo(self, injection: Injection) -> None:
        self._lasting.pop(injection.number, None)
        self._turns.pop(injection.number, None)
        if isinstance(injection.planned.harm, ON_THE_WAY):
            give(self._folder.path / ORDERS, replace(injection, over=True), self._plan.seed)
        elif victim := self._victims.pop(injection.number, None):
            process_targets.undo(victim, injection.planned.harm)

    # --- slowing down ---------------------------------------------------------------------------------------------

    def _take_turns(self) -> None:
        """Suspend and resume slowed processes in turn."""
        now = time.monotonic()
        for number, (until, runs) in list(self._turns.items()):
            harm, victim = self._lasting[number].planned.harm, self._victims[number]
            if now < until or not isinstance(harm, Slow):
                continue
            if not victim.send(signal.SIGSTOP if runs else signal.SIGCONT):
                del self._turns[number]  # it has exited
                continue
            self._turns[number] = (now + TURN * ((1 - harm.share) if runs else harm.share), not runs)

    def _timeout(self) -> float:
        """Return the seconds until the next action that needs no event."""
        times = [until - time.monotonic() for until, _ in self._turns.values()]
        if self._conductor.next_at is not None:
            times.append(self._conductor.next_at - self._now())
        return max(0.0, min([_LOOK_AGAIN, *times]))


class _Waker:
    """Waits until a file of a directory changes; without inotify, it polls."""

    def __init__(self, folder: Path) -> None:
        self._inotify: Inotify | None = None
        try:
            self._inotify = Inotify()
            self._inotify.add(folder, InotifyMask.MODIFY | InotifyMask.CREATE | InotifyMask.MOVED_TO)
        except OSError:
            self._inotify = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inotify:
            self._inotify.close()

    def wait(self, seconds: float) -> None:
        """Wait for a change, at most `seconds`."""
        if self._inotify is None:
            time.sleep(min(seconds, _AGAIN))
            return
        poll = select.poll()
        poll.register(self._inotify.descriptor, select.POLLIN)
        poll.poll(seconds * 1000)
        self._inotify.read()
