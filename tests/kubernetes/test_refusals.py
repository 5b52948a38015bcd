"""What a cluster refuses, cannot start, or has no room for: named at once, and nothing hangs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.lab import until
from tests.kubernetes.lab import NAMESPACES, RESOURCE_QUOTAS, KubernetesLab
from tony.kube.api_client import Object
from tony.kube.resources import ApiResource
from tony.mini.kubernetes.layout import PAUSE_IMAGE

pytestmark = [pytest.mark.on_change("kube", "mini", "schedulers"), pytest.mark.slow, pytest.mark.e2e]

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
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"}, "spec": limits}


def build_webhook(lab: KubernetesLab) -> Object:
    """Return a webhook for pods of the lab's namespace that does not answer."""
    hook = {
        "name": "down.tony.local",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": lab.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    metadata = {"name": lab.namespace}
    return {"apiVersion": WEBHOOKS.api_version, "kind": WEBHOOKS.kind, "metadata": metadata, "webhooks": [hook]}


def refuse(lab: KubernetesLab, *arguments: str) -> str:
    """Submit a job that is refused before anything is created; return the error."""
    done = lab.submit(lab.roles(OK), *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert lab.list_objects() == []
    assert lab.jobs() == []
    return done.stderr


def test_what_can_never_run_is_refused_before_anything_is_created(lab: KubernetesLab) -> None:
    """A limit of the namespace, a priority class that is missing, Pod Security, a webhook that does not answer."""
    lab.client.create(LIMIT_RANGES, build_limits())
    assert "maximum memory usage per Container is 1Gi" in refuse(lab, "--set", "roles.worker.memory=2g")
    lab.client.delete(LIMIT_RANGES, "limits")
    assert "no PriorityClass with name none was found" in refuse(
        lab, "--set", "scheduler.kubernetes.priority_class=none"
    )
    lab.client.patch(
        NAMESPACES, lab.namespace, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    )
    assert 'violates PodSecurity "restricted:latest"' in refuse(lab)
    lab.client.patch(NAMESPACES, lab.namespace, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": None}}})
    lab.client.create(WEBHOOKS, build_webhook(lab))
    try:
        error = refuse(lab)
    finally:
        lab.client.delete(WEBHOOKS, lab.namespace)
    assert 'failed calling webhook "down.tony.local"' in error


def test_what_may_run_later_waits_with_the_words_of_the_cluster(lab: KubernetesLab) -> None:
    """A quota that is full and then is not, and a task that no node has room for."""
    with ThreadPoolExecutor() as pool:
        large = pool.submit(lab.detach, lab.roles(OK, "[roles.worker]\nvcores = 900\n"))
        job = large.result()
    until(lambda: "Insufficient cpu" in lab.tony("status", job).stdout, "the status has the scheduler's words")
    assert lab.tony("kill", job, "--now").returncode == 0
    lab.wait(job, "killed")
    lab.wait_ended(job)

    lab.set_quota({"pods": "2"})
    job = lab.detach(lab.roles(OK, "[roles.worker]\ninstances = 2\n"))
    until(
        lambda: "exceeded quota: quota, requested: pods=1, used: pods=2" in lab.tony("status", job).stdout, "it waits"
    )
    lab.client.delete(RESOURCE_QUOTAS, "quota")
    assert lab.wait(job)["state"] == "succeeded"


def test_images_that_cannot_start_are_named(lab: KubernetesLab) -> None:
    """Of a task and of the AM: one that is not there, one without Python."""
    missing, empty = "tony.local/none:1", PAUSE_IMAGE
    settings = {
        "task-missing": f"roles.worker.image={missing}",
        "task-empty": f"roles.worker.image={empty}",
        "am-missing": f"scheduler.kubernetes.image={missing}",
        "am-empty": f"scheduler.kubernetes.image={empty}",
    }
    with ThreadPoolExecutor() as pool:
        done = dict(
            zip(
                settings,
                pool.map(lambda each: lab.submit(lab.roles(OK), "--set", each), settings.values()),
                strict=True,
            )
        )
    texts = {name: each.stdout + each.stderr for name, each in done.items()}
    assert {name: each.returncode for name, each in done.items()} == dict.fromkeys(settings, 3), texts
    for name, text in texts.items():
        assert ("ErrImageNeverPull" if "missing" in name else "python3") in text, (name, text)


def test_a_job_passes_pod_security(lab: KubernetesLab) -> None:
    """The image would run as root: tony does not let it."""
    lab.client.patch(
        NAMESPACES, lab.namespace, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    )
    lab.write_site(has_volume=False)
    done = lab.submit(lab.file("job.toml", 'command = "id -u"\n[roles.worker]\nmemory = "64m"\n'))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1000" in done.stdout
