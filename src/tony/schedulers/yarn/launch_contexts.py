"""The launch contexts of containers: program, files, variables. Pure, for golden tests and `--dry-run`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tony.hadoop.tokens import TokenCredentials, to_bytes
from tony.hadoop.wire.yarn_records import (
    AccessType,
    ApplicationAcl,
    ContainerLaunchContext,
    LocalResource,
    LocalResourceType,
    LocalResourceVisibility,
    NamedLocalResource,
    StringPair,
    Url,
)
from tony.model.job_spec import JobSpec
from tony.model.placeholders import VARIABLE
from tony.model.staged_files import Placement, StagedRole
from tony.model.submission_record import JobRecord
from tony.schedulers.shipping import OWN_PYTHON
from tony.schedulers.yarn.launch_payload import EXECUTOR, INTERPRETER, MASTER, RUNTIME, Uploaded
from tony.schedulers.yarn.settings import ENVIRONMENT, PYTHON, YarnSettings, read_role_settings

_DOCKER_IMAGE = "scheduler.yarn.docker_image"
#: Characters that a shell interprets inside double quotes, unless they begin a variable.
_SPECIAL = re.compile(rf'(?P<variable>{VARIABLE.pattern})|[\\"`$]', re.ASCII)
#: Read by YARN itself, as they are sent; no shell interprets them.
_READ_BY_YARN = "YARN_CONTAINER_RUNTIME_"


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


def escape_for_shell(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables escaped for YARN, which writes the values unchanged into a script between double quotes."""
    return {
        name: value if name.startswith(_READ_BY_YARN) else _SPECIAL.sub(_quote_match, value)
        for name, value in variables.items()
    }


def _quote_match(found: re.Match[str]) -> str:
    return found[0] if found["variable"] else f"\\{found[0]}"
