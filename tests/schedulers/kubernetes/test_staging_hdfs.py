"""Files that are too large for the API go to HDFS, once, and pods take from there only what was sent."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.schedulers.kubernetes.executor_pod import ITEM, check_fetch, enter_pod
from tests.schedulers.kubernetes.fake_cluster import (
    JOBS,
    Cluster,
    build_hadoop_settings,
    build_pod,
    submit,
    submit_again,
    submit_interrupted,
)
from tests.schedulers.kubernetes.test_hadoop_access import build_access
from tests.schedulers.kubernetes.test_job_files import LARGE, SMALL, find_digest, stage
from tests.support.hadoop.fake_webhdfs import FakeFile, FakeWebHdfs, Trouble
from tony.kube.errors import UnreachableError
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.kubernetes import hadoop_access, object_upload
from tony.schedulers.kubernetes.executor_container import KubernetesExecutorContainer
from tony.schedulers.kubernetes.hadoop_access import HadoopAccess
from tony.storage.hdfs.cluster_cache import DAY, MARKER

SECRETS = "/api/v1/namespaces/ml/secrets"
CACHE = "/user/ann/files/kubernetes/cache"


@pytest.fixture
def cluster(cluster: Cluster, hdfs: FakeWebHdfs) -> Cluster:
    cluster.settings |= {"staging": "hdfs:///user/ann/files"}
    return cluster


def list_cached(hdfs: FakeWebHdfs) -> set[str]:
    return {path.removeprefix(f"{CACHE}/") for path in hdfs.files if path.startswith(f"{CACHE}/")} - {MARKER}


def test_large_files_are_sent_to_hdfs_once(cluster: Cluster, job: PreparedJob, hdfs: FakeWebHdfs) -> None:
    """Only these, readable by their owner alone; pods have the job's Secret for HDFS without `file_systems`."""
    staged = stage(job, SMALL, LARGE)
    submit(staged)
    assert list_cached(hdfs) == {find_digest(LARGE)}
    sent = hdfs.files[f"{CACHE}/{find_digest(LARGE)}"]
    assert (sent.content, sent.permission) == (LARGE, 0o600)
    data = cluster.api.objects[SECRETS, f"{job.record.job_id}-hadoop"]["data"]
    access = HadoopAccess.decode({key: base64.b64decode(value) for key, value in data.items()})
    assert access.summary.file_systems == ("",)
    sent.accessed_ms = sent.modified_ms = 2**45
    before = len(hdfs.requests)
    submit_again(staged, 2)
    assert not {"CREATE", "RENAME", "SETTIMES"} & {operation for operation, _ in hdfs.requests[before:]}


def test_pods_of_tasks_know_the_folder(cluster: Cluster, job: PreparedJob) -> None:
    pod = build_pod(stage(job, LARGE).record, pieces={find_digest(LARGE): 0})["spec"]
    variable = {"name": "TONY_STAGING", "value": "hdfs:///user/ann/files"}
    assert variable in pod["containers"][0]["env"]
    assert "hadoop" in {each["name"] for each in pod["volumes"]}
    assert not [each for each in pod["volumes"] if "persistentVolumeClaim" in each]


def test_objects_are_removed_when_they_were_not_used_for_long(
    cluster: Cluster, job: PreparedJob, hdfs: FakeWebHdfs
) -> None:
    submit(stage(job, LARGE))
    hdfs.files[f"{CACHE}/old"] = FakeFile(content=b"x", modified_ms=0)
    hdfs.files[f"{CACHE}/{MARKER}"].modified_ms = 0  # the last removal
    hdfs.files[f"{CACHE}/{find_digest(LARGE)}"].accessed_ms = int(cluster.api.now * 1000) + 400 * DAY
    submit_again(stage(job, LARGE), 2)
    assert list_cached(hdfs) == {find_digest(LARGE)}


def test_a_submission_that_sends_for_long_keeps_its_job(
    cluster: Cluster, job: PreparedJob, hdfs: FakeWebHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no pod that shows that it is under way, so it notes it in its Job."""
    now = [0.0]
    monkeypatch.setattr(object_upload, "time", SimpleNamespace(monotonic=lambda: now[0]))
    sent: list[str] = []

    def pass_time(path: str) -> None:
        sent.append(path)
        if len(sent) == 1:
            now[0] += 3600
            cluster.api.now += 3600
        else:
            submit_again(job, 2)

    hdfs.before("RENAME", pass_time)
    submit(stage(job, LARGE, LARGE + b"x"))
    assert len(sent) == 2
    assert not cluster.api.objects[JOBS, job.record.job_id]["spec"]["suspend"]


def test_a_note_that_fails_ends_no_submission_before_its_job_is_in_danger(
    cluster: Cluster, job: PreparedJob, hdfs: FakeWebHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that is replaced is away for a minute; what was sent until then is not sent again."""
    now = [0.0]
    monkeypatch.setattr(object_upload, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def refuse(*_: object) -> None:
        raise UnreachableError("the API server does not respond")

    monkeypatch.setattr(object_upload, "note_alive", refuse)
    hdfs.before("RENAME", lambda _: now.__setitem__(0, now[0] + 300))
    submit(stage(job, LARGE, LARGE + b"x"))
    with pytest.raises(UnreachableError):
        submit_again(stage(job, *(LARGE + bytes([number]) for number in range(3))), 2)


async def test_an_interrupted_submission_stops_sending(cluster: Cluster, job: PreparedJob, hdfs: FakeWebHdfs) -> None:
    await submit_interrupted(stage(job, LARGE), lambda interrupt: hdfs.before("CREATE", lambda _: interrupt()))
    assert not cluster.list_left()
    assert find_digest(LARGE) not in list_cached(hdfs)


@pytest.fixture
def container(hdfs: FakeWebHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KubernetesExecutorContainer:
    """A pod with access to HDFS."""
    for key, value in build_access(build_hadoop_settings(hdfs)).encode().items():
        (tmp_path / key).write_bytes(value)
    monkeypatch.setattr(hadoop_access, "HADOOP", tmp_path)
    return enter_pod(tmp_path, monkeypatch, "hdfs:///user/ann/files")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (FakeFile(content=b"content"), ""),
        (FakeFile(content=b"poison!"), "source was changed in hdfs:///user/ann/files/kubernetes/cache/"),
        (FakeFile(content=b"contents"), "source was changed in"),
        (FakeFile(), "source was changed in"),
        (None, "source was removed from hdfs:///.*Delete that file if it is there, and submit again"),
    ],
)
def test_pods_take_only_what_was_sent(
    container: KubernetesExecutorContainer, hdfs: FakeWebHdfs, file: FakeFile | None, expected: str
) -> None:
    """Others may write to the folder: changed, longer, a folder, or missing."""
    if file:
        hdfs.files[f"{CACHE}/{ITEM.digest}"] = replace(file)
    check_fetch(container, expected)


def test_a_file_system_that_refuses(container: KubernetesExecutorContainer, hdfs: FakeWebHdfs) -> None:
    hdfs.fail_next("GETFILESTATUS", Trouble.FORBIDDEN)
    check_fetch(container, "source cannot be read from hdfs:///user/ann/files")
