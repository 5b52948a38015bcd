"""Jobs as numbers in Prometheus' text format (0.0.4). Pure: whoever serves it has looked at the jobs.

Of a job with many tasks, what is measured is told by role, with its least, mean and most: a time series of each of
10,000 tasks would cost whoever collects them more than it tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tony.dataclass import dataclass, field
from tony.model.job_report import JobReport, TaskReport
from tony.model.metrics import DEVICE, OF_PROGRAMS, PROGRAM, Unit
from tony.model.states import JobState, TaskState

#: What the answer is.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Tasks of a job of which each is told by itself.
MOST_TASKS = 1000
#: Bytes of a label; nobody reads longer ones.
_LONGEST = 200

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
    """One job, as it was looked at.

    Attributes:
        latest: task -> series -> the newest value.
    """

    report: JobReport
    latest: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Sample:
    """One line: labels and a value."""

    labels: tuple[tuple[str, str], ...]
    value: float


@dataclass(slots=True)
class _Family:
    """All lines of one name."""

    name: str
    kind: str
    what: str
    samples: list[_Sample]


def exposition(jobs: Iterable[JobSnapshot]) -> str:
    """The answer to who collects, about these jobs."""
    families: dict[str, _Family] = {}
    for seen in jobs:
        for name, kind, what, sample in _told(seen):
            families.setdefault(name, _Family(name, kind, what, [])).samples.append(sample)
    return "".join(line for name in sorted(families) for line in _lines(families[name]))


def _lines(family: _Family) -> Iterator[str]:
    what = family.what.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {family.name} {what}\n# TYPE {family.name} {family.kind}\n"
    for sample in family.samples:
        labels = ",".join(f'{name}="{escaped(value)}"' for name, value in sample.labels)
        yield f"{family.name}{{{labels}}} {_number(sample.value)}\n"


def escaped(value: str) -> str:
    """A label's value: no line may end in it, and no quotation."""
    short = value.encode("utf-8", "replace")[:_LONGEST].decode("utf-8", "ignore")
    return short.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


_Told = tuple[str, str, str, _Sample]


def _told(seen: JobSnapshot) -> Iterator[_Told]:
    report = seen.report
    job = (("job_id", report.job),)
    about = (*job, ("name", report.name), ("user", report.user), ("scheduler", report.scheduler))
    yield "tony_job_info", "gauge", "A job; always 1.", _Sample((*about, ("framework", report.framework)), 1)
    for state in JobState:
        sample = _Sample((*job, ("state", state.value)), float(report.state is state))
        yield "tony_job_state", "gauge", "1 for the state in which the job is, 0 for the others.", sample
    yield "tony_job_session", "gauge", "Which try of its gang runs.", _Sample(job, report.session)
    yield "tony_job_attempt", "gauge", "Which life of its application master it is.", _Sample(job, report.attempt)
    if report.submitted is not None:
        what = "When it was submitted, in seconds since 1970."
        yield "tony_job_submitted_timestamp_seconds", "gauge", what, _Sample(job, report.submitted)
    if report.ended is not None:
        what = "When it ended, in seconds since 1970."
        yield "tony_job_ended_timestamp_seconds", "gauge", what, _Sample(job, report.ended)
    if report.exit_code is not None:
        yield "tony_job_exit_code", "gauge", "What its follower's command line answers.", _Sample(job, report.exit_code)
    yield from _restarts(report, job)
    yield from _tasks(report, job)
    yield from _measured(seen, job)


def _restarts(report: JobReport, job: tuple[tuple[str, str], ...]) -> Iterator[_Told]:
    restarts = report.restarts
    for word, count in (("true", restarts.charged if restarts else 0), ("false", restarts.free if restarts else 0)):
        what = "How often something started again; charged ones as far as they count now."
        yield "tony_job_restarts", "gauge", what, _Sample((*job, ("charged", word)), count)
    if report.used:
        used = (
            ("gpu_hours", "GPU-hours that its containers have held.", report.used.gpu_hours),
            ("memory_gib_hours", "GiB-hours of memory that its containers have held.", report.used.gb_hours),
            ("core_hours", "Core-hours that its containers have held.", report.used.core_hours),
        )
        for word, what, hours in used:
            yield f"tony_job_{word}", "gauge", what, _Sample(job, hours)


def _tasks(report: JobReport, job: tuple[tuple[str, str], ...]) -> Iterator[_Told]:
    counts: dict[tuple[str, TaskState], int] = {}
    for task in report.tasks:
        key = task.role, task.state
        counts[key] = counts.get(key, 0) + 1
    for role in dict.fromkeys(task.role for task in report.tasks):
        for state in TaskState:
            labels = (*job, ("role", role), ("state", state.value))
            yield "tony_job_tasks", "gauge", "Tasks by state.", _Sample(labels, counts.get((role, state), 0))


def _measured(seen: JobSnapshot, job: tuple[tuple[str, str], ...]) -> Iterator[_Told]:
    known = [task for task in seen.report.tasks if task.task in seen.latest]
    if len(known) > MOST_TASKS:
        yield from _by_role(seen, known, job)
        return
    for task in known:
        for series, value in seen.latest[task.task].items():
            named = _named(series)
            if named:
                name, what, more = named
                labels = (*job, ("role", task.role), ("task", task.task), *more)
                yield f"tony_task_{name}", "gauge", what, _Sample(labels, value)


def _by_role(seen: JobSnapshot, tasks: Sequence[TaskReport], job: tuple[tuple[str, str], ...]) -> Iterator[_Told]:
    values: dict[tuple[str, str], list[float]] = {}
    for task in tasks:
        for series, value in seen.latest[task.task].items():
            values.setdefault((task.role, series), []).append(value)
    for (role, series), found in values.items():
        named = _named(series)
        if named:
            name, what, more = named
            for word, value in (("least", min(found)), ("mean", sum(found) / len(found)), ("most", max(found))):
                labels = (*job, ("role", role), ("of_tasks", word), *more)
                yield f"tony_role_{name}", "gauge", f"Over the tasks of the role: {what}", _Sample(labels, value)


def _named(series: str) -> tuple[str, str, tuple[tuple[str, str], ...]] | None:
    """How a series is called there, what it is, and what more its labels say; None for a name that is none of ours."""
    if series.startswith(OF_PROGRAMS):
        return "told", "What the program tells of itself.", (("series", series.removeprefix(OF_PROGRAMS)),)
    device = _DEVICE.fullmatch(series)
    if device and device[2] in DEVICE:
        known = DEVICE[device[2]]
        return f"gpu_{_plain(known.name)}{_UNITS[known.unit]}", f"Of a device: {known.what}.", (("gpu", device[1]),)
    if series in PROGRAM:
        known = PROGRAM[series]
        return f"{_plain(known.name)}{_UNITS[known.unit]}", f"{known.what[0].upper()}{known.what[1:]}.", ()
    return None


def _plain(name: str) -> str:
    return _NAME.sub("_", name)
