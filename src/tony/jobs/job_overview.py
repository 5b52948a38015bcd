"""Overview of a job: its report, its timeline and its goodput."""

from __future__ import annotations

from dataclasses import dataclass

from tony import clock
from tony.history.event_tail import EventTail
from tony.history.goodput import GoodputLedger, ledger
from tony.history.job_record import record_of
from tony.history.metrics_reader import open_metrics
from tony.history.timeline import Timeline, TimelineReader, with_checkpoints
from tony.jobs import job_status
from tony.jobs.remote_job_sync import refresh
from tony.linux.thread_pools import to_thread
from tony.model.job_report import JobReport
from tony.model.layout import Home, JobFolder
from tony.model.submission_record import JobRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOverview:
    """All that is known of one job.

    Attributes:
        line: None if its event log is empty.
        goodput: None if its event log is empty.
    """

    record: JobRecord
    report: JobReport
    line: Timeline | None
    goodput: GoodputLedger | None


async def load_overview(home: Home, job_id: str) -> JobOverview:
    """Load the overview of a job, up to now if it is running.

    Raises:
        UnknownJobError: there is no such job.
        RecordError: its log cannot be read.
        InfraError: its AM or the files of its cluster cannot be reached.
    """
    record = record_of(home, job_id)
    report = await job_status.load_report(home, job_id)
    await refresh(home, job_id)
    line, goodput = await to_thread(_build_timeline, home.job(job_id), record, ended=report.state.ended)
    return JobOverview(record=record, report=report, line=line, goodput=goodput)


def _build_timeline(
    folder: JobFolder, record: JobRecord, *, ended: bool
) -> tuple[Timeline | None, GoodputLedger | None]:
    reader, seen = TimelineReader(record), False
    for entry in EventTail(folder).new():
        reader.take(entry)
        seen = True
    if not seen:
        return None, None
    line = reader.timeline()
    if not ended:
        line = reader.timeline(clock.wall() - line.accepted)
    with open_metrics(folder.metrics) as metrics:
        if not metrics.known:
            return line, ledger(line)
        line = with_checkpoints(line, [(each.task, each.until, each.step) for each in metrics.checkpoints()])
        return line, ledger(line, metrics)
