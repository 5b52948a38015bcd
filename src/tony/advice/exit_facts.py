"""Extracts exits and failures from the event log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tony.core import events as ev
from tony.history.event_log import LogEntry
from tony.model.exit_status import ExitReason, ExitStatus
from tony.model.ids import parse_role


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramExit:
    """The exit of one task attempt; `at` in seconds since the job was accepted."""

    task: str
    role: str
    session: int
    at: float
    status: ExitStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """A classified failure.

    Attributes:
        task: empty if it is not of a single task.
        decision: as in `FailureClassified`.
        ran: seconds that the program had run; None if unknown.
        how: exit code or signal, as text; empty if no program exited.
        by_program: the program exited by itself; its container was not taken away.
    """

    at: float
    session: int
    task: str
    decision: ev.FailureResponse
    what: str
    ran: float | None
    how: str
    by_program: bool


@dataclass(slots=True)
class Exits:
    """Collects exits and failures from a stream of events."""

    ended: list[ProgramExit] = field(default_factory=list)
    failed: list[FailureRecord] = field(default_factory=list)
    out_of_memory_roles: list[str] = field(default_factory=list)  #: role of each task attempt that ran out of memory
    _last: dict[str, ProgramExit] = field(default_factory=dict)
    _tasks: dict[str, str] = field(default_factory=dict)  #: container -> task
    _session: int = 0

    def watch(self, entries: Iterable[LogEntry]) -> Iterator[LogEntry]:
        """Yield the same entries, and record their exits and failures."""
        for entry in entries:
            self._record(entry.event, entry.at)
            yield entry

    def _record(self, event: ev.Event, at: float) -> None:
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
                    self.out_of_memory_roles.append(task.role)
            case ev.ContainerEnded(container=container, kill=ev.ClusterKill.MEMORY_LIMIT):
                died = self._tasks.get(container, "")
                last = self._last.get(died)
                is_counted = last and last.session == self._session and last.status.reason is ExitReason.MEMORY
                if died and not is_counted:
                    self.out_of_memory_roles.append(parse_role(died))
            case ev.FailureClassified(task=task, failure=failure, decision=decision):
                name = "" if task is None else str(task)
                last = self._last.get(name)
                if last is not None and last.session != self._session:
                    last = None
                self.failed.append(
                    FailureRecord(
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
