"""A client of tony that submits a job and follows it, measured from outside: what it prints, and when."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.failing_jobs import NS
from bench.harness import CPU, CannotRunError, Figures
from bench.measured_processes import Workshop, cpu_of, tony
from bench.process_facts import command_line, status_of
from tony.linux.process import descendants


@dataclass(slots=True)
class Submission:
    """A client that runs, and what it has printed so far, with the time at which each line was read.

    Attributes:
        begin: its start, in nanoseconds since 1970.
        tasks: of its job, each of which prints one line.
    """

    program: subprocess.Popen[bytes]
    begin: int
    tasks: int
    lines: list[tuple[int, str]] = field(default_factory=list)

    def read(self, pattern: str, count: int) -> None:
        """Read until `count` lines match."""
        assert self.program.stdout is not None
        while sum(bool(re.search(pattern, text)) for _, text in self.lines) < count:
            line = self.program.stdout.readline()
            if not line:
                raise CannotRunError(f"the job ended too early: {self.text[-2000:]}")
            self.lines.append((time.time_ns(), line.decode(errors="replace")))

    @property
    def text(self) -> str:
        """All that was read."""
        return "".join(text for _, text in self.lines)

    def after(self, moment: int) -> float:
        """Seconds from its start to a moment."""
        return (moment - self.begin) * NS

    def end(self) -> resource.struct_rusage:
        """Reads to the end; notes the moment of it as an empty line. Raises `CannotRunError` if it failed."""
        assert self.program.stdout is not None
        self.lines += [(time.time_ns(), line.decode(errors="replace")) for line in self.program.stdout]
        _, status, usage = os.wait4(self.program.pid, 0)
        self.lines.append((time.time_ns(), ""))
        self.program.returncode = os.waitstatus_to_exitcode(status)
        if self.program.returncode:
            raise CannotRunError(f"the job ended with {self.program.returncode}: {self.text[-2000:]}")
        return usage

    def figures(self) -> Figures:
        """Runs it to its end."""
        cpu = cpu_of(self.end())
        said = [(at, found) for at, text in self.lines if (found := re.search(r"\| at (\d{19})\b", text))]
        accepted = [at for at, text in self.lines if re.search(r"\bjob [\w-]+ \(bench\): ", text)]
        if len(said) != self.tasks or len(accepted) != 1:
            raise CannotRunError(f"{len(said)} lines of programs: {self.text[-2000:]}")
        printed = max(int(found[1]) for _, found in said)
        return {
            "accepted": self.after(accepted[0]),
            "line": self.after(printed),
            "terminal": self.after(max(at for at, _ in said)),
            "exit": (self.lines[-1][0] - printed) * NS,
            "end": self.after(self.lines[-1][0]),
            CPU: cpu,
        }


def write_job(folder: Path, text: str, program: str) -> Path:
    """Write a job file and its `program.py` into a folder; return the job file."""
    folder.mkdir(exist_ok=True)
    (folder / "program.py").write_text(program, encoding="utf-8")
    path = folder / "job.toml"
    path.write_text(text, encoding="utf-8")
    return path


def submit(shop: Workshop, job: Path, *words: str, tasks: int, environ: Mapping[str, str]) -> Submission:
    """Start a client that submits a job and follows it.

    Args:
        words: further arguments of `tony submit`.
    """
    begin = time.time_ns()
    command = tony("submit", *words, str(job))
    program = shop.start(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return Submission(program, begin, tasks)


def running(module: str) -> list[int]:
    """Processes in containers that run one of tony's programs, without those they have forked."""
    mine = descendants(os.getpid())
    found = {pid: status for pid in mine if module in command_line(pid) and (status := status_of(pid))}
    return [pid for pid, status in found.items() if int(status["PPid"]) not in found]
