"""The requests to YARN: the application, and what each container runs. Pure, for golden tests and `--dry-run`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tony.hadoop.tokens import TokenCredentials, to_bytes
from tony.hadoop.wire.application_client import ApplicationSubmissionContext, TimeoutSeconds, TimeoutType
from tony.hadoop.wire.yarn_records import (
    AccessType,
    ApplicationAcl,
    ApplicationId,
    ContainerLaunchContext,
    LocalResource,
    LocalResourceType,
    LocalResourceVisibility,
    LogAggregationContext,
    NamedLocalResource,
    Priority,
    Resource,
    ResourceRequest,
    ResourceValue,
    StringPair,
    Url,
)
from tony.model.job_spec import JobSpec, Resources
from tony.model.placeholders import VARIABLE
from tony.model.staged_files import Placement, StagedRole
from tony.model.submission_record import JobRecord
from tony.schedulers.client_interface import ATTEMPTS_WITHIN
from tony.schedulers.shipping import OWN_PYTHON
from tony.schedulers.yarn.client.application_tags import build_tags
from tony.schedulers.yarn.launch_payload import EXECUTOR, INTERPRETER, MASTER, RUNTIME, Uploaded
from tony.schedulers.yarn.settings import ENVIRONMENT, PYTHON, YarnSettings, read_role_settings

MIB = 1024**2
#: YARN's name for GPUs.
GPU = "yarn.io/gpu"
_TYPE_LENGTH = 20
_DOCKER_IMAGE = "scheduler.yarn.docker_image"
#: Characters that a shell interprets inside double quotes, unless they begin a variable.
_SPECIAL = re.compile(rf'(?P<variable>{VARIABLE.pattern})|[\\"`$]', re.ASCII)
#: Read by YARN itself, as they are sent; no shell interprets them.
_READ_BY_YARN = "YARN_CONTAINER_RUNTIME_"


def build_capability(resources: Resources) -> Resource:
    """Return a task's resources as YARN's; memory is rounded up to whole MiB."""
    others = dict(resources.others)
    if resources.gpus:
        others.setdefault(GPU, resources.gpus)
    return Resource(
        memory=-(-resources.memory // MIB),
        vcores=resources.vcores,
        others=tuple(ResourceValue(name=name, value=value, units="") for name, value in sorted(others.items())),
    )


def count_gpus(resources: Resources) -> int:
    """Return the number of GPUs of a task, whichever setting requests them."""
    return dict(resources.others).get(GPU, resources.gpus)


def build_master_capability(settings: YarnSettings) -> Resource:
    """Return the application master's resources."""
    return Resource(memory=-(-settings.am_memory // MIB), vcores=settings.am_vcores)


def build_submission(
    record: JobRecord,
    settings: YarnSettings,
    application: ApplicationId,
    container: ContainerLaunchContext,
    *,
    cancel_tokens: bool = True,
) -> ApplicationSubmissionContext:
    """Build the submission context of the application.

    Args:
        cancel_tokens: YARN shall cancel its delegation tokens when it has ended.
    """
    label = settings.am_node_label or settings.node_label
    seconds = settings.lifetime
    more: dict[str, Any] = {} if cancel_tokens else {"cancel_tokens_when_complete": False}
    return ApplicationSubmissionContext(
        application_id=application,
        name=record.spec.name,
        queue=settings.queue,
        priority=None if settings.priority is None else Priority(priority=settings.priority),
        am_container=container,
        max_attempts=record.spec.am_attempts,
        keep_containers=True,
        application_type=settings.application_type[:_TYPE_LENGTH],
        tags=build_tags(settings),
        resource=build_master_capability(settings),
        am_requests=(
            ResourceRequest(
                priority=Priority(priority=0),
                resource_name="*",
                capability=build_master_capability(settings),
                num_containers=1,
                node_label_expression=label,
            ),
        ),
        node_label_expression=settings.node_label,
        attempt_failures_validity_interval=int(ATTEMPTS_WITHIN * 1000),
        log_aggregation=_build_log_context(settings),
        timeouts=(TimeoutSeconds(type=TimeoutType.LIFETIME, timeout=int(seconds)),) if seconds else (),
        **more,
    )


def build_master_container(
    record: JobRecord,
    settings: YarnSettings,
    archives: Mapping[str, Uploaded],
    objects: Mapping[str, Uploaded],
    tokens: TokenCredentials,
) -> ContainerLaunchContext:
    """Build the launch context of the application master's container.

    Args:
        archives: `JobPayload.archives`, and its pages.
        objects: `JobPayload.objects`; the environment of a role may have the Python to use.
    """
    python = next(filter(None, (_environment_of(settings, role) for role in record.staged.roles.values())), None)
    key = "scheduler.yarn.am_docker_image" if settings.am_docker_image else _DOCKER_IMAGE
    image = settings.am_docker_image or settings.docker_image
    docker = _build_docker_variables(image, settings.docker_mounts, key, record.sources)
    staged = (python,) if python else ()
    return _build_container(
        MASTER, record, settings, archives, {each: objects[each] for each in staged}, tokens, docker, python
    )


def build_task_container(
    record: JobRecord,
    role: str,
    settings: YarnSettings,
    archives: Mapping[str, Uploaded],
    objects: Mapping[str, Uploaded],
    tokens: TokenCredentials,
) -> ContainerLaunchContext:
    """Build the launch context of a task's container: its executor, with the staged objects as files.

    Args:
        archives: `JobPayload.archives`.
        objects: `JobPayload.objects`.
    """
    staged = record.staged.roles.get(role, StagedRole())
    own = record.spec.effective_roles[role]
    key = f"roles.{role}.image" if own.image else _DOCKER_IMAGE
    mounts = read_role_settings(own).mounts or settings.docker_mounts
    docker = _build_docker_variables(own.image or settings.docker_image, mounts, key, record.sources)
    files = {item.digest: objects[item.digest] for item in staged.items}
    return _build_container(
        EXECUTOR, record, settings, archives, files, tokens, docker, _environment_of(settings, staged)
    )


def _build_container(
    module: str,
    record: JobRecord,
    settings: YarnSettings,
    archives: Mapping[str, Uploaded],
    files: Mapping[str, Uploaded],
    tokens: TokenCredentials,
    docker: Mapping[str, str],
    python: str | None,
) -> ContainerLaunchContext:
    return ContainerLaunchContext(
        local_resources=(
            *(_build_resource(name, archive, LocalResourceType.ARCHIVE) for name, archive in archives.items()),
            *(_build_resource(digest, file, LocalResourceType.FILE) for digest, file in files.items()),
        ),
        tokens=to_bytes(tokens),
        environment=_build_environment(record, settings, docker, python),
        commands=(_build_command(module),),
        acls=_build_acls(record.spec, settings),
    )


def _build_resource(key: str, uploaded: Uploaded, kind: LocalResourceType) -> NamedLocalResource:
    scheme, _, rest = uploaded.url.partition("://")  # `?` and `#` may be part of the path
    place, slash, path = rest.partition("/")
    host, _, port = place.rpartition("@")[2].partition(":")  # case is kept: names of name services are not hosts
    return NamedLocalResource(
        key=key,
        value=LocalResource(
            resource=Url(scheme=scheme, host=host, port=int(port or -1), file=slash + path or "/"),
            size=uploaded.size,
            timestamp=uploaded.timestamp,
            type=kind,
            visibility=LocalResourceVisibility.PUBLIC if uploaded.public else LocalResourceVisibility.PRIVATE,
        ),
    )


def _environment_of(settings: YarnSettings, staged: StagedRole) -> str | None:
    """Return the digest of a role's environment, if its Python is to be used."""
    if settings.python != ENVIRONMENT:
        return None
    return next((item.digest for item in staged.items if item.placement is Placement.PYTHON), None)


def _build_environment(
    record: JobRecord, settings: YarnSettings, docker: Mapping[str, str], python: str | None
) -> tuple[StringPair, ...]:
    """Return the container's variables. Readable with the job's logs: no secrets, no variables of user programs."""
    variables = escape_for_shell(record.spec.container_env)
    variables["TONY_PYTHON_SETTING"] = PYTHON
    if python:
        variables["TONY_ENVIRONMENT"] = python
    if settings.python == OWN_PYTHON:
        variables["TONY_PYTHON"] = f"./{INTERPRETER}/bin/python3"
    elif settings.python and settings.python != ENVIRONMENT:
        variables["TONY_PYTHON"] = settings.python
        place = record.sources.get(PYTHON)  # for the error message if there is no such interpreter
        variables |= escape_for_shell({"TONY_PYTHON_PLACE": f", {place}"}) if place else {}
    variables |= docker
    return tuple(StringPair(key=key, value=value) for key, value in variables.items())


def _build_docker_variables(
    image: str | None, mounts: str | None, key: str, sources: Mapping[str, str]
) -> dict[str, str]:
    """Return YARN's variables for a container that runs in an image; without an image it has no mounts either.

    Args:
        key: setting that names the image, for the message of `shipping/launch/start.sh` where Docker is not available.
        sources: `JobRecord.sources`.
    """
    if not image:
        return {}
    variables = {"YARN_CONTAINER_RUNTIME_TYPE": "docker", "YARN_CONTAINER_RUNTIME_DOCKER_IMAGE": image}
    if mounts:
        variables["YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS"] = mounts
    place = f"{key}, {sources[key]}" if key in sources else key
    return variables | escape_for_shell({"TONY_IMAGE_PLACE": place})


def _build_command(module: str) -> str:
    """Return the command. YARN runs it by `bash -c "..."`, and shows the end of `stderr` where a container failed."""
    return f"exec sh {RUNTIME}/start.sh {module} 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr"


def _build_acls(spec: JobSpec, settings: YarnSettings) -> tuple[ApplicationAcl, ...]:
    """Return the ACLs set for YARN; by default, the job's viewers and editors."""
    given = (
        (AccessType.VIEW, settings.view_acl or _format_acl((*spec.viewers, *spec.editors))),
        (AccessType.MODIFY, settings.modify_acl or _format_acl(spec.editors)),
    )
    return tuple(ApplicationAcl(access=access, acl=acl) for access, acl in given if acl)


def _format_acl(names: Iterable[str]) -> str:
    """Format an ACL as YARN does: users, a blank, groups."""
    every = dict.fromkeys(names)
    if "*" in every:
        return "*"
    users = ",".join(name for name in every if not name.startswith("@"))
    groups = ",".join(name[1:] for name in every if name.startswith("@"))
    return f"{users} {groups}" if groups else users


def _build_log_context(settings: YarnSettings) -> LogAggregationContext | None:
    """Return the log aggregation patterns. Without any, YARN skips files that are still being written."""
    in_the_end = (settings.log_include, settings.log_exclude)
    rolled = (settings.rolled_log_include, settings.rolled_log_exclude)
    given: dict[str, Any] = {}
    if any(in_the_end) or any(rolled):
        given.update(include=in_the_end[0] or ".*", exclude=in_the_end[1] or "")
    if any(rolled):
        given.update(rolled_include=rolled[0] or ".*", rolled_exclude=rolled[1] or "")
    return LogAggregationContext(**given) if given else None


def escape_for_shell(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables escaped for YARN, which writes the values unchanged into a script between double quotes."""
    return {
        name: value if name.startswith(_READ_BY_YARN) else _SPECIAL.sub(_quote_match, value)
        for name, value in variables.items()
    }


def _quote_match(found: re.Match[str]) -> str:
    return found[0] if found["variable"] else f"\\{found[0]}"
