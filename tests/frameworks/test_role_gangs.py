"""One rank order over all tasks that compute together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tony.frameworks.ranks import (
    RoleRanks,
    compute_roles,
    local_rank_variables,
    place_of,
    places,
    roles_together,
    to_shared,
)
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec, JobSpec, Role
from tony.model.setting_choices import AfterCondition, RoleKind

if TYPE_CHECKING:
    from tests.frameworks.conftest import GangMaker

ROLE_NAMES = ("alpha", "chief", "worker", "evaluator", "tensorboard", "omega")


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    """Jobs of several roles, in any order, some of which wait for another."""
    names = draw(st.lists(st.sampled_from(ROLE_NAMES), min_size=1, unique=True))
    roles = {}
    for number, name in enumerate(names):
        earlier = draw(st.lists(st.sampled_from(names[:number]), max_size=2, unique=True)) if number else []
        after = {other: draw(st.sampled_from(AfterCondition)) for other in earlier}
        roles[name] = Role(
            instances=draw(st.integers(1, 4)),
            procs_per_task=draw(st.integers(1, 3)),
            kind=draw(st.sampled_from(RoleKind)),
            after=after,
        )
    return JobSpec(roles=roles)


def cluster_of(spec: JobSpec) -> ClusterSpec:
    addresses = {
        name: tuple(f"{name}{index}:1" for index in range(role.instances))
        for name, role in spec.effective_roles.items()
    }
    return ClusterSpec(session=1, version=1, roles=addresses)


@given(specs())
def test_ranks_are_a_permutation(spec: JobSpec) -> None:
    """In every group the ranks are 0 to W - 1, each once, and rank 0 listens at the coordinator's address."""
    cluster = cluster_of(spec)
    found = places(spec, cluster)
    for group in roles_together(spec):
        roles = compute_roles(group)
        ranks: dict[int, str] = {}
        tasks: list[int] = []
        for name, role in roles.items():
            for index in range(role.instances):
                tasks.append(found[name].first_task + index)
                for process in range(role.procs_per_task):
                    rank = found[name].first_rank + index * role.procs_per_task + process
                    assert rank not in ranks
                    ranks[rank] = cluster.roles[name][index]
        assert sorted(tasks) == list(range(len(tasks)))
        for name in roles:
            assert found[name].world == len(ranks)
            assert sorted(ranks) == list(range(len(ranks)))
            assert found[name].coordinator == ranks[0]
        for name in group.keys() - roles.keys():
            assert name not in found


@given(specs())
def test_rank_0_is_the_chief_where_it_computes(spec: JobSpec) -> None:
    """The chief's role comes first, the others keep the job's order."""
    found = places(spec, cluster_of(spec))
    if spec.chief and spec.chief.role in found:
        assert found[spec.chief.role].first_rank == 0
    others = [name for name in spec.roles if name in found and spec.chief and name != spec.chief.role]
    for group in roles_together(spec):
        firsts = [found[name].first_rank for name in others if name in group]
        assert firsts == sorted(firsts)


def test_order_of_roles_without_a_chief() -> None:
    """Without chief and worker the first role of the job leads."""
    spec = JobSpec(roles={"b": Role(instances=2), "a": Role(procs_per_task=3)})
    assert places(spec, cluster_of(spec)) == {
        "b": RoleRanks(coordinator="b0:1", world=5, first_rank=0, first_task=0),
        "a": RoleRanks(coordinator="b0:1", world=5, first_rank=2, first_task=2),
    }


def test_first_worker_leads_without_a_chief() -> None:
    """As in LinkedIn TonY, whose rendezvous was at worker:0."""
    spec = JobSpec(roles={"loader": Role(), "worker": Role(instances=2)})
    found = places(spec, cluster_of(spec))
    assert found["worker"].first_rank == 0
    assert found["loader"] == RoleRanks(coordinator="worker0:1", world=3, first_rank=2, first_task=2)


def test_later_roles_have_an_order_of_their_own() -> None:
    """Those that start after the workers do not count them, whether these still run or not."""
    after = {"worker": AfterCondition.STARTED}
    spec = JobSpec(roles={"worker": Role(instances=3), "probe": Role(instances=2, after=after)})
    assert places(spec, cluster_of(spec))["probe"] == RoleRanks(
        coordinator="probe0:1", world=2, first_rank=0, first_task=0
    )


def test_half_a_group_has_no_places() -> None:
    """When one role of a group has ended, the other cannot meet it any longer."""
    spec = JobSpec(roles={"worker": Role(), "helper": Role(), "late": Role(after={"helper": AfterCondition.ENDED})})
    cluster = ClusterSpec(session=1, version=2, roles={"worker": ("worker0:1",), "late": ("late0:1",)})
    assert list(places(spec, cluster)) == ["late"]


def test_shared_value_survives_the_wire() -> None:
    """What the application master made of it, an executor reads."""
    spec = JobSpec(roles={"worker": Role(instances=2), "evaluator": Role()})
    found = places(spec, cluster_of(spec))
    shared = json.loads(json.dumps(to_shared(found)))
    assert place_of(shared, "worker") == found["worker"]
    assert place_of(shared, "evaluator") is None
    assert place_of(None, "worker") is None


def test_shared_value_does_not_grow_with_tasks() -> None:
    """A barrier of N tasks costs O(N): 10,000 tasks are told no more than 10."""
    small, large = (JobSpec(roles={"chief": Role(), "worker": Role(instances=n)}) for n in (9, 9_999))
    sizes = [len(json.dumps(to_shared(places(spec, cluster_of(spec))))) for spec in (small, large)]
    assert sizes[1] - sizes[0] < 20


def test_several_processes_have_numbers(make_gang: GangMaker) -> None:
    """Also where there are no ranks; a lone process is told nothing."""
    gang = make_gang(JobSpec(roles={"a": Role(procs_per_task=2), "b": Role()}))
    assert local_rank_variables(gang.view(TaskId("a", 0))) == [
        {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"},
        {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
    ]
    assert local_rank_variables(gang.view(TaskId("b", 0))) == [{}]
