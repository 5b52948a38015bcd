"""What a job lacks in a cluster: rights, a service account, objects that it names, room; and what the API refuses."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tony.errors import Problem
from tony.kube.api_client import ApiClient, Object
from tony.kube.errors import KubeApiError, KubeError
from tony.kube.resources import JOBS, NODES, PODS, RESOURCE_QUOTAS, ApiResource
from tony.model.job_spec import JobSpec
from tony.model.staged_files import StagedJob
from tony.model.submission_record import RECORD_VERSION, JobRecord
from tony.schedulers.kubernetes.access_rules import (
    KUEUE_RULES,
    POD_GROUP_RULES,
    NeededRule,
    find_account_problem,
    find_rights_problem,
)
from tony.schedulers.kubernetes.feasibility import PodDemand, find_node_notices, find_quota_problems
from tony.schedulers.kubernetes.gangs import GangKind, count_gang_sizes, find_gang_kind
from tony.schedulers.kubernetes.kueue import find_queue_problems
from tony.schedulers.kubernetes.manifests import build_job, build_task_pod, mount_image
from tony.schedulers.kubernetes.pod_groups import NO_POD_GROUPS, find_pod_groups
from tony.schedulers.kubernetes.pod_volumes import find_missing_volumes
from tony.schedulers.kubernetes.settings import KubernetesSettings, read_role_settings

#: In dry runs, for what only a submission knows: the Job's uid, tony's archive, the AM's address.
_UNKNOWN_UID = "00000000-0000-0000-0000-000000000000"
NO_RUNTIME = ("0" * 64, 1)
_NO_ADDRESS = "tls:0.0.0.0:0"
#: In the answer for a webhook that is down: it would keep the AM from getting a pod, and nothing would say so.
_WEBHOOK = "failed calling webhook"
#: In the answer of an API server that drops images of volumes, or does not know them.
_NO_IMAGE_VOLUMES = re.compile(r'must specify a volume type|unknown field "spec\.volumes\[\d+\]\.image"')
#: Words of the API server -> the setting that they are about.
_SETTINGS: Mapping[str, str] = {
    "no PriorityClass": "priority_class",
    "service account": "task_service_account",
    "subPath": "volumes",
}
#: A cluster with more nodes is not compared with a job: all its nodes would take seconds to read.
_MAX_NODES = 100
_MAX_QUOTAS = 100
_AM_KEY = "scheduler.kubernetes"


@dataclass(frozen=True, slots=True)
class ClusterFindings:
    """What a comparison of a job with its cluster has found.

    Attributes:
        problems: why the cluster cannot run it.
        notices: why it would wait.
    """

    problems: Sequence[Problem]
    notices: Sequence[str] = ()


def compare_with_cluster(client: ApiClient, spec: JobSpec, settings: KubernetesSettings) -> ClusterFindings:
    """Find missing rights, a missing service account, objects that the API server would refuse, and too little room."""
    if problem := find_rights_problem(client):
        return ClusterFindings([problem])
    rules, problems = _find_gang_needs(client, spec, settings)
    if problems:
        return ClusterFindings(problems)
    if problem := find_account_problem(client, settings.service_account, rules):
        return ClusterFindings([problem])
    if absent := _find_absent_objects(client, spec, settings):
        return ClusterFindings(absent)
    record = _build_trial_record(spec)
    job = build_job(record, settings, NO_RUNTIME)
    trials = [(_AM_KEY, JOBS, job), (_AM_KEY, PODS, _build_trial_am_pod(job))]
    trials += [(f"roles.{role}", PODS, build_trial_pod(record, role, settings)) for role in spec.effective_roles]
    refused: dict[str, Problem] = {}
    pods: dict[str, Object] = {}
    for key, resource, body in trials:
        if key in refused:  # the pod of a Job that is refused
            continue
        try:
            completed = client.create(resource, body, dry_run=True)
        except KubeApiError as error:
            completed = body
            if problem := _explain_refusal(error, key, settings):
                refused[problem.key] = problem
        if resource is PODS:
            pods[key] = completed
    return ClusterFindings([*refused.values()]) if refused else _compare_with_room(client, spec, settings, pods)


def _explain_refusal(error: KubeApiError, key: str, settings: KubernetesSettings) -> Problem | None:
    """Return why the API server refuses a trial object; None if the object would wait."""
    if error.is_quota or (error.is_transient and _WEBHOOK not in error.text):
        return None
    location = settings.staging_location
    if location and location.trial_image and _NO_IMAGE_VOLUMES.search(error.text):
        text = "the cluster has no image volumes, which Kubernetes has from 1.35 on; use another location"
        return Problem(key=f"{_AM_KEY}.staging", value=str(location), message=text)
    hint = next((f" (see `{name}`)" for words, name in _SETTINGS.items() if words in error.text), "")
    return Problem(key=key, message=f"the API server refuses it: {error.text}{hint}")


def _compare_with_room(
    client: ApiClient, spec: JobSpec, settings: KubernetesSettings, pods: Mapping[str, Object]
) -> ClusterFindings:
    """Compare a job with quotas and nodes, if the user may list them.

    Args:
        pods: key of the settings -> a pod, as the API server completes it.
    """
    has_stages = any(role.after for role in spec.effective_roles.values())
    sizes = {} if has_stages else count_gang_sizes(spec)
    demands = [
        PodDemand(
            gpu_resource=settings.gpu_resource,
            key=key,
            what="the application master" if key == _AM_KEY else f"a task of {key.removeprefix('roles.')}",
            count=1 if key == _AM_KEY else sizes.get(key.removeprefix("roles."), 0),
            pod=pod,
        )
        for key, pod in pods.items()
    ]
    try:
        return ClusterFindings(
            [*find_quota_problems(demands, _list_readable(client, RESOURCE_QUOTAS, _MAX_QUOTAS))],
            [*find_node_notices(demands, _list_readable(client, NODES, _MAX_NODES))],
        )
    except ValueError as error:
        return ClusterFindings((), [f"The job is not compared with the cluster's room: {error}."])


def _list_readable(client: ApiClient, resource: ApiResource, limit: int) -> Sequence[Object]:
    try:
        return client.list_few(resource, limit)
    except KubeApiError:
        return ()


def _find_absent_objects(client: ApiClient, spec: JobSpec, settings: KubernetesSettings) -> Sequence[Problem]:
    """Return volumes and Secrets that the job names, and that do not exist."""
    roles = {name: read_role_settings(role).volumes for name, role in spec.effective_roles.items()}
    others = {f"roles.{name}.kubernetes.volumes": volumes for name, volumes in roles.items()}
    location = settings.staging_location
    if location and location.claim:
        others["scheduler.kubernetes.staging"] = {"/staging": f"pvc:{location.claim}"}
    secret = settings.s3_secret
    others |= {"scheduler.kubernetes.s3_secret": {"/s3": f"secret:{secret}"}} if secret else {}
    others["scheduler.kubernetes.pull_secrets"] = {
        f"/{n}": f"secret:{name}" for n, name in enumerate(settings.pull_secrets)
    }
    return find_missing_volumes(client, {"scheduler.kubernetes.volumes": settings.volumes, **others})


def find_pod_refusal(client: ApiClient, job: Object) -> str:
    """Return why the API server refuses the pod of a Job, such as a quota; empty if it does not, or that is not known.

    Its controller learns the same, but tells it in events only.
    """
    try:
        client.create(PODS, _build_trial_am_pod(job), dry_run=True)
    except KubeApiError as error:
        is_unrelated = error.is_denied or (error.is_transient and _WEBHOOK not in error.text)
        return "" if is_unrelated else error.text
    except KubeError:
        return ""
    return ""


def _find_gang_needs(
    client: ApiClient, spec: JobSpec, settings: KubernetesSettings
) -> tuple[Sequence[NeededRule], Sequence[Problem]]:
    """Return what AMs need for the job's gang besides `AM_RULES`, and what the cluster lacks for it."""
    if settings.queue:
        return KUEUE_RULES, find_queue_problems(client, settings.queue)
    if find_gang_kind(settings) is GangKind.NONE or sum(count_gang_sizes(spec).values()) < 2:
        return (), ()
    if find_pod_groups(client):
        return POD_GROUP_RULES, ()
    if settings.gang:
        text = f"{NO_POD_GROUPS}. Leave `gang` out, and its pods are started one by one."
        return (), [Problem(key="scheduler.kubernetes.gang", value=settings.gang, message=text)]
    return (), ()


def _build_trial_record(spec: JobSpec) -> JobRecord:
    """Return a record of a job that is not submitted."""
    return JobRecord(
        version=RECORD_VERSION,
        job_id=f"tony-trial-{os.urandom(4).hex()}",
        user="",
        host="",
        submitted=0.0,
        tony_version="",
        spec=spec,
        staged=StagedJob(),
        framework_module="",
    )


def _build_trial_am_pod(job: Object) -> Object:
    """Return the pod of a Job. The API server looks up priority and runtime classes for pods, not for Jobs."""
    template = job["spec"]["template"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": job["metadata"]["name"]},
        "spec": template["spec"],
    }


def build_trial_pod(record: JobRecord, role: str, settings: KubernetesSettings) -> Object:
    """Return the pod of a task of a job that is not submitted, of which no file is staged."""
    pod = build_task_pod(
        record,
        role,
        f"{record.job_id}-0",
        settings,
        runtime=NO_RUNTIME,
        pieces={},
        am_address=_NO_ADDRESS,
        owner=_UNKNOWN_UID,
        memory=record.spec.effective_roles[role].resources.memory,
    )
    location = settings.staging_location
    if location and location.trial_image:
        mount_image(pod["spec"], NO_RUNTIME[0], location.trial_image)
    return pod
