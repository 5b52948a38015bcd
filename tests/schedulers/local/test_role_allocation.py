"""A job's claim, divided among containers."""

import pytest

from tony.model.job_spec import JobSpec, Resources, Role
from tony.schedulers.local.role_allocation import Grants


@pytest.fixture
def grants() -> Grants:
    """Three workers of 4 bytes and 1 GPU, two ps of 2 bytes; the claim holds 10 bytes and 2 GPUs."""
    roles = {
        "worker": Role(instances=3, resources=Resources(memory=4, gpus=1)),
        "ps": Role(instances=2, resources=Resources(memory=2)),
    }
    made = Grants(JobSpec(roles=roles, command="true"))
    made.admit(10, ("a", "b"))
    return made


def test_nothing_without_demand(grants: Grants) -> None:
    """What nobody wants nobody gets."""
    assert list(grants.take()) == []
    assert grants.shortage() == ""


def test_nothing_before_the_claim_is_granted() -> None:
    """Demand alone is not enough."""
    grants = Grants(JobSpec(command="true"))
    grants.want("main", 1)
    assert list(grants.take()) == []


def test_each_gets_devices_of_its_own(grants: Grants) -> None:
    """In the job's order, as many as there is room for, each once."""
    grants.want("ps", 1)
    grants.want("worker", 2)
    assert list(grants.take()) == [("worker", ("a",)), ("worker", ("b",)), ("ps", ())]
    assert list(grants.take()) == []
    assert grants.shortage() == ""


def test_shortage_is_said(grants: Grants) -> None:
    """A smaller role may still find room behind a larger one that does not."""
    grants.want("worker", 3)
    grants.want("ps", 2)
    assert list(grants.take()) == [("worker", ("a",)), ("worker", ("b",)), ("ps", ())]
    assert grants.shortage() == (
        "waiting: not enough resources in the job's claim for 1 of worker and 1 of ps (0 bytes of memory and 0 GPUs "
        "free) until containers of worker, ps end"
    )


def test_what_ends_makes_room(grants: Grants) -> None:
    """Memory and devices go round; a demand that stands is filled again."""
    grants.want("worker", 2)
    list(grants.take())
    grants.ended("worker", ("a",))
    assert list(grants.take()) == [("worker", ("a",))]
    grants.want("worker", 0)
    grants.ended("worker", ("b",))
    assert list(grants.take()) == []


def test_impossible_demand(grants: Grants) -> None:
    """More than the job said, or a role that it lacks, can never be had."""
    assert grants.impossible("worker", 3) == ""
    assert grants.impossible("worker", 4) == ("4 containers of worker requested, but the job's claim covers 3")
    assert grants.impossible("chief", 1) == "the job has no role chief"


@pytest.mark.parametrize("first", [True, False], ids=["adopted first", "admitted first"])
def test_what_was_granted_by_an_earlier_master_counts(first: bool) -> None:
    """Its memory and its devices are its own until it ends, whichever of the two is heard first."""
    roles = {"worker": Role(instances=3, resources=Resources(memory=4, gpus=1))}
    grants = Grants(JobSpec(roles=roles, command="true"))
    if first:
        grants.adopt("worker", ("b",))
    grants.admit(12, ("a", "b", "c"))
    if not first:
        grants.adopt("worker", ("b",))
    grants.want("worker", 3)
    assert list(grants.take()) == [("worker", ("a",)), ("worker", ("c",))]
    grants.ended("worker", ("b",))
    assert list(grants.take()) == [("worker", ("b",))]
