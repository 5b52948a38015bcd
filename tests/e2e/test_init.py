"""What `tony init` writes runs at once."""

from __future__ import annotations

import pytest

from tests.e2e.lab import Lab
from tests.framework_envs import DEBIAN_PYTHON, has_torch
from tony.cli.starter_jobs import STARTER_JOBS

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    "framework",
    [name if name == "none" else pytest.param(name, marks=pytest.mark.slow) for name in STARTER_JOBS],
)
def test_it_runs(lab: Lab, framework: str) -> None:
    """Two workers fit the line; with PyTorch under the interpreter that has it."""
    if framework == "pytorch" and not has_torch():
        pytest.skip(f"{DEBIAN_PYTHON} has no torch; apt-get install python3-torch")
    written = lab.tony("init", "start", "--framework", framework)
    assert written.returncode == 0, written.stderr
    more = ["--set", f"python={DEBIAN_PYTHON}"] if framework == "pytorch" else []
    done = lab.submit(lab.root / "start" / "job.toml", *more)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "step 200/200" in done.stdout
    assert "y = 3.0" in done.stdout or "y = 2.9" in done.stdout
