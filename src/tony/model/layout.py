"""Where everything of a user and of a job lies. The only place that knows these names.

<home>/                 $TONY_HOME, default ~/.tony; readable by its owner only
  cache/                staged objects by digest; trees/ holds them unpacked, unpacked/ interpreters
  index.jsonl           one line for each job that has ended, for lists; may be deleted
  last                  the id of the job that was submitted last; may be deleted
  mini/                 the small Hadoop of `tony mini`, while it is there: see mini/layout.py
  portal.json           where `tony portal` shows these jobs now
  portal/               what `tony portal` keeps: an index of jobs, tokens (their digests), its key, event files for
                        TensorBoards that run
  submitting/           a locked file, named after its job, for each submission that has not ended yet
  jobs/<id>/            one job's record
    job.json            who, when, and the resolved job file, secrets out
    am.json             the living application master: pid, host, attempt, address; its supervisor's pid (local)
    am.lock             held (flock) as long as the application master lives, or who has the next one begin (local)
    heard.json          the last report that was heard here of a job that runs elsewhere, until it has ended
    kill.json           somebody wants the job to end, and no application master answered: the next one obeys
    am.log              its own log, over all attempts
    events.<n>.jsonl    event log, one segment per attempt
    summary.json        the last JobReport; there once the job has ended
    metrics.db          what was measured, SQLite: see history/metrics_reader.py
    pinned.json         somebody wants it kept, however old: who and when
    logs/               <role>-<index>.s<session>.t<try>.out / .err, and <role>-<index>.executor.log
    work/<role>-<index>/  the task's working directory
    work/.localized/    per task: that its working directory is complete, and what makes `python` its interpreter
    remains             executors and control groups while the job lives, for who cleans up after a dead master (local)
    staged/             links to the job's objects in cache/, so that none is evicted under it
    secret/             token, keys, unredacted job; owner only; removed when the job has ended
"""

from __future__ import annotations

from pathlib import Path

from tony.dataclass import dataclass
from tony.model.ids import TaskId


@dataclass(frozen=True, slots=True)
class Home:
    """All state of one user."""

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
        """The id of the job that was submitted last, whatever the clock said then."""
        return self.path / "last"

    @property
    def submitting(self) -> Path:
        """A locked file for each submission that has not ended yet: what a killed one has left is known by it."""
        return self.path / "submitting"

    @property
    def mini(self) -> Path:
        """The small Hadoop of this home; not there unless one was started."""
        return self.path / "mini"

    @property
    def jobs(self) -> Path:
        """One folder per job."""
        return self.path / "jobs"

    @property
    def portal_here(self) -> Path:
        """Where a portal of this user shows these jobs, while one does."""
        return self.path / "portal.json"

    @property
    def portal(self) -> Path:
        """What the portal of this user keeps: its index, its tokens, its key."""
        return self.path / "portal"

    def job(self, job_id: str) -> JobFolder:
        """The folder of one job, whether or not it exists."""
        return JobFolder(self.jobs / job_id)


@dataclass(frozen=True, slots=True)
class JobFolder:
    """One job's record on disk."""

    path: Path

    @property
    def job_id(self) -> str:
        """The job's id: the folder's name."""
        return self.path.name

    @property
    def job(self) -> Path:
        """Who, when, and the resolved job file, secrets out."""
        return self.path / "job.json"

    @property
    def am(self) -> Path:
        """The living application master."""
        return self.path / "am.json"

    @property
    def am_lock(self) -> Path:
        """Held as long as the application master lives."""
        return self.path / "am.lock"

    @property
    def heard(self) -> Path:
        """The last report that was heard here of a job that runs elsewhere."""
        return self.path / "heard.json"

    @property
    def kill_request(self) -> Path:
        """That somebody wants the job to end, for the next application master."""
        return self.path / "kill.json"

    @property
    def am_log(self) -> Path:
        """The application master's own log."""
        return self.path / "am.log"

    @property
    def am_socket(self) -> Path:
        """The Unix socket the application master listens on."""
        return self.path / "am.sock"

    @property
    def summary(self) -> Path:
        """The last report; there once the job has ended."""
        return self.path / "summary.json"

    @property
    def metrics(self) -> Path:
        """What was measured of its tasks."""
        return self.path / "metrics.db"

    @property
    def pinned(self) -> Path:
        """That somebody wants it kept."""
        return self.path / "pinned.json"

    @property
    def logs(self) -> Path:
        """The tasks' output."""
        return self.path / "logs"

    @property
    def work(self) -> Path:
        """The tasks' working directories."""
        return self.path / "work"

    @property
    def remains(self) -> Path:
        """What a master that is killed leaves behind: executors, control groups. Only while it lives, on `local`."""
        return self.path / "remains"

    @property
    def staged(self) -> Path:
        """Links to the job's objects in the cache."""
        return self.path / "staged"

    @property
    def secret(self) -> Path:
        """Token, keys, the unredacted job; owner only."""
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
        """The event log of one attempt."""
        return self.path / f"events.{attempt}.jsonl"

    def executor_log(self, task: TaskId) -> Path:
        """What the executors of one task said themselves, one after the other."""
        return self.logs / f"{task.role}-{task.index}.executor.log"

    def work_of(self, task: TaskId) -> Path:
        """One task's working directory."""
        return self.work / f"{task.role}-{task.index}"
