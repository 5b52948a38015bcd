"""What a task uses, from its newest measurements."""

from __future__ import annotations

from tony.jobs.job_metrics import Reports
from tony.jobs.task_use import build_task_use, find_task_use
from tony.model.job_report import JobReport, TaskReport
from tony.model.progress import Progress
from tony.model.states import JobState, TaskState

VALUES = {"cpu": 1.5, "rss": 2.0e9, "gpu0.util": 0.5, "gpu1.util": 1.0, "gpu0.memory": 3.0, "gpu1.memory": 4.0}


def report(state: JobState, *pids: int | None) -> JobReport:
    tasks = tuple(
        TaskReport(task=f"worker:{index}", role="worker", index=index, state=TaskState.RUNNING, pid=pid)
        for index, pid in enumerate(pids)
    )
    return JobReport(
        job="j",
        name="j",
        state=state,
        session=1,
        attempt=1,
        exit_code=None,
        folder="",
        am=None,
        tasks=tasks,
        failure=None,
    )


def test_gpus_of_a_task_are_one_number() -> None:
    """The mean of their use, and the sum of their memory."""
    use = build_task_use(VALUES, None)
    assert (use.cpu, use.rss, use.gpu, use.gpu_memory) == (1.5, 2.0e9, 0.75, 7.0)
    assert build_task_use({}, None).gpu is None


def test_a_task_without_a_program_uses_nothing() -> None:
    """Its last numbers are those of an exited program. Its progress remains; an ended job shows the last ones."""
    newest = {"worker:0": VALUES, "worker:1": VALUES}
    reports = Reports(progress=(Progress("worker:1", 1, 1, 1.0, 1.0, 8.0, 9.0),), now=10.0)
    running = find_task_use(report(JobState.RUNNING, 7, None), newest, reports)
    assert (running["worker:0"].cpu, running["worker:1"].cpu) == (1.5, None)
    progress = running["worker:1"].progress
    assert progress is not None
    assert progress.step == 8.0
    ended = find_task_use(report(JobState.SUCCEEDED, None, None), newest, reports)
    assert ended["worker:1"].cpu == 1.5
