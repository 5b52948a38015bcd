"""Follows a real job by its event log, and strikes its processes when the plan says so. From outside: the job's own
programs are those of production and know nothing of it.

    with Striker(folder, parse_plan("kill worker:1 when worker:1 started")) as striker:
        ...
    striker.struck

What is on the way between executors and their application master cannot be had from outside: for that they must be
`tony.testing.faulty_executor orders=orders`. Moments in the midst of an event are for `tony.testing.crashing_master`.
"""

from __future__ import annotations

import select
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from tony import clock
from tony.core.application import Application
from tony.dataclass import dataclass, replace
from tony.history.event_tail import EventTail
from tony.history.job_record import record_of
from tony.linux.inotify import Inotify, InotifyMask
from tony.model.job_record import JobRecord
from tony.model.layout import Home, JobFolder
from tony.testing.faults import process_targets
from tony.testing.faults.fault_files import give
from tony.testing.faults.plan import ON_THE_WAY, AtStart, FaultPlan, Kill, Slow, Strike
from tony.testing.faults.plan_parser import who, write_strike
from tony.testing.faults.process_targets import TURN, NoTargetError, Victim
from tony.testing.faults.schedule import Conductor, Injection

#: The file of orders in the job's folder that struck executors read.
ORDERS = "orders"
#: Seconds until the next try at one who is not there.
_AGAIN = 0.02
#: Seconds between two looks where the kernel does not wake us.
_LOOK_AGAIN = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """A strike that fell.

    Attributes:
        seq: of the last event that had been seen then.
        at: the job's time.
        pid: who was hit; 0 where it was not a process.
    """

    strike: Strike
    seq: int
    at: float
    pid: int

    def __str__(self) -> str:
        return f"{write_strike(self.strike)} (at {self.at:.3f} s, after event {self.seq}, process {self.pid})"


class FaultInjector:
    """Carries out a plan on one job of this machine, beside whoever made it. A context manager.

    It ends when nothing of the plan is left, when the job has ended, and with its context; whatever lasts is undone
    then, so that nobody is left standing still.

    Args:
        folder: of the job, where its application master writes it.
        tell: is told of each strike that falls, on the striker's thread.
        record: of the job; None if it is in that folder.

    Attributes:
        struck: those that have fallen, in order.

    Raises:
        UnknownJobError: there is no such job.
    """

    def __init__(
        self,
        folder: JobFolder,
        plan: FaultPlan,
        tell: Callable[[Struck], None] = lambda struck: None,
        record: JobRecord | None = None,
    ) -> None:
        self.struck: list[Struck] = []
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
        self._thread = threading.Thread(target=self._run, name=f"striker of {folder.job_id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait(self, timeout: float) -> bool:
        """Waits until nothing of the plan is left, or the job has ended; whether that is so."""
        self._thread.join(timeout)
        self._raise()
        return not self._thread.is_alive()

    def close(self) -> None:
        """Ends it, and undoes what lasts. Raises what broke it, if anything did."""
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
                    waker.wait(self._patience())
        except Exception as error:  # told to whoever waits for us
            self._failed = error
        finally:
            for number in list(self._lasting):
                self._undo(self._lasting[number])

    def _over(self) -> bool:
        return (self._conductor.is_done and not self._lasting) or self._has_ended()

    def _has_ended(self) -> bool:
        return self._folder.summary.exists() or not self._folder.path.exists()

    def _follow(self) -> None:
        for entry in self._tail.new():
            self._app.handle(entry.event, entry.at)
            self._seq, self._last_at = entry.seq, entry.at
            self._conductor.saw(entry.seq, entry.at, entry.event, self._app.state)
            self._strike_due()  # before the next event: who is struck is looked for in the state of this one

    def _now(self) -> float:
        return max(self._last_at, clock.wall() - self._submitted)

    def _strike_due(self) -> None:
        now = self._now()
        for blow in list(self._conductor.due(now, self._app.state)):
            if blow.over:
                self._undo(self._lasting.get(blow.number, blow))
                continue
            try:
                pid = self._begin(blow)
            except NoTargetError:
                self._conductor.again(blow, now + _AGAIN)
                continue
            self._note(Struck(strike=blow.strike, seq=self._seq, at=now, pid=pid))
        self._take_turns()

    def _note(self, struck: Struck) -> None:
        self.struck.append(struck)
        self._tell(struck)

    def _begin(self, blow: Injection) -> int:
        harm = blow.strike.harm
        pid = 0
        if isinstance(harm, ON_THE_WAY):
            give(self._folder.path / ORDERS, blow, self._plan.seed, self._meant(blow))
        else:
            victim = process_targets.find(blow.target, self._app.state)
            process_targets.strike(victim, harm)
            self._victims[blow.number] = victim
            pid = victim.pid
        if not isinstance(harm, Kill):
            self._lasting[blow.number] = blow
        if isinstance(harm, Slow):
            self._turns[blow.number] = (time.monotonic() + TURN * (1 - harm.share), False)
        return pid

    def _meant(self, blow: Injection) -> str:
        """Which executor: the one that lives at that moment; where none is named, every one of the task.

        Raises:
            NobodyThere: there is none now.
        """
        task = self._app.state.tasks.get(blow.target.task) if blow.target.task else None
        if task is not None and isinstance(blow.strike.moment, AtStart):
            return ""
        if task is None or task.incarnation is None:
            raise NoTargetError(f"there is no {who(blow.target)}")
        return task.incarnation

    def _undo(self, blow: Injection) -> None:
        self._lasting.pop(blow.number, None)
        self._turns.pop(blow.number, None)
        if isinstance(blow.strike.harm, ON_THE_WAY):
            give(self._folder.path / ORDERS, replace(blow, over=True), self._plan.seed)
        elif victim := self._victims.pop(blow.number, None):
            process_targets.undo(victim, blow.strike.harm)

    # --- slowing down ---------------------------------------------------------------------------------------------

    def _take_turns(self) -> None:
        """Lets those who are slowed down run for a while, or stand still for a while."""
        now = time.monotonic()
        for number, (until, runs) in list(self._turns.items()):
            harm, victim = self._lasting[number].strike.harm, self._victims[number]
            if now < until or not isinstance(harm, Slow):
                continue
            if not victim.send(signal.SIGSTOP if runs else signal.SIGCONT):
                del self._turns[number]  # it is gone
                continue
            self._turns[number] = (now + TURN * ((1 - harm.share) if runs else harm.share), not runs)

    def _patience(self) -> float:
        """Seconds until there is something to do though nothing happens."""
        times = [until - time.monotonic() for until, _ in self._turns.values()]
        if self._conductor.next_at is not None:
            times.append(self._conductor.next_at - self._now())
        return max(0.0, min([_LOOK_AGAIN, *times]))


class _Waker:
    """Waits until a file of a folder changes; where the kernel tells nothing, for a moment."""

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
        """At most so long."""
        if self._inotify is None:
            time.sleep(min(seconds, _AGAIN))
            return
        poll = select.poll()
        poll.register(self._inotify.descriptor, select.POLLIN)
        poll.poll(seconds * 1000)
        self._inotify.read()
