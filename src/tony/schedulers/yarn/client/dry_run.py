"""Render the request to YARN for `--dry-run`. Pure; secrets and values that only the cluster knows are left out."""

from __future__ import annotations

from enum import Enum

from tony.hadoop.tokens import TokenCredentials
from tony.hadoop.wire.proto import ProtoMessage
from tony.hadoop.wire.yarn_records import ApplicationId, ContainerLaunchContext
from tony.model.codec import Json
from tony.model.submission_record import JobRecord
from tony.schedulers.shipping import OWN_PYTHON
from tony.schedulers.yarn.client.submission_context import build_submission
from tony.schedulers.yarn.launch_contexts import build_master_container, build_task_container
from tony.schedulers.yarn.launch_payload import INTERPRETER, PLUG_IN, RUNTIME, Uploaded
from tony.schedulers.yarn.placement_constraints import build_constraint, find_placed, list_tags
from tony.schedulers.yarn.resources import build_capability
from tony.schedulers.yarn.settings import read_settings

#: Placeholders for values that staging and the cluster add.
_RUNTIME = Uploaded(url=f"hdfs://staging/cache/{RUNTIME}.zip", size=0, timestamp=0, public=True)
_PYTHON = Uploaded(url=f"hdfs://staging/cache/{INTERPRETER}.tar.gz", size=0, timestamp=0)
_PLUG_IN = Uploaded(url=f"hdfs://staging/cache/{PLUG_IN}.zip", size=0, timestamp=0)


def render_dry_run(record: JobRecord) -> Json:
    """Return the submission context, and the resource request and launch context of each role's containers."""
    settings, _ = read_settings(record.spec.scheduler_settings)
    archives = {RUNTIME: _RUNTIME}
    if settings.python == OWN_PYTHON:
        archives[INTERPRETER] = _PYTHON
    if record.framework_path:
        archives[PLUG_IN] = _PLUG_IN
    roles = record.spec.effective_roles
    objects = {
        item.digest: Uploaded(url=f"hdfs://staging/cache/{item.digest}", size=item.size, timestamp=0)
        for staged in record.staged.roles.values()
        for item in staged.items
    }
    with_tags = find_placed(record.spec, settings)
    constraints = {name: build_constraint(record.spec, name, settings) for name in roles}
    master = build_master_container(record, settings, archives, objects, TokenCredentials())
    return {
        "scheduler": "yarn",
        "application": _to_plain(build_submission(record, settings, ApplicationId(), master)),
        "containers": {
            name: {
                "instances": role.instances,
                "ask": _to_plain(build_capability(role.resources)),
                "node_label": role.node_label or settings.node_label,
                "spread": role.spread,
                "placement_tags": list(list_tags(name, role)) if name in with_tags else [],
                "placement_constraint": _to_plain(constraint) if (constraint := constraints[name]) else None,
                "launch": _to_plain(
                    build_task_container(record, name, settings, archives, objects, TokenCredentials())
                ),
                "program_environment": sorted(record.spec.env_of(name)),
            }
            for name, role in roles.items()
        },
    }


def _to_plain(value: object) -> Json:
    if isinstance(value, ProtoMessage):
        shown = dict(vars(value))  # what is present
        if isinstance(value, ContainerLaunchContext):
            shown["tokens"] = "(the job or the task, and its secrets)"
        return {name: _to_plain(each) for name, each in shown.items() if each not in (None, ())}
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, tuple):
        return [_to_plain(each) for each in value]
    return value if isinstance(value, str | int | float | bool) else str(value)
