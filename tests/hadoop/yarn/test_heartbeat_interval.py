"""How often the heartbeat goes out."""

from __future__ import annotations

import pytest

from tony.hadoop.yarn.heartbeat_interval import HeartbeatInterval


@pytest.mark.parametrize(
    ("since_change", "wanting", "expected"),
    [
        (0.0, True, 0.02),
        (0.9, True, 0.02),
        (1.0, True, 0.05),
        (5.0, True, 0.05),
        (10.0, True, 0.1),
        (50.0, True, 0.5),
        (3600.0, True, 1.0),
        (0.0, False, 0.05),
        (1.9, False, 0.05),
        (2.0, False, 1.0),
        (float("inf"), False, 1.0),
        (float("inf"), True, 1.0),
    ],
)
def test_intervals(since_change: float, wanting: bool, expected: float) -> None:
    """Fast after a change and while something is to come; slower the longer it does not come."""
    assert HeartbeatInterval().compute_interval(since_change, wanting=wanting) == pytest.approx(expected)
