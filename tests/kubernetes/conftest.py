"""A fresh user of the run's real cluster for each test that wants one, and the proof that nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.lab import one_user
from tests.kubernetes.lab import KubernetesLab
from tony.mini.kubernetes.cluster import KubernetesCluster


@pytest.fixture
def lab(kubernetes: KubernetesCluster) -> Iterator[KubernetesLab]:
    """One user with an empty home and a namespace of their own."""
    with one_user(lambda folder: KubernetesLab(folder, kubernetes)) as made:
        yield made
