"""The application master is ended from outside: what is told, and that nothing of the job lives on."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.change_detection import CLUSTER, RUNTIME
from tests.e2e.lab import FAMILY
from tests.yarn.lab import CEILING, YarnLab
from tony.hadoop import ids
from tony.hadoop.configuration import Configuration
from tony.schedulers.yarn.cluster_clients import ClusterClients

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_killed_through_yarn(lab: YarnLab) -> None:
    """As `yarn application -kill` does it: the job was killed, in YARN's words."""
    job = lab.detach(lab.roles(FAMILY))
    lab.wait_wrote("0")
    asyncio.run(_kill(lab, job))
    status = lab.wait(job)
    assert (status["state"], status["exit_code"]) == ("killed", 4)
    assert "killed by hand" in status["failure"]["reason"]
    lab.wait_removed(job)


@pytest.mark.on_change(*CLUSTER, *RUNTIME)
def test_its_lifetime_is_over(lab: YarnLab) -> None:
    """YARN ends it then: a time-out with its setting and place, although its master was up."""
    done = lab.submit(lab.roles(FAMILY, head='[scheduler.yarn]\nlifetime = "15s"'))
    assert done.returncode == 1, done.stderr
    assert re.search(r"lifetime of 15 s \(scheduler\.yarn\.lifetime, \S*job\.toml:\d+\)", done.stderr), done.stderr
    assert "SIGTERM" not in done.stderr, done.stderr
    job = lab.only_job()
    status = lab.status(job)
    assert (status["state"], status["exit_code"], status["failure"]["cause"]) == ("failed", 1, "lifetime")
    lab.wait_removed(job)


async def _kill(lab: YarnLab, job: str) -> None:
    cluster = ClusterClients.from_configuration(Configuration.load(lab.cluster.conf, {}), {})
    async with cluster.applications() as client:
        await client.kill(ids.parse_application_id(job), "killed by hand")


@pytest.mark.on_change(*CLUSTER, *RUNTIME)
def test_given_up_by_yarn(lab: YarnLab) -> None:
    """As when the AM's node is lost: no user killed the job, the cluster failed it, and the outcome says so."""
    job = lab.detach(lab.roles(FAMILY), "--set", "am_attempts=1")
    lab.wait_wrote("0")
    follower = lab.follow("logs", job, "--follow")
    assert lab.give_up(job).returncode == 0
    status = lab.wait(job)
    assert (status["state"], status["exit_code"], status["failure"]["cause"]) == ("failed", 3, "am-lost")
    assert lab.elsewhere("there").status(job)["exit_code"] == 3
    assert "killed" not in follower.communicate(timeout=CEILING)[1]
    lab.wait_removed(job)
