"""The portal's index of a million jobs: how fast it is filled, and how soon it answers when nothing of it is in memory.

The jobs are made up: hundreds of users with very different numbers of jobs, ids of two schedulers, names that repeat,
failures with a sentence each. Before each question the file's pages are given back to the kernel
(`posix_fadvise(POSIX_FADV_DONTNEED)`), and it is asked by a fresh process; its start is left out. The last line is what
such a process has in memory after all of the questions.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from bench.harness import CannotRunError, Figures, Line, Result, Unit, at_most, interleaved
from tony.model.failure import FailureClass
from tony.model.job_query import JobSort, Query, to_words
from tony.model.job_summary import JobHead
from tony.model.states import JobState
from tony.portal.job_index.index import JobIndex
from tony.portal.job_index.index_schema import IndexEntry

TITLE = "Finding one of a million jobs"

_BATCH = 5_000
_USERS = 400
_NAMES = ("digits", "resnet50-train", "bert-finetune", "ranker", "ctr-model", "llm-sft", "ablation", "nightly.eval")
_FRAMEWORKS = ("tensorflow", "pytorch", "jax", "horovod", "mxnet", "none")
_REASONS = (
    "worker:{0}: exit code 1: ValueError: axis -1 of input shape has value {1}",
    "ps:{0} was killed for memory: {1} MB of 2048 MB",
    "the container of chief:{0} was lost: host{1}.example.com is no longer heard of",
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/set{0}/part-{1}.tfrecord'",
)
#: What is asked: as on the page.
QUESTIONS = {
    "first page": Query(),
    "a rare word": Query(text="host4711"),
    "a frequent word": Query(text="worker"),
    "beginning of an id": Query(text="application_1500000000007_00"),
    "one user's failed jobs": Query(user="user037", state="failed"),
    "two filters that nothing matches": Query(queue="root.team3", tag="tag-299", framework="jax", user="user399"),
    "by GPU-hours": Query(sort=JobSort.GPU_HOURS),
    "many that match, by GPU-hours": Query(state="succeeded", framework="jax", sort=JobSort.GPU_HOURS),
}
_CHILD = """
import json, sys, time
from pathlib import Path
from tony.model.job_query import from_words
from tony.portal.job_index.index import JobIndex
index, query = JobIndex(Path(sys.argv[1])), from_words(json.loads(sys.argv[2]))
began = time.perf_counter()
page = index.query_page(query)
wall = time.perf_counter() - began
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps([wall, len(page.heads), int(status["VmHWM"].split()[0]) * 1024]))
"""


def measure(quick: bool) -> Result:
    """Fills a file, then asks."""
    jobs = 2_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory(prefix="tony-bench-") as folder:
        index = JobIndex(Path(folder) / "index.db")
        if not index.claim():
            raise CannotRunError("another process holds the lock of a new file")
        wall, processor = _fill(index, jobs)
        index.close()
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        rounds = interleaved({name: _asker(index.path, query) for name, query in QUESTIONS.items()}, 1 if quick else 5)
        memory = max(max(rounds.values(name, "memory")) for name in QUESTIONS)
        return Result(
            lines=(
                Line(what=f"filling it with {jobs:,} jobs", value=wall, cpu=processor),
                Line(what="jobs put into it", unit=Unit.PER_SECOND, value=jobs / wall),
                Line(what="its size", unit=Unit.BYTES, value=size),
                *(rounds.line(f"cold: {name}", name, "wall", target=at_most(1.0)) for name in QUESTIONS),
                Line(what="most memory of a process that searches", unit=Unit.BYTES, value=memory),
            )
        )


def _fill(index: JobIndex, jobs: int) -> tuple[float, float]:
    """Seconds by the clock and of the processor, without those in which jobs are made up."""
    made = _entries(jobs)
    wall = processor = 0.0
    while batch := list(islice(made, _BATCH)):
        began, worked = time.perf_counter(), time.process_time()
        index.put(batch)
        wall += time.perf_counter() - began
        processor += time.process_time() - worked
    return wall, processor


def _entries(jobs: int) -> Iterator[IndexEntry]:
    chance = random.Random(7)
    users = [f"user{number:03d}" for number in range(_USERS)]
    weights = [1 / (number + 1) for number in range(_USERS)]
    states = chance.choices([JobState.SUCCEEDED, JobState.FAILED, JobState.KILLED], [80, 14, 6], k=jobs)
    submitted = 1_500_000_000.0
    for number, (user, state) in enumerate(zip(chance.choices(users, weights, k=jobs), states, strict=True)):
        submitted += chance.random() * 600
        failed = state is JobState.FAILED
        tasks = chance.choice((1, 4, 8, 16, 64))
        head = JobHead(
            job=f"application_{1500000000000 + number // 10000}_{number % 10000:04d}",
            name=f"{chance.choice(_NAMES)}-{chance.randrange(5000)}",
            state=state,
            user=user,
            scheduler="yarn" if number % 3 else "local",
            framework=chance.choice(_FRAMEWORKS),
            tasks=tasks,
            submitted=submitted,
            ended=submitted + 60 + chance.random() * 86_400,
            exit_code=int(failed),
            reason=chance.choice(_REASONS).format(chance.randrange(64), chance.randrange(100_000)) if failed else "",
            queue=f"root.team{number % 37}",
            tags=(f"tag-{chance.randrange(300)}",),
            failure_class=chance.choice((FailureClass.USER, FailureClass.INFRASTRUCTURE)) if failed else None,
            cause="program" if failed else "",
            sessions=1,
            restarts=chance.choice((0, 0, 0, 0, 1, 2)),
            gpu_hours=chance.choice((0.0, chance.random() * 500)),
            gb_hours=chance.random() * 4000,
        )
        yield IndexEntry(
            head=head, place="hdfs://nn/history", path=f"2026/{number % 12 + 1:02d}/01/{head.job}", stamp="1"
        )


def _asker(path: Path, query: Query) -> Callable[[], Figures]:
    def ask() -> Figures:
        _cool(path)
        command = [sys.executable, "-c", _CHILD, str(path), json.dumps(to_words(query))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        wall, _, memory = json.loads(done.stdout)
        return {"wall": wall, "memory": memory}

    return ask


def _cool(path: Path) -> None:
    """Has the kernel forget what it keeps of a file's pages."""
    for each in path.parent.iterdir():
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
