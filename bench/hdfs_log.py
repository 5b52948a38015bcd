"""The event log in HDFS: how often it is written to, how long an effect waits for it, what that costs a submission.

On a real, small Hadoop: `tony mini start --nodes 2`. The journal is the application master's own
(`schedulers/job_store/event_log_replication`), in this process: events without an effect come a hundred times
a second, then some that an effect waits for, one after the other. And a real job of four: how many writes the
NameNode has seen from its submission until all four programs run, and while they run. What the barrier costs a
submission is no more than that number of writes one after the other; some have no waiting effect."""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from pathlib import Path

from bench.failing_jobs import NS
from bench.harness import Line, Result, Unit, at_most
from bench.measured_processes import TIMEOUT_SECONDS, Workshop
from bench.small_cluster import SmallCluster
from bench.yarn_failures import Jobs
from tony.hadoop.configuration import Configuration
from tony.schedulers.job_store import event_log_replication as journals
from tony.schedulers.job_store.event_log_replication import ReplicatedJournal
from tony.schedulers.job_store.hdfs_job_store import HdfsJobStore
from tony.schedulers.yarn.cluster_clients import ClusterClients

TITLE = "The event log in HDFS"

_FOLDER = "/tmp/bench-log"
#: As long as most events are.
_EVENT = b'{"seq":4711,"at":12.345678,"wall":1763712000.123456,"event":"heartbeat","data":{"task":"worker:0","n":1}}\n'
_BETWEEN = 0.01


def measure(quick: bool) -> Result:
    """The journal alone, then a job."""
    with Workshop() as shop, SmallCluster(shop) as cluster:
        configuration = Configuration.load(cluster.conf, {})
        appends = _Appends(cluster)
        steady, waits = asyncio.run(_journal(shop.path, configuration, appends, quick))
        jobs = Jobs(shop, cluster)
        lines = [_job(jobs, appends, quick) for _ in range(1 if quick else 5)]
    median = statistics.median(waits)
    starting = [writes for writes, _ in lines]
    idle = statistics.median(rate for _, rate in lines)
    writes = statistics.median(starting)
    return Result(
        lines=(
            Line(what="100 events a second: writes a minute", unit=Unit.COUNT, value=60 * steady, target=at_most(60)),
            Line(what="an effect waits for HDFS", value=median, low=min(waits), high=max(waits)),
            Line(what="the same, worst", value=max(waits)),
            Line(
                what="a job of four, until all run: writes",
                unit=Unit.COUNT,
                value=writes,
                low=min(starting),
                high=max(starting),
            ),
            Line(what="what they cost its submission, at most", value=writes * median),
            Line(what="while its programs run: writes a minute", unit=Unit.COUNT, value=60 * idle, target=at_most(60)),
        ),
        notes=(
            f"{len(waits)} waits; now and then one takes 400 ms more, which is a pause of Hadoop's own (append_log.py)",
        ),
    )


class _Appends:
    """When the NameNode has granted appends to event logs, by its own audit log."""

    _LINE = re.compile(
        r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) .*\tcmd=append\tsrc=\S*/events\.1\.jsonl\t", re.MULTILINE
    )

    def __init__(self, cluster: SmallCluster) -> None:
        self._log = cluster.conf.parent / "logs" / "nn.log"
        self._size = 0

    def forget(self) -> None:
        """From now on."""
        self._size = self._log.stat().st_size

    def moments(self) -> list[float]:
        """Seconds since 1970."""
        with self._log.open("rb") as file:
            file.seek(self._size)
            text = file.read().decode(errors="replace")
        return [
            time.mktime(time.strptime(second, "%Y-%m-%d %H:%M:%S")) + int(thousandths) / 1000
            for second, thousandths in self._LINE.findall(text)
        ]


async def _journal(
    folder: Path, configuration: Configuration, appends: _Appends, quick: bool
) -> tuple[float, list[float]]:
    """Writes a second without a waiting effect, and how long effects waited."""
    cluster = ClusterClients.from_configuration(configuration, {})
    journals._WAIT_SECONDS = (
        TIMEOUT_SECONDS  # it is to be seen how long they wait; in a job an effect waits for 3 s at most
    )
    segment = folder / "events.1.jsonl"
    loop = asyncio.get_running_loop()
    safe = 0
    news = asyncio.Event()

    def told(size: int) -> None:
        nonlocal safe
        safe = size
        news.set()

    async def until_safe(size: int) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while safe < size:
                news.clear()
                await news.wait()

    with segment.open("ab", buffering=0) as file:

        def write(*, urgent: bool) -> int:
            file.write(_EVENT)
            journal.note_written(file.tell(), urgent=urgent)
            return file.tell()

        file.write(_EVENT)
        journal = ReplicatedJournal(segment, HdfsJobStore(cluster, _FOLDER), told)
        await until_safe(write(urgent=True))
        appends.forget()
        begin = loop.time()
        while loop.time() < begin + (4.0 if quick else 20.0):
            write(urgent=False)
            await asyncio.sleep(_BETWEEN)
        rate = len(appends.moments()) / (loop.time() - begin)
        waits = []
        for _ in range(10 if quick else 100):
            asked = loop.time()
            await until_safe(write(urgent=True))
            waits.append(loop.time() - asked)
            await asyncio.sleep(5 * _BETWEEN)
        await journal.finish()
    return rate, waits


def _job(jobs: Jobs, appends: _Appends, quick: bool) -> tuple[int, float]:
    """Writes until all four run, and writes a second while they do."""
    appends.forget()
    with jobs.one_that_runs() as job:
        run = max(start.at for start in job.programs.starts()) * NS
        writes = sum(moment < run for moment in appends.moments())
        time.sleep(1.5)  # what has no waiting effect is written within a second
        appends.forget()
        begin = time.monotonic()
        time.sleep(2.0 if quick else 10.0)
        return writes, len(appends.moments()) / (time.monotonic() - begin)
