"""Histories of jobs on Kubernetes that are kept in HDFS: written there, and found from other machines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.schedulers.kubernetes.fake_cluster import JOBS, Cluster, build_hadoop_settings, build_job, submit
from tests.support.hadoop.fake_webhdfs import FakeWebHdfs, Trouble
from tony.errors import InfraError, SchedulerError, TonyError
from tony.hadoop.tokens import TokenCredentials
from tony.model.codec import to_plain
from tony.model.log_file_tail import LogFileTail
from tony.model.state_directory import Home, build_segment_name
from tony.portal.histories.history_locations import open_location
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.job_store.config_map_job_store import ConfigMapJobStore
from tony.schedulers.job_store.job_store import JobStore
from tony.schedulers.job_store.output_store import OutputStore
from tony.schedulers.kubernetes import hadoop_access, history_location
from tony.schedulers.kubernetes.cluster_clients import create_client
from tony.schedulers.kubernetes.hadoop_access import HadoopAccess, HadoopSummary
from tony.schedulers.kubernetes.history_location import HistoryReader, open_own_history
from tony.schedulers.kubernetes.history_setting import HISTORY_ANNOTATION
from tony.schedulers.kubernetes.pod_settings import find_pod_problems
from tony.schedulers.kubernetes.settings import read_settings
from tony.schedulers.kubernetes.submitter import KubernetesSubmitter
from tony.storage.hdfs.hdfs_clients import HdfsClients

FOLDER = "/user/ann/tony"


@pytest.fixture
def cluster(cluster: Cluster, hdfs: FakeWebHdfs, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster.settings |= {"history": f"hdfs://nn:8020/{FOLDER}"}
    monkeypatch.setenv("KUBECONFIG", cluster.settings["kubeconfig"])
    return cluster


@pytest.fixture
def job(cluster: Cluster, tmp_path: Path) -> PreparedJob:
    made = build_job(cluster, tmp_path)
    return replace(made, record=replace(made.record, job_id="kubernetes-20260102-030405-abcdef"))


@pytest.fixture
def store(
    cluster: Cluster, job: PreparedJob, hdfs: FakeWebHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobStore]:
    """The files of a submitted job, as its application master opens them."""
    submit(job)
    summary = HadoopSummary(user="ann", settings=build_hadoop_settings(hdfs), file_systems=("",), is_fetched=False)
    (tmp_path / "hadoop").mkdir()
    for key, value in HadoopAccess(summary, TokenCredentials()).encode().items():
        (tmp_path / "hadoop" / key).write_bytes(value)
    monkeypatch.setattr(hadoop_access, "HADOOP", tmp_path / "hadoop")
    settings, _ = read_settings(job.record.spec.scheduler_settings)
    client = create_client(settings)
    with closing(open_own_history(client, job.record.job_id, "uid", settings.history_address)) as opened:
        yield opened


def write_history(job: PreparedJob, store: JobStore) -> None:
    """Write what an application master does while it runs."""
    assert store.claim_attempt(build_segment_name) == 1
    store.put_json("job.json", to_plain(job.record))
    store.put_json("am.json", {"attempt": 1, "address": "tls:10.0.0.1:7070"})
    store.put_json("access.json", {"secret": "x"})
    OutputStore(store, 1).put([LogFileTail(name="worker-0.s1.t1.out", offset=0, data=b"the end\n")])


def test_the_setting(job: PreparedJob) -> None:
    for text, is_valid in (("configmaps", True), ("hdfs:///x", True), ("pvc:data", False), ("hdfs://nn", False)):
        settings, _ = read_settings({**job.record.spec.scheduler_settings, "history": text})
        keys = [problem.key for problem in find_pod_problems(job.record.spec, settings)]
        assert keys == ([] if is_valid else ["scheduler.kubernetes.history"])


def test_a_history_that_no_command_could_read_is_a_problem(cluster: Cluster, tmp_path: Path) -> None:
    cluster.settings["history"] = "hdfs://other:8020/user/ann"
    job = build_job(cluster, tmp_path)
    (problem,) = KubernetesSubmitter(job.home).check(job.record.spec)
    assert (problem.key, problem.value) == ("scheduler.kubernetes.history", "hdfs://other:8020/user/ann")


def test_a_job_directory_with_an_unknown_place_is_an_error(job: PreparedJob, cluster: Cluster) -> None:
    """A newer tony, or another user, has written it."""
    settings = {**job.record.spec.scheduler_settings, "history": "s3://bucket"}
    record = replace(job.record, spec=replace(job.record.spec, scheduler_settings=settings))
    folder = job.home.job(job.record.job_id)
    folder.path.mkdir(parents=True)
    folder.job.write_text(json.dumps(to_plain(record)))
    client = create_client(read_settings(job.record.spec.scheduler_settings)[0])
    with closing(client), pytest.raises(SchedulerError, match=r"scheduler\.kubernetes\.history of .*expected"):
        HistoryReader(job.home).open_history(client, job.record.job_id)


def test_the_history_is_in_hdfs_and_what_leads_to_the_job_in_the_namespace(
    cluster: Cluster, job: PreparedJob, store: JobStore, hdfs: FakeWebHdfs
) -> None:
    name = job.record.job_id
    notes = cluster.api.objects[JOBS, name]["metadata"]["annotations"]
    assert notes[HISTORY_ANNOTATION] == f"hdfs://nn:8020{FOLDER}"
    assert hdfs.files[f"{FOLDER}/jobs/{name}"].permission == 0o700
    write_history(job, store)
    stored = {path.rpartition("/")[2] for path, file in hdfs.files.items() if file.content is not None}
    assert stored == {"events.1.jsonl", "job.json", "output.1.1.jsonl"}
    objects = [each for each in cluster.api.list_names("configmaps") if each.startswith(name)]
    assert objects == [f"{name}.am.json"]
    assert f"{name}.access.json" in cluster.api.list_names("secrets")
    assert store.list().keys() == stored | {"am.json", "access.json"}


def test_a_client_logs_in_once(
    cluster: Cluster, job: PreparedJob, store: JobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the history again and again while it follows a job, and each login can cost a new token."""
    found: list[str] = []
    find = history_location._find_clients

    def find_noted(home: Home, address: str) -> HdfsClients:
        found.append(address)
        return find(home, address)

    monkeypatch.setattr(history_location, "_find_clients", find_noted)
    write_history(job, store)
    submitter = KubernetesSubmitter(Home(tmp_path / "other"))
    for _ in range(3):
        asyncio.run(submitter.fetch(Home(tmp_path / "other").job(job.record.job_id)))
    assert len(found) == 1


def test_another_machine_finds_it(cluster: Cluster, job: PreparedJob, store: JobStore, tmp_path: Path) -> None:
    """By the Job; later, when that is gone, by what it has found before."""
    write_history(job, store)
    name = job.record.job_id
    other = Home(tmp_path / "other").job(name)
    asyncio.run(KubernetesSubmitter(Home(tmp_path / "other")).fetch(other))
    assert json.loads(other.job.read_text())["job_id"] == name
    assert json.loads(other.am.read_text())["address"] == "tls:10.0.0.1:7070"
    cluster.api.remove(JOBS, name)
    store.put_json("summary.json", {})
    asyncio.run(KubernetesSubmitter(Home(tmp_path / "other")).fetch(other))
    assert other.summary.exists()


@pytest.mark.parametrize("has_configuration", [False, True])
def test_a_job_does_not_choose_where_its_readers_authenticate(
    cluster: Cluster,
    job: PreparedJob,
    hdfs: FakeWebHdfs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    has_configuration: bool,
) -> None:
    """Anyone who may write Jobs can have written the address."""
    submit(job)
    annotation = {HISTORY_ANNOTATION: f"hdfs://127.0.0.1:{hdfs.port}/x"}
    cluster.api.update(JOBS, job.record.job_id, {"metadata": {"annotations": annotation}})
    if not has_configuration:
        monkeypatch.delenv("HADOOP_CONF_DIR")
    before = len(hdfs.requests)
    home = Home(tmp_path / "other")
    expected = "does not name this file system" if has_configuration else "no Hadoop configuration is set"
    with pytest.raises(SchedulerError, match=f"the history of {job.record.job_id} is in hdfs://.*{expected}"):
        asyncio.run(KubernetesSubmitter(home).fetch(home.job(job.record.job_id)))
    assert len(hdfs.requests) == before


def test_a_folder_that_cannot_be_written_is_found_at_submission(
    cluster: Cluster, job: PreparedJob, hdfs: FakeWebHdfs
) -> None:
    hdfs.fail_next("MKDIRS", Trouble.FORBIDDEN)
    with pytest.raises(InfraError, match="Permission denied"):
        submit(job)
    assert not cluster.list_left()


def test_the_portal_shows_it_with_the_others(job: PreparedJob, store: JobStore, tmp_path: Path) -> None:
    write_history(job, store)
    path = f"jobs/{job.record.job_id}"
    with closing(open_location("kubernetes://c/ml", Home(tmp_path / "portal"), {})) as location:
        names = {item.name for item in location.list(path)}
        assert names == {"events.1.jsonl", "job.json", "output.1.1.jsonl", "am.json"}
        content = location.read(f"{path}/job.json", 1 << 20)
        assert content is not None
        assert json.loads(content)["job_id"] == job.record.job_id
        (tail,) = location.read_tails(path)
        assert tail.data == b"the end\n"


def test_the_portal_needs_hadoop_only_for_such_jobs(
    cluster: Cluster, job: PreparedJob, store: JobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_history(job, store)
    plain = {"metadata": {"name": "kubernetes-20260102-030405-ffffff", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    plain["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "tony"}  # type: ignore[assignment]
    cluster.api.objects[JOBS, "kubernetes-20260102-030405-ffffff"] = plain
    settings, _ = read_settings(job.record.spec.scheduler_settings)
    with closing(create_client(settings)) as client:
        ConfigMapJobStore(client, "kubernetes-20260102-030405-ffffff").put("job.json", b"{}")
    monkeypatch.delenv("HADOOP_CONF_DIR")
    with closing(open_location("kubernetes://c/ml", Home(tmp_path / "portal"), {})) as location:
        assert len(location.list("jobs")) == 2
        assert [item.name for item in location.list("jobs/kubernetes-20260102-030405-ffffff")] == ["job.json"]
        with pytest.raises(TonyError, match=r"is in hdfs://nn:8020/.*no Hadoop configuration is set"):
            location.list(f"jobs/{job.record.job_id}")
