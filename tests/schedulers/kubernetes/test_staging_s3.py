"""Files that are too large for the API go to S3, once, and pods take from there only what was sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.schedulers.kubernetes.executor_pod import ITEM, check_fetch, enter_pod
from tests.schedulers.kubernetes.fake_cluster import JOBS, Cluster, build_pod, submit, submit_again
from tests.schedulers.kubernetes.test_job_files import LARGE, SMALL, find_digest, stage
from tests.support.fake_s3 import FakeS3, FakeS3Object
from tony.errors import StorageError
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.kubernetes.executor_container import KubernetesExecutorContainer
from tony.schedulers.kubernetes.pod_settings import find_pod_problems
from tony.schedulers.kubernetes.settings import read_settings
from tony.schedulers.kubernetes.staging_setting import parse_staging
from tony.schedulers.kubernetes.submitter import KubernetesSubmitter

DAY = 86_400.0


@pytest.fixture
def cluster(cluster: Cluster, s3: FakeS3) -> Cluster:
    cluster.settings |= {"staging": "s3://bucket/ann", "s3_secret": "s3-keys"}
    cluster.api.objects["/api/v1/namespaces/ml/secrets", "s3-keys"] = {"metadata": {"name": "s3-keys"}}
    return cluster


def test_large_files_are_sent_to_s3_once(cluster: Cluster, job: PreparedJob, s3: FakeS3) -> None:
    staged, key = stage(job, SMALL, LARGE), f"/bucket/ann/{find_digest(LARGE)}"
    submit(staged)
    assert {path: found.content for path, found in s3.objects.items()} == {key: LARGE}
    submit_again(staged, 2)
    assert s3.requests == [("HEAD", key), ("PUT", key), ("HEAD", key)]


@pytest.mark.parametrize(("age", "renewed"), [(6 * DAY, False), (8 * DAY, True)])
def test_an_object_that_is_used_stays_young(
    cluster: Cluster, job: PreparedJob, s3: FakeS3, age: float, renewed: bool
) -> None:
    """A rule of the bucket that deletes old objects takes none that jobs use; nothing is sent for it."""
    key = f"/bucket/ann/{find_digest(LARGE)}"
    s3.objects[key] = FakeS3Object(content=LARGE, age=age)
    submit(stage(job, LARGE))
    assert (s3.objects[key].age == 0, s3.objects[key].content) == (renewed, LARGE)
    assert s3.received_bytes == 0


def test_an_object_of_another_size_is_sent_again(cluster: Cluster, job: PreparedJob, s3: FakeS3) -> None:
    s3.objects[f"/bucket/ann/{find_digest(LARGE)}"] = FakeS3Object(content=b"poison")
    submit(stage(job, LARGE))
    assert s3.objects[f"/bucket/ann/{find_digest(LARGE)}"].content == LARGE


def test_a_server_that_refuses_ends_the_submission(cluster: Cluster, job: PreparedJob, s3: FakeS3) -> None:
    """Its words are in the message although it did not read the body."""
    s3.refusals["PUT"] = (403, "AccessDenied", "User ann may not PutObject", 1)
    with pytest.raises(StorageError, match=r"s3://bucket/ann/.*AccessDenied: User ann may not PutObject \(HTTP 403\)"):
        submit(stage(job, LARGE))
    assert not [key for key in cluster.api.objects if key[0] == JOBS]


def test_the_secret_is_for_s3_alone(job: PreparedJob) -> None:
    settings, _ = read_settings({**job.record.spec.scheduler_settings, "staging": "pvc:data"})
    (problem,) = find_pod_problems(job.record.spec, settings)
    assert problem.key == "scheduler.kubernetes.s3_secret"


def test_a_submission_without_credentials(cluster: Cluster, job: PreparedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StorageError, match="no credentials for s3://bucket: AWS_SECRET_ACCESS_KEY not set"):
        submit(stage(job, LARGE))


@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        ("s3-keys", []),
        ("other", ["namespace ml has no Secret other"]),
        ("pvc:a/b", ["expected the name of a Secret."]),
    ],
)
def test_the_secret_is_checked_before_submission(
    cluster: Cluster, job: PreparedJob, secret: str, expected: list[str]
) -> None:
    spec = job.record.spec
    settings = {**spec.scheduler_settings, "s3_secret": secret}
    problems = KubernetesSubmitter(job.home).check(replace(spec, scheduler_settings=settings))
    assert [each.key for each in problems] == ["scheduler.kubernetes.s3_secret"] * len(expected)
    assert all(each.message.startswith(text) for each, text in zip(problems, expected, strict=True))


@pytest.mark.parametrize("pieces", [0, 1])
def test_only_pods_that_read_from_s3_have_the_secret(cluster: Cluster, job: PreparedJob, pieces: int) -> None:
    """`container_env` is named later, so it takes precedence."""
    pod = build_pod(stage(job, LARGE).record, pieces={find_digest(LARGE): pieces})["spec"]
    names = [each["secretRef"]["name"] for each in pod["containers"][0]["envFrom"]]
    assert names == [*(["s3-keys"] if pieces == 0 else []), f"{job.record.job_id}-env"]
    variable = {"name": "TONY_STAGING", "value": "s3://bucket/ann"}
    assert (variable in pod["containers"][0]["env"]) == (pieces == 0)


@pytest.fixture
def container(tmp_path: Path, s3: FakeS3, monkeypatch: pytest.MonkeyPatch) -> KubernetesExecutorContainer:
    return enter_pod(tmp_path, monkeypatch, "s3://bucket/ann")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"content", ""),
        (b"poison!", "source was changed in s3://bucket/ann/"),
        (b"contents", "source was changed in"),
        (None, "source was removed from s3://bucket/ann/.*Delete that object if it is there, and submit again"),
    ],
)
def test_pods_take_only_what_was_sent(
    container: KubernetesExecutorContainer, s3: FakeS3, content: bytes | None, expected: str
) -> None:
    if content is not None:
        s3.objects[f"/bucket/ann/{ITEM.digest}"] = FakeS3Object(content=content)
    check_fetch(container, expected)


@pytest.mark.parametrize(
    "text", ["s3://", "s3:bucket", "s3://B/x", "s3://bucket/../x", "s3://bucket/a b", "s3://b?x=1"]
)
def test_invalid_settings(text: str) -> None:
    with pytest.raises(ValueError, match='expected "s3://BUCKET"'):
        parse_staging(text)


def test_settings_are_written_in_one_form() -> None:
    found = [str(parse_staging(text)) for text in ("s3://bucket", "s3://bucket/", "s3://bucket/a/b/")]
    assert found == ["s3://bucket/tony-staging", "s3://bucket/tony-staging", "s3://bucket/a/b"]
