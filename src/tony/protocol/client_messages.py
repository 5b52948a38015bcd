"""Requests of a client to the application master, and their answers."""

from __future__ import annotations

from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.metric_definitions import Points
from tony.model.progress import Progress
from tony.model.value_class import value_class
from tony.protocol.message_base import Message


@value_class
class GetReport(Message, kind="get-report"):
    """Request one `Report`."""


@value_class
class Watch(Message, kind="watch"):
    """Request a `Report` now and after changes, until the job has ended.

    With `ages` also when only time has passed: the age of each task's last output. While the job waits for tasks, all
    subscribers get that.
    """

    ages: bool = False


@value_class
class KillJob(Message, kind="kill-job"):
    """Kill the job; `now` skips the grace. Answered by `Done`."""

    actor: str
    now: bool = False


@value_class
class RestartJob(Message, kind="restart-job"):
    """End this session and begin the next; it does not count against `max_restarts`. Answered by `Done`, or refused."""

    actor: str


@value_class
class GetStacks(Message, kind="get-stacks"):
    """Request `Stacks` of one task."""

    actor: str
    task: TaskId


@value_class
class GetMetrics(Message, kind="get-metrics"):
    """Request `Measured`: recent metrics.

    Attributes:
        tasks: which ones; empty for all.
        series: which ones; empty for all.
        points: maximum for each series, the newest; at most `MAX_POINTS`.
    """

    tasks: tuple[str, ...] = ()
    series: tuple[str, ...] = ()
    points: int = 1


@value_class
class Measured(Message, kind="measured"):
    """Answer to `GetMetrics`.

    Attributes:
        now: seconds since the job was accepted.
        more: there is more than one message holds; request fewer tasks.
        progress: steps reported by these tasks in their newest attempts; with `series` only if it contains `step`.
    """

    now: float
    points: tuple[Points, ...] = ()
    progress: tuple[Progress, ...] = ()
    more: bool = False


@value_class
class Report(Message, kind="report"):
    """The state of the job. `final` marks the last one of a `Watch`."""

    report: JobReport
    final: bool = False
