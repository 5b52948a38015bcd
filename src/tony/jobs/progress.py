"""Progress of a job, from the steps that its programs have reported; for the portal, the API and commands."""

from __future__ import annotations

from dataclasses import dataclass

from tony.history.metrics_reader import Metrics
from tony.model.job_report import JobReport
from tony.model.progress import JobProgress, Progress, TaskProgress, measure_job, measure_task
from tony.model.states import JobState, TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """The steps reported by user programs.

    Attributes:
        now: seconds since the job was accepted, up to which the reports are complete; None if unknown.
    """

    progress: tuple[Progress, ...] = ()
    now: float | None = None


def read_reports(metrics: Metrics) -> Reports:
    """Return the progress reports in a job's metrics file."""
    return Reports(progress=metrics.progress(), now=metrics.known_until)


def find_job_progress(reports: Reports, report: JobReport) -> JobProgress | None:
    """Return a job's progress; None if no program of the current session has reported a step."""
    running, succeeded = _sort_tasks(report)
    session = 0 if report.state.ended else report.session
    return measure_job(reports.progress, reports.now, session, succeeded, running)


def find_task_progress(reports: Reports, report: JobReport) -> dict[str, TaskProgress]:
    """Return the progress of each task that has ever reported a step, in any session."""
    running, succeeded = _sort_tasks(report)
    newest: dict[str, Progress] = {}
    for progress in sorted(reports.progress, key=lambda each: (each.session, each.try_)):
        if progress.first_at >= 0:
            newest[progress.task] = progress
    return {
        task: measure_task(each, reports.now if task in running else None, succeeded=task in succeeded)
        for task, each in newest.items()
    }


def _sort_tasks(report: JobReport) -> tuple[frozenset[str], frozenset[str]]:
    """Return the running tasks and the succeeded ones."""
    done = report.state is JobState.SUCCEEDED
    running = frozenset(task.task for task in report.tasks if task.pid is not None and not report.state.ended)
    succeeded = frozenset(task.task for task in report.tasks if done or task.state is TaskState.SUCCEEDED)
    return running, succeeded
