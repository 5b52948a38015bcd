"""Reads jobs of LinkedIn TonY: one folder per job, with `tony-final.xml` and an Avro event file.

    <id>-<start ms>-<user>.jhist.inprogress             while it runs, and forever if its AM was killed
    <id>-<start ms>-<end ms>-<user>-<STATUS>.jhist      after it has ended

Each AM attempt has a file; the last one is read. Older versions have `config.xml` instead of `tony-final.xml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tony import clock
from tony.config.legacy.finished_job import job_of, read_final
from tony.core import events as ev
from tony.core.application import Application
from tony.core.report_builder import ReportContext, build_report
from tony.errors import InvalidTransitionError, RecordError
from tony.history.event_log import LogEntry, settings_digest
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.ids import ROLE_NAME, TaskId
from tony.model.job_report import JobReport, TaskReport
from tony.model.job_spec import JobSpec, Role
from tony.model.job_summary import JobHead, head_of_report
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.staged_files import StagedJob
from tony.model.states import ENDED_TASK_STATES, JobState, TaskState
from tony.model.submission_record import LINKEDIN_TONY, RECORD_VERSION, JobRecord
from tony.portal.histories.avro import CutOffError, read_records
from tony.portal.histories.history_layouts import RecordLocation
from tony.storage.stores.store_interface import FileStore, Item, join_path

_ENDED = re.compile(r"(application_\d+_\d+)-(\d{1,15})-(\d{1,15})-(.+)-([A-Z]+)\.jhist", re.ASCII)
_RUNNING = re.compile(r"(application_\d+_\d+)-(\d{1,15})-(.+)\.jhist\.inprogress", re.ASCII)
_STATES = {"SUCCEEDED": JobState.SUCCEEDED, "FAILED": JobState.FAILED, "KILLED": JobState.KILLED}
_SETTINGS = ("tony-final.xml", "config.xml")
#: Maximum bytes of an event file, and of the settings.
MAX_EVENT_FILE_BYTES = 64 << 20
_MAX_SETTINGS_BYTES = 8 << 20
_MAX_TASKS = 100_000
#: Maximum characters of a diagnostic message.
_MAX_DIAGNOSTIC_LENGTH = 4_000
#: Seconds without a change after which the file is no longer being written.
_ABANDONED_SECONDS = 3 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedInTonyJob:
    """One job of LinkedIn TonY, converted.

    Attributes:
        entries: its events, as tony's event log would have them.
        problem: what could not be read; empty if nothing.
    """

    record: JobRecord
    report: JobReport
    entries: tuple[LogEntry, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _EventFileName:
    """The parts of an event file's name; times in seconds since 1970."""

    file: str
    job: str
    submitted: float
    ended: float | None
    user: str
    state: JobState


def read_head(store: FileStore, place: RecordLocation, items: Sequence[Item]) -> JobHead:
    """Return a list entry of such a job.

    Raises:
        RecordError: its files are damaged.
        TonyError: the file system does not answer.
    """
    job = read(store, place.path, items)
    if job.problem:
        raise RecordError(job.problem)
    return head_of_report(job.report)


def read(store: FileStore, path: str, items: Sequence[Item]) -> LinkedInTonyJob:
    """Read such a job. Damaged parts are left out and reported in `problem`.

    Args:
        path: of its folder.
        items: the folder's content.

    Raises:
        RecordError: nothing can be read.
        TonyError: the file system does not answer.
    """
    names = sorted((name for item in items if (name := _parse_name(item.name))), key=lambda name: name.submitted)
    if not names:
        raise RecordError(f"{path} has no event file with a valid name")
    name = _mark_abandoned(names[-1], items)
    problems: list[str] = []
    settings = _read_settings(store, path, items, problems)
    events = _read_events(store, join_path(path, name.file), name, problems)
    spec, sources = job_of(settings)
    record = JobRecord(
        version=RECORD_VERSION,
        job_id=name.job,
        user=name.user,
        host="",
        submitted=name.submitted,
        tony_version=LINKEDIN_TONY,
        spec=_with_tasks(spec, events),
        staged=StagedJob(),
        framework_module="",
        sources=sources,
    )
    return _convert(record, name, events, "; ".join(problems))


def _parse_name(file: str) -> _EventFileName | None:
    if found := _ENDED.fullmatch(file):
        state = _STATES.get(found[5])
        if state:
            return _EventFileName(file, found[1], int(found[2]) / 1000, int(found[3]) / 1000, found[4], state)
    elif found := _RUNNING.fullmatch(file):
        return _EventFileName(file, found[1], int(found[2]) / 1000, None, found[3], JobState.RUNNING)
    return None


def _mark_abandoned(name: _EventFileName, items: Sequence[Item]) -> _EventFileName:
    """Mark an abandoned file as failed: a killed AM leaves it as if the job were running."""
    changed = next((item.changed for item in items if item.name == name.file), 0.0)
    if name.ended is None and 0 < changed < clock.wall() - _ABANDONED_SECONDS:
        return replace(name, ended=max(changed, name.submitted), state=JobState.FAILED)
    return name


def _read_settings(
    store: FileStore, path: str, items: Sequence[Item], problems: list[str]
) -> Mapping[str, tuple[str, str]]:
    present = {item.name for item in items}
    file = next((file for file in _SETTINGS if file in present), None)
    if file is None:
        return {}
    try:
        return read_final(store.read(join_path(path, file), _MAX_SETTINGS_BYTES) or b"", file)
    except (RecordError, ValueError) as error:
        problems.append(str(error))
        return {}


def _read_events(store: FileStore, path: str, name: _EventFileName, problems: list[str]) -> list[Mapping[str, Any]]:
    """Return the complete events. The end of a file that is still being written may be torn."""
    found: list[Mapping[str, Any]] = []
    try:
        for each in read_records(store.read(path, MAX_EVENT_FILE_BYTES) or b""):
            if isinstance(each, dict) and isinstance(each.get("event"), dict):
                found.append(each)
    except (RecordError, ValueError) as error:
        if name.file.endswith(".jhist") or (not found and not isinstance(error, CutOffError)):
            problems.append(f"{name.file}: {error}")
    return found


def _with_tasks(spec: JobSpec, events: Sequence[Mapping[str, Any]]) -> JobSpec:
    """Add tasks that occur in events: settings may be lost or damaged."""
    roles = dict(spec.roles)
    left = _MAX_TASKS - sum(role.instances for role in roles.values())
    for event in events:
        task = _parse_task(event["event"])
        if task and (task.role not in roles or roles[task.role].instances <= task.index):
            role = roles.get(task.role, Role(instances=0))
            more = task.index + 1 - role.instances
            if more <= left:
                left -= more
                roles[task.role] = replace(role, instances=task.index + 1)
    return replace(spec, roles=roles, command=spec.command or "")


def _parse_task(event: Mapping[str, Any]) -> TaskId | None:
    role, index = event.get("taskType"), event.get("taskIndex")
    if not isinstance(role, str) or not ROLE_NAME.fullmatch(role):
        return None
    return TaskId(role, index) if isinstance(index, int) and 0 <= index < _MAX_TASKS else None


# --- conversion -------------------------------------------------------------------------------------------------------


def _convert(
    record: JobRecord, name: _EventFileName, events: Sequence[Mapping[str, Any]], problem: str
) -> LinkedInTonyJob:
    """Feed equivalent events to the state machine, so that the job can be shown everywhere."""
    app = Application(record.job_id, record.spec)
    entries: list[LogEntry] = []
    for at, event in _convert_events(record, name, events):
        entry = LogEntry(seq=len(entries) + 1, at=at, wall=name.submitted + at, attempt=1, event=event)
        try:
            app.handle(event, at)
        except (
            InvalidTransitionError
        ):  # two AM attempts in one file, or a task that ended twice: visible in the timeline
            continue
        entries.append(entry)
    context = ReportContext(folder="", user=record.user, submitted=name.submitted, live={})
    seen = build_report(app, entries[-1].at if entries else 0.0, context)
    exit_code = None if name.ended is None else int(name.state is not JobState.SUCCEEDED)
    failed = name.state in (JobState.FAILED, JobState.KILLED)
    report = replace(
        seen,
        state=name.state,
        ended=name.ended,
        exit_code=exit_code,
        am=None,
        failure=_find_failure(name, events) if failed else None,
        waiting="",
        tasks=seen.tasks if name.ended is None else tuple(_mark_stopped(task) for task in seen.tasks),
    )
    return LinkedInTonyJob(record=record, report=report, entries=tuple(entries), problem=problem)


def _mark_stopped(task: TaskReport) -> TaskReport:
    """Mark a task as stopped if the events leave it running."""
    return task if task.state in ENDED_TASK_STATES else replace(task, state=TaskState.STOPPED, pid=None)


def _convert_events(
    record: JobRecord, name: _EventFileName, events: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[float, ev.Event]]:
    session, containers = 0, dict[TaskId, str]()
    last = 0.0
    for each in events:
        event, kind = each["event"], each.get("type")
        moment = each.get("timestamp")
        last = at = max(last, moment / 1000 - name.submitted if isinstance(moment, int) else last)
        task = _parse_task(event)
        if kind == "APPLICATION_INITED":
            session += 1
            if session == 1:
                host = str(event.get("host") or "")
                yield (
                    at,
                    ev.AttemptStarted(attempt=1, wall=name.submitted, settings=settings_digest(record.spec), host=host),
                )
            yield at, ev.SessionOpened(session=session, reason="begun" if session == 1 else "begun again")
        elif kind == "TASK_STARTED" and task:
            number = f"{task}.{session}"
            container = containers[task] = str(event.get("containerID") or number)
            host = str(event.get("host") or "")
            yield at, ev.Granted(container=container, role=task.role, host=host)
            yield (
                at,
                ev.Registered(
                    task=task, container=container, incarnation=number, session=session, address=f"{host or 'host'}:1"
                ),
            )
            yield at, ev.Started(task=task, session=session, try_=1, pid=0)
        elif kind == "TASK_FINISHED" and task:
            yield at, ev.Exited(task=task, session=session, try_=1, status=_convert_status(event), at=at)
            if task in containers:
                yield at, ev.ContainerEnded(container=containers.pop(task), cause="")


def _convert_status(event: Mapping[str, Any]) -> ExitStatus:
    word = str(event.get("status") or "")
    diagnostic = _format_diagnostic(event)
    peak = next(
        (
            int(each["value"])
            for each in event.get("metrics") or ()
            if isinstance(each, dict)
            and each.get("name") == "MAX_MEMORY_BYTES"
            and isinstance(each.get("value"), float)
            and 0 < each["value"] < 2**63
        ),
        None,
    )
    if word == "SUCCEEDED":
        return ExitStatus(reason=ExitReason.EXITED, code=0, peak_memory=peak)
    if word in ("KILLED", "FINISHED"):
        return ExitStatus(reason=ExitReason.STOPPED, peak_memory=peak, message=diagnostic)
    return ExitStatus(
        reason=ExitReason.EXITED, code=1, peak_memory=peak, message=diagnostic, tail=tuple(diagnostic.splitlines())
    )


def _format_diagnostic(event: Mapping[str, Any]) -> str:
    text = str(event.get("containerDiagnostic") or "")[:_MAX_DIAGNOSTIC_LENGTH].strip()
    return "" if text == "NA" else text


def _find_default_reason(name: _EventFileName) -> str:
    if name.state is JobState.KILLED:
        return "the application was killed"
    if name.file.endswith(".jhist"):
        return "the application failed; LinkedIn TonY recorded no reason"
    return "its application master ended without reporting a result"


def _find_failure(name: _EventFileName, events: Sequence[Mapping[str, Any]]) -> Failure:
    """Return the earliest task failure; LinkedIn TonY records no more."""
    killed = name.state is JobState.KILLED
    for each in () if killed else events:
        event = each["event"]
        if each.get("type") != "TASK_FINISHED" or event.get("status") in ("SUCCEEDED", "KILLED", "FINISHED"):
            continue
        task, diagnostic = _parse_task(event), _format_diagnostic(event)
        moment = each.get("timestamp")
        lines = [line.strip() for line in diagnostic.splitlines() if line.strip()]
        # A Python traceback has the exception in its last line.
        which = -1 if lines and lines[0].startswith("Traceback") else 0
        first = lines[which] if lines else str(event.get("status") or "failed").lower()
        return Failure(
            failure_class=FailureClass.USER,
            cause=FailureCause.PROGRAM,
            reason=f"{task} failed: {first}" if task else first,
            session=1,
            at=max(0.0, moment / 1000 - name.submitted) if isinstance(moment, int) else 0.0,
            task=task,
            tail=tuple(diagnostic.splitlines()[-50:]),
        )
    return Failure(
        failure_class=FailureClass.KILLED if killed else FailureClass.USER,
        cause=FailureCause.KILLED if killed else FailureCause.PROGRAM,
        reason=_find_default_reason(name),
        session=1,
        at=max(0.0, (name.ended or name.submitted) - name.submitted),
    )
