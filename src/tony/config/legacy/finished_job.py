"""A finished LinkedIn TonY job, for display, from its settings file `tony-final.xml`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tony.errors import RecordError
from tony.hadoop.configuration import ConfigurationError, properties_of
from tony.model.ids import ROLE_NAME
from tony.model.job_spec import GIB, MIB, JobSpec, Resources, Role
from tony.model.masking import mask_secret
from tony.model.setting_choices import DistributedMode, RoleKind
from tony.units import parse_size

_INSTANCES = re.compile(r"tony\.([^.]+)\.instances", re.ASCII)
#: Most tasks of all types together.
_MAX_TASKS = 100_000
#: Default memory of a type in LinkedIn TonY.
_DEFAULT_MEMORY = 2 * GIB
_UNTRACKED = "ps"
_SIDECAR = "tensorboard"


def read_final(content: bytes, name: str) -> dict[str, tuple[str, str]]:
    """Return key -> value and place for each `tony.` setting in the file.

    The file is untrusted: entities and includes are refused.

    Raises:
        RecordError: it is not such a file.
    """
    try:
        found = properties_of(content, name)
    except ConfigurationError as error:
        raise RecordError(str(error)) from error
    return {
        each.name: (each.value.strip(), f"{name}:{each.line}")
        for each in found
        if each.value is not None and each.name.startswith("tony.")
    }


def job_of(settings: Mapping[str, tuple[str, str]]) -> tuple[JobSpec, dict[str, str]]:
    """Return the job that they describe, for display only, and where each value was set.

    Its parameters are the settings of the file, with secrets masked. Invalid numbers are left out.
    """

    def text(key: str, default: str = "") -> str:
        return settings.get(key, (default, ""))[0]

    roles = _roles(settings)
    scheduler = {
        name: text(key)
        for name, key in (("queue", "tony.yarn.queue"), ("tags", "tony.application.tags"))
        if key in settings
    }
    spec = JobSpec(
        name=text("tony.application.name", "TensorFlowApplication"),
        framework=text("tony.application.framework", "tensorflow").lower(),
        command=text("tony.containers.command") or None,
        roles=roles,
        distributed_mode=DistributedMode.FCFS,
        scheduler="yarn",
        scheduler_settings=scheduler,
        params={key: mask_secret(key, value) for key, (value, _) in settings.items()},
    )
    return spec, {f"params.{key}": place for key, (_, place) in settings.items()}


def _roles(settings: Mapping[str, tuple[str, str]]) -> dict[str, Role]:
    untracked = settings.get("tony.application.untracked.jobtypes", (_UNTRACKED, ""))[0].split(",")
    sidecars = settings.get("tony.application.sidecar.jobtypes", (_SIDECAR, ""))[0].split(",")
    roles = {}
    left = _MAX_TASKS
    for key, (value, _) in settings.items():
        found = _INSTANCES.fullmatch(key)
        instances = _number(value, 0)
        if not found or not ROLE_NAME.fullmatch(found[1]) or not 0 < instances <= left:
            continue
        left -= instances
        name = found[1]
        kind = RoleKind.UNTRACKED if name in untracked else RoleKind.SIDECAR if name in sidecars else RoleKind.TRACKED
        roles[name] = Role(
            instances=instances,
            kind=kind,
            resources=Resources(
                memory=_size(settings.get(f"tony.{name}.memory", ("", ""))[0]),
                vcores=max(1, _number(settings.get(f"tony.{name}.vcores", ("", ""))[0], 1)),
                gpus=_number(settings.get(f"tony.{name}.gpus", ("", ""))[0], 0),
            ),
        )
    return roles


def _number(text: str, default: int) -> int:
    return int(text) if re.fullmatch(r"\d{1,6}", text, re.ASCII) else default


def _size(text: str) -> int:
    if re.fullmatch(r"\d{1,9}", text, re.ASCII):
        return int(text) * MIB
    try:
        return parse_size(text)
    except ValueError:
        return _DEFAULT_MEMORY
