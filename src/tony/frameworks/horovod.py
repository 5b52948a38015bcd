"""Horovod over gloo: ranks by host, and the rendezvous of its processes.

They meet in a key-value store over HTTP. The executor of rank 0's task runs it on that task's own port, from before the
task registers (`RendezvousKind.STORE`): it needs no extra container, and no process can arrive too early. A job with a
role `driver` brings its own rendezvous server instead, and `driver:0`'s port leads to it (`RendezvousKind.RELAY`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tony.errors import Problem, UserError
from tony.frameworks.adapter_checks import MAX_STRING, check_whole_gang, string_size
from tony.frameworks.framework_interface import Framework, TaskView, rendezvous_folder
from tony.frameworks.ranks import compute_roles, explain_lone_rank, local_rank_variables, roles_together
from tony.model.codec import Json
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec, JobSpec, Role
from tony.model.setting_choices import RendezvousKind, RoleKind


@dataclass(frozen=True, slots=True, kw_only=True)
class HorovodSlot:
    """One process's slot."""

    host: str
    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int


def count_slots(tasks: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Return host -> number of slots, hosts in the order in which tasks first name them.

    Args:
        tasks: host and number of processes of each task.
    """
    hosts: dict[str, int] = {}
    for host, processes in tasks:
        hosts[host] = hosts.get(host, 0) + processes
    return hosts


def slots_of(tasks: Sequence[tuple[str, int]], which: int) -> list[HorovodSlot]:
    """Return the slots of one task's processes. On its host they follow those of earlier tasks.

    Args:
        tasks: as for `count_slots`.
        which: the task's position among them.
    """
    hosts = count_slots(tasks)
    host, processes = tasks[which]
    first = sum(count for other, count in tasks[:which] if other == host)
    return [_slot_horovod_slots(hosts, host, first + number) for number in range(processes)]


def _slot_horovod_slots(hosts: Mapping[str, int], host: str, local_rank: int) -> HorovodSlot:
    names = list(hosts)
    before = names[: names.index(host)]
    return HorovodSlot(
        host=host,
        rank=sum(hosts[name] for name in before) + local_rank,
        size=sum(hosts.values()),
        local_rank=local_rank,
        local_size=hosts[host],
        cross_rank=sum(hosts[name] > local_rank for name in before),
        cross_size=sum(count > local_rank for count in hosts.values()),
    )


#: The role of a user's own rendezvous server.
DRIVER = "driver"
#: Seconds that gloo waits for a peer, as in LinkedIn TonY. Horovod's own 30 are too short for a slow import.
TIMEOUT = "2000"


class Horovod(Framework):
    """Every rank knows its slot and the address of the store. Shared value: all addresses, as in CLUSTER_SPEC."""

    name = "horovod"

    def validate(self, spec: JobSpec) -> Sequence[Problem]:
        return [*check_whole_gang(spec, self.name), *_check_driver(spec)]

    def choose_rendezvous(self, spec: JobSpec, task: TaskId) -> RendezvousKind | None:
        for world in _worlds(spec):
            host = _host_of(world)
            if task == host:
                return RendezvousKind.RELAY if task.role == DRIVER else RendezvousKind.STORE
            if task.role == host.role and world[host.role].min_instances is not None:
                return RendezvousKind.STORE  # rank 0's task in a session without the tasks before it
        return None

    def check_elastic(self, spec: JobSpec, role: str) -> str | None:
        return None

    def defaults(self) -> Mapping[str, str]:
        return {"HOROVOD_GLOO_TIMEOUT_SECONDS": TIMEOUT}

    def check_lone_restart(self, spec: JobSpec, role: str) -> str | None:
        return explain_lone_rank(spec, role)

    def build_shared(self, spec: JobSpec, cluster: ClusterSpec) -> Json:
        worlds = [world for world in _worlds(spec) if all(name in cluster.roles for name in world)]
        return {
            "cluster": {role: list(addresses) for role, addresses in cluster.roles.items()},
            "worlds": [
                {
                    "ranks": {name: role.procs_per_task for name, role in world.items() if name != DRIVER},
                    "meeting": cluster.roles[_host_of(world).role][0],
                    "driver": DRIVER in world,
                }
                for world in worlds
            ],
        }

    def environment(self, shared: Json, task: TaskView) -> Sequence[Mapping[str, str]]:
        rank_variables = local_rank_variables(task)
        if shared is None:
            return rank_variables
        for world in shared["worlds"]:
            ranks = _Ranks(shared["cluster"], world["ranks"])
            if task.task.role in world["ranks"]:
                variables = {**_cluster_spec(shared["cluster"], task), **_rendezvous(world["meeting"])}
                slots = ranks.slots(task.task)
                return [{**variables, **_slot(slot), **own} for slot, own in zip(slots, rank_variables, strict=True)]
            if world["driver"] and task.task.role == DRIVER:
                return [_driver(ranks, task)]
        return [{**_cluster_spec(shared["cluster"], task), **own} for own in rank_variables]


class _Ranks:
    """The tasks of one world that have ranks, in order: role by role, the chief's first."""

    def __init__(self, cluster: Mapping[str, Sequence[str]], ranks: Mapping[str, int]) -> None:
        self._ids = [TaskId(role, index) for role in ranks for index in range(len(cluster[role]))]
        self._tasks = [(_host(cluster[task.role][task.index]), ranks[task.role]) for task in self._ids]

    def slots(self, task: TaskId) -> list[HorovodSlot]:
        return slots_of(self._tasks, self._ids.index(task))

    def hosts(self) -> str:
        """Return the hosts as Horovod's `parse_hosts` takes them: `h1:2,h2:1`."""
        return ",".join(f"{host}:{slots}" for host, slots in count_slots(self._tasks).items())


def _worlds(spec: JobSpec) -> Iterator[dict[str, Role]]:
    """Yield the roles of each group that computes together, the chief's first; the driver, if any, last."""
    chief = spec.chief.role if spec.chief else None
    for group in roles_together(spec):
        ranks = compute_roles({name: role for name, role in group.items() if name != DRIVER})
        world = {name: ranks[name] for name in sorted(ranks, key=lambda name: name != chief)}  # a stable sort
        if world:
            yield world | {name: role for name, role in group.items() if name == DRIVER}


def _host_of(world: Mapping[str, Role]) -> TaskId:
    """Return the task whose port has a world's rendezvous."""
    return TaskId(DRIVER if DRIVER in world else next(iter(world)), 0)


def _check_driver(spec: JobSpec) -> Iterator[Problem]:
    driver = spec.effective_roles.get(DRIVER)
    if driver is None or not driver.instances:
        return
    if driver.instances > 1 or driver.procs_per_task > 1:
        yield Problem(
            key=f"roles.{DRIVER}.instances" if driver.instances > 1 else f"roles.{DRIVER}.procs_per_task",
            value=str(max(driver.instances, driver.procs_per_task)),
            message="the role driver is the only rendezvous server of a Horovod job. Set instances = 1 and "
            "procs_per_task = 1, or remove the role: tony has a rendezvous server of its own.",
        )
    if driver.kind not in (RoleKind.UNTRACKED, RoleKind.SIDECAR):
        yield Problem(
            key=f"roles.{DRIVER}.kind",
            value=driver.kind.value,
            message="a rendezvous server does not exit by itself, so the job would not end. Set kind = "
            '"untracked": tony stops it when the ranks have ended, and its failure fails the job.',
        )
    elif not any(DRIVER in world for world in _worlds(spec)):
        yield Problem(
            key=f"roles.{DRIVER}.after",
            value=", ".join(driver.after),
            message="the role driver must start together with the roles that use it for rendezvous. Give it the "
            "same `after` as theirs.",
        )


def _rendezvous(address: str) -> dict[str, str]:
    host, _, port = address.rpartition(":")
    return {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": host.strip("[]"),
        "HOROVOD_GLOO_RENDEZVOUS_PORT": port,
    }


def _slot(slot: HorovodSlot) -> dict[str, str]:
    return {
        "HOROVOD_HOSTNAME": slot.host,
        "HOROVOD_RANK": str(slot.rank),
        "HOROVOD_SIZE": str(slot.size),
        "HOROVOD_LOCAL_RANK": str(slot.local_rank),
        "HOROVOD_LOCAL_SIZE": str(slot.local_size),
        "HOROVOD_CROSS_RANK": str(slot.cross_rank),
        "HOROVOD_CROSS_SIZE": str(slot.cross_size),
    }


def _driver(ranks: _Ranks, task: TaskView) -> dict[str, str]:
    hosts = ranks.hosts()
    return {
        "CLUSTER_SPEC": hosts,
        "CLUSTER_WORKER_LIST": hosts,
        "DRIVER_OUTPUT_PATH": rendezvous_folder(task.work_folder, task.session),
    }


def _cluster_spec(cluster: Mapping[str, Sequence[str]], task: TaskView) -> dict[str, str]:
    text = json.dumps(cluster, separators=(",", ":"))
    size = string_size("CLUSTER_SPEC", text)
    if size > MAX_STRING:
        raise UserError(
            f"{task.task} cannot be started: CLUSTER_SPEC takes {size:,} bytes, but Linux allows "
            f"{MAX_STRING:,} per variable. Use fewer tasks with a larger procs_per_task."
        )
    return {"CLUSTER_SPEC": text}


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")
