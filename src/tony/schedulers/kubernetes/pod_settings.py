"""Settings of the pods of a job: those of its section, extended by those of each role. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tony.errors import Problem
from tony.kube.api_client import Object
from tony.model.job_spec import JobSpec
from tony.schedulers.kubernetes.history_setting import is_in_s3, parse_history
from tony.schedulers.kubernetes.pod_template import find_template_errors, merge_template
from tony.schedulers.kubernetes.pod_volumes import VolumeSource, parse_volumes
from tony.schedulers.kubernetes.settings import KubernetesSettings, read_role_settings
from tony.schedulers.kubernetes.staging_setting import parse_staging

_TOLERATION = re.compile(r"(?P<key>[^=:*]+)(?:=(?P<value>[^=:]*))?(?::(?P<effect>[A-Za-z]+))?")
_SECRET_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSettings:
    """Settings of the pods of a role, or of the AM.

    Attributes:
        node_selector: labels of its nodes.
        topology: label that the nodes of `together` have the same value of; empty: of any.
        together: roles, this one included.
        shm: bytes of `/dev/shm`; 0: half of the memory.
        service_account: empty: that of the namespace.
    """

    tolerations: Sequence[Object] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    topology: str = ""
    together: Sequence[str] = ()
    volumes: Mapping[str, VolumeSource] = field(default_factory=dict)
    shm: int = 0
    service_account: str = ""
    template: Mapping[str, Any] = field(default_factory=dict)


def find_am_settings(settings: KubernetesSettings) -> PodSettings:
    """Return the settings of the AM's pod: those of all pods, and its own template."""
    return PodSettings(
        tolerations=[parse_toleration(text) for text in settings.tolerations],
        node_selector=settings.node_selector,
        service_account=settings.service_account,
        template=_join_templates(settings.template, settings.am_template),
    )


def find_task_settings(spec: JobSpec, name: str, settings: KubernetesSettings) -> PodSettings:
    """Return the settings of a role's pods. Tables of the role add to those of the job, other values replace."""
    roles = {each: read_role_settings(role) for each, role in spec.effective_roles.items()}
    role, own = spec.effective_roles[name], roles[name]
    key, _, value = (role.node_label or "").partition("=")
    others = [each for each, found in roles.items() if not found.topology]
    return PodSettings(
        tolerations=[parse_toleration(text) for text in own.tolerations or settings.tolerations],
        node_selector={**settings.node_selector, **own.node_selector, **({key: value} if key else {})},
        topology=own.topology or settings.topology,
        together=[name] if own.topology else others,
        volumes=parse_volumes({**settings.volumes, **own.volumes}),
        shm=own.shm or settings.shm,
        service_account=own.service_account or settings.task_service_account,
        template=_join_templates(settings.template, own.template),
    )


def _join_templates(job: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    joined: Object = {}
    for template in (job, own):
        merge_template(joined, template)
    return joined


def parse_toleration(text: str) -> Object:
    """Parse `key`, `key=value`, `key:NoSchedule`, `key=value:NoSchedule`, or `*` for all taints.

    Raises:
        ValueError: it is none of them.
    """
    if text == "*":
        return {"operator": "Exists"}
    match = _TOLERATION.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}": expected a taint such as "key", "key=value:NoSchedule", or "*" for all.')
    fields = {"operator": "Exists" if match["value"] is None else "Equal", **match.groupdict()}
    return {name: value for name, value in fields.items() if value is not None}


# --- checks -----------------------------------------------------------------------------------------------------------


def find_pod_problems(spec: JobSpec, settings: KubernetesSettings) -> Sequence[Problem]:
    """Return what is wrong with these settings, as far as tony knows; the API server checks the rest."""
    prefix = "scheduler.kubernetes"
    problems = [*_find_placement_problems(prefix, settings.tolerations, settings.node_selector, settings.volumes)]
    problems += _find_problem(f"{prefix}.staging", lambda: parse_staging(settings.staging), settings.staging)
    problems += _find_problem(f"{prefix}.history", lambda: parse_history(settings.history), settings.history)
    for name in settings.pull_secrets:
        if not _SECRET_NAME.fullmatch(name):
            problems.append(Problem(key=f"{prefix}.pull_secrets", value=name, message="expected names of Secrets."))
    if settings.s3_secret and not _SECRET_NAME.fullmatch(settings.s3_secret):
        problems.append(Problem(key=f"{prefix}.s3_secret", message="expected the name of a Secret."))
    elif settings.s3_secret and not any(map(is_in_s3, (settings.staging, settings.history))):
        text = 'is for `staging = "s3://..."` and `history = "s3://..."` alone.'
        problems.append(Problem(key=f"{prefix}.s3_secret", message=text))
    problems += _find_template_problems(f"{prefix}.template", settings.template, is_for_am=True)
    problems += _find_template_problems(f"{prefix}.am_template", settings.am_template, is_for_am=True)
    for name, role in spec.effective_roles.items():
        prefix, own = f"roles.{name}.kubernetes", read_role_settings(role)
        problems += _find_placement_problems(prefix, own.tolerations, own.node_selector, own.volumes)
        problems += _find_template_problems(f"{prefix}.template", own.template, is_for_am=False)
        problems += _find_label_problem(f"roles.{name}.node_label", role.node_label or "")
    return problems


def _find_label_problem(key: str, node_label: str) -> Iterator[Problem]:
    """Yield what is wrong with a label that other schedulers may know: theirs are names without a value."""
    label, separator, _ = node_label.partition("=")
    if node_label and not (label and separator):
        empty = f'; "{label}=" is a label with an empty value' if label else ""
        yield Problem(key=key, value=node_label, message=f'expected "key=value" on Kubernetes{empty}.')


def _find_placement_problems(
    prefix: str, tolerations: Sequence[str], node_selector: Mapping[str, object], volumes: Mapping[str, object]
) -> Iterator[Problem]:
    yield from _find_problem(f"{prefix}.tolerations", lambda: [parse_toleration(text) for text in tolerations])
    yield from _find_problem(f"{prefix}.volumes", lambda: parse_volumes(volumes))
    for label, value in node_selector.items():
        if not isinstance(value, str):
            message = f'the value of label {label} must be text, in quotes: "{json.dumps(value)}".'
            yield Problem(key=f"{prefix}.node_selector", message=message)


def _find_problem(key: str, parse: Callable[[], object], value: str | None = None) -> Iterator[Problem]:
    try:
        parse()
    except ValueError as error:
        yield Problem(key=key, value=value, message=str(error))


def _find_template_problems(key: str, template: Mapping[str, Any], *, is_for_am: bool) -> Iterator[Problem]:
    for message in find_template_errors(template, is_for_am=is_for_am):
        yield Problem(key=key, message=message)
