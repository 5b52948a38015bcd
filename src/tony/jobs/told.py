"""A job's life for commands that show it whole: its report, its event log as a timeline, where its time went."""

from __future__ import annotations

from tony import clock
from tony.dataclass import dataclass
from tony.history.event_tail import EventTail
from tony.history.goodput import GoodputLedger, ledger
from tony.history.job_record import record_of
from tony.history.metrics_reader import open_metrics
from tony.history.timeline import Timeline, TimelineReader, with_checkpoints
from tony.jobs import facts
from tony.jobs.remote_jobs import refresh
from tony.linux.threads import to_thread
from tony.model.job_record import JobRecord
from tony.model.job_report import JobReport
from tony.model.layout import Home, JobFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOverview:
    """One job, as it is known now.

    Attributes:
        line: None as long as nothing of it was logged.
        goodput: the same.
    """

    record: JobRecord
    report: JobReport
    line: Timeline | None
    goodput: GoodputLedger | None


async def load_overview(home: Home, job_id: str) -> JobOverview:
    """Reads all of it; of a job that runs up to this moment.

    Raises:
        UnknownJobError: there is no such job.
        RecordError: its log cannot be read.
        InfraError: it is elsewhere, or its application master lives and cannot be reached.
    """
    record = record_of(home, job_id)
    report = await facts.load_report(home, job_id)
    await refresh(home, job_id)
    line, goodput = await to_thread(_lived, home.job(job_id), record, ended=report.state.ended)
    return JobOverview(record=record, report=report, line=line, goodput=goodput)


def _lived(folder: JobFolder, record: JobRecord, *, ended: bool) -> tuple[Timeline | None, GoodputLedger | None]:
    chronicle, seen = TimelineReader(record), False
    for entry in EventTail(folder).new():
        chronicle.take(entry)
        seen = True
    if not seen:
        return None, None
    line = chronicle.timeline()
    if not ended:
        line = chronicle.timeline(clock.wall() - line.accepted)
    with open_metrics(folder.metrics) as metrics:
        if not metrics.known:
            return line, ledger(line)
        line = with_checkpoints(line, [(each.task, each.until, each.step) for each in metrics.checkpoints()])
        return line, ledger(line, metrics)
