"""The table of LinkedIn TonY settings: what each means, and its replacement here.

A row either names the setting that replaces it, or why it is not needed any more. `docs/migrating.md` is generated from
it, and a key that no row covers is an error.

`<type>`, `<group>` and `<resource>` stand for names that the user chooses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import cache


class LegacyKind(Enum):
    """Notation of a value; each member's value is the word in the docs."""

    TEXT = "text"
    INTEGER = "whole number"
    SIZE = "size"  #: `2g`, `512m`, or a bare number of MiB
    MILLISECONDS = "milliseconds"
    SECONDS = "seconds"
    TRUTH = "true or false"
    LIST = "list"  #: separated by commas
    VARIABLES = "list of k=v"


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyVariable:
    """An environment variable that LinkedIn TonY reads.

    Attributes:
        where: the process in whose environment it is set.
        meaning: its effect in LinkedIn TonY, one line.
        becomes: its effect here; empty if it has none.
        gone: why it has no effect; empty if it has one.
    """

    name: str
    where: str
    meaning: str
    becomes: str = ""
    gone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyKey:
    """One row.

    Attributes:
        name: the key; a part in angle brackets stands for a name that the user chooses.
        kind: how its value is written.
        default: as in LinkedIn TonY's `tony-default.xml`, if it matters for the translation.
        meaning: its meaning, one line.
        becomes: the setting that replaces it; empty if it is not needed any more.
        gone: why it is not needed any more, one or two sentences; empty if it is replaced.
        section: its heading in the docs.
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
) -> LegacyKey:
    return LegacyKey(
        section=section, name=name, kind=kind, default=default, meaning=meaning, becomes=becomes, gone=gone
    )


_NO_JVM = "tony runs no JVM."
_PORTAL = "A setting of LinkedIn TonY's portal. `tony portal` takes options instead."
_PURGE = "Use `tony purge` to delete old jobs."
_RECORDS = "Each job has its own directory, in HDFS below `scheduler.yarn.staging`: see `tony history`."
_TEST = "A switch for LinkedIn TonY's own tests."
_BUILD = "LinkedIn TonY's client wrote its own build into it; see `tony version`."

_APP, _RESULT, _AM, _TASK = "Application", "Results", "Application master", "Tasks in general"
_ALL, _TYPE, _DOCKER, _HOROVOD = "All containers", "Each type of task", "Docker", "Horovod"
_BOARD, _HISTORY = "TensorBoard", "History and portal"
_T = LegacyKind

# fmt: off
#: Every key of LinkedIn TonY.
KEYS: tuple[LegacyKey, ...] = (
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
    _row(_APP, "tony.application.timeout", _T.MILLISECONDS, "0", "Maximum run time of the job.", becomes="job_timeout"),
    _row(_APP, "tony.application.num-client-rm-connect-retries", _T.INTEGER, "3",
         "How long the client waits for the ResourceManager.",
         gone="`yarn.resourcemanager.connect.max-wait.ms` says how long to wait for the ResourceManager."),
    _row(_APP, "tony.application.enable-preprocess", _T.TRUTH, "false", "Run the command once before the tasks.",
         becomes="roles.preprocess"),
    _row(_APP, "tony.application.prepare-stage", _T.LIST, "", "Types that start first.", becomes="roles.<role>.after"),
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
         gone="tony reads no MapReduce settings."),
    _row(_APP, "tony.application.security.enabled", _T.TRUTH, "true", "Whether tokens are fetched and required.",
         gone="Hadoop's own configuration says whether the cluster is secure, and every job is protected by a token "
         "of its own."),
    _row(_APP, "tony.other.namenodes", _T.LIST, "", "Additional NameNodes to fetch tokens from.",
         becomes="scheduler.yarn.file_systems"),
    *(_row(_APP, f"tony.version-info.{name}", _T.TEXT, "", "Build information of LinkedIn TonY.", gone=_BUILD)
      for name in ("version", "revision", "branch", "user", "date", "url", "checksum")),

    _row(_RESULT, "tony.application.untracked.jobtypes", _T.LIST, "ps", "Types that the job does not wait for, and "
         "whose "
         "failure fails it.", becomes="roles.<role>.kind"),
    _row(_RESULT, "tony.application.sidecar.jobtypes", _T.LIST, "tensorboard", "Types that the job does not wait for, "
         "and "
         "whose failure is ignored.", becomes="roles.<role>.kind"),
    _row(_RESULT, "tony.application.stop-on-failure-jobtypes", _T.LIST, "ps", "Types whose failure ends the job at "
         "once.", becomes="roles.<role>.stop_on_failure"),
    _row(_RESULT, "tony.application.fail-on-worker-failure-enabled", _T.TRUTH, "false", "Whether any failure of any "
         "task fails the job.", becomes="failure_policy"),
    _row(_RESULT, "tony.application.group.<group>", _T.LIST, "", "A group of types.",
         becomes="groups.<group>"),
    _row(_RESULT, "tony.application.dependency.<type>.timeout.after.<group>", _T.SECONDS, "", "How much longer the "
         "type may run after the group is done.", becomes="roles.<role>.timeout_after"),
    _row(_RESULT, "tony.application.dependency.<type>.timeout.after.<group>.ignored", _T.TRUTH, "false", "Whether the "
         "job then stops waiting for the type, instead of failing.",
         becomes="roles.<role>.timeout_after.on_timeout"),

    _row(_AM, "tony.am.memory", _T.SIZE, "2g", "Memory of the application master, which runs the program itself if no "
         "type has instances.", becomes="scheduler.yarn.am_memory"),
    _row(_AM, "tony.am.vcores", _T.INTEGER, "1", "vcores of the application "
         "master.", becomes="scheduler.yarn.am_vcores"),
    _row(_AM, "tony.am.gpus", _T.INTEGER, "0", "GPUs of the program that the application master "
         "runs.", becomes="roles.main.gpus"),
    _row(_AM, "tony.am.retry-count", _T.INTEGER, "0", "Maximum retries of a failed job.", becomes="max_restarts"),
    _row(_AM, "tony.am.startup-timeout", _T.MILLISECONDS, "0", "Maximum time until the application master runs.",
         becomes="queue_timeout"),
    _row(_AM, "tony.am.wait-client-signal-stop-timeout-sec", _T.SECONDS, "15", "How long the application master waits "
         "for "
         "its client at the end.", gone="The end of a job does not wait for the client: the job directory has the "
         "result."),
    _row(_AM, "tony.am.node-label", _T.TEXT, "", "Node label of the application master's "
         "container.", becomes="scheduler.yarn.am_node_label"),
    _row(_AM, "tony.am.command", _T.TEXT, "", "The command that the application master "
         "runs.", becomes="roles.main.command"),
    _row(_AM, "tony.am.resources", _T.LIST, "", "Files for the application master's "
         "container.", becomes="roles.main.files"),

    _row(_TASK, "tony.task.max-total-instances", _T.INTEGER, "-1", "Maximum tasks of a job.",
         becomes="checked at submission; a site file's limits.total_instances"),
    _row(_TASK, "tony.task.max-total-<resource>", _T.INTEGER, "-1", "Maximum memory (MiB), vcores or gpus of a "
         "job's tasks.", becomes="checked at submission; a site file's limits.total_memory, limits.total_gpus"),
    _row(_TASK, "tony.task.am.jvm.opts", _T.TEXT, "", "Options of the application master's JVM.", gone=_NO_JVM),
    _row(_TASK, "tony.task.executor.jvm.opts", _T.TEXT, "-Xmx1536m", "Options of the executors' JVMs.", gone=_NO_JVM),
    _row(_TASK, "tony.task.default.jvm.opts", _T.TEXT, "", "Options of all JVMs.", gone=_NO_JVM),
    _row(_TASK, "tony.task.heartbeat-interval-ms", _T.MILLISECONDS, "1000", "Interval of an executor's "
         "heartbeats.", becomes="heartbeat_interval"),
    _row(_TASK, "tony.task.max-missed-heartbeats", _T.INTEGER, "25", "Maximum missed heartbeats.",
         becomes="heartbeat_timeout"),
    _row(_TASK, "tony.task.metrics-interval-ms", _T.MILLISECONDS, "5000", "Sampling interval of metrics.",
         becomes="metrics_interval"),
    _row(_TASK, "tony.task.gpu-metrics.enabled", _T.TRUTH, "true", "Whether GPU metrics are collected.",
         gone="Metrics of granted GPUs are always collected, unless metrics_interval is 0s."),
    _row(_TASK, "tony.task.executor.execution-timeout-ms", _T.MILLISECONDS, "0", "Maximum run time of a program.",
         becomes="execution_timeout"),
    _row(_TASK, "tony.task.executor.registry-timeout-sec", _T.SECONDS, "0", "How long an executor tries to register.",
         becomes="registration_timeout"),
    _row(_TASK, "tony.task.executor.execution.error-message-max-depth", _T.INTEGER, "20", "Lines of a failed "
         "program's output in the error.", gone="The error has the last lines; `tony logs` has all of them."),

    _row(_ALL, "tony.container.allocation.timeout", _T.MILLISECONDS, "-1", "Maximum time until all tasks have "
         "registered, in GANG mode.", becomes="allocation_timeout"),
    _row(_ALL, "tony.container.registration.timeout", _T.MILLISECONDS, "-1", "Maximum time from a container's start "
         "to its registration.", becomes="registration_timeout"),
    _row(_ALL, "tony.containers.resources", _T.LIST, "", "Files for every container.", becomes="files"),
    _row(_ALL, "tony.containers.command", _T.TEXT, "", "Command of the types without their own.", becomes="command"),
    _row(_ALL, "tony.containers.envs", _T.VARIABLES, "", "Environment variables of the containers.",
         becomes="container_env.<name>"),
    _row(_ALL, "tony.execution.envs", _T.VARIABLES, "", "Environment variables of the programs.", becomes="env.<name>"),
    _row(_ALL, "tony.containers.placement-spec", _T.TEXT, "", "Placement constraint of the types without their own.",
         becomes="roles.<role>.yarn.placement"),
    _row(_ALL, "tony.containers.allocation-tags", _T.LIST, "", "Allocation tags of the types without their own.",
         becomes="roles.<role>.yarn.placement_tags"),
    _row(_ALL, "tony.python-exec-path", _T.TEXT, "", "Interpreter of the Horovod driver.",
         gone="LinkedIn TonY's client wrote it for its Horovod driver, which does not exist here."),
    _row(_ALL, "tony.gpu-exec-path", _T.TEXT, "nvidia-smi", "Program that collects GPU metrics.",
         gone="GPU metrics come from NVIDIA's library (the package nvidia-ml-py), not from a program."),

    _row(_TYPE, "tony.<type>.instances", _T.INTEGER, "0", "Number of tasks.", becomes="roles.<role>.instances"),
    _row(_TYPE, "tony.<type>.max-instances", _T.INTEGER, "-1", "Maximum tasks of the type.",
         becomes="checked at submission"),
    _row(_TYPE, "tony.<type>.memory", _T.SIZE, "2g", "Memory of each task.", becomes="roles.<role>.memory"),
    _row(_TYPE, "tony.<type>.vcores", _T.INTEGER, "1", "vcores of each task.", becomes="roles.<role>.vcores"),
    _row(_TYPE, "tony.<type>.gpus", _T.INTEGER, "0", "GPUs of each task.", becomes="roles.<role>.gpus"),
    _row(_TYPE, "tony.<type>.resources", _T.LIST, "", "Files for its tasks.", becomes="roles.<role>.files"),
    _row(_TYPE, "tony.<type>.command", _T.TEXT, "", "What its tasks run.", becomes="roles.<role>.command"),
    _row(_TYPE, "tony.<type>.node-label", _T.TEXT, "", "Label expression of its containers.",
         becomes="roles.<role>.node_label"),
    _row(_TYPE, "tony.<type>.placement-spec", _T.TEXT, "", "Placement constraint.",
         becomes="roles.<role>.yarn.placement"),
    _row(_TYPE, "tony.<type>.allocation-tags", _T.LIST, "", "Allocation tags.",
         becomes="roles.<role>.yarn.placement_tags"),
    _row(_TYPE, "tony.<type>.depends-on", _T.LIST, "", "None: LinkedIn TonY never reads it.",
         gone="LinkedIn TonY never read it either; it uses the stages. Use roles.<role>.after in a job file instead."),

    _row(_DOCKER, "tony.docker.enabled", _T.TRUTH, "false", "Whether containers run in Docker.",
         becomes="scheduler.yarn.docker_image"),
    _row(_DOCKER, "tony.docker.containers.image", _T.TEXT, "", "Image of all containers.",
         becomes="scheduler.yarn.docker_image"),
    _row(_DOCKER, "tony.docker.<type>.image", _T.TEXT, "", "Image of one type; `am` is the application master.",
         becomes="roles.<role>.image"),
    _row(_DOCKER, "tony.docker.containers.mount", _T.TEXT, "", "Mounts of all containers.",
         becomes="scheduler.yarn.docker_mounts"),

    _row(_HOROVOD, "tony.horovod.driver.mode.debug", _T.TRUTH, "false", "The driver is a user command.",
         becomes="roles.driver"),
    _row(_HOROVOD, "tony.horovod.mode.test", _T.TRUTH, "false", "A fake driver.", gone=_TEST),
    _row(_HOROVOD, "tony.horovod.mode.test.fast.fail", _T.TRUTH, "false", "A driver that fails.", gone=_TEST),

    _row(_BOARD, "tony.application.tensorboard-log-dir", _T.TEXT, "", "Run a TensorBoard sidecar for this "
         "folder.", becomes="roles.tensorboard"),

    _row(_HISTORY, "tony.history.location", _T.TEXT, "/path/to/tony-history", "Folder of all jobs' histories.",
         gone=_RECORDS),
    _row(_HISTORY, "tony.history.intermediate", _T.TEXT, "", "Folder of running jobs' histories.", gone=_RECORDS),
    _row(_HISTORY, "tony.history.finished", _T.TEXT, "", "Folder of ended jobs' histories.", gone=_RECORDS),
    _row(_HISTORY, "tony.history.mover-interval-ms", _T.MILLISECONDS, "300000", "How often histories are moved.",
         gone="A job directory is never moved."),
    _row(_HISTORY, "tony.history.retention-sec", _T.SECONDS, "2592000", "How long histories are kept.", gone=_PURGE),
    _row(_HISTORY, "tony.history.purger-interval-ms", _T.MILLISECONDS, "21600000", "How often old ones are removed.",
         gone=_PURGE),
    _row(_HISTORY, "tony.history.finished-dir-timezone", _T.TEXT, "UTC", "Time zone of the folders' dates.",
         gone="A job directory is never moved."),
    _row(_HISTORY, "tony.portal.url", _T.TEXT, "https://localhost:19886", "Address of the portal.", gone=_PORTAL),
    _row(_HISTORY, "tony.portal.cache.max-entries", _T.INTEGER, "10000", "Size of its caches.", gone=_PORTAL),
    *(_row(_HISTORY, name, _T.TEXT, "", meaning, gone=_PORTAL) for name, meaning in (
        ("tony.keytab.user", "Its Kerberos name."),
        ("tony.keytab.location", "Its keytab."),
        ("tony.https.port", "Its port."),
        ("tony.https.keystore.path", "Its certificate."),
        ("tony.https.keystore.type", "Type of the keystore."),
        ("tony.https.keystore.password", "Password of the keystore."),
        ("tony.https.keystore.algorithm", "Algorithm of the keystore."),
        ("tony.http.port", "Its port without TLS."),
        ("tony.secret.key", "Its signing key."),
    )),
)
# fmt: on

_PROGRAM, _CONTAINER, _CLIENT = "programs", "containers", "client"
_SAME = "The same."
_KEPT = "It reaches the programs; ports are reserved in any case."

#: Every environment variable that LinkedIn TonY reads.
VARIABLES: tuple[LegacyVariable, ...] = (
    LegacyVariable(
        name="HADOOP_CONF_DIR",
        where=_CLIENT,
        meaning="Folder with Hadoop's settings.",
        becomes="The same, unless `scheduler.yarn.conf` is set.",
    ),
    LegacyVariable(
        name="TONY_CONF_DIR",
        where=_CLIENT,
        meaning="Folder with tony-site.xml.",
        becomes="The same for jobs in XML. Job files have their own site files.",
    ),
    LegacyVariable(
        name="HADOOP_TOKEN_FILE_LOCATION",
        where=_CLIENT,
        meaning="File with Hadoop tokens that were already fetched.",
        becomes=_SAME,
    ),
    LegacyVariable(
        name="SKIP_HADOOP_PATH",
        where=_CONTAINER,
        meaning="`true`: no Hadoop on the programs' CLASSPATH.",
        becomes="The same: without it jobs in XML have `hadoop_classpath = true`.",
    ),
    *(
        LegacyVariable(
            name=name, where=_PROGRAM, meaning=f"`true`: {port} stays reserved while the program runs.", becomes=_KEPT
        )
        for name, port in (("TF_GRPC_REUSE_PORT", "the task's port"), ("TB_SERVER_REUSE_PORT", "TensorBoard's port"))
    ),
    *(
        LegacyVariable(name=name, where=where, meaning=meaning, gone=_TEST)
        for name, where, meaning in (
            ("TEST_AM_CRASH", _CONTAINER, "The application master exits."),
            ("TEST_AM_THROW_EXCEPTION_CRASH", _CONTAINER, "The application master crashes."),
            ("TEST_WORKER_TERMINATION", _CONTAINER, "The application master kills the workers."),
            ("TEST_TASK_COMPLETION_NOTIFICATION_DELAYED", _CONTAINER, "The application master is slow."),
            ("TEST_TASK_EXECUTOR_NUM_HB_MISS", _CONTAINER, "Executors skip heartbeats."),
            ("TEST_TASK_EXECUTOR_SKEW", _CONTAINER, "One executor is slow."),
            (
                "MARK_TASK_EXECUTOR_LOST_CONNECTION_WITH_AM",
                _PROGRAM,
                "Executors lose the connection to the application master.",
            ),
            ("SIDECAR_TB_TEST", _CONTAINER, "TensorBoard is not started."),
        )
    ),
)

#: Second words of keys that are not types.
_WORDS = """application am task containers container execution docker horovod history portal keytab https http secret
other yarn version-info python-exec-path gpu-exec-path"""
RESERVED = frozenset(_WORDS.split())
#: Last parts of the keys of a type.
TYPE_ENDINGS = tuple(row.name.removeprefix("tony.<type>.") for row in KEYS if row.name.startswith("tony.<type>."))

_PARTS = {
    "<type>": r"([A-Za-z][A-Za-z0-9_-]*)",
    "<group>": r"([A-Za-z][A-Za-z0-9_-]*)",
    "<resource>": r"(memory|vcores|gpus)",
}


def row_of(key: str) -> LegacyKey | None:
    """Return the row of a key; None if there is none."""
    found = _fixed().get(key)
    if found:
        return found
    for pattern, row in _patterns():
        match = pattern.fullmatch(key)
        if match and not (row.section == _TYPE and match[1] in RESERVED):
            return row
    return None


@cache
def _fixed() -> dict[str, LegacyKey]:
    return {row.name: row for row in KEYS if "<" not in row.name}


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], LegacyKey], ...]:
    patterns = []
    for row in KEYS:
        if "<" in row.name:
            text = re.escape(row.name)
            for part, pattern in _PARTS.items():
                text = text.replace(re.escape(part), pattern)
            patterns.append((re.compile(text, re.ASCII), row))
    return tuple(patterns)
