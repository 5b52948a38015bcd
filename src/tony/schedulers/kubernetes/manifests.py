"""The Kubernetes objects of a job. Pure, for golden tests and `--dry-run`.

All of them are owned by one Job, whose pod is the AM; the pods of tasks are created by the AM. Pods pass the
`restricted` Pod Security Standard.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tony.kube.api_client import Object
from tony.model.job_spec import MIB, Resources
from tony.model.staged_files import StagedRole
from tony.model.submission_record import JobRecord
from tony.schedulers.job_store.job_objects import build_labels, build_owner
from tony.schedulers.kubernetes.history_setting import HISTORY_ANNOTATION, is_in_s3
from tony.schedulers.kubernetes.job_secrets import (
    AM_SECRET,
    ENVIRONMENT_SECRET,
    EXECUTOR_SECRET,
    HADOOP_SECRET,
    build_secret_name,
)
from tony.schedulers.kubernetes.launch_payload import (
    AM_ADDRESS,
    AM_MODULE,
    CONTAINER_NAME,
    CONTENT_KEY,
    EXECUTOR_MODULE,
    HADOOP,
    KEYTAB,
    NO_POD_LOGS,
    NODE_NAME,
    OBJECTS,
    POD_IP,
    POD_NAME,
    RECEIVER_MODULE,
    SECRET,
    STAGING,
    STAGING_SETTING,
    WORK,
    build_piece_name,
)
from tony.schedulers.kubernetes.pod_command import (
    FAILED_EXIT_CODE,
    LOST_EXIT_CODE,
    REFUSED_EXIT_CODE,
    build_pod_command,
)
from tony.schedulers.kubernetes.pod_settings import PodSettings, find_am_settings, find_task_settings
from tony.schedulers.kubernetes.pod_template import merge_template
from tony.schedulers.kubernetes.pod_volumes import VolumeSource, build_volumes
from tony.schedulers.kubernetes.settings import KubernetesSettings
from tony.schedulers.kubernetes.shared_objects import OBJECTS_ANNOTATION, format_digests
from tony.schedulers.kubernetes.staging_claim import StagingClaim
from tony.schedulers.kubernetes.staging_s3 import StagingS3

ROLE_LABEL = "tony.dev/role"
#: Label of a Job until it is released: its submission may have been interrupted.
SUBMISSION_LABEL, INCOMPLETE = "tony.dev/submission", "incomplete"
AM_PART, TASK_PART, STAGING_PART = "am", "task", "staging"
#: Memory of a container beyond that of its program: the executor stops a program at its limit before the kernel does.
_EXECUTOR_MEMORY = 64 * MIB
#: Starts of an AM, in a pod of its own or again in the same one.
MAX_AM_ATTEMPTS = 20
_GRACE_SECONDS = 10
_HOST_LABEL = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
#: The highest weight of a preference.
_MAX_WEIGHT = 100
#: CPU of an AM, which is mostly idle: a tenth of a core.
_AM_CPU = "100m"
#: An AM leaves a node that does not answer after 10 s, not after the 300 s of other pods: programs run on meanwhile.
_LOST_NODE_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}
    for taint in ("not-ready", "unreachable")
]
#: The change of a Job that starts it.
RELEASE: Mapping[str, Any] = {"metadata": {"labels": {SUBMISSION_LABEL: None}}, "spec": {"suspend": False}}


def build_job(
    record: JobRecord,
    settings: KubernetesSettings,
    runtime: tuple[str, int],
    plug_in: tuple[str, int] | None = None,
) -> Object:
    """Return the Job of the AM, suspended and marked as incomplete; see `RELEASE`.

    Args:
        runtime: digest and number of pieces of tony's archive.
        plug_in: the same of the archive of a user's framework.
    """
    own = find_am_settings(settings)
    archives = dict([runtime, plug_in] if plug_in else [runtime])
    objects = {*archives, *(item.digest for role in record.staged.roles.values() for item in role.items)}
    pod = _build_pod_spec(settings, own, Resources(memory=settings.am_memory), archives)
    _set_stop_grace(pod, max(map(record.spec.stop_grace_of, record.spec.effective_roles)))
    container = pod["containers"][0]
    container["image"] = settings.image
    container["command"] = build_pod_command(runtime, AM_MODULE, plug_in)
    container["resources"]["requests"]["cpu"] = _AM_CPU
    # The kubelet starts an AM again, in the same pod, that neither succeeded nor failed its job.
    container["restartPolicy"] = "Never"
    final = [0, FAILED_EXIT_CODE, LOST_EXIT_CODE, REFUSED_EXIT_CODE]
    container["restartPolicyRules"] = [{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": final}}]
    pod["tolerations"] = [*_LOST_NODE_TOLERATIONS, *own.tolerations]
    pod["automountServiceAccountToken"] = True
    _add_secrets(pod, record, settings, AM_SECRET)
    if is_in_s3(settings.history_address):
        _add_s3_variables(pod, settings)
    if settings.token_renewer:
        _add_secret(pod, "keytab", settings.token_renewer, KEYTAB)
        variables = {"KRB5_CONFIG": f"{KEYTAB}/krb5.conf", "KRB5_CLIENT_KTNAME": f"FILE:{KEYTAB}/keytab"}
        variables["KRB5CCNAME"] = "MEMORY:tony"
        container["env"] += [{"name": name, "value": value} for name, value in variables.items()]
    labels = build_labels(record.job_id, AM_PART)
    notes = {"tony.dev/name": record.spec.name, OBJECTS_ANNOTATION: format_digests(objects)}
    if settings.history_address:
        notes[HISTORY_ANNOTATION] = settings.history_address
    template: Object = {"metadata": {"labels": dict(labels)}, "spec": pod}
    merge_template(template, own.template)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": record.job_id,
            "labels": {**labels, SUBMISSION_LABEL: INCOMPLETE},
            "annotations": notes,
        },
        "spec": {
            "suspend": True,
            "backoffLimit": MAX_AM_ATTEMPTS,
            # A pod on a lost node is deleted, but never ends. A policy for failed pods would wait for that.
            "podReplacementPolicy": "TerminatingOrFailed",
            "ttlSecondsAfterFinished": int(settings.ttl),
            "template": template,
        },
    }


def build_task_pod(
    record: JobRecord,
    role: str,
    name: str,
    settings: KubernetesSettings,
    *,
    runtime: tuple[str, int],
    pieces: Mapping[str, int],
    am_address: str,
    owner: str,
    memory: int,
    excluded: Sequence[str] = (),
    gang: Mapping[str, Any] = MappingProxyType({}),
    images: Mapping[str, str] = MappingProxyType({}),
    plug_in: tuple[str, int] | None = None,
) -> Object:
    """Return the pod of a task of a role.

    Args:
        pieces: digest -> number of pieces of each staged object of the job; 0: it is in the location of `staging`.
        owner: uid of the Job.
        memory: bytes, of the program.
        excluded: nodes that it runs on only if no other node has room.
        gang: fields of its gang; see `gangs`.
        images: digest -> image of each staged object that is in a registry.
        plug_in: digest and number of pieces of the archive of a user's framework.
    """
    own, pods = record.spec.effective_roles[role], find_task_settings(record.spec, role, settings)
    staged = record.staged.roles.get(role, StagedRole())
    stored = [item.digest for item in staged.items if not item.in_place]
    archives = dict([runtime, plug_in] if plug_in else [runtime])
    objects = archives | {digest: pieces[digest] for digest in stored}
    resources = replace(own.resources, memory=memory + _EXECUTOR_MEMORY)
    location = settings.staging_location if 0 in objects.values() else None
    pod = _build_pod_spec(settings, _add_claim(pods, location.claim if location else ""), resources, objects)
    _set_stop_grace(pod, record.spec.stop_grace_of(role))
    container = pod["containers"][0]
    if location:
        container["env"].append({"name": STAGING_SETTING, "value": str(location)})
    for digest in stored:
        if digest in images:
            mount_image(pod, digest, images[digest])
    container["image"] = own.image or settings.image
    container["command"] = build_pod_command(runtime, EXECUTOR_MODULE, plug_in)
    container["env"].append({"name": AM_ADDRESS, "value": am_address})
    if not settings.pod_logs:
        container["env"].append({"name": NO_POD_LOGS, "value": "true"})
    pod["automountServiceAccountToken"] = False
    _add_secrets(pod, record, settings, EXECUTOR_SECRET)
    if isinstance(location, StagingS3):
        _add_s3_variables(pod, settings)
    labels = {**build_labels(record.job_id, TASK_PART), ROLE_LABEL: role}
    if affinity := _build_affinity(pods, labels, excluded, is_spread=own.spread):
        pod["affinity"] = affinity
    body = _build_pod(name, labels, build_owner(record.job_id, owner), pod)
    merge_template(body, pods.template)
    merge_template(body, gang)
    return body


def build_staging_pod(
    record: JobRecord,
    settings: KubernetesSettings,
    runtime: tuple[str, int],
    claim: StagingClaim,
    owner: str,
) -> Object:
    """Return the pod through which a client writes objects to the claim of `staging`. It needs no rights.

    Args:
        owner: uid of the Job.
    """
    own = replace(find_am_settings(settings), service_account="", template=settings.template)
    resources = Resources(memory=settings.am_memory)
    pod = _build_pod_spec(settings, _add_claim(own, claim.claim, is_read_only=False), resources, dict([runtime]))
    container = pod["containers"][0]
    container["image"] = settings.image
    container["command"] = [*build_pod_command(runtime, RECEIVER_MODULE), str(claim.path)]
    container["resources"]["requests"]["cpu"] = _AM_CPU
    pod["automountServiceAccountToken"] = False
    labels = build_labels(record.job_id, STAGING_PART)
    body = _build_pod(f"{record.job_id}-staging", labels, build_owner(record.job_id, owner), pod)
    merge_template(body, own.template)
    return body


def _build_pod(name: str, labels: Mapping[str, str], owner: Object, spec: Object) -> Object:
    metadata = {"name": name, "labels": dict(labels), "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def mount_image(pod: Object, digest: str, image: str) -> None:
    """Mount the image with an object below `STAGING`.

    Args:
        pod: the `spec` of a pod of a task.
    """
    name = f"object-{digest[:40]}"
    pod["volumes"].append({"name": name, "image": {"reference": image, "pullPolicy": "IfNotPresent"}})
    mount = {"name": name, "mountPath": str(STAGING / digest), "readOnly": True}
    pod["containers"][0]["volumeMounts"].append(mount)


def find_am_address(pod: Object) -> str:
    """Return the address at which the executor in a pod of a task asks for the task; empty if it has none."""
    own = [each for each in pod["spec"].get("containers") or () if each.get("name") == CONTAINER_NAME]
    variables = (own[0].get("env") if own else None) or ()
    return next((str(each.get("value", "")) for each in variables if each["name"] == AM_ADDRESS), "")


def build_pod_name_prefix(job: str, role: str) -> str:
    """Return the beginning of the names of a role's pods, which must be DNS labels of 63 characters."""
    return f"{job}-{re.sub('[^a-z0-9]+', '-', role.lower()).strip('-')[:20] or 'task'}"


def _set_stop_grace(pod: Object, stop_grace: float) -> None:
    """Give programs the time that the job says, also where the kubelet stops them."""
    pod["terminationGracePeriodSeconds"] = int(stop_grace) + _GRACE_SECONDS


def _build_pod_spec(
    settings: KubernetesSettings,
    own: PodSettings,
    resources: Resources,
    objects: Mapping[str, int],
) -> Object:
    volumes, mounts = build_volumes(own.volumes)
    container: Object = {
        "name": CONTAINER_NAME,
        "env": [
            {"name": "HOME", "value": str(WORK)},
            _build_field(POD_NAME, "metadata.name"),
            _build_field(POD_IP, "status.podIP"),
            _build_field(NODE_NAME, "spec.nodeName"),
        ],
        "resources": build_resources(settings, resources),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "work", "mountPath": str(WORK)},
            {"name": "objects", "mountPath": str(OBJECTS), "readOnly": True},
            {"name": "shm", "mountPath": "/dev/shm"},
            *mounts,
        ],
    }
    if settings.pull_policy:
        container["imagePullPolicy"] = settings.pull_policy
    pod: Object = {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": settings.run_as_user,
            "runAsGroup": settings.run_as_user,
            "fsGroup": settings.run_as_user,
            "fsGroupChangePolicy": "OnRootMismatch",  # a claim may have millions of files
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "work", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": own.shm or resources.memory // 2}},
            {"name": "objects", "projected": {"sources": _build_sources(objects)}},
            *volumes,
        ],
    }
    if settings.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in settings.pull_secrets]
    fields = {
        "priorityClassName": settings.priority_class,
        "serviceAccountName": own.service_account,
        "nodeSelector": dict(own.node_selector),
        "tolerations": list(own.tolerations),
    }
    return pod | {name: value for name, value in fields.items() if value}


def build_resources(settings: KubernetesSettings, resources: Resources) -> Object:
    """Return requests and limits: memory and devices are limits, CPUs may be exceeded while others do not use them."""
    devices = {name: str(count) for name, count in resources.others.items()}
    if resources.gpus:
        devices.setdefault(settings.gpu_resource, str(resources.gpus))
    limits = {"memory": str(resources.memory), **devices}
    return {"requests": {"cpu": str(resources.vcores), **limits}, "limits": limits}


def _build_affinity(own: PodSettings, labels: Mapping[str, str], excluded: Sequence[str], *, is_spread: bool) -> Object:
    affinity: Object = {}
    if excluded:
        nodes = {"matchExpressions": [{"key": _HOST_LABEL, "operator": "NotIn", "values": list(excluded)}]}
        # Preferred, not required: there may be no other node.
        affinity["nodeAffinity"] = {_PREFERRED: [{"weight": _MAX_WEIGHT, "preference": nodes}]}
    if own.topology:  # the scheduler lets the first of them choose
        tasks = {name: value for name, value in labels.items() if name != ROLE_LABEL}
        roles = {"key": ROLE_LABEL, "operator": "In", "values": list(own.together)}
        selector = {"matchLabels": tasks, "matchExpressions": [roles]}
        affinity["podAffinity"] = {_REQUIRED: [{"labelSelector": selector, "topologyKey": own.topology}]}
    if is_spread:
        others = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": _HOST_LABEL}
        affinity["podAntiAffinity"] = {_REQUIRED: [others]}
    return affinity


def _build_field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _build_sources(objects: Mapping[str, int]) -> list[Object]:
    return [
        {
            "configMap": {
                "name": build_piece_name(digest, number),
                "items": [{"key": CONTENT_KEY, "path": f"{digest}.{number}"}],
            }
        }
        for digest, count in objects.items()
        for number in range(count)
    ]


def _add_secret(pod: Object, volume: str, name: str, folder: Path) -> None:
    pod["volumes"].append({"name": volume, "secret": {"secretName": name, "defaultMode": 0o400}})
    mount = {"name": volume, "mountPath": str(folder), "readOnly": True}
    pod["containers"][0]["volumeMounts"].append(mount)


def _add_secrets(pod: Object, record: JobRecord, settings: KubernetesSettings, part: str) -> None:
    """Give a pod credentials of the job, access to its file systems, and `container_env`."""
    if record.spec.container_env:
        pod["containers"][0]["envFrom"] = [
            {"secretRef": {"name": build_secret_name(record.job_id, ENVIRONMENT_SECRET)}}
        ]
    _add_secret(pod, "secret", build_secret_name(record.job_id, part), SECRET)
    if settings.list_file_systems(record.staged):
        _add_secret(pod, "hadoop", build_secret_name(record.job_id, HADOOP_SECRET), HADOOP)


def _add_s3_variables(pod: Object, settings: KubernetesSettings) -> None:
    """Give a pod the credentials for S3. `container_env` takes precedence: it is named later."""
    if settings.s3_secret:
        pod["containers"][0].setdefault("envFrom", []).insert(0, {"secretRef": {"name": settings.s3_secret}})


def _add_claim(own: PodSettings, claim: str, *, is_read_only: bool = True) -> PodSettings:
    if not claim:
        return own
    source = VolumeSource(kind="pvc", name=claim, is_read_only=is_read_only)
    return replace(own, volumes={**own.volumes, str(STAGING): source})
