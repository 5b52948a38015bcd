"""Histories of jobs on Kubernetes that are kept in S3: written there, and found from other machines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.schedulers.kubernetes.fake_cluster import JOBS, Cluster, build_job, submit
from tests.schedulers.kubernetes.test_history_location import write_history
from tests.support.fake_s3 import FakeS3
from tony.errors import SchedulerError, TonyError
from tony.model.state_directory import Home
from tony.portal.histories.history_locations import open_location
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.job_store.job_store import JobStore
from tony.schedulers.kubernetes.cluster_clients import create_client
from tony.schedulers.kubernetes.history_location import open_own_history
from tony.schedulers.kubernetes.history_setting import HISTORY_ANNOTATION
from tony.schedulers.kubernetes.manifests import build_job as build_job_object
from tony.schedulers.kubernetes.pod_settings import find_pod_problems
from tony.schedulers.kubernetes.settings import read_settings
from tony.schedulers.kubernetes.submitter import KubernetesSubmitter

ADDRESS = "s3://bucket/ann"


@pytest.fixture
def cluster(cluster: Cluster, s3: FakeS3, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster.settings |= {"history": f"{ADDRESS}/", "s3_secret": "s3-keys"}
    monkeypatch.setenv("KUBECONFIG", cluster.settings["kubeconfig"])
    return cluster


@pytest.fixture
def job(cluster: Cluster, tmp_path: Path) -> PreparedJob:
    made = build_job(cluster, tmp_path)
    return replace(made, record=replace(made.record, job_id="kubernetes-20260102-030405-abcdef"))


@pytest.fixture
def store(cluster: Cluster, job: PreparedJob) -> Iterator[JobStore]:
    """The files of a submitted job, as its application master opens them."""
    submit(job)
    settings, _ = read_settings(job.record.spec.scheduler_settings)
    client = create_client(settings)
    with closing(open_own_history(client, job.record.job_id, "uid", settings.history_address)) as opened:
        yield opened


def fetch(job: PreparedJob, home: Home) -> None:
    asyncio.run(KubernetesSubmitter(home).fetch(home.job(job.record.job_id)))


@pytest.mark.parametrize("text", ["s3://bucket", "s3://bucket/a b", "s3://bucket/../x", "s3:bucket/x"])
def test_invalid_settings(job: PreparedJob, text: str) -> None:
    settings, _ = read_settings({**job.record.spec.scheduler_settings, "history": text})
    (problem,) = find_pod_problems(job.record.spec, settings)
    assert problem.key == "scheduler.kubernetes.history"
    assert problem.message.startswith('expected "s3://BUCKET/FOLDER"')


def test_the_application_master_has_the_secret(job: PreparedJob) -> None:
    """`container_env` is named later, so it takes precedence."""
    settings, _ = read_settings(job.record.spec.scheduler_settings)
    pod = build_job_object(job.record, settings, ("0" * 64, 1))["spec"]["template"]["spec"]
    names = [each["secretRef"]["name"] for each in pod["containers"][0]["envFrom"]]
    assert names == ["s3-keys", f"{job.record.job_id}-env"]


def test_the_history_is_in_s3_and_what_leads_to_the_job_in_the_namespace(
    cluster: Cluster, job: PreparedJob, store: JobStore, s3: FakeS3
) -> None:
    name = job.record.job_id
    assert cluster.api.objects[JOBS, name]["metadata"]["annotations"][HISTORY_ANNOTATION] == ADDRESS
    assert not s3.objects  # what the submission tried is gone
    write_history(job, store)
    names = {"events.1.jsonl.000000", "job.json", "output.1.1.jsonl"}
    assert s3.objects.keys() == {f"/bucket/ann/jobs/{name}/{each}" for each in names}
    objects = [each for each in cluster.api.list_names("configmaps") if each.startswith(name)]
    assert objects == [f"{name}.am.json"]
    assert store.list().keys() == {"events.1.jsonl", "job.json", "output.1.1.jsonl", "am.json", "access.json"}


def test_another_machine_finds_it(cluster: Cluster, job: PreparedJob, store: JobStore, tmp_path: Path) -> None:
    """By the Job; later, when that is gone, by what it has found before."""
    write_history(job, store)
    home = Home(tmp_path / "other")
    fetch(job, home)
    other = home.job(job.record.job_id)
    assert json.loads(other.job.read_text())["job_id"] == job.record.job_id
    cluster.api.remove(JOBS, job.record.job_id)
    store.put_json("summary.json", {})
    fetch(job, home)
    assert other.summary.exists()


def test_a_job_does_not_choose_where_its_readers_authenticate(
    cluster: Cluster, job: PreparedJob, store: JobStore, s3: FakeS3, tmp_path: Path
) -> None:
    """Anyone who may write Jobs can have written the address: it is of a bucket in the reader's own server."""
    annotation = {HISTORY_ANNOTATION: "s3://evil.example.com/x"}
    cluster.api.update(JOBS, job.record.job_id, {"metadata": {"annotations": annotation}})
    s3.requests.clear()
    fetch(job, Home(tmp_path / "other"))
    assert [path.partition("?")[0] for _, path in s3.requests] == ["/evil.example.com/"]


def test_a_reader_without_credentials(
    job: PreparedJob, store: JobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    expected = rf"the history of {job.record.job_id} is in {ADDRESS}: .*AWS_ACCESS_KEY_ID not set\. Set these"
    with pytest.raises(SchedulerError, match=expected):
        fetch(job, Home(tmp_path / "other"))
    with (
        closing(open_location("kubernetes://c/ml", Home(tmp_path / "portal"), {})) as location,
        pytest.raises(TonyError, match=expected),
    ):
        location.list(f"jobs/{job.record.job_id}")


def test_the_portal_shows_it_with_the_others(job: PreparedJob, store: JobStore, tmp_path: Path) -> None:
    write_history(job, store)
    path = f"jobs/{job.record.job_id}"
    with closing(open_location("kubernetes://c/ml", Home(tmp_path / "portal"), {})) as location:
        names = {item.name for item in location.list(path)}
        assert names == {"events.1.jsonl", "job.json", "output.1.1.jsonl", "am.json"}
        (tail,) = location.read_tails(path)
        assert tail.data == b"the end\n"


def test_a_submission_without_credentials(job: PreparedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    (problem,) = KubernetesSubmitter(job.home).check(job.record.spec)
    assert (problem.key, problem.value) == ("scheduler.kubernetes.history", ADDRESS)
    assert "AWS_SECRET_ACCESS_KEY not set. Set these variables." in problem.message


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("conditions", r"127\.0\.0\.1:\d+ ignores If-None-Match, .*Amazon S3, MinIO and Ceph know it"),
        ("PUT", r"AccessDenied: no \(HTTP 403\)"),
        ("DELETE", r"AccessDenied: no \(HTTP 403\)"),
    ],
)
def test_a_place_that_cannot_be_used_is_found_at_submission(
    cluster: Cluster, job: PreparedJob, s3: FakeS3, fault: str, expected: str
) -> None:
    s3.ignores_conditions = fault == "conditions"
    s3.refusals[fault] = (403, "AccessDenied", "no", 1)
    prefix = rf"the job's history cannot be kept in {ADDRESS} \(scheduler\.kubernetes\.history\): "
    with pytest.raises(SchedulerError, match=prefix + ".*" + expected):
        submit(job)
    assert not cluster.list_left()
