"""The settings of the Kubernetes scheduler: `[scheduler.kubernetes]` in a job file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tony.errors import Problem
from tony.model.job_spec import MIB, Role
from tony.model.staged_files import StagedJob
from tony.schedulers.kubernetes.history_setting import list_history_file_systems, parse_history
from tony.schedulers.kubernetes.staging_location import StagingLocation
from tony.schedulers.kubernetes.staging_setting import parse_staging
from tony.schedulers.settings_schema import SchedulerSetting, SettingType, read_values

_DAY_SECONDS = 86_400.0


def _text(name: str, default: str, meaning: str) -> SchedulerSetting:
    return SchedulerSetting(name, SettingType.TEXT, default, meaning)


def _words(name: str, default: str, meaning: str) -> SchedulerSetting:
    return SchedulerSetting(name, SettingType.WORDS, default, meaning)


def _table(name: str, meaning: str) -> SchedulerSetting:
    return SchedulerSetting(name, SettingType.TABLE, "none", meaning)


def _size(name: str, default: str, meaning: str, minimum: int) -> SchedulerSetting:
    return SchedulerSetting(name, SettingType.SIZE, default, meaning, minimum)


SETTINGS: Sequence[SchedulerSetting] = (
    _text("image", "none", "Image of all pods; needs Python 3.11 or later. `image` of a role takes precedence."),
    SchedulerSetting("kubeconfig", SettingType.PATH, "KUBECONFIG, else ~/.kube/config", "The kubeconfig file."),
    _text("context", "the current one", "The context in the kubeconfig file."),
    _text("namespace", "that of the context", "The namespace of the job's objects."),
    _text("service_account", "tony", "Service account of the application master; see the Role in docs."),
    _text("task_service_account", "that of the namespace", "Service account of tasks, which do not get its token."),
    _text("gpu_resource", "nvidia.com/gpu", "Name under which the cluster counts GPUs (`gpus`)."),
    _text("pull_policy", "that of Kubernetes", "`Always`, `IfNotPresent` or `Never`, for all images."),
    _words("pull_secrets", "none", "Secrets with which images are pulled."),
    _text("queue", "none", "LocalQueue of Kueue: gangs wait for its quota."),
    _text(
        "gang", "`native` if the cluster has PodGroups", "`native`, or `none`: pods are started one by one; see docs."
    ),
    _text("priority_class", "that of the cluster", "Priority class of all pods."),
    _words(
        "tolerations", "none", "Taints that pods tolerate: `key`, `key=value`, `key=value:NoSchedule`, `*` for all."
    ),
    _table("node_selector", 'Labels of the nodes of all pods: `{ pool = "ml" }`. `node_label` of a role adds one.'),
    _text("topology", "none", "Node label, such as `topology.kubernetes.io/zone`: all tasks run where it is the same."),
    _text(
        "staging",
        "none",
        "Where files go that are too large for the API: `pvc:CLAIM/FOLDER`, `hdfs://NAMENODE/FOLDER`, "
        "`oci://REGISTRY/REPOSITORY`, `s3://BUCKET/PREFIX`.",
    ),
    _text(
        "history",
        "configmaps",
        "Where the history is kept: `configmaps`, of the namespace, `hdfs://NAMENODE/FOLDER`, `s3://BUCKET/FOLDER`.",
    ),
    _text(
        "s3_secret",
        "none",
        "Secret with variables such as `AWS_ACCESS_KEY_ID`, for `staging` (tasks) and `history` (the AM) in S3.",
    ),
    _table("volumes", 'Volumes of tasks by mount path: `{ "/data" = "pvc:NAME" }`; see docs.'),
    _size("shm", "half of the memory", "Size of `/dev/shm` of tasks.", MIB),
    _table("template", "Fields of Kubernetes that are merged into all pods; see docs."),
    _table("am_template", "The same for the application master's pod alone, on top of `template`."),
    _words("file_systems", "none", "HDFS file systems that the job gets tokens for, such as `hdfs://namenode:8020`."),
    _text(
        "token_renewer",
        "none",
        "Secret with `keytab` and `krb5.conf`: with it the AM renews these tokens.",
    ),
    SchedulerSetting("run_as_user", SettingType.INT, "1000", "User id of all processes in pods.", minimum=1),
    _size("am_memory", "512m", "Memory of the application master's pod.", 64 * MIB),
    SchedulerSetting(
        "pod_logs", SettingType.TRUTH, "true", "Copy programs' output to the logs of their pods, for `kubectl logs`."
    ),
    SchedulerSetting(
        "ttl", SettingType.DURATION, "1d", "How long an ended job, its history and pods stay in the cluster."
    ),
)

ROLE_SETTINGS: Sequence[SchedulerSetting] = (
    _words("tolerations", "the job's", "Taints that the role's pods tolerate."),
    _table("node_selector", "More labels of the nodes of the role's pods."),
    _text("topology", "the job's", "Node label: the role's tasks run where it is the same."),
    _table("volumes", "More volumes of the role's pods, by mount path."),
    _size("shm", "the job's", "Size of `/dev/shm` of the role's tasks.", MIB),
    _text("service_account", "task_service_account", "Service account of the role's tasks."),
    _table("template", "Fields of Kubernetes that are merged into the role's pods, on top of the job's `template`."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """Parsed settings; empty texts are not set.

    Attributes:
        shm, am_memory: bytes.
        ttl: seconds.
    """

    image: str = ""
    kubeconfig: Path | None = None
    context: str = ""
    namespace: str = ""
    service_account: str = "tony"
    gpu_resource: str = "nvidia.com/gpu"
    pull_policy: str = ""
    pull_secrets: tuple[str, ...] = ()
    queue: str = ""
    gang: str = ""
    priority_class: str = ""
    task_service_account: str = ""
    tolerations: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    topology: str = ""
    staging: str = ""
    history: str = ""
    s3_secret: str = ""
    volumes: Mapping[str, str] = field(default_factory=dict)
    shm: int = 0
    template: Mapping[str, Any] = field(default_factory=dict)
    am_template: Mapping[str, Any] = field(default_factory=dict)
    file_systems: tuple[str, ...] = ()
    token_renewer: str = ""
    run_as_user: int = 1000
    am_memory: int = 512 * MIB
    pod_logs: bool = True
    ttl: float = _DAY_SECONDS

    @property
    def staging_location(self) -> StagingLocation | None:
        """Return the location of large objects; None if there is none. The setting was checked."""
        return parse_staging(self.staging)

    @property
    def history_address(self) -> str:
        """Return the folder with the history; empty if it is in the namespace. The setting was checked."""
        return parse_history(self.history)

    def find_file_system_key(self) -> str:
        """Return the setting by which a job uses HDFS, for messages."""
        location = self.staging_location
        name = "file_systems"
        if not self.file_systems:
            is_of_history = bool(list_history_file_systems(self.history_address))
            name = "staging" if location and location.file_systems else "history" if is_of_history else name
        return f"scheduler.kubernetes.{name}"

    def list_file_systems(self, staged: StagedJob) -> tuple[str, ...]:
        """Return the file systems that a job uses: those of its settings, and of files that its pods fetch."""
        location = self.staging_location
        own = [*(location.file_systems if location else ()), *list_history_file_systems(self.history_address)]
        return tuple(dict.fromkeys([*self.file_systems, *own, *staged.file_systems]))


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesRoleSettings:
    """Parsed settings of a role; what is empty is not set."""

    tolerations: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    topology: str = ""
    volumes: Mapping[str, str] = field(default_factory=dict)
    shm: int = 0
    service_account: str = ""
    template: Mapping[str, Any] = field(default_factory=dict)


def read_role_settings(role: Role) -> KubernetesRoleSettings:
    """Parse the settings of a role; invalid values are left out: the job file was checked."""
    read, _ = read_values("kubernetes", ROLE_SETTINGS, role.scheduler_settings.get("kubernetes", {}))
    return KubernetesRoleSettings(**read)  # type: ignore[arg-type]


def read_settings(values: Mapping[str, object]) -> tuple[KubernetesSettings, list[Problem]]:
    """Parse `JobSpec.scheduler_settings`; invalid values are reported as problems and left out."""
    read, problems = read_values("kubernetes", SETTINGS, values)
    given: dict[str, object] = dict(read)
    if "kubeconfig" in given:
        given["kubeconfig"] = Path(str(given["kubeconfig"]))
    return KubernetesSettings(**given), problems  # type: ignore[arg-type]
