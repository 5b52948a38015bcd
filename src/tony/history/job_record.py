"""Files of a job directory: what was submitted (job.json), how it ended (summary.json), and a pending kill request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tony.errors import NewerRecordError, RecordError, UnknownJobError
from tony.history import ended_jobs_index
from tony.history.json_files import decode_json, limit_decoding, read_if_valid, read_text, write_json
from tony.model.codec import DecodeError, Json, from_plain, to_plain
from tony.model.job_report import JobReport, RoleSize, TaskReport
from tony.model.job_spec import Role
from tony.model.job_summary import head_of_report
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState, TaskState
from tony.model.submission_record import RECORD_VERSION, JobRecord

T = TypeVar("T")
#: Tasks of a job that is read: each takes memory, and a few bytes of JSON can declare a billion of them.
MOST_TASKS = 200_000
#: The same for a job of another user, which may be crafted to be expensive.
MAX_FOREIGN_TASKS = 20_000


def read_job(folder: JobFolder, *, own: bool = True) -> JobRecord | None:
    """Return the submitted job without its secrets; None if there is no such job.

    Args:
        own: the job is in the user's own history; lower limits apply to jobs of other users.

    Raises:
        RecordError: the file is damaged, written by a newer version, or has more than `MOST_TASKS` tasks.
        StorageError: it cannot be read.
    """
    text = read_text(folder.job, own=own)
    if text is None:
        return None
    with limit_decoding(text):
        data = decode_json(folder.job, text)
        check_version(folder, data)
        record = _decode(folder, JobRecord, data, "job.json")
        del data
    sizes = [role.instances for role in record.spec.effective_roles.values()]
    if min(sizes, default=0) < 0:
        raise RecordError(f"{folder.job} is not a valid job record: a role has {min(sizes)} tasks")
    _check_tasks(folder.job, sum(sizes), own=own)
    return record


def _check_tasks(path: Path, tasks: int, *, own: bool) -> None:
    most = MOST_TASKS if own else MAX_FOREIGN_TASKS
    if tasks > most:
        condition = "" if own else " for jobs of other users"
        raise RecordError(f"{path} has {tasks:,} tasks; the limit{condition} is {most:,}")


def record_of(home: Home, job_id: str) -> JobRecord:
    """Return the submitted job.

    Raises:
        UnknownJobError: there is no such job.
        RecordError: the file is damaged, or was written by a newer version.
    """
    record = read_job(home.job(job_id))
    if record is None:
        raise UnknownJobError(f"there is no job {job_id!r} in {home.jobs}")
    return record


def check_version(folder: JobFolder, data: Json) -> None:
    """Refuse the content of a `job.json` written by a newer version.

    Raises:
        RecordError: it was, or has no version.
    """
    version = data.get("version") if isinstance(data, Mapping) else None
    if type(version) is not int:
        raise RecordError(f"{folder.job} is not a valid job record: it has no version")
    if version > RECORD_VERSION:
        writer = data.get("tony_version", "unknown")
        raise NewerRecordError(
            f"{folder.job} has version {version}, written by tony {writer}; this tony reads up to {RECORD_VERSION}. "
            "Use a newer tony to read this job."
        )


def read_summary(folder: JobFolder, *, own: bool = True) -> JobReport | None:
    """Return the final report of a job; None if it has not ended.

    Args:
        own: the job is in the user's own history; lower limits apply to jobs of other users.

    Raises:
        RecordError: the file is damaged, or has too many tasks.
        StorageError: it cannot be read.
    """
    text = read_text(folder.summary, own=own)
    if text is None:
        return None
    with limit_decoding(text):
        data = decode_json(folder.summary, text)
        tasks = data.get("tasks") if isinstance(data, Mapping) else None
        _check_tasks(folder.summary, len(tasks) if isinstance(tasks, list) else 0, own=own)
        report = _decode(folder, JobReport, data, "summary.json")
        del data, tasks
    return report


def write_summary(folder: JobFolder, report: JobReport) -> None:
    """Write the final report; from then on the job counts as ended everywhere.

    Raises:
        StorageError: the file cannot be written.
    """
    write_json(folder.summary, to_plain(report), durable=True)
    if folder.home.job(folder.job_id) == folder:
        ended_jobs_index.append_entry(folder.home, [head_of_report(report)])


def build_pending_report(folder: JobFolder, record: JobRecord) -> JobReport:
    """Return the report of a job before anything of it runs: every task is pending."""
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
        job_file=record.job_file,
        sizes=tuple(_size(name, record.spec.roles[name]) for name in record.spec.elastic_roles),
        queue=record.spec.queue,
        tags=record.spec.all_tags,
        viewers=record.spec.viewers,
        editors=record.spec.editors,
    )


def _size(name: str, role: Role) -> RoleSize:
    least = role.min_instances or role.instances
    return RoleSize(role=name, tasks=role.instances, least=least, most=role.instances)


def _decode(folder: JobFolder, cls: type[T], data: Json, name: str) -> T:
    try:
        return from_plain(cls, data, ignore_unknown=True)
    except DecodeError as error:
        raise RecordError(f"{folder.path / name} is invalid: {error}") from error


#: Characters of a user's name.
_MAX_ACTOR_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class KillRequest:
    """A request to kill the job.

    Attributes:
        actor: the requesting user.
        now: skip the grace period in which programs may save their work.
    """

    actor: str
    now: bool = False


def save_kill_request(folder: JobFolder, request: KillRequest) -> None:
    """Keep a request for the next AM attempt, or for `jobs/status/job_end.py`. `now` is never taken back.

    Raises:
        StorageError: the file cannot be written.
    """
    before = load_kill_request(folder)
    if before is None or (request.now and not before.now):
        write_json(folder.kill_request, to_plain(request))


def load_kill_request(folder: JobFolder) -> KillRequest | None:
    """Return the pending request; None if there is none, or if it is invalid."""
    request = read_if_valid(folder.kill_request, KillRequest)
    if request is None:
        return None
    actor = "".join(char for char in request.actor if char.isprintable())[:_MAX_ACTOR_LENGTH]
    return KillRequest(actor=actor, now=request.now)
