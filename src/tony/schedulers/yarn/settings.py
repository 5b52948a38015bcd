"""The settings of the YARN scheduler: `[scheduler.yarn]` in a job file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from tony.dataclass import dataclass
from tony.errors import Problem
from tony.schedulers.settings_schema import SchedulerSetting, SettingType, read_values

MIB = 1024**2
#: `python` of this value ships the submitter's own interpreter.
OWN_PYTHON = "own"
#: `python` of this value takes the one in the job's own environment.
ENVIRONMENT = "environment"


def _text(name: str, default: str, meaning: str) -> SchedulerSetting:
    return SchedulerSetting(name=name, type=SettingType.TEXT, default=default, meaning=meaning)


SETTINGS: Sequence[SchedulerSetting] = (
    SchedulerSetting(
        name="conf",
        type=SettingType.PATH,
        default="HADOOP_CONF_DIR, or the cluster of `tony mini`",
        meaning="Folder with the cluster's core-site.xml, hdfs-site.xml and yarn-site.xml.",
    ),
    _text("queue", "default", "Queue that the job is submitted to."),
    SchedulerSetting(
        name="priority",
        type=SettingType.INT,
        default="the queue's",
        meaning="Priority among the applications of a queue; higher is sooner.",
    ),
    _text("tags", "none", "Tags of the application, divided by commas."),
    _text("application_type", "TONY", "Type that YARN shows for the application; YARN cuts it at 20 characters."),
    _text("node_label", "the queue's", "Node label of every container that its role says nothing about."),
    _text(
        "placement",
        "none",
        "Where all of the job's tasks may be, in YARN's language for placement constraints: `nm.yarn.io/java=17`.",
    ),
    _text("staging", ".tony", "Folder in HDFS for what is staged; a relative one lies in the user's HDFS home."),
    _text(
        "file_systems",
        "none",
        "Further HDFS that programs use: `hdfs://logs,hdfs://nn2:8020`; the job gets their tokens.",
    ),
    _text(
        "python",
        "python3, 3.11 or later, found on the node",
        "Interpreter of our own programs on the nodes: a path or name there, `own` to ship the submitter's, or "
        "`environment` for that of the job's environment archive.",
    ),
    SchedulerSetting(
        name="am_memory",
        type=SettingType.SIZE,
        default="512m",
        meaning="Memory of the application master's container.",
        minimum=64 * MIB,
    ),
    SchedulerSetting(
        name="am_vcores",
        type=SettingType.INT,
        default="1",
        meaning="CPU shares of the application master's container.",
        minimum=1,
    ),
    _text("am_node_label", "that of the job", "Node label of the application master's container."),
    SchedulerSetting(
        name="lifetime",
        type=SettingType.DURATION,
        default="none",
        meaning="Time after which YARN itself ends the application, even if nothing of ours works any more.",
        minimum=1,
    ),
    _text("log_include", "everything", "Pattern of log files that YARN aggregates when the job has ended."),
    _text("log_exclude", "nothing", "Pattern of log files that YARN does not aggregate."),
    _text("rolled_log_include", "nothing", "Pattern of log files that YARN aggregates while the job runs."),
    _text(
        "rolled_log_exclude", "nothing, if something is included", "Pattern of log files that it does not, of these."
    ),
    _text("view_acl", "`viewers` and `modifiers`", "Users and groups who may see the application: `ann,bob admins`."),
    _text("modify_acl", "`modifiers`", "Users and groups who may end the application."),
    _text(
        "portal",
        "none",
        "Address of the portal that shows the job when it has ended: YARN's link to the job leads there from then on.",
    ),
    _text("docker_image", "none", "Image that every container runs in, where the cluster allows Docker."),
    _text("am_docker_image", "docker_image", "Image of the application master's container, where it is another one."),
    _text("docker_mounts", "none", "Mounts of Docker containers, as YARN wants them: `/data:/data:ro,/tmp:/tmp:rw`."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnSettings:
    """The table's values, read.

    Attributes:
        conf: folder of the configuration, or None to look for it.
        staging: in HDFS; relative to the user's home there.
        file_systems: URIs, beside the default one.
        python: for our own programs; None to look for one.
        am_memory: bytes.
        lifetime: seconds, None for none.
        portal: address, without what comes after it of a job.
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
    """Whether that is an address of pages, to which something can be added."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and not (parts.query or parts.fragment)
    except ValueError:
        return False


def read_settings(values: Mapping[str, object]) -> tuple[YarnSettings, list[Problem]]:
    """Reads `JobSpec.scheduler_settings`. What is wrong is told, and left out."""
    read, problems = read_values("yarn", SETTINGS, values)
    given: dict[str, object] = dict(read)
    for name in ("tags", "file_systems"):
        if name in given:
            given[name] = tuple(each for each in (part.strip() for part in str(given[name]).split(",")) if each)
    portal = str(given.get("portal", ""))
    if portal and not is_address(portal):
        message = "has to be the address of a portal, such as `https://portal.example.org/tony`"
        problems.append(Problem(key="scheduler.yarn.portal", value=portal, message=message))
        del given["portal"]
    return YarnSettings(**given), problems  # type: ignore[arg-type]
