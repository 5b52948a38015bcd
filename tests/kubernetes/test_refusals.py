"""What a cluster refuses, cannot start, or has no room for, is named."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.change_detection import KUBERNETES
from tests.e2e.lab import until
from tests.kubernetes.lab import RESOURCE_QUOTAS, KubernetesLab
from tony.kube.api_client import Object
from tony.kube.errors import KubeApiError
from tony.kube.resources import NAMESPACES, PODS, ApiResource
from tony.mini.kubernetes.layout import PAUSE_IMAGE

pytestmark = [pytest.mark.on_change(*KUBERNETES), pytest.mark.slow, pytest.mark.e2e]

WEBHOOKS = ApiResource(
    group="admissionregistration.k8s.io",
    plural="validatingwebhookconfigurations",
    kind="ValidatingWebhookConfiguration",
    is_namespaced=False,
)
LIMIT_RANGES = ApiResource(plural="limitranges", kind="LimitRange")
OK = "print('done')"


def build_limits() -> Object:
    limits = {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}
    return {"metadata": {"name": "limits"}, "spec": limits}


def build_webhook(lab: KubernetesLab) -> Object:
    """Return a webhook for pods of the lab's namespace that does not answer."""
    hook = {
        "name": "down.tony.local",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": lab.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": lab.namespace}, "webhooks": [hook]}


def wait_until_refused(lab: KubernetesLab, reason: str) -> None:
    """Wait until the API server acts upon what was created; a pod that all of it refuses is never created."""
    resources = {"limits": {"memory": "2Gi"}}
    spec = {"containers": [{"name": "c", "image": PAUSE_IMAGE, "resources": resources}], "hostNetwork": True}
    pod = {"metadata": {"name": "refused"}, "spec": spec}

    def is_refused() -> bool:
        try:
            lab.client.create(PODS, pod, dry_run=True)
        except KubeApiError as error:
            return reason in str(error)
        return False

    until(is_refused, f"the API server refuses pods: {reason}")


def refuse(lab: KubernetesLab, *arguments: str) -> str:
    """Submit a job that is refused before anything is created; return the error."""
    done = lab.submit(lab.roles(OK), *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert lab.list_objects() == []
    assert lab.jobs() == []
    return done.stderr


def set_pod_security(lab: KubernetesLab, level: str) -> None:
    """Set the Pod Security Standard of the namespace."""
    lab.client.patch(NAMESPACES, lab.namespace, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}})


def test_what_can_never_run_is_refused_before_anything_is_created(lab: KubernetesLab) -> None:
    """A limit of the namespace, a priority class that is missing, Pod Security, a webhook that does not answer."""
    missing = "scheduler.kubernetes.priority_class=none"
    assert "no PriorityClass with name none was found" in refuse(lab, "--set", missing)
    lab.client.create(LIMIT_RANGES, build_limits())
    wait_until_refused(lab, limit := "maximum memory usage per Container is 1Gi")
    assert limit in refuse(lab, "--set", "roles.worker.memory=2g")
    lab.client.delete(LIMIT_RANGES, "limits")
    set_pod_security(lab, "restricted")
    wait_until_refused(lab, restricted := 'violates PodSecurity "restricted:latest"')
    assert restricted in refuse(lab)
    set_pod_security(lab, "privileged")
    lab.client.create(WEBHOOKS, build_webhook(lab))
    try:
        wait_until_refused(lab, silent := 'failed calling webhook "down.tony.local"')
        assert silent in refuse(lab)
    finally:
        lab.client.delete(WEBHOOKS, lab.namespace)


def test_what_may_run_later_waits_with_the_words_of_the_cluster(lab: KubernetesLab) -> None:
    """A task that no node has room for, and a quota that is full for a while: for an AM, and for a task.

    A job that exceeds the quota is refused.
    """
    job = lab.detach(lab.roles(OK, "[roles.worker]\nvcores = 900\n"))
    until(lambda: "Insufficient cpu" in lab.tony("status", job).stdout, "the status has the scheduler's words")
    assert lab.tony("kill", job, "--now").returncode == 0
    lab.wait(job, "killed")
    lab.wait_ended(job)

    lab.set_quota({"pods": "1"})
    refused = lab.submit(lab.roles(OK))
    assert (refused.returncode, lab.jobs()) == (2, [job]), refused.stdout
    assert "the job needs at least 2 pods at one time, with its AM; quota quota" in refused.stderr
    lab.client.delete(RESOURCE_QUOTAS, "quota")

    others = [create_waiting_pod(lab, name) for name in ("one", "two")]
    lab.set_quota({"pods": "2"})
    job = lab.detach(lab.roles(OK))
    until(lambda: "exceeded quota: quota, requested: pods=1" in lab.tony("status", job).stdout, "its AM waits")
    assert lab.tony("kill", job, "--now").returncode == 0
    assert lab.status(job)["state"] == "killed"
    lab.client.delete(RESOURCE_QUOTAS, "quota")

    lab.client.delete(PODS, others.pop())
    lab.set_quota({"pods": "3"})
    job = lab.detach(lab.roles(OK, "[roles.worker]\ninstances = 2\n"))
    until(
        lambda: "exceeded quota: quota, requested: pods=1, used: pods=3" in lab.tony("status", job).stdout, "it waits"
    )
    lab.client.delete(PODS, others.pop())
    assert lab.wait(job)["state"] == "succeeded"
    lab.client.delete(RESOURCE_QUOTAS, "quota")


def create_waiting_pod(lab: KubernetesLab, name: str) -> str:
    """Create a pod of another user, which never gets a node; return its name."""
    spec = {"containers": [{"name": "x", "image": PAUSE_IMAGE}], "schedulingGates": [{"name": "tests/wait"}]}
    lab.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    return name


def test_images_that_cannot_start_are_named(lab: KubernetesLab) -> None:
    """Of a task and of the AM: one that is not there, one without Python."""
    missing, empty = "tony.local/none:1", PAUSE_IMAGE
    settings = [
        f"{key}.image={image}" for key in ("roles.worker", "scheduler.kubernetes") for image in (missing, empty)
    ]
    job = lab.roles(OK)
    with ThreadPoolExecutor() as pool:
        done = [*pool.map(lambda each: lab.submit(job, "--set", each), settings)]
    for setting, each in zip(settings, done, strict=True):
        text = f"{setting}: {each.stdout}{each.stderr}"
        assert each.returncode == 3, text
        assert ("ErrImageNeverPull" if missing in setting else "it has no python3 on its PATH") in text, text


def test_a_job_passes_pod_security(lab: KubernetesLab) -> None:
    """The image would run as root: tony does not let it."""
    set_pod_security(lab, "restricted")
    wait_until_refused(lab, "violates PodSecurity")
    lab.write_site()
    done = lab.submit(lab.file("job.toml", 'command = "id -u"\n[roles.worker]\nmemory = "64m"\n'))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1000" in done.stdout
