"""The settings of the YARN scheduler, `[scheduler.yarn]`: of a job file, and of a recorded job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from tony.errors import Problem
from tony.model.job_spec import Role
from tony.model.state_directory import JobFolder
from tony.schedulers.settings_schema import SchedulerSetting, SettingType, load_recorded_values, read_values

MIB = 1024**2
#: The setting that names the nodes' Python.
PYTHON = "scheduler.yarn.python"
#: Value of `python` that uses the interpreter in the job's environment archive.
ENVIRONMENT = "environment"


def _text(name: str, default: str, meaning: str) -> SchedulerSetting:
    return SchedulerSetting(name, SettingType.TEXT, default, meaning)


SETTINGS: Sequence[SchedulerSetting] = (
    SchedulerSetting(
        "conf",
        SettingType.PATH,
        "HADOOP_CONF_DIR, or the cluster of `tony mini`",
        "Folder with the cluster's core-site.xml, hdfs-site.xml and yarn-site.xml.",
    ),
    _text("queue", "default", "Queue to submit the job to."),
    SchedulerSetting(
        "priority", SettingType.INT, "the queue's", "Priority among the applications of a queue; higher is sooner."
    ),
    _text("tags", "none", "Tags of the application, separated by commas."),
    _text("application_type", "TONY", "Application type shown by YARN, which cuts it at 20 characters."),
    _text("node_label", "the queue's", "Node label of containers whose role sets none."),
    _text(
        "placement",
        "none",
        "Placement constraint of all of the job's tasks, in YARN's syntax: `nm.yarn.io/java=17`.",
    ),
    _text("staging", ".tony", "Folder in HDFS for staged files and job directories; relative to the user's HDFS home."),
    _text(
        "file_systems",
        "none",
        "Further HDFS file systems that user programs access: `hdfs://logs,hdfs://nn2:8020`; the job gets tokens for "
        "them.",
    ),
    _text(
        "python",
        "python3, 3.11 or later, found on the node",
        "Python for the AM and executors on the nodes: a path or name there, `own` to ship the submitter's, or "
        "`environment` for that of the job's environment archive.",
    ),
    SchedulerSetting(
        "am_memory", SettingType.SIZE, "512m", "Memory of the application master's container.", minimum=64 * MIB
    ),
    SchedulerSetting("am_vcores", SettingType.INT, "1", "CPU shares of the application master's container.", minimum=1),
    _text("am_node_label", "the job's", "Node label of the application master's container."),
    SchedulerSetting(
        "lifetime",
        SettingType.DURATION,
        "none",
        "Time after which YARN itself kills the application, even if its AM does not respond.",
        minimum=1,
    ),
    _text("log_include", "everything", "Pattern of log files that YARN aggregates after the job has ended."),
    _text("log_exclude", "nothing", "Pattern of log files that YARN does not aggregate."),
    _text("rolled_log_include", "nothing", "Pattern of log files that YARN aggregates while the job runs."),
    _text(
        "rolled_log_exclude",
        "nothing, if rolled_log_include is set",
        "Pattern of log files that YARN does not aggregate while the job runs.",
    ),
    _text("view_acl", "`viewers` and `editors`", "Users and groups that may view the application: `ann,bob admins`."),
    _text("modify_acl", "`editors`", "Users and groups that may kill the application."),
    _text(
        "portal",
        "none",
        "URL of the portal that shows the finished job; YARN's link to the job (tracking URL) then points to it.",
    ),
    _text("docker_image", "none", "Docker image of every container, where the cluster allows Docker."),
    _text("am_docker_image", "docker_image", "Docker image of the application master's container, if different."),
    _text("docker_mounts", "none", "Mounts of Docker containers, in YARN's syntax: `/data:/data:ro,/tmp:/tmp:rw`."),
)

ROLE_SETTINGS: Sequence[SchedulerSetting] = (
    _text("placement", "none", "Placement constraint of the role's tasks, in YARN's syntax: `notin,node,ps`."),
    SchedulerSetting(
        "placement_tags",
        SettingType.WORDS,
        "the role's name",
        "Allocation tags of the role's tasks, for placement constraints.",
    ),
    _text(
        "mounts",
        "docker_mounts",
        "Mounts of the role's Docker containers, in YARN's syntax: `/data:/data:ro,/tmp:/tmp:rw`.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnRoleSettings:
    """Parsed settings of a role.

    Attributes:
        placement: placement constraint.
        placement_tags: allocation tags that such constraints refer to; empty for the role's name.
        mounts: mounts of the image.
    """

    placement: str | None = None
    placement_tags: tuple[str, ...] = ()
    mounts: str | None = None


def read_role_settings(role: Role) -> YarnRoleSettings:
    """Parse the settings of a role; invalid values are left out: the job file was checked."""
    read, _ = read_values("yarn", ROLE_SETTINGS, role.scheduler_settings.get("yarn", {}))
    return YarnRoleSettings(**read)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnSettings:
    """Parsed settings of the YARN scheduler.

    Attributes:
        conf: configuration folder, or None to search for it.
        staging: in HDFS; relative to the user's home there.
        file_systems: URIs, besides the default file system.
        python: for AM and executors; None to search for one.
        am_memory: bytes.
        lifetime: seconds, None for none.
        portal: URL, without the job's path.
    """

    conf: str | None = None
    queue: str = "default"
    priority: int | None = None
    tags: tuple[str, ...] = ()
    application_type: str = "TONY"
    node_label: str | None = None
    placement: str | None = None
    staging: str = ".tony"
    file_systems: tuple[str, ...] = ()
    python: str | None = None
    am_memory: int = 512 * MIB
    am_vcores: int = 1
    am_node_label: str | None = None
    lifetime: float | None = None
    log_include: str | None = None
    log_exclude: str | None = None
    rolled_log_include: str | None = None
    rolled_log_exclude: str | None = None
    view_acl: str | None = None
    modify_acl: str | None = None
    portal: str | None = None
    docker_image: str | None = None
    am_docker_image: str | None = None
    docker_mounts: str | None = None


def is_address(text: str) -> bool:
    """Return True if that is an http(s) URL to which a path can be appended."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and not (parts.query or parts.fragment)
    except ValueError:
        return False


def read_settings(values: Mapping[str, object]) -> tuple[YarnSettings, list[Problem]]:
    """Parse `JobSpec.scheduler_settings`; invalid values are reported as problems and left out."""
    read, problems = read_values("yarn", SETTINGS, values)
    given: dict[str, object] = dict(read)
    for name in ("tags", "file_systems"):
        if name in given:
            given[name] = tuple(each for each in (part.strip() for part in str(given[name]).split(",")) if each)
    portal = str(given.get("portal", ""))
    if portal and not is_address(portal):
        message = "must be the URL of a portal, such as `https://portal.example.org/tony`"
        problems.append(Problem(key="scheduler.yarn.portal", value=portal, message=message))
        del given["portal"]
    return YarnSettings(**given), problems  # type: ignore[arg-type]


def load_recorded_settings(folder: JobFolder) -> YarnSettings:
    """Return the settings of a recorded job; the defaults if it is not recorded here."""
    return read_settings(load_recorded_values(folder))[0]


def find_recorded_source(folder: JobFolder, key: str) -> str | None:
    """Return where a recorded job sets a setting; None if unknown."""
    try:
        source = json.loads(folder.job.read_bytes())["sources"].get(key)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return source if isinstance(source, str) else None
