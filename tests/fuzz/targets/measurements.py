"""Files of measurements, which lie in other people's jobs, and samples, which any executor may send."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.fuzz.scratch_folders import scratch
from tests.fuzz.target import Target, hold
from tony.am.metrics_store import MetricsStore
from tony.core.state import State
from tony.errors import StorageError
from tony.history.job_record import build_pending_report
from tony.history.metrics_reader import Metrics
from tony.history.metrics_schema import TaskMetricsUpdate
from tony.history.metrics_writer import MetricsWriter
from tony.history.prometheus_text import JobSnapshot, exposition
from tony.model.codec import from_plain
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec, Role
from tony.model.metric_definitions import MAX_POINTS
from tony.model.progress import CheckpointRecord, Progress
from tony.model.strict_json import loads
from tony.protocol.client_messages import GetMetrics
from tony.protocol.executor_messages import Sample
from tony.testing.sample_jobs import build_prepared_job

_NUMBERS = (1.0, 2.0, 3.0, math.nan, math.nan, math.nan, -7.0, 0.0, 1e9)


@cache
def _sound() -> bytes:
    """A file that has something of everything."""
    path = scratch("sound") / "metrics.db"
    writer = MetricsWriter(path, "job-1", 5.0)
    parts = [
        TaskMetricsUpdate(f"worker:{n}", "worker", 5.0 * (n + 1), True, 7 * n, {"cpu": _NUMBERS * 20}) for n in range(3)
    ]
    told = Progress("worker:0", 1, 1, 1.0, 7.0, 90.0, 99.0, total=1000.0)
    writer.write(parts, [told], [CheckpointRecord("worker:0", 1, 1, 50, 60.0, 62.5)])
    writer.close()
    return path.read_bytes()


def measured_file(data: bytes) -> None:
    """A file in which some bytes are others: three bytes of the input say where, the fourth one what is there."""
    broken = bytearray(_sound())
    for at in range(0, len(data) - 3, 4):
        broken[int.from_bytes(data[at : at + 3], "big") % len(broken)] = data[at + 3]
    _look(bytes(broken))


def foreign_file(data: bytes) -> None:
    """Anything at all where measurements should be."""
    _look(data)


def _look(content: bytes) -> None:
    path = scratch("measured") / "metrics.db"
    path.write_bytes(content)
    with Metrics(path) as metrics:
        _ask(metrics)
    hold(path.exists(), "a reader removed it")
    _go_on(path)


def _ask(metrics: Metrics) -> None:
    for task in (*metrics.tasks()[:5], "worker:1"):
        for name in (*metrics.series()[:5], "cpu"):
            points = metrics.points(task, name, most=10)
            hold(len(points.at) <= 10 or points.at[0] < 0, points)
    metrics.read_role_series("worker", "cpu", most=10)
    metrics.read_newest()
    metrics.peaks()
    metrics.progress()
    metrics.checkpoints()


def _go_on(path: Path) -> None:
    try:
        writer = MetricsWriter(path, "job-1", 5.0)
    except StorageError:
        return
    try:
        list(writer.read_stored_metrics())
        writer.read_stored_progress()
        writer.write([TaskMetricsUpdate("worker:0", "worker", 5.0, False, 0, {"cpu": (1.0, 1.0, 1.0)})])
    except StorageError:
        return
    finally:
        writer.close()


def samples(data: bytes) -> None:
    """What an executor says that it has measured: lines of JSON."""
    state = State("job-1", JobSpec(command="x", roles={"worker": Role(instances=2)}))
    tasks = list(state.tasks.values())
    for task in tasks:
        task.session = task.try_ = 2
    now = 0.0
    made = MetricsStore(state, lambda: now, Path("/nowhere"), late=False)
    for number, line in enumerate(data.splitlines()[:50]):
        now += 60.0
        message = from_plain(Sample, loads(line), ignore_unknown=True)
        made.ingest_sample(tasks[number % 2].id, message)
    answer = made.answer(GetMetrics(points=MAX_POINTS))
    for points in answer.points:
        for least, mean, most in zip(points.least, points.mean, points.most, strict=True):
            hold(least <= most and math.isfinite(mean), points)
    for track in made.series.tracks.values():
        hold(len(track.counts) <= made.series.capacity, track)
    latest = {points.task: {points.series: points.mean[-1]} for points in answer.points if points.mean}
    exposition([JobSnapshot(report=_report(), latest=latest)])


@cache
def _report() -> JobReport:
    job = build_prepared_job(scratch("report"), JobSpec(command="x", roles={"worker": Role(instances=2)}), "job-1")
    return build_pending_report(job.folder, job.record)


def _samples() -> Sequence[bytes]:
    sound = {"session": 2, "try": 2, "ago": 0.5, "values": {"cpu": 0.5, "step": 7, "total": 100, "user.loss": 0.1}}
    more = {**sound, "saved": [{"step": 7, "ago": 1.0, "took": 0.5}], "first_step": 1.0, "first_ago": 7.0}
    old = {**sound, "session": 1}
    line = [json.dumps(each).encode() for each in (sound, more, old, {**sound, "ago": -1e300}, {**sound, "session": 9})]
    return [*line, b"\n".join(line)]


TARGETS = (
    Target(
        name="measured-file",
        run=measured_file,
        errors=(),
        seeds=lambda: [b"", b"\0\0\x40\0", bytes(range(64)), b"\0\x10\x05\x0a" * 7],
        seconds=20.0,
        memory=32 << 20,
    ),
    Target(
        name="measured-elsewhere",
        run=foreign_file,
        errors=(),
        seeds=lambda: [_sound()[:4096], b"", b"SQLite format 3\0"],
        tokens=(b"SQLite format 3\0",),
        seconds=20.0,
        memory=32 << 20,
    ),
    Target(
        name="samples",
        run=samples,
        errors=(ValueError,),
        seeds=_samples,
        tokens=(b'"values"', b'"saved"', b'"step"', b"1e308", b"-1e308", b'"ago"'),
        json=True,
    ),
)
