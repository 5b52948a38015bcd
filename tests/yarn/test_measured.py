"""What was measured on a real cluster: in HDFS while the job runs, with the next master, and here in the end."""

from __future__ import annotations

import pytest

from tests.e2e.lab import kill
from tests.yarn.lab import YarnLab, until, user
from tony.history.metrics_reader import Metrics, open_metrics
from tony.model.layout import Home

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.on_change("hadoop", "schedulers", "mini")]

PROGRAM = """
import os, time, tony
step, last = 0, None
while last is None or step < last:
    step += 1
    tony.progress(step, loss=1 / step)
    time.sleep(0.05)
    if last is None and os.path.exists(f"{os.environ['OUT']}/go"):
        last = step + 20
with open(f"{os.environ['OUT']}/last", "w") as file:
    print(step, file=file)
"""


def measured(lab: YarnLab, job: str) -> Metrics:
    """What is here of it."""
    return open_metrics(Home(lab.home).job(job).metrics)


def test_measurements_come_here(lab: YarnLab) -> None:
    """They outlive the master that heard them, and lie in the job's folder when it has ended, wherever one looks."""
    job = lab.detach(lab.roles(PROGRAM, head='metrics_interval = "500ms"'))
    there = f"/user/{user()}/.tony/jobs/{job}"
    until(lambda: "metrics.db" in lab.listed(there), "the first of it is in HDFS")
    assert lab.tony("events", job).returncode == 0  # brings what is new
    with measured(lab, job) as metrics:
        early = metrics.points("worker:0", "rss")
        assert early.at
    kill(lab.master_of(job))
    until(lambda: lab.status(job)["attempt"] == 2 and lab.status(job)["state"] == "running", "the next master")
    (lab.out / "go").touch()
    assert lab.wait(job)["state"] == "succeeded"
    for each in (lab, lab.elsewhere("there")):
        assert each.tony("events", job).returncode == 0
        with measured(each, job) as metrics:
            assert metrics.points("worker:0", "rss").at[0] <= early.at[0] + early.every
            (told,) = metrics.progress()
            assert (told.first_step, told.session) == (1.0, 1)
            assert told.step == float((lab.out / "last").read_text())
            assert "user.loss" in metrics.series()
