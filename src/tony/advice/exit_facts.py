"""What the event log tells besides the timeline: how programs ended, and what failed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tony.core import events as ev
from tony.dataclass import dataclass, field
from tony.history.event_log import LogEntry
from tony.model.exit_status import ExitReason, ExitStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramExit:
    """One try of a task is over; `at` in seconds since the job was accepted."""

    task: str
    role: str
    session: int
    at: float
    status: ExitStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A failure that got its verdict.

    Attributes:
        task: empty if it was no single one.
        decision: as in `Judged`.
        ran: seconds that the program had run; None if none of it is known.
        how: exit code or signal, a few words; empty if no program ended.
        by_program: the program ended by itself: nobody took its container away.
    """

    at: float
    session: int
    task: str
    decision: str
    what: str
    ran: float | None
    how: str
    by_program: bool


@dataclass(slots=True)
class Exits:
    """Looks at each event on its way to somebody else."""

    ended: list[ProgramExit] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    over_memory: list[str] = field(default_factory=list)  #: roles, one for each try that died of it
    _last: dict[str, ProgramExit] = field(default_factory=dict)
    _tasks: dict[str, str] = field(default_factory=dict)  #: container -> task
    _session: int = 0

    def watch(self, entries: Iterable[LogEntry]) -> Iterator[LogEntry]:
        """The same entries, looked at."""
        for entry in entries:
            self._look(entry.event, entry.at)
            yield entry

    def _look(self, event: ev.Event, at: float) -> None:
        match event:
            case ev.SessionOpened(session=session):
                self._session = session
            case ev.Registered(task=task, container=container):
                self._tasks[container] = str(task)
            case ev.Exited(task=task, session=session, status=status):
                name = str(task)
                found = ProgramExit(task=name, role=task.role, session=session, at=at, status=status)
                self.ended.append(found)
                self._last[name] = found
                if status.reason is ExitReason.MEMORY:
                    self.over_memory.append(task.role)
            case ev.ContainerEnded(container=container, over_memory=True):
                died = self._tasks.get(container, "")
                last = self._last.get(died)
                told = last and last.session == self._session and last.status.reason is ExitReason.MEMORY
                if died and not told:
                    self.over_memory.append(died.rpartition(":")[0])
            case ev.Judged(task=task, failure=failure, decision=decision):
                name = "" if task is None else str(task)
                last = self._last.get(name)
                if last is not None and last.session != self._session:
                    last = None
                self.failed.append(
                    Failed(
                        at=at,
                        session=self._session,
                        task=name,
                        decision=decision,
                        what=failure,
                        ran=last.status.duration if last else None,
                        how=last.status.describe() if last else "",
                        by_program=last is not None and last.status.reason is ExitReason.EXITED,
                    )
                )
