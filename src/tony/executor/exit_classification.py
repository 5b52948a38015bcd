"""How a try ended, from what was seen. Pure."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from tony.dataclass import dataclass
from tony.model.exit_status import ExitReason
from tony.units import format_duration

#: As many names of processes are told.
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit:
    """How one process of the program ended, at time `at`: by code or by signal number."""

    process: int
    code: int | None
    signum: int | None
    at: float

    @property
    def failed(self) -> bool:
        """Anything but code 0."""
        return self.code != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitObservation:
    """What was seen of a try.

    Attributes:
        ends: of all its processes, in the order in which they came.
        through_shell: bash ran the command, so that codes above 128 may be signals of what it ran.
        stopped: we told it to end before the decisive end.
        stop_reason: why.
        forced_after: seconds of grace that were not enough; None if it ended before.
        memory: what became of the memory limit; empty if it was kept.
        collision: who had its port; empty if nobody.
        missing: what file it did not find, and why; empty if none.
        loss: what of its output is not on disk; empty if nothing.
        left: names of what it had left running when it ended by itself, and what we ended.
        undead: pids of what it had started and could not be killed.
    """

    ends: Sequence[ProcessExit]
    through_shell: bool = False
    stopped: bool = False
    stop_reason: str = ""
    forced_after: float | None = None
    memory: str = ""
    collision: str = ""
    missing: str = ""
    loss: str = ""
    left: Sequence[str] = ()
    undead: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifiedExit:
    """The verdict: the end that decided, and why the try is over."""

    end: ProcessExit
    reason: ExitReason
    message: str


def judge(seen: ExitObservation) -> ClassifiedExit:
    """Finds the decisive end (the first failure, else the last end), the reason and the sentence."""
    end = next((end for end in seen.ends if end.failed), seen.ends[-1])
    reason, head = _reason(seen, end)
    notes = []
    if len(seen.ends) > 1 and end.failed and reason is ExitReason.EXITED:
        notes.append(f"the process with LOCAL_RANK {end.process} was the first of {len(seen.ends)} to fail")
    if seen.missing and reason is ExitReason.EXITED:
        notes.append(seen.missing)
    if seen.memory and reason is not ExitReason.MEMORY:
        notes.append(seen.memory)
    if seen.forced_after is not None:
        notes.append(f"it did not end within {format_duration(seen.forced_after)} of SIGTERM and was killed")
    if seen.loss:
        notes.append(seen.loss)
    if seen.left and reason is ExitReason.EXITED:
        notes.append(_left_behind(seen.left))
    if seen.undead:
        notes.append(f"could not be killed: {', '.join(map(str, seen.undead))}")
    plain = reason is ExitReason.EXITED and not notes and head == _plain(end)
    return ClassifiedExit(end=end, reason=reason, message="" if plain else "; ".join([head, *notes]))


def _left_behind(names: Sequence[str]) -> str:
    one = len(names) == 1
    count = "one process" if one else f"{len(names)} processes"
    shown = ", ".join(dict.fromkeys(names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
    return f"it left {count} running, which {'was' if one else 'were'} ended ({shown}): a program is over when it exits"


def signal_name(signum: int) -> str:
    """`SIGKILL`, also for real-time signals that have no name of their own."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"SIGRTMIN+{signum - signal.SIGRTMIN}" if signum > signal.SIGRTMIN else f"signal {signum}"


def _reason(seen: ExitObservation, end: ProcessExit) -> tuple[ExitReason, str]:
    if seen.stopped:
        return ExitReason.STOPPED, f"stopped ({seen.stop_reason})" if seen.stop_reason else "stopped"
    if end.failed and seen.memory:
        return ExitReason.MEMORY, seen.memory
    if end.failed and seen.collision:
        return ExitReason.PORT_COLLISION, seen.collision
    if seen.through_shell and end.code is not None and 128 < end.code <= 128 + signal.SIGRTMAX:
        name = signal_name(end.code - 128)
        return ExitReason.EXITED, f"exit code {end.code} (a process of its shell was killed by {name}, or it said so)"
    return ExitReason.EXITED, _plain(end)


def _plain(end: ProcessExit) -> str:
    return f"exit code {end.code}" if end.signum is None else f"killed by {signal_name(end.signum)}"
