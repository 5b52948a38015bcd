"""The pod of an AM attempt, seen from within: how often an AM is started."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kube.scripted_server import ScriptedServer
from tests.schedulers.kubernetes.fake_cluster import JOBS, PODS, Cluster, build_job, build_payload
from tony.kube.cluster_access import ClusterAccess
from tony.schedulers.client_interface import ATTEMPTS_WITHIN
from tony.schedulers.job_store.job_objects import build_labels
from tony.schedulers.kubernetes import am_container, executor_container
from tony.schedulers.kubernetes.access_rules import AM_RULES
from tony.schedulers.kubernetes.am_container import KubernetesAmContainer
from tony.schedulers.kubernetes.launch_payload import JOB_KEY, encode_payload
from tony.schedulers.kubernetes.manifests import TASK_PART

#: The container of an AM that was started again after the kernel had killed it.
RESTARTED = {
    "name": "tony",
    "state": {"running": {}},
    "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
}


class Pod:
    """The pod `am` of a job with `am_attempts = 2`; `work`: its volume."""

    def __init__(self, cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self._folder, self._monkeypatch = cluster, folder, monkeypatch
        record = build_job(cluster, folder).record
        record = replace(record, spec=replace(record.spec, am_attempts=2))
        (folder / JOB_KEY).write_bytes(encode_payload(build_payload(record)))
        cluster.rules = [
            {"verbs": [*rule.verbs], "apiGroups": [rule.group], "resources": [rule.resource]} for rule in AM_RULES
        ]
        cluster.api.objects[JOBS, record.job_id] = {"metadata": {"name": record.job_id}, "spec": {}, "status": {}}
        self.job, self.work = record.job_id, folder
        access = ClusterAccess(server=cluster.server.url, namespace="ml")
        monkeypatch.setattr(am_container, "load_service_account", lambda _: access)
        monkeypatch.setattr(executor_container, "SECRET", folder)
        monkeypatch.setenv("TONY_POD_NAME", "am")
        monkeypatch.setenv("TONY_POD_IP", "10.0.0.1")
        self.replace()

    def replace(self) -> None:
        """Give the AM another pod."""
        self.work = self._folder / f"work-{len(list(self._folder.iterdir()))}"
        self.work.mkdir()
        self._monkeypatch.setattr(am_container, "WORK", self.work)
        self.cluster.api.objects[PODS, "am"] = {
            "metadata": {"name": "am", "uid": "1"},
            "status": {"containerStatuses": [RESTARTED]},
        }

    def start(self) -> str:
        """Start an AM in the pod; return the name of its state directory."""
        container = KubernetesAmContainer()
        with contextlib.closing(container._client):
            return container.take_job().folder.path.parents[1].name


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pod]:
    with ScriptedServer().serve() as server:
        yield Pod(Cluster(server, tmp_path), tmp_path, monkeypatch)


def test_am_attempts_that_die_in_their_pod_count(pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    """The job fails with its pod: `backoffLimit` allows no other one, and its tasks are stopped."""
    assert [pod.start(), pod.start()] == ["tony-home-1", "tony-home-2"]
    for name, part in (("task", TASK_PART), ("other", "am")):
        pod.cluster.api.objects[PODS, name] = {"metadata": {"name": name, "labels": build_labels(pod.job, part)}}
    with pytest.raises(SystemExit) as caught:
        pod.start()
    assert caught.value.code == 43
    assert capsys.readouterr().err == (
        "2 of 2 AM attempts (am_attempts) died within 10 minutes; the last one: the kernel killed it at its memory "
        "limit: request more with `scheduler.kubernetes.am_memory`\n"
    )
    assert pod.cluster.api.objects[JOBS, pod.job]["spec"] == {"backoffLimit": 0}
    assert pod.cluster.api.list_names("pods") == ["am", "other"]


def test_a_history_that_cannot_be_written_fails_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.setattr(am_container, "_CLAIM_SECONDS", 0.0)
    with ScriptedServer().serve() as server:
        cluster = Cluster(server, tmp_path)
        cluster.settings |= {"history": "s3://bucket/ann"}
        with pytest.raises(SystemExit) as caught:
            Pod(cluster, tmp_path, monkeypatch).start()
    assert caught.value.code == 44
    error = capsys.readouterr().err
    assert error.startswith(
        "the job's history cannot be written in s3://bucket/ann (scheduler.kubernetes.history): there"
    )
    assert error.endswith("credentials from the Secret scheduler.kubernetes.s3_secret\n")


def test_am_attempts_whose_pods_end_do_not_count(pod: Pod) -> None:
    assert [pod.start(), pod.start()] == ["tony-home-1", "tony-home-2"]
    pod.replace()
    assert [pod.start(), pod.start()] == ["tony-home-3", "tony-home-4"]


def test_am_attempts_that_died_long_ago_do_not_count(pod: Pod) -> None:
    for _ in range(4):
        pod.start()
        for mark in pod.work.iterdir():
            before = mark.stat().st_mtime - ATTEMPTS_WITHIN
            os.utime(mark, (before, before))
