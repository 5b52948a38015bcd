"""Follow the event log of a real job, and inject faults into its unmodified processes, from outside.

    with FaultInjector(folder, [PlannedFault(Kill(), program("worker:1"), SessionOpens(2))], record) as injector:
        ...
    injector.injected

Connection faults need executors that run as `tests.support.faulty_executor orders`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.support.faults import process_targets
from tests.support.faults.faulty_connection import ORDERS, Order, append_order
from tests.support.faults.plan import (
    AfterEvent,
    AtStart,
    ConnectionFault,
    JobIs,
    Kill,
    PlannedFault,
    SessionOpens,
    TaskMilestone,
    TaskReaches,
)
from tests.support.faults.process_targets import NoTargetError, Victim
from tony import clock
from tony.core.application import Application
from tony.core.events import Event, Exited, FirstOutput, Registered, SessionOpened, Started
from tony.history.event_log import EventTail
from tony.model.state_directory import JobFolder
from tony.model.states import JobState
from tony.model.submission_record import JobRecord

#: Seconds between reads of the log.
_POLL_SECONDS = 0.005
#: Seconds until the retry of a fault whose target is not running.
_RETRY_SECONDS = 0.02
_MILESTONES: dict[TaskMilestone, type[Registered] | type[Started] | type[FirstOutput] | type[Exited]] = {
    TaskMilestone.REGISTERED: Registered,
    TaskMilestone.STARTED: Started,
    TaskMilestone.PRINTED: FirstOutput,
    TaskMilestone.EXITED: Exited,
}


@dataclass(slots=True)
class _ActiveFault:
    planned: PlannedFault
    victim: Victim | None
    ends_at: float


class FaultInjector:
    """Injects faults into one job of this machine, in a thread of its own. A context manager.

    It stops when no fault is left, when the job has finished, or with its context. It then undoes all active faults, so
    that no process stays suspended.

    Args:
        folder: the job directory that the AM writes.
        seed: of the random choices of connection faults.

    Attributes:
        injected: the injected faults, in order.
    """

    def __init__(self, folder: JobFolder, faults: Sequence[PlannedFault], record: JobRecord, seed: int = 0) -> None:
        self.injected: list[PlannedFault] = []
        self._folder = folder
        self._seed = seed
        self._submitted = record.submitted
        self._app = Application(record.job_id, record.spec)
        self._tail = EventTail(folder)
        self._last_at = 0.0
        self._states: set[JobState] = set()
        self._waiting = dict(enumerate(faults))
        self._due: dict[int, tuple[float, PlannedFault]] = {}
        self._active: dict[int, _ActiveFault] = {}
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"injector of {folder.job_id}", daemon=True)
        for number, planned in enumerate(faults):
            if isinstance(planned.moment, AtStart):
                self._schedule(number, 0.0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._raise()

    def wait(self, timeout: float) -> bool:
        """Wait until no fault is left or the job has finished; return False on timeout."""
        self._thread.join(timeout)
        self._raise()
        return not self._thread.is_alive()

    def _raise(self) -> None:
        if self._error:
            raise self._error

    # --- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_done() and not self._stop.wait(_POLL_SECONDS):
                for entry in self._tail.read_new():
                    self._last_at = entry.at
                    self._app.handle(entry.event, entry.at)
                    self._note_event(entry.seq, entry.event)
                    self._inject_due()  # before the next event: targets are looked up in the state after this one
                self._inject_due()
        except Exception as error:  # raised in `wait` and `__exit__`
            self._error = error
        finally:
            for number in list(self._active):
                self._undo(number)

    def _is_done(self) -> bool:
        is_finished = self._folder.summary.exists() or not self._folder.path.exists()
        return is_finished or not (self._waiting or self._due or self._active)

    def _note_event(self, seq: int, event: Event) -> None:
        state = self._app.state.job
        is_new, self._states = state not in self._states, self._states | {state}
        for number, planned in list(self._waiting.items()):
            match planned.moment:
                case AfterEvent(seq=wanted):
                    is_now = seq >= wanted
                case SessionOpens(session=session):
                    is_now = isinstance(event, SessionOpened) and event.session >= session
                case TaskReaches(task=task, milestone=milestone, session=session):
                    is_now = (
                        isinstance(event, _MILESTONES[milestone])
                        and event.task == task
                        and session in (None, event.session)
                    )
                case JobIs(state=wanted_state):
                    is_now = is_new and state is wanted_state
                case _:
                    is_now = False
            if is_now:
                self._schedule(number, self._last_at)

    def _schedule(self, number: int, at: float) -> None:
        planned = self._waiting.pop(number)
        self._due[number] = (at + planned.later, planned)

    def _inject_due(self) -> None:
        now = max(self._last_at, clock.wall() - self._submitted)
        for number, active in list(self._active.items()):
            if active.ends_at <= now:
                self._undo(number)
        for number, (at, planned) in sorted(self._due.items(), key=lambda item: item[1][0]):
            if at > now:
                continue
            try:
                victim = self._begin(number, planned)
            except NoTargetError:
                self._due[number] = (now + _RETRY_SECONDS, planned)
                continue
            del self._due[number]
            self.injected.append(planned)
            if not isinstance(planned.fault, Kill):
                # Counted from the actual injection, so that a late one is not undone at once.
                ends_at = float("inf") if planned.lasts is None else now + planned.lasts
                self._active[number] = _ActiveFault(planned, victim, ends_at)

    def _begin(self, number: int, planned: PlannedFault) -> Victim | None:
        if isinstance(planned.fault, ConnectionFault):
            self._order(number, planned, self._find_incarnation(planned))
            return None
        victim = process_targets.find(planned.target, self._app.state)
        process_targets.inject(victim, planned.fault)
        return victim

    def _find_incarnation(self, planned: PlannedFault) -> str:
        """Return the incarnation of the target executor; empty for every executor of the task.

        Raises:
            NoTargetError: no executor of the task is attached.
        """
        assert planned.target.task is not None
        if isinstance(planned.moment, AtStart):
            return ""
        incarnation = self._app.state.tasks[planned.target.task].incarnation
        if incarnation is None:
            raise NoTargetError(f"there is no {planned.target}")
        return incarnation

    def _undo(self, number: int) -> None:
        active = self._active.pop(number)
        if active.victim:
            process_targets.undo(active.victim, active.planned.fault)
        else:
            self._order(number, active.planned, is_over=True)

    def _order(self, number: int, planned: PlannedFault, incarnation: str = "", *, is_over: bool = False) -> None:
        assert isinstance(planned.fault, ConnectionFault)
        order = Order(number, planned.fault, planned.target.task, incarnation, self._seed, is_over)
        append_order(self._folder.path / ORDERS, order)
