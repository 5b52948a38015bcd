"""Format jobs as Prometheus metrics (text format 0.0.4). Pure functions.

For a job with many tasks, metrics are aggregated by role to minimum, mean and maximum: one time series per task would
cost the scraper more than it is worth at 10,000 tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tony.model.job_report import JobReport, TaskReport
from tony.model.metric_definitions import DEVICE, PROGRAM, find_program_name
from tony.model.states import JobState, TaskState
from tony.units import Unit

#: Content type of the response.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Jobs with more tasks than this are aggregated by role.
MOST_TASKS = 1000
#: Bytes of a label value; longer ones are cut.
_MAX_LABEL_BYTES = 200

_UNITS: Mapping[Unit, str] = {
    Unit.CORES: "_cores",
    Unit.BYTES: "_bytes",
    Unit.BYTES_PER_SECOND: "_bytes_per_second",
    Unit.COUNT: "",
    Unit.PER_SECOND: "_per_second",
    Unit.SHARE: "_ratio",
    Unit.WATT: "_watts",
    Unit.HERTZ: "_hertz",
    Unit.CELSIUS: "_celsius",
    Unit.NONE: "",
}
_DEVICE = re.compile(r"gpu(\d{1,3})\.(.+)")
_NAME = re.compile(r"[^a-zA-Z0-9_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot:
    """The status of one job at scrape time.

    Attributes:
        latest: task -> series -> the newest value.
    """

    report: JobReport
    latest: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


_Labels = tuple[tuple[str, str], ...]
#: Name of a metric, help text, labels and value. All metrics are gauges.
_Sample = tuple[str, str, _Labels, float]


def exposition(jobs: Iterable[JobSnapshot]) -> str:
    """Return the response body for these jobs."""
    families: dict[str, list[str]] = {}
    for snapshot in jobs:
        for name, what, labels, value in _job_samples(snapshot):
            lines = families.setdefault(name, [f"# HELP {name} {what}\n# TYPE {name} gauge\n"])
            text = ",".join(f'{label}="{_escape_label(content)}"' for label, content in labels)
            lines.append(f"{name}{{{text}}} {_number(value)}\n")
    return "".join(line for name in sorted(families) for line in families[name])


def _escape_label(value: str) -> str:
    """Escape and shorten a label value."""
    short = value.encode("utf-8", "replace")[:_MAX_LABEL_BYTES].decode("utf-8", "ignore")
    return short.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _job_samples(snapshot: JobSnapshot) -> Iterator[_Sample]:
    report = snapshot.report
    job = (("job_id", report.job),)
    about = (*job, ("name", report.name), ("user", report.user), ("scheduler", report.scheduler))
    yield "tony_job_info", "A job; always 1.", (*about, ("framework", report.framework)), 1
    for state in JobState:
        what = "1 for the state in which the job is, 0 for the others."
        yield "tony_job_state", what, (*job, ("state", state.value)), float(report.state is state)
    yield "tony_job_session", "Number of the current session (run of the gang).", job, report.session
    yield "tony_job_attempt", "Number of the current AM attempt.", job, report.attempt
    if report.submitted is not None:
        yield "tony_job_submitted_timestamp_seconds", "Submission time, in seconds since 1970.", job, report.submitted
    if report.ended is not None:
        yield "tony_job_ended_timestamp_seconds", "End time, in seconds since 1970.", job, report.ended
    if report.exit_code is not None:
        yield "tony_job_exit_code", "Exit code of the job.", job, report.exit_code
    yield from _usage_samples(report, job)
    yield from _task_state_samples(report, job)
    yield from _metric_samples(snapshot, job)


def _usage_samples(report: JobReport, job: _Labels) -> Iterator[_Sample]:
    restarts = report.restarts
    for word, count in (("true", restarts.charged if restarts else 0), ("false", restarts.free if restarts else 0)):
        what = "Restarts; charged=true for those that currently count against max_restarts."
        yield "tony_job_restarts", what, (*job, ("charged", word)), count
    if report.used:
        used = (
            ("gpu_hours", "GPU-hours allocated so far.", report.used.gpu_hours),
            ("memory_gib_hours", "GiB-hours of memory allocated so far.", report.used.gb_hours),
            ("core_hours", "Core-hours allocated so far.", report.used.core_hours),
        )
        for word, what, hours in used:
            yield f"tony_job_{word}", what, job, hours


def _task_state_samples(report: JobReport, job: _Labels) -> Iterator[_Sample]:
    counts: dict[tuple[str, TaskState], int] = {}
    for task in report.tasks:
        key = task.role, task.state
        counts[key] = counts.get(key, 0) + 1
    for role in dict.fromkeys(task.role for task in report.tasks):
        for state in TaskState:
            labels = (*job, ("role", role), ("state", state.value))
            yield "tony_job_tasks", "Tasks by state.", labels, counts.get((role, state), 0)


def _metric_samples(snapshot: JobSnapshot, job: _Labels) -> Iterator[_Sample]:
    known = [task for task in snapshot.report.tasks if task.task in snapshot.latest]
    if len(known) > MOST_TASKS:
        yield from _role_samples(snapshot, known, job)
        return
    for task in known:
        for series, value in snapshot.latest[task.task].items():
            named = _name_metric(series)
            if named:
                name, what, more = named
                labels = (*job, ("role", task.role), ("task", task.task), *more)
                yield f"tony_task_{name}", what, labels, value


def _role_samples(snapshot: JobSnapshot, tasks: Sequence[TaskReport], job: _Labels) -> Iterator[_Sample]:
    values: dict[tuple[str, str], list[float]] = {}
    for task in tasks:
        for series, value in snapshot.latest[task.task].items():
            values.setdefault((task.role, series), []).append(value)
    for (role, series), found in values.items():
        named = _name_metric(series)
        if named:
            name, what, more = named
            for word, value in (("least", min(found)), ("mean", sum(found) / len(found)), ("most", max(found))):
                labels = (*job, ("role", role), ("of_tasks", word), *more)
                yield f"tony_role_{name}", f"Over the tasks of the role: {what}", labels, value


def _name_metric(series: str) -> tuple[str, str, _Labels] | None:
    """Return the metric's name, help text and extra labels for a series; None for an unknown series."""
    reported = find_program_name(series)
    if reported is not None:
        return "told", "Reported by the user program.", (("series", reported),)
    device = _DEVICE.fullmatch(series)
    if device and device[2] in DEVICE:
        known = DEVICE[device[2]]
        return f"gpu_{_sanitize(known.name)}{_UNITS[known.unit]}", f"Of a device: {known.what}.", (("gpu", device[1]),)
    if series in PROGRAM:
        known = PROGRAM[series]
        return f"{_sanitize(known.name)}{_UNITS[known.unit]}", f"{known.what[0].upper()}{known.what[1:]}.", ()
    return None


def _sanitize(name: str) -> str:
    return _NAME.sub("_", name)
