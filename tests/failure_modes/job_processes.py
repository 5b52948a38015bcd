"""The processes of one running job, each by what it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.lab import Lab, until


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Process ids; those of tasks by the task's name."""

    supervisor: int
    master: int
    executors: dict[str, int]
    watchdogs: dict[str, int]
    programs: dict[str, int]


def parts_of(lab: Lab, job: str) -> Parts:
    """Waits until every task of a job runs its program; answers who is who."""

    def all_run() -> Parts | None:
        status = lab.status(job)
        tasks = {task["task"]: task for task in status["tasks"]}
        if status["am"] is None or not all(task["pid"] and task["executor_pid"] for task in tasks.values()):
            return None
        executors = {name: int(task["executor_pid"]) for name, task in tasks.items()}
        programs = {name: int(task["pid"]) for name, task in tasks.items()}
        watchdogs = {}
        for name, executor in executors.items():
            others = [pid for pid in children(executor) if pid != programs[name]]
            if len(others) != 1:
                return None
            watchdogs[name] = others[0]
        master, supervisor = lab.masters(job)
        return Parts(supervisor=supervisor, master=master, executors=executors, watchdogs=watchdogs, programs=programs)

    parts: Parts = until(all_run, f"every program of {job} runs")
    return parts


def children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            yield from map(int, (thread / "children").read_text().split())
