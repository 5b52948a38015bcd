"""Files that are too large for the API go to a registry, once, and pods mount them and take only what was sent."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.fake_api import refuse
from tests.schedulers.kubernetes.executor_pod import ITEM, check_fetch, enter_pod
from tests.schedulers.kubernetes.fake_cluster import Cluster, build_pod, set_settings, submit, submit_again
from tests.schedulers.kubernetes.test_job_files import LARGE, SMALL, find_digest, stage
from tests.support.fake_registry import FakeRegistry
from tony.errors import StorageError
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.kubernetes import staging_registry
from tony.schedulers.kubernetes.executor_container import KubernetesExecutorContainer
from tony.schedulers.kubernetes.launch_payload import (
    JOB_KEY,
    AmPayload,
    decode_payload,
)
from tony.schedulers.kubernetes.submitter import KubernetesSubmitter

SECRETS = "/api/v1/namespaces/ml/secrets"
TAG = f"tony-{find_digest(LARGE)}"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    """A registry that knows the user."""
    with FakeRegistry() as found:
        found.auth = "token"
        auth = base64.b64encode(found.user.encode()).decode()
        (tmp_path / "config.json").write_text(json.dumps({"auths": {found.host_and_port: {"auth": auth}}}))
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        yield found


@pytest.fixture
def cluster(cluster: Cluster, registry: FakeRegistry) -> Cluster:
    cluster.settings |= {"staging": f"oci://{registry.host_and_port}/team/files"}
    return cluster


def read_payload(cluster: Cluster, job: str) -> AmPayload:
    data = cluster.api.objects[SECRETS, f"{job}-am"]["data"]
    return decode_payload(AmPayload, base64.b64decode(data[JOB_KEY]))


def test_large_files_are_pushed_once(cluster: Cluster, job: PreparedJob, registry: FakeRegistry) -> None:
    """Only these; the second submission asks whether they are there, and sends nothing."""
    staged = stage(job, SMALL, LARGE)
    submit(staged)
    (layer,) = (content for content in registry.blobs.values() if len(content) > 1000)
    assert LARGE in layer
    assert {name for name in registry.manifests if ":" not in name} == {TAG}
    before = len(registry.requests)
    again = submit_again(staged, 2)
    assert {(method, path) for method, path in registry.requests[before:] if path != "/token"} == {
        ("HEAD", f"/v2/team/files/manifests/{TAG}")
    }
    assert read_payload(cluster, again).images == read_payload(cluster, job.record.job_id).images


def test_a_layer_that_the_registry_has_is_not_sent_again(
    cluster: Cluster, job: PreparedJob, registry: FakeRegistry
) -> None:
    """A submission was interrupted, or the tag was deleted."""
    staged = stage(job, LARGE)
    submit(staged)
    images = read_payload(cluster, job.record.job_id).images
    del registry.manifests[TAG]
    before = len(registry.requests)
    again = submit_again(staged, 2)
    assert len([method for method, path in registry.requests[before:] if method == "PUT" and "blobs" in path]) == 2
    assert read_payload(cluster, again).images == images


def test_pods_of_tasks_mount_the_image(cluster: Cluster, job: PreparedJob, registry: FakeRegistry) -> None:
    """By its digest, which is that of the submission whatever is pushed later."""
    staged, digest = stage(job, LARGE), find_digest(LARGE)
    submit(staged)
    payload = read_payload(cluster, job.record.job_id)
    record = set_settings(staged.record, pull_secrets=["registry"])
    pod = build_pod(record, pieces=payload.objects, images=payload.images)["spec"]
    (volume,) = (each for each in pod["volumes"] if "image" in each)
    repository, _, image = volume["image"]["reference"].partition("@")
    assert repository == f"{registry.host_and_port}/team/files"
    assert registry.manifests[image] == registry.manifests[TAG]
    (mount,) = (each for each in pod["containers"][0]["volumeMounts"] if each["name"] == volume["name"])
    assert mount["mountPath"] == f"/tony/staging/{digest}"
    assert {"name": "TONY_STAGING", "value": cluster.settings["staging"]} in pod["containers"][0]["env"]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]


def test_a_registry_that_refuses(cluster: Cluster, job: PreparedJob, registry: FakeRegistry) -> None:
    """Nothing is left of the submission."""
    registry.user = "ann:changed"
    with pytest.raises(StorageError, match=r"incorrect username or password.*docker login 127\.0\.0\.1"):
        submit(stage(job, LARGE))
    assert not cluster.list_left()


@pytest.mark.parametrize(
    "message",
    [
        "Pod is invalid: spec.volumes[3]: Required value: must specify a volume type",
        'strict decoding error: unknown field "spec.volumes[3].image"',
    ],
)
def test_a_cluster_without_image_volumes(cluster: Cluster, job: PreparedJob, message: str) -> None:
    cluster.refused["POST", "pods"] = refuse(422, "Invalid", message)
    (problem,) = KubernetesSubmitter(job.home).check(job.record.spec)
    assert problem.key == "scheduler.kubernetes.staging"
    assert "image volumes, which Kubernetes has from 1.35 on" in problem.message


def test_the_dry_run_has_an_image_volume(cluster: Cluster, job: PreparedJob) -> None:
    assert not KubernetesSubmitter(job.home).check(job.record.spec)
    bodies = [each.body for each in cluster.server.requests if each.target.partition("?")[0].endswith("/pods")]
    tasks = [body for body in bodies if body["metadata"]["labels"]["tony.dev/part"] == "task"]
    assert tasks
    assert all([volume for volume in body["spec"]["volumes"] if "image" in volume] for body in tasks)


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KubernetesExecutorContainer:
    """A pod with an image whose file is to be written."""
    monkeypatch.setattr(staging_registry, "STAGING", tmp_path / "staging")
    (tmp_path / "staging" / ITEM.digest).mkdir(parents=True)
    return enter_pod(tmp_path, monkeypatch, "oci://ghcr.io/ann/files")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"content", ""),
        (b"poison!", f"source was changed in oci://ghcr.io/ann/files:tony-{ITEM.digest}. Delete that image"),
        (b"contents", "source was changed in"),
        (
            None,
            "source was removed from oci://ghcr.io/ann/files:tony-.* Delete that image from the registry, and submit",
        ),
    ],
)
def test_pods_take_only_what_was_sent(
    container: KubernetesExecutorContainer, tmp_path: Path, content: bytes | None, expected: str
) -> None:
    """Others may have pushed an image under that tag before."""
    if content is not None:
        (tmp_path / "staging" / ITEM.digest / "object").write_bytes(content)
    check_fetch(container, expected)
