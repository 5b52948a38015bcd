"""Where the time of a real job went, over the death of its master, an ordered restart and steps done again."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.lab import Lab, kill, until
from tests.support.timelines import timeline
from tony.history.event_log import read, segments
from tony.history.goodput import ledger
from tony.history.job_record import record_of
from tony.history.metrics_reader import Metrics
from tony.history.timeline import MarkerKind
from tony.jobs.am_client import send_command
from tony.model.state_directory import Home
from tony.protocol.client_messages import RestartJob

pytestmark = pytest.mark.e2e

JOB = """
metrics_interval = "200ms"
[roles.worker]
instances = 2
command = "exec python train.py {go} {end}"
"""
#: The second time it begins at step 20; it warms up for a while each time.
TRAIN = """
import os, sys, time, tony
go, end = sys.argv[1:]
time.sleep(0.5)
step = 20 if os.path.exists(go) else 0
while not os.path.exists(end):
    step += 1
    tony.progress(step, total=10000)
    if step % 30 == 0:
        with tony.checkpoint(step):
            time.sleep(0.3)
    time.sleep(0.02)
"""


def test_the_time_of_a_job_is_accounted_for(lab: Lab) -> None:
    """Measuring continues across the death of an AM; the ledger has each of the job's phases."""
    go, end = lab.root / "go", lab.root / "end"
    job = lab.detach(lab.job_file(JOB.format(go=go, end=end), {"train.py": TRAIN}))
    home = Home(lab.home)
    folder = home.job(job)
    lab.wait(job, "running")

    def steps() -> dict[tuple[str, int], float]:
        with Metrics(folder.metrics) as metrics:
            return {(each.task, each.session): each.step for each in metrics.progress()}

    def has_saved() -> bool:
        with Metrics(folder.metrics) as metrics:
            return bool(metrics.checkpoints("worker:0"))

    until(has_saved, "a checkpoint is in the file while the job runs")
    kill(lab.masters(job)[0])
    until(lambda: lab.status(job)["attempt"] == 2 and lab.status(job)["state"] == "running", "the next master")
    go.touch()
    asyncio.run(send_command(folder, RestartJob(actor="ann")))
    until(lambda: lab.status(job)["session"] == 2 and lab.status(job)["state"] == "running", "the next session")
    before = max(step for (_, session), step in steps().items() if session == 1)
    until(lambda: steps().get(("worker:0", 2), 0) > before + 50, "it has made again what it had made")
    end.touch()
    assert lab.wait(job)["state"] == "succeeded"

    line = timeline(record_of(home, job), read(segments(folder.path)))
    with Metrics(folder.metrics) as metrics:
        found = ledger(line, metrics)
        told = [each for each in metrics.progress() if each.task == "worker:0"]
        saved = metrics.checkpoints("worker:0")
        first = metrics.points("worker:0", "cpu")
    assert line.doubt == ""
    assert {MarkerKind.ATTEMPT, MarkerKind.RESTART, MarkerKind.COMMAND} <= {mark.what for mark in line.marks}
    assert [(each.session, each.behind) for each in told] == [(1, False), (2, True)]
    assert told[1].regained is not None
    assert {each.session for each in saved} == {1, 2}
    assert min(first.at) < told[1].first_at
    seconds = {name: value or 0.0 for name, value in found.seconds.items()}
    assert seconds["warm-up"] >= 2 * 2 * 0.5
    assert seconds["checkpoint"] >= 2 * 2 * 0.3
    assert min(seconds["redone"], seconds["restart"], seconds["productive"]) > 0
    assert found.whole == pytest.approx(sum(seconds.values()))
    assert lab.tony("trace", job, "--json").returncode == 0
    assert "ann requested restart" in lab.tony("events", job).stdout
