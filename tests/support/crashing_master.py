"""An AM that dies, or finds its disk full, while it handles an event: faults that cannot be injected from outside.

    JobModules(master=module_words("crashing_master", "logged:9", "full:20"))

Its arguments are `CrashPoint`s; then an AM's usual arguments: the job directory and an optional descriptor of a pipe.
Everything else is as in production, including the supervisor, which runs this program for each AM attempt.

Events that arrive together are logged and performed together, so a fault of one event affects all of them. Each fault
is injected once in a job, over all AM attempts; it is recorded first.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tony.am import main as am
from tony.am.master import Master
from tony.core.actions import Action
from tony.core.events import Event
from tony.history.event_log import Header, LogWriter
from tony.linux.disk_errors import build_storage_error
from tony.model.state_directory import JobFolder

#: The file in the job directory to which an AM appends each injected fault.
_INJECTED = "injected"


class CrashStage(Enum):
    """How far the AM has handled an event."""

    UNWRITTEN = "unwritten"  #: handled, but no byte of it is in the log
    TORN = "torn"  #: a part of its line is in the log
    FULL = "full"  #: the same, and the disk is full: the AM does not die of it
    LOGGED = "logged"  #: in the log, with no visible effects
    HALF_DONE = "half-done"  #: some of its effects are visible


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """The stage of an event at which the AM dies."""

    stage: CrashStage
    seq: int

    def __str__(self) -> str:
        return f"{self.stage.value}:{self.seq}"

    @classmethod
    def parse(cls, text: str) -> CrashPoint:
        """Parse the text of one."""
        stage, _, seq = text.partition(":")
        return cls(CrashStage(stage), int(seq))


def read_injected(folder: JobFolder) -> list[CrashPoint]:
    """Return the faults injected inside the AMs of a job, in order."""
    file = folder.path / _INJECTED
    return [CrashPoint.parse(line) for line in file.read_text().splitlines()] if file.exists() else []


class CrashPoints:
    """The remaining faults of the AM of one job.

    Attributes:
        armed: the fault to inject amid the effects of the last logged events.
    """

    def __init__(self, points: Sequence[CrashPoint], folder: JobFolder) -> None:
        self._folder = folder
        self._left = set(points) - set(read_injected(folder))
        self.armed: CrashPoint | None = None

    def find(self, seqs: Sequence[int], *stages: CrashStage) -> CrashPoint | None:
        """Find the fault at one of these stages of these events."""
        return next((point for point in self._left if point.stage in stages and point.seq in seqs), None)

    def inject(self, point: CrashPoint) -> None:
        """Record a fault, and inject it.

        Raises:
            OSError: the injected fault is a full disk.
        """
        self._left.remove(point)
        with (self._folder.path / _INJECTED).open("ab", buffering=0) as out:
            out.write(f"{point}\n".encode())
        if point.stage is CrashStage.FULL:
            raise OSError(28, "No space left on device")
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()


class CrashingWriter(LogWriter):
    """An event log writer that kills its process while writing, or reports a full disk."""

    points: CrashPoints

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
        if point := self.points.find(seqs, CrashStage.UNWRITTEN):
            self.points.inject(point)
        if point := self.points.find(seqs, CrashStage.TORN, CrashStage.FULL):
            self._tear(seqs.index(point.seq) - len(seqs))
            try:
                self.points.inject(point)
            except OSError as error:
                self._pending.clear()  # as after a real error
                raise build_storage_error(f"write the event log {self._path}", self._path.parent, error) from error
        super().flush()
        if point := self.points.find(seqs, CrashStage.LOGGED):
            self.points.inject(point)
        self.points.armed = self.points.armed or self.points.find(seqs, CrashStage.HALF_DONE)

    def _tear(self, index: int) -> None:
        """Write all lines before one, and half of that one."""
        lines = self._pending[: len(self._pending) + index]
        torn = self._pending[index]
        os.write(self._fd, b"".join(lines) + torn[: len(torn) // 2])


class CrashingMaster(Master):
    """An AM that dies amid the effects of an event."""

    def _perform_all(self, actions: Sequence[Action]) -> None:
        points = CrashingWriter.points
        point, points.armed = points.armed, None
        super()._perform_all(actions[: len(actions) // 2] if point else actions)
        if point:
            points.inject(point)


def main() -> int:
    """Run one AM attempt."""
    split = next(number for number, word in enumerate(sys.argv) if number and word.startswith("/"))
    points = [CrashPoint.parse(word) for word in sys.argv[1:split]]
    del sys.argv[1:split]
    CrashingWriter.points = CrashPoints(points, JobFolder(Path(sys.argv[1])))
    vars(am).update(LogWriter=CrashingWriter, Master=CrashingMaster)  # production has no hook for it
    return am.main()
