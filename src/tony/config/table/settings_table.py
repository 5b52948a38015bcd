"""The table of settings; validation, docs and `tony settings` are generated from it.

Keys are dotted. A part in angle brackets stands for a name that the user chooses: `roles.<role>.memory`. A row with an
`attribute` sets that field of `JobSpec` (of `Role` for keys of roles), whose default is the default of the setting. The
settings of the schedulers come from `tony.schedulers.settings_schema`.

Standard library only: the application master checks site files again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tony.model.diagnosis import FailureKind
from tony.model.job_spec import MIB, JobSpec, Role
from tony.model.setting_choices import (
    DistributedMode,
    FailurePolicy,
    OnInterrupt,
    OnStall,
    OnTimeout,
    ReservedPort,
    RestartScope,
    RoleKind,
    RuleMeaning,
    StopOn,
    TlsMode,
)

#: A key as its parts: `("roles", "worker", "memory")`.
Key = tuple[str, ...]


class Kind(Enum):
    """The type of a value; each member's value is the word in the docs."""

    SIZE = "size"  #: text with a unit; bytes inside
    DURATION = "duration"  #: text with a unit; seconds inside
    TIMEOUT = "duration or off"  #: a duration; `off` and `0s` are None inside
    WAIT = "wait or off"  #: a duration; `off` is None inside, `0s` is no wait
    INTEGER = "whole number"
    NUMBER = "number"
    TRUTH = "true or false"
    TEXT = "text"
    WORD = "text or number"  #: value of a variable or parameter; numbers are used as written
    CHOICE = "one of"  #: a member of an Enum
    NAMES = "list of roles"
    TAGS = "list of words"
    CODES = "list of exit codes"
    FILES = "list of files"
    PATH = "path"
    SOURCE = "path or address"  #: also in a cluster's file system
    PYTHON = "path or program"
    COMMAND = "text or list"  #: text runs through `bash -c`, a list is executed as it is
    SECRET = "text, env:NAME or file:PATH"  #: never shown; references are resolved at submission
    TABLE = "table"  #: of any keys, as JSON values
    PORTS = "first-last"  #: `"20000-20100"` or `[20000, 20100]`


class Part(Enum):
    """The part of tony that uses a setting."""

    CLIENT = "client"
    AM = "application master"
    EXECUTOR = "executor"
    FRAMEWORK = "framework"
    SCHEDULER = "scheduler"


_UNITS = {Kind.SIZE: "b k m g t", Kind.DURATION: "ms s m h d", Kind.TIMEOUT: "ms s m h d", Kind.WAIT: "ms s m h d"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the table.

    Attributes:
        key: dotted; `<role>` and the like stand for a name that the user chooses.
        meaning: one line.
        part: the part of tony that uses it.
        attribute: dotted field of JobSpec (of Role for keys of roles) that it sets; empty for parts of a mapping.
        shown_default: default in the docs, if the default of the field does not say it.
        minimum, maximum: bounds of a number, inclusive; bytes and seconds.
        choices: the values of a CHOICE.
        also: other words for it, for suggestions.
    """

    key: str
    kind: Kind
    part: Part
    meaning: str
    attribute: str = ""
    shown_default: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    choices: type[Enum] | None = None
    also: tuple[str, ...] = ()

    @property
    def path(self) -> Key:
        """The parts of the key."""
        return tuple(self.key.split("."))

    @property
    def unit(self) -> str:
        """The units that its text may have; empty if it has none."""
        return _UNITS.get(self.kind, "")

    @property
    def default(self) -> object:
        """The canonical default, from the model; None if there is none."""
        if not self.attribute:
            return None
        value: object = _ROLE if self.path[0] == "roles" else _SPEC
        for name in self.attribute.split("."):
            value = getattr(value, name)
        return value


_SPEC = JobSpec()
_ROLE = Role()


def _row(
    key: str,
    kind: Kind,
    part: Part,
    meaning: str,
    *,
    attribute: str | None = None,
    default: str | None = None,
    bounds: tuple[float, float | None] | None = None,
    choices: type[Enum] | None = None,
    also: str = "",
) -> Setting:
    own_name = key.removeprefix("roles.<role>.")
    return Setting(
        key=key,
        kind=kind,
        part=part,
        meaning=meaning,
        attribute=own_name if attribute is None else attribute,
        shown_default=default,
        minimum=bounds and bounds[0],
        maximum=bounds and bounds[1],
        choices=choices,
        also=tuple(also.split()),
    )


#: Most tasks of one job. The application master is tested with 10,000; ten times that is surely a typo.
MAX_INSTANCES = 100_000

# fmt: off
_JOB = (
    _row("name", Kind.TEXT, Part.CLIENT, "Name of the job: up to 200 characters, need not be unique.",
         default="the job file's name", also="title app application job_name"),
    _row("tags", Kind.TAGS, Part.CLIENT, 'Words to find the job by, in lists and searches: `["nightly", "ads"]`.',
         also="labels keywords"),
    _row("viewers", Kind.TAGS, Part.CLIENT, "Who may view the job in the portal besides its owner: users, `@groups`, "
         "`*` for all users.", also="view_acl acl readers"),
    _row("editors", Kind.TAGS, Part.CLIENT, "Who may view the job in the portal, and stop or restart it: users, "
         "`@groups`, `*`.", also="modify_acl admins writers"),
    _row("framework", Kind.TEXT, Part.FRAMEWORK, "ML framework; tony sets its rendezvous variables: `tensorflow`, "
         "`pytorch`, `jax`, `mxnet`, `horovod`, `none`, `standalone` or a plug-in's name.", also="runtime backend"),
    _row("command", Kind.COMMAND, Part.EXECUTOR, "What the tasks run: text runs through `bash -c`, a list is "
         "executed directly. Placeholders are replaced.", also="cmd run executes entrypoint args"),
    _row("source", Kind.SOURCE, Part.CLIENT, "Folder or archive whose content is each task's working directory; in "
         "HDFS (`hdfs://...`) an archive.", also="src src_dir workdir cwd"),
    _row("gitignore", Kind.TRUTH, Part.CLIENT, "Leave out what a `.gitignore` in `source` names, unless git tracks "
         "it.", also="ignore"),
    _row("python", Kind.PYTHON, Part.EXECUTOR, "Environment, as folder or archive (venv, conda-pack), or an "
         "interpreter on the nodes.", also="venv interpreter conda python_venv"),
    _row("files", Kind.FILES, Part.CLIENT, "Additional files for every task: `path`, `path::name` under another "
         "name, `path#archive` unpacked into a folder, `path#optional` only if it exists; `hdfs://...` too.",
         also="resources file data inputs"),
    _row("env.<name>", Kind.WORD, Part.EXECUTOR, "Environment variable of every program. Placeholders are replaced.",
         attribute="", default="", also="environment envs shell_env variables"),
    _row("secret", Kind.TAGS, Part.EXECUTOR, "Names of variables and parameters whose values are masked in records "
         'and output, besides those whose names look secret: `["LICENSE"]`.', also="secrets mask masked"),
    _row("container_env.<name>", Kind.WORD, Part.SCHEDULER, "Environment variable of the containers, including the "
         "application master's; programs inherit it, `env` overrides it. Not for secrets.", attribute="", default="",
         also="container_envs containers_envs"),
    _row("hadoop_classpath", Kind.TRUTH, Part.EXECUTOR, "Set CLASSPATH for programs: the jars of their working "
         "directory, then the output of `hadoop classpath --glob` on their node.", also="classpath"),
    _row("params.<name>", Kind.WORD, Part.EXECUTOR, "Value of the placeholder `{params.<name>}`; `--param` sets it "
         "too.", attribute="", default="", also="param parameters"),
    _row("groups.<group>", Kind.NAMES, Part.AM, "Roles that `timeout_after` refers to as a group.", attribute="",
         default="", also="group"),
    _row("max_restarts", Kind.INTEGER, Part.AM, "Maximum restarts after program failures. Lost or preempted nodes do "
         "not count.", bounds=(0, 1_000_000), also="retries restarts retry_count max_retries"),
    _row("restart_window", Kind.TIMEOUT, Part.AM, "Older restarts do not count against `max_restarts`.",
         also="retry_window failures_validity_interval"),
    _row("no_retry_on", Kind.CODES, Part.AM, "Exit codes after which nothing is restarted: `[2, 127]`.",
         also="fatal_exit_codes no_restart_on"),
    _row("memory_on_oom.factor", Kind.NUMBER, Part.AM, "How many times its memory a role of which a task was "
         "killed for memory gets at its next attempt, if `memory_on_oom.up_to` is set.",
         attribute="memory_on_oom.factor", bounds=(1.1, 10), also="multiply grow"),
    _row("memory_on_oom.up_to", Kind.SIZE, Part.AM, "Raise the memory of a role of which a task was killed for memory "
         "before it restarts, up to this: [Memory](when-a-job-fails.md#memory).", attribute="memory_on_oom.up_to",
         bounds=(MIB, None), also="max most limit maximum"),
    _row("min_uptime", Kind.TIMEOUT, Part.AM, "If a program fails before its gang has run so long, in two sessions "
         "in a row, the job is not restarted again.", also="min_runtime"),
    _row("restart_grace", Kind.DURATION, Part.EXECUTOR, "Time between SIGTERM and SIGKILL when programs are stopped "
         "for a restart.", default="`stop_grace`", bounds=(0, None)),
    _row("backoff", Kind.DURATION, Part.AM, "Pause before the second restart, doubled each time up to `1m`; the "
         "first restart is immediate.", bounds=(0, None)),
    _row("gang_patience", Kind.TIMEOUT, Part.AM, "Gang backoff: time without a new container after which an "
         "incomplete gang releases its containers and retries; for schedulers that do not allocate whole gangs.",
         also="patience"),
    _row("gang_wait", Kind.WAIT, Part.AM, "How long the first session waits for all tasks of elastic roles (with a "
         "`min`) before it starts with fewer; `off` waits for all.", also="elastic_wait"),
    _row("shrink_after", Kind.WAIT, Part.AM, "The same wait for every later session, which requests all tasks again.",
         also="shrink_timeout"),
    _row("distributed_mode", Kind.CHOICE, Part.AM, "`gang` starts the programs when all tasks have registered, "
         "`fcfs` starts each one as soon as it has registered.", choices=DistributedMode, also="mode"),
    _row("stop_on", Kind.CHOICE, Part.AM, "Which tasks must succeed to end the job: `all` tracked tasks, or the "
         "`chief`.", choices=StopOn),
    _row("failure_policy", Kind.CHOICE, Part.AM, "Which failures fail a session: of `any-tracked` task, of "
         "`any-task`, or of the chief or of all tracked tasks (`chief-or-all`).", choices=FailurePolicy),
    _row("stop_grace", Kind.DURATION, Part.EXECUTOR, "Time between SIGTERM and SIGKILL when a program is stopped.",
         bounds=(0, None), also="grace grace_period"),
    _row("orphan_grace", Kind.DURATION, Part.EXECUTOR, "Lease: how long a program continues without contact to the "
         "application master.", default="`10m`; on YARN longer, until YARN has given up a node", bounds=(0, None),
         also="lease"),
    _row("am_attempts", Kind.INTEGER, Part.SCHEDULER, "Maximum attempts of the application master within ten "
         "minutes; YARN's own limit applies as well. Programs continue between two attempts.", bounds=(1, 1000),
         also="max_attempts max_app_attempts"),
    _row("port_range", Kind.PORTS, Part.EXECUTOR, "Range of reserved ports, inclusive.", default="any free port",
         also="ports"),
    _row("heartbeat_interval", Kind.DURATION, Part.EXECUTOR, "Interval of the executors' heartbeats; longer in large "
         "jobs.", bounds=(0.05, None)),
    _row("heartbeat_timeout", Kind.DURATION, Part.AM, "Time without heartbeats after which an executor is lost.",
         bounds=(0.1, None)),
    _row("queue_timeout", Kind.TIMEOUT, Part.CLIENT, "Maximum time from submission until the application master "
         "runs, if it waits in a queue; the client that follows the job then kills it.", attribute="timeouts.queue"),
    _row("allocation_timeout", Kind.TIMEOUT, Part.AM, "Maximum time until every requested container is allocated.",
         attribute="timeouts.allocation"),
    _row("registration_timeout", Kind.TIMEOUT, Part.AM, "Maximum time from the allocation of a container to its "
         "registration.", attribute="timeouts.registration"),
    _row("startup_timeout", Kind.TIMEOUT, Part.AM, "Maximum time from the start of a program to its first line of "
         "output.", attribute="timeouts.startup"),
    _row("execution_timeout", Kind.TIMEOUT, Part.AM, "Maximum run time of one program.",
         attribute="timeouts.execution"),
    _row("job_timeout", Kind.TIMEOUT, Part.AM, "Maximum run time of the job, including restarts.",
         attribute="timeouts.job", also="timeout time_limit walltime max_runtime"),
    _row("metrics_interval", Kind.DURATION, Part.EXECUTOR, "Sampling interval of resource use and progress; longer "
         'in large jobs; `"0s"` turns it off.', bounds=(0, 3600), also="metrics sample_interval metrics_period"),
    _row("stall_timeout", Kind.TIMEOUT, Part.AM, "Minimum time without output and with idle processors after which "
         "programs count as [stalled](when-a-job-fails.md#hangs). Where they report steps: a tenth of it, and twice as "
         "long as it while they compute.",
         also="hang_timeout hang stall deadlock"),
    _row("on_stall", Kind.CHOICE, Part.AM, "What happens when the programs stall: `report` it, `restart` the session "
         "(counts against `max_restarts`), or `fail` the job.", choices=OnStall, also="on_hang"),
    _row("python_stacks", Kind.TRUTH, Part.EXECUTOR, "Enable stack traces of Python programs even if `py-spy` is "
         "missing or not permitted: a `sitecustomize` on their PYTHONPATH registers `faulthandler`.",
         also="stacks faulthandler stack_dumps"),
    _row("log_limit", Kind.SIZE, Part.EXECUTOR, "Maximum size of one output stream of one task on disk; older output "
         "is removed.", bounds=(1024, None), also="log_size"),
    _row("diagnosis.rules.<rule>.pattern", Kind.TEXT, Part.EXECUTOR, "[Rule of your own]"
         "(when-a-job-fails.md#rules-of-your-own) for lines of output: a regular expression.", attribute="",
         default="", also="regex match text"),
    _row("diagnosis.rules.<rule>.class", Kind.CHOICE, Part.EXECUTOR, "Kind of the failure that such a line shows.",
         attribute="", default="", choices=FailureKind, also="kind type"),
    _row("diagnosis.rules.<rule>.meaning", Kind.CHOICE, Part.EXECUTOR, "Whether such a line shows why the "
         "program failed (`cause`), or that another task did.", attribute="", default="`cause`", choices=RuleMeaning),
    _row("diagnosis.rules.<rule>.retry", Kind.TRUTH, Part.AM, "The same program may succeed the next time.",
         attribute="", default="`false`", also="restart"),
    _row("diagnosis.rules.<rule>.advice", Kind.TEXT, Part.AM, "What to do, in one sentence.", attribute="", default="",
         also="hint message"),
    _row("on_interrupt", Kind.CHOICE, Part.CLIENT, "Effect of Ctrl-C where the job is followed: `ask` on a terminal "
         "(elsewhere stop), `stop` the job, or `detach` from it.", choices=OnInterrupt, also="ctrl_c sigint"),
    _row("tls", Kind.CHOICE, Part.AM, "When connections use TLS: `auto` if messages can leave the machine, or "
         "`always`.", choices=TlsMode, also="ssl"),
    _row("notify.webhook", Kind.SECRET, Part.AM, "URL that receives a POST with a short JSON report for each event "
         "in `notify.on`: [Notifications](notifications.md).", attribute="notify.webhook",
         also="url webhook_url hook slack"),
    _row("notify.on", Kind.TAGS, Part.AM, "Events to notify about: `started`, `restarted`, `stalled`, `straggler`, "
         "`succeeded`, `failed`, `killed`.", attribute="notify.on", also="events when"),
    _row("notify.secret", Kind.SECRET, Part.AM, "Key of the HMAC-SHA256 signature of each notification.",
         attribute="notify.secret", also="key token signature hmac"),
    _row("scheduler.name", Kind.TEXT, Part.CLIENT, "Scheduler to use; `--scheduler` sets it too.",
         attribute="scheduler"),
)

_ROLES = (
    _row("roles.<role>.instances", Kind.INTEGER, Part.AM, "Number of tasks of the role.", bounds=(1, MAX_INSTANCES),
         also="count replicas num size n number workers tasks"),
    _row("roles.<role>.instances.min", Kind.INTEGER, Part.AM, "Elastic role: the least number of tasks that a "
         "session may start with. It waits for more for `gang_wait` or `shrink_after`.", attribute="", default="",
         bounds=(1, MAX_INSTANCES), also="minimum least at_least low"),
    _row("roles.<role>.instances.max", Kind.INTEGER, Part.AM, "Elastic role: the number of tasks that each session "
         "requests.", attribute="", default="", bounds=(1, MAX_INSTANCES), also="maximum most up_to at_most high"),
    _row("roles.<role>.command", Kind.COMMAND, Part.EXECUTOR, "What the tasks of the role run, instead of the job's "
         "command.", default="the job's", also="cmd run executes entrypoint args"),
    _row("roles.<role>.kind", Kind.CHOICE, Part.AM, "The job waits for `tracked` roles; not for `untracked` ones, "
         "whose failures count; nor for `sidecar` roles, whose failures do not; `setup` runs before all others. With "
         '`framework = "tensorflow"`, `ps` is `untracked` by default, and so is `worker` next to a `ps` and a '
         "`chief`.", choices=RoleKind, also="type"),
    _row("roles.<role>.memory", Kind.SIZE, Part.SCHEDULER, "Memory of each task; a hard limit.",
         attribute="resources.memory", bounds=(MIB, None), also="mem ram"),
    _row("roles.<role>.vcores", Kind.INTEGER, Part.SCHEDULER, "CPU shares of each task.",
         attribute="resources.vcores", bounds=(1, 100_000), also="cpus cpu cores vcpus num_cpus"),
    _row("roles.<role>.gpus", Kind.INTEGER, Part.SCHEDULER, "Whole GPUs of each task.", attribute="resources.gpus",
         bounds=(0, 10_000), also="gpu num_gpus"),
    _row("roles.<role>.resources.<name>", Kind.INTEGER, Part.SCHEDULER, "Other resources of the cluster, by their "
         'names: `"yarn.io/fpga" = 1`.', attribute="", default="", bounds=(0, None)),
    _row("roles.<role>.node_label", Kind.TEXT, Part.SCHEDULER, "Use only nodes with this label; for schedulers with "
         "labels.", also="label constraint node_selector"),
    _row("roles.<role>.image", Kind.TEXT, Part.SCHEDULER, "Container image of the role's tasks; for schedulers with "
         "images.", also="docker_image container_image docker"),
    _row("roles.<role>.spread", Kind.TRUTH, Part.SCHEDULER, "No two tasks of the role on one host; for schedulers "
         "that support it.", also="anti_affinity"),
    _row("roles.<role>.env.<name>", Kind.WORD, Part.EXECUTOR, "Environment variable of the role's programs; "
         "overrides the job's.", attribute="", default="", also="environment envs shell_env variables"),
    _row("roles.<role>.exports.<name>", Kind.TEXT, Part.EXECUTOR, "Exports a value: the text after this one, in the "
         "last line of the role's output with it, becomes the variable `<name>` of programs of other roles that "
         "start later.", attribute="", default="", also="export outputs"),
    _row("roles.<role>.progress_pattern", Kind.TEXT, Part.EXECUTOR, "Read progress from the output of the role: a "
         "regular expression whose groups `step`, `total` and others are numbers.",
         also="progress progress_from progress_regex"),
    _row("roles.<role>.progress_summaries", Kind.TEXT, Part.EXECUTOR, "Read progress from TensorBoard event files in "
         "this folder of the tasks: steps and scalars. Placeholders are replaced.",
         also="tensorboard logdir log_dir summaries"),
    _row("roles.<role>.files", Kind.FILES, Part.CLIENT, "Files for the role's tasks, in addition to the job's.",
         also="file data inputs"),
    _row("roles.<role>.python", Kind.PYTHON, Part.EXECUTOR, "Environment or interpreter of the role.",
         default="the job's", also="venv interpreter conda python_venv"),
    _row("roles.<role>.after", Kind.NAMES, Part.AM, "Roles whose tasks must all have succeeded before this role "
         "starts; or a table with the three lists below.", attribute="", default="[]",
         also="depends_on depends needs requires"),
    _row("roles.<role>.after.succeeded", Kind.NAMES, Part.AM, "Roles whose tasks must all have succeeded first.",
         attribute="", default="[]"),
    _row("roles.<role>.after.ended", Kind.NAMES, Part.AM, "Roles whose tasks must all have ended first, with any "
         "result.", attribute="", default="[]"),
    _row("roles.<role>.after.started", Kind.NAMES, Part.AM, "Roles whose programs must all have been started first.",
         attribute="", default="[]"),
    _row("roles.<role>.stop_on_failure", Kind.TRUTH, Part.AM, "A failure of the role ends the job at once, without a "
         "restart."),
    _row("roles.<role>.timeout_after.group", Kind.TEXT, Part.AM, "When all tasks of this group are done, the role "
         "may run for `limit` longer.", attribute="", default=""),
    _row("roles.<role>.timeout_after.limit", Kind.DURATION, Part.AM, "How much longer the role may run.",
         attribute="", default="", bounds=(0, None)),
    _row("roles.<role>.timeout_after.on_timeout", Kind.CHOICE, Part.AM, "After `limit`, the session fails (`fail`), "
         "or the job stops waiting for the role (`ignore`).", attribute="", default="fail", choices=OnTimeout),
    _row("roles.<role>.restart", Kind.CHOICE, Part.AM, "What restarts when one of its tasks fails: the whole gang "
         "(`session`), or only that `task`.", choices=RestartScope, also="restart_scope restart_policy"),
    _row("roles.<role>.max_restarts", Kind.INTEGER, Part.AM, "Maximum restarts after failures of the role's tasks; "
         "they count against the job's as well.", default="the job's", bounds=(0, 1_000_000),
         also="retries restarts retry_count max_retries"),
    _row("roles.<role>.no_retry_on", Kind.CODES, Part.AM, "Exit codes of the role's programs after which nothing is "
         "restarted, instead of the job's.", default="the job's", also="fatal_exit_codes no_restart_on"),
    _row("roles.<role>.memory_on_oom.factor", Kind.NUMBER, Part.AM, "The role's factor, instead of the job's.",
         attribute="", default="the job's", bounds=(1.1, 10), also="multiply grow"),
    _row("roles.<role>.memory_on_oom.up_to", Kind.SIZE, Part.AM, "The most memory of a task of the role, instead of "
         "the job's `memory_on_oom.up_to`.", attribute="", default="the job's", bounds=(MIB, None),
         also="max most limit maximum"),
    _row("roles.<role>.restart_grace", Kind.DURATION, Part.EXECUTOR, "Time between SIGTERM and SIGKILL when the role "
         "is stopped for a restart.", default="the job's", bounds=(0, None)),
    _row("roles.<role>.stop_grace", Kind.DURATION, Part.EXECUTOR, "Time between SIGTERM and SIGKILL when the role is "
         "stopped.", default="the job's", bounds=(0, None), also="grace grace_period"),
    _row("roles.<role>.port_range", Kind.PORTS, Part.EXECUTOR, "Range of the role's reserved ports, inclusive.",
         default="the job's", also="ports"),
    _row("roles.<role>.port", Kind.CHOICE, Part.EXECUTOR, "`reserved` keeps other processes off a reserved port "
         "until the program binds it; `free` releases it when the program starts, for servers that set neither "
         "SO_REUSEADDR nor SO_REUSEPORT.", choices=ReservedPort, also="reserve_port port_mode"),
    _row("roles.<role>.procs_per_task", Kind.INTEGER, Part.EXECUTOR, "Processes per task, such as ranks of PyTorch.",
         bounds=(1, 1024), also="nproc_per_node nprocs procs processes"),
)
# fmt: on

#: Every setting but those of single schedulers, in the order of the docs.
SETTINGS: tuple[Setting, ...] = (*_JOB, *_ROLES)

#: The settings that most jobs need: `tony settings` shows these, and the rest with `--all`. `*` is any scheduler.
_COMMON = frozenset(
    {
        "name",
        "framework",
        "command",
        "source",
        "python",
        "files",
        "env.<name>",
        "max_restarts",
        "job_timeout",
        "scheduler.name",
        "roles.<role>.instances",
        "roles.<role>.command",
        "roles.<role>.memory",
        "roles.<role>.vcores",
        "roles.<role>.gpus",
    }
)

#: First parts of keys that site files must not set.
JOB_ONLY = frozenset({"name", "source", "command", "roles", "groups", "params"})


def is_common(key: str) -> bool:
    """Return True for a setting that most jobs need."""
    return key in _COMMON
