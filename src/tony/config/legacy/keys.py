"""The one table of the original's settings: what each means, and what becomes of it here.

A row either says which of our settings it becomes, or why it is not needed any more. `docs/migrating.md` is made of it,
and every key that a job sets is looked up in it: one that no row covers is a mistake.

`<type>`, `<group>` and `<resource>` stand for names of the author's.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache

from tony.dataclass import dataclass


class LegacyKind(Enum):
    """How a value is written; each member's value is the word in the docs."""

    TEXT = "text"
    INTEGER = "whole number"
    SIZE = "size"  #: `2g`, `512m`, or a bare number of MiB
    MILLISECONDS = "milliseconds"
    SECONDS = "seconds"
    TRUTH = "true or false"
    LIST = "list"  #: divided by commas
    VARIABLES = "list of k=v"


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalVariable:
    """An environment variable that the original heeds.

    Attributes:
        name: of the variable.
        where: in whose environment it is set.
        meaning: what it does there, one line.
        becomes: what it does here; empty if it does nothing.
        gone: why it does nothing; empty if it does something.
    """

    name: str
    where: str
    meaning: str
    becomes: str = ""
    gone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalKey:
    """One row.

    Attributes:
        name: the key; a part in angle brackets stands for a name of the author's.
        kind: how its value is written.
        default: as in the original's `tony-default.xml`, where it counts for what becomes of it.
        meaning: what it meant, one line.
        becomes: our setting; empty if it is not needed any more.
        gone: why it is not needed any more, one or two sentences; empty if it becomes something.
        section: the heading that it stands below in the docs.
    """

    name: str
    kind: LegacyKind
    default: str
    meaning: str
    becomes: str
    gone: str
    section: str


def _row(
    section: str, name: str, kind: LegacyKind, default: str, meaning: str, *, becomes: str = "", gone: str = ""
) -> OriginalKey:
    return OriginalKey(
        section=section, name=name, kind=kind, default=default, meaning=meaning, becomes=becomes, gone=gone
    )


_NO_JVM = "Nothing of ours is a JVM."
_PORTAL = "A setting of LinkedIn TonY's portal. `tony portal` takes options instead."
_PURGE = "`tony purge` removes the records of old jobs, as its options say."
_RECORDS = "A job's record lies in its own folder, in HDFS below `scheduler.yarn.staging`: see `tony history`."
_TEST = "A switch for the original's own tests; here the real thing runs."
_BUILD = "The original's client wrote its own build into it; `tony version` says ours."

_APP, _RESULT, _AM, _TASK = "Application", "Results", "Application master", "Tasks in general"
_ALL, _TYPE, _DOCKER, _HOROVOD = "All containers", "Each type of task", "Docker", "Horovod"
_BOARD, _HISTORY = "TensorBoard", "History and portal"
_T = LegacyKind

# fmt: off
#: Every key of the original.
KEYS: tuple[OriginalKey, ...] = (
    _row(_APP, "tony.application.name", _T.TEXT, "TensorFlowApplication", "Name of the application.", becomes="name"),
    _row(_APP, "tony.application.type", _T.TEXT, "TONY", "Type that YARN shows.",
         becomes="scheduler.yarn.application_type"),
    _row(_APP, "tony.application.tags", _T.LIST, "", "Tags of the application.", becomes="scheduler.yarn.tags"),
    _row(_APP, "tony.application.framework", _T.TEXT, "tensorflow", "ML framework; tony sets its variables.",
         becomes="framework"),
    _row(_APP, "tony.application.distributed-mode", _T.TEXT, "GANG", "GANG or FCFS: when programs start.",
         becomes="distributed_mode"),
    _row(_APP, "tony.yarn.queue", _T.TEXT, "default", "Queue.", becomes="scheduler.yarn.queue"),
    _row(_APP, "tony.application.node-label", _T.TEXT, "", "Label expression for the whole application.",
         becomes="scheduler.yarn.node_label"),
    _row(_APP, "tony.application.placement-spec", _T.TEXT, "", "Placement constraint of the application.",
         becomes="scheduler.yarn.placement"),
    _row(_APP, "tony.application.timeout", _T.MILLISECONDS, "0", "Most time for the job.", becomes="job_timeout"),
    _row(_APP, "tony.application.num-client-rm-connect-retries", _T.INTEGER, "3",
         "How long the client waits for the ResourceManager.",
         gone="A ResourceManager that is away is waited for as `yarn.resourcemanager.connect.max-wait.ms` says."),
    _row(_APP, "tony.application.enable-preprocess", _T.TRUTH, "false", "The command runs once before the tasks do.",
         becomes="roles.preprocess"),
    _row(_APP, "tony.application.prepare-stage", _T.LIST, "", "Types that come first.", becomes="roles.<role>.after"),
    _row(_APP, "tony.application.training-stage", _T.LIST, "", "Types that start when the tracked ones of "
         "prepare-stage are done.", becomes="roles.<role>.after"),
    _row(_APP, "tony.application.hadoop.location", _T.TEXT, "", "Archive of a Hadoop for the programs, instead of the "
         "node's.", becomes="files"),
    _row(_APP, "tony.application.hadoop.classpath", _T.LIST, "", "Class path inside that archive.",
         becomes="env.CLASSPATH"),
    _row(_APP, "tony.application.hdfs-conf-path", _T.TEXT, "", "File with the settings of HDFS.",
         becomes="scheduler.yarn.conf"),
    _row(_APP, "tony.application.yarn-conf-path", _T.TEXT, "", "File with the settings of YARN.",
         becomes="scheduler.yarn.conf"),
    _row(_APP, "tony.application.mapred-conf-path", _T.TEXT, "", "File with the settings of MapReduce.",
         gone="Nothing of MapReduce's is read."),
    _row(_APP, "tony.application.security.enabled", _T.TRUTH, "true", "Whether tokens are fetched and asked for.",
         gone="Hadoop's own configuration says whether the cluster is secure, and jobs are always protected by tokens "
         "of their own."),
    _row(_APP, "tony.other.namenodes", _T.LIST, "", "Further NameNodes to fetch tokens of.",
         becomes="scheduler.yarn.file_systems"),
    *(_row(_APP, f"tony.version-info.{name}", _T.TEXT, "", "A fact of the original's build.", gone=_BUILD)
      for name in ("version", "revision", "branch", "user", "date", "url", "checksum")),

    _row(_RESULT, "tony.application.untracked.jobtypes", _T.LIST, "ps", "Types that are not waited for, and whose "
         "failure fails the job.", becomes="roles.<role>.kind"),
    _row(_RESULT, "tony.application.sidecar.jobtypes", _T.LIST, "tensorboard", "Types that are not waited for, and "
         "whose failure is ignored.", becomes="roles.<role>.kind"),
    _row(_RESULT, "tony.application.stop-on-failure-jobtypes", _T.LIST, "ps", "Types whose failure ends the job at "
         "once.", becomes="roles.<role>.stop_on_failure"),
    _row(_RESULT, "tony.application.fail-on-worker-failure-enabled", _T.TRUTH, "false", "Whether any failure of any "
         "task fails the job.", becomes="failure_policy"),
    _row(_RESULT, "tony.application.group.<group>", _T.LIST, "", "Names a group of types.",
         becomes="groups.<group>"),
    _row(_RESULT, "tony.application.dependency.<type>.timeout.after.<group>", _T.SECONDS, "", "How much longer the "
         "type may run when the group is done.", becomes="roles.<role>.timeout_after"),
    _row(_RESULT, "tony.application.dependency.<type>.timeout.after.<group>.ignored", _T.TRUTH, "false", "Whether the "
         "type is then no longer waited for, instead of failing the job.",
         becomes="roles.<role>.timeout_after.on_timeout"),

    _row(_AM, "tony.am.memory", _T.SIZE, "2g", "Memory of the application master, which runs the program itself where "
         "no type has instances.", becomes="scheduler.yarn.am_memory"),
    _row(_AM, "tony.am.vcores", _T.INTEGER, "1", "Its vcores.", becomes="scheduler.yarn.am_vcores"),
    _row(_AM, "tony.am.gpus", _T.INTEGER, "0", "GPUs of the program that it runs.", becomes="roles.main.gpus"),
    _row(_AM, "tony.am.retry-count", _T.INTEGER, "0", "How often a failed job begins again.", becomes="max_restarts"),
    _row(_AM, "tony.am.startup-timeout", _T.MILLISECONDS, "0", "Most time until the application master runs.",
         becomes="queue_timeout"),
    _row(_AM, "tony.am.wait-client-signal-stop-timeout-sec", _T.SECONDS, "15", "How long it waits for its client in "
         "the end.", gone="The end of a job waits for nobody: its record tells how it ended."),
    _row(_AM, "tony.am.node-label", _T.TEXT, "", "Label of its container.", becomes="scheduler.yarn.am_node_label"),
    _row(_AM, "tony.am.command", _T.TEXT, "", "The command that it runs itself.", becomes="roles.main.command"),
    _row(_AM, "tony.am.resources", _T.LIST, "", "Files for its container.", becomes="roles.main.files"),

    _row(_TASK, "tony.task.max-total-instances", _T.INTEGER, "-1", "Most tasks of a job.",
         becomes="checked when it is read; a site file's limits.total_instances"),
    _row(_TASK, "tony.task.max-total-<resource>", _T.INTEGER, "-1", "Most memory (MiB), vcores or gpus of a job's "
         "tasks.", becomes="checked when it is read; a site file's limits.total_memory, limits.total_gpus"),
    _row(_TASK, "tony.task.am.jvm.opts", _T.TEXT, "", "Options of the application master's JVM.", gone=_NO_JVM),
    _row(_TASK, "tony.task.executor.jvm.opts", _T.TEXT, "-Xmx1536m", "Options of the executors' JVMs.", gone=_NO_JVM),
    _row(_TASK, "tony.task.default.jvm.opts", _T.TEXT, "", "Options of all JVMs.", gone=_NO_JVM),
    _row(_TASK, "tony.task.heartbeat-interval-ms", _T.MILLISECONDS, "1000", "How often an executor says that it "
         "lives.", becomes="heartbeat_interval"),
    _row(_TASK, "tony.task.max-missed-heartbeats", _T.INTEGER, "25", "How many it may miss.",
         becomes="heartbeat_timeout"),
    _row(_TASK, "tony.task.metrics-interval-ms", _T.MILLISECONDS, "5000", "How often programs are measured.",
         becomes="metrics_interval"),
    _row(_TASK, "tony.task.gpu-metrics.enabled", _T.TRUTH, "true", "Whether GPUs are measured.",
         gone="Granted GPUs are measured with everything else, unless metrics_interval is 0s."),
    _row(_TASK, "tony.task.executor.execution-timeout-ms", _T.MILLISECONDS, "0", "Most time that a program may run.",
         becomes="execution_timeout"),
    _row(_TASK, "tony.task.executor.registry-timeout-sec", _T.SECONDS, "0", "How long an executor tries to register.",
         becomes="registration_timeout"),
    _row(_TASK, "tony.task.executor.execution.error-message-max-depth", _T.INTEGER, "20", "Lines of a failed "
         "program's output that are told.", gone="The last lines are told, and all are kept: see `tony logs`."),

    _row(_ALL, "tony.container.allocation.timeout", _T.MILLISECONDS, "-1", "Most time until all tasks have registered, "
         "in GANG mode.", becomes="allocation_timeout"),
    _row(_ALL, "tony.container.registration.timeout", _T.MILLISECONDS, "-1", "Most time from a container's start to "
         "its registration.", becomes="registration_timeout"),
    _row(_ALL, "tony.containers.resources", _T.LIST, "", "Files for every container.", becomes="files"),
    _row(_ALL, "tony.containers.command", _T.TEXT, "", "Command of the types without their own.", becomes="command"),
    _row(_ALL, "tony.containers.envs", _T.VARIABLES, "", "Variables of the containers.",
         becomes="container_env.<name>"),
    _row(_ALL, "tony.execution.envs", _T.VARIABLES, "", "Variables of the programs.", becomes="env.<name>"),
    _row(_ALL, "tony.containers.placement-spec", _T.TEXT, "", "Placement constraint of the types without their own.",
         becomes="roles.<role>.placement"),
    _row(_ALL, "tony.containers.allocation-tags", _T.LIST, "", "Allocation tags of the types without their own.",
         becomes="roles.<role>.placement_tags"),
    _row(_ALL, "tony.python-exec-path", _T.TEXT, "", "Interpreter of the original's Horovod driver.",
         gone="LinkedIn TonY's client wrote it for Horovod's driver; here ranks need none."),
    _row(_ALL, "tony.gpu-exec-path", _T.TEXT, "nvidia-smi", "Program that measures GPUs.",
         gone="No program measures GPUs here: NVIDIA's library is asked (the package nvidia-ml-py)."),

    _row(_TYPE, "tony.<type>.instances", _T.INTEGER, "0", "Number of tasks.", becomes="roles.<role>.instances"),
    _row(_TYPE, "tony.<type>.max-instances", _T.INTEGER, "-1", "Most tasks of the type.",
         becomes="checked when it is read"),
    _row(_TYPE, "tony.<type>.memory", _T.SIZE, "2g", "Memory of each task.", becomes="roles.<role>.memory"),
    _row(_TYPE, "tony.<type>.vcores", _T.INTEGER, "1", "vcores of each task.", becomes="roles.<role>.vcores"),
    _row(_TYPE, "tony.<type>.gpus", _T.INTEGER, "0", "GPUs of each task.", becomes="roles.<role>.gpus"),
    _row(_TYPE, "tony.<type>.resources", _T.LIST, "", "Files for its tasks.", becomes="roles.<role>.files"),
    _row(_TYPE, "tony.<type>.command", _T.TEXT, "", "What its tasks run.", becomes="roles.<role>.command"),
    _row(_TYPE, "tony.<type>.node-label", _T.TEXT, "", "Label expression of its containers.",
         becomes="roles.<role>.node_label"),
    _row(_TYPE, "tony.<type>.placement-spec", _T.TEXT, "", "Placement constraint.", becomes="roles.<role>.placement"),
    _row(_TYPE, "tony.<type>.allocation-tags", _T.LIST, "", "Allocation tags.",
         becomes="roles.<role>.placement_tags"),
    _row(_TYPE, "tony.<type>.depends-on", _T.LIST, "", "Nothing: the original has a name for it and never reads it.",
         gone="The original never read it either; the stages are what counts. Write roles.<role>.after in a job file "
         "if this is what you want."),

    _row(_DOCKER, "tony.docker.enabled", _T.TRUTH, "false", "Whether containers run in Docker.",
         becomes="scheduler.yarn.docker_image"),
    _row(_DOCKER, "tony.docker.containers.image", _T.TEXT, "", "Image of all containers.",
         becomes="scheduler.yarn.docker_image"),
    _row(_DOCKER, "tony.docker.<type>.image", _T.TEXT, "", "Image of one type; `am` is the application master.",
         becomes="roles.<role>.image"),
    _row(_DOCKER, "tony.docker.containers.mount", _T.TEXT, "", "Mounts of all containers.",
         becomes="scheduler.yarn.docker_mounts"),

    _row(_HOROVOD, "tony.horovod.driver.mode.debug", _T.TRUTH, "false", "The driver is a command of the user's.",
         becomes="roles.driver"),
    _row(_HOROVOD, "tony.horovod.mode.test", _T.TRUTH, "false", "A driver that is none.", gone=_TEST),
    _row(_HOROVOD, "tony.horovod.mode.test.fast.fail", _T.TRUTH, "false", "A driver that fails.", gone=_TEST),

    _row(_BOARD, "tony.application.tensorboard-log-dir", _T.TEXT, "", "Has a TensorBoard for this folder run beside "
         "the job.", becomes="roles.tensorboard"),

    _row(_HISTORY, "tony.history.location", _T.TEXT, "/path/to/tony-history", "Folder of all jobs' histories.",
         gone=_RECORDS),
    _row(_HISTORY, "tony.history.intermediate", _T.TEXT, "", "Folder of running jobs' histories.", gone=_RECORDS),
    _row(_HISTORY, "tony.history.finished", _T.TEXT, "", "Folder of ended jobs' histories.", gone=_RECORDS),
    _row(_HISTORY, "tony.history.mover-interval-ms", _T.MILLISECONDS, "300000", "How often histories are moved.",
         gone="A record stays where it was made."),
    _row(_HISTORY, "tony.history.retention-sec", _T.SECONDS, "2592000", "How long histories are kept.", gone=_PURGE),
    _row(_HISTORY, "tony.history.purger-interval-ms", _T.MILLISECONDS, "21600000", "How often old ones are removed.",
         gone=_PURGE),
    _row(_HISTORY, "tony.history.finished-dir-timezone", _T.TEXT, "UTC", "Whose days the folders are called by.",
         gone="A record stays where it was made."),
    _row(_HISTORY, "tony.portal.url", _T.TEXT, "https://localhost:19886", "Address of the portal.", gone=_PORTAL),
    _row(_HISTORY, "tony.portal.cache.max-entries", _T.INTEGER, "10000", "Size of its caches.", gone=_PORTAL),
    *(_row(_HISTORY, name, _T.TEXT, "", meaning, gone=_PORTAL) for name, meaning in (
        ("tony.keytab.user", "Its Kerberos name."),
        ("tony.keytab.location", "Its keytab."),
        ("tony.https.port", "Its port."),
        ("tony.https.keystore.path", "Its certificate."),
        ("tony.https.keystore.type", "How that is kept."),
        ("tony.https.keystore.password", "The password for that."),
        ("tony.https.keystore.algorithm", "How that is read."),
        ("tony.http.port", "Its port without TLS."),
        ("tony.secret.key", "What it signs with."),
    )),
)
# fmt: on

_PROGRAM, _CONTAINER, _CLIENT = "programs", "containers", "client"
_SAME = "The same."
_KEPT = "It reaches the programs; ports are kept from others in any case."

#: Every environment variable that switches something in the original.
VARIABLES: tuple[OriginalVariable, ...] = (
    OriginalVariable(
        name="HADOOP_CONF_DIR",
        where=_CLIENT,
        meaning="Folder with Hadoop's settings.",
        becomes="The same, unless `scheduler.yarn.conf` names another one.",
    ),
    OriginalVariable(
        name="TONY_CONF_DIR",
        where=_CLIENT,
        meaning="Folder with tony-site.xml.",
        becomes="The same for jobs in XML. Job files have site files of their own.",
    ),
    OriginalVariable(
        name="HADOOP_TOKEN_FILE_LOCATION",
        where=_CLIENT,
        meaning="File with tokens that somebody has fetched.",
        becomes=_SAME,
    ),
    OriginalVariable(
        name="SKIP_HADOOP_PATH",
        where=_CONTAINER,
        meaning="`true`: the programs' CLASSPATH has no Hadoop in it.",
        becomes="The same: without it jobs in XML have `hadoop_classpath = true`.",
    ),
    *(
        OriginalVariable(
            name=name, where=_PROGRAM, meaning=f"`true`: {port} is held while the program runs.", becomes=_KEPT
        )
        for name, port in (("TF_GRPC_REUSE_PORT", "the task's port"), ("TB_SERVER_REUSE_PORT", "TensorBoard's port"))
    ),
    *(
        OriginalVariable(name=name, where=where, meaning=meaning, gone=_TEST)
        for name, where, meaning in (
            ("TEST_AM_CRASH", _CONTAINER, "The application master ends."),
            ("TEST_AM_THROW_EXCEPTION_CRASH", _CONTAINER, "The application master breaks."),
            ("TEST_WORKER_TERMINATION", _CONTAINER, "The application master kills the workers."),
            ("TEST_TASK_COMPLETION_NOTIFICATION_DELAYED", _CONTAINER, "The application master is slow."),
            ("TEST_TASK_EXECUTOR_NUM_HB_MISS", _CONTAINER, "Executors leave out heartbeats."),
            ("TEST_TASK_EXECUTOR_SKEW", _CONTAINER, "One executor is slow."),
            ("MARK_TASK_EXECUTOR_LOST_CONNECTION_WITH_AM", _PROGRAM, "Executors believe that they are alone."),
            ("SIDECAR_TB_TEST", _CONTAINER, "TensorBoard is not started."),
        )
    ),
)

#: First words of keys that are no type's name.
_WORDS = """application am task containers container execution docker horovod history portal keytab https http secret
other yarn version-info python-exec-path gpu-exec-path"""
RESERVED = frozenset(_WORDS.split())
#: What a type's keys end in.
TYPE_ENDINGS = tuple(row.name.removeprefix("tony.<type>.") for row in KEYS if row.name.startswith("tony.<type>."))

_PARTS = {
    "<type>": r"([A-Za-z][A-Za-z0-9_-]*)",
    "<group>": r"([A-Za-z][A-Za-z0-9_-]*)",
    "<resource>": r"(memory|vcores|gpus)",
}


def row_of(key: str) -> OriginalKey | None:
    """The row that covers a key; None if there is none."""
    found = _fixed().get(key)
    if found:
        return found
    for pattern, row in _patterns():
        match = pattern.fullmatch(key)
        if match and not (row.section == _TYPE and match[1] in RESERVED):
            return row
    return None


@cache
def _fixed() -> dict[str, OriginalKey]:
    return {row.name: row for row in KEYS if "<" not in row.name}


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], OriginalKey], ...]:
    patterns = []
    for row in KEYS:
        if "<" in row.name:
            text = re.escape(row.name)
            for part, pattern in _PARTS.items():
                text = text.replace(re.escape(part), pattern)
            patterns.append((re.compile(text, re.ASCII), row))
    return tuple(patterns)
