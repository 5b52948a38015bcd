"""A fresh user of the run's cluster for each test, and the proof that nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.yarn.lab import YarnLab, one_user
from tony.mini.cluster import MiniCluster


@pytest.fixture
def lab(cluster: MiniCluster) -> Iterator[YarnLab]:
    """One user with an empty home. After the test no process of an ended job may live, on any node."""
    with one_user(lambda folder: YarnLab(folder, cluster)) as made:
        yield made
