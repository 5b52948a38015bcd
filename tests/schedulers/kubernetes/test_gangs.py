"""Which pods form a gang, with the rules of Kueue and of PodGroups."""

from __future__ import annotations

from collections import Counter

import pytest

from tony.kube.api_client import Object
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import DistributedMode, RoleKind
from tony.schedulers.kubernetes.gangs import GangTable, count_gang_sizes, find_gang_name, find_gang_problems
from tony.schedulers.kubernetes.pod_table import PodStage, TaskPod
from tony.schedulers.kubernetes.settings import KubernetesSettings

KUEUE = KubernetesSettings(queue="users")


class Pods:
    """Pods of a job of three workers and a chief."""

    def __init__(self, settings: KubernetesSettings = KUEUE, **roles: Role) -> None:
        spec = JobSpec(name="j", command="true", roles=roles or {"worker": Role(instances=3), "chief": Role()})
        self.table = GangTable(spec, "job-g1", settings)
        self.memory = dict.fromkeys(spec.roles, 1)
        self.pods: list[TaskPod] = []

    def add(self, **missing: int) -> list[TaskPod]:
        assigned = self.table.assign(self.pods, missing, self.memory)
        new = [TaskPod(f"pod-{n}", role, self.memory[role], gang=gang) for n, (role, gang) in enumerate(assigned)]
        self.pods += new
        return new

    def start(self) -> list[TaskPod]:
        """Return pods of all tasks, which have nodes; those of workers first."""
        for pod in self.add(worker=3, chief=1):
            pod.stage, pod.node = PodStage.GRANTED, "n"
        return [*self.pods]

    def end(self, pod: TaskPod, phase: str = "Failed", *conditions: Object, **missing: int) -> list[TaskPod]:
        """End a pod; return those that are given up with it."""
        content = {"status": {"phase": phase, "conditions": [*conditions]}}
        self.pods.remove(pod)
        self.table.note_end(pod, content)
        return [*self.table.list_stranded(self.pods, missing)]


#: What Kueue sets in the status of a pod before it deletes it.
EVICTED = {"type": "TerminationTarget", "status": "True", "reason": "WorkloadEvicted", "message": "Preempted"}


def count_gangs(pods: list[TaskPod]) -> Counter[str]:
    return Counter(pod.gang.name if pod.gang else "" for pod in pods)


def test_a_pod_joins_the_gang_of_the_one_that_it_replaces_once_that_has_ended() -> None:
    pods = Pods()
    first, *_ = pods.start()
    assert count_gangs(pods.pods) == {"job-g1-1": 4}
    first.stage = PodStage.ENDING
    assert pods.add(worker=1) == []
    pods.end(first)
    assert count_gangs(pods.add(worker=1)) == {"job-g1-1": 1}


def test_a_pod_that_succeeded_keeps_its_place() -> None:
    pods = Pods()
    first, second, *_ = pods.start()
    for pod in (first, second):
        pods.end(pod, "Succeeded")
    assert count_gangs(pods.add(worker=2)) == {"job-g1-2": 2}


def test_a_pod_of_kueue_has_its_place_until_the_kubelet_reports_its_phase() -> None:
    """The container has ended before, and the job knows that."""
    pods = Pods()
    first, second, *_ = pods.start()
    for pod in (first, second):
        pods.end(pod, "Running")
        assert pods.add(worker=1) == []
    assert not pods.table.note_phase(first.name, {"status": {"phase": "Running"}}, is_deleted=False)
    assert pods.table.note_phase(first.name, {"status": {"phase": "Failed"}}, is_deleted=False)
    assert count_gangs(pods.add(worker=2)) == {"job-g1-1": 1}
    assert pods.table.note_phase(second.name, {"status": {"phase": "Succeeded"}}, is_deleted=False)
    assert count_gangs(pods.add(worker=1)) == {"": 1}


def test_a_pod_of_kueue_on_a_lost_node_keeps_its_place() -> None:
    """Its replacement does not wait for it, and Kueue would delete one more pod of the group."""
    pods = Pods()
    first, *_ = pods.start()
    pods.pods.remove(first)
    pods.table.note_end(first, None)
    assert not pods.table.list_stranded(pods.pods, {"worker": 1})
    assert count_gangs(pods.add(worker=1)) == {"": 1}
    assert not pods.table.note_phase(first.name, {}, is_deleted=True)


def test_pods_with_more_memory_are_another_gang() -> None:
    pods = Pods()
    first, second, *_ = pods.start()
    pods.end(first)
    pods.end(second)
    pods.memory["worker"] = 2
    assert count_gangs(pods.add(worker=2)) == {"job-g1-2": 2}


def test_a_gang_that_is_evicted_forms_again_when_all_of_it_has_ended() -> None:
    pods = Pods()
    evicted = pods.start()
    for count, pod in enumerate(evicted[:3], start=1):
        assert pods.end(pod, "Failed", EVICTED) == []
        assert pods.add(worker=count) == []
    pods.end(evicted[3])
    assert count_gangs(pods.add(worker=3, chief=1)) == {"job-g1-2": 4}


def test_pods_that_wait_in_a_gang_of_which_none_runs_are_given_up() -> None:
    """Kueue ends such a group, and never admits them."""
    pods = Pods()
    first, *others = pods.start()
    pods.end(first)
    (waiting,) = pods.add(worker=1)
    *others, last = others
    assert [pods.end(pod) for pod in others] == [[], []]
    assert pods.end(last) == [waiting]


def test_a_pod_does_not_join_a_pod_group_that_has_too_few() -> None:
    """The scheduler would never look at it."""
    pods = Pods(KubernetesSettings())
    first, second, third, _ = pods.start()
    pods.end(first)
    (waiting,) = pods.add(worker=1)
    assert waiting.gang is second.gang
    assert pods.end(second, "Succeeded") == [waiting]
    pods.pods.remove(waiting)
    assert count_gangs(pods.add(worker=1)) == {"": 1}
    pods.end(third)
    assert count_gangs(pods.add(worker=2)) == {"job-g1-2": 2}


def test_replacements_of_pods_that_leave_a_node_join_their_gang() -> None:
    """Also one by one, while others are still being deleted."""
    pods = Pods(KubernetesSettings())
    first, second, *_ = pods.start()
    for pod in (first, second):
        pod.stage, pod.is_leaving_node = PodStage.ENDING, True
    pods.end(first)
    assert count_gangs(pods.add(worker=1)) == {"job-g1-1": 1}
    assert pods.end(second, worker=1) == []
    assert count_gangs(pods.add(worker=1)) == {"job-g1-1": 1}


def test_replacements_of_two_roles_join_their_pod_group() -> None:
    pods = Pods(KubernetesSettings())
    *_, worker, chief = pods.start()
    pods.end(worker)
    pods.end(chief)
    assert count_gangs(pods.add(worker=1, chief=1)) == {"job-g1-1": 2}


def test_an_elastic_gang_has_its_minimum_and_further_pods_come_one_by_one() -> None:
    pods = Pods(worker=Role(instances=4, min_instances=2))
    assert count_gangs(pods.add(worker=4)) == {"job-g1-1": 2, "": 2}


def test_the_fields_of_pods_say_what_kueue_needs() -> None:
    pods = Pods(worker_a=Role(instances=2))
    pod, _ = pods.add(worker_a=2)
    assert pods.table.build_pod_fields("worker_a", pod.gang) == {
        "metadata": {
            "labels": {"kueue.x-k8s.io/queue-name": "users", "kueue.x-k8s.io/pod-group-name": "job-g1-1"},
            "annotations": {
                "kueue.x-k8s.io/pod-group-total-count": "2",
                "kueue.x-k8s.io/retriable-in-group": "false",
                "kueue.x-k8s.io/role-hash": "worker-a-0",
                "tony.dev/places": '{"worker_a": 2}',
            },
        }
    }
    single = pods.table.build_pod_fields("worker_a", None)
    assert single == {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "users"}}}


def test_gangs_of_an_earlier_am_attempt_keep_their_places() -> None:
    before, after = Pods(), Pods()
    created = before.add(worker=3, chief=1)
    found = {}
    for pod in created:
        body = before.table.build_pod_fields(pod.role, pod.gang)
        body["metadata"]["labels"]["tony.dev/role"] = pod.role
        found[pod.name] = body
        assert find_gang_name(body) == "job-g1-1"
    found["pod-0"]["status"] = {"phase": "Succeeded"}
    found["pod-1"]["status"] = {"phase": "Failed"}
    found["replaced"] = found["pod-1"]
    after.pods = [TaskPod(pod.name, pod.role, 1, PodStage.GRANTED, "n") for pod in (created[0], *created[2:])]
    after.table.recover(after.pods, found)
    after.table.note_end(after.pods.pop(0), found["pod-0"])  # it ended while there was no AM
    (joining,) = after.add(worker=1)
    fields = after.table.build_pod_fields("worker", joining.gang)["metadata"]
    assert fields["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "4"
    assert count_gangs([joining]) == {"job-g1-1": 1}
    assert count_gangs(after.add(worker=1)) == {"": 1}


def test_tasks_that_start_by_themselves_are_in_no_gang() -> None:
    roles = {
        "prepare": Role(kind=RoleKind.SETUP),
        "board": Role(kind=RoleKind.SIDECAR),
        "ps": Role(kind=RoleKind.UNTRACKED),
        "worker": Role(instances=3, min_instances=2),
    }
    spec = JobSpec(name="j", command="true", roles=roles)
    assert count_gang_sizes(spec) == {"ps": 1, "worker": 2}
    single = JobSpec(name="j", command="true", roles=roles, distributed_mode=DistributedMode.FCFS)
    assert count_gang_sizes(single) == {}


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (KubernetesSettings(gang="maybe"), "gang"),
        (KubernetesSettings(gang="native", queue="users"), "gang"),
        (KUEUE, "queue"),
    ],
)
def test_settings_that_cannot_be_followed_are_named(settings: KubernetesSettings, key: str) -> None:
    spec = JobSpec(name="j", command="true", roles={f"role{number}": Role() for number in range(9)})
    assert [each.key for each in find_gang_problems(spec, settings)][:1] == [f"scheduler.kubernetes.{key}"]
