"""A job's objects on a fake API server: what is created, in which order, and that nothing is left of a failure."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from tests.kube.fake_api import Object, refuse
from tests.kube.scripted_server import Answer, Request
from tests.schedulers.kubernetes.fake_cluster import JOBS, PODS, Cluster, build_pod, submit, submit_again
from tony.client.credential_creation import make_credentials
from tony.errors import ConfigError, SchedulerError, UncertainSubmissionError, UnknownJobError
from tony.history.job_record import record_of
from tony.history.json_files import write_json
from tony.jobs.job_ids import resolve
from tony.jobs.status.report_from_log import build_last_report
from tony.kube.api_client import parse_time
from tony.kube.errors import KubeApiError
from tony.model.codec import to_plain
from tony.model.failure import FailureCause
from tony.model.job_spec import JobSpec
from tony.model.log_file_tail import LogFileTail
from tony.model.state_directory import Home
from tony.model.states import JobState
from tony.schedulers.client_interface import LogSink, PreparedJob
from tony.schedulers.job_store.config_map_job_store import ConfigMapJobStore
from tony.schedulers.job_store.job_objects import build_labels
from tony.schedulers.job_store.output_store import OutputStore
from tony.schedulers.kubernetes.cluster_clients import create_client, localize_record
from tony.schedulers.kubernetes.manifests import RELEASE
from tony.schedulers.kubernetes.settings import read_settings
from tony.schedulers.kubernetes.submitter import KubernetesSubmitter
from tony.schedulers.settings_schema import load_recorded_values
from tony.testing.sample_jobs import build_prepared_job

GOLDEN = Path(__file__).parents[2] / "golden" / "schedulers" / "kubernetes.json"


class TailSink:
    def __init__(self) -> None:
        self.tails: list[LogFileTail] = []

    def put_tail(self, tail: LogFileTail) -> None:
        self.tails.append(tail)


@pytest.fixture
def spec(job: PreparedJob) -> JobSpec:
    return job.record.spec


def test_the_job_owns_its_secrets_and_is_released_last(cluster: Cluster, job: PreparedJob) -> None:
    submit(job)
    name = job.record.job_id
    created = cluster.api.objects[JOBS, name]
    assert created["spec"]["suspend"] is False
    secrets = [each for (path, _), each in cluster.api.objects.items() if path.endswith("/secrets")]
    assert [each["metadata"]["ownerReferences"][0]["uid"] for each in secrets] == [created["metadata"]["uid"]] * 3
    changes = [each for each in cluster.server.requests if each.method != "GET"]
    assert (changes[-1].method, changes[-1].body) == ("PATCH", RELEASE)


def test_without_container_env_there_is_no_secret_for_it(cluster: Cluster, job: PreparedJob) -> None:
    record = replace(job.record, spec=replace(job.record.spec, container_env={}))
    submit(replace(job, record=record))
    assert cluster.api.list_names("secrets") == [f"{record.job_id}-am", f"{record.job_id}-x"]
    assert "envFrom" not in build_pod(record)["spec"]["containers"][0]


def test_tasks_do_not_get_the_secrets_of_the_am(cluster: Cluster, job: PreparedJob) -> None:
    submit(job)
    content = cluster.api.objects["/api/v1/namespaces/ml/secrets", f"{job.record.job_id}-x"]["data"]
    own = json.loads(base64.b64decode(content["credentials.json"]))
    assert own == to_plain(make_credentials(tls=False).executors) | {"token": own["token"]}
    spec = cluster.api.objects[JOBS, job.record.job_id]["spec"]["template"]["spec"]
    assert own["token"] not in json.dumps(spec)


def test_a_second_submission_sends_no_file_again(cluster: Cluster, job: PreparedJob, tmp_path: Path) -> None:
    submit(job)
    before = len(cluster.server.requests)
    again = build_prepared_job(tmp_path / "home", job.record.spec)
    again = replace(again, record=replace(again.record, job_id=f"{again.record.job_id}-2"))
    write_json(again.folder.credentials, to_plain(make_credentials(tls=False)))
    submit(again)
    assert not [each for each in cluster.server.requests[before:] if each.target.endswith("/configmaps")]


@pytest.mark.parametrize("refused", [("POST", "secrets"), ("PATCH", "jobs")])
def test_nothing_is_left_of_a_submission_that_fails(
    cluster: Cluster, job: PreparedJob, refused: tuple[str, str]
) -> None:
    cluster.refused[refused] = refuse(403, "Forbidden", "exceeded quota")
    with pytest.raises(KubeApiError, match="exceeded quota"):
        submit(job)
    assert not cluster.list_left()


def test_a_job_whose_release_was_not_answered_is_kept(cluster: Cluster, job: PreparedJob) -> None:
    """It runs if the request has arrived; removed from this machine it would be lost, and submitted twice."""
    cluster.refused[("PATCH", "jobs")] = cluster.refused[("DELETE", "jobs")] = refuse(500, "InternalError", "a fault")
    with pytest.raises(UncertainSubmissionError, match=f"a fault; job {job.record.job_id} may be running"):
        submit(job)
    assert cluster.api.list_names("jobs") == [job.record.job_id]


def test_objects_of_a_killed_client_are_removed_by_the_next_submission(
    cluster: Cluster, job: PreparedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever request was its last one: the job runs, or nothing is left of it."""

    def count_requests(number: int) -> int:
        before = len(cluster.server.requests)
        submit_again(job, number)
        return len(cluster.server.requests) - before

    count_requests(0)  # sends the files
    total = count_requests(1)
    running = {f"{job.record.job_id}-{number}" for number in (0, 1)}
    with monkeypatch.context() as patch:
        patch.setattr("tony.schedulers.kubernetes.submitter._delete_job", lambda *_: True)
        for number in range(total):
            name = f"{job.record.job_id}-{number + 2}"
            cluster.cut_after = number
            with contextlib.suppress(KubeApiError):
                submit_again(job, number + 2)
            cluster.cut_after = None
            created = cluster.api.objects.get((JOBS, name))
            running |= {name} if created and not created["spec"]["suspend"] else set()
    assert {name for name in cluster.api.list_names("jobs") if name not in running}
    young = submit_again(job, 98)
    assert {name for name in cluster.api.list_names("jobs") if name not in running | {young}}
    cluster.api.now += 3600
    last = submit_again(job, 99)
    assert set(cluster.api.list_names("jobs")) == running | {young, last}
    jobs = sorted(running | {young, last})
    assert cluster.api.list_names("secrets") == sorted(f"{name}-{part}" for name in jobs for part in ("am", "env", "x"))


@pytest.mark.parametrize("lost", [("POST", "jobs"), ("POST", "secrets"), ("POST", "configmaps"), ("PATCH", "jobs")])
def test_a_lost_answer_does_not_fail_a_submission(cluster: Cluster, job: PreparedJob, lost: tuple[str, str]) -> None:
    cluster.lost.append(lost)
    submit(job)
    assert not cluster.lost
    assert cluster.api.objects[JOBS, job.record.job_id]["spec"]["suspend"] is False
    assert len(cluster.list_left()) == 4


def test_a_job_whose_submission_was_interrupted_is_ended_at_once(cluster: Cluster, job: PreparedJob) -> None:
    """It is suspended: its time limit would never begin."""
    submit(job)
    name = job.record.job_id
    label = {"metadata": {"labels": {"tony.dev/submission": "incomplete"}}, "spec": {"suspend": True}}
    cluster.api.update(JOBS, name, label)
    submitter = KubernetesSubmitter(job.home)
    found = asyncio.run(submitter.application_status(name))
    assert found
    assert "submission" in found.note
    asyncio.run(submitter.withdraw(job.folder, "killed by ann"))
    assert not cluster.list_left()


def test_a_job_that_would_be_refused_is_not_submitted(cluster: Cluster, spec: JobSpec, job: PreparedJob) -> None:
    submitter = KubernetesSubmitter(job.home)
    assert list(submitter.check(spec)) == []
    assert not cluster.list_left()
    cluster.refused["POST", "pods"] = refuse(403, "Forbidden", "violates PodSecurity")
    assert {(each.key, "violates PodSecurity" in each.message) for each in submitter.check(spec)} == {
        ("scheduler.kubernetes", True),
        ("roles.ps", True),
        ("roles.worker", True),
    }


def test_a_webhook_that_does_not_answer_is_named_before_submission(
    cluster: Cluster, spec: JobSpec, job: PreparedJob
) -> None:
    """Any other failure of the server passes."""
    submitter = KubernetesSubmitter(job.home)
    cluster.refused["POST", "pods"] = refuse(500, "InternalError", "etcdserver: leader changed")
    assert list(submitter.check(spec)) == []
    cluster.refused["POST", "pods"] = refuse(500, "InternalError", 'failed calling webhook "down.example.com"')
    assert all("down.example.com" in each.message for each in submitter.check(spec))
    assert len(submitter.check(spec)) == 3


def test_the_pod_of_the_am_is_checked_as_well(cluster: Cluster, spec: JobSpec, job: PreparedJob) -> None:
    """The API server accepts a Job whose pod it would refuse, such as one of an unknown priority class."""
    default = cluster.server.answer

    def answer(request: Request) -> Answer:
        if request.target.split("?")[0].endswith("/pods") and "priorityClassName" in request.body["spec"]:
            return refuse(403, "Forbidden", "no PriorityClass with name none was found")
        return default(request)

    cluster.server.answer = answer
    template = {"spec": {"priorityClassName": "none"}}
    asked = replace(spec, scheduler_settings={**spec.scheduler_settings, "am_template": template})
    (problem,) = KubernetesSubmitter(job.home).check(asked)
    assert problem.key == "scheduler.kubernetes"
    assert "no PriorityClass" in problem.message
    cluster.refused["POST", "jobs"] = refuse(422, "Invalid", "unknown field")
    (problem,) = KubernetesSubmitter(job.home).check(asked)
    assert "unknown field" in problem.message


def test_a_volume_that_is_missing_is_named(cluster: Cluster, spec: JobSpec, job: PreparedJob) -> None:
    asked = replace(spec, scheduler_settings={**spec.scheduler_settings, "volumes": {"/data": "pvc:data"}})
    (problem,) = KubernetesSubmitter(job.home).check(asked)
    assert (problem.key, problem.value) == ("scheduler.kubernetes.volumes", "pvc:data")


def test_missing_rights_are_named(cluster: Cluster, spec: JobSpec, job: PreparedJob) -> None:
    cluster.rules = [rule for rule in cluster.rules if rule["resources"] != ["pods/portforward"]]
    (problem,) = KubernetesSubmitter(job.home).check(spec)
    assert "you may not get pods/portforward, create pods/portforward in namespace ml" in problem.message
    cluster.rules = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    del cluster.api.objects["/api/v1/namespaces/ml/serviceaccounts", "tony"]
    (problem,) = KubernetesSubmitter(job.home).check(spec)
    assert "kubectl -n ml create rolebinding tony --role=tony --serviceaccount=ml:tony" in problem.message
    del cluster.api.objects["/api/v1/namespaces", "ml"]
    (problem,) = KubernetesSubmitter(job.home).check(spec)
    assert (problem.key, problem.value) == ("scheduler.kubernetes.namespace", "ml")
    assert "the cluster has no such namespace" in problem.message


def test_what_a_gang_needs_of_the_cluster_is_checked(cluster: Cluster, spec: JobSpec, job: PreparedJob) -> None:
    """PodGroups if the job says so, and a queue of Kueue; the Role has verbs on them only then."""

    def check(**settings: str) -> str:
        problems = KubernetesSubmitter(job.home).check(
            replace(spec, scheduler_settings={**spec.scheduler_settings, **settings})
        )
        return " ".join(f"{each.key}: {each.message}" for each in problems)

    assert "gang: the cluster has no PodGroup" in check(gang="native")
    assert "queue: the cluster has no Kueue" in check(queue="users")
    cluster.api.optional = {
        "scheduling.k8s.io": {"v1alpha2": ("podgroups",)},
        "kueue.x-k8s.io": {"v1beta1": ("localqueues", "workloads")},
    }
    assert check(gang="native") == ""
    assert "no such LocalQueue" in check(queue="users")
    queues = "/apis/kueue.x-k8s.io/v1beta1/namespaces/ml/localqueues"
    cluster.api.objects[queues, "users"] = {"metadata": {"name": "users"}}
    assert check(queue="users") == ""
    cluster.api.objects["/api/v1/namespaces", "ml"] = {"metadata": {"name": "ml"}}
    del cluster.api.objects["/api/v1/namespaces/ml/serviceaccounts", "tony"]
    assert "podgroups.scheduling.k8s.io" in check()
    assert "workloads.kueue.x-k8s.io" in check(queue="users")
    assert "podgroups" not in check(gang="none")


def test_a_job_is_compared_with_quotas_and_nodes(cluster: Cluster, spec: JobSpec, job: PreparedJob) -> None:
    """A quota refuses what exceeds it; a node may be added."""
    submitter = KubernetesSubmitter(job.home)
    assert (submitter.check(spec), submitter.notices(spec)) == ([], [])
    nodes, quotas = "/api/v1/nodes", "/api/v1/namespaces/ml/resourcequotas"
    allocatable = {"cpu": "64", "memory": "1Mi"}
    cluster.api.objects[nodes, "n"] = {"metadata": {"name": "n"}, "spec": {}, "status": {"allocatable": allocatable}}
    assert submitter.check(spec) == []
    assert any("a task of worker requests" in notice for notice in submitter.notices(spec))
    cluster.api.objects[quotas, "q"] = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    (problem,) = submitter.check(spec)
    assert "quota q of the namespace allows 1 in all (pods)" in problem.message


def test_without_an_image_nothing_is_asked(job: PreparedJob, spec: JobSpec, cluster: Cluster) -> None:
    (problem,) = KubernetesSubmitter(job.home).check(replace(spec, scheduler_settings={}))
    assert problem.key == "scheduler.kubernetes.image"
    assert not cluster.server.requests


def build_condition(kind: str, **more: str) -> Object:
    return {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z", **more}


def test_a_job_that_was_killed_before_its_am_started_names_the_user(cluster: Cluster, job: PreparedJob) -> None:
    submit(job)
    submitter = KubernetesSubmitter(job.home)
    asyncio.run(submitter.withdraw(job.folder, "killed by ann"))
    asyncio.run(submitter.sweep(job.folder))
    deadline = build_condition("Failed", reason="DeadlineExceeded", message="Job was active longer than ...")
    cluster.api.update(JOBS, job.record.job_id, {"status": {"conditions": [deadline]}})
    status = asyncio.run(submitter.application_status(job.record.job_id))
    report = build_last_report(job.folder, replace(job.record, submitted=0.0), status)
    assert report.failure
    assert (report.state, report.failure.reason) == (JobState.KILLED, "killed by ann")
    assert report.ended == parse_time("2026-01-01T00:01:00Z")


def test_the_state_of_a_job_follows_its_conditions(cluster: Cluster, job: PreparedJob) -> None:
    submit(job)
    name = job.record.job_id
    submitter = KubernetesSubmitter(job.home)

    def find() -> object:
        found = asyncio.run(submitter.application_status(name))
        assert found
        return found.alive, found.result, found.given_up

    assert find() == (True, None, False)
    terminated: Object = {"exitCode": 44, "message": "it needs its Role"}
    exited = {"name": "tony", "state": {"terminated": terminated}}
    labels = build_labels(name, "am")
    pod = {"metadata": {"name": "am", "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"}}
    cluster.api.objects[PODS, "am"] = {**pod, "status": {"phase": "Failed", "containerStatuses": [exited]}}
    assert find() == (False, None, True)  # it could not end the Job
    terminated["exitCode"] = 42
    assert find() == (False, JobState.FAILED, False)
    cluster.api.remove(PODS, "am")
    for kind, expected in (("Complete", (False, JobState.SUCCEEDED, False)), ("Failed", (False, None, True))):
        cluster.api.update(JOBS, name, {"status": {"conditions": [build_condition(kind)]}})
        assert find() == expected
    cluster.api.remove(JOBS, name)
    assert find() == (False, JobState.FAILED, False)


def test_a_job_whose_application_master_failed_says_why(cluster: Cluster, job: PreparedJob) -> None:
    """In the words with which it ended; Kubernetes knows the exit code only."""
    submit(job)
    name = job.record.job_id
    failed = build_condition("Failed", message="Container tony failed with exit code 42")
    cluster.api.update(JOBS, name, {"status": {"conditions": [failed]}})
    terminated = {"exitCode": 42, "message": "service account tony may not watch pods"}
    status = {"phase": "Failed", "containerStatuses": [{"name": "tony", "state": {"terminated": terminated}}]}
    metadata: Object = {"name": f"{name}-x", "labels": dict(build_labels(name, "am"))}
    cluster.api.objects["/api/v1/namespaces/ml/pods", f"{name}-x"] = {"metadata": metadata, "status": status}
    found = asyncio.run(KubernetesSubmitter(job.home).application_status(name))
    assert found
    assert found.note == "the application master exited with exit code 42: service account tony may not watch pods"


@pytest.mark.parametrize(
    ("phase", "state", "reason"),
    [
        ("Pending", {"waiting": {"reason": "ErrImageNeverPull", "message": "no x"}}, "ErrImageNeverPull: no x"),
        (
            "Failed",
            {"terminated": {"exitCode": 128, "reason": "StartError", "message": 'exec: "python3": not found in $PATH'}},
            "image x cannot be used: it has no python3 on its PATH, and tony needs Python 3.11 or later",
        ),
    ],
)
def test_a_job_whose_am_cannot_start_has_failed_for_that_reason(
    cluster: Cluster, job: PreparedJob, phase: str, state: Object, reason: str
) -> None:
    """Its pod may have ended before a command sees it."""
    submit(job)
    name = job.record.job_id
    container = {"name": "tony", "image": "x", "state": state}
    labels = {"tony.dev/job": name, "tony.dev/part": "am"}
    pod = {
        "metadata": {"name": "am", "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {},
        "status": {"phase": phase, "containerStatuses": [container]},
    }
    cluster.api.objects["/api/v1/namespaces/ml/pods", "am"] = pod
    status = asyncio.run(KubernetesSubmitter(job.home).application_status(name))
    assert status
    assert (status.note, status.is_unstartable) == (reason, True)
    failure = build_last_report(job.folder, job.record, status).failure
    assert failure
    assert failure.diagnosis
    assert (failure.reason, failure.cause) == (reason, FailureCause.REFUSED)
    assert "image" in failure.diagnosis.advice


def test_kept_output_is_fetched_as_long_as_the_job_is_in_the_cluster(cluster: Cluster, job: PreparedJob) -> None:
    logs = TailSink()
    fetch = partial(KubernetesSubmitter(job.home).fetch_logs, job.folder, {}, cast(LogSink, logs))
    client = create_client(read_settings(job.record.spec.scheduler_settings)[0])
    store = ConfigMapJobStore(client, job.record.job_id)
    store.put("job.json", b"{}")
    asyncio.run(fetch())
    assert logs.tails == []
    tail = LogFileTail(name="worker-0.s1.t1.out", offset=3, data=b"end")
    OutputStore(store, 1).put([tail])
    asyncio.run(fetch())
    assert logs.tails == [tail]
    for name in store.list():
        store.delete(name)
    with pytest.raises(SchedulerError, match="removed from the cluster, and with them its output"):
        asyncio.run(fetch())
    client.close()


def test_the_objects_of_a_job(job: PreparedJob) -> None:
    """What is sent, letter by letter. Pods of roles with the same settings differ in one label."""
    record = replace(
        job.record,
        job_id="kubernetes-20260102-030405-abcdef",
        spec=replace(job.record.spec, scheduler_settings={"image": "python:3.12"}),
    )
    rendered = KubernetesSubmitter(job.home).render(replace(job, record=record))
    assert rendered["pods"].pop("ps")["metadata"]["labels"].pop("tony.dev/role") == "ps"
    assert rendered == json.loads(GOLDEN.read_text())


def test_a_framework_of_another_package_is_in_the_archive(cluster: Cluster, job: PreparedJob, tmp_path: Path) -> None:
    """So the AM needs no folder for it. One that cannot be shipped is refused, and leaves nothing."""
    record = replace(job.record, framework_module="leader:Leader", framework_path=str(tmp_path))
    with pytest.raises(ConfigError, match="is not in a shippable package or module"):
        submit(replace(job, record=record))
    assert not cluster.list_left()
    (tmp_path / "leader.py").write_text("class Leader: ...\n")
    submit(replace(job, record=record))
    secret = cluster.api.objects["/api/v1/namespaces/ml/secrets", f"{record.job_id}-am"]
    payload = json.loads(base64.b64decode(secret["data"]["job.json"]))
    assert (payload["record"]["framework_module"], payload["record"]["framework_path"]) == ("leader:Leader", None)


def test_a_job_is_found_where_it_was_submitted(
    cluster: Cluster, job: PreparedJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever KUBECONFIG is later: in another namespace it would be taken for one that was deleted."""
    kubeconfig = cluster.settings.pop("kubeconfig")
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    submitter = KubernetesSubmitter(job.home)
    spec = submitter.pin_cluster(replace(job.record.spec, scheduler_settings=cluster.settings))
    pinned = replace(job, record=replace(job.record, spec=spec))
    write_json(job.folder.job, to_plain(pinned.record))
    submit(pinned)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "other"))
    status = asyncio.run(submitter.application_status(job.record.job_id))
    assert status
    assert status.alive
    os.rename(kubeconfig, tmp_path / "other")
    with pytest.raises(SchedulerError, match="is gone"):
        asyncio.run(submitter.application_status(job.record.job_id))


def test_of_several_kubeconfig_files_the_one_with_the_cluster_is_recorded(
    cluster: Cluster, job: PreparedJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = cluster.settings.pop("kubeconfig")
    (tmp_path / "first").write_text("current-context: c")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/first:{kubeconfig}")
    spec = KubernetesSubmitter(job.home).pin_cluster(replace(job.record.spec, scheduler_settings=cluster.settings))
    assert spec.scheduler_settings["kubeconfig"] == kubeconfig


def test_a_job_whose_am_never_started_is_known_elsewhere(cluster: Cluster, job: PreparedJob) -> None:
    submit(job)
    submitter, name = KubernetesSubmitter(job.home), job.record.job_id
    assert "is not running yet" in asyncio.run(submitter.describe_foreign(name))
    cluster.api.update(JOBS, name, {"status": {"conditions": [build_condition("Failed", message="no x")]}})
    assert asyncio.run(submitter.describe_foreign(name)).endswith("nothing of it is recorded: no x")
    asyncio.run(submitter.fetch_logs(job.folder, {}, cast(LogSink, TailSink())))
    assert not asyncio.run(submitter.kill_foreign(name))
    cluster.api.update(JOBS, name, {"status": {"conditions": []}})
    assert asyncio.run(submitter.kill_foreign(name))
    cluster.api.remove(JOBS, name)
    assert not asyncio.run(submitter.kill_foreign(name))
    assert asyncio.run(submitter.describe_foreign(name)) == ""


def test_a_job_of_another_machine_is_found_by_its_id(
    cluster: Cluster, job: PreparedJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How it is reached is this machine's choice: anyone may have written that file."""
    kubeconfig = cluster.settings["kubeconfig"]
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    name = "kubernetes-20260102-030405-abcdef"
    settings = {"image": "i", "kubeconfig": "/tmp/evil", "context": "evil", "namespace": "evil"}
    spec = replace(job.record.spec, scheduler="local", scheduler_settings=settings)
    record = replace(job.record, job_id="local-20260102-030405-abcdef", spec=spec)
    client = create_client(read_settings(job.record.spec.scheduler_settings)[0])
    ConfigMapJobStore(client, name).put("job.json", json.dumps(to_plain(record)).encode())
    home = Home(tmp_path / "other")
    assert resolve(home, name) == name
    own = {"context": "c", "namespace": "ml", "kubeconfig": kubeconfig}
    assert load_recorded_values(home.job(name)) == {"image": "i", **own}
    found = record_of(home, name)
    assert (found.job_id, found.spec.scheduler) == (name, "kubernetes")
    with pytest.raises(UnknownJobError):
        resolve(home, "kubernetes-20260102-030405-ffffff")
    client.close()


def test_a_record_without_sources_chooses_nothing_either(cluster: Cluster, job: PreparedJob) -> None:
    settings, _ = read_settings(cluster.settings)
    given = {"scheduler_settings": {"kubeconfig": "/tmp/evil"}, "scheduler": "local"}
    found = json.loads(localize_record(json.dumps({"spec": given, "sources": None}).encode(), "k-1", settings))
    assert found["spec"]["scheduler"] == "kubernetes"
    assert found["spec"]["scheduler_settings"]["kubeconfig"] == cluster.settings["kubeconfig"]
    with pytest.raises(SchedulerError, match=r"job.json of k-1 in the cluster is damaged"):
        localize_record(b'{"spec": []}', "k-1", settings)


def test_a_quota_that_keeps_the_am_from_starting_is_named_and_ends_no_later(cluster: Cluster, job: PreparedJob) -> None:
    submit(job)
    submitter, name = KubernetesSubmitter(job.home), job.record.job_id
    words = 'pods "x" is forbidden: exceeded quota: full'
    cluster.refused["POST", "pods"] = refuse(403, "Forbidden", words)
    status = asyncio.run(submitter.application_status(name))
    assert status
    assert (status.alive, status.note) == (True, words)
    cluster.refused["POST", "pods"] = refuse(403, "Forbidden", 'User "bob" cannot create resource "pods"')
    status = asyncio.run(submitter.application_status(name))
    assert status
    assert (status.alive, status.note) == (True, ""), "others than the Job's controller may lack the right"
    asyncio.run(submitter.withdraw(job.folder, "killed by ann"))
    status = asyncio.run(submitter.application_status(name))
    assert status
    assert (status.alive, status.result, status.note) == (False, JobState.KILLED, "killed by ann")


def test_a_job_that_the_api_server_does_not_end_is_not_taken_for_ended(cluster: Cluster, job: PreparedJob) -> None:
    submit(job)
    cluster.refused["PATCH", "jobs"] = refuse(403, "Forbidden")
    with pytest.raises(KubeApiError):
        asyncio.run(KubernetesSubmitter(job.home).withdraw(job.folder, "killed by ann"))
