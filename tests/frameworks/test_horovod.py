"""What a Horovod program finds in its environment, and where its ranks meet."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.frameworks.conftest import Gang
from tony.errors import UserError
from tony.frameworks.horovod import Horovod
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec, JobSpec, Role
from tony.model.setting_choices import AfterCondition, RendezvousKind, RoleKind

if TYPE_CHECKING:
    from tests.frameworks.conftest import GangMaker


def job(**roles: Role) -> JobSpec:
    return JobSpec(framework="horovod", roles=roles)


def ranks(gang: Gang) -> dict[str, list[str | None]]:
    """The rank of each process of each task."""
    found = gang.environments().items()
    return {str(task): [one.get("HOROVOD_RANK") for one in processes] for task, processes in found}


def meetings(spec: JobSpec) -> dict[str, RendezvousKind]:
    """Task -> what its executor runs on its port."""
    found = {str(task): Horovod().choose_rendezvous(spec, task) for task in spec.task_ids}
    return {task: meeting for task, meeting in found.items() if meeting is not None}


def test_the_time_out_may_be_set_by_the_job() -> None:
    """It is LinkedIn TonY's unless the job says otherwise; so it is none of the variables that always hold."""
    assert Horovod().defaults() == {"HOROVOD_GLOO_TIMEOUT_SECONDS": "2000"}


def test_processes_of_a_task_are_slots_of_their_own(make_gang: GangMaker) -> None:
    """Three on one host, one on the other; LOCAL_RANK stays the number inside the task."""
    addresses = {"chief": ("a:1",), "worker": ("b:1", "a:2")}
    gang = make_gang(job(worker=Role(instances=2, procs_per_task=2), chief=Role()), addresses)
    assert ranks(gang) == {"chief:0": ["0"], "worker:0": ["3", "4"], "worker:1": ["1", "2"]}
    mine = gang.environments()[TaskId("worker", 1)]
    assert [(one["HOROVOD_LOCAL_RANK"], one["LOCAL_RANK"]) for one in mine] == [("1", "0"), ("2", "1")]
    assert {one["HOROVOD_LOCAL_SIZE"] for one in mine} == {"3"}
    assert meetings(gang.spec) == {"chief:0": RendezvousKind.STORE}


def test_tasks_that_do_not_compute_get_no_slot(make_gang: GangMaker) -> None:
    """All ranks would wait for a sidecar or an evaluator; own parameter servers are ranks unless the job says
    otherwise."""
    gang = make_gang(
        job(
            worker=Role(instances=2),
            board=Role(kind=RoleKind.SIDECAR),
            evaluator=Role(),
            prepare=Role(kind=RoleKind.SETUP),
        )
    )
    assert ranks(gang) == {
        "worker:0": ["0"],
        "worker:1": ["1"],
        "board:0": [None],
        "evaluator:0": [None],
        "prepare:0": [None],
    }
    assert json.loads(gang.environments()[TaskId("board", 0)][0]["CLUSTER_SPEC"])["worker"]
    assert {one["HOROVOD_SIZE"] for one in gang.environments()[TaskId("worker", 0)]} == {"2"}


def test_roles_that_start_later_meet_among_themselves(make_gang: GangMaker) -> None:
    """They have ranks from 0, and a rendezvous server of their own."""
    later = Role(instances=2, after={"worker": AfterCondition.SUCCEEDED})
    spec = job(worker=Role(instances=2), tune=later)
    assert ranks(make_gang(spec))["tune:1"] == ["1"]
    assert meetings(spec) == {"worker:0": RendezvousKind.STORE, "tune:0": RendezvousKind.STORE}
    mine = make_gang(spec).environments()[TaskId("tune", 1)][0]
    assert mine["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "tune-0.example"


def test_own_driver(make_gang: GangMaker) -> None:
    """It gets the hosts and the path of its port file, has no rank, and all workers use its port."""
    spec = job(driver=Role(kind=RoleKind.UNTRACKED), worker=Role(instances=3))
    gang = make_gang(spec, {"driver": ("c:9",), "worker": ("b:1", "a:1", "b:2")})
    assert gang.environments()[TaskId("driver", 0)] == [
        {"CLUSTER_SPEC": "b:2,a:1", "CLUSTER_WORKER_LIST": "b:2,a:1", "DRIVER_OUTPUT_PATH": "./.meeting-s1"}
    ]
    assert ranks(gang) == {"driver:0": [None], "worker:0": ["0"], "worker:1": ["2"], "worker:2": ["1"]}
    worker = gang.environments()[TaskId("worker", 0)][0]
    assert (worker["HOROVOD_GLOO_RENDEZVOUS_ADDR"], worker["HOROVOD_GLOO_RENDEZVOUS_PORT"]) == ("c", "9")
    assert worker["HOROVOD_SIZE"] == "3"
    assert meetings(spec) == {"driver:0": RendezvousKind.RELAY}


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(1, 3))
def test_every_rank_once(hosts: list[int], procs: int) -> None:
    """Whatever the hosts: ranks have no gap, all agree on size and rendezvous server, and that is rank 0's."""
    spec = job(worker=Role(instances=len(hosts), procs_per_task=procs))
    addresses = tuple(f"h{host}:{1000 + index}" for index, host in enumerate(hosts))
    gang = Gang(spec, ClusterSpec(session=1, version=1, roles={"worker": addresses}))
    found = [one for processes in gang.environments().values() for one in processes]
    assert sorted(int(one["HOROVOD_RANK"]) for one in found) == list(range(len(hosts) * procs))
    assert {one["HOROVOD_SIZE"] for one in found} == {str(len(found))}
    assert {(one["HOROVOD_GLOO_RENDEZVOUS_ADDR"], one["HOROVOD_GLOO_RENDEZVOUS_PORT"]) for one in found} == {
        tuple(addresses[0].split(":"))
    }
    assert found[0]["HOROVOD_RANK"] == "0"


@pytest.mark.parametrize(
    ("driver", "key"),
    [
        (Role(instances=2, kind=RoleKind.UNTRACKED), "roles.driver.instances"),
        (Role(procs_per_task=2, kind=RoleKind.UNTRACKED), "roles.driver.procs_per_task"),
        (Role(after={"worker": AfterCondition.STARTED}, kind=RoleKind.UNTRACKED), "roles.driver.after"),
        (Role(), "roles.driver.kind"),
        (Role(kind=RoleKind.SETUP), "roles.driver.kind"),
        (Role(kind=RoleKind.UNTRACKED), None),
        (Role(kind=RoleKind.SIDECAR), None),
        (Role(instances=0), None),
    ],
)
def test_a_driver_that_cannot_be(driver: Role, key: str | None) -> None:
    """There is one, and it starts with those who need it."""
    problems = Horovod().validate(job(worker=Role(instances=2), driver=driver))
    assert [problem.key for problem in problems] == ([] if key is None else [key])


def test_a_list_that_is_too_long_is_refused_with_the_arithmetic(make_gang: GangMaker) -> None:
    """Linux would refuse the program without a word."""
    spec = job(worker=Role(instances=2))
    gang = make_gang(spec, {"worker": (f"{'h' * 140_000}:1", "b:1")})
    with pytest.raises(UserError, match=r"worker:0 cannot be started: CLUSTER_SPEC takes 140,"):
        gang.environments()
