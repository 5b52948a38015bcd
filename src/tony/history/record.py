"""Reading and closing one job's record: who submitted what, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tony.errors import NewerRecordError, RecordError, UnknownJobError
from tony.history import index
from tony.history.files import read_json, write_json
from tony.model.codec import DecodeError, Json, from_plain, to_plain
from tony.model.job import Role
from tony.model.layout import Home, JobFolder
from tony.model.record import RECORD_VERSION, JobRecord
from tony.model.report import JobReport, RoleSize, TaskReport
from tony.model.states import JobState, TaskState

T = TypeVar("T")
#: Tasks of a job whose record is read: each of them is remembered, and a few letters can ask for a thousand million.
MOST_TASKS = 200_000


def read_job(folder: JobFolder) -> JobRecord | None:
    """Who submitted what, without its secrets; None if there is no such job.

    Raises:
        RecordError: the record was written by a newer version, or is not a record, or one of more than `MOST_TASKS`.
        StorageError: it cannot be read.
    """
    data = read_json(folder.job)
    if data is None:
        return None
    check_version(folder, data)
    record = _decode(folder, JobRecord, data, "job.json")
    sizes = [role.instances for role in record.spec.effective_roles.values()]
    if min(sizes, default=0) < 0:
        raise RecordError(f"{folder.job} is not a job's record: a role has {min(sizes)} tasks")
    if (tasks := sum(sizes)) > MOST_TASKS:
        raise RecordError(f"{folder.job} has {tasks:,} tasks; records of up to {MOST_TASKS:,} are read")
    return record


def record_of(home: Home, job_id: str) -> JobRecord:
    """Who submitted what.

    Raises:
        UnknownJobError: there is no such job.
        RecordError: a newer version wrote it.
    """
    record = read_job(home.job(job_id))
    if record is None:
        raise UnknownJobError(f"there is no job {job_id!r} in {home.jobs}.")
    return record


def check_version(folder: JobFolder, data: Json) -> None:
    """Refuses the content of a `job.json` that a newer version has written.

    Raises:
        RecordError: it is of a newer version, or says nothing about its version.
    """
    version = data.get("version") if isinstance(data, Mapping) else None
    if type(version) is not int:
        raise RecordError(f"{folder.job} is not a job's record: it says no version")
    if version > RECORD_VERSION:
        writer = data.get("tony_version", "unknown")
        raise NewerRecordError(
            f"{folder.job} has version {version}, written by tony {writer}; this one reads up to {RECORD_VERSION}. "
            "Use a newer tony to look at this job."
        )


def read_summary(folder: JobFolder) -> JobReport | None:
    """How the job ended; None as long as it has not.

    Raises:
        RecordError: the file is not a summary.
        StorageError: it cannot be read.
    """
    data = read_json(folder.summary)
    return None if data is None else _decode(folder, JobReport, data, "summary.json")


def write_summary(folder: JobFolder, report: JobReport) -> None:
    """Closes the record: after this the job has ended, for everybody.

    Raises:
        StorageError: the file system refused.
    """
    write_json(folder.summary, to_plain(report), durable=True)
    home = Home(folder.path.parent.parent)
    if home.job(folder.job_id) == folder:
        index.add(home, [index.head_of_report(report)])


def pending_report(folder: JobFolder, record: JobRecord) -> JobReport:
    """The job as it stands before anything of it runs: every task is pending."""
    return JobReport(
        job=record.job_id,
        name=record.spec.name,
        state=JobState.SUBMITTED,
        session=0,
        attempt=0,
        exit_code=None,
        folder=str(folder.path),
        am=None,
        tasks=tuple(
            TaskReport(
                task=str(task), role=task.role, index=task.index, state=TaskState.PENDING, since=record.submitted
            )
            for task in record.spec.task_ids
        ),
        failure=None,
        framework=record.spec.framework,
        scheduler=record.spec.scheduler,
        user=record.user,
        submitted=record.submitted,
        sizes=tuple(_size(name, record.spec.roles[name]) for name in record.spec.elastic_roles),
        queue=record.spec.queue,
        tags=record.spec.all_tags,
        viewers=record.spec.viewers,
        modifiers=record.spec.modifiers,
    )


def _size(name: str, role: Role) -> RoleSize:
    least = role.min_instances or role.instances
    return RoleSize(role=name, tasks=role.instances, least=least, most=role.instances)


def _decode(folder: JobFolder, cls: type[T], data: Json, name: str) -> T:
    try:
        return from_plain(cls, data, ignore_unknown=True)
    except DecodeError as error:
        raise RecordError(f"{folder.path / name} is not what it should be: {error}") from error
