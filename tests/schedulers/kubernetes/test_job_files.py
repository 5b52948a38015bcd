"""The files of a job on a fake API server: sent once, shared, and removed when no job has needed them for long."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kube.scripted_server import Answer, Request
from tests.schedulers.kubernetes.fake_cluster import (
    JOBS,
    PODS,
    Cluster,
    build_pod,
    set_settings,
    submit,
    submit_again,
    submit_interrupted,
)
from tests.schedulers.kubernetes.fake_staging import FakeStaging
from tony.errors import ConfigError
from tony.model.staged_files import Placement, StagedItem, StagedJob, StagedRole
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.kubernetes import job_files, shared_objects, staging_pod
from tony.schedulers.kubernetes.launch_payload import build_piece_name
from tony.schedulers.kubernetes.manifests import RELEASE, build_staging_pod
from tony.schedulers.kubernetes.settings import read_settings
from tony.schedulers.kubernetes.staging_claim import StagingClaim
from tony.storage.cache.object_cache import Cache
from tony.units import format_size

CONFIG_MAPS = "/api/v1/namespaces/ml/configmaps"
CLAIMS = "/api/v1/namespaces/ml/persistentvolumeclaims"
CLAIM = StagingClaim("data", "tony-staging")
DAY = 86_400.0
SMALL, LARGE = b"small" * 100, b"large" * (3 << 20)


@pytest.fixture
def cluster(cluster: Cluster) -> Cluster:
    """A cluster with a claim."""
    cluster.settings |= {"staging": "pvc:data"}
    cluster.api.objects[CLAIMS, "data"] = {"metadata": {"name": "data", "uid": "uid-claim"}}
    return cluster


@pytest.fixture
def staging(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeStaging]:
    """The claim, and a kubelet that runs pods at once."""

    def start(request: Request) -> Answer:
        answer = answer_request(request)
        if request.method == "POST" and request.target.endswith("/pods"):
            cluster.api.update(PODS, request.body["metadata"]["name"], {"status": {"phase": "Running"}})
        return answer

    answer_request = cluster.server.answer
    cluster.server.answer = start
    with FakeStaging(tmp_path / "claim").serve() as found:
        monkeypatch.setattr(staging_pod, "forward_port", found.connect)
        yield found


def stage(job: PreparedJob, *contents: bytes) -> PreparedJob:
    """Return the job with files for its workers."""
    cache, items = Cache(job.home.cache), []
    for number, content in enumerate(contents):
        with cache.open_writer("store", len(content)) as writer:
            writer.write(content)
            stored = writer.commit()
        items.append(StagedItem(digest=stored.digest, size=stored.size, name=f"f{number}", placement=Placement.FILE))
    staged = StagedJob(roles={"worker": StagedRole(items=tuple(items))})
    return replace(job, record=replace(job.record, staged=staged))


def find_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_what_is_too_large_for_the_api_goes_to_the_claim(
    cluster: Cluster, job: PreparedJob, staging: FakeStaging
) -> None:
    """Only that; the second submission sends nothing, and needs no pod."""
    notices: list[str] = []
    staged = replace(stage(job, SMALL, LARGE), on_notice=notices.append)
    submit(staged)
    assert (staging.folder / find_digest(LARGE)).read_bytes() == LARGE
    names = cluster.api.list_names("configmaps")
    assert build_piece_name(find_digest(SMALL), 0) in names
    assert build_piece_name(find_digest(LARGE), 0) not in names
    assert not cluster.api.list_names("pods")
    record = cluster.api.objects[CONFIG_MAPS, CLAIM.build_record_name(find_digest(LARGE))]
    assert record["metadata"]["ownerReferences"][0]["uid"] == "uid-claim"
    before, connections = len(cluster.server.requests), staging.connections
    submit_again(staged, 2)
    created = [each.target for each in cluster.server.requests[before:] if each.method == "POST"]
    assert not [each for each in created if "pods" in each or "configmaps" in each]
    assert staging.connections == connections
    assert notices == [f"sending {format_size(len(LARGE))} to {CLAIM}"]


def test_tasks_read_the_claim_and_only_those_that_need_it(cluster: Cluster, job: PreparedJob) -> None:
    staged = stage(job, LARGE)
    record = set_settings(staged.record, volumes={"/data": "pvc:data"})
    worker, ps = (build_pod(record, role, pieces={find_digest(LARGE): 0})["spec"] for role in ("worker", "ps"))
    mounts = {each["mountPath"]: each for each in worker["containers"][0]["volumeMounts"]}
    assert mounts["/tony/staging"]["readOnly"]
    assert mounts["/tony/staging"]["name"] == mounts["/data"]["name"]  # two volumes of one claim may not start
    assert {"name": "TONY_STAGING", "value": "pvc:data/tony-staging"} in worker["containers"][0]["env"]
    assert "/tony/staging" not in {each["mountPath"] for each in ps["containers"][0]["volumeMounts"]}


def test_the_pod_that_writes_has_neither_rights_nor_secrets(cluster: Cluster, job: PreparedJob) -> None:
    """Not even the tokens of a job that uses HDFS: their Secret is created when the pod has the files."""
    cluster.settings["file_systems"] = ["hdfs://nn:8020"]
    settings, _ = read_settings(job.record.spec.scheduler_settings)
    assert settings.list_file_systems(job.record.staged)
    pod = build_staging_pod(job.record, settings, ("0" * 64, 1), CLAIM, "uid")["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert not [each for each in pod["volumes"] if "secret" in each]
    assert "serviceAccountName" not in pod
    assert "envFrom" not in pod["containers"][0]
    (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["mountPath"] == "/tony/staging"]
    assert "readOnly" not in mount


def test_without_a_claim_large_files_are_refused_with_their_sizes(cluster: Cluster, job: PreparedJob) -> None:
    del cluster.settings["staging"]
    sizes = r"have 1\d\.?\d* MiB \(f0 500 bytes, f1 15 MiB, tony .*takes 8 MiB.*pvc:CLAIM"
    with pytest.raises(ConfigError, match=sizes):
        submit(stage(job, SMALL, LARGE))
    assert not cluster.list_left()


def test_the_largest_files_leave_the_api_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_objects, "MAX_STAGED_BYTES", 100)
    sizes = {"a": 30, "b": 45, "c": 20, "d": 200}
    assert shared_objects.find_large_objects(sizes, 10) == {"b", "d"}
    assert shared_objects.find_large_objects({"a": 30}, 10) == set()


def test_nothing_is_left_if_the_claim_cannot_be_written(
    cluster: Cluster, job: PreparedJob, staging: FakeStaging
) -> None:
    staging.folder.write_text("a file")
    with pytest.raises(Exception, match="cannot write"):
        submit(stage(job, LARGE))
    assert not cluster.list_left()


def test_a_client_that_is_killed_while_it_sends_leaves_nothing(
    cluster: Cluster, job: PreparedJob, staging: FakeStaging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever request was its last one, the next submission removes the Job, and with it the pod."""
    monkeypatch.setattr(job_files, "find_large_objects", lambda sizes, _: sizes)
    submit(job)
    before = len(cluster.server.requests)
    submit_again(stage(job, SMALL), 98)
    total = len(cluster.server.requests) - before
    with monkeypatch.context() as patch:
        patch.setattr("tony.schedulers.kubernetes.submitter._delete_job", lambda *_: True)
        patch.setattr(staging_pod.StagingPod, "__exit__", lambda *_: None)
        for number in range(total):
            cluster.cut_after = number
            try:
                submit_again(stage(job, SMALL + bytes([number])), number)
            except Exception:
                pass
            cluster.cut_after = None
    assert cluster.api.list_names("pods")
    for name in cluster.api.list_names("pods"):  # it has had no client for a minute
        cluster.api.update(PODS, name, {"status": {"phase": "Succeeded"}})
    released = [each for (path, _), each in cluster.api.objects.items() if path.endswith("/jobs")]
    running = {each["metadata"]["name"] for each in released if not each["spec"]["suspend"]}
    cluster.api.now += 3600
    last = submit_again(job, 99)
    assert set(cluster.api.list_names("jobs")) == running | {last}
    owners = {name.removesuffix("-staging") for name in cluster.api.list_names("pods")}
    assert owners <= running


@pytest.mark.parametrize("target", ["pods", "jobs"])
async def test_an_interrupted_submission_stops_and_leaves_nothing(
    cluster: Cluster, job: PreparedJob, staging: FakeStaging, target: str
) -> None:
    """While its pod starts, and while the Job is being released."""
    answer_request = cluster.server.answer

    def install(interrupt: Callable[[], None]) -> None:
        def answer(request: Request) -> Answer:
            if request.method == ("POST" if target == "pods" else "PATCH") and f"/{target}" in request.target:
                interrupt()
            return answer_request(request)

        cluster.server.answer = answer

    await submit_interrupted(stage(job, LARGE), install)
    assert not cluster.list_left()


def test_a_job_whose_files_are_still_sent_is_not_removed(cluster: Cluster, job: PreparedJob) -> None:
    submit(job)
    suspended = {"metadata": {"labels": {"tony.dev/submission": "incomplete"}}, "spec": {"suspend": True}}
    cluster.api.update(JOBS, job.record.job_id, suspended)
    labels = {"tony.dev/job": job.record.job_id, "tony.dev/part": "staging"}
    started = {"name": "p", "labels": labels, "creationTimestamp": "2027-01-15T09:00:00Z"}
    cluster.api.objects[PODS, "p"] = {"metadata": started, "status": {"phase": "Running"}}
    cluster.api.now += 3600
    submit_again(job, 2)
    cluster.api.update(PODS, "p", {"status": {"phase": "Pending"}})
    submit_again(job, 3)
    assert job.record.job_id in cluster.api.list_names("jobs")
    cluster.api.now += 3600  # its client would have given up
    submit_again(job, 4)
    assert job.record.job_id not in cluster.api.list_names("jobs")


def test_a_job_that_is_released_meanwhile_is_not_removed(cluster: Cluster, job: PreparedJob) -> None:
    """The other submission has listed it as incomplete, and no longer finds a pod that receives files."""
    submit(job)
    suspended = {"metadata": {"labels": {"tony.dev/submission": "incomplete"}}, "spec": {"suspend": True}}
    cluster.api.update(JOBS, job.record.job_id, suspended)
    cluster.api.now += 3600
    answer_request = cluster.server.answer

    def release(request: Request) -> Answer:
        if request.method == "GET" and "staging" in request.target:
            cluster.api.update(JOBS, job.record.job_id, dict(RELEASE))
        return answer_request(request)

    cluster.server.answer = release
    submit_again(job, 2)
    assert job.record.job_id in cluster.api.list_names("jobs")


def test_the_pod_that_receives_files_lives_until_the_job_is_released(
    cluster: Cluster, job: PreparedJob, staging: FakeStaging
) -> None:
    submit(stage(job, LARGE))
    changes = [each for each in cluster.server.requests if each.method in ("PATCH", "DELETE")]
    assert changes[-2].body == RELEASE
    assert changes[-1].target.partition("?")[0].endswith("-staging")


# --- removal ----------------------------------------------------------------------------------------------------------


def test_objects_are_removed_when_no_job_has_needed_them_for_long(
    cluster: Cluster, job: PreparedJob, staging: FakeStaging
) -> None:
    staged = stage(job, SMALL, LARGE)
    submit(staged)
    names = {build_piece_name(find_digest(SMALL), 0), CLAIM.build_record_name(find_digest(LARGE))}
    cluster.api.now += 30 * DAY
    submit_again(job, 2)
    assert names <= set(cluster.api.list_names("configmaps"))  # the job may run for long, and start further pods
    cluster.api.remove(JOBS, job.record.job_id)
    submit_again(job, 3)
    assert not names & set(cluster.api.list_names("configmaps"))


def test_an_object_in_the_claim_that_a_job_needs_stays_without_its_record(
    cluster: Cluster, job: PreparedJob, staging: FakeStaging
) -> None:
    """All records may have been deleted by hand."""
    submit(stage(job, LARGE))
    cluster.api.remove(CONFIG_MAPS, CLAIM.build_record_name(find_digest(LARGE)))
    os.utime(staging.folder / find_digest(LARGE), times=(0, 0))
    other = b"other" * (3 << 20)
    submit_again(stage(job, other), 2)
    assert {each.name for each in staging.folder.iterdir()} == {find_digest(LARGE), find_digest(other)}
    cluster.api.remove(JOBS, job.record.job_id)
    submit_again(stage(job, b"third" * (3 << 20)), 3)
    assert not (staging.folder / find_digest(LARGE)).exists()


@pytest.mark.parametrize("name", ["tony", "notes", "tony-x-0", "kept-by-hand"])
def test_other_config_maps_with_the_labels_of_objects_stay(cluster: Cluster, job: PreparedJob, name: str) -> None:
    metadata = {"name": name, "labels": dict(shared_objects.OBJECT_LABELS), "creationTimestamp": "2020-01-01T00:00:00Z"}
    cluster.api.objects[CONFIG_MAPS, name] = {"metadata": metadata | {"uid": "u", "resourceVersion": "1"}}
    submit(job)
    assert name in cluster.api.list_names("configmaps")


def test_objects_that_are_used_again_stay(cluster: Cluster, job: PreparedJob) -> None:
    staged = stage(job, SMALL)
    name = build_piece_name(find_digest(SMALL), 0)
    submit(staged)
    cluster.api.remove(JOBS, job.record.job_id)
    for number in range(3):
        cluster.api.now += 6 * DAY
        cluster.api.remove(JOBS, submit_again(staged, number))
        uid = cluster.api.objects[CONFIG_MAPS, name]["metadata"]["uid"]
    cluster.api.now += 6 * DAY
    submit_again(job, 9)
    assert cluster.api.objects[CONFIG_MAPS, name]["metadata"]["uid"] == uid


@pytest.mark.parametrize("is_late", [False, True])
def test_an_object_is_not_removed_below_a_submission(cluster: Cluster, job: PreparedJob, is_late: bool) -> None:
    """A submission uses an old object while another one removes it: before that, or after it has looked for it."""
    staged = stage(job, SMALL)
    submit(staged)
    cluster.api.remove(JOBS, job.record.job_id)
    cluster.api.now += 30 * DAY
    name = build_piece_name(find_digest(SMALL), 0)
    answer_request = cluster.server.answer

    def interfere(request: Request) -> Answer:
        method = "PATCH" if is_late else "DELETE"
        if request.method == method and request.target.endswith(f"/{name}"):
            cluster.server.answer = answer_request
            submit_again(job if is_late else staged, 2)
        return answer_request(request)

    cluster.server.answer = interfere
    submit_again(staged if is_late else job, 3)
    assert cluster.server.answer == answer_request
    assert name in cluster.api.list_names("configmaps")
