"""The settings of the Kubernetes scheduler: `[scheduler.kubernetes]` in a job file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tony.errors import Problem
from tony.model.job_spec import MIB
from tony.schedulers.settings_schema import SchedulerSetting, SettingType, read_values

_DAY_SECONDS = 86_400.0

SETTINGS: Sequence[SchedulerSetting] = (
    SchedulerSetting(
        "image",
        SettingType.TEXT,
        "none",
        "Image of all pods; needs Python 3.11 or later. `image` of a role takes precedence.",
    ),
    SchedulerSetting("kubeconfig", SettingType.PATH, "KUBECONFIG, else ~/.kube/config", "The kubeconfig file."),
    SchedulerSetting("context", SettingType.TEXT, "the current one", "The context in the kubeconfig file."),
    SchedulerSetting("namespace", SettingType.TEXT, "that of the context", "The namespace of the job's objects."),
    SchedulerSetting(
        "service_account", SettingType.TEXT, "tony", "Service account of the application master; see the Role in docs."
    ),
    SchedulerSetting(
        "gpu_resource", SettingType.TEXT, "nvidia.com/gpu", "Name under which the cluster counts GPUs (`gpus`)."
    ),
    SchedulerSetting(
        "pull_policy", SettingType.TEXT, "that of Kubernetes", "`Always`, `IfNotPresent` or `Never`, for all images."
    ),
    SchedulerSetting("pull_secrets", SettingType.WORDS, "none", "Secrets with which images are pulled."),
    SchedulerSetting("priority_class", SettingType.TEXT, "that of the cluster", "Priority class of all pods."),
    SchedulerSetting("run_as_user", SettingType.INT, "1000", "User id of all processes in pods.", minimum=1),
    SchedulerSetting(
        "am_memory", SettingType.SIZE, "512m", "Memory of the application master's pod.", minimum=64 * MIB
    ),
    SchedulerSetting(
        "ttl", SettingType.DURATION, "1d", "How long an ended job, its history and pods stay in the cluster."
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """Parsed settings; empty texts are not set.

    Attributes:
        am_memory: bytes.
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
    priority_class: str = ""
    run_as_user: int = 1000
    am_memory: int = 512 * MIB
    ttl: float = _DAY_SECONDS


def read_settings(values: Mapping[str, object]) -> tuple[KubernetesSettings, list[Problem]]:
    """Parse `JobSpec.scheduler_settings`; invalid values are reported as problems and left out."""
    read, problems = read_values("kubernetes", SETTINGS, values)
    given: dict[str, object] = dict(read)
    if "kubeconfig" in given:
        given["kubeconfig"] = Path(str(given["kubeconfig"]))
    return KubernetesSettings(**given), problems  # type: ignore[arg-type]
