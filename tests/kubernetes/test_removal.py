"""Nothing is left of a job that has ended, was deleted, or never started; or whose client was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.change_detection import KUBERNETES
from tests.e2e.lab import CEILING, until
from tests.kubernetes.lab import KubernetesLab
from tony.kube.resources import JOBS

pytestmark = [pytest.mark.on_change(*KUBERNETES), pytest.mark.slow, pytest.mark.e2e]

OK = "print('done')"
FOREVER = "import os, time; open(os.environ['OUT'] + '/up', 'w'); time.sleep(3600)"
SHORT = ("--set", "scheduler.kubernetes.ttl=5s")
#: A `tony` that is killed before its request of this number that changes something in the cluster.
KILLED = """
import os, signal, sys
from tony.kube.http_connection import ApiConnections

left, request = [int(sys.argv.pop(1))], ApiConnections.request

def count(self, method, target, **options):
    left[0] -= method != "GET" and "dryRun" not in target and "selfsubject" not in target
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return request(self, method, target, **options)

ApiConnections.request = count
from tony.cli.main import main
sys.exit(main())
"""
#: More than a submission sends.
REQUESTS = 12


def wait_deleted(lab: KubernetesLab, job: str) -> None:
    """Wait until no object and no process is left of a job."""
    until(lambda: not lab.list_objects(job), f"nothing is left of {job}")
    lab.wait_removed(job)


def test_nothing_is_left_of_a_job(lab: KubernetesLab) -> None:
    """After its `ttl`; if its Job is deleted while it runs; if its AM never starts and it is killed.

    Who followed it keeps its history.
    """
    deleted = lab.detach(lab.roles(FOREVER))
    ended = lab.detach(lab.roles(OK), *SHORT)
    image = ("--set", "scheduler.kubernetes.image=tony.local/none:1")
    stuck = lab.detach(lab.roles(OK), *SHORT, *image)
    lab.wait_wrote("up")
    lab.client.delete(JOBS, deleted)
    assert lab.tony("kill", stuck).returncode == 0
    longer = ("--set", "scheduler.kubernetes.ttl=15s")  # the follower fetches the history before
    assert lab.tony("submit", str(lab.roles(OK)), *longer, *lab.options).returncode == 0
    (followed,) = {*lab.jobs()} - {deleted, ended, stuck}
    for job in (deleted, ended, stuck, followed):
        wait_deleted(lab, job)
    assert "session-opened" in lab.tony("events", followed).stdout
    status = lab.tony("status", deleted).stdout
    assert "its Job was removed from the cluster" in status
    assert "never started" not in status


def test_a_client_that_is_killed_leaves_a_job_that_is_known(lab: KubernetesLab) -> None:
    """Before any of its requests that change something. The job runs, or `tony kill` removes it."""
    job = lab.roles(OK)

    def submit(number: int) -> int:
        words = ("submit", str(job), "--detach", *lab.options)
        command = [sys.executable, "-c", KILLED, str(number), *words]
        return subprocess.run(
            command, env=lab.env, cwd=lab.root, capture_output=True, timeout=CEILING, check=False
        ).returncode

    with ThreadPoolExecutor(4) as pool:
        codes = [*pool.map(submit, range(1, REQUESTS + 1))]
    assert set(codes) == {-signal.SIGKILL, 0}
    assert codes[-1] == 0, "a submission needs more requests"
    known = lab.jobs()
    ends = set()
    for job_id in known:
        if lab.is_released(job_id):
            ends.add(lab.wait(job_id)["state"])
        else:
            assert lab.tony("kill", job_id).returncode == 0
            wait_deleted(lab, job_id)
            ends.add("removed")
    assert ends == {"succeeded", "removed"}
    assert [name for name in lab.list_objects() if not any(job_id in name for job_id in known)] == []
