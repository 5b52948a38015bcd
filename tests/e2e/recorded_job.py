"""A job that things happen to: four tasks in two roles, one restart, and every start of a program written down."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.lab import Lab, until
from tests.support.child_modules import JobModules, module_words
from tests.support.faults.injector import FaultInjector
from tests.support.faults.plan import PlannedFault
from tony.history.job_record import read_job
from tony.model.state_directory import Home, JobFolder

#: Executors that have the network faults that a test injects.
FAULTY_EXECUTOR = module_words("faulty_executor", "orders")
FAULTY_NETWORK = JobModules(executor=FAULTY_EXECUTOR)
TASKS = ("worker:0", "worker:1", "worker:2", "ps:0")
#: Session 1 ends by an exit code of worker:1, once all tasks run; session 2 by its workers, once all tasks run and the
#: gate is open.
PROGRAM = """
import os, pathlib, sys, time
out = pathlib.Path(os.environ["OUT"])
task = os.environ["JOB_NAME"] + ":" + os.environ["TASK_INDEX"]
session = int(os.environ["SESSION_ID"])
line = f"{task} {session} {os.getpid()}\\n".encode()
file = os.open(out / "starts", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
os.write(file, line)
print("begins", flush=True)
def all_run():
    return sum(int(each.split()[1]) == session for each in (out / "starts").read_text().splitlines()) >= 4
while not all_run():
    time.sleep(0.01)
while session == 1 and task != "worker:1" and not (out / "calm").exists():
    time.sleep(0.02)
if session == 1 and not (out / "calm").exists():
    time.sleep(0.1)
    sys.exit(7)
while task == "ps:0" or not (out / "gate").exists():
    time.sleep(0.02)
"""
JOB = """
command = "python3 x.py"
max_restarts = {restarts}
stop_grace = "2s"
backoff = "50ms"
env = {{ OUT = "{out}" }}
{head}
[roles.ps]
memory = "128m"
kind = "untracked"
[roles.worker]
memory = "128m"
instances = 3
"""


class Rehearsal:
    """One such job.

    Args:
        calm: session 1 does not fail by itself.
        gate: whether session 2 may end at once.
        modules: run in place of its AM and its executors.
    """

    def __init__(
        self,
        lab: Lab,
        modules: JobModules | None = None,
        *,
        calm: bool = False,
        gate: bool = True,
        restarts: int = 1,
        head: str = "",
        name: str = "rehearsed",
    ) -> None:
        self.lab = lab
        self.out = lab.root / name
        self.out.mkdir()
        if calm:
            (self.out / "calm").touch()
        if gate:
            self.open_gate()
        text = JOB.format(restarts=restarts, out=self.out, head=head)
        self.job = lab.detach(lab.job_file(text, {"x.py": PROGRAM}), modules=modules)

    @property
    def folder(self) -> JobFolder:
        return Home(self.lab.home).job(self.job)

    def injector(self, *faults: PlannedFault, seed: int = 0) -> FaultInjector:
        record = read_job(self.folder)
        assert record
        return FaultInjector(self.lab.am_folder(self.job), faults, record, seed)

    def open_gate(self) -> None:
        (self.out / "gate").touch()

    def starts(self) -> list[tuple[str, int]]:
        """Task and session of every program that was ever started, sorted."""
        return sorted((task, session) for task, session, _ in self._lines())

    def pids(self, session: int) -> dict[str, int]:
        """Task -> the pid of its program in a session, as that has said it."""
        return {task: pid for task, number, pid in self._lines() if number == session}

    def wait_running(self, session: int) -> dict[str, int]:
        """Waits until all programs of a session run; answers their pids."""
        return dict(until(lambda: len(self.pids(session)) == 4 and self.pids(session), f"session {session} runs"))

    def _lines(self) -> list[tuple[str, int, int]]:
        file = self.out / "starts"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(task, int(session), int(pid)) for task, session, pid in map(str.split, lines)]

    def replays(self) -> str:
        """Why its log does not replay; empty if it does."""
        self.lab.tony("events", self.job)  # which brings the log here
        done = self.lab.tony("replay", self.job)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    def said(self) -> str:
        return Path(self.folder.am_log).read_text()


def once_in(*sessions: int) -> list[tuple[str, int]]:
    """The starts of a job whose programs were started once in each of these sessions."""
    return sorted((task, session) for task in TASKS for session in sessions)
