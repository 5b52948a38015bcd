"""A fresh user of the run's cluster for each test, and the proof that nothing is left behind."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.yarn.lab import ENDED, YarnLab, user
from tony.mini.cluster import MiniCluster

Made = TypeVar("Made", bound=YarnLab)


@pytest.fixture
def lab(cluster: MiniCluster) -> Iterator[YarnLab]:
    """One user with an empty home. After the test no process of an ended job may live, on any node."""
    with one_user(lambda folder: YarnLab(folder, cluster)) as made:
        yield made


@contextmanager
def one_user(make: Callable[[Path], Made]) -> Iterator[Made]:
    """A user in a folder of their own; what they have done is proved to be clean, and removed."""
    folder = Path(tempfile.mkdtemp(prefix="tony-yarn-"))
    lab = make(folder)
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
