"""Names the process that NCCL's RAS service finds behind the others, or does not reach. Pure.

Facts of NCCL 2.24 to 2.30, from `src/ras/client_support.cc` and the user guide's `troubleshooting/ras.rst`. The answer
to VERBOSE STATUS is text; it names processes by pid in these lines:

    INCOMPLETE                                              also DEAD: a process that does not respond
      Missing communicator data from 1 job process
      Process 3487984 on node 172.16.64.213 managing GPU 5

    #0-0 (27a079b828ff1a75) MISMATCH
      Communicator ranks have different AllReduce operation counts        2.24 and 2.25: `collective operation counts`
      26 ranks have launched up to operation 6650           or: `have not launched any operations`
      6 ranks have launched up to operation 6649
      Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210     each of the line above; of outliers only
      Rank 9 has launched up to operation 6649 -- GPU 0 managed by process 483072 on node 172.16.64.210
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tony.diagnosis.collective_trace import LateTask
from tony.model.ids import TaskId

#: Begins the part of the stack traces with the answer.
STATUS_HEAD = "=== NCCL RAS"
_PROCESS = re.compile(r"^=== process (\d{1,9}): ", re.MULTILINE)
_MISSING = re.compile(r"^  Process (?P<pid>\d{1,9}) on node \S+ managing GPU")
_COUNTS = re.compile(r"^  Communicator ranks have different (?P<name>\w+) operation counts")
_LAUNCHED = r"(?:launched up to operation (?P<count>\d{1,18})|not launched any operations)"
_SEVERAL = re.compile(rf"^  \d+ ranks have {_LAUNCHED}")
_RANK = re.compile(rf"^  Rank \d+(?P<has> has {_LAUNCHED})? -- GPU .{{1,60}} managed by process (?P<pid>\d{{1,9}}) ")
_MAX_LINE_CHARACTERS = 300
_MAX_LINES = 1000


@dataclass(frozen=True, slots=True)
class LateProcess:
    """A process, by its pid on its host, and what NCCL reports of it."""

    pid: int
    report: str


def parse_pids(text: str) -> frozenset[int]:
    """Return the processes in the stack traces of a task."""
    return frozenset(map(int, _PROCESS.findall(text)))


def parse_status(text: str) -> Sequence[LateProcess]:
    """Return the processes that NCCL does not reach, then those that have launched the fewest operations.

    Args:
        text: stack traces of a task; they may contain NCCL's answer.
    """
    answer = _PROCESS.split(text.partition(STATUS_HEAD)[2], maxsplit=1)[0]
    lines = answer.splitlines()[:_MAX_LINES]
    missing: list[LateProcess] = []
    behind: list[LateProcess] = []
    section: _Counts | None = None
    for line in lines:
        if match := _MISSING.match(line):
            missing.append(LateProcess(int(match["pid"]), "does not respond to NCCL"))
        elif match := _COUNTS.match(line):
            section = _Counts(match["name"])
        elif section is None or not line.startswith("  "):
            behind += section.find_late() if section else []
            section = None
        elif len(line) <= _MAX_LINE_CHARACTERS:
            section.read(line)
    return [*missing, *behind, *(section.find_late() if section else [])]


class _Counts:
    """The operations of one kind that the processes of a communicator have launched."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._counts: set[int] = set()
        self._count = 0
        self._processes: list[tuple[int, int]] = []

    def read(self, line: str) -> None:
        """Read the count of several processes, or the pid of one, perhaps with its own count."""
        several, rank = _SEVERAL.match(line), _RANK.match(line)
        match = several or rank
        if match and (several or (rank and rank["has"])):
            self._count = int(match["count"] or 0)
            self._counts.add(self._count)
        if rank:
            self._processes.append((self._count, int(rank["pid"])))

    def find_late(self) -> Sequence[LateProcess]:
        """Return the processes with the lowest count, if others have a higher one."""
        fewest, most = min(self._counts, default=0), max(self._counts, default=0)
        report = f"has launched {fewest:,} {self._name} operations of NCCL, others up to {most:,}"
        return [LateProcess(pid, report) for count, pid in self._processes if count == fewest < most]


def find_late_process(late: Sequence[LateProcess], pids: Mapping[TaskId, frozenset[int]]) -> LateTask | None:
    """Return the task of the first process that is in exactly one; containers may use the same pids."""
    for process in late:
        owners = [task for task, numbers in pids.items() if process.pid in numbers]
        if len(owners) == 1:
            return LateTask(owners[0], f"{owners[0]} (process {process.pid}) {process.report}")
    return None
