"""One job of very many simulated executors, of which some are lost at once together with their nodes.

As in `crowded.py`, the application master is a process as in production. Connections break, and a moment later the
scheduler reports that their containers have ended. All other executors stop at the AM's request, get the next session
and register again; replacements connect and register. The new spec is out when all have been told to start. In the end
the surviving executors send a message of the old session.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.crowded import REST, TIMEOUT_SECONDS, Players, Watch, cpu_at_end, crowded_job, wait_for_all
from bench.harness import CannotRunError
from tests.support.executor_load import container_of
from tony.am.recovery import recover_state
from tony.jobs.am_client import request_report
from tony.model.codec import from_plain
from tony.model.state_directory import JobFolder
from tony.model.states import TaskState
from tony.model.submission_record import JobRecord

#: One executor in this number is lost.
_ONE_OF = 100
#: Seconds from the end of a connection to the scheduler's word on its container: no scheduler is quicker to notice.
_NOTICED = 0.1
_TICK = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Survived:
    """What the loss cost.

    Attributes:
        told: seconds from the loss until all had their new spec.
        started: seconds from the loss until each had heard that its new start is in the log.
        cpu: seconds of the application master's processor time until then.
        kept: executors that stayed.
        repeated: messages about the old session that came after the new one had begun.
        refused: how many of them the machine has refused.
    """

    told: float
    started: float
    cpu: float
    kept: int
    repeated: int
    refused: int


def play(framework: str, tasks: int) -> Survived:
    """Plays one job whose nodes fail once.

    Raises:
        CannotRunError: something of it failed; the text says what.
    """
    with crowded_job(framework, tasks, restarts=1) as (folder, master, crowd):
        return _play(folder, master, crowd, tasks)


def _play(folder: JobFolder, master: subprocess.Popen[bytes], crowd: Sequence[Players], tasks: int) -> Survived:
    record = from_plain(JobRecord, json.loads(folder.secret_job.read_text()))
    wait_for_all(crowd, "joined", order="join")
    wait_for_all(crowd, "told", order="register")
    wait_for_all(crowd, "started")
    time.sleep(REST)
    lost = [index for index in range(tasks) if index % _ONE_OF == _ONE_OF // 2]
    watch = Watch(master.pid)
    _lose(master, folder, crowd, tasks, lost)
    _replace(folder, crowd, tasks, len(lost))
    told = wait_for_all(crowd, "told")
    started = wait_for_all(crowd, "started")
    cpu = watch.cpu()
    wait_for_all(crowd, "repeated", order="repeat")
    report = asyncio.run(request_report(folder))
    if report.session != 2 or any(task.state is not TaskState.RUNNING for task in report.tasks):
        raise CannotRunError(f"what was said of session 1 counted in session {report.session}")
    wait_for_all(crowd, "left", order="exit")
    cpu_at_end(master)
    refused = recover_state(folder, record).app.state.refused
    return Survived(
        told=watch.wall(max(moment.at for moment in told)),
        started=watch.wall(max(moment.at for moment in started)),
        cpu=cpu,
        kept=tasks - len(lost),
        repeated=tasks - len(lost),
        refused=refused,
    )


def _lose(
    master: subprocess.Popen[bytes], folder: JobFolder, crowd: Sequence[Players], tasks: int, lost: Sequence[int]
) -> None:
    for number, players_of_one in enumerate(crowd):
        mine = [index for index in lost if _player_of(index, tasks, len(crowd)) == number]
        players_of_one.tell(" ".join([*(f"lose:{index}" for index in mine), "lost"]))
    wait_for_all(crowd, "lost")
    (folder.path / "lost").write_text("\n".join(map(container_of, lost)))
    time.sleep(_NOTICED)
    os.kill(master.pid, signal.SIGUSR1)


def _replace(folder: JobFolder, crowd: Sequence[Players], tasks: int, count: int) -> None:
    """New executors come, each as soon as its container is launched."""
    path, seen = folder.path / "launched", 0
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while seen < count:
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        for container, task, session in (line.split() for line in lines[seen:]):
            index = int(task.rpartition(":")[2])
            crowd[_player_of(index, tasks, len(crowd))].tell(f"come:{index}={container}={session}")
        seen = len(lines)
        if time.monotonic() > deadline:
            raise CannotRunError(f"{seen} of {count} lost containers were replaced")
        time.sleep(_TICK)


def _player_of(index: int, tasks: int, parts: int) -> int:
    """Which process simulates a task; as `crowded.players` divides them."""
    return next(number for number in range(parts) if index < tasks * (number + 1) // parts)
