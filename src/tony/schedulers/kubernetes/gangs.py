"""Which pods of a job the cluster starts together or not at all. Pure.

A gang is a PodGroup of Kubernetes, or a pod group of Kueue. Pods that are needed at the same moment form one; a pod
that replaces another joins its gang. Tasks of setup roles and companions start by themselves, and so do their pods.

Sources: k8s.io/api/scheduling/v1alpha2/types.go and pkg/scheduler/framework/plugins/gangscheduling of Kubernetes v1.36;
pkg/controller/jobs/pod of Kueue v0.14.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum

from tony.errors import Problem
from tony.kube.api_client import Object
from tony.model.job_spec import JobSpec
from tony.model.setting_choices import DistributedMode, RoleKind
from tony.schedulers.job_store.job_objects import PREFIX
from tony.schedulers.kubernetes import pod_status
from tony.schedulers.kubernetes.manifests import ROLE_LABEL
from tony.schedulers.kubernetes.pod_table import Gang, PodStage, TaskPod
from tony.schedulers.kubernetes.settings import KubernetesSettings

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"
_COUNT_ANNOTATION = "kueue.x-k8s.io/pod-group-total-count"
#: The group ends when none of its pods runs, so that it gives its quota back.
_RETRIABLE_ANNOTATION = "kueue.x-k8s.io/retriable-in-group"
#: What is the same for pods of one role: Kueue would derive it from their fields, in which replacements may differ.
_ROLE_ANNOTATION = "kueue.x-k8s.io/role-hash"
#: Role -> the number of its pods in the group, for later AM attempts: pods that were replaced are in the cluster, too.
_PLACES_ANNOTATION = f"{PREFIX}places"
#: Roles of the pods in one group of Kueue.
_MAX_KUEUE_ROLES = 8
_TOGETHER = (RoleKind.TRACKED, RoleKind.UNTRACKED)


class GangKind(Enum):
    """What starts the pods of a gang together."""

    POD_GROUP = "pod-group"  #: the scheduler of Kubernetes
    KUEUE = "kueue"
    NONE = "none"


def find_gang_kind(settings: KubernetesSettings) -> GangKind:
    """Return what starts gangs according to the settings; a cluster without PodGroups starts pods one by one."""
    if settings.gang == "none":
        return GangKind.NONE
    return GangKind.KUEUE if settings.queue else GangKind.POD_GROUP


def count_gang_sizes(spec: JobSpec) -> Mapping[str, int]:
    """Return role -> the number of pods without which a session cannot start.

    Roles whose tasks start by themselves are left out.
    """
    if spec.distributed_mode is not DistributedMode.GANG:
        return {}
    roles = {name: role for name, role in spec.effective_roles.items() if role.kind in _TOGETHER}
    return {name: role.instances if role.min_instances is None else role.min_instances for name, role in roles.items()}


def find_gang_problems(spec: JobSpec, settings: KubernetesSettings) -> Iterator[Problem]:
    """Yield what is wrong with the settings of gangs, whatever the cluster."""
    key = "scheduler.kubernetes.gang"
    if settings.gang not in ("", "native", "none"):
        yield Problem(key=key, value=settings.gang, message='expected "native" or "none".')
    elif settings.gang == "native" and settings.queue:
        yield Problem(key=key, value="native", message="Kueue starts gangs itself: remove this, or `queue`.")
    count = len(count_gang_sizes(spec))
    if find_gang_kind(settings) is GangKind.KUEUE and count > _MAX_KUEUE_ROLES:
        text = f'a gang of Kueue has at most {_MAX_KUEUE_ROLES} roles, this one has {count}. Set gang = "none".'
        yield Problem(key="scheduler.kubernetes.queue", value=settings.queue, message=text)


class GangTable:
    """The gangs of a job.

    Args:
        prefix: of the names of new ones.
    """

    def __init__(self, spec: JobSpec, prefix: str, settings: KubernetesSettings) -> None:
        self.kind = find_gang_kind(settings)
        self._sizes = {} if self.kind is GangKind.NONE else count_gang_sizes(spec)
        self._prefix, self._queue = prefix, settings.queue
        self._order = [*spec.effective_roles]
        self._count = 0
        self._leaving: dict[str, Gang] = {}

    def assign(
        self, pods: Collection[TaskPod], missing: Mapping[str, int], memory: Mapping[str, int]
    ) -> Sequence[tuple[str, Gang | None]]:
        """Return role and gang of each pod to create now. A pod whose place in a gang is still taken is left out.

        Args:
            pods: all that have not ended.
            missing: role -> the number of pods to create.
            memory: role -> bytes, of a new pod's program.
        """
        assigned: list[tuple[str, Gang | None]] = []
        fresh: dict[str, int] = {}
        for role, count in missing.items():
            if role not in self._sizes:
                assigned += [(role, None)] * count
                continue
            for gang in _list_open_gangs(pods, role):
                if self.kind is GangKind.POD_GROUP:
                    joining, waiting = count if _has_enough(gang, pods, missing) else 0, 0
                else:
                    joining, waiting = _count_places(gang, pods, role, count, memory[role])
                assigned += [(role, gang)] * joining
                count -= joining + waiting
            if count:
                fresh[role] = count
        return [*assigned, *self._create_gang(fresh, memory)]

    def _create_gang(self, counts: Mapping[str, int], memory: Mapping[str, int]) -> Iterable[tuple[str, Gang | None]]:
        needed = {role: min(count, self._sizes[role]) for role, count in counts.items()}
        further = {role: count - needed[role] for role, count in counts.items()}
        is_fixed = self.kind is GangKind.KUEUE
        gang = None
        if sum(needed.values()) > 1:
            self._count += 1
            gang = Gang(
                name=f"{self._prefix}-{self._count}",
                places=needed if is_fixed else dict(counts),
                minimum=sum(needed.values()),
                memory={role: memory[role] for role in counts},
            )
        # The scheduler tries them in this order, so that room is found first for those that must start.
        yield from ((role, gang) for role, count in needed.items() for _ in range(count))
        yield from ((role, None if is_fixed else gang) for role, count in further.items() for _ in range(count))

    def build_pod_fields(self, role: str, gang: Gang | None) -> Object:
        """Return what is merged into a pod of a gang, or of none."""
        labels = {QUEUE_LABEL: self._queue} if self._queue else {}
        if gang is None:
            return {"metadata": {"labels": labels}}
        if self.kind is GangKind.POD_GROUP:
            return {"spec": {"schedulingGroup": {"podGroupName": gang.name}}}
        words = re.sub("[^a-z0-9]+", "-", role.lower()).strip("-")[:20]
        annotations = {
            _COUNT_ANNOTATION: str(sum(gang.places.values())),
            _RETRIABLE_ANNOTATION: "false",
            _ROLE_ANNOTATION: f"{words or 'role'}-{self._order.index(role)}",
            _PLACES_ANNOTATION: json.dumps(gang.places),
        }
        return {"metadata": {"labels": {**labels, _GROUP_LABEL: gang.name}, "annotations": annotations}}

    def note_end(self, pod: TaskPod, content: Object | None) -> None:
        """Note the end of a pod.

        Args:
            content: as the cluster has it; None: its node is lost, so that it keeps its place.
        """
        gang = pod.gang
        if gang is None or not pod.node or self.kind is not GangKind.KUEUE:
            return
        gang.has_run = True
        if content is None:
            gang.kept[pod.role] += 1
            return
        if "status" in content and not pod_status.has_ended(content):
            self._leaving[pod.name], gang.leaving[pod.name] = gang, pod.role
        gang.kept[pod.role] += pod_status.has_succeeded(content)
        gang.is_closed = gang.is_closed or pod_status.is_evicted_by_kueue(content)

    def list_stranded(self, pods: Collection[TaskPod], missing: Mapping[str, int]) -> Sequence[TaskPod]:
        """Return the pods that wait in a gang that can no longer start.

        Args:
            pods: all that have not ended.
            missing: role -> the number of pods to create.
        """
        gangs = dict.fromkeys(pod.gang for pod in pods if pod.gang)
        ended = [gang for gang in gangs if not self._may_start_more(gang, pods, missing)]
        return [pod for pod in pods if pod.gang in ended and pod.stage in (PodStage.CREATING, PodStage.PENDING)]

    def _may_start_more(self, gang: Gang, pods: Collection[TaskPod], missing: Mapping[str, int]) -> bool:
        if self.kind is GangKind.POD_GROUP:
            return _has_enough(gang, pods, missing)
        # Kueue ends a group when none of its pods runs, and admits none of it later.
        return not gang.is_closed and (not gang.has_run or any(pod.node for pod in pods if pod.gang is gang))

    def note_phase(self, name: str, content: Object, *, is_deleted: bool) -> bool:
        """Note a change of a pod that has ended before; return True if that frees its place in its gang."""
        gang = self._leaving.get(name)
        if gang is None or not (is_deleted or pod_status.has_ended(content)):
            return False
        del self._leaving[name]
        gang.kept[gang.leaving.pop(name)] += pod_status.has_succeeded(content)
        return True

    def recover(self, pods: Collection[TaskPod], found: Mapping[str, Object]) -> None:
        """Give pods of earlier AM attempts the gangs that they have in the cluster.

        Args:
            found: name -> each pod in the cluster, ended ones included.
        """
        names = {name: find_gang_name(each) for name, each in found.items()}
        gangs: dict[str, Gang] = {}
        for pod in pods:
            if not (name := names.get(pod.name, "")):
                continue
            if gang := gangs.get(name):
                pod.gang = gang
                gang.memory = {**gang.memory, pod.role: pod.memory}
                continue
            members = [each for other, each in found.items() if names[other] == name]
            places = Counter(str(each["metadata"]["labels"][ROLE_LABEL]) for each in members)
            if self.kind is GangKind.KUEUE:
                places = Counter(json.loads(found[pod.name]["metadata"]["annotations"][_PLACES_ANNOTATION]))
            # An upper limit: that of the group in the cluster may be less, for an elastic job.
            minimum = min(len(members), sum(self._sizes.values()))
            gangs[name] = pod.gang = gang = Gang(name, places, minimum, {pod.role: pod.memory})
            known = {pod.name for pod in pods}  # their ends are still to be noted
            done = [found[other] for other in names if names[other] == name and other not in known]
            labels = [each["metadata"]["labels"] for each in done if pod_status.has_succeeded(each)]
            gang.kept = Counter(str(each[ROLE_LABEL]) for each in labels)


def _has_enough(gang: Gang, pods: Iterable[TaskPod], missing: Mapping[str, int]) -> bool:
    """Return True if a PodGroup has as many pods as its minimum, with those that may join it.

    The scheduler holds back the pods of a group with fewer; those that have ended left it.
    """
    alive = sum(pod.gang is gang and pod.is_counted for pod in pods)
    return alive + sum(missing.get(role, 0) for role in gang.places) >= gang.minimum


def _count_places(gang: Gang, pods: Iterable[TaskPod], role: str, count: int, memory: int) -> tuple[int, int]:
    """Return how many of `count` pods join a gang of Kueue now, and how many do so later."""
    own = [pod for pod in pods if pod.gang is gang and pod.role == role]
    leaving = sum(each == role for each in gang.leaving.values())
    ending = sum(pod.stage is PodStage.ENDING for pod in own) + leaving
    if gang.is_closed:
        return 0, count  # they form another gang, once all of its pods have ended
    if gang.memory.get(role) != memory:
        return 0, 0
    # Kueue deletes a pod for which there is no place, and one that is being deleted still has its own.
    joining = max(0, min(count, gang.places[role] - gang.kept[role] - len(own) - leaving))
    return joining, min(count - joining, ending)


def _list_open_gangs(pods: Iterable[TaskPod], role: str) -> Sequence[Gang]:
    """Return the gangs with a place for the role that have a pod which is not being deleted, the oldest first."""
    gangs = (pod.gang for pod in pods if pod.gang and (pod.is_counted or pod.gang.is_closed))
    return [gang for gang in dict.fromkeys(gangs) if role in gang.places]


def find_gang_name(pod: Object) -> str:
    """Return the name of the group that a pod in the cluster belongs to; empty if it has none."""
    group = pod.get("spec", {}).get("schedulingGroup") or {}
    labels = pod.get("metadata", {}).get("labels") or {}
    return str(group.get("podGroupName") or labels.get(_GROUP_LABEL) or "")
