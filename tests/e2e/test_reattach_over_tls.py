"""As if on other machines: everything over TLS, and no later application master is where the one before it was."""

from __future__ import annotations

import json

import pytest

from tests.e2e.lab import Lab
from tests.e2e.test_succession import counting, finish, kill_am, pids

pytestmark = pytest.mark.e2e


def test_executors_are_called_to_another_address(lab: Lab) -> None:
    """Twice over: the programs do not notice, and the last application master ends the job."""
    job = lab.detach(counting(lab, head='tls = "always"'))
    before = pids(lab, job)
    folder = lab.home / "jobs" / job
    addresses = {json.loads((folder / "am.json").read_text())["address"]}
    for attempt in (2, 3):
        assert kill_am(lab, job) == attempt
        assert pids(lab, job) == before
        addresses.add(json.loads((folder / "am.json").read_text())["address"])
    assert len(addresses) == 3
    assert {address.rpartition(":")[0] for address in addresses} == {"tls:127.0.0.1"}
    lab.wait_output(job, "worker:0", "line 60\n")
    finish(lab, job)
    assert "reattach request from AM attempt 3" in (folder / "logs" / "worker-0.executor.log").read_text()
