"""What a task uses and how far it is: one place for the terminal and the pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tony.jobs.job_metrics import Reports, find_task_progress
from tony.jobs.metric_curves import is_gpu_utilization
from tony.model.job_report import JobReport
from tony.model.progress import TaskProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUse:
    """The newest measurements of one task; unknown numbers are None.

    Attributes:
        cpu: cores in use.
        rss: resident memory, bytes.
        gpu: mean utilisation of its GPUs, 0 to 1.
        gpu_memory: bytes, sum of its GPUs.
        progress: None if the task has reported no step.
    """

    cpu: float | None = None
    rss: float | None = None
    gpu: float | None = None
    gpu_memory: float | None = None
    progress: TaskProgress | None = None


def build_task_use(values: Mapping[str, float], progress: TaskProgress | None) -> TaskUse:
    """Return the use of a task.

    Args:
        values: series -> newest value.
    """
    utils = [value for name, value in values.items() if is_gpu_utilization(name)]
    memories = [value for name, value in values.items() if name.startswith("gpu") and name.endswith(".memory")]
    return TaskUse(
        cpu=values.get("cpu"),
        rss=values.get("rss"),
        gpu=sum(utils) / len(utils) if utils else None,
        gpu_memory=sum(memories) if memories else None,
        progress=progress,
    )


def find_task_use(report: JobReport, newest: Mapping[str, Mapping[str, float]], reports: Reports) -> dict[str, TaskUse]:
    """Return the use of each task of a job; of a task that does not run while the job does, only its progress.

    Args:
        newest: task -> series -> newest value.
    """
    progress = find_task_progress(reports, report)
    return {
        task.task: build_task_use(
            newest.get(task.task, {}) if task.pid is not None or report.state.ended else {}, progress.get(task.task)
        )
        for task in report.tasks
    }
