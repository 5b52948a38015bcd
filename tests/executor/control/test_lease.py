"""How long an executor continues alone."""

import pytest

from tony.executor.control.lease import Lease


@pytest.mark.parametrize(
    ("length", "patience", "left_if_gone", "left_if_unknown"),
    [(0.0, 60.0, 0.0, 50.0), (30.0, 60.0, 20.0, 50.0), (90.0, 60.0, 80.0, 80.0), (5.0, 5.0, 0.0, 0.0)],
)
def test_the_lease_ends_sooner_without_a_listener(
    length: float, patience: float, left_if_gone: float, left_if_unknown: float
) -> None:
    """Ten seconds after the last contact; the patience is never shorter than the lease."""
    lease = Lease(length, patience, now=100.0)
    lease.renew(200.0)
    lease.renew(150.0)  # late news change nothing
    assert lease.compute_time_left(210.0, no_listener=True) == left_if_gone
    assert lease.compute_time_left(210.0, no_listener=False) == left_if_unknown


def test_a_renewal_is_requested_after_a_tenth_of_the_term() -> None:
    """Ten thousand executors with ten minutes each cost their application master 170 answers a second."""
    lease = Lease(600.0, 60.0, now=0.0)
    assert not lease.needs_renewal(59.0)
    assert lease.needs_renewal(61.0)
    lease.renew(30.0)
    assert not lease.needs_renewal(61.0)
