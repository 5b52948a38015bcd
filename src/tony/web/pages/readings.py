"""The newest measurements of a job, for the charts of its overview and for tables of its tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from tony.history.metrics_reader import Metrics
from tony.jobs.directory.view import DirectoryJobView
from tony.jobs.job_metrics import Reports, find_task_progress, read_reports
from tony.model.job_report import JobReport
from tony.web.pages.charts import Newest, read_newest, select_overview
from tony.web.pages.job_layout import await_part


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReadings:
    """The newest measurements of a job; empty without any.

    Attributes:
        series: names of all that was measured.
    """

    series: tuple[str, ...] = ()
    newest: Newest = field(default_factory=dict)
    reports: Reports = field(default_factory=Reports)


async def load_readings(view: DirectoryJobView, report: JobReport) -> JobReadings:
    """Return the newest measurements of a job; empty if they cannot be read."""

    def read(metrics: Metrics) -> JobReadings:
        reports = read_reports(metrics)
        needed = [chart.name for chart in select_overview(metrics.series(), {})]
        needed += [name for name in metrics.series() if name in ("cpu", "rss") or name.startswith("gpu")]
        newest = read_newest(metrics, find_task_progress(reports, report), needed)
        return JobReadings(series=metrics.series(), newest=newest, reports=reports)

    found = await await_part(view.query_metrics(read))
    return found if isinstance(found, JobReadings) else JobReadings()
