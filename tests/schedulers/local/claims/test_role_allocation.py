"""A job's claim, divided among containers."""

import pytest

from tests.facts import mentions
from tony.model.job_spec import JobSpec, Resources, Role
from tony.schedulers.local.claims.role_allocation import RoleAllocation


@pytest.fixture
def allocation() -> RoleAllocation:
    """Three workers of 4 bytes and 1 GPU, two ps of 2 bytes; the claim holds 10 bytes and 2 GPUs."""
    roles = {
        "worker": Role(instances=3, resources=Resources(memory=4, gpus=1)),
        "ps": Role(instances=2, resources=Resources(memory=2)),
    }
    made = RoleAllocation(JobSpec(roles=roles, command="true"))
    made.enlarge(10, ("a", "b"))
    return made


def test_nothing_without_demand(allocation: RoleAllocation) -> None:
    """A role without demand gets no resources."""
    assert list(allocation.allocate()) == []
    assert allocation.find_pending_reason() == ""


def test_nothing_before_the_claim_is_granted() -> None:
    allocation = RoleAllocation(JobSpec(command="true"))
    allocation.set_demand("main", 1)
    assert list(allocation.allocate()) == []


def test_each_gets_devices_of_its_own(allocation: RoleAllocation) -> None:
    """In the job's order, as many as there is room for, each once."""
    allocation.set_demand("ps", 1)
    allocation.set_demand("worker", 2)
    assert list(allocation.allocate()) == [("worker", ("a",)), ("worker", ("b",)), ("ps", ())]
    assert list(allocation.allocate()) == []
    assert allocation.find_pending_reason() == ""


def test_missing_resources_are_reported(allocation: RoleAllocation) -> None:
    """A smaller role may still find room behind a larger one that does not."""
    allocation.set_demand("worker", 3)
    allocation.set_demand("ps", 2)
    assert list(allocation.allocate()) == [("worker", ("a",)), ("worker", ("b",)), ("ps", ())]
    assert mentions(allocation.find_pending_reason(), "0 bytes", "0 GPUs", "1 of worker", "1 of ps")


def test_a_release_makes_room(allocation: RoleAllocation) -> None:
    """Memory and devices are reused; an open demand is filled again."""
    allocation.set_demand("worker", 2)
    list(allocation.allocate())
    allocation.release("worker", ("a",), 4)
    assert list(allocation.allocate()) == [("worker", ("a",))]
    allocation.set_demand("worker", 0)
    allocation.release("worker", ("b",), 4)
    assert list(allocation.allocate()) == []


def test_impossible_demand(allocation: RoleAllocation) -> None:
    """More than the job said, or a role that it lacks, can never be had."""
    assert allocation.explain_impossible("worker", 3) == ""
    assert mentions(allocation.explain_impossible("worker", 4), "4 containers", "worker", "3")
    assert allocation.explain_impossible("chief", 1) == "the job has no role chief"


@pytest.mark.parametrize("first", [True, False], ids=["adopted first", "admitted first"])
def test_containers_of_an_earlier_am_keep_their_resources(first: bool) -> None:
    """Until they end, whichever of the two is reported first."""
    roles = {"worker": Role(instances=3, resources=Resources(memory=4, gpus=1))}
    allocation = RoleAllocation(JobSpec(roles=roles, command="true"))
    if first:
        allocation.add_recovered("worker", ("b",), 4)
    allocation.enlarge(12, ("a", "b", "c"))
    if not first:
        allocation.add_recovered("worker", ("b",), 4)
    allocation.set_demand("worker", 3)
    assert list(allocation.allocate()) == [("worker", ("a",)), ("worker", ("c",))]
    allocation.release("worker", ("b",), 4)
    assert list(allocation.allocate()) == [("worker", ("b",))]


def test_raised_memory_counts_for_further_containers(allocation: RoleAllocation) -> None:
    """Containers that were granted before return what they had."""
    allocation.set_demand("ps", 1)
    assert list(allocation.allocate()) == [("ps", ())]
    allocation.set_memory("ps", 9)
    allocation.set_demand("ps", 2)
    assert list(allocation.allocate()) == []
    allocation.release("ps", (), 2)
    assert (list(allocation.allocate()), allocation.get_memory("ps")) == ([("ps", ())], 9)
    assert mentions(allocation.find_pending_reason(), "1 of ps", "1 bytes")
