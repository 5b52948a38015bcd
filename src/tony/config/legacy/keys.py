"""The table of LinkedIn TonY settings, and what replaces each of them here.

A row either names the setting that replaces it, or why it is no longer needed. `docs/migrating.md` is generated from
it, and a key that no row covers is an error.

`<type>`, `<group>` and `<resource>` stand for names that the user chooses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class LegacyVariable:
    """An environment variable that LinkedIn TonY reads.

    Attributes:
        where: the process in whose environment it is set.
        becomes: its effect here; empty if it has none.
        obsolete: why it has no effect; empty if it has one.
    """

    name: str
    where: str
    becomes: str = ""
    obsolete: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyKey:
    """One row.

    Attributes:
        name: the key; a part in angle brackets stands for a name that the user chooses.
        default: as in LinkedIn TonY's `tony-default.xml`, if it matters for the translation.
        becomes: the setting that replaces it; empty if it is no longer needed.
        obsolete: why it is no longer needed, one or two sentences; empty if it is replaced.
        section: its heading in the docs.
    """

    name: str
    default: str
    becomes: str
    obsolete: str
    section: str


def _row(section: str, name: str, default: str, *, becomes: str = "", obsolete: str = "") -> LegacyKey:
    return LegacyKey(section=section, name=name, default=default, becomes=becomes, obsolete=obsolete)


_NO_JVM = "tony runs no JVM."
_PORTAL = "A setting of LinkedIn TonY's portal. `tony portal` takes options instead."
_PURGE = "Use `tony purge` to delete old jobs."
_RECORDS = "Each job has its own directory, in HDFS below `scheduler.yarn.staging`: see `tony history`."
_TEST = "A switch for LinkedIn TonY's own tests."
_BUILD = "LinkedIn TonY's client wrote its own build into it; see `tony version`."

_APP = "Application"
_RESULT = "Results"
_AM = "Application master"
_TASK = "Tasks in general"
_ALL = "All containers"
_TYPE = "Each type of task"
_DOCKER = "Docker"
_HOROVOD = "Horovod"
_BOARD = "TensorBoard"
_HISTORY = "History and portal"

# fmt: off
#: Every key of LinkedIn TonY.
KEYS: tuple[LegacyKey, ...] = (
    _row(_APP, "tony.application.name", "TensorFlowApplication", becomes="name"),
    _row(_APP, "tony.application.type", "TONY", becomes="scheduler.yarn.application_type"),
    _row(_APP, "tony.application.tags", "", becomes="scheduler.yarn.tags"),
    _row(_APP, "tony.application.framework", "tensorflow", becomes="framework"),
    _row(_APP, "tony.application.distributed-mode", "GANG", becomes="distributed_mode"),
    _row(_APP, "tony.yarn.queue", "default", becomes="scheduler.yarn.queue"),
    _row(_APP, "tony.application.node-label", "", becomes="scheduler.yarn.node_label"),
    _row(_APP, "tony.application.placement-spec", "", becomes="scheduler.yarn.placement"),
    _row(_APP, "tony.application.timeout", "0", becomes="job_timeout"),
    _row(_APP, "tony.application.num-client-rm-connect-retries", "3",
         obsolete="`yarn.resourcemanager.connect.max-wait.ms` says how long to wait for the ResourceManager."),
    _row(_APP, "tony.application.enable-preprocess", "false", becomes="roles.preprocess"),
    _row(_APP, "tony.application.prepare-stage", "", becomes="roles.<role>.after"),
    _row(_APP, "tony.application.training-stage", "", becomes="roles.<role>.after"),
    _row(_APP, "tony.application.hadoop.location", "", becomes="files"),
    _row(_APP, "tony.application.hadoop.classpath", "", becomes="env.CLASSPATH"),
    _row(_APP, "tony.application.hdfs-conf-path", "", becomes="scheduler.yarn.conf"),
    _row(_APP, "tony.application.yarn-conf-path", "", becomes="scheduler.yarn.conf"),
    _row(_APP, "tony.application.mapred-conf-path", "", obsolete="tony reads no MapReduce settings."),
    _row(_APP, "tony.application.security.enabled", "true",
         obsolete="Hadoop's own configuration says whether the cluster is secure, and every job is protected by a "
         "token "
         "of its own."),
    _row(_APP, "tony.other.namenodes", "", becomes="scheduler.yarn.file_systems"),
    *(_row(_APP, f"tony.version-info.{name}", "", obsolete=_BUILD)
      for name in ("version", "revision", "branch", "user", "date", "url", "checksum")),

    _row(_RESULT, "tony.application.untracked.jobtypes", "ps", becomes="roles.<role>.kind"),
    _row(_RESULT, "tony.application.sidecar.jobtypes", "tensorboard", becomes="roles.<role>.kind"),
    _row(_RESULT, "tony.application.stop-on-failure-jobtypes", "ps", becomes="roles.<role>.stop_on_failure"),
    _row(_RESULT, "tony.application.fail-on-worker-failure-enabled", "false", becomes="failure_policy"),
    _row(_RESULT, "tony.application.group.<group>", "", becomes="groups.<group>"),
    _row(_RESULT, "tony.application.dependency.<type>.timeout.after.<group>", "", becomes="roles.<role>.timeout_after"),
    _row(_RESULT, "tony.application.dependency.<type>.timeout.after.<group>.ignored", "false",
         becomes="roles.<role>.timeout_after.on_timeout"),

    _row(_AM, "tony.am.memory", "2g", becomes="scheduler.yarn.am_memory"),
    _row(_AM, "tony.am.vcores", "1", becomes="scheduler.yarn.am_vcores"),
    _row(_AM, "tony.am.gpus", "0", becomes="roles.main.gpus"),
    _row(_AM, "tony.am.retry-count", "0", becomes="max_restarts"),
    _row(_AM, "tony.am.startup-timeout", "0", becomes="queue_timeout"),
    _row(_AM, "tony.am.wait-client-signal-stop-timeout-sec", "15",
         obsolete="The end of a job does not wait for the client: the job directory has the result."),
    _row(_AM, "tony.am.node-label", "", becomes="scheduler.yarn.am_node_label"),
    _row(_AM, "tony.am.command", "", becomes="roles.main.command"),
    _row(_AM, "tony.am.resources", "", becomes="roles.main.files"),

    _row(_TASK, "tony.task.max-total-instances", "-1",
         becomes="checked at submission; a site file's limits.total_instances"),
    _row(_TASK, "tony.task.max-total-<resource>", "-1",
         becomes="checked at submission; a site file's limits.total_memory, limits.total_gpus"),
    _row(_TASK, "tony.task.am.jvm.opts", "", obsolete=_NO_JVM),
    _row(_TASK, "tony.task.executor.jvm.opts", "-Xmx1536m", obsolete=_NO_JVM),
    _row(_TASK, "tony.task.default.jvm.opts", "", obsolete=_NO_JVM),
    _row(_TASK, "tony.task.heartbeat-interval-ms", "1000", becomes="heartbeat_interval"),
    _row(_TASK, "tony.task.max-missed-heartbeats", "25", becomes="heartbeat_timeout"),
    _row(_TASK, "tony.task.metrics-interval-ms", "5000", becomes="metrics_interval"),
    _row(_TASK, "tony.task.gpu-metrics.enabled", "true",
         obsolete="Metrics of granted GPUs are always collected, unless metrics_interval is 0s."),
    _row(_TASK, "tony.task.executor.execution-timeout-ms", "0", becomes="execution_timeout"),
    _row(_TASK, "tony.task.executor.registry-timeout-sec", "0", becomes="registration_timeout"),
    _row(_TASK, "tony.task.executor.execution.error-message-max-depth", "20",
         obsolete="The error has the last lines; `tony logs` has all of them."),

    _row(_ALL, "tony.container.allocation.timeout", "-1", becomes="allocation_timeout"),
    _row(_ALL, "tony.container.registration.timeout", "-1", becomes="registration_timeout"),
    _row(_ALL, "tony.containers.resources", "", becomes="files"),
    _row(_ALL, "tony.containers.command", "", becomes="command"),
    _row(_ALL, "tony.containers.envs", "", becomes="container_env.<name>"),
    _row(_ALL, "tony.execution.envs", "", becomes="env.<name>"),
    _row(_ALL, "tony.containers.placement-spec", "", becomes="roles.<role>.yarn.placement"),
    _row(_ALL, "tony.containers.allocation-tags", "", becomes="roles.<role>.yarn.placement_tags"),
    _row(_ALL, "tony.python-exec-path", "",
         obsolete="LinkedIn TonY's client wrote it for its Horovod driver, which does not exist here."),
    _row(_ALL, "tony.gpu-exec-path", "nvidia-smi",
         obsolete="GPU metrics come from NVIDIA's library (the package nvidia-ml-py), not from a program."),

    _row(_TYPE, "tony.<type>.instances", "0", becomes="roles.<role>.instances"),
    _row(_TYPE, "tony.<type>.max-instances", "-1", becomes="checked at submission"),
    _row(_TYPE, "tony.<type>.memory", "2g", becomes="roles.<role>.memory"),
    _row(_TYPE, "tony.<type>.vcores", "1", becomes="roles.<role>.vcores"),
    _row(_TYPE, "tony.<type>.gpus", "0", becomes="roles.<role>.gpus"),
    _row(_TYPE, "tony.<type>.resources", "", becomes="roles.<role>.files"),
    _row(_TYPE, "tony.<type>.command", "", becomes="roles.<role>.command"),
    _row(_TYPE, "tony.<type>.node-label", "", becomes="roles.<role>.node_label"),
    _row(_TYPE, "tony.<type>.placement-spec", "", becomes="roles.<role>.yarn.placement"),
    _row(_TYPE, "tony.<type>.allocation-tags", "", becomes="roles.<role>.yarn.placement_tags"),
    _row(_TYPE, "tony.<type>.depends-on", "",
         obsolete="LinkedIn TonY never read it either; it uses the stages. Use roles.<role>.after in a job file "
         "instead."),

    _row(_DOCKER, "tony.docker.enabled", "false", becomes="scheduler.yarn.docker_image"),
    _row(_DOCKER, "tony.docker.containers.image", "", becomes="scheduler.yarn.docker_image"),
    _row(_DOCKER, "tony.docker.<type>.image", "", becomes="roles.<role>.image"),
    _row(_DOCKER, "tony.docker.containers.mount", "", becomes="scheduler.yarn.docker_mounts"),

    _row(_HOROVOD, "tony.horovod.driver.mode.debug", "false", becomes="roles.driver"),
    _row(_HOROVOD, "tony.horovod.mode.test", "false", obsolete=_TEST),
    _row(_HOROVOD, "tony.horovod.mode.test.fast.fail", "false", obsolete=_TEST),

    _row(_BOARD, "tony.application.tensorboard-log-dir", "", becomes="roles.tensorboard"),

    _row(_HISTORY, "tony.history.location", "/path/to/tony-history", obsolete=_RECORDS),
    _row(_HISTORY, "tony.history.intermediate", "", obsolete=_RECORDS),
    _row(_HISTORY, "tony.history.finished", "", obsolete=_RECORDS),
    _row(_HISTORY, "tony.history.mover-interval-ms", "300000", obsolete="A job directory is never moved."),
    _row(_HISTORY, "tony.history.retention-sec", "2592000", obsolete=_PURGE),
    _row(_HISTORY, "tony.history.purger-interval-ms", "21600000", obsolete=_PURGE),
    _row(_HISTORY, "tony.history.finished-dir-timezone", "UTC", obsolete="A job directory is never moved."),
    _row(_HISTORY, "tony.portal.url", "https://localhost:19886", obsolete=_PORTAL),
    _row(_HISTORY, "tony.portal.cache.max-entries", "10000", obsolete=_PORTAL),
    *(_row(_HISTORY, name, "", obsolete=_PORTAL)
      for name in (
        "tony.keytab.user", "tony.keytab.location", "tony.https.port", "tony.https.keystore.path",
        "tony.https.keystore.type", "tony.https.keystore.password", "tony.https.keystore.algorithm", "tony.http.port",
        "tony.secret.key",
      )),
)
# fmt: on

_PROGRAM = "programs"
_CONTAINER = "containers"
_CLIENT = "client"
_KEPT = "It reaches the programs; ports are reserved in any case."

#: Every environment variable that LinkedIn TonY reads.
VARIABLES: tuple[LegacyVariable, ...] = (
    LegacyVariable("HADOOP_CONF_DIR", _CLIENT, becomes="The same, unless `scheduler.yarn.conf` is set."),
    LegacyVariable("TONY_CONF_DIR", _CLIENT, becomes="The same for jobs in XML. Job files have their own site files."),
    LegacyVariable("HADOOP_TOKEN_FILE_LOCATION", _CLIENT, becomes="The same."),
    LegacyVariable(
        "SKIP_HADOOP_PATH",
        _CONTAINER,
        becomes="The same: without it jobs in XML have `hadoop_classpath = true`.",
    ),
    LegacyVariable("TF_GRPC_REUSE_PORT", _PROGRAM, becomes=_KEPT),
    LegacyVariable("TB_SERVER_REUSE_PORT", _PROGRAM, becomes=_KEPT),
    LegacyVariable("TEST_AM_CRASH", _CONTAINER, obsolete=_TEST),
    LegacyVariable("TEST_AM_THROW_EXCEPTION_CRASH", _CONTAINER, obsolete=_TEST),
    LegacyVariable("TEST_WORKER_TERMINATION", _CONTAINER, obsolete=_TEST),
    LegacyVariable("TEST_TASK_COMPLETION_NOTIFICATION_DELAYED", _CONTAINER, obsolete=_TEST),
    LegacyVariable("TEST_TASK_EXECUTOR_NUM_HB_MISS", _CONTAINER, obsolete=_TEST),
    LegacyVariable("TEST_TASK_EXECUTOR_SKEW", _CONTAINER, obsolete=_TEST),
    LegacyVariable("MARK_TASK_EXECUTOR_LOST_CONNECTION_WITH_AM", _PROGRAM, obsolete=_TEST),
    LegacyVariable("SIDECAR_TB_TEST", _CONTAINER, obsolete=_TEST),
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
    found = _list_fixed_keys().get(key)
    if found:
        return found
    for pattern, row in _list_key_patterns():
        match = pattern.fullmatch(key)
        if match and not (row.section == _TYPE and match[1] in RESERVED):
            return row
    return None


def find_replacement(key: str) -> tuple[str, ...]:
    """Return the setting that replaces a key without names that the user chooses."""
    return tuple(_list_fixed_keys()[key].becomes.split("."))


@cache
def _list_fixed_keys() -> dict[str, LegacyKey]:
    return {row.name: row for row in KEYS if "<" not in row.name}


@cache
def _list_key_patterns() -> tuple[tuple[re.Pattern[str], LegacyKey], ...]:
    patterns = []
    for row in KEYS:
        if "<" in row.name:
            text = re.escape(row.name)
            for part, pattern in _PARTS.items():
                text = text.replace(re.escape(part), pattern)
            patterns.append((re.compile(text, re.ASCII), row))
    return tuple(patterns)
