"""Paths of the state directory and of job directories. The only place that defines these names.

<home>/                 $TONY_HOME, default ~/.tony; readable by its owner only
  cache/                staged objects by digest; trees/ holds them unpacked, unpacked/ interpreters
  index.jsonl           one line for each job that has ended, for lists; may be deleted
  last                  the id of the job submitted last; may be deleted
  mini/                 the mini Hadoop cluster of `tony mini`, while it exists: see mini/layout.py
  mini-kubernetes/      the small Kubernetes of `tony mini start --kubernetes`, likewise
  portal.json           the address of the running `tony portal`
  portal/               state of `tony portal`: an index of jobs, tokens (their digests), its key, event files for
                        running TensorBoards
  submitting/           a locked file, named after its job, for each submission in progress
  jobs/<id>/            one job directory
    job.json            the submission and the resolved job file, without secrets
    am.json             the running application master: pid, host, attempt, address; its supervisor's pid (local)
    am.lock             locked (flock) while the application master, or its supervisor (local), is alive
    heard.json          the last report received here of a remote job, until it has ended
    am-start-failures.json  since when the AM of a remote job cannot start, as seen here (Kubernetes)
    kill.json           a kill request that no application master answered, for the next one
    am.log              the application master's log, over all AM attempts
    events.<n>.jsonl    event log, one segment per AM attempt
    summary.json        the last JobReport; written when the job has ended
    metrics.db          metrics, SQLite: see history/metrics_reader.py
    pinned.json         the job is kept, however old: who pinned it and when
    logs/               <role>-<index>.s<session>.t<try>.out / .err, and <role>-<index>.executor.log
    work/<role>-<index>/  the task's working directory
    work/.localized/    per task: a mark that its working directory is complete, and its `python` scripts
    remains             executors and control groups of a running job, for the cleanup after a dead AM (local)
    staged/             links to the job's objects in cache/, so that none is evicted while it runs
    secret/             token, keys, job with secrets; owner only; removed when the job has ended
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tony.model.ids import TaskId

#: Matches the names of event logs, those with `.closed` in a job store included.
SEGMENT_GLOB = "events.*.jsonl"


def build_segment_name(attempt: int) -> str:
    """Return the name of an AM attempt's event log."""
    return f"events.{attempt}.jsonl"


@dataclass(frozen=True, slots=True)
class Home:
    """The state directory of one user."""

    path: Path

    @property
    def cache(self) -> Path:
        """Staged objects by digest."""
        return self.path / "cache"

    @property
    def index(self) -> Path:
        """One line for each job that has ended: a cache for lists."""
        return self.path / "index.jsonl"

    @property
    def last(self) -> Path:
        """The id of the job submitted last, regardless of the clock."""
        return self.path / "last"

    @property
    def submitting(self) -> Path:
        """A locked file for each submission in progress, by which the remains of a killed one are recognized."""
        return self.path / "submitting"

    @property
    def mini(self) -> Path:
        """The mini Hadoop cluster of this state directory; missing unless one was started."""
        return self.path / "mini"

    @property
    def mini_kubernetes(self) -> Path:
        """The small Kubernetes of this state directory; missing unless one was started."""
        return self.path / "mini-kubernetes"

    @property
    def jobs(self) -> Path:
        return self.path / "jobs"

    @property
    def portal_here(self) -> Path:
        """The address of this user's portal, while one runs."""
        return self.path / "portal.json"

    @property
    def portal(self) -> Path:
        """The portal's own state: its index, tokens and key."""
        return self.path / "portal"

    def job(self, job_id: str) -> JobFolder:
        """Return the directory of one job, whether or not it exists."""
        return JobFolder(self.jobs / job_id)


@dataclass(frozen=True, slots=True)
class JobFolder:
    """One job directory."""

    path: Path

    @property
    def home(self) -> Home:
        """The state directory, if the job directory is in one."""
        return Home(self.path.parent.parent)

    @property
    def job_id(self) -> str:
        return self.path.name

    @property
    def job(self) -> Path:
        """The submission and the resolved job file, without secrets."""
        return self.path / "job.json"

    @property
    def am(self) -> Path:
        return self.path / "am.json"

    @property
    def am_lock(self) -> Path:
        """Locked while the application master is alive."""
        return self.path / "am.lock"

    @property
    def heard(self) -> Path:
        """The last report received here of a remote job."""
        return self.path / "heard.json"

    @property
    def kill_request(self) -> Path:
        """A kill request for the next application master."""
        return self.path / "kill.json"

    @property
    def am_log(self) -> Path:
        return self.path / "am.log"

    @property
    def am_socket(self) -> Path:
        """The Unix socket the application master listens on."""
        return self.path / "am.sock"

    @property
    def transient_files(self) -> tuple[Path, ...]:
        """Files that only a running job has; at its end they are removed together with the folder `secret`."""
        return (self.am, self.am_socket, self.kill_request, self.heard, self.am_start_failures)

    @property
    def am_start_failures(self) -> Path:
        """Since when an AM cannot start, as commands have seen it: some schedulers do not say."""
        return self.path / "am-start-failures.json"

    @property
    def summary(self) -> Path:
        """The last report; there once the job has ended."""
        return self.path / "summary.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.db"

    @property
    def pinned(self) -> Path:
        """Present if a user has pinned the job."""
        return self.path / "pinned.json"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def remains(self) -> Path:
        """Executors and control groups to clean up after a killed AM. Only while it is alive, on `local`."""
        return self.path / "remains"

    @property
    def staged(self) -> Path:
        return self.path / "staged"

    @property
    def secret(self) -> Path:
        """Token, keys, the job with its secrets; owner only."""
        return self.path / "secret"

    @property
    def secret_job(self) -> Path:
        """The job with its secrets, for the application master."""
        return self.secret / "job.json"

    @property
    def credentials(self) -> Path:
        """Token and certificates, as JSON."""
        return self.secret / "credentials.json"

    def events(self, attempt: int) -> Path:
        """Return the event log of one AM attempt."""
        return self.path / build_segment_name(attempt)

    def executor_log(self, task: TaskId) -> Path:
        """Return the log of one task's executors, one after the other."""
        return self.logs / f"{task.role}-{task.index}.executor.log"

    def work_of(self, task: TaskId) -> Path:
        return self.work / f"{task.role}-{task.index}"
