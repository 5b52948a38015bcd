"""The one table of settings. Validation, docs and `tony settings` all come from it.

A key is dotted. A part in angle brackets stands for a name that the author chooses: `roles.<role>.memory`. A row with
an `attribute` fills that field of `JobSpec` (of `Role` for a role's keys), and the field's default is the setting's
default: it is written down once, in the model. The settings of one scheduler come from
`tony.schedulers.settings_schema`.

Standard library only: the application master reads a site's rules again.
"""

from __future__ import annotations

from enum import Enum

from tony.dataclass import dataclass
from tony.model.job_spec import MIB, JobSpec, Role
from tony.model.states import (
    DistributedMode,
    FailurePolicy,
    OnTimeout,
    ReservedPort,
    RestartScope,
    RoleKind,
    StopOn,
    TlsMode,
)

#: A key as its parts: `("roles", "worker", "memory")`.
Key = tuple[str, ...]


class Kind(Enum):
    """What a value may look like; each member's value is the word in the docs."""

    SIZE = "size"  #: text with a unit; bytes inside
    DURATION = "duration"  #: text with a unit; seconds inside
    TIMEOUT = "duration or off"  #: a duration; `off` and `0s` are None inside
    WAIT = "wait or off"  #: a duration; `off` is None inside, and `0s` no wait at all
    INTEGER = "whole number"
    TRUTH = "true or false"
    TEXT = "text"
    WORD = "text or number"  #: a variable's or a parameter's value; numbers are taken as they are written
    CHOICE = "one of"  #: a member of an Enum
    NAMES = "list of roles"
    TAGS = "list of words"
    CODES = "list of exit codes"
    FILES = "list of files"
    PATH = "path"
    SOURCE = "path or address"  #: what may lie in a cluster's file system, too
    PYTHON = "path or program"
    COMMAND = "text or list"  #: text runs through `bash -c`, a list is executed as it is
    SECRET = "text, env:NAME or file:PATH"  #: never shown; the latter two are looked up at submission
    PORTS = "first-last"  #: `"20000-20100"` or `[20000, 20100]`


class Half(Enum):
    """Which part of the system acts on a setting."""

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
        key: dotted; `<role>` and the like stand for a name that the author chooses.
        meaning: one line for people.
        half: which part of the system acts on it.
        attribute: dotted field of JobSpec (of Role for a role's keys) that it fills; empty for parts of a mapping.
        shown_default: what the docs say where the field's own default does not say it.
        minimum, maximum: bounds of a number, both included; bytes and seconds.
        choices: what a CHOICE may be.
        also: words that people try for it.
    """

    key: str
    kind: Kind
    half: Half
    meaning: str
    attribute: str = ""
    shown_default: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    choices: type[Enum] | None = None
    also: tuple[str, ...] = ()

    @property
    def path(self) -> Key:
        """The key's parts."""
        return tuple(self.key.split("."))

    @property
    def unit(self) -> str:
        """The units that its text may have; empty for things without one."""
        return _UNITS.get(self.kind, "")

    @property
    def default(self) -> object:
        """The canonical default, from the model; None where there is none."""
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
    half: Half,
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
        half=half,
        meaning=meaning,
        attribute=own_name if attribute is None else attribute,
        shown_default=default,
        minimum=bounds and bounds[0],
        maximum=bounds and bounds[1],
        choices=choices,
        also=tuple(also.split()),
    )


#: Most tasks of one job. The application master is measured with 10,000; ten times that is surely a slip.
MAX_INSTANCES = 100_000

# fmt: off
_JOB = (
    _row("name", Kind.TEXT, Half.CLIENT, "What people call the job: up to 200 characters, need not be unique.",
         default="the job file's name", also="title app application job_name"),
    _row("tags", Kind.TAGS, Half.CLIENT, "Words by which people find the job again, in lists and searches: "
         "`[\"nightly\", \"ads\"]`.", also="labels keywords"),
    _row("viewers", Kind.TAGS, Half.CLIENT, "Who may look at the job on pages besides its owner: users, `@groups`, `*` "
         "for everybody.", also="view_acl acl readers"),
    _row("modifiers", Kind.TAGS, Half.CLIENT, "Who may look at the job, and stop or restart it there: users, "
         "`@groups`, `*`.", also="modify_acl admins editors"),
    _row("framework", Kind.TEXT, Half.FRAMEWORK, "ML framework; tony sets its rendezvous variables: `tensorflow`, "
         "`pytorch`, `jax`, `mxnet`, `horovod`, `none`, `standalone` or a plug-in's name.", also="runtime backend"),
    _row("command", Kind.COMMAND, Half.EXECUTOR, "What the tasks run: text runs through `bash -c`, a list is executed "
         "as it is. Placeholders are filled in.", also="cmd run executes entrypoint args"),
    _row("source", Kind.SOURCE, Half.CLIENT, "Folder or archive whose content is each task's working directory; "
         "in HDFS (`hdfs://...`) an archive.",
         also="src src_dir workdir cwd"),
    _row("gitignore", Kind.TRUTH, Half.CLIENT, "What a `.gitignore` in `source` names stays behind, unless git tracks "
         "it.", also="ignore"),
    _row("python", Kind.PYTHON, Half.EXECUTOR, "An environment's folder or archive (venv, conda-pack), or an "
         "interpreter on the nodes.",
         also="venv interpreter conda python_venv"),
    _row("files", Kind.FILES, Half.CLIENT, "More files for every task: `path` as it is, `path::name` under another "
         "name, `path#archive` unpacked into a folder, `path#optional` only if it is there; `hdfs://...` too.",
         also="resources file data inputs"),
    _row("env.<name>", Kind.WORD, Half.EXECUTOR, "A variable of every program. Placeholders are filled in.",
         attribute="", default="", also="environment envs shell_env variables"),
    _row("secret", Kind.TAGS, Half.EXECUTOR, "Names of variables and parameters whose values are masked wherever they "
         "are shown or printed, besides those whose names look secret: `[\"LICENSE\"]`.", also="secrets mask masked"),
    _row("container_env.<name>", Kind.WORD, Half.SCHEDULER, "A variable of the containers themselves, the application "
         "master's too; programs inherit it, and `env` is stronger. Not for secrets.", attribute="", default="",
         also="container_envs containers_envs"),
    _row("hadoop_classpath", Kind.TRUTH, Half.EXECUTOR, "Programs get CLASSPATH: what lies in their working "
         "directory, then what `hadoop classpath --glob` says on their node.", also="classpath"),
    _row("params.<name>", Kind.WORD, Half.EXECUTOR, "What the placeholder `{params.<name>}` stands for; `--param` sets "
         "it too.", attribute="", default="", also="param parameters"),
    _row("groups.<group>", Kind.NAMES, Half.AM, "Roles that `timeout_after` speaks of together.",
         attribute="", default="", also="group"),
    _row("max_restarts", Kind.INTEGER, Half.AM, "Maximum restarts after program failures. Lost or preempted nodes do "
         "not count.", bounds=(0, 1_000_000), also="retries restarts retry_count max_retries"),
    _row("restart_window", Kind.TIMEOUT, Half.AM, "Restarts that were longer ago do not count against `max_restarts`.",
         also="retry_window failures_validity_interval"),
    _row("no_retry_on", Kind.CODES, Half.AM, "Exit codes after which nothing is started again: `[2, 127]`.",
         also="fatal_exit_codes no_restart_on"),
    _row("min_uptime", Kind.TIMEOUT, Half.AM, "A program that ended before its gang had run so long, in two sessions "
         "in a row, is not started a third time.", also="min_runtime"),
    _row("restart_grace", Kind.DURATION, Half.EXECUTOR, "Time between SIGTERM and SIGKILL of the programs that are "
         "stopped for a restart.", default="`stop_grace`", bounds=(0, None)),
    _row("backoff", Kind.DURATION, Half.AM, "Pause before the second restart, doubled each time up to `1m`; the first "
         "restart is at once.", bounds=(0, None)),
    _row("gang_patience", Kind.TIMEOUT, Half.AM, "Time without another container after which an incomplete gang gives "
         "back what it has, for a while; where the scheduler does not grant gangs as a whole.", also="patience"),
    _row("gang_wait", Kind.WAIT, Half.AM, "How long the first session waits for all tasks of roles with a `min`, "
         "before it starts with fewer; `off` waits for all.", also="elastic_wait"),
    _row("shrink_after", Kind.WAIT, Half.AM, "The same for every later session, which asks for all tasks again.",
         also="shrink_timeout"),
    _row("distributed_mode", Kind.CHOICE, Half.AM, "`gang` starts the programs when all tasks have registered, `fcfs` "
         "each as soon as it has.", choices=DistributedMode, also="mode"),
    _row("stop_on", Kind.CHOICE, Half.AM, "Whose success ends the job: that of `all` tracked tasks, or of the `chief`.",
         choices=StopOn),
    _row("failure_policy", Kind.CHOICE, Half.AM, "Whose failure fails a session: that of `any-tracked` task, of "
         "`any-task`, or of the chief or else all tracked tasks (`chief-or-all`).", choices=FailurePolicy),
    _row("stop_grace", Kind.DURATION, Half.EXECUTOR, "Time between SIGTERM and SIGKILL when a program is stopped.",
         bounds=(0, None), also="grace grace_period"),
    _row("orphan_grace", Kind.DURATION, Half.EXECUTOR, "How long a program outlives its contact to the application "
         "master.", default="`10m`; on YARN longer than that takes to give up a node", bounds=(0, None), also="lease"),
    _row("am_attempts", Kind.INTEGER, Half.SCHEDULER, "How many lives the application master may have within ten "
         "minutes; YARN's own limit counts as well. Programs go on between two of them.", bounds=(1, 1000),
         also="max_attempts max_app_attempts"),
    _row("port_range", Kind.PORTS, Half.EXECUTOR, "Where reserved ports come from, first and last included.",
         default="any free port", also="ports"),
    _row("heartbeat_interval", Kind.DURATION, Half.EXECUTOR, "How often an executor says that it lives; longer in "
         "large jobs.", bounds=(0.05, None)),
    _row("heartbeat_timeout", Kind.DURATION, Half.AM, "Silence after which an executor counts as lost.",
         bounds=(0.1, None)),
    _row("queue_timeout", Kind.TIMEOUT, Half.CLIENT, "Most time from the submission until the application master runs, "
         "where that waits in a queue; whoever follows the job then ends it.", attribute="timeouts.queue"),
    _row("allocation_timeout", Kind.TIMEOUT, Half.AM, "Most time until every container that was asked for is granted.",
         attribute="timeouts.allocation"),
    _row("registration_timeout", Kind.TIMEOUT, Half.AM, "Most time from a container's grant to its registration.",
         attribute="timeouts.registration"),
    _row("startup_timeout", Kind.TIMEOUT, Half.AM, "Most time from a program's start to its first line of output.",
         attribute="timeouts.startup"),
    _row("execution_timeout", Kind.TIMEOUT, Half.AM, "Most time that one program may run.",
         attribute="timeouts.execution"),
    _row("job_timeout", Kind.TIMEOUT, Half.AM, "Most time for the whole job, restarts included.",
         attribute="timeouts.job", also="timeout time_limit walltime max_runtime"),
    _row("metrics_interval", Kind.DURATION, Half.EXECUTOR, "How often it is measured what a program uses, and how far "
         "it is; longer in large jobs; `\"0s\"` for never.", bounds=(0, 3600),
         also="metrics sample_interval metrics_period"),
    _row("python_stacks", Kind.TRUTH, Half.EXECUTOR, "Python programs show where they stand when they are asked, even "
         "where `py-spy` is not there or may not look: a `sitecustomize` on their PYTHONPATH registers `faulthandler`.",
         also="stacks faulthandler stack_dumps"),
    _row("log_limit", Kind.SIZE, Half.EXECUTOR, "What one stream of one task keeps on disk; older output is rotated "
         "away.", bounds=(1024, None), also="log_size"),
    _row("tls", Kind.CHOICE, Half.AM, "Where connections use TLS: `auto` wherever a message can leave the machine, or "
         "`always`.", choices=TlsMode, also="ssl"),
    _row("notify.webhook", Kind.SECRET, Half.AM, "Address that gets a POST with a short report in JSON whenever "
         "something of `notify.on` happens: [Notifications](notifications.md).", attribute="notify.webhook",
         also="url webhook_url hook slack"),
    _row("notify.on", Kind.TAGS, Half.AM, "What is worth a notice: `started`, `restarted`, `succeeded`, `failed`, "
         "`killed`.", attribute="notify.on", also="events when"),
    _row("notify.secret", Kind.SECRET, Half.AM, "Key of the signature (HMAC-SHA256) that each notice carries.",
         attribute="notify.secret", also="key token signature hmac"),
    _row("scheduler.name", Kind.TEXT, Half.CLIENT, "Scheduler to use: `local` or `yarn`; `--scheduler` sets it too.",
         attribute="scheduler"),
)

_ROLES = (
    _row("roles.<role>.instances", Kind.INTEGER, Half.AM, "How many tasks the role has.", bounds=(1, MAX_INSTANCES),
         also="count replicas num size n number workers tasks"),
    _row("roles.<role>.instances.min", Kind.INTEGER, Half.AM, "Instead of one number: with how many a session may "
         "start. It waits for more as long as `gang_wait` or `shrink_after` say.", attribute="", default="",
         bounds=(1, MAX_INSTANCES), also="minimum least at_least low"),
    _row("roles.<role>.instances.max", Kind.INTEGER, Half.AM, "How many tasks such a role asks for, in each session "
         "anew.", attribute="", default="", bounds=(1, MAX_INSTANCES), also="maximum most up_to at_most high"),
    _row("roles.<role>.command", Kind.COMMAND, Half.EXECUTOR, "What the role's tasks run, not the job's command.",
         default="the job's", also="cmd run executes entrypoint args"),
    _row("roles.<role>.kind", Kind.CHOICE, Half.AM, "`tracked` is waited for; `untracked` is not, but its failure "
         "counts; `sidecar` is neither; `setup` runs before all others. `untracked` by default are, with "
         '`framework = "tensorflow"`, a role `ps`, and `worker` beside a `ps` and a `chief`.',
         choices=RoleKind, also="type"),
    _row("roles.<role>.memory", Kind.SIZE, Half.SCHEDULER, "Memory of each task; a hard limit.",
         attribute="resources.memory", bounds=(MIB, None), also="mem ram"),
    _row("roles.<role>.vcores", Kind.INTEGER, Half.SCHEDULER, "CPU shares of each task.",
         attribute="resources.vcores", bounds=(1, 100_000), also="cpus cpu cores vcpus num_cpus"),
    _row("roles.<role>.gpus", Kind.INTEGER, Half.SCHEDULER, "Whole GPUs of each task.",
         attribute="resources.gpus", bounds=(0, 10_000), also="gpu num_gpus"),
    _row("roles.<role>.resources.<name>", Kind.INTEGER, Half.SCHEDULER, "Whatever else the cluster counts, by its own "
         "name for it: `\"yarn.io/fpga\" = 1`.", attribute="", default="", bounds=(0, None)),
    _row("roles.<role>.node_label", Kind.TEXT, Half.SCHEDULER, "Only nodes with this label; where a scheduler has "
         "labels.", also="label constraint node_selector"),
    _row("roles.<role>.image", Kind.TEXT, Half.SCHEDULER, "Container image that the role's tasks run in; where a "
         "scheduler has them.", also="docker_image container_image docker"),
    _row("roles.<role>.spread", Kind.TRUTH, Half.SCHEDULER, "No two tasks of the role on one host; where a scheduler "
         "can tell.", also="anti_affinity"),
    _row("roles.<role>.placement", Kind.TEXT, Half.SCHEDULER, "Where the role's tasks may be, in YARN's language for "
         "placement constraints: `notin,node,ps`; where a scheduler has them.",
         also="placement_spec placement_constraint affinity"),
    _row("roles.<role>.placement_tags", Kind.TAGS, Half.SCHEDULER, "Names by which placement constraints know the "
         "role's tasks.", default="the role's name", also="allocation_tags"),
    _row("roles.<role>.mounts", Kind.TEXT, Half.SCHEDULER, "What the role's container image sees of the node, as YARN "
         "wants it: `/data:/data:ro,/tmp:/tmp:rw`; where a scheduler has images.", default="the scheduler's",
         also="volumes docker_mounts"),
    _row("roles.<role>.env.<name>", Kind.WORD, Half.EXECUTOR, "A variable of the role's programs, laid over the job's.",
         attribute="", default="", also="environment envs shell_env variables"),
    _row("roles.<role>.exports.<name>", Kind.TEXT, Half.EXECUTOR, "What follows this text in the last line of the "
         "role's output that holds it becomes the variable `<name>` of every program of other roles that starts later.",
         attribute="", default="", also="export outputs"),
    _row("roles.<role>.progress_pattern", Kind.TEXT, Half.EXECUTOR, "How far the role's programs are, from lines of "
         "their output: a regular expression whose groups `step`, `total` and others are numbers.",
         also="progress progress_from progress_regex"),
    _row("roles.<role>.progress_summaries", Kind.TEXT, Half.EXECUTOR, "How far they are, from event files for "
         "TensorBoard in this folder of theirs: steps and scalars. Placeholders are filled in.",
         also="tensorboard logdir log_dir summaries"),
    _row("roles.<role>.files", Kind.FILES, Half.CLIENT, "Files for the role's tasks, besides the job's.",
         also="file data inputs"),
    _row("roles.<role>.python", Kind.PYTHON, Half.EXECUTOR, "The role's own interpreter or archive.",
         default="the job's", also="venv interpreter conda python_venv"),
    _row("roles.<role>.after", Kind.NAMES, Half.AM, "Roles whose every task must have succeeded before this role "
         "starts; or a table of the three lists below.", attribute="", default="[]",
         also="depends_on depends needs requires"),
    _row("roles.<role>.after.succeeded", Kind.NAMES, Half.AM, "Roles whose every task must have succeeded first.",
         attribute="", default="[]"),
    _row("roles.<role>.after.ended", Kind.NAMES, Half.AM, "Roles whose every task must have ended first, however.",
         attribute="", default="[]"),
    _row("roles.<role>.after.started", Kind.NAMES, Half.AM, "Roles whose every program must have been started first.",
         attribute="", default="[]"),
    _row("roles.<role>.stop_on_failure", Kind.TRUTH, Half.AM, "A failure of the role ends the job at once, without a "
         "restart."),
    _row("roles.<role>.timeout_after.group", Kind.TEXT, Half.AM, "Once every task of this group is done, the role may "
         "run `limit` longer.", attribute="", default=""),
    _row("roles.<role>.timeout_after.limit", Kind.DURATION, Half.AM, "How much longer.", attribute="", default="",
         bounds=(0, None)),
    _row("roles.<role>.timeout_after.on_timeout", Kind.CHOICE, Half.AM, "Then the session fails (`fail`), or the role "
         "is no longer waited for (`ignore`).", attribute="", default="fail", choices=OnTimeout),
    _row("roles.<role>.restart", Kind.CHOICE, Half.AM, "What starts again when one of its tasks fails: the whole gang "
         "(`session`), or only that `task`.", choices=RestartScope, also="restart_scope restart_policy"),
    _row("roles.<role>.max_restarts", Kind.INTEGER, Half.AM, "Restarts that failures of the role's tasks may cause; "
         "they count against the job's as well.", default="the job's", bounds=(0, 1_000_000),
         also="retries restarts retry_count max_retries"),
    _row("roles.<role>.no_retry_on", Kind.CODES, Half.AM, "Exit codes of the role's programs after which nothing is "
         "started again, instead of the job's.", default="the job's", also="fatal_exit_codes no_restart_on"),
    _row("roles.<role>.restart_grace", Kind.DURATION, Half.EXECUTOR, "The role's own time between SIGTERM and SIGKILL "
         "when it is stopped for a restart.", default="the job's", bounds=(0, None)),
    _row("roles.<role>.stop_grace", Kind.DURATION, Half.EXECUTOR, "The role's own time between SIGTERM and SIGKILL.",
         default="the job's", bounds=(0, None), also="grace grace_period"),
    _row("roles.<role>.port_range", Kind.PORTS, Half.EXECUTOR, "Where the role's own reserved ports come from.",
         default="the job's", also="ports"),
    _row("roles.<role>.port", Kind.CHOICE, Half.EXECUTOR, "Until a program binds its reserved port: `reserved` keeps "
         "other processes off it; `free` leaves it free from the program's start, for servers that set neither "
         "SO_REUSEADDR nor SO_REUSEPORT.", choices=ReservedPort, also="reserve_port port_mode"),
    _row("roles.<role>.procs_per_task", Kind.INTEGER, Half.EXECUTOR, "Processes that one task starts side by side: "
         "ranks of PyTorch, for instance.", bounds=(1, 1024), also="nproc_per_node nprocs procs processes"),
)
# fmt: on

#: Every setting but those of single schedulers, in the order of the docs.
SETTINGS: tuple[Setting, ...] = (*_JOB, *_ROLES)

#: The settings that most jobs need: `tony settings` shows these, and the rest with `--all`.
COMMON = frozenset(
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
        "scheduler.yarn.queue",
        "roles.<role>.instances",
        "roles.<role>.command",
        "roles.<role>.memory",
        "roles.<role>.vcores",
        "roles.<role>.gpus",
    }
)

#: What one job has and a whole site cannot: keys that begin so are refused in a site file.
JOB_ONLY = frozenset({"name", "source", "command", "roles", "groups", "params"})
