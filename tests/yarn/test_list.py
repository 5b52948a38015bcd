"""The jobs of a real cluster in one list."""

from __future__ import annotations

import getpass
import json
from typing import Any

import pytest

from tests.change_detection import CLUSTER
from tests.yarn.lab import YarnLab

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def _listed(lab: YarnLab, *arguments: str) -> dict[str, dict[str, Any]]:
    done = lab.tony("list", "--scheduler", "yarn", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return {each["job"]: each for each in json.loads(done.stdout)}


@pytest.mark.on_change(*CLUSTER, "jobs")
def test_from_everywhere(lab: YarnLab) -> None:
    """A home that knows no job sees those of the cluster, as they stand and how they ended; filters hold."""
    good = lab.detach(lab.job('name = "good"\ncommand = "true"\n'))
    bad = lab.detach(lab.job('name = "bad"\ncommand = "exit 7"\n', name="bad.toml"))
    long = lab.detach(lab.job('name = "long"\ncommand = "touch $OUT/long; sleep 3600"\n', name="long.toml"))
    lab.wait(good), lab.wait(bad), lab.wait_wrote("long")
    lab.wait_application(good), lab.wait_application(bad)
    there = lab.elsewhere("other")
    seen = _listed(there)
    facts = {job: [seen[job][key] for key in ("name", "state", "exit_code", "user")] for job in (good, bad, long)}
    user = getpass.getuser()
    assert facts == {
        good: ["good", "succeeded", 0, user],
        bad: ["bad", "failed", 1, user],
        long: ["long", "running", None, user],
    }
    assert seen[good]["submitted"] < seen[good]["ended"]
    assert "exit code 7" in seen[bad]["reason"]
    assert set(_listed(there, "--name", "lo*", "--state", "running")) >= {long}
    assert not {good, bad, long} & set(_listed(there, "--user", "eve"))
    assert {good, bad, long} <= set(_listed(lab))
    assert _listed(lab)[good]["tasks"] == 1
    assert json.loads(there.tony("list", "--json").stdout) == []
    page = there.tony("list", "--scheduler", "yarn").stdout
    assert any(line.startswith(long) and "running" in line for line in page.splitlines()), page
    assert lab.tony("kill", long, "--now").returncode == 0
    lab.wait(long)


def test_no_cluster(lab: YarnLab) -> None:
    """It is said what is missing, where to set it; a scheduler that is none is refused with those that there are."""
    there = lab.elsewhere("other")
    done = there.tony("list", "--scheduler", "yarn", env={"HADOOP_CONF_DIR": ""})
    assert done.returncode == 3, done.stdout + done.stderr
    assert "no YARN cluster is configured: HADOOP_CONF_DIR is not set" in done.stderr
    done = there.tony("list", "--scheduler", "slurm")
    assert done.returncode == 2
    assert "unknown scheduler 'slurm'; known: local, yarn" in done.stderr
