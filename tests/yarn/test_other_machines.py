"""Jobs that are requested on a machine that did not submit them."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from tests.change_detection import CLUSTER
from tests.yarn.lab import YarnLab, user
from tests.yarn.test_bad_hdfs import web
from tony.hadoop import ids
from tony.hadoop.configuration import Configuration
from tony.hadoop.wire.application_client import ApplicationSubmissionContext
from tony.hadoop.wire.yarn_records import ContainerLaunchContext, Resource
from tony.schedulers.yarn.cluster_clients import ClusterClients

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.on_change(*CLUSTER)]


def test_a_job_with_its_own_staging_folder(lab: YarnLab) -> None:
    """It is found all the same, by the tag that names the folder; its owner's tags are there as well."""
    place = "/Projects/Bücher of ann"
    sets = ("--set", f"scheduler.yarn.staging={place}", "--set", "scheduler.yarn.tags=nightly")
    try:
        file = lab.job('command = "echo working; touch $OUT/up; while [ ! -e $OUT/gate ]; do sleep 0.05; done"\n')
        job = lab.detach(file, *sets)
        lab.wait_wrote("up")
        there = lab.elsewhere("there")
        assert there.wait(job, "running")["name"] == lab.status(job)["name"]
        assert "nightly" in lab.application(job)["applicationTags"]
        (lab.out / "gate").touch()
        assert there.wait(job)["state"] == "succeeded"
        late = lab.elsewhere("late")
        assert '"exited"' in late.tony("events", job, "--json").stdout
        assert "working" in late.tony("logs", job).stdout
        assert lab.wait(job)["state"] == "succeeded"
    finally:
        web(lab, "DELETE", "/Projects", "DELETE&recursive=true")


def test_applications_without_a_job_directory(lab: YarnLab) -> None:
    """A queued application is shown as YARN reports it; an unknown id is no job."""
    job = asyncio.run(_unmanaged(lab))
    try:
        done = lab.tony("status", job)
        assert done.returncode == 3, done.stdout + done.stderr
        assert f"{job} (bare, type OTHER) is ACCEPTED" in done.stderr
        assert "It has no history in hdfs://127.0.0.1:" in done.stderr
        assert f"/user/{user()}/.tony/jobs/{job} until its application master has started." in done.stderr
        done = lab.tony("kill", job)  # not of tony's type: it may be any application
        assert done.returncode == 3, done.stdout + done.stderr
    finally:
        asyncio.run(_kill(lab, job))
    done = lab.tony("logs", job)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "it ended before writing one, or is not a job of tony" in done.stderr
    done = lab.tony("status", f"{job}999")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "there is no job" in done.stderr
    assert lab.jobs() == []


def test_a_queued_job_killed_on_another_machine(lab: YarnLab) -> None:
    """A job that waits in a full queue can be killed without Hadoop's commands, on any machine."""
    job = asyncio.run(_unmanaged(lab, "TONY"))
    done = lab.elsewhere("there").tony("kill", job)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"Stopping job {job}, which had not started\n"
    assert lab.wait_application(job)["finalStatus"] == "KILLED"


def test_a_machine_with_a_wrong_clock(lab: YarnLab) -> None:
    """Two hours behind the cluster's: the job has all of its time, and its duration is right."""
    late = "import time\nreal = time.time\ntime.time = lambda: real() - 7200\n"
    lab.file("late/sitecustomize.py", late)
    job = lab.detach(
        lab.job('job_timeout = "10m"\ncommand = "true"\n'), env={"PYTHONPATH": str(lab.root / "project/late")}
    )
    assert json.loads((lab.home / "jobs" / job / "job.json").read_bytes())["submitted"] < time.time() - 7000
    status = lab.wait(job)
    assert status["state"] == "succeeded"
    assert status["ended"] - status["submitted"] < 600


async def _unmanaged(lab: YarnLab, kind: str = "OTHER") -> str:
    async with _cluster(lab).applications() as client:
        new = await client.request_new_application()
        assert new.id is not None
        context = ApplicationSubmissionContext(
            application_id=new.id,
            name="bare",
            queue="default",
            application_type=kind,
            unmanaged_am=True,
            am_container=ContainerLaunchContext(),
            resource=Resource(memory=128, vcores=1),
        )
        await client.submit(context)
        return ids.format_application(new.id)


async def _kill(lab: YarnLab, job: str) -> None:
    async with _cluster(lab).applications() as client:
        await client.kill(ids.parse_application_id(job), "not needed any longer")


def _cluster(lab: YarnLab) -> ClusterClients:
    return ClusterClients.from_configuration(Configuration.load(lab.cluster.conf, {}), {})
