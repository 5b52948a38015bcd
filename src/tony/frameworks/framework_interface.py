"""The interface of a framework adapter.

An adapter has two halves. The application master's half turns a cluster spec into one small *shared* value, computed
once and sent to every task, so that a barrier of N tasks costs O(N) wherever the framework allows. The task's half,
inside the executor, turns that value and the task's own facts into environment variables. Both are pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tony.errors import Problem
from tony.model.codec import Json
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec, JobSpec
from tony.model.setting_choices import DistributedMode, RendezvousKind


def keep_host(host: str) -> str:
    """Return the host's name unresolved."""
    return host


def rendezvous_folder(work_folder: str, session: int) -> str:
    """Return the folder in which a program announces the port to which `RendezvousKind.RELAY` forwards connections."""
    return f"{work_folder}/.meeting-s{session}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """A task and the job's shape when its program starts, as seen by the task.

    Attributes:
        instances: role -> number of tasks, in the job's order.
        procs: role -> processes per task.
        num_tasks: number of tracked tasks.
        address: "host:port" reserved for this task.
        tb_port: port reserved for TensorBoard; None on tasks that have none.
        work_folder: the program's working directory.
        ip_of: returns the IPv4 address by which others reach a host of this name; raises UserError if there is none.
    """

    job_id: str
    task: TaskId
    session: int
    attempt: int
    try_: int
    instances: Mapping[str, int]
    procs: Mapping[str, int]
    chief: TaskId | None
    num_tasks: int
    mode: DistributedMode
    address: str
    tb_port: int | None = None
    work_folder: str = "."
    ip_of: Callable[[str], str] = keep_host


class Framework(ABC):
    """One machine-learning framework. Stateless."""

    #: Value of `framework` in the job file.
    name: str = ""

    def validate(self, spec: JobSpec) -> Sequence[Problem]:
        """Return errors in a job that only this framework can detect. None by default."""
        return ()

    def find_serving_roles(self, roles: Collection[str]) -> Collection[str]:
        """Return those of a job's roles whose programs serve the others until they are stopped. None by default.

        Such a role is untracked unless the job sets its kind: a job that waits for it never ends.
        """
        return ()

    def choose_rendezvous(self, spec: JobSpec, task: TaskId) -> RendezvousKind | None:
        """Return the rendezvous that the task's executor runs on the task's port; None: the program has the port.

        Called in the application master before the task is launched.
        """
        return None

    def check_elastic(self, spec: JobSpec, role: str) -> str | None:
        """Check whether a session can run without some tasks of a role (`instances = { min = 2, max = 8 }`).

        If so, both halves see only the tasks that take part: `shared` gets a job whose role has as many instances, and
        a TaskView their number and the task's place among them.

        Returns:
            None if it can; else why not, in a sentence without its full stop, such as `ps keeps a part of the model`.
        """
        return "its adapter does not support it"

    def defaults(self) -> Mapping[str, str]:
        """Return variables of every program that the job may override. None by default."""
        return {}

    def find_task(self, shared: Json, task: TaskView, process: int) -> TaskId | None:
        """Return the task that has the process with a number, as error messages name it; None if that is not known.

        Args:
            task: the one that printed the message. Tasks are counted as it sees them.
        """
        return None

    def check_lone_restart(self, spec: JobSpec, role: str) -> str | None:
        """Check whether one task of a role can be restarted while its peers run on (`restart = "task"`).

        Returns:
            None if it can; else why not, in a sentence without its full stop, such as `ranks wait for each other`.
        """
        return "its adapter does not support it"

    @abstractmethod
    def build_shared(self, spec: JobSpec, cluster: ClusterSpec) -> Json:
        """AM half: return the value that every task of the session gets. Plain JSON, as small as possible."""

    @abstractmethod
    def environment(self, shared: Json, task: TaskView) -> Sequence[Mapping[str, str]]:
        """Task half: return the variables of each process of the task, one mapping per process (`procs_per_task`).

        `shared` is None in fcfs mode. Called in the executor, with the standard library only. The variables common to
        all frameworks (JOB_NAME, TASK_INDEX...) are added by the executor, not here.

        Raises:
            UserError: the program cannot get what it needs; the message says why and what to do. The task ends as not
                launched.
        """
