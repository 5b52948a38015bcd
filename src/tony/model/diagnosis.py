"""What a failure is: its kind, and the lines of output that prove it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from tony.model.ids import TaskId


class FailureKind(StrEnum):
    """The kind of a root cause; the word of `class` in reports."""

    USER_CODE = "user-code"  #: the program, its arguments or its environment
    USER_DATA = "user-data"  #: input that is missing, broken, or not what the program expects
    MEMORY = "memory"  #: memory of the host, the container or an accelerator ran out
    ACCELERATOR = "accelerator"  #: a GPU, its driver or its libraries
    NETWORK = "network"  #: a name, an address or a connection
    RENDEZVOUS = "rendezvous"  #: the tasks did not find each other
    NODE = "node"  #: the machine, or the container on it
    PREEMPTION = "preemption"  #: the scheduler took the container away
    QUOTA = "quota"  #: a limit of the machine, the queue or the storage
    TIMEOUT = "timeout"  #: a time limit
    HANG = "hang"  #: it stopped making progress
    LAUNCH = "launch"  #: the command could not be started
    STORAGE = "storage"  #: a disk or a remote file system
    PERMISSION = "permission"  #: something was not allowed
    KILLED = "killed"  #: a user ended it
    OURS = "ours"  #: a bug of tony


class LineMeaning(StrEnum):
    """What a line of output says about the program that printed it."""

    CAUSE = "cause"  #: what went wrong in this program
    CONSEQUENCE = "consequence"  #: another task went away, or did not answer
    SUMMARY = "summary"  #: a launcher repeats that a program failed


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceLine:
    """A line that says why a program failed.

    Attributes:
        stream: `out` or `err`; `stacks` for a frame of a stack trace, `kernel` for what the kernel counted or logged.
        number: of the line in the stream, from 1; 0 for lines that are not output.
        ago: seconds from the line to the program's exit.
        rule: name of the rule that it met; empty for a frame.
        code_place: `train.py:5 in load: rows[key]`, the user's code that raised it; empty if it is not known.
        named: tasks that did not answer, as the line says; known after the program's exit.
    """

    stream: str
    number: int
    text: str
    ago: float
    rule: str
    code_place: str = ""
    named: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What the output and the exit of one program say about its failure.

    Attributes:
        meaning: `consequence` if it failed because of another task.
        retry: the same program may succeed the next time.
        advice: what to do; may be empty.
        patch: lines of the job file that may help, in TOML; may be empty.
        evidence: at most four lines, the decisive one first.
    """

    kind: FailureKind
    meaning: LineMeaning
    retry: bool
    advice: str = ""
    patch: tuple[str, ...] = ()
    evidence: tuple[EvidenceLine, ...] = ()

    @property
    def is_consequence(self) -> bool:
        """Return True if the program failed because of another task."""
        return self.meaning is not LineMeaning.CAUSE


#: The modules in front of the class of an exception.
_MODULES = re.compile(r"^(?:[a-z_]\w*\.)+(?=[A-Z])")


def strip_modules(line: str) -> str:
    """Return the last line of a traceback without the modules of the exception's class."""
    return _MODULES.sub("", line)
