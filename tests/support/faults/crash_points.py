"""Faults at moments that only the AM itself can hit: between two bytes of its log, between log and effects.

Events that arrive together are logged and performed together, so a fault of one event affects all of them. Each fault
is injected once in a job, over all AM attempts; it is recorded first.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.faults.plan import (
    AfterEvent,
    EventStage,
    FaultPlan,
    FillDisk,
    Kill,
    PlannedFault,
    ProcessKind,
    Within,
)
from tests.support.faults.plan_parser import format_fault
from tony.am.master import Master
from tony.core.actions import Action
from tony.core.events import Event
from tony.errors import ConfigError, Problem
from tony.history.event_log import Header, LogWriter
from tony.model.layout import JobFolder
from tony.storage.stores.disk_errors import build_storage_error

#: The file in the job directory to which an AM appends each injected fault, one JSON object a line.
INJECTED = "injected"


class CrashPoints:
    """The remaining faults of the AM of one job.

    Raises:
        ConfigError: the plan has a fault that cannot be injected inside the AM.
    """

    def __init__(self, plan: FaultPlan, folder: JobFolder) -> None:
        self._file = folder.path / INJECTED
        done = {each["number"] for each in _lines(self._file)}
        problems = [
            Problem(key="", message=f"{format_fault(planned)!r} cannot be injected inside the AM: {_INSIDE}")
            for planned in plan.faults
            if not _is_inside(planned)
        ]
        if problems:
            raise ConfigError(problems)
        self._left = {number: planned for number, planned in enumerate(plan.faults) if number not in done}
        #: Number of the fault to inject amid or after the effects of the last logged events.
        self.armed: int | None = None
        self.amid = False

    def at(self, seqs: Sequence[int], stage: EventStage | None) -> tuple[int, PlannedFault] | None:
        """Find the fault at a stage of these events; None as stage: after all effects.

        Returns:
            Its number and the fault, or None.
        """
        for number, planned in self._left.items():
            match planned.moment:
                case Within(seq=seq, stage=wanted) if wanted is stage and seq in seqs:
                    return number, planned
                case AfterEvent(seq=seq) if stage is None and seqs and seq <= seqs[-1]:
                    return number, planned
        return None

    def inject(self, number: int, seq: int) -> None:
        """Record a fault, and inject it.

        Raises:
            OSError: the injected fault is a full disk.
        """
        planned = self._left.pop(number)
        note = {"number": number, "planned": format_fault(planned), "pid": os.getpid(), "last": seq}
        with self._file.open("ab", buffering=0) as out:
            out.write(json.dumps(note).encode() + b"\n")
        if isinstance(planned.harm, Kill):
            os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()
        raise OSError(28, "No space left on device")


_INSIDE = (
    "only 'kill master' and 'fill disk of master' are possible, after an event or while it is handled. Use "
    "FaultInjector for other faults."
)


def _is_inside(planned: PlannedFault) -> bool:
    return (
        planned.target.part is ProcessKind.MASTER
        and isinstance(planned.harm, Kill | FillDisk)
        and isinstance(planned.moment, Within | AfterEvent)
        and not planned.later
        and planned.lasts is None
    )


def _lines(file: Path) -> list[dict[str, object]]:
    try:
        return [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    except FileNotFoundError:
        return []


def read_injected(folder: JobFolder) -> list[str]:
    """Return the faults injected inside the AMs of a job, in order."""
    return [str(line["planned"]) for line in _lines(folder.path / INJECTED)]


class CrashingWriter(LogWriter):
    """An event log writer that kills its process while writing, or reports a full disk."""

    fates: CrashPoints

    def __init__(self, path: Path, header: Header, first_seq: int = 1) -> None:
        self._events: list[int] = []
        super().__init__(path, header, first_seq)

    def append(self, event: Event, at: float, wall: float) -> int:
        """Append one event."""
        seq = super().append(event, at, wall)
        self._events.append(seq)
        return seq

    def flush(self) -> None:
        """Write the appended events, unless a fault is due before."""
        seqs, self._events = self._events, []
        if found := self.fates.at(seqs, EventStage.UNWRITTEN):
            self._inject(found[0], seqs[-1])
        if found := self.fates.at(seqs, EventStage.TORN):
            moment = found[1].moment
            assert isinstance(moment, Within)
            self._tear(seqs.index(moment.seq) - len(seqs))
            self._inject(found[0], seqs[-1])
        super().flush()
        if found := self.fates.at(seqs, EventStage.LOGGED):
            self._inject(found[0], seqs[-1])
        for stage in (EventStage.HALF_DONE, None):
            if self.fates.armed is None and (found := self.fates.at(seqs, stage)):
                self.fates.armed, self.fates.amid = found[0], stage is EventStage.HALF_DONE

    def _tear(self, index: int) -> None:
        """Write all lines before one, and half of that one."""
        lines = self._pending[: len(self._pending) + index]
        torn = self._pending[index]
        os.write(self._fd, b"".join(lines) + torn[: len(torn) // 2])

    def _inject(self, number: int, seq: int) -> None:
        try:
            self.fates.inject(number, seq)
        except OSError as error:
            self._pending.clear()  # as after a real error
            raise build_storage_error(f"write the event log {self._path}", self._path.parent, error) from error


class CrashingMaster(Master):
    """An AM that dies amid or after the effects of an event."""

    def _perform_all(self, actions: Sequence[Action], told: Callable[[], None]) -> None:
        fates = CrashingWriter.fates
        number, fates.armed = fates.armed, None
        if number is None:
            super()._perform_all(actions, told)
            return
        some = actions[: len(actions) // 2] if fates.amid else actions
        super()._perform_all(some, told)
        fates.inject(number, 0)
