"""Failures of a job of four on a small Kubernetes: `kill -9` of a program or the application master, a pod deleted;
next to what users have: an Indexed Job, whose other programs run on without the one that was lost, JobSet and Trainer.

Every round is a job of its own. All run again: four programs have begun since the failure, by their processes. Of an
Indexed Job: the one that was lost. The application master killed: until a client that asks as `tony status` does is
answered by the next attempt that all run, and all executors have reconnected. Readable later: the lines that can be
read once the pods are deleted; each program prints one. Pods are deleted with a grace period of a second.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from bench.failing_jobs import NS, SETTLE, TASKS, came_back, full, kill, until
from bench.harness import CannotRunError, Figures, Line, Result, Rounds, Target, Unit, at_least, at_most, interleaved
from bench.kubernetes_controllers import run_kubectl
from bench.kubernetes_jobs import KubectlJob, find_kinds
from bench.measured_processes import TIMEOUT_SECONDS, Workshop, tony
from bench.process_facts import command_line, status_of
from bench.small_kubernetes import SCHEDULER_TABLE, SmallKubernetes
from bench.submission import running
from tony.errors import TonyError
from tony.jobs.status import job_status
from tony.kube.resources import PODS
from tony.linux.process import descendants
from tony.model.job_report import JobReport
from tony.model.state_directory import Home

TITLE = "failures in a job of four on a small Kubernetes"

#: It handles SIGTERM: the first process of a container is not ended by it otherwise, and a JobSet waits for 30 s.
_PROGRAM = """\
import os, signal, time  # bench-program
signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
print("at", time.time_ns(), flush=True)
time.sleep(3600)
"""
_MARK = "bench-program"
_JOB = f"""\
name = "bench"
command = ["python3", "-c", {json.dumps(_PROGRAM)}]
max_restarts = 3
backoff = "0s"
{SCHEDULER_TABLE}
[roles.worker]
instances = {TASKS}
memory = "256m"
"""
_LABEL = "tony.dev/job"
_TASK = {"tony.dev/part": "task"}
_PAUSE = 0.02


class Fault(StrEnum):
    """How the program of a task is lost."""

    KILL = "kill -9 of a program"
    DELETION = "a pod deleted"


def measure(quick: bool) -> Result:
    """Everything on one cluster, in turn."""
    with Workshop() as shop, SmallKubernetes(shop) as cluster, ExitStack() as stack:
        os.environ["KUBECONFIG"] = str(cluster.places.kubeconfig)  # for the client in this process
        jobs = Jobs(shop, cluster)
        kinds, notes = find_kinds(cluster, stack)
        ways: dict[str, Callable[[], Figures]] = {"master": jobs.kill_master}
        for fault in Fault:
            ways[f"tony {fault}"] = partial(jobs.lose_program, fault)
            ways |= {f"{kind.title} {fault}": partial(_lose_program, cluster, kind, fault) for kind in kinds}
        rounds = interleaved(ways, 1 if quick else 5, discard=0 if quick else 1)
    return Result(lines=tuple(_lines(rounds, [kind.title for kind in kinds])), notes=tuple(notes))


def _lines(rounds: Rounds, others: Sequence[str]) -> list[Line]:
    killed = "kill -9 of the application master"
    lines: list[Line] = []
    for fault, goal, kept in ((Fault.KILL, 1.0, TASKS), (Fault.DELETION, 6.0, TASKS - 1)):
        way, both_sessions = f"tony {fault}", at_least(2 * TASKS)
        for other in others or (None,):
            against = other and f"{other} {fault}"
            lines += [
                rounds.line(f"{fault} → all run again", way, "wall", against=against, target=at_most(goal)),
                _count(rounds.line(f"{fault}: pods kept, of four", way, "kept", against=against), at_least(kept)),
                _count(rounds.line(f"{fault}: lines readable later", way, "read", against=against), both_sessions),
            ]
    return [
        *lines,
        _count(rounds.line(f"{killed}: programs lost", "master", "lost"), at_most(0)),
        rounds.line(f"{killed} → full view again", "master", "full", target=at_most(4.0)),
        rounds.line(f"{killed} → a client is answered", "master", "answers"),
        rounds.line(f"{killed} → the last of four executors is back", "master", "back"),
    ]


def _count(line: Line, target: Target) -> Line:
    return replace(line, unit=Unit.COUNT, target=target, cpu=None, reference_cpu=None)


def _find_programs() -> set[int]:
    """Return the processes of programs, in whatever container."""
    return {
        pid
        for pid in descendants(os.getpid())
        if any(_MARK in word for word in command_line(pid)[:4]) and _is_program(pid)
    }


def _is_program(pid: int) -> bool:
    return command_line(pid)[0].endswith("python3") and not status_of(pid).get("State", "Z").startswith("Z")


def _wait_for_programs(count: int, others: Collection[int] = ()) -> tuple[set[int], int]:
    """Wait for programs that are not among `others`; return them, and when all were seen."""

    def look() -> set[int] | None:
        time.sleep(_PAUSE)
        return found if len(found := _find_programs() - {*others}) >= count else None

    return until(look, f"{count} programs"), time.time_ns()


def _list_pods(cluster: SmallKubernetes, labels: Mapping[str, str]) -> dict[str, str]:
    """Return uid -> name of pods that have not ended."""
    pods = cluster.client.list(PODS, labels=labels).items
    return {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in pods if not _has_ended(pod)}


def _has_ended(pod: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"] or pod["status"]["phase"] in ("Succeeded", "Failed")


def _inject_fault(fault: Fault, cluster: SmallKubernetes, programs: Collection[int], pods: Mapping[str, str]) -> int:
    """Make a job lose a program; return when."""
    if fault is Fault.KILL:
        return kill(min(programs))
    at = time.time_ns()
    cluster.client.delete(PODS, min(pods.values()), grace_seconds=1)
    return at


def _lose_program(cluster: SmallKubernetes, kind: KubectlJob, fault: Fault) -> Figures:
    """Lose a program of a job that `kubectl` has created."""
    with kind.running(cluster, _PROGRAM) as name:
        programs, _ = _wait_for_programs(TASKS)
        time.sleep(SETTLE)
        labels = {kind.label: name}
        before = _list_pods(cluster, labels)
        lost = _inject_fault(fault, cluster, programs, before)
        _, again = _wait_for_programs(kind.restarted, programs)
        kept = len(before.keys() & _list_pods(cluster, labels).keys())
        words = ("logs", "-l", f"{kind.label}={name}")
        run_kubectl(cluster, "delete", kind.resource, name, "--cascade=foreground", "--wait", "--grace-period=1")
        read = run_kubectl(cluster, *words, check=False)[0].count("at ")
        return {"wall": (again - lost) * NS, "kept": kept, "read": read}


@dataclass(frozen=True, slots=True)
class _Job:
    """One that runs."""

    home: Home
    id: str

    def report(self) -> JobReport | None:
        """Return the job's report, as a client gets it; None if there is none."""
        try:
            return asyncio.run(job_status.load_report(self.home, self.id, timeout=0.0))
        except (TonyError, OSError):
            return None

    def wait_full(self, attempt: int = 1) -> JobReport:
        """Wait until a client's report says that all run."""

        def look() -> JobReport | None:
            time.sleep(_PAUSE)
            return full(self.report(), attempt)

        return until(look, "all tasks in the report")


class Jobs:
    """Jobs of tony's on one cluster, and what happens to them."""

    def __init__(self, shop: Workshop, cluster: SmallKubernetes) -> None:
        self._shop, self._cluster = shop, cluster
        self._home = Home(Path(shop.environ["TONY_HOME"]))

    def lose_program(self, fault: Fault) -> Figures:
        """Lose a program."""
        with self._running() as job:
            programs, _ = _wait_for_programs(TASKS)
            labels = {_LABEL: job.id, **_TASK}
            before = _list_pods(self._cluster, labels)
            lost = _inject_fault(fault, self._cluster, programs, before)
            _, again = _wait_for_programs(TASKS, programs)
            kept = len(before.keys() & _list_pods(self._cluster, labels).keys())
            job.wait_full()
            self._tony("kill", "--now", job.id)
            until(lambda: None if running("tony.am.container_main") else True, "the end of the job")
            self._cluster.client.delete_collection(PODS, labels=labels)
            until(lambda: None if self._cluster.client.list(PODS, labels=labels).items else True, "the end of its pods")
            printed = self._tony("logs", "--all-sessions", job.id).stdout.decode()
            return {"wall": (again - lost) * NS, "kept": kept, "read": printed.count("at ")}

    def kill_master(self) -> Figures:
        """Kill the application master."""
        with self._running() as job:
            programs, _ = _wait_for_programs(TASKS)
            (pid,) = running("tony.am.container_main")
            killed = kill(pid)
            job.wait_full(attempt=2)
            answered = time.time_ns()
            back = until(lambda: self._find_returned(job), "all executors are back")
            lost = TASKS - len(programs & _find_programs())
            return {
                "lost": lost,
                "full": (max(answered, *back) - killed) * NS,
                "answers": (answered - killed) * NS,
                "back": (max(back) - killed) * NS,
            }

    def _find_returned(self, job: _Job) -> list[int] | None:
        """Return when executors came back, by the log of the AM, once all have."""
        log = self._shop.path / "am.log"
        log.write_text(run_kubectl(self._cluster, "logs", f"job/{job.id}", check=False)[0])
        return moments if len(moments := came_back(log)) >= TASKS else None

    @contextmanager
    def _running(self) -> Iterator[_Job]:
        """A job that runs and has settled; it is ended."""
        path = self._shop.path / "job.toml"
        path.write_text(_JOB, encoding="utf-8")
        done = self._tony("submit", "-d", "--json", str(path))
        if done.returncode:
            raise CannotRunError(f"tony submit ended with {done.returncode}: {done.stderr.decode()}")
        job = _Job(self._home, Path(json.loads(done.stdout)["folder"]).name)
        try:
            job.wait_full()
            time.sleep(SETTLE)
            yield job
        finally:
            with suppress(subprocess.TimeoutExpired):
                self._tony("kill", "--now", job.id)
            until(lambda: None if running("tony.am.container_main") or _find_programs() else True, "the end of the job")

    def _tony(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            tony(*words), env=self._cluster.environ, capture_output=True, timeout=TIMEOUT_SECONDS, check=False
        )
