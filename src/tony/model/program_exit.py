"""How a user program exited: the reason, its exit code or signal, and its resource usage."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tony.model.diagnosis import EvidenceLine

#: Signals that a crash of native code ends with.
CRASH_SIGNALS = frozenset({"SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE"})


class ExitReason(Enum):
    """Reason for the end of a task attempt."""

    EXITED = "exited"  #: it exited by itself, with a code or by a signal that tony did not send
    STOPPED = "stopped"  #: it exited after tony stopped it
    NOT_STARTED = "not-started"  #: it was stopped before it was started
    LAUNCH_FAILED = "launch-failed"  #: the command could not be started
    REFUSED = "refused"  #: a limit of the machine left no process or no open file for it
    MEMORY = "memory"  #: it reached its memory limit
    PORT_COLLISION = "port-collision"  #: another process took a port reserved for it


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitStatus:
    """Exit status of one user process, as measured by the executor.

    Attributes:
        reason: why the task attempt ended.
        code: exit code 0–255, or None if a signal ended it or it never ran.
        signal: the signal's name, such as `SIGKILL`, or None.
        message: one sentence for users; empty when code or signal suffice.
        peak_memory: peak bytes used by the program and its children; None if not measured.
        cpu_time: seconds, user and system, including children; None if not measured.
        duration: seconds from start to end.
        first_output, last_output: seconds from start to the first and the last output; None without output.
        output_before_stop: seconds from start to the last output before tony stopped it; None if it did not.
        tail: the last lines of its stderr (of stdout when stderr is empty), oldest first, bounded.
        step: the last one that it reported; None if it reported none.
        evidence: at most four lines that say why it failed, the decisive one first; of a program that exited with code
            0, the exception with which its output ended nevertheless.
    """

    reason: ExitReason
    code: int | None = None
    signal: str | None = None
    message: str = ""
    peak_memory: int | None = None
    cpu_time: float | None = None
    duration: float = 0.0
    first_output: float | None = None
    last_output: float | None = None
    output_before_stop: float | None = None
    tail: tuple[str, ...] = ()
    evidence: tuple[EvidenceLine, ...] = ()
    step: float | None = None

    @property
    def ok(self) -> bool:
        """Return True if the program exited by itself with code 0."""
        return self.reason is ExitReason.EXITED and self.code == 0

    @property
    def is_bare(self) -> bool:
        """Return True if exit code or signal is all that `describe` returns."""
        return not self.message and (self.signal is not None or self.code is not None)

    def describe(self) -> str:
        """Return a short description: `exit code 1`, `killed by SIGKILL`, or the message."""
        if self.message:
            return self.message
        if self.signal:
            return f"killed by {self.signal}"
        if self.code is not None:
            return f"exit code {self.code}"
        return self.reason.value.replace("-", " ")
