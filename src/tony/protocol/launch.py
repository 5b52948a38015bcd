"""The launch context of an executor. Contains secrets: passed through a pipe or a file deleted after reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tony.model.executor_settings import JobProgramSettings, RoleProgramSettings
from tony.model.ids import TaskId
from tony.model.setting_choices import RendezvousKind
from tony.model.staged_files import LeftOut, StagedRole
from tony.model.value_class import value_class


@value_class
class AmCredentials:
    """Credentials to authenticate with the AM, and to verify it.

    Attributes:
        token: 64 hex digits (32 bytes), the job's.
        ca: PEM of the job's certificate authority; None where no TLS is used.
        certificate, key: PEM of the executors' own pair; None where no TLS is used.
    """

    token: str = field(repr=False)
    ca: str | None = field(default=None, repr=False)
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)


@value_class
class TaskPart:
    """The AM's part of a launch context; the same on every scheduler.

    Attributes:
        am_address: `unix:<path>` or `tls:<host>:<port>`.
        framework_module: the framework's adapter, "module:Class"; `framework_path` is a folder to append to sys.path
            for it, None for built-in ones.
        command: text for `bash -c`, or a tuple to execute; placeholders not yet filled in.
        env: the job's and the role's variables; placeholders not yet filled in.
        instances: role -> number of tasks, in the job's order; procs: role -> processes per task.
        num_tasks: tracked tasks (TASK_NUM).
        wants_tb_port: reserve a port for TensorBoard as well.
        board: the task that gets that port, as programs see it, where that may change; None: this one.
        gpus: number of GPUs requested.
        memory: bytes, limit of the program and its children.
        lease: seconds a program may continue after the last contact to the AM (`orphan_grace`).
        connect_timeout: seconds to try to reach an AM that is not known to be dead.
        meeting: the rendezvous server that the executor runs on the task's port; None leaves the port to the program.
        left_out: files excluded from the job's source, which may explain a failure.
    """

    job_id: str
    attempt: int
    session: int
    container: str
    role: str
    index: int
    am_address: str
    framework_module: str
    framework_path: str | None
    command: str | tuple[str, ...]
    env: Mapping[str, str]
    instances: Mapping[str, int]
    procs: Mapping[str, int]
    chief: TaskId | None
    num_tasks: int
    memory: int
    gpus: int
    wants_tb_port: bool
    port_range: tuple[int, int] | None
    stop_grace: float
    lease: float
    connect_timeout: float
    job_settings: JobProgramSettings
    role_settings: RoleProgramSettings
    meeting: RendezvousKind | None = None
    board: TaskId | None = None
    left_out: LeftOut | None = None

    @property
    def id(self) -> TaskId:
        return TaskId(self.role, self.index)


@value_class
class ContainerPart:
    """The scheduler's part of a launch context; filled in where the executor starts.

    Attributes:
        host: the name under which other tasks reach this one.
        work_folder: the program's working directory, with the job's source and files already in it.
        log_folder: where `<task>.s<session>.t<try>.out/err` go.
        inherit_env: whether the program inherits the executor's environment (local), or gets a bare one (clusters).
        python_path: folders put in front of PATH so that `python` is the job's interpreter.
        python_env: further variables of the job's interpreter (VIRTUAL_ENV), and of the cluster (HADOOP_CONF_DIR).
        gpu_devices: values for CUDA_VISIBLE_DEVICES, one per granted GPU; None: the executor detects them.
        cgroup: folders of a prepared cgroup for the program (v1: one per controller); empty: measure its memory.
        marker: text in the environment of all processes the program starts; the final clean-up searches for it.
        copies_output: programs' output is copied to the executor's own standard output and error.
        end_message: file whose content, if there is any, the scheduler reports as the last words of an executor that
            has failed, instead of the end of its standard output and error; empty: there is none.
    """

    host: str
    work_folder: str
    log_folder: str
    inherit_env: bool
    marker: str
    python_path: tuple[str, ...] = ()
    python_env: Mapping[str, str] = field(default_factory=dict)
    gpu_devices: tuple[str, ...] | None = None
    cgroup: tuple[str, ...] = ()
    copies_output: bool = False
    end_message: str = ""


@value_class
class LaunchContext:
    """Everything an executor gets, as one JSON object on its standard input (or in a file)."""

    task: TaskPart
    container: ContainerPart
    credentials: AmCredentials = field(repr=False)


@value_class
class JobCredentials:
    """All secrets that the client creates for a job: `secret/credentials.json`.

    Attributes:
        am: credentials of the AM.
        executors: credentials of executors and clients; the token is the same.
    """

    am: AmCredentials = field(repr=False)
    executors: AmCredentials = field(repr=False)


@value_class
class TaskLaunch:
    """Launch data of a task for an executor on another machine.

    Attributes:
        staged: the task's files.
    """

    task: TaskPart
    credentials: AmCredentials = field(repr=False)
    staged: StagedRole
