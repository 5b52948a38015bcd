"""The names of tasks' log files.

Each stream of a task has one file per session and task attempt; a full file is renamed to end in `.1` and a new one
started.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tony.model.ids import TaskId

OUT = "out"
ERR = "err"
STREAMS = (OUT, ERR)
#: Ending of the file with the stack traces of a task attempt.
STACKS = "stacks"
#: Stream of the lines of evidence that are not output, but the kernel's counters and its log.
KERNEL = "kernel"
#: In the line that a watchdog writes below the last one of the log of its executor.
WATCHDOG_WORDS = "; the watchdog killed "
#: Ending of the older part after a rotation.
ROTATED = ".1"
_PATTERN = r"([A-Za-z][A-Za-z0-9_-]*)-(\d{1,9})\.s(\d{1,9})\.t(\d{1,9})\.(out|err)"


class LogName(NamedTuple):
    """The parts of a log file's name: `worker-0.s1.t1.out`. HDFS refuses `:` in names."""

    role: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which is never called on a name
    session: int
    try_: int
    stream: str

    @property
    def task(self) -> str:
        """The task, such as `worker:0`."""
        return str(TaskId(self.role, self.index))

    @property
    def file(self) -> str:
        """The file name."""
        return f"{self.role}-{self.index}.s{self.session}.t{self.try_}.{self.stream}"

    def build_rotated_path(self, folder: Path) -> Path:
        """Return the path of the older part after a rotation."""
        return folder / f"{self.file}{ROTATED}"

    @property
    def order(self) -> tuple[str, int, int, int, int]:
        """Sort key: role, index, session, task attempt; stdout before stderr."""
        return self.role, self.index, self.session, self.try_, STREAMS.index(self.stream)

    @classmethod
    def parse(cls, file: str) -> LogName | None:
        """Parse a file name, rotated or not; return None if it is not a task's log."""
        match = re.fullmatch(_PATTERN, file.removesuffix(ROTATED), re.ASCII)
        return LogName(match[1], int(match[2]), int(match[3]), int(match[4]), match[5]) if match else None
