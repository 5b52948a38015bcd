"""Failures of a job of four on a real, small Hadoop: a program, a container, the application master, each `kill -9`.

The cluster is `tony mini start --nodes 2`, heartbeats at Hadoop's default of a second. Every round is a job of its own.
A program or an executor killed: until all four programs run again, by their own clocks. The application master killed:
until the full view is there again, that is, a client that asks as `tony status` does is answered by the next attempt
that all four run, and all four executors are back, by that attempt's log. A killed executor's container dies with it.

LinkedIn TonY is not measured here: its figures were recorded once, on such a cluster. It requests every container
again whatever was lost, and its programs do not outlive its application master.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from bench.failing_jobs import NS, SETTLE, TASKS, Programs, came_back, full, kill, until
from bench.harness import CannotRunError, Figures, Line, Result, Rounds, Target, Unit, at_least, at_most, interleaved
from bench.measured_processes import TIMEOUT_SECONDS, Workshop, tony
from bench.process_facts import status_of
from bench.small_cluster import SmallCluster
from bench.submission import running
from tony.errors import TonyError
from tony.jobs.status import job_status
from tony.model.job_report import JobReport
from tony.model.state_directory import Home, JobFolder

TITLE = "kill -9 in a job of four on a small Hadoop cluster"

_JOB = f"""\
name = "bench"
framework = "pytorch"
max_restarts = 3
backoff = "0s"
[scheduler]
name = "yarn"
[roles.worker]
instances = {TASKS}
memory = "256m"
"""
_LINKEDIN_TONY = "tony-core 0.4.7, recorded"
#: Between two looks of a client: each asks ResourceManager and application master.
_LOOK = 0.02
_GRACE = 1
_HOW_RECORDED = (
    "LinkedIn TonY was recorded earlier and not measured here: tony-core 0.4.7 on Hadoop 2.10.2 client jars against "
    "the 3.4.2 daemons, two cores; a program killed: 11.3 s until all ran again, no container kept; its application "
    "master killed: all programs lost within 1.2 s, running again from nothing after 10.2 s"
)


def measure(quick: bool) -> Result:
    """Everything on one cluster, in turn."""
    with Workshop() as shop, SmallCluster(shop) as cluster:
        jobs = Jobs(shop, cluster)
        ways = {
            "program": jobs.program,
            "executor": jobs.executor,
            "master": jobs.master,
        }
        rounds = interleaved(ways, 1 if quick else 9, discard=0 if quick else 1)
        lines = _lines(rounds)
        if not quick:
            stuck_ways = {"program": lambda: jobs.program(stuck=True), "executor": lambda: jobs.executor(stuck=True)}
            stuck = interleaved(stuck_ways, 3, discard=0)
            tail = f"killed, all stuck in a collective, restart_grace = {_GRACE} s"
            lines += [stuck.line(f"{fault} {tail}", fault, "wall") for fault in stuck_ways]
    notes = (_HOW_RECORDED, "stuck ones have stop_grace without it: 15 s")
    return Result(lines=tuple(lines), notes=notes)


def _lines(rounds: Rounds) -> list[Line]:
    killed = "kill -9 of the application master → "
    return [
        _compared(
            rounds.line("kill -9 of a program → all four run again", "program", "wall", target=at_most(1.0)), 11.3
        ),
        _compared(_count(rounds.line("containers kept, of four", "program", "kept"), at_least(TASKS)), 0),
        _compared(
            rounds.line("kill -9 of an executor → all four run again", "executor", "wall", target=at_most(3.0)), 11.3
        ),
        _compared(_count(rounds.line("containers kept, of three", "executor", "kept"), at_least(TASKS - 1)), 0),
        _compared(
            _count(rounds.line("kill -9 of the application master: programs lost", "master", "lost"), at_most(0)), 4
        ),
        _compared(rounds.line(f"{killed}full view again", "master", "full", target=at_most(2.0)), 10.2),
        rounds.line(f"{killed}the next attempt begins", "master", "begins"),
        rounds.line(f"{killed}the last of four executors is back", "master", "back"),
        rounds.line(f"{killed}a client is answered", "master", "answers"),
    ]


@dataclass(frozen=True, slots=True)
class _Job:
    """One that runs."""

    home: Home
    folder: JobFolder
    programs: Programs

    def report(self) -> JobReport | None:
        """The job's report, as a client gets it; None if there is none."""
        try:
            return asyncio.run(job_status.load_report(self.home, self.folder.job_id, timeout=0.0))
        except (TonyError, OSError):
            return None

    def wait_full(self, attempt: int = 1) -> JobReport:
        """Waits until a client's report says that all run."""

        def look() -> JobReport | None:
            time.sleep(_LOOK)
            return full(self.report(), attempt)

        return until(look, "all tasks in the report")


class Jobs:
    """Jobs on one cluster, and what happens to them."""

    def __init__(self, shop: Workshop, cluster: SmallCluster) -> None:
        self._shop = shop
        self._home = Home(Path(shop.environ["TONY_HOME"]))
        self._nodes = Path(cluster.conf).parent
        os.environ["HADOOP_CONF_DIR"] = str(cluster.conf)  # for the client in this process
        self._environ = {**shop.environ, "HADOOP_CONF_DIR": str(cluster.conf)}
        self._programs = {stuck: Programs(shop.path / f"stuck-{stuck}", stuck=stuck) for stuck in (False, True)}

    def program(self, *, stuck: bool = False) -> Figures:
        """A program is killed."""
        with self.one_that_runs(stuck=stuck) as job:
            before = _containers(job.wait_full())
            wall = job.programs.all_again(*job.programs.kill_one())
            return {"wall": wall, "kept": len(before & _containers(job.wait_full()))}

    def executor(self, *, stuck: bool = False) -> Figures:
        """An executor is killed, and its container with it."""
        with self.one_that_runs(stuck=stuck) as job:
            report = job.wait_full()
            count = len(job.programs.starts())
            pid = report.tasks[1].executor_pid
            if not pid:
                raise CannotRunError("the report names no executor")
            wall = job.programs.all_again(kill(pid), count)
            return {"wall": wall, "kept": len(_containers(report) & _containers(job.wait_full()))}

    def master(self) -> Figures:
        """The application master is killed."""
        with self.one_that_runs() as job:
            pids = running("tony.am.container_main")
            if len(pids) != 1:
                raise CannotRunError(f"{len(pids)} application masters run")
            killed = kill(pids[0])
            report = job.wait_full(attempt=2)
            answered = time.time_ns()
            back = until(lambda: self._back(job.folder.job_id), "all executors are back")
            lost = sum(not status_of(task.pid or 0) for task in report.tasks)
            begins = next(at for at in self._attempts(job) if at > killed * NS)
            return {
                "lost": max(lost, job.programs.lost()) + len(job.programs.starts()) - TASKS,
                "full": (max(answered, *back) - killed) * NS,
                "begins": begins - killed * NS,
                "answers": (answered - killed) * NS,
                "back": (max(back) - killed) * NS,
            }

    @contextmanager
    def one_that_runs(self, *, stuck: bool = False) -> Iterator[_Job]:
        """A job that runs and has settled; it is ended."""
        programs = self._programs[stuck]
        programs.clean()
        path = self._shop.path / "job.toml"
        settings = f'restart_grace = "{_GRACE}s"\n' if stuck else ""
        path.write_text(f"command = {json.dumps(programs.command)}\n{settings}{_JOB}", encoding="utf-8")
        done = self._tony("submit", "-d", "--json", str(path))
        if done.returncode:
            raise CannotRunError(f"tony submit ended with {done.returncode}: {done.stderr.decode()}")
        job = _Job(self._home, JobFolder(Path(json.loads(done.stdout)["folder"])), programs)
        try:
            programs.wait(TASKS)
            job.wait_full()
            time.sleep(SETTLE)
            yield job
        finally:
            programs.let_go()
            with suppress(subprocess.TimeoutExpired):
                self._tony("kill", "--now", job.folder.job_id)
            until(lambda: None if running("tony.am.container_main") else True, "the end of the application master")

    def _tony(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            tony(*words), env=self._environ, capture_output=True, timeout=TIMEOUT_SECONDS, check=False
        )

    def _back(self, job: str) -> list[int] | None:
        logs = self._nodes.glob(f"nm*/logs/{job}/container_*_02_000001/stderr")
        moments = [moment for log in logs for moment in came_back(log)]
        return moments if len(moments) >= TASKS else None

    def _attempts(self, job: _Job) -> list[float]:
        lines = self._tony("events", "--json", job.folder.job_id).stdout.splitlines()
        return [event["wall"] for event in map(json.loads, lines) if event["event"] == "attempt-started"]


def _containers(report: JobReport) -> set[int | None]:
    """Containers by their executors: a container has one in its life."""
    return {task.executor_pid for task in report.tasks}


def _count(line: Line, target: Target) -> Line:
    return replace(line, unit=Unit.COUNT, target=target)


def _compared(line: Line, reference: float) -> Line:
    """The line, compared with LinkedIn TonY's figure."""
    assert line.value is not None
    return replace(
        line, against=_LINKEDIN_TONY, reference=reference, ratio=line.value / reference if reference else None
    )
