"""What a job lacks in a cluster: rights, a service account, objects that it names; and what the API server refuses."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from tony.errors import Problem
from tony.kube.api_client import ApiClient, Object
from tony.kube.errors import KubeApiError, KubeError
from tony.kube.resources import JOBS, PODS
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


def find_cluster_problems(client: ApiClient, spec: JobSpec, settings: KubernetesSettings) -> Sequence[Problem]:
    """Return missing rights, a missing service account, and objects that the API server would refuse."""
    if problem := find_rights_problem(client):
        return [problem]
    rules, problems = _find_gang_needs(client, spec, settings)
    if problems:
        return problems
    if problem := find_account_problem(client, settings.service_account, rules):
        return [problem]
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
    if absent := find_missing_volumes(client, {"scheduler.kubernetes.volumes": settings.volumes, **others}):
        return absent
    record = _build_trial_record(spec)
    job = build_job(record, settings, NO_RUNTIME)
    trials = [("scheduler.kubernetes", JOBS, job), ("scheduler.kubernetes", PODS, _build_trial_am_pod(job))]
    trials += [(f"roles.{role}", PODS, build_trial_pod(record, role, settings)) for role in spec.effective_roles]
    refused: dict[str, Problem] = {}
    for key, resource, body in trials:
        if key in refused:  # the pod of a Job that is refused
            continue
        try:
            client.create(resource, body, dry_run=True)
        except KubeApiError as error:
            if error.is_quota or (error.is_transient and _WEBHOOK not in error.text):  # it waits
                continue
            if location and location.trial_image and _NO_IMAGE_VOLUMES.search(error.text):
                text = "the cluster has no image volumes, which Kubernetes has from 1.35 on; use another location"
                return [Problem(key="scheduler.kubernetes.staging", value=str(location), message=text)]
            hint = next((f" (see `{name}`)" for words, name in _SETTINGS.items() if words in error.text), "")
            refused[key] = Problem(key=key, message=f"the API server refuses it: {error.text}{hint}")
    return [*refused.values()]


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
