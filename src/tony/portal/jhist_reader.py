"""Records of the original: one folder per job, with `tony-final.xml` and an event file of Avro's.

    <id>-<start ms>-<user>.jhist.inprogress             while it ran, and for ever if its master was killed
    <id>-<start ms>-<end ms>-<user>-<STATUS>.jhist      when it had ended

Each life of its application master has a file; the last one counts. Older ones have `config.xml` for `tony-final.xml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tony import clock
from tony.config.legacy.final_xml import job_of, read_final
from tony.core import events as ev
from tony.core.application import Application
from tony.core.report_builder import ReportContext, report
from tony.dataclass import dataclass, replace
from tony.errors import InvalidTransition, RecordError
from tony.history.event_log import LogEntry, settings_digest
from tony.model.exit_status import ExitReason, ExitStatus
from tony.model.ids import ROLE_NAME, TaskId
from tony.model.job_record import ORIGINAL, RECORD_VERSION, JobRecord
from tony.model.job_report import Failure, FailureClass, JobReport, TaskReport
from tony.model.job_spec import JobSpec, Role
from tony.model.job_summary import JobHead, head_of_report
from tony.model.staged import StagedJob
from tony.model.states import ENDED_TASK_STATES, JobState, TaskState
from tony.portal.avro import records
from tony.portal.history_layouts import RecordLocation
from tony.storage.store import FileStore, Item, joined

_ENDED = re.compile(r"(application_\d+_\d+)-(\d{1,15})-(\d{1,15})-(.+)-([A-Z]+)\.jhist", re.ASCII)
_RUNNING = re.compile(r"(application_\d+_\d+)-(\d{1,15})-(.+)\.jhist\.inprogress", re.ASCII)
_STATES = {"SUCCEEDED": JobState.SUCCEEDED, "FAILED": JobState.FAILED, "KILLED": JobState.KILLED}
_SETTINGS = ("tony-final.xml", "config.xml")
#: Bytes of an event file, and of the settings.
MOST_EVENTS, _MOST_SETTINGS = 64 << 20, 8 << 20
#: Tasks of one job, and characters of a diagnostic, that are kept.
_MOST_TASKS, _MOST_TEXT = 100_000, 4_000
#: Seconds without an event after which nobody writes the file any more.
_FORSAKEN = 3 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """One job of the original, as far as ours have words for it.

    Attributes:
        entries: its events, as ours would have been.
        problem: what could not be read; empty if all could.
    """

    record: JobRecord
    report: JobReport
    entries: tuple[LogEntry, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Name:
    """What the name of an event file says; times in seconds since 1970."""

    file: str
    job: str
    began: float
    ended: float | None
    user: str
    state: JobState


def head(store: FileStore, place: RecordLocation, there: Sequence[Item]) -> JobHead:
    """One such job in a list.

    Raises:
        RecordError: its record is damaged.
        TonyError: the file system does not answer.
    """
    original = read(store, place.path, there)
    if original.problem:
        raise RecordError(original.problem)
    return head_of_report(original.report)


def read(store: FileStore, path: str, there: Sequence[Item]) -> Original:
    """All of one such job. What is damaged is left out, and said.

    Args:
        path: of its folder; `there`: what lies in it.

    Raises:
        RecordError: nothing of it makes sense.
        TonyError: the file system does not answer.
    """
    names = sorted((name for item in there if (name := _parsed(item.name))), key=lambda name: name.began)
    if not names:
        raise RecordError(f"{path} has no event file whose name makes sense")
    name = _settled(names[-1], there)
    problems: list[str] = []
    settings = _settings(store, path, there, problems)
    events = _events(store, joined(path, name.file), name, problems)
    spec, sources = job_of(settings)
    record = JobRecord(
        version=RECORD_VERSION,
        job_id=name.job,
        user=name.user,
        host="",
        submitted=name.began,
        tony_version=ORIGINAL,
        spec=_with_tasks(spec, events),
        staged=StagedJob(),
        framework_module="",
        sources=sources,
    )
    return _told(record, name, events, "; ".join(problems))


def _parsed(file: str) -> _Name | None:
    if found := _ENDED.fullmatch(file):
        state = _STATES.get(found[5])
        if state:
            return _Name(file, found[1], int(found[2]) / 1000, int(found[3]) / 1000, found[4], state)
    elif found := _RUNNING.fullmatch(file):
        return _Name(file, found[1], int(found[2]) / 1000, None, found[3], JobState.RUNNING)
    return None


def _settled(name: _Name, there: Sequence[Item]) -> _Name:
    """A master that was killed leaves its file as if it ran."""
    changed = next((item.changed for item in there if item.name == name.file), 0.0)
    if name.ended is None and 0 < changed < clock.wall() - _FORSAKEN:
        return replace(name, ended=max(changed, name.began), state=JobState.FAILED)
    return name


def _settings(store: FileStore, path: str, there: Sequence[Item], problems: list[str]) -> Mapping[str, tuple[str, str]]:
    present = {item.name for item in there}
    file = next((file for file in _SETTINGS if file in present), None)
    if file is None:
        return {}
    try:
        return read_final(store.read(joined(path, file), _MOST_SETTINGS) or b"", file)
    except (RecordError, ValueError) as error:
        problems.append(str(error))
        return {}


def _events(store: FileStore, path: str, name: _Name, problems: list[str]) -> list[Mapping[str, Any]]:
    """Those that are whole. The end of a file that is still written may be torn."""
    found: list[Mapping[str, Any]] = []
    try:
        for each in records(store.read(path, MOST_EVENTS) or b""):
            if isinstance(each, dict) and isinstance(each.get("event"), dict):
                found.append(each)
    except (RecordError, ValueError) as error:
        if name.file.endswith(".jhist") or (not found and "cut off" not in str(error)):
            problems.append(f"{name.file}: {error}")
    return found


def _with_tasks(spec: JobSpec, events: Sequence[Mapping[str, Any]]) -> JobSpec:
    """Settings may be lost, or damaged: whoever has run is there."""
    roles = dict(spec.roles)
    left = _MOST_TASKS - sum(role.instances for role in roles.values())
    for event in events:
        task = _task(event["event"])
        if task and (task.role not in roles or roles[task.role].instances <= task.index):
            role = roles.get(task.role, Role(instances=0))
            more = task.index + 1 - role.instances
            if more <= left:
                left -= more
                roles[task.role] = replace(role, instances=task.index + 1)
    return replace(spec, roles=roles, command=spec.command or "")


def _task(event: Mapping[str, Any]) -> TaskId | None:
    role, index = event.get("taskType"), event.get("taskIndex")
    if not isinstance(role, str) or not ROLE_NAME.fullmatch(role):
        return None
    return TaskId(role, index) if isinstance(index, int) and 0 <= index < _MOST_TASKS else None


# --- told as ours -----------------------------------------------------------------------------------------------------


def _told(record: JobRecord, name: _Name, events: Sequence[Mapping[str, Any]], problem: str) -> Original:
    """Feeds the machine the events that ours would have had, so that every surface can show the job."""
    app = Application(record.job_id, record.spec)
    entries: list[LogEntry] = []
    for at, event in _ours(record, name, events):
        entry = LogEntry(seq=len(entries) + 1, at=at, wall=name.began + at, attempt=1, event=event)
        try:
            app.handle(event, at)
        except InvalidTransition:  # two lives of a master in one file, a task that ended twice: seen by the timeline
            continue
        entries.append(entry)
    around = ReportContext(folder="", user=record.user, submitted=name.began, live={})
    seen = report(app, entries[-1].at if entries else 0.0, around)
    exit_code = None if name.ended is None else int(name.state is not JobState.SUCCEEDED)
    failed = name.state in (JobState.FAILED, JobState.KILLED)
    told = replace(
        seen,
        state=name.state,
        ended=name.ended,
        exit_code=exit_code,
        am=None,
        failure=_failure(name, events) if failed else None,
        waiting="",
        tasks=seen.tasks if name.ended is None else tuple(_at_rest(task) for task in seen.tasks),
    )
    return Original(record=record, report=told, entries=tuple(entries), problem=problem)


def _at_rest(task: TaskReport) -> TaskReport:
    """Nothing runs any more, whatever the events say of it last."""
    return task if task.state in ENDED_TASK_STATES else replace(task, state=TaskState.STOPPED, pid=None)


def _ours(record: JobRecord, name: _Name, events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[float, ev.Event]]:
    session, containers = 0, dict[TaskId, str]()
    last = 0.0
    for each in events:
        event, kind = each["event"], each.get("type")
        moment = each.get("timestamp")
        last = at = max(last, moment / 1000 - name.began if isinstance(moment, int) else last)
        task = _task(event)
        if kind == "APPLICATION_INITED":
            session += 1
            if session == 1:
                host = str(event.get("host") or "")
                yield (
                    at,
                    ev.AttemptStarted(attempt=1, wall=name.began, settings=settings_digest(record.spec), host=host),
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
            yield at, ev.Exited(task=task, session=session, try_=1, status=_status(event), at=at)
            if task in containers:
                yield at, ev.ContainerEnded(container=containers.pop(task), cause="")


def _status(event: Mapping[str, Any]) -> ExitStatus:
    word = str(event.get("status") or "")
    said = _diagnostic(event)
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
        return ExitStatus(reason=ExitReason.STOPPED, peak_memory=peak, message=said)
    return ExitStatus(reason=ExitReason.EXITED, code=1, peak_memory=peak, message=said, tail=tuple(said.splitlines()))


def _diagnostic(event: Mapping[str, Any]) -> str:
    text = str(event.get("containerDiagnostic") or "")[:_MOST_TEXT].strip()
    return "" if text == "NA" else text


def _nothing_told(name: _Name) -> str:
    if name.state is JobState.KILLED:
        return "somebody killed the application"
    if name.file.endswith(".jhist"):
        return "the original says no more than that it failed"
    return "its application master ended without a word"


def _failure(name: _Name, events: Sequence[Mapping[str, Any]]) -> Failure:
    """The earliest task that failed; the original does not tell more."""
    killed = name.state is JobState.KILLED
    for each in () if killed else events:
        event = each["event"]
        if each.get("type") != "TASK_FINISHED" or event.get("status") in ("SUCCEEDED", "KILLED", "FINISHED"):
            continue
        task, said = _task(event), _diagnostic(event)
        moment = each.get("timestamp")
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        # What Python raises stands in the last line of what it says about it.
        which = -1 if lines and lines[0].startswith("Traceback") else 0
        first = lines[which] if lines else str(event.get("status") or "failed").lower()
        return Failure(
            failure_class=FailureClass.USER,
            cause="program",
            reason=f"{task} failed: {first}" if task else first,
            session=1,
            at=max(0.0, moment / 1000 - name.began) if isinstance(moment, int) else 0.0,
            task=str(task) if task else None,
            tail=tuple(said.splitlines()[-50:]),
        )
    return Failure(
        failure_class=FailureClass.KILLED if killed else FailureClass.USER,
        cause="killed" if killed else "program",
        reason=_nothing_told(name),
        session=1,
        at=max(0.0, (name.ended or name.began) - name.began),
    )
