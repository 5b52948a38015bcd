"""`tony exec` on a cluster: with TLS, through an AM in a container, recorded in HDFS before it starts."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.e2e.lab import CEILING, TONY, Lab, until
from tests.scenarios.conftest import only_on
from tony.linux.process import with_marker

pytestmark = pytest.mark.e2e

UP = "import os, time; open(os.environ['OUT'] + '/up', 'w'); time.sleep(3600)"


@only_on("yarn", "kubernetes", why="tests/e2e/test_remote_programs.py does the same and more on local")
def test_a_program_next_to_the_tasks_own(lab: Lab) -> None:
    """It has the task's environment and folder, carries data both ways, and ends with the job."""
    job = lab.detach(lab.roles(UP, "[roles.worker]\ninstances = 1\n", OWN="value"))
    lab.wait_wrote("up")
    data = os.urandom(1_000_001)
    command = ["bash", "-c", "test -e x.py && cat; echo $OWN $JOB_NAME:$TASK_INDEX >&2; exit 7"]
    done = subprocess.run(
        [TONY, "exec", job, "worker:0", "--", *command],
        input=data,
        env=lab.env,
        capture_output=True,
        timeout=CEILING,
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout == data) == (7, b"value worker:0\n", True)
    last = lab.follow("exec", job, "worker:0", "--", "bash", "-c", "trap '' TERM HUP; echo up; sleep 3601 & wait; wait")
    assert last.stdout is not None
    assert last.stdout.readline() == "up\n"
    lab.tony("kill", job)
    assert "ended" in last.communicate(timeout=CEILING)[1]
    lab.wait(job)
    until(lambda: not with_marker(f"TONY_TASK={job}/"), "nothing is left")
    assert [event["program"] for event in lab.events_of(job, "remote-program-requested")] == ["bash", "bash"]
