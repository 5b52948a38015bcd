"""A fresh user of the run's cluster for each test, and the proof that nothing is left behind."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.yarn.lab import ENDED, YarnLab, user
from tony.mini.cluster import Cluster


@pytest.fixture
def lab(cluster: Cluster) -> Iterator[YarnLab]:
    """One user with an empty home. After the test no process of an ended job may live, on any node."""
    folder = Path(tempfile.mkdtemp(prefix="tony-yarn-"))
    lab = YarnLab(folder, cluster)
    try:
        yield lab
        prove_clean(lab)
    finally:
        lab.close()
        shutil.rmtree(folder, ignore_errors=True)


def prove_clean(lab: YarnLab) -> None:
    """Of jobs that have ended there is nothing: no process, no secret, no half-written file."""
    for job in lab.jobs():
        if lab.status(job)["state"] in ENDED:
            lab.wait_application(job)
            lab.wait_gone(job)
            assert not (lab.home / "jobs" / job / "secret").exists()
            assert "access.json" not in lab.listed(f"/user/{user()}/.tony/jobs/{job}")
