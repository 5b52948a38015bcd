"""A fresh user for each test, and the proof that nothing is left behind."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.lab import Lab


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """One user with an empty home. After the test no process of any of their jobs may live."""
    folder = Path(tempfile.mkdtemp(prefix="tony-e2e-"))
    lab = Lab(folder)
    try:
        yield lab
        for job in lab.jobs():
            if lab.status(job)["state"] in ("succeeded", "failed", "killed"):
                lab.wait_gone(job, 30)
    finally:
        lab.close()
        shutil.rmtree(folder, ignore_errors=True)
