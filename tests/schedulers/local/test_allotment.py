"""A claim, divided among containers."""

from tony.model.job import Resources
from tony.schedulers.local.allotment import Allotment


def test_takes_until_nothing_is_left() -> None:
    """Each gets devices of its own; who finds too little gets nothing at all."""
    allotment = Allotment(10, ("a", "b", "c"))
    assert allotment.take(Resources(memory=4, gpus=2)) == ("a", "b")
    assert allotment.take(Resources(memory=4, gpus=2)) is None
    assert allotment.take(Resources(memory=7, gpus=1)) is None
    assert allotment.take(Resources(memory=6, gpus=0)) == ()
    assert allotment.describe_free() == "0 bytes of memory and 1 GPU"


def test_what_comes_back_can_be_taken_again() -> None:
    """Memory and devices go round."""
    allotment = Allotment(10, ("a",))
    assert allotment.take(Resources(memory=10, gpus=1)) == ("a",)
    allotment.give_back(10, ("a",))
    assert allotment.take(Resources(memory=10, gpus=1)) == ("a",)
