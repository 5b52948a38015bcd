"""What an application master keeps of 10,000 tasks that are measured for a day: memory, the file, and processor time.

A process of its own fills what an application master has, `am/metrics_store.py`, with a day's samples by a simulated
clock: all series of a program and two numbers that it tells itself, of each task, and a checkpoint of each task every
four hours. The file is written four times a day and at the end, not every few seconds; each time all of it is written
anew, which is the most that there ever is to write. Executors of 10,000 tasks send every 33 s; where a bucket has
become wider than that, two samples fill it: how much is kept follows from time, not from how many there were. Sockets
are left out.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.harness import Figures, Line, Result, Unit, at_least, at_most
from bench.process_facts import resident, status_of
from tony.am.metrics_store import SAMPLES_PER_SECOND, MetricsStore
from tony.core.state import State, Task
from tony.history.metrics_reader import Metrics
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Resources, Role
from tony.model.metric_definitions import PROGRAM
from tony.protocol.executor_messages import Sample, Saved

TITLE = "What is kept of 10,000 tasks that are measured for a day"

_TASKS, _HOURS = 10_000, 24.0
_HOUR = 3600.0
_WRITES, _CHECKPOINT_EVERY = 4, 4 * _HOUR
#: Bytes that both the memory and the file may take.
_MOST = 200e6
_FILL = "import sys; from bench.measured import fill; fill(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])"


def measure(quick: bool) -> Result:
    """One day; of a sample an hour and a half of a few tasks."""
    tasks, hours = (20, 1.5) if quick else (_TASKS, _HOURS)
    with tempfile.TemporaryDirectory(prefix="tony-bench-") as folder:
        words = [sys.executable, "-c", _FILL, str(tasks), str(hours), f"{folder}/metrics.db"]
        done = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True)
    found: Figures = json.loads(done.stdout)
    return Result(
        lines=(
            Line(what="series in memory", unit=Unit.BYTES, value=found["memory"], target=at_most(_MOST)),
            Line(what="the same, while it is written", unit=Unit.BYTES, value=found["peak"]),
            Line(what="metrics.db", unit=Unit.BYTES, value=found["file"], target=at_most(_MOST)),
            Line(
                what="hours of each task in the file", unit=Unit.COUNT, value=found["hours"], target=at_least(hours - 1)
            ),
            Line(what="taking the samples that come, of a core", unit=Unit.PERCENT, value=found["share"]),
            Line(what="writing all of it", value=found["write"]),
        ),
        notes=(
            f"{tasks:,} tasks, {hours:g} hours; at their end a bucket of a series is {found['width']:g} s wide",
            "memory is what the process has more than before the first sample",
            f"executors send {SAMPLES_PER_SECOND:g} samples a second at most, all together",
        ),
    )


def fill(tasks: int, hours: float, path: str) -> None:
    """In a process of its own: prints what it took, as JSON."""
    print(json.dumps(asyncio.run(_filled(tasks, hours * _HOUR, Path(path)))))


async def _filled(tasks: int, end: float, path: Path) -> dict[str, float]:
    state = _state(tasks)
    now = 0.0
    measurements = MetricsStore(state, lambda: now, path, late=False)
    names = [*PROGRAM, "user.loss", "user.accuracy"]
    before = resident(os.getpid())
    used, samples, writing, written, saved = 0.0, 0, 0.0, 1, 0
    while now < end:
        due = now >= (saved + 1) * _CHECKPOINT_EVERY
        saved += due
        began = time.process_time()
        for number, task in enumerate(state.tasks):
            measurements.ingest_sample(task, _sample(names, number, now, due))
        used += time.process_time() - began
        samples += tasks
        widest = max(measurements.series.find_bucket_width(track) for track in measurements.series.tracks.values())
        now += max(measurements.series.interval, widest / 2)
        if now >= written * end / _WRITES:
            written += 1
            writing = await _written(measurements)
    memory = resident(os.getpid()) - before
    peak = _most_resident() - before
    await measurements.finish()
    with Metrics(path) as metrics:
        until = min(metrics.points(task, "rss").at[-1] for task in metrics.tasks()[:: max(1, tasks // 100)])
    return {
        "memory": float(memory),
        "peak": float(peak),
        "file": float(os.stat(path).st_size),
        "share": 100 * SAMPLES_PER_SECOND * used / samples,
        "write": writing,
        "hours": until / _HOUR,
        "width": widest,
    }


async def _written(measurements: MetricsStore) -> float:
    """Has all that is kept written anew; answers how many seconds that took."""
    for track in measurements.series.tracks.values():
        track.anew, track.dirty = True, track.first
    return await measurements.write()


def _sample(names: list[str], number: int, now: float, saves: bool) -> Sample:
    """What the program of a task does at a time: numbers as long as real ones are, which all change."""
    wave = 1.0 + 0.3 * math.sin(now / 700.0 + number)
    values = {name: wave * (3.7 + place) ** place for place, name in enumerate(names)}
    values["step"], values["total"] = float(int(now / 2)), 43_200.0
    saved = (Saved(step=int(now / 2), ago=0.0, took=4.2),) if saves else ()
    return Sample(session=1, try_=1, ago=0.0, values=values, saved=saved, first_step=0.0, first_ago=now, step_ago=0.1)


def _state(tasks: int) -> State:
    """What the machine remembers of a job all of whose programs run."""
    role = Role(instances=tasks, resources=Resources(memory=1 << 30))
    state = State("local-20260101-000000-0a1b2c", JobSpec(command=("true",), roles={"worker": role}))
    for index in range(tasks):
        task = TaskId("worker", index)
        state.tasks[task] = Task(task, session=1, try_=1)
    return state


def _most_resident() -> int:
    """The most that it has held."""
    return int(status_of(os.getpid()).get("VmHWM", "0 kB").split()[0]) * 1024
