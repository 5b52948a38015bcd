"""The status of a pod becomes a sentence, and says whose fault it was."""

from __future__ import annotations

import re

import pytest

from tony.kube.api_client import Object
from tony.model.failure import ClusterKill
from tony.schedulers.kubernetes.pod_status import (
    explain_am_end,
    explain_end,
    explain_restart,
    find_pending_reason,
    find_start_failure,
    has_executor_ended,
)
from tony.schedulers.kubernetes.pod_table import StartFailure
from tony.schedulers.kubernetes.pod_watch import trim_pod

PULL = "image x cannot be pulled (see `image` and `pull_secrets`)"
DELETED: Object = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
LIMIT = {"containers": [{"name": "tony", "resources": {"limits": {"memory": str(256 << 20)}}}]}


def ended(state: Object | None = None, **status: object) -> Object:
    statuses = [] if state is None else [{"name": "tony", "state": {"terminated": state}}]
    return {"spec": LIMIT, "status": {"phase": "Failed", "containerStatuses": statuses, **status}}


def waiting(reason: str, message: str = "", *, image: str = "x", **more: object) -> Object:
    """Return a pod whose container waits, with further fields of its status."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {"status": {"containerStatuses": [{"name": "tony", "image": image, "state": state}], **more}}


def end_by_kueue(reason: str) -> Object:
    condition = {"type": "TerminationTarget", "status": "True", "reason": reason, "message": "Preempted for a"}
    return ended({"exitCode": 143}, conditions=[condition]) | DELETED


def disrupted(reason: str, message: str = "", **status: object) -> Object:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    return ended({"exitCode": 143}, conditions=[condition], **status)


#: The container of an executor that got SIGTERM.
STOPPED: Object = {"name": "tony", "state": {"terminated": {"exitCode": 143}}}


@pytest.mark.parametrize(
    ("pod", "cause", "is_blameless", "kill"),
    [
        (ended({"exitCode": 0}), "its executor exited", False, None),
        (ended({"exitCode": 3, "message": "no space\nleft"}), "exited with exit code 3: no space left", False, None),
        (ended({"exitCode": 137}), "was killed by SIGKILL", False, None),
        (ended({"exitCode": 137, "reason": "OOMKilled"}), "memory limit (256", False, ClusterKill.MEMORY_LIMIT),
        (disrupted("PreemptionByScheduler", "by pod x"), "preempted .*: by pod x", True, ClusterKill.PREEMPTED),
        (disrupted("EvictionByEvictionAPI"), "its node is being drained", True, ClusterKill.OTHER),
        (disrupted("TerminationByKubelet", "low on memory"), "ran out of resources: low on", True, ClusterKill.OTHER),
        (disrupted("Unheard\x1bOf"), r"the cluster ended it \(Unheard\\x1bOf\)", True, ClusterKill.OTHER),
        (
            ended(reason="Evicted", message="Pod ephemeral local storage usage exceeds the total limit of ..."),
            "ephemeral local storage",
            False,
            ClusterKill.OTHER,
        ),
        (
            ended(reason="Evicted", message='Container fetch exceeded its local ephemeral storage limit "4Mi".'),
            "see `volumes` and `resources`",
            False,
            ClusterKill.OTHER,
        ),
        (
            ended(reason="Evicted", message="The node had condition: [DiskPressure]."),
            "DiskPressure",
            True,
            ClusterKill.OTHER,
        ),
        (end_by_kueue("WorkloadEvicted"), "Kueue ended it: Preempted for a", True, ClusterKill.PREEMPTED),
        (end_by_kueue("WorkloadDeleted"), "Kueue ended it: Preempted for a", True, ClusterKill.OTHER),
        (ended(reason="DeadlineExceeded"), "time limit", False, ClusterKill.OTHER),
        (ended(), "its pod was deleted", True, ClusterKill.OTHER),
        (
            ended(reason="UnexpectedAdmissionError", message="no healthy devices"),
            "its node rejected it: UnexpectedAdmissionError: no healthy devices",
            False,
            None,
        ),
        (ended(reason="NodeShutdown", message="x"), "its node rejected it: NodeShutdown: x", True, ClusterKill.OTHER),
        (
            ended(
                initContainerStatuses=[{"name": "fetch", "state": {"terminated": {"exitCode": 2, "message": "404"}}}]
            ),
            "its init container fetch exited with exit code 2: 404",
            False,
            None,
        ),
        (
            ended({"exitCode": 143}) | DELETED,
            "its pod was deleted",
            True,
            ClusterKill.OTHER,
        ),
    ],
)
def test_a_pod_ends(pod: Object, cause: str, is_blameless: bool, kill: ClusterKill | None) -> None:
    found = explain_end(pod)
    assert re.search(cause.replace("(256", r"\(256"), found.cause), found.cause
    assert (found.is_blameless, found.kill, found.is_unconfirmed) == (is_blameless, kill, False)


@pytest.mark.parametrize(
    "pod",
    [
        disrupted("DeletionByPodGC"),
        disrupted("DeletionByTaintManager", "taint node.kubernetes.io/unreachable"),
        ended(reason="NodeLost"),
        ended({"exitCode": 137, "reason": "ContainerStatusUnknown"}),
    ],
)
def test_programs_on_a_lost_node_may_still_run(pod: Object) -> None:
    assert explain_end(pod).is_unconfirmed


def test_a_pod_that_waits_has_the_words_of_the_scheduler() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/5 nodes:\n 3 busy"}
    assert find_pending_reason({"status": {"conditions": [condition]}}) == "0/5 nodes: 3 busy"
    assert find_pending_reason({"status": {"conditions": [{**condition, "status": "True"}]}}) == ""
    assert find_pending_reason({"status": {}}) == ""


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("1 Insufficient memory, 2 Insufficient cpu.", "(see `memory`, `vcores`)"),
        ("1 Insufficient nvidia.com/gpu.", "(see `gpus` and `resources`)"),
        ("1 node(s) had untolerated taint {x: y}.", "(see `tolerations`)"),
        ("1 node(s) didn't match Pod's node affinity/selector.", "(see `node_selector` and `node_label`)"),
        ("1 node(s) didn't match pod affinity rules.", "(see `topology`)"),
        ("pod has unbound immediate PersistentVolumeClaims.", "(see `volumes`)"),
        ("1 node(s) didn't match pod anti-affinity rules.", "(see `spread`)"),
    ],
)
def test_a_pod_that_waits_names_the_settings_that_decide_it(words: str, hint: str) -> None:
    more = " no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful."
    condition = {"type": "PodScheduled", "status": "False", "message": f"0/1 nodes are available: {words}{more}"}
    shown = f"0/1 nodes are available: {words[:-1]} {hint}"
    assert find_pending_reason({"status": {"conditions": [condition]}}) == shown


def test_a_pod_that_fits_no_node_says_how_much_it_requests() -> None:
    message = "0/1 nodes are available: 1 Insufficient memory, 1 Insufficient nvidia.com/gpu."
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    resources = {"requests": {"memory": str(900 << 30), "cpu": "4"}, "limits": {"nvidia.com/gpu": "1"}}
    pod = {"spec": {"containers": [{"name": "tony", "resources": resources}]}, "status": {"conditions": [condition]}}
    assert find_pending_reason(trim_pod({"metadata": {}, **pod})).endswith(
        "(see `memory`, `gpus` and `resources`; a pod requests 900 GiB of memory, 1 of nvidia.com/gpu)"
    )


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("ErrImageNeverPull", StartFailure("ErrImageNeverPull: no image x")),
        ("ImagePullBackOff", StartFailure(f"{PULL}: no image x", 900)),
        ("CreateContainerError", StartFailure("CreateContainerError: no image x", 60, may_be_node_failure=True)),
        ("ContainerCreating", None),
    ],
)
def test_a_container_that_cannot_start_is_found(reason: str, expected: StartFailure | None) -> None:
    assert find_start_failure(waiting(reason, "no image x")) == expected


def test_a_failure_has_the_same_words_in_each_try() -> None:
    texts = {
        failure.text
        for digit in "ab"
        if (failure := find_start_failure(waiting("CreateContainerError", f'container "{digit * 64}" spec: no device')))
    }
    assert texts == {"CreateContainerError: container spec: no device"}


def test_an_image_has_the_same_words_while_the_kubelet_pauses_between_tries() -> None:
    expected = StartFailure(f"{PULL}: not found", 60)
    assert find_start_failure(waiting("ErrImagePull", "not found")) == expected
    text = 'Back-off pulling image "x": ErrImagePull: not found'
    assert find_start_failure(waiting("ImagePullBackOff", text)) == expected


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ErrImagePull", 'failed to pull and unpack image "r.io/a@sha256:1": not found'),
        ("ImagePullBackOff", 'Back-off pulling image "r.io/a@sha256:1": ErrImagePull: not found'),
    ],
)
def test_an_image_of_a_volume_that_cannot_be_pulled_is_named(reason: str, message: str) -> None:
    """The status has it as a reason of the container, which has another image."""
    volumes = [{"name": "work", "emptyDir": {}}, {"name": "object", "image": {"reference": "r.io/a@sha256:1"}}]
    failure = find_start_failure({"spec": {"volumes": volumes}, **waiting(reason, message)})
    assert failure is not None
    assert failure.text.startswith("image r.io/a@sha256:1 cannot be pulled (see `staging` and `pull_secrets`): ")
    assert failure.text.endswith("not found")
    assert failure.grace_seconds


def test_a_node_that_mounts_no_images_is_named() -> None:
    """The message is that of containerd 1.6.20."""
    message = 'failed to generate container "9179" spec: failed to generate spec: failed to mkdir "": mkdir : no such'
    text = "its node cannot mount images: a registry as `staging` needs containerd 2.1 or later there"
    assert find_start_failure(waiting("CreateContainerError", message)) == StartFailure(text)


def test_a_container_that_its_node_could_not_start_is_no_fault_of_the_job() -> None:
    ended = {"terminated": {"exitCode": 128, "reason": "StartError", "message": "nvidia-container-cli: no driver"}}
    assert find_start_failure({"status": {"containerStatuses": [{"name": "tony", "state": ended}]}}) is None


def test_an_image_without_python_never_starts() -> None:
    message = 'unable to start container process: exec: "python3": executable file not found in $PATH: unknown'
    ended = {"terminated": {"exitCode": 128, "reason": "StartError", "message": message}}
    pod = {"status": {"containerStatuses": [{"name": "tony", "image": "x", "state": ended}]}}
    assert find_start_failure(pod) == StartFailure(
        "image x cannot be used: it has no python3 on its PATH, and tony needs Python 3.11 or later"
    )


def test_an_am_that_the_kubelet_starts_again_is_explained() -> None:
    last = {"terminated": {"exitCode": 255, "message": "no module"}}
    own = {"name": "tony", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": last}
    assert explain_restart({"status": {"containerStatuses": [own]}}) == (
        "its application master ended, and is started again: it exited with exit code 255: no module"
    )
    assert not explain_restart({"status": {"containerStatuses": [{**own, "state": {"running": {}}}]}})


def test_an_init_container_that_cannot_start_is_named() -> None:
    init = {"name": "fetch", "state": {"waiting": {"reason": "ErrImageNeverPull"}}}
    pod = waiting("PodInitializing", initContainerStatuses=[init])
    assert find_start_failure(pod) == StartFailure("init container fetch: ErrImageNeverPull")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Pending"}, False),
        ({"phase": "Running", "containerStatuses": [{"name": "tony", "state": {"running": {}}}]}, False),
        ({"phase": "Running", "containerStatuses": [{"name": "proxy", "state": {"terminated": {}}}]}, False),
        ({"phase": "Running", "containerStatuses": [{"name": "tony", "state": {"terminated": {}}}]}, True),
        ({"phase": "Running", "containerStatuses": [STOPPED]}, False),
        ({"phase": "Running", "containerStatuses": [STOPPED], "conditions": [{"type": "DisruptionTarget"}]}, True),
        ({"phase": "Failed", "containerStatuses": [STOPPED]}, True),
        ({"phase": "Failed", "containerStatuses": [{"name": "tony", "state": {"waiting": {}}}]}, True),
    ],
)
def test_the_end_of_its_container_is_that_of_an_executor(status: Object, expected: bool) -> None:
    """That of one that was stopped from outside comes with its cause: the kubelet reports an eviction last."""
    assert has_executor_ended({"status": status}) is expected


def test_the_end_of_an_application_master_has_the_end_of_its_log() -> None:
    """And names the setting with which it gets more memory."""
    assert explain_am_end(ended({"exitCode": 42, "message": "may not\nget jobs"})) == (
        "the application master exited with exit code 42: may not get jobs"
    )
    killed = explain_am_end(ended({"exitCode": 137, "reason": "OOMKilled"}))
    assert killed.startswith("the kernel killed the application master at its memory limit")
    assert "`scheduler.kubernetes.am_memory`" in killed
    assert not explain_am_end(ended({"exitCode": 0}))


def test_a_pod_that_is_deleted_before_it_has_a_node_has_ended() -> None:
    """Although Kueue keeps the object for a while."""
    assert has_executor_ended({**DELETED, "spec": {}, "status": {"phase": "Pending"}})
    assert not has_executor_ended({**DELETED, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}})
