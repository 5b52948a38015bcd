"""Requests of a client to the application master, and their answers."""

from __future__ import annotations

from typing import ClassVar

from tony.model.job_report import JobReport
from tony.model.metric_definitions import Points
from tony.model.progress import Progress
from tony.model.value_class import value_class
from tony.protocol.messages import Message, register


@value_class
class GetReport(Message):
    """Request one `Report`."""

    kind: ClassVar[str] = "get-report"


@value_class
class Watch(Message):
    """Request a `Report` now and after changes, until the job has ended.

    With `ages` also when only time has passed: the age of each task's last output. While the job waits for tasks, all
    subscribers get that.
    """

    kind: ClassVar[str] = "watch"
    ages: bool = False


@value_class
class KillJob(Message):
    """Kill the job; `now` skips the grace. Answered by `Done`."""

    kind: ClassVar[str] = "kill-job"
    actor: str
    now: bool = False


@value_class
class RestartJob(Message):
    """End this session and begin the next; it does not count against `max_restarts`. Answered by `Done`, or refused."""

    kind: ClassVar[str] = "restart-job"
    actor: str


@value_class
class GetStacks(Message):
    """Request `Stacks` of one task."""

    kind: ClassVar[str] = "get-stacks"
    actor: str
    task: str


@value_class
class GetMetrics(Message):
    """Request `Measured`: recent metrics.

    Attributes:
        tasks: which ones; empty for all.
        series: which ones; empty for all.
        points: maximum for each series, the newest; at most `MAX_POINTS`.
    """

    kind: ClassVar[str] = "get-metrics"
    tasks: tuple[str, ...] = ()
    series: tuple[str, ...] = ()
    points: int = 1


@value_class
class Measured(Message):
    """Answer to `GetMetrics`.

    Attributes:
        now: seconds since the job was accepted.
        more: there is more than one message holds; request fewer tasks.
        progress: steps reported by these tasks in their newest attempts; with `series` only if it contains `step`.
    """

    kind: ClassVar[str] = "measured"
    now: float
    points: tuple[Points, ...] = ()
    progress: tuple[Progress, ...] = ()
    more: bool = False


@value_class
class Report(Message):
    """The state of the job. `final` marks the last one of a `Watch`."""

    kind: ClassVar[str] = "report"
    report: JobReport
    final: bool = False


register(
    GetReport,
    Watch,
    KillJob,
    RestartJob,
    GetStacks,
    GetMetrics,
    Measured,
    Report,
)
