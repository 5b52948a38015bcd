"""What the settings of a job and of its roles make of pods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.schedulers.kubernetes.fake_cluster import RUNTIME, build_pod
from tony.errors import Problem
from tony.kube.api_client import Object
from tony.model.job_spec import MIB, JobSpec, Resources, Role
from tony.model.submission_record import JobRecord
from tony.schedulers.kubernetes.manifests import build_job
from tony.schedulers.kubernetes.pod_settings import find_pod_problems, find_task_settings, parse_toleration
from tony.schedulers.kubernetes.settings import read_settings
from tony.testing.sample_jobs import build_prepared_job

GOLDEN = Path(__file__).parents[2] / "golden" / "schedulers" / "kubernetes_pod_settings.json"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

JOB: Mapping[str, Any] = {
    "image": "python:3.12",
    "tolerations": ["dedicated=ml:NoSchedule"],
    "node_selector": {"pool": "ml"},
    "topology": "topology.kubernetes.io/zone",
    "priority_class": "high",
    "task_service_account": "trainer",
    "shm": "8m",
    "volumes": {
        "/data": "pvc:data:ro",
        "/data/x": "pvc:data/x:ro",
        "/scratch": "emptyDir:1g",
        "/etc/conf": "configMap:c",
    },
    "template": {"metadata": {"labels": {"team": "ads"}}, "spec": {"dnsPolicy": "Default"}},
    "am_template": {"spec": {"nodeSelector": {"pool": "cpu"}}},
}
WORKER: Mapping[str, Any] = {
    "node_selector": {"gpu": "a100"},
    "volumes": {"/keys": "secret:keys"},
    "template": {
        "spec": {
            "runtimeClassName": "nvidia",
            "volumes": [{"name": "disk", "hostPath": {"path": "/mnt/disk"}}],
            "containers": [{"name": "tony", "volumeMounts": [{"name": "disk", "mountPath": "/disk"}]}],
        }
    },
}


def build_spec(job: Mapping[str, Any], **roles: Mapping[str, Any]) -> JobSpec:
    """Return a job with these settings, and with those of each role."""
    made = {
        name: Role(resources=Resources(memory=16 * MIB), scheduler_settings={"kubernetes": own})
        for name, own in roles.items()
    }
    return JobSpec(command="true", scheduler="kubernetes", scheduler_settings=job, roles=made)


def build_record(folder: Path, spec: JobSpec) -> JobRecord:
    return build_prepared_job(folder, spec, "kubernetes-20260102-030405-abcdef").record


def find_changes(before: Any, after: Any) -> Any:
    """Return what differs in a part of an object; items of a list are found by their mount paths or names."""
    if isinstance(before, list) and isinstance(after, list) and all("name" in each for each in (*before, *after)):
        before, after = ({each.get("mountPath", each["name"]): each for each in items} for items in (before, after))
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return {key: find_changes(before.get(key), after.get(key)) for key in keys}


def test_what_settings_change_in_pods(tmp_path: Path) -> None:
    """Letter by letter; all the rest is as in pods of a job without settings, which `test_submitter` has."""

    def build(job: Mapping[str, Any], worker: Mapping[str, Any]) -> Object:
        record = build_record(tmp_path, build_spec(job, worker=worker))
        am = build_job(record, read_settings(job)[0], (RUNTIME, 1))["spec"]["template"]
        return {"am": am, "worker": build_pod(record)}

    assert find_changes(build({"image": JOB["image"]}, {}), build(JOB, WORKER)) == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu", {"key": "gpu", "operator": "Exists"}),
        ("a/b=c", {"key": "a/b", "operator": "Equal", "value": "c"}),
        ("a=", {"key": "a", "operator": "Equal", "value": ""}),
        ("a:NoExecute", {"key": "a", "operator": "Exists", "effect": "NoExecute"}),
        ("a=b:NoSchedule", {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}),
        ("*", {"operator": "Exists"}),
    ],
)
def test_a_toleration_is_written_like_a_taint(text: str, expected: Object) -> None:
    assert parse_toleration(text) == expected


def test_tables_of_a_role_add_to_the_job_and_other_values_replace() -> None:
    own = {"tolerations": ["b"], "node_selector": {"x": "2", "y": "3"}, "shm": "2m", "service_account": "mine"}
    job = {"tolerations": ["a"], "node_selector": {"x": "1"}, "shm": "1m", "task_service_account": "ours"}
    spec = build_spec(job, worker=own, ps={})
    settings, _ = read_settings(job)
    found = find_task_settings(spec, "worker", settings)
    assert ([each["key"] for each in found.tolerations], found.node_selector) == (["b"], {"x": "2", "y": "3"})
    assert (found.shm, found.service_account) == (2 * MIB, "mine")
    found = find_task_settings(spec, "ps", settings)
    assert ([each["key"] for each in found.tolerations], found.node_selector) == (["a"], {"x": "1"})
    assert (found.shm, found.service_account) == (MIB, "ours")


def test_the_kubelet_gives_programs_their_stop_grace(tmp_path: Path) -> None:
    """With ten seconds for the executor. The AM waits for the longest."""
    spec = build_spec({}, worker={}, ps={})
    roles = {**spec.roles, "worker": replace(spec.roles["worker"], stop_grace=300.0)}
    record = build_record(tmp_path, replace(spec, roles=roles, stop_grace=5.0))
    am = build_job(record, read_settings({})[0], (RUNTIME, 1))["spec"]["template"]
    pods = (build_pod(record, "worker"), build_pod(record, "ps"), am)
    assert [pod["spec"]["terminationGracePeriodSeconds"] for pod in pods] == [310, 15, 310]


def test_the_label_of_a_role_is_one_more(tmp_path: Path) -> None:
    spec = build_spec({"node_selector": {"pool": "ml"}}, worker={})
    labelled = replace(spec, roles={"worker": replace(spec.roles["worker"], node_label="gpu=a100")})
    pod = build_pod(build_record(tmp_path, labelled))
    assert pod["spec"]["nodeSelector"] == {"pool": "ml", "gpu": "a100"}


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("pool=ml", ""),
        ("pool=", ""),
        ("pool", 'expected "key=value" on Kubernetes; "pool=" is a label with an empty value.'),
        ("=ml", 'expected "key=value" on Kubernetes.'),
    ],
)
def test_the_label_of_a_role_has_a_value(label: str, message: str) -> None:
    """On YARN it is a name alone, so that only Kubernetes refuses it; no node would have it."""
    spec = build_spec({}, worker={})
    labelled = replace(spec, roles={"worker": replace(spec.roles["worker"], node_label=label)})
    problems = find_pod_problems(labelled, read_settings({})[0])
    expected = [Problem(key="roles.worker.node_label", value=label, message=message)] if message else []
    assert problems == expected


def test_a_role_with_a_topology_of_its_own_is_not_with_the_others(tmp_path: Path) -> None:
    """Otherwise tasks of the others would join it, each in the domain of another one."""
    record = build_record(tmp_path, build_spec({"topology": "zone"}, a={}, b={}, c={"topology": "rack"}))

    def find(role: str) -> tuple[str, list[str]]:
        (term,) = build_pod(record, role)["spec"]["affinity"]["podAffinity"][REQUIRED]
        assert "tony.dev/role" not in term["labelSelector"]["matchLabels"]
        return term["topologyKey"], term["labelSelector"]["matchExpressions"][0]["values"]

    assert [find(role) for role in "abc"] == [("zone", ["a", "b"]), ("zone", ["a", "b"]), ("rack", ["c"])]


def test_affinities_of_a_template_hold_as_well_as_those_of_tony(tmp_path: Path) -> None:
    """Excluded nodes and `spread` are not lost. A pod may run on an excluded node if there is no other."""
    terms = [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"matchFields": [{"key": "metadata.name"}]}]
    own = {
        "podAntiAffinity": {REQUIRED: [{"topologyKey": "rack"}]},
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}},
    }
    spec = build_spec({}, worker={"template": {"spec": {"affinity": own}}})
    spec = replace(spec, roles={"worker": replace(spec.roles["worker"], spread=True)})
    found = build_pod(build_record(tmp_path, spec), excluded=["node-1"])["spec"]["affinity"]
    assert [each["topologyKey"] for each in found["podAntiAffinity"][REQUIRED]] == ["kubernetes.io/hostname", "rack"]
    excluded = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node-1"]}
    (preferred,) = found["nodeAffinity"][PREFERRED]
    assert preferred["preference"] == {"matchExpressions": [excluded]}
    assert found["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == terms


@pytest.mark.parametrize(
    ("job", "role", "key", "message"),
    [
        ({"tolerations": ["a=b=c"]}, {}, "scheduler.kubernetes.tolerations", '"a=b=c": expected a taint'),
        ({}, {"tolerations": [":x"]}, "roles.worker.kubernetes.tolerations", "expected a taint"),
        ({}, {"node_selector": {"a": 1}}, "roles.worker.kubernetes.node_selector", 'must be text, in quotes: "1"'),
        ({"node_selector": {"gpu": True}}, {}, "scheduler.kubernetes.node_selector", 'in quotes: "true"'),
        ({"volumes": {"/x": "nfs:a"}}, {}, "scheduler.kubernetes.volumes", '"/x" = "nfs:a": expected '),
        ({"staging": "s3://b"}, {}, "scheduler.kubernetes.staging", 'PREFIX": the name of a bucket has 3 to 63'),
        ({"history": "s3://b/c"}, {}, "scheduler.kubernetes.history", "the name of a bucket has 3 to 63"),
        ({"history": "s3://bucket"}, {}, "scheduler.kubernetes.history", "it names no folder"),
        ({"am_template": {"spec": {"restartPolicy": "x"}}}, {}, "scheduler.kubernetes.am_template", "restartPolicy"),
    ],
)
def test_a_setting_that_is_wrong_is_named(job: Object, role: Object, key: str, message: str) -> None:
    (problem,) = find_pod_problems(build_spec(job, worker=role), read_settings(job)[0])
    assert problem.key == key
    assert message in problem.message
